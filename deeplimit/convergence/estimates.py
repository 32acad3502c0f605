"""From a run's moments to errors with their joint uncertainty, the reference's own error taken out."""

from __future__ import annotations

import math

import numpy as np
import torch

from deeplimit.convergence.pairing import Correction, Pairing
from deeplimit.coupling import Moments, Task
from deeplimit.inference.power_law import ErrorEstimates


def layer_estimates(task: Task, pairing: Pairing, moments: Moments, reference_error: float) -> ErrorEstimates:
    """Return the errors in the task's norm, over each depth's layers."""
    m = len(task.grid.depths)
    apart = 4 * m if task.norm == "final" else 4 * m + 1
    correction = pairing.correction_in(task.statistic)
    return _estimates(task, pairing, moments, 0, correction, apart, reference_error)


def common_estimates(
    task: Task, pairing: Pairing, moments: Moments, reference_error: float
) -> ErrorEstimates:
    """Return the errors over the times that all depths share."""
    m = len(task.grid.depths)
    return _estimates(task, pairing, moments, m, pairing.correction, 4 * m, reference_error)


def _estimates(
    task: Task,
    pairing: Pairing,
    moments: Moments,
    first: int,
    correction: Correction,
    apart: int,
    reference_error: float,
) -> ErrorEstimates:
    """Return the errors of the m columns from `first` on.

    Where the reference is solved twice, the errors against the coarse solution are 2m columns later. `apart`
    is the column with the distance of the two solutions.
    """
    m = len(task.grid.depths)
    columns = np.arange(first, first + m)
    log_errors, covariance = moments.log_errors(), moments.relative_covariance()
    if correction is Correction.MEASURED:
        both = np.concatenate([columns, columns + 2 * m, [apart]])
        corrected = without_reference_error(log_errors[both], covariance[np.ix_(both, both)], pairing.surplus)
    else:
        corrected = log_errors[columns], covariance[np.ix_(columns, columns)]
    regime = pairing.regime
    return ErrorEstimates(
        np.array(task.grid.depths),
        *corrected,
        log_bias(task) if correction is Correction.KNOWN else np.zeros(m),
        moments.count,
        float(moments.kurtosis()[columns].max()),
        regime.corrections,
        regime.second_orders,
        regime.interfere,
        reference_error,
        regime.hides,
    )


def log_bias(task: Task) -> np.ndarray:
    """Return log of the factor (m,) by which an Euler reference on the same path shrinks each error.

    docs/statistics.md: of c²/L the squared reference error c² Σ Δ_i² is missing, Δ_i the reference's steps.
    """
    depths = np.array(task.grid.depths, dtype=float)
    shrink: np.ndarray = 0.5 * np.log1p(-depths * task.grid.sum_of_squared_steps)
    return shrink


def without_reference_error(
    log_errors: np.ndarray, covariance: np.ndarray, surplus: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return log errors (m,) and their covariance (m, m) with the reference's error taken out.

    This is Richardson extrapolation of squares. Given are log errors (2m + 1,) and their covariance: against
    the fine and the coarse solution, and last the distance of the two. The coarse one has steps twice as
    large everywhere. The noise's part of squared errors is linear in the step, whatever the limit. So e² = 2
    e²_fine - e²_coarse. For a scheme of a better order, `surplus` times the squared distance remains
    (docs/theorems/young.md). Both solutions read the same path, so differences are known far better than
    either.
    """
    m = len(log_errors) // 2
    scale = log_errors[: 2 * m].max()
    if not np.isfinite(scale):  # every path was lost
        return log_errors[:m], covariance[:m, :m]
    squares = np.exp(2 * (log_errors - scale))
    fine, coarse, apart = squares[:m], squares[m : 2 * m], surplus * squares[-1]
    # Beyond this the correction would be most of the result; the report says so.
    square = np.clip(2 * fine - coarse + apart, fine / 4, 4 * fine)
    change = np.concatenate(
        [np.diag(2 * fine / square), np.diag(-coarse / square), (apart / square)[:, None]], axis=1
    )
    return 0.5 * np.log(square) + scale, change @ np.nan_to_num(covariance) @ change.T


def rounding(task: Task) -> float:
    """Return the size that round-off reaches: one unit in the last place per layer, added at random."""
    size = 4.0 * (1.0 if task.h0 is None else float(task.h0.double().square().mean().sqrt()))
    return float(torch.finfo(task.dtype).eps * size * math.sqrt(task.grid.depths[-1] * task.network.width))


def corrected(estimates: ErrorEstimates, diverged: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return errors and standard errors (m,); infinite where a path was lost, zero where nothing differs."""
    with np.errstate(over="ignore"):
        errors = np.where(diverged > 0, np.inf, np.exp(estimates.log_errors - estimates.log_bias))
    relative = np.sqrt(np.nan_to_num(np.diag(estimates.covariance)))
    finite = np.isfinite(errors)
    return errors, np.where(finite, np.where(finite, errors, 0.0) * relative, np.inf)
