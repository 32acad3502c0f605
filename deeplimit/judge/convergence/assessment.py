"""From a run's moments to its report: estimates, order and floor, judgement, report."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
import torch

from deeplimit.common.verdict import ConvergenceVerdict
from deeplimit.judge.convergence import caveats, preconditions, verdict, wording
from deeplimit.judge.convergence.estimates import (
    common_estimates,
    corrected,
    layer_estimates,
    rounding,
)
from deeplimit.judge.convergence.pairing import Correction, Pairing
from deeplimit.judge.convergence.parts import Part, parts_of
from deeplimit.judge.convergence.report import CompareReport, PartOfError
from deeplimit.simulation import Coupled, CoupledErrors, Task
from deeplimit.statistics.consecutive import Order
from deeplimit.statistics.floors import Floor, above_floor, above_uncertain_floor
from deeplimit.statistics.power_law import ErrorEstimates, Fit, fit_rate, least_paths, local_slopes
from deeplimit.statistics.verdict import Judgement
from deeplimit.version import versions

NOT_FITTED = Floor(np.nan, np.nan, np.nan, np.nan)


def assess(
    task: Task,
    coupled: Coupled,
    confidence: float,
    seconds: float,
    levels: verdict.Levels = verdict.Levels(),  # noqa: B008 (frozen)
) -> CompareReport:
    """Return the report on what a run measured: errors, order, verdict, reservations."""
    pairing = Pairing.of(task, coupled.moments.differences, rounding(task))
    estimated = _estimated(task, pairing, coupled)
    failed_precondition = preconditions.failed_precondition(_measured(task, pairing, coupled, estimated))
    outcome = (
        _judged(task, pairing, estimated, confidence, levels)
        if failed_precondition is None
        else Outcome(failed_precondition, estimated, NOT_FITTED)
    )
    # Of a wrong limit the errors' own fit is given: the networks' order is not that of the distance to it.
    if (order := pairing.order) is not None and outcome.judgement.code != verdict.DOES_NOT:
        outcome = outcome.with_order(order, confidence)
    return _report(task, coupled, pairing, outcome, confidence, seconds)


@dataclass(frozen=True)
class Estimated:
    """Errors over each depth's layers and over the times that all depths share, and the parts to judge.

    `errors` and `resolution` are the former as numbers, and what round-off and the reference's own error
    allow.
    """

    layer: ErrorEstimates
    common: ErrorEstimates
    errors: np.ndarray
    resolution: float
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Outcome:
    """What follows: the judgement, errors above the floor, the floor, and an order where one is given."""

    judgement: Judgement[ConvergenceVerdict]
    estimated: Estimated
    floor: Floor
    rate: float = np.nan
    interval: tuple[float, float] = (np.nan, np.nan)
    constant: float = np.nan

    def with_order(self, order: Order, confidence: float) -> Outcome:
        """Return the same with an order that was measured from consecutive differences."""
        common = self.estimated.common
        with np.errstate(invalid="ignore"):
            logs = common.log_errors - common.log_bias + order.rate * np.log(common.depths)
        constant = float(np.exp(np.mean(logs))) if np.isfinite(logs).all() else np.nan
        interval = order.interval(confidence)
        return dataclasses.replace(self, rate=order.rate, interval=interval, constant=constant)

    def excludes(self, predicted: float | None, *, is_bound: bool) -> bool:
        """Whether errors converge, by a theorem, and the interval excludes the theorem's order.

        Such an interval is of these depths, not of the order, and is not given.
        """
        if predicted is None or self.judgement.code != verdict.CONVERGES or not np.isfinite(self.rate):
            return False
        low, high = self.interval
        return high < predicted or (low > predicted and not is_bound)


def _estimated(task: Task, pairing: Pairing, coupled: Coupled) -> Estimated:
    layer = layer_estimates(task, pairing, coupled)
    common = common_estimates(task, pairing, coupled)
    errors, _ = corrected(layer, coupled.moments.diverged[: len(task.grid.depths)])
    resolution = max(rounding(task), coupled.reference_error)
    return Estimated(layer, common, errors, resolution, parts_of(task, pairing, coupled, resolution))


def _measured(task: Task, pairing: Pairing, coupled: Coupled, estimated: Estimated) -> preconditions.Measured:
    m, moments = len(task.grid.depths), coupled.moments
    return preconditions.Measured(
        depths=task.grid.depths,
        paths=moments.count,
        errors=estimated.errors,
        diverged=moments.diverged[:m],
        limit_lost=moments.limit_lost,
        resolution=estimated.resolution,
        vanishes=any(not np.isfinite(part.judged.log_errors).all() for part in estimated.parts),
        # Roots of differences, and ratios of distances to them, rest on no few paths.
        kurtosis=0.0
        if pairing.paired_floor is not None
        else max(part.judged.kurtosis for part in estimated.parts),
    )


def _judged(
    task: Task, pairing: Pairing, estimated: Estimated, confidence: float, levels: verdict.Levels
) -> Outcome:
    """Fit order and floor of each part, and judge; it always rests on the times that all depths share."""
    known = pairing.correction is Correction.KNOWN
    floors, judged = [], []
    for part in _decisive(pairing, estimated.parts):
        floor = part.floor()
        lifted = part.judged
        if floor.probability >= 1 - verdict.DOUBTFUL and known:
            lifted = above_floor(lifted, floor.share)
        evidence = part.evidence(lifted, floor, pairing, levels)
        apart = pairing.apart(part.shown.log_errors[-1], part.is_gap)
        is_scheme = task.splits and not part.is_gap and pairing.falls
        uncertain = pairing.order is not None and pairing.order.uncertain
        evidence = dataclasses.replace(evidence, apart=apart, is_scheme=is_scheme, is_uncertain=uncertain)
        floors.append(floor.of_whole(part.part_of_square))
        judged.append((evidence, verdict.judge(evidence)))
    floor, judgement = floors[0], verdict.together([each for _, each in judged])
    above = estimated
    if floor.probability >= 1 - verdict.DOUBTFUL and known:
        above = dataclasses.replace(
            estimated,
            layer=above_uncertain_floor(estimated.layer, floor),
            common=above_uncertain_floor(estimated.common, floor),
        )
    if (pairing.is_measured and judgement.code != verdict.DOES_NOT) or not all(
        verdict.gives_an_order(evidence, each) for evidence, each in judged
    ):
        return Outcome(judgement, above, floor)
    if task.statistic.looks_between_layers:
        fit = fit_rate(above.layer)
        interval = _over_all_times(above.layer, fit, pairing.rough, confidence)
        return Outcome(judgement, above, floor, fit.rate, interval, float(np.exp(fit.log_constant)))
    # A sum falls like the part that falls more slowly.
    shown = [part.fitted for part in estimated.parts] if task.splits else [above.common]
    fits = [part.fit(errors) for part, errors in zip(estimated.parts, shown, strict=True)]
    intervals = [fit.interval(confidence) for fit in fits]
    slowest = min(fits, key=lambda fit: fit.rate)
    interval = min(low for low, _ in intervals), min(high for _, high in intervals)
    return Outcome(judgement, above, floor, slowest.rate, interval, float(np.exp(slowest.log_constant)))


def _decisive(pairing: Pairing, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return the parts that say whether the limit is right: of measured orders the distance to its scheme.

    That a scheme of an equation approaches its solution is known, and takes the most paths to be seen.
    """
    gaps = tuple(part for part in parts if part.is_gap)
    return gaps if pairing.is_measured and gaps else parts


def _over_all_times(layer: ErrorEstimates, fit: Fit, rough: bool, confidence: float) -> tuple[float, float]:
    """Return the interval of the order in the theorems' sup over all times.

    For a diffusion it adds the modulus of continuity √(log L / L), which is somewhere between a pure power
    and a power times √log L. The interval spans both readings.
    """
    low, high = fit.interval(confidence)
    if not rough:
        return low, high
    slower = fit_rate(layer, 0.5 * np.log1p(np.log(layer.depths))).interval(confidence)
    return min(low, slower[0]), max(high, slower[1])


def _report(
    task: Task, coupled: Coupled, pairing: Pairing, outcome: Outcome, confidence: float, seconds: float
) -> CompareReport:
    m, moments = len(task.grid.depths), coupled.moments
    diverged, kurtosis = moments.diverged[:m], moments.kurtosis()[:m]
    layer, common = outcome.estimated.layer, outcome.estimated.common
    errors, spread = corrected(layer, diverged)
    common_errors, common_spread = corrected(common, diverged)
    raw = np.where(diverged > 0, np.inf, np.exp(moments.log_errors()[:m]))
    slopes, slope_errors = local_slopes(layer if task.statistic.looks_between_layers else common)
    if (order := pairing.order) is not None and outcome.judgement.code != verdict.DOES_NOT:
        slopes, slope_errors = (_in_place(each, m - 1) for each in (order.slopes, order.slope_errors))
    lost = (diverged[1:] > 0) | (diverged[:-1] > 0)
    slopes, slope_errors = np.where(lost, np.nan, slopes), np.where(lost, np.nan, slope_errors)
    seen = np.isfinite(slopes)
    measures = pairing.correction is Correction.MEASURED
    reference_error = float(np.exp(moments.log_errors()[-1])) if measures else coupled.reference_error
    withheld = outcome.excludes(pairing.predicted, is_bound=pairing.regime.rate_is_bound)
    is_corrected = pairing.correction_in(task.statistic) is not Correction.NONE
    numbers = caveats.Numbers(
        depths=task.grid.depths,
        errors=errors,
        kurtosis=np.zeros(m) if pairing.exact else kurtosis,
        diverged=diverged,
        limit_lost=moments.limit_lost,
        paths=moments.count,
        exact=pairing.exact,
        rate=outcome.rate,
        interval=outcome.interval,
        predicted=pairing.predicted,
        is_bound=pairing.regime.rate_is_bound,
        withheld=withheld,
        contradicts=outcome.judgement.code == verdict.DOES_NOT and pairing.own,
        unknown=pairing.regime.not_checked if pairing.own else (),
        drift=float(np.ptp(slopes[seen][[0, -1]])) if seen.any() else 0.0,
        drift_error=float(np.hypot(*slope_errors[seen][[0, -1]])) if seen.any() else 0.0,
        reference_error=coupled.reference_error,
        rounding=rounding(task),
        swollen=measures and _differ(raw, errors, 1.5),
        narrow=task.dtype == torch.float32,
    )
    report = CompareReport(
        verdict=outcome.judgement.code,
        reason=wording.reason(outcome.judgement),
        network=str(task.network),
        limit=task.limit.equation,
        regime=pairing.regime.name,
        theorem=pairing.regime.theorem if pairing.own else None,
        predicted_rate=pairing.predicted,
        depths=np.array(task.grid.depths),
        errors=errors,
        standard_errors=spread,
        raw_errors=raw,
        common_errors=common_errors,
        common_standard_errors=common_spread,
        rate=np.nan if withheld else float(outcome.rate),
        rate_interval=(np.nan, np.nan) if withheld else outcome.interval,
        constant=np.nan if withheld else float(outcome.constant),
        confidence=confidence,
        local_slopes=slopes,
        local_slope_errors=slope_errors,
        floor=outcome.floor.share,
        floor_lower=outcome.floor.lower,
        floor_upper=outcome.floor.upper,
        floor_probability=outcome.floor.probability,
        diverged=diverged,
        worst=moments.worst()[:m],
        kurtosis=kurtosis,
        norm=task.norm,
        quantity=task.quantity,
        p=task.p,
        paths=moments.count,
        seed=task.seed,
        coupling=wording.coupling(task, pairing),
        inputs=wording.inputs(task),
        reference=wording.reference(task, reference_error, is_corrected),
        reference_error=reference_error,
        device=str(task.device),
        dtype=str(task.dtype).removeprefix("torch."),
        seconds=seconds,
        versions=versions(),
        reservations=(
            *wording.pairing_notes(task, pairing, is_corrected),
            *wording.reservations(numbers),
        ),
        citations=pairing.citations,
        rule=outcome.judgement.rule,
        predicted_is_bound=pairing.predicted is not None and pairing.regime.rate_is_bound,
        parts=tuple(_shown(part, confidence) for part in outcome.estimated.parts if task.splits),
    )
    return report.measured_by(CoupledErrors.of(task))


def _in_place(slopes: np.ndarray, count: int) -> np.ndarray:
    """Return slopes between consecutive differences beside the depths where both have been seen (count,)."""
    return np.pad(slopes, (1, count - 1 - len(slopes)), constant_values=np.nan)


def _shown(part: Part, confidence: float) -> PartOfError:
    logs = part.shown.log_errors - part.shown.log_bias
    errors, spread = corrected(part.shown, np.zeros(len(logs)))
    is_whole = bool(np.isfinite(logs).all()) and part.shown.count >= least_paths(len(logs))
    fit = fit_rate(part.fitted) if is_whole else None
    slopes, slope_errors = local_slopes(part.shown)
    return PartOfError(
        name=part.name,
        errors=errors,
        standard_errors=spread,
        local_slopes=slopes,
        local_slope_errors=slope_errors,
        rate=np.nan if fit is None else float(fit.rate),
        rate_interval=(np.nan, np.nan) if fit is None else fit.interval(confidence),
    )


def _differ(a: np.ndarray, b: np.ndarray, factor: float) -> bool:
    """Whether some finite, positive entries differ by more than this factor."""
    both = np.isfinite(a) & np.isfinite(b) & (a > 0) & (b > 0)
    return bool((np.abs(np.log(a[both] / b[both])) > math.log(factor)).any())
