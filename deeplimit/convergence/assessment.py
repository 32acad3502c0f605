"""From a run's moments to its report: errors, order, floor, verdict."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
import torch

from deeplimit.convergence import verdict as verdicts, wording
from deeplimit.convergence.report import CompareReport
from deeplimit.convergence.verdict import Verdict
from deeplimit.coupling import Coupled, Moments, Task
from deeplimit.inference.power_law import (
    ErrorEstimates,
    Floor,
    above_floor,
    enough_paths,
    fit_floor,
    fit_rate,
    local_slopes,
)
from deeplimit.limits import NeuralYoung, SDELimit
from deeplimit.version import versions


def log_bias(task: Task, norm: str) -> np.ndarray:
    """Return log of the factor by which the Euler reference, itself off on the same path, shrinks each error
    (theory 4.1).

    The sup over all times is ruled by the limit's own modulus of continuity, which no reference shrinks.
    Where the network is no Euler scheme, theory does not say; `_without_reference_error` measures it.
    """
    depths = np.array(task.grid.depths, dtype=float)
    if not task.shares_increments or norm == "sup-continuous" or task.measures_reference:
        return np.zeros(len(depths))
    shrink: np.ndarray = 0.5 * np.log1p(-depths * task.grid.sum_of_squared_steps)
    return shrink


def _without_reference_error(
    log_errors: np.ndarray, covariance: np.ndarray, surplus: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return log errors (m,) and their covariance with the reference's error taken out.

    Given are those against both solutions, and last the distance between these (2m + 1,). The coarse
    reference has steps twice as large everywhere, and the noise's part of squared errors is linear in the
    step, whatever the limit: e² = 2 e²_fine - e²_coarse. For a scheme of a better order, squares of the
    distance remain, times `surplus` (docs/theorems/young.md). Both solutions read the same path, so that
    differences are known far better than any.
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


def _estimates(task: Task, moments: Moments, which: int, norm: str, reference_error: float) -> ErrorEstimates:
    """Return the errors over the layer grid (`which` = 0) or over the common times (1)."""
    m, regime = len(task.grid.depths), task.network.regime()
    columns = np.arange(which * m, (which + 1) * m)
    log_errors, covariance = moments.log_errors(), moments.relative_covariance()
    if task.measures_reference and norm != "sup-continuous":
        both = np.concatenate(
            [columns, columns + 2 * m, [4 * m if which == 1 or norm == "final" else 4 * m + 1]]
        )
        corrected = _without_reference_error(
            log_errors[both], covariance[np.ix_(both, both)], task.reference_surplus
        )
    else:
        corrected = log_errors[columns], covariance[np.ix_(columns, columns)]
    return ErrorEstimates(
        np.array(task.grid.depths),
        *corrected,
        log_bias(task, norm),
        moments.count,
        float(moments.kurtosis()[columns].max()),
        regime.corrections,
        regime.seconds,
        regime.interfere,
        reference_error,
        regime.hides,
    )


@dataclass(frozen=True)
class _Order:
    """The fitted order with its interval, and the verdict that follows."""

    rate: float
    interval: tuple[float, float]
    constant: float
    floor: Floor
    verdict: Verdict
    layer: ErrorEstimates
    common: ErrorEstimates


def assess(task: Task, coupled: Coupled, confidence: float, seconds: float) -> CompareReport:
    """Return the report on what a run measured: errors, order, verdict, reservations."""
    m = len(task.grid.depths)
    moments = coupled.moments
    regime = task.network.regime()
    own = not task.independent and _is_own_limit(task)
    predicted = _predicted(task) if own else None
    resolution = max(_rounding(task), coupled.reference_error)
    layer = _estimates(task, moments, 0, task.norm, coupled.reference_error)
    common = _estimates(task, moments, 1, "sup", coupled.reference_error)
    corrected = bool(layer.log_bias.any()) or (task.measures_reference and task.norm != "sup-continuous")
    diverged = moments.diverged[:m]
    errors = _errors(layer, diverged)
    obstacle = _obstacle(task, moments, common, errors, resolution)
    if obstacle is None:
        order = _order(task, layer, common, confidence)
        if order.verdict.name == verdicts.DOES_NOT and errors[-1] < 3 * resolution:
            fallen = (
                f"the errors have fallen to what rounding and the reference allow, about {resolution:.1e}"
            )
            order = dataclasses.replace(order, verdict=Verdict(verdicts.CANNOT_TELL, fallen))
        if not order.verdict.fits:
            order = dataclasses.replace(order, rate=np.nan, interval=(np.nan, np.nan), constant=np.nan)
        if regime.convergence == "in law" and order.verdict.name == verdicts.CONVERGES:
            told = (
                f"to the same recursion on the finer grid (to the limit in law only): {order.verdict.reason}"
            )
            order = dataclasses.replace(order, verdict=Verdict(verdicts.CONVERGES, told))
    else:
        order = _Order(
            np.nan, (np.nan, np.nan), np.nan, Floor(np.nan, np.nan, np.nan, np.nan), obstacle, layer, common
        )
    errors, spread = _errors(order.layer, diverged), _spread(order.layer, diverged)
    common_errors, common_spread = _errors(order.common, diverged), _spread(order.common, diverged)
    raw = np.where(diverged > 0, np.inf, np.exp(moments.log_errors()[:m]))
    reference_error = coupled.reference_error
    if task.measures_reference:
        reference_error = float(np.exp(moments.log_errors()[-1]))
    slopes, slope_errors = local_slopes(order.layer if task.norm == "sup-continuous" else order.common)
    lost = (diverged[1:] > 0) | (diverged[:-1] > 0)
    slopes, slope_errors = np.where(lost, np.nan, slopes), np.where(lost, np.nan, slope_errors)
    notes = [*wording.pairing_notes(task, own, regime.convergence, corrected)]
    notes += wording.reservations(
        depths=task.grid.depths,
        diverged=diverged,
        limit_lost=moments.limit_lost,
        paths=moments.count,
        kurtosis=moments.kurtosis()[:m],
        reference_error=coupled.reference_error,
        swollen=task.measures_reference and _differ(raw, errors, 1.5),
        errors=errors,
        rounding=_rounding(task),
        narrow=task.dtype == torch.float32,
        rate=order.rate,
        interval=order.interval,
        predicted=predicted,
        contradicts=order.verdict.name == verdicts.DOES_NOT and own,
        drift=(abs(slopes[-1] - slopes[0]), float(np.hypot(slope_errors[0], slope_errors[-1]))),
    )
    return CompareReport(
        verdict=order.verdict.name,
        reason=order.verdict.reason,
        network=str(task.network),
        limit=task.limit.equation,
        regime=regime.name,
        theorem=regime.theorem if own else None,
        predicted_rate=predicted,
        depths=np.array(task.grid.depths),
        errors=errors,
        standard_errors=spread,
        raw_errors=raw,
        common_errors=common_errors,
        common_standard_errors=common_spread,
        rate=float(order.rate),
        rate_interval=order.interval,
        constant=float(order.constant),
        confidence=confidence,
        local_slopes=slopes,
        local_slope_errors=slope_errors,
        floor=order.floor.share,
        floor_lower=order.floor.lower,
        floor_upper=order.floor.upper,
        floor_probability=order.floor.probability,
        diverged=diverged,
        worst=moments.worst()[:m],
        kurtosis=moments.kurtosis()[:m],
        norm=task.norm,
        p=task.p,
        paths=moments.count,
        seed=task.seed,
        coupling=wording.coupling(task),
        inputs=wording.inputs(task),
        reference=wording.reference(task, reference_error, corrected),
        reference_error=reference_error,
        device=str(task.device),
        dtype=str(task.dtype).removeprefix("torch."),
        seconds=seconds,
        versions=versions(),
        reservations=tuple(notes),
    )


def _is_own_limit(task: Task) -> bool:
    try:
        return bool(task.limit == task.network.limit())
    except ValueError:
        return False


def _predicted(task: Task) -> float | None:
    """Return the order of the network in the task's norm; over all times a Young limit is as rough as its
    path.
    """
    rate = task.network.regime().rate
    if rate is None or task.norm != "sup-continuous" or not isinstance(task.limit, NeuralYoung):
        return rate
    return min(rate, task.limit.hurst)


def _rough(task: Task) -> bool:
    """Whether the sup over all times is ruled by the limit's own modulus of continuity, which carries a
    factor √log L.
    """
    rate = task.network.regime().rate
    if isinstance(task.limit, NeuralYoung):
        return rate is not None and rate > task.limit.hurst
    return isinstance(task.limit, SDELimit)


def _differ(a: np.ndarray, b: np.ndarray, factor: float) -> bool:
    """Whether some finite, positive entries differ by more than this factor."""
    both = np.isfinite(a) & np.isfinite(b) & (a > 0) & (b > 0)
    return bool((np.abs(np.log(a[both] / b[both])) > math.log(factor)).any())


def _errors(estimates: ErrorEstimates, diverged: np.ndarray) -> np.ndarray:
    """Return corrected errors; infinite where a path was lost, zero where nothing differs."""
    with np.errstate(over="ignore"):
        return np.where(diverged > 0, np.inf, np.exp(estimates.log_errors - estimates.log_bias))


def _spread(estimates: ErrorEstimates, diverged: np.ndarray) -> np.ndarray:
    """Return the standard errors of `_errors`."""
    corrected = _errors(estimates, diverged)
    relative = np.sqrt(np.nan_to_num(np.diag(estimates.covariance)))
    finite = np.isfinite(corrected)
    return np.where(finite, np.where(finite, corrected, 0.0) * relative, np.inf)


def _order(task: Task, layer: ErrorEstimates, common: ErrorEstimates, confidence: float) -> _Order:
    """Fit the order and the floor, and judge; the verdict always rests on the times that all depths share.

    The theorems' sup over all times adds the modulus of continuity √(log L / L) of a diffusion: somewhere
    between a pure power and a power times √log L. Its interval spans both readings.
    """
    known = task.network.regime().rate
    floor = fit_floor(common, known)
    if floor.probability >= 1 - verdicts.DOUBTFUL:
        layer, common = above_floor(layer, floor.share), above_floor(common, floor.share)
    fit = fit_rate(common)
    evidence = verdicts.Evidence.of(common, fit, floor, known)
    interval = fit.interval(confidence)
    if task.norm == "sup-continuous":
        fit = fit_rate(layer)
        interval = fit.interval(confidence)
        if _rough(task):
            low, high = fit_rate(layer, 0.5 * np.log1p(np.log(layer.depths))).interval(confidence)
            interval = (min(interval[0], low), max(interval[1], high))
    verdict = verdicts.judge(evidence)
    if len(common.depths) < 3:
        verdict = Verdict(
            verdicts.CANNOT_TELL,
            "two depths cannot tell a slow order from another limit; give at least three, better five over a"
            " factor of 16",
        )
    return _Order(fit.rate, interval, float(np.exp(fit.log_constant)), floor, verdict, layer, common)


def _obstacle(
    task: Task, moments: Moments, estimates: ErrorEstimates, errors: np.ndarray, resolution: float
) -> Verdict | None:
    """Return the verdict where no order can be fitted, or None where one can."""
    m, paths, diverged = len(errors), moments.count, moments.diverged[: len(errors)]
    cannot = verdicts.CANNOT_TELL
    if diverged.sum() > 0:
        if moments.limit_lost == 0 and diverged[-1] > paths / 2 and diverged[0] < diverged[-1]:
            reason = (
                f"{diverged[-1]} of {paths} paths are not finite at depth {task.grid.depths[-1]}, fewer at"
                " less depth"
            )
            return Verdict(verdicts.DOES_NOT, reason)
        return Verdict(
            cannot,
            f"up to {diverged.max()} of {paths} paths are not finite; averaging over the others would"
            " mislead",
        )
    if bool((errors == 0).all()):
        return Verdict(
            verdicts.CONVERGES,
            "the network equals the limit at every depth, to the last bit; there is no error to fit",
        )
    if errors.max() <= resolution:
        return Verdict(
            cannot,
            f"the errors are within what rounding and the reference allow ({resolution:.1e}): to that"
            " precision the two agree, and no order can be seen; dtype='float64' or a smaller tolerance="
            " would help",
        )
    if bool((moments.mean[: 2 * m] == 0).any()):
        return Verdict(cannot, "the error is exactly zero at some depths and not at others")
    if not enough_paths(paths, m):
        return Verdict(
            cannot, f"{paths} paths cannot estimate the covariance of {m} depths; use at least {2 * m + 4}"
        )
    if estimates.kurtosis > paths / 2:
        reason = (
            f"one or two of the {paths} paths make up the average (kurtosis {estimates.kurtosis:.0f}), so"
            " that no uncertainty can be estimated; more paths or a smaller p would help"
        )
        return Verdict(cannot, reason)
    return None


def _rounding(task: Task) -> float:
    """Return the size that rounding errors reach: a unit in the last place of the states at each layer, added
    at random.
    """
    size = 4.0 * (1.0 if task.h0 is None else float(task.h0.double().square().mean().sqrt()))
    return float(torch.finfo(task.dtype).eps * size * math.sqrt(task.grid.depths[-1] * task.network.width))
