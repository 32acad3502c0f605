"""From a run's moments to errors with their joint uncertainty, the reference's own error taken out."""

from __future__ import annotations

import math

import numpy as np
import torch

from deeplimit.judge.convergence.pairing import Correction, Pairing
from deeplimit.simulation import Coupled, Task, error_accumulator
from deeplimit.statistics.power_law import NO_SAMPLING_NOISE, ErrorEstimates
from deeplimit.theory import Regime

SCHEME = Regime("scheme", None, 0.5, "pathwise", "the limit's own scheme on each depth's layers.")
"""How the errors of a limit's own scheme expand."""


def layer_estimates(task: Task, pairing: Pairing, coupled: Coupled) -> ErrorEstimates:
    """Return the errors in the task's norm, over each depth's layers."""
    at_all_times = pairing.correction_in(task.statistic)
    others = error_accumulator.COARSE_LAYERS if task.measures_reference else error_accumulator.GAP_LAYERS
    return _whole(task, pairing, coupled, error_accumulator.LAYERS, others, at_all_times)


def common_estimates(task: Task, pairing: Pairing, coupled: Coupled) -> ErrorEstimates:
    """Return the errors over the times that all depths share."""
    others = error_accumulator.COARSE_COMMON if task.measures_reference else error_accumulator.GAP_COMMON
    return _whole(task, pairing, coupled, error_accumulator.COMMON, others, pairing.correction)


def half_estimates(task: Task, pairing: Pairing, coupled: Coupled) -> ErrorEstimates:
    """Return the errors at the common times in the norm of half the power, which has lighter tails.

    Two solutions of a reference are extrapolated in squares only: their errors stay in the task's norm.
    """
    if task.measures_reference:
        return common_estimates(task, pairing, coupled)
    known = pairing.correction is Correction.KNOWN
    bias = log_bias(task, 0.5) if known else np.zeros(len(task.grid.depths))
    return _estimates(
        task, pairing, coupled, *_halves(task, coupled, error_accumulator.HALF), bias, pairing.regime
    )


def scheme_estimates(task: Task, pairing: Pairing, coupled: Coupled, *, half: bool) -> ErrorEstimates:
    """Return the errors of the limit's own scheme on each depth's layers, at the times that all share."""
    found = (
        _halves(task, coupled, error_accumulator.SCHEME_HALF)
        if half
        else _at(task, coupled, error_accumulator.SCHEME_COMMON)
    )
    bias = log_bias(task, pairing.scheme_rate, pairing.scheme_coherence)
    return _estimates(task, pairing, coupled, *found, bias, SCHEME, is_euler=not pairing.is_measured)


def gap_estimates(task: Task, pairing: Pairing, coupled: Coupled, *, half: bool) -> ErrorEstimates:
    """Return the distances of the network and that scheme, into which no reference enters."""
    found = (
        _halves(task, coupled, error_accumulator.GAP_HALF)
        if half
        else _at(task, coupled, error_accumulator.GAP_COMMON)
    )
    return _estimates(task, pairing, coupled, *found, np.zeros(len(task.grid.depths)), pairing.gap)


Found = tuple[np.ndarray, np.ndarray, float]
"""Log errors (m,), their covariance (m, m), and the largest kurtosis of the per-path errors."""


def _at(task: Task, coupled: Coupled, block: str) -> Found:
    columns, moments = error_accumulator.Columns.of(task).at(block), coupled.moments
    covariance = moments.relative_covariance()[np.ix_(columns, columns)]
    return moments.log_errors()[columns], covariance, float(moments.kurtosis()[columns].max())


def _halves(task: Task, coupled: Coupled, block: str) -> Found:
    """Return the same of roots, as errors: (E s^{p/2})^{2/p} where s^{1/2} was averaged."""
    logs, covariance, kurtosis = _at(task, coupled, block)
    return 2.0 * logs, 4.0 * covariance, kurtosis


def _whole(
    task: Task, pairing: Pairing, coupled: Coupled, block: str, others: str, correction: Correction
) -> ErrorEstimates:
    """Return the distances of network and limit, the reference's own error taken out.

    `others` are the distances to the coarser solution, or to the limit's scheme, where there are such.
    """
    log_errors, covariance, kurtosis = _at(task, coupled, block)
    logs, covariances = coupled.moments.log_errors(), coupled.moments.relative_covariance()
    columns, bias = error_accumulator.Columns.of(task), np.zeros(len(log_errors))
    if correction is Correction.KNOWN:
        bias = log_bias(task, 0.5)
    elif correction is Correction.OF_SCHEME:
        both = np.concatenate([columns.at(block), columns.at(others)])
        log_errors, covariance = with_whole_scheme_error(
            logs[both],
            covariances[np.ix_(both, both)],
            log_bias(task, pairing.scheme_rate, pairing.scheme_coherence),
        )
    elif correction is Correction.MEASURED:
        apart = columns.apart + (block == error_accumulator.LAYERS and task.norm != "final")
        both = np.concatenate([columns.at(block), columns.at(others), [apart]])
        log_errors, covariance = without_reference_error(
            logs[both], covariances[np.ix_(both, both)], pairing.surplus
        )
    return _estimates(task, pairing, coupled, log_errors, covariance, kurtosis, bias, pairing.regime)


def _estimates(
    task: Task,
    pairing: Pairing,
    coupled: Coupled,
    log_errors: np.ndarray,
    covariance: np.ndarray,
    kurtosis: float,
    bias: np.ndarray,
    regime: Regime,
    *,
    is_euler: bool | None = None,
) -> ErrorEstimates:
    """Return the estimates; unless said, errors are those of an Euler scheme where theory corrects them."""
    known = pairing.correction is Correction.KNOWN
    if pairing.exact:  # given the inputs, another run gives the same numbers
        covariance, kurtosis = np.zeros_like(covariance), 0.0
    return ErrorEstimates(
        np.array(task.grid.depths),
        log_errors,
        covariance,
        bias,
        NO_SAMPLING_NOISE if pairing.exact else coupled.moments.count,
        kurtosis,
        regime.corrections,
        regime.second_orders,
        regime.interfere,
        coupled.reference_error,
        regime.hides,
        known if is_euler is None else is_euler,
    )


def log_bias(task: Task, order: float, coherence: float = 0.0) -> np.ndarray:
    """Return log of the factor (m,) by which a reference of the same scheme shrinks each of its errors.

    docs/statistics.md: of c²/L the squared reference error c² Σ Δ_i² is missing, Δ_i the reference's steps.
    A step of length Δ adds c² Δ^{1 + 2·order}, whatever the order, where steps add independent errors. Of a
    share `coherence` of the square, steps add up with their signs, and the reference takes c Δ^{1 + order}
    from the error itself.
    """
    depths = np.array(task.grid.depths, dtype=float)
    missing = depths ** (2 * order) * task.grid.sum_of_powers(1 + 2 * order)
    if coherence > 0:
        kept = (1 - depths**order * task.grid.sum_of_powers(1 + order)) ** 2
        missing = (1 - coherence) * missing + coherence * (1 - kept)
    shrink: np.ndarray = 0.5 * np.log1p(-missing)
    return shrink


def with_whole_scheme_error(
    log_errors: np.ndarray, covariance: np.ndarray, bias: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return log errors (m,) and their covariance, with what the reference hides of them.

    Given are log errors (2m,) and their covariance: of the network against the reference, e, and its distance
    g to the limit's scheme on its layers. In e² = g² + 2 ⟨g, scheme - reference⟩ + |scheme - reference|² the
    last two would be 1/f² times as large if the reference were exact, `bias` being log f (m,). So the square
    of what is returned is e² + (1/f² - 1)(e² - g²).
    """
    m = len(bias)
    whole, gap = log_errors[:m], log_errors[m:]
    if not np.isfinite(whole).all():
        return whole, covariance[:m, :m]
    hidden, share = np.expm1(-2 * bias), np.exp(2 * (gap - whole))
    # Beyond this the correction would be most of the result, as in `without_reference_error`.
    grown = np.maximum(1 + hidden * (1 - share), 0.25)
    change = np.concatenate([np.diag((1 + hidden) / grown), np.diag(-hidden * share / grown)], axis=1)
    return whole + 0.5 * np.log(grown), change @ np.nan_to_num(covariance) @ change.T


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
