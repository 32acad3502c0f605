"""From a run's moments to its report: estimates, order and floor, judgement, report."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from deeplimit.convergence import verdict, wording
from deeplimit.convergence.estimates import common_estimates, corrected, layer_estimates, rounding
from deeplimit.convergence.pairing import Correction, Pairing
from deeplimit.convergence.report import CompareReport
from deeplimit.coupling import Coupled, CoupledErrors, Task
from deeplimit.ground.verdict import Verdict
from deeplimit.inference.power_law import (
    ErrorEstimates,
    Fit,
    Floor,
    above_floor,
    above_uncertain_floor,
    fit_floor,
    fit_rate,
    local_slopes,
)
from deeplimit.inference.verdict import Judgement
from deeplimit.version import versions

NOT_FITTED = Floor(np.nan, np.nan, np.nan, np.nan)


def assess(task: Task, coupled: Coupled, confidence: float, seconds: float) -> CompareReport:
    """Return the report on what a run measured: errors, order, verdict, reservations."""
    pairing = Pairing.of(task)
    estimated = _estimated(task, pairing, coupled)
    obstacle = verdict.obstacle(_measured(task, coupled, estimated))
    outcome = (
        _judged(task, pairing, estimated, confidence)
        if obstacle is None
        else Outcome(obstacle, estimated, NOT_FITTED)
    )
    return _report(task, coupled, pairing, outcome, confidence, seconds)


@dataclass(frozen=True)
class Estimated:
    """Errors over each depth's layers and over the times that all depths share.

    `errors` and `resolution` are the former as numbers, and what round-off and the reference's own error
    allow.
    """

    layer: ErrorEstimates
    common: ErrorEstimates
    errors: np.ndarray
    resolution: float


@dataclass(frozen=True)
class Outcome:
    """What follows: the judgement, errors above the floor, the floor, and an order where one is given."""

    judgement: Judgement[Verdict]
    estimated: Estimated
    floor: Floor
    rate: float = np.nan
    interval: tuple[float, float] = (np.nan, np.nan)
    constant: float = np.nan


def _estimated(task: Task, pairing: Pairing, coupled: Coupled) -> Estimated:
    layer = layer_estimates(task, pairing, coupled.moments, coupled.reference_error)
    common = common_estimates(task, pairing, coupled.moments, coupled.reference_error)
    errors, _ = corrected(layer, coupled.moments.diverged[: len(task.grid.depths)])
    return Estimated(layer, common, errors, max(rounding(task), coupled.reference_error))


def _measured(task: Task, coupled: Coupled, estimated: Estimated) -> verdict.Measured:
    m, moments = len(task.grid.depths), coupled.moments
    return verdict.Measured(
        depths=task.grid.depths,
        paths=moments.count,
        errors=estimated.errors,
        diverged=moments.diverged[:m],
        limit_lost=moments.limit_lost,
        resolution=estimated.resolution,
        vanishes=bool((moments.mean[: 2 * m] == 0).any()),
        kurtosis=estimated.common.kurtosis,
    )


def _judged(task: Task, pairing: Pairing, estimated: Estimated, confidence: float) -> Outcome:
    """Fit order and floor, and judge; the verdict always rests on the times that all depths share."""
    layer, common, known = estimated.layer, estimated.common, pairing.regime.rate
    floor = fit_floor(common, known)
    judged = common
    if floor.probability >= 1 - verdict.DOUBTFUL:
        judged = above_floor(common, floor.share)
        layer, common = above_uncertain_floor(layer, floor), above_uncertain_floor(common, floor)
    evidence = verdict.Evidence.of(
        judged,
        fit_rate(judged),
        floor,
        known,
        deepest=float(estimated.errors[-1]),
        resolution=estimated.resolution,
        on_its_own_grid=pairing.is_on_its_own_grid,
    )
    judgement = verdict.judge(evidence)
    above = Estimated(layer, common, estimated.errors, estimated.resolution)
    if not verdict.gives_an_order(evidence, judgement):
        return Outcome(judgement, above, floor)
    fit = fit_rate(common)
    interval = fit.interval(confidence)
    if task.statistic.looks_between_layers:
        fit = fit_rate(layer)
        interval = _over_all_times(layer, fit, pairing.rough, confidence)
    return Outcome(judgement, above, floor, fit.rate, interval, float(np.exp(fit.log_constant)))


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
    lost = (diverged[1:] > 0) | (diverged[:-1] > 0)
    slopes, slope_errors = np.where(lost, np.nan, slopes), np.where(lost, np.nan, slope_errors)
    measures = pairing.correction is Correction.MEASURED
    reference_error = float(np.exp(moments.log_errors()[-1])) if measures else coupled.reference_error
    is_corrected = pairing.correction_in(task.statistic) is not Correction.NONE
    numbers = wording.Numbers(
        depths=task.grid.depths,
        errors=errors,
        kurtosis=kurtosis,
        diverged=diverged,
        limit_lost=moments.limit_lost,
        paths=moments.count,
        rate=outcome.rate,
        interval=outcome.interval,
        predicted=pairing.predicted,
        contradicts=outcome.judgement.word == verdict.DOES_NOT and pairing.own,
        drift=float(abs(slopes[-1] - slopes[0])),
        drift_error=float(np.hypot(slope_errors[0], slope_errors[-1])),
        reference_error=coupled.reference_error,
        rounding=rounding(task),
        swollen=measures and _differ(raw, errors, 1.5),
        narrow=task.dtype == torch.float32,
    )
    report = CompareReport(
        verdict=outcome.judgement.word,
        reason=outcome.judgement.reason,
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
        rate=float(outcome.rate),
        rate_interval=outcome.interval,
        constant=float(outcome.constant),
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
    )
    return report.measured_by(CoupledErrors.of(task))


def _differ(a: np.ndarray, b: np.ndarray, factor: float) -> bool:
    """Whether some finite, positive entries differ by more than this factor."""
    both = np.isfinite(a) & np.isfinite(b) & (a > 0) & (b > 0)
    return bool((np.abs(np.log(a[both] / b[both])) > math.log(factor)).any())
