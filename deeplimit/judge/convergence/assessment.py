"""From a run's moments to its report: errors with their joint uncertainty, order and floor, judgement.

The error of the reference is taken out. Errors are judged whole, or as two parts with what theory knows.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch

from deeplimit.common.verdict import ConvergenceVerdict, Judgement, all_said, first, judge, said
from deeplimit.driving.between_layers import unseen_share_of_weights
from deeplimit.driving.jumps import jump_of_weights
from deeplimit.equations.schemes import STRATONOVICH
from deeplimit.judge.convergence import verdict, wording
from deeplimit.judge.convergence.other_motions import same_covariance_of_other_motions
from deeplimit.judge.convergence.pairing import Correction, Pairing, Reads, log_bias
from deeplimit.judge.convergence.report import MEAN, MEDIAN, CompareReport, PartOfError
from deeplimit.simulation import Coupled, CoupledErrors, Task, moments
from deeplimit.simulation.pathwise import movement
from deeplimit.simulation.task import GRADIENT
from deeplimit.statistics.consecutive import Order, log_medians, with_lost_ones_last
from deeplimit.statistics.differences import Remainder, fit_order, remainder
from deeplimit.statistics.power_law import (
    NO_SAMPLING_NOISE,
    STEEPEST,
    ErrorEstimates,
    Fit,
    Floor,
    above_floor,
    above_uncertain_floor,
    fit_floor,
    fit_rate,
    least_paths,
    local_slopes,
    with_whole_scheme_error,
    without_reference_error,
)
from deeplimit.theory import Regime
from deeplimit.version import versions

INDEPENDENT = ", independent noise"
"""What follows a limit that was given noise of its own on purpose, as a control."""


def scheme_estimates(task: Task, pairing: Pairing, coupled: Coupled, *, half: bool) -> ErrorEstimates:
    """Return the errors of the limit's own scheme on each depth's layers, at the times that all share."""
    if pairing.correction is Correction.MEASURED:
        blocks = moments.SCHEME_COMMON, moments.SCHEME_COARSE_COMMON
        extrapolated = _extrapolated(task, pairing, coupled, *blocks, at_layers=False)
        unbiased = np.zeros(len(task.grid.depths))
        errors = _estimates(task, pairing, coupled, *extrapolated, unbiased, pairing.scheme, is_euler=False)
        return dataclasses.replace(errors, of_one_size=True)
    found = _halves(task, coupled, moments.SCHEME_HALF) if half else _at(task, coupled, moments.SCHEME_COMMON)
    bias = log_bias(task, pairing.scheme_rate, pairing.scheme_coherence)
    errors = _estimates(task, pairing, coupled, *found, bias, pairing.scheme, is_euler=not pairing.measured)
    return dataclasses.replace(errors, of_one_size=True)


def gap_estimates(task: Task, pairing: Pairing, coupled: Coupled, *, half: bool) -> ErrorEstimates:
    """Return the distances of the network and that scheme, into which no reference enters."""
    found = _halves(task, coupled, moments.GAP_HALF) if half else _at(task, coupled, moments.GAP_COMMON)
    return _estimates(task, pairing, coupled, *found, np.zeros(len(task.grid.depths)), pairing.gap)


Found = tuple[np.ndarray, np.ndarray, float]
"""Log errors (m,), their covariance (m, m), and the largest kurtosis of the per-path errors."""


def _at(task: Task, coupled: Coupled, block: str) -> Found:
    columns, measured = moments.Columns.of(task).at(block), coupled.moments
    covariance = measured.relative_covariance()[np.ix_(columns, columns)]
    return measured.log_errors()[columns], covariance, float(measured.kurtosis()[columns].max())


def _halves(task: Task, coupled: Coupled, block: str) -> Found:
    """Return the same of roots, as errors: (E s^{p/2})^{2/p} where s^{1/2} was averaged."""
    logs, covariance, kurtosis = _at(task, coupled, block)
    return 2.0 * logs, 4.0 * covariance, kurtosis


def whole_estimates(task: Task, pairing: Pairing, coupled: Coupled, block: str) -> ErrorEstimates:
    """Return the distances of network and limit in the task's norm, the reference's own error taken out.

    They are over each depth's layers, `block` LAYERS, or over the times that all depths share, COMMON.
    """
    at_layers = block == moments.LAYERS
    correction = pairing.correction_over_layers if at_layers else pairing.correction
    if correction is Correction.MEASURED:
        coarse = moments.COARSE_LAYERS if at_layers else moments.COARSE_COMMON
        found = _extrapolated(task, pairing, coupled, block, coarse, at_layers=at_layers)
        return _estimates(task, pairing, coupled, *found, np.zeros(len(task.grid.depths)), pairing.regime)
    log_errors, covariance, kurtosis = _at(task, coupled, block)
    logs, covariances = coupled.moments.log_errors(), coupled.moments.relative_covariance()
    columns, bias = moments.Columns.of(task), np.zeros(len(log_errors))
    if correction is Correction.KNOWN:
        bias = log_bias(task, 0.5)
    elif correction is Correction.OF_SCHEME:
        others = moments.GAP_LAYERS if at_layers else moments.GAP_COMMON
        both = np.concatenate([columns.at(block), columns.at(others)])
        log_errors, covariance = with_whole_scheme_error(
            logs[both],
            covariances[np.ix_(both, both)],
            log_bias(task, pairing.scheme_rate, pairing.scheme_coherence),
        )
    return _estimates(task, pairing, coupled, log_errors, covariance, kurtosis, bias, pairing.regime)


def _extrapolated(
    task: Task, pairing: Pairing, coupled: Coupled, fine: str, coarse: str, *, at_layers: bool
) -> Found:
    """Return what two solutions with steps of one length and twice that say of the distance to the limit."""
    columns, measured = moments.Columns.of(task), coupled.moments
    apart = columns.apart + (at_layers and task.statistic.name != "final")
    both = np.concatenate([columns.at(fine), columns.at(coarse), [apart]])
    covariance = measured.relative_covariance()[np.ix_(both, both)]
    log_errors, covariance = without_reference_error(measured.log_errors()[both], covariance, pairing.surplus)
    return log_errors, covariance, float(measured.kurtosis()[columns.at(fine)].max())


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
        is_series=regime.is_series,
    )


def median_estimates(task: Task, pairing: Pairing, distances: np.ndarray, regime: Regime) -> ErrorEstimates:
    """Return medians of distances (P, m), of which a few make up every mean; lost paths count as largest."""
    sizes, _ = with_lost_ones_last(distances)
    logs, influence = log_medians(sizes[(sizes > 0).all(axis=1)])
    count = len(influence)
    known = pairing.correction is Correction.KNOWN and regime is pairing.regime
    return ErrorEstimates(
        np.array(task.grid.depths),
        logs,
        influence.T @ influence / max(count - 1, 1) / max(count, 1),
        log_bias(task, 0.5) if known else np.zeros(len(logs)),
        count,
        0.0,
        regime.corrections,
        regime.second_orders,
        regime.interfere,
        0.0,
        regime.hides,
        known,
    )


def rounding(task: Task) -> float:
    """Return the size that round-off reaches: one unit in the last place per layer, added at random."""
    inputs = 1.0 if task.h0 is None else float(task.h0.double().square().mean().sqrt())
    size = 4.0 * (inputs or 1.0)  # states that begin at 0 come to about 1
    return float(torch.finfo(task.dtype).eps * size * math.sqrt(task.grid.depths[-1] * task.network.width))


def corrected(estimates: ErrorEstimates, diverged: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return errors and standard errors (m,); infinite where a path was lost, zero where nothing differs."""
    with np.errstate(over="ignore"):
        errors = np.where(diverged > 0, np.inf, np.exp(estimates.log_errors - estimates.log_bias))
    relative = np.sqrt(np.nan_to_num(np.diag(estimates.covariance)))
    finite = np.isfinite(errors)
    return errors, np.where(finite, np.where(finite, errors, 0.0) * relative, np.inf)


ROUNDED_PRODUCTS = 8.0
"""In products of nearly equal vectors this many roots of a unit in the last place are noise."""
GAP_WORDS, GAP_NAME = "the distances of the network and its limit's scheme", "network to scheme"
ROUND_OFF, BESIDE = 30.0, 100.0
"""A scheme's errors within this many units of `rounding` are round-off in part, and say no order.

They decide nothing where the network's distance is this many times as large. `rounding` takes states for 4
and units for random: where noise in the biases alone makes the scheme exact, its errors come to 1.7 of them
in float32, and to 2.3 in float64.
"""
LARGE = 0.5
"""A floor of this share of the deepest square is one that "converges" must be sure not to overlook."""
SETTLING = 0.75
"""Networks have settled where their consecutive differences fall with this part of the theorem's order.

Trends of size 6 and 10 with right limits (α = .3 to .7, tanh, sin, scaled SiLU, depths 8 to 256) were called
other limits; their differences fell with order 1/3 for 1/2, or less.
"""
UNMOVED = 1e-6
"""Moves below this part of the distance to the limit are round-off of products, and lead nowhere."""
VISIBLE = 3.0
"""A part that has less than a third of the whole error's square counts for less in proportion.

A floor of it is then large from a sixth of the whole square on. With 2 instead of 3, "converges" was said of
slopes 3 % too small, whose floor is a quarter of the whole square. With 4, most right limits at width 8 are
"cannot tell" at default depths.
"""


@final
@dataclass(frozen=True)
class Part:
    """Errors that are judged on their own.

    Attributes:
        judged: what the verdict rests on, in the norm of half the power.
        shown: the same in the task's norm, from which its order is taken.
        regime: what theory says of its order.
        coherent: whether its errors do not fluctuate about either limit.
        resolution: what round-off and the reference's own error allow.
        what: its name in a sentence, in the plural.
        name: the same as a heading.
        products: those of the differences at two depths (m, m), where differences keep their direction.
        directed: whether these differences fluctuate with nothing finer than a layer.
        exact: whether another run would give the same numbers.
        is_gap: whether this is the network's distance to its limit's scheme.
        part_of_square: the deepest square's part of that of the whole error.
        decides: whether a verdict rests on it.
        paired_floor: its floor, held against consecutive differences of the same paths, where there are such.
        measured: interval of the order where it was measured, and is not a theorem's.
        mixed: order of consecutive differences, where they show two.
    """

    judged: ErrorEstimates
    shown: ErrorEstimates
    regime: Regime
    coherent: bool
    resolution: float
    what: str = "the errors"
    name: str = ""
    products: np.ndarray | None = None
    directed: bool = False
    exact: bool = False
    is_gap: bool = False
    part_of_square: float = 1.0
    measured: tuple[float, float] | None = None
    paired_floor: Floor | None = None
    mixed: Order | None = None
    decides: bool = True

    @property
    def remainder(self) -> Remainder | None:
        """What differences tend to; None where their directions are unknown.

        Where no theorem says how they expand, the leading exponent is the fitted order.
        """
        if self.products is None or len(self.products) < 3:
            return None
        rate, known = self.regime.rate, not self.regime.rate_is_bound and self.measured is None
        if rate is None or self.regime.rate_is_bound:
            if not self.exact:
                return None
            rate, known = self.fit(self.judged).rate, False
        powers = rate + np.array([0.0, *self.judged.powers])
        further = powers[-1] + np.arange(1, len(self.products) + 1)
        found = remainder(self.judged.depths, self.products, np.concatenate([powers, further]))
        hides = self.resolution / max(math.sqrt(self.products[-1, -1]), sys.float_info.min)
        return dataclasses.replace(found, known=known, resolution=hides)

    @property
    def is_settling(self) -> bool:
        """Whether deterministic networks differ less and less from depth to depth, about as theory says.

        What they tend to is not in sight before: a trend of growth e^6 saturates tanh up to depths of 10^4,
        and networks stay far from their own limit without a change.
        """
        if self.products is None or len(self.products) < 3:
            return True
        squares, next_to = np.diag(self.products), np.diag(self.products, 1)
        moved = np.sqrt(np.maximum(squares[1:] + squares[:-1] - 2 * next_to, 0.0))[-2:]
        if not moved[-1] > max(UNMOVED * math.sqrt(squares[-1]), verdict.RESOLVED * self.resolution):
            return True
        rate = 0.0 if self.regime.rate is None or self.regime.rate_is_bound else self.regime.rate
        # Of unequal ratios of depths differences are unequal, too: by these at the slowest order.
        depths = self.judged.depths[-3:].astype(float)
        left = depths ** (-SETTLING * rate) if rate else -np.log(depths)
        return bool(moved[1] / moved[0] < (left[1] - left[2]) / (left[0] - left[1]))

    @property
    def weight(self) -> float:
        """How much a share of it counts: less where it is little of the whole error."""
        return min(1.0, VISIBLE * self.part_of_square)

    def floor(self) -> Floor:
        """Return what would remain at infinite depth, as a share of its own deepest square."""
        paired = self.paired_floor
        if self.measured is not None and paired is not None and paired.probability <= verdict.DOUBTFUL:
            return paired
        remains = self.remainder
        if remains is not None and (self.directed or (self.exact and remains.is_small)):
            fitted = remains.floor()
        else:
            fitted = fit_floor(
                self.judged,
                self.regime.rate,
                is_bound=self.regime.rate_is_bound,
                coherent=self.coherent,
                large=LARGE / self.weight,
                measured=self.measured,
            )
        # A theorem's order makes the fit the sharper one, where it sees no floor.
        seen = fitted.probability > verdict.DOUBTFUL or fitted.lower > verdict.NEGLIGIBLE
        if paired is None or not seen:
            return fitted
        if paired.probability <= verdict.DOUBTFUL:
            return paired
        # Each sees some floors that the other does not; a right limit has none by either.
        return fitted if fitted.probability > paired.probability else paired

    def fit(self, estimates: ErrorEstimates) -> Fit:
        """Fit the order of errors like its own."""
        if self.exact and self.products is not None and len(self.products) >= 3:
            return fit_order(estimates, self.products, STEEPEST + (self.regime.rate or 0.0))
        if self.mixed is not None:
            centre = estimates.log_errors + self.mixed.rate * np.log(estimates.depths)
            return Fit(self.mixed.orders, float(np.mean(centre)))
        return fit_rate(estimates)

    def evidence(
        self, lifted: ErrorEstimates, floor: Floor, pairing: Pairing, levels: verdict.Levels
    ) -> verdict.Evidence:
        """Return what its fits say; `lifted` are the judged errors above the floor, if there is one."""
        # Of a measured order, what it surely has.
        order, remains = self.regime.rate if self.measured is None else self.measured[0], self.remainder
        return dataclasses.replace(
            verdict.Evidence.of(lifted, self.fit(lifted), floor, order, levels),
            # A coherent floor was fitted with what may hide it.
            interfere=lifted.interfere and (remains is not None or not self.coherent),
            deepest=float(np.exp(self.shown.log_errors[-1] - self.shown.log_bias[-1])),
            resolution=self.resolution,
            # Increments of other than Gaussian laws approach a Brownian motion in law, not on one path.
            on_its_own_grid=pairing.regime.convergence == "in law"
            or (pairing.reads == Reads.INCREMENTS and not pairing.gaussian),
            what=self.what,
            flat=verdict.FLAT_GAP if self.is_gap and pairing.is_scheme else verdict.FLAT,
            negligible=verdict.NEGLIGIBLE / self.weight,
            remainder=remains,
            is_settling=self.is_settling if self.exact else pairing.settles,
            measured=self.measured is not None and pairing.falls,
            part_of_square=self.part_of_square,
        )


def parts_of(task: Task, pairing: Pairing, coupled: Coupled, resolution: float) -> tuple[Part, ...]:
    """Return the whole error as its only part, or its two where a network is not its limit's scheme."""
    if task.splits:
        return _two_parts(task, pairing, coupled)
    common = whole_estimates(task, pairing, coupled, moments.COMMON)
    half = common
    # In the norm of half the power tails are lighter. Two solutions of a reference are extrapolated in
    # squares only: their errors stay in the task's norm.
    if not pairing.exact and not task.measures_reference:
        known = pairing.correction is Correction.KNOWN
        bias = log_bias(task, 0.5) if known else np.zeros(len(task.grid.depths))
        found = _halves(task, coupled, moments.HALF)
        half = _estimates(task, pairing, coupled, *found, bias, pairing.regime)
    products = coupled.moments.products / coupled.moments.count if task.keeps_products else None
    whole = Part(
        half,
        common,
        pairing.regime,
        pairing.exact,
        resolution,
        products=products,
        directed=pairing.directed,
        exact=pairing.exact,
        measured=pairing.measured_interval,
        paired_floor=pairing.paired_floor,
    )
    return (whole,)


def _two_parts(task: Task, pairing: Pairing, coupled: Coupled) -> tuple[Part, ...]:
    """Return what the limit's own scheme leaves, and the network's distance to it where there is one.

    Whether the limit is the network's shows in the distance alone: any equation's scheme approaches its own
    solution.
    """
    schemes = [scheme_estimates(task, pairing, coupled, half=half) for half in (True, False)]
    gaps = [gap_estimates(task, pairing, coupled, half=half) for half in (True, False)]
    # Where both multiply nearly the same vector, what tells their products apart is round-off.
    blurred = ROUNDED_PRODUCTS * math.sqrt(torch.finfo(task.dtype).eps) if task.coupling == "projected" else 0
    resolution = max(rounding(task), blurred * float(np.exp(schemes[1].log_errors[-1])))
    scheme = Part(
        schemes[0],
        schemes[1],
        pairing.scheme,
        False,
        rounding(task),
        "the errors of the limit's own scheme",
        "scheme to limit",
        mixed=pairing.mixed_order(is_gap=False),
    )
    gap = Part(
        gaps[0],
        gaps[1],
        pairing.gap,
        # What falls like the scheme's own errors fluctuates as they do; anything faster keeps its direction.
        not pairing.measured and pairing.gap.rate not in (None, pairing.scheme_rate),
        resolution,
        GAP_WORDS,
        GAP_NAME,
        is_gap=True,
        measured=pairing.gap_interval,
        paired_floor=pairing.paired_floor,
        mixed=pairing.mixed_order(is_gap=True),
        part_of_square=_part_of_square(gaps[0].log_errors[-1], schemes[0].log_errors[-1]),
    )
    least = np.maximum(gap.resolution, blurred * np.exp(scheme.shown.log_errors))
    seen = [gap] if (np.exp(gap.shown.log_errors) > least).any() else []
    left, apart = np.exp(scheme.shown.log_errors), np.exp(gap.shown.log_errors[-1])
    is_round_off = left[-1] <= min(ROUND_OFF * scheme.resolution, apart / BESIDE)
    if (left > scheme.resolution).any() and not is_round_off:
        # That a scheme approaches its own equation is known, and takes the most paths to be seen: of measured
        # orders, and on a fractional path, the distance to it says whether the limit is right.
        by_gap = bool(seen) and (bool(pairing.measured) or pairing.reads is Reads.PATH)
        seen.append(dataclasses.replace(scheme, decides=not by_gap))
    return tuple(seen) or (scheme,)


def _part_of_square(part: float, rest: float) -> float:
    """Return the part that a square has of two squares' sum, given the logs; 1 where paths were lost."""
    if not (math.isfinite(part) and math.isfinite(rest)):
        return 1.0
    return 1.0 / (1.0 + math.exp(min(2 * (rest - part), 700.0)))


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
    failed_precondition = first(verdict.failed_preconditions, _measured(task, pairing, coupled, estimated))
    outcome = (
        _judged(task, pairing, estimated, confidence, levels)
        if failed_precondition is None
        else Outcome(failed_precondition, estimated, NOT_FITTED)
    )
    # Of a wrong limit the errors' own fit is given: the networks' order is not that of the distance to it.
    # So it is where a theorem says the order. Medians of consecutive differences near it slowly: for scaled
    # GELU in Theorem 4.4 (width 32, 400 paths) they read 0.31 [0.25, 0.40], and the fit 0.43 [0.27, 0.54].
    order = pairing.order if pairing.measured else None
    settles = outcome.judgement.code != verdict.DOES_NOT and outcome.judgement.rule != "is_still_moving"
    if order is not None and not order.uncertain and order.rate > 0 and settles:
        hidden = _slower_part(estimated) if outcome.judgement.code == verdict.CONVERGES else None
        slower = order if hidden is None else hidden
        rate, interval = slower.rate, slower.interval(confidence)
        if hidden is not None:
            interval = interval[0] - OF_DISTANCES, interval[1] + OF_DISTANCES
        shown = None
        if outcome.judgement.rule == "is_the_limits_scheme" and _is_in_doubt(interval):
            shown = _of_single_steps(task)
        outcome = outcome.with_order(*(shown or (rate, interval)), of_single_steps=shown is not None)
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
    """What follows: the judgement, errors above the floor, the floor, and an order where one is given.

    `of_single_steps` says that the order is that of single steps of the limit's own scheme.
    """

    judgement: Judgement[ConvergenceVerdict]
    estimated: Estimated
    floor: Floor
    rate: float = np.nan
    interval: tuple[float, float] = (np.nan, np.nan)
    constant: float = np.nan
    of_single_steps: bool = False

    def with_order(self, rate: float, interval: tuple[float, float], *, of_single_steps: bool) -> Outcome:
        """Return the same with an order that was measured from consecutive differences, or is a part's."""
        constant = constant_of(self.estimated.common, rate)
        return dataclasses.replace(
            self, rate=rate, interval=interval, constant=constant, of_single_steps=of_single_steps
        )


def _slower_part(estimated: Estimated) -> Fit | None:
    """Return the order of the distance to the limit's scheme, if it surely falls more slowly than that.

    It is then the network's. Distances say it better than consecutive differences, which at small noise are
    round-off. None where errors have no two parts, or that one falls no more slowly: a network of order 1 is
    as far from a scheme of order 1/2 as that is from the limit. Nor where the two cancel: RK4, of order 2
    where noise commutes, is as far from Milstein's scheme as that is from the limit, and nearer to that.
    """
    parts = [part for part in estimated.parts if np.isfinite(part.judged.log_errors).all()]
    fits = {part.is_gap: fit_rate(part.judged) for part in parts}
    if len(fits) < 2 or not all(part.decides for part in parts if part.is_gap):
        return None
    (gap,) = (part for part in parts if part.is_gap)
    if estimated.common.log_errors[-1] < gap.shown.log_errors[-1] - math.log(CANCELLED):
        return None
    low, high = fits[True].interval(0.95)
    return fits[True] if low > 0 and high < fits[False].interval(0.95)[0] else None


CANCELLED = 2.0
"""Where the distance to the limit's scheme is more than this many times the error, the parts cancel."""
OF_DISTANCES = 0.02
"""What corrections at small depths move orders of distances to a scheme by: 0.013 to 0.015 in the mean of 40
calls each with depths 16 to 256, for Euler's scheme beside Milstein's on three equations."""
APART = 0.5
"""Orders of schemes are multiples of this."""


def _is_in_doubt(interval: tuple[float, float]) -> bool:
    """Whether an interval excludes 1/2, the least order of a scheme, or holds two orders."""
    return not interval[0] <= APART <= interval[1] or interval[1] - interval[0] > APART


def _of_single_steps(task: Task) -> tuple[float, tuple[float, float]] | None:
    """Return the order that single steps of the limit's own scheme show, with its interval.

    None where they are not to be had, as of limits that are no `SDE`.
    """

    # Few comparisons come here; for the others torchsde would be loaded in vain.
    from deeplimit.judge.solver.runs import Plan, resolve
    from deeplimit.judge.solver.single_steps import single_steps

    equation: Any = task.limit
    if not hasattr(equation, "reference_scheme"):
        return None
    x = task.h0
    if x is None:
        x = torch.randn(16, task.network.width, generator=torch.Generator().manual_seed(task.seed))
    solver = resolve(equation.reference_scheme, equation)
    plan = Plan(solver, equation, task.grid.depths, x.double(), "none", task.seed)
    found = single_steps(plan)
    return None if found is None else (found.order, found.interval)


def constant_of(errors: ErrorEstimates, rate: float) -> float:
    """Return c of c L^-rate through errors in the task's norm; NaN where one of them is zero or lost."""
    with np.errstate(invalid="ignore"):
        logs = errors.log_errors - errors.log_bias + rate * np.log(errors.depths)
    return float(np.exp(np.mean(logs))) if np.isfinite(logs).all() else np.nan


def _estimated(task: Task, pairing: Pairing, coupled: Coupled) -> Estimated:
    if pairing.distances is not None:
        return _estimated_by_medians(task, pairing, coupled, pairing.distances)
    layer = whole_estimates(task, pairing, coupled, moments.LAYERS)
    common = whole_estimates(task, pairing, coupled, moments.COMMON)
    errors, _ = corrected(layer, coupled.moments.diverged[: len(task.grid.depths)])
    resolution = max(rounding(task), coupled.reference_error)
    return Estimated(layer, common, errors, resolution, parts_of(task, pairing, coupled, resolution))


def _estimated_by_medians(task: Task, pairing: Pairing, coupled: Coupled, distances: np.ndarray) -> Estimated:
    """Return medians of distances at the common times: to the limit, and to its scheme to be judged by."""
    m, resolution = len(task.grid.depths), max(rounding(task), coupled.reference_error)
    whole = median_estimates(task, pairing, distances[:, :m], pairing.regime)
    near = median_estimates(task, pairing, distances[:, -m:], pairing.gap) if task.splits else whole
    part = Part(
        near,
        near,
        pairing.gap if task.splits else pairing.regime,
        False,
        resolution,
        is_gap=task.splits,
        measured=pairing.gap_interval if task.splits else pairing.measured_interval,
        paired_floor=pairing.paired_floor,
    )
    if task.splits:
        part = dataclasses.replace(part, what=GAP_WORDS, name=GAP_NAME)
    errors, _ = corrected(whole, np.zeros(m))
    return Estimated(whole, whole, errors, resolution, (part,))


def _measured(task: Task, pairing: Pairing, coupled: Coupled, estimated: Estimated) -> verdict.Measured:
    m, moments = len(task.grid.depths), coupled.moments
    known = pairing.regime.rate is not None and not pairing.regime.rate_is_bound
    return verdict.Measured(
        depths=task.grid.depths,
        paths=moments.count,
        errors=estimated.errors,
        # In medians, paths that were lost are the largest.
        diverged=moments.diverged[:m] * (pairing.distances is None),
        limit_lost=moments.limit_lost,
        resolution=estimated.resolution,
        # A step that adds nearly the same number to nearly the same state rounds as the one before.
        accumulated=rounding(task) * task.grid.size / math.sqrt(task.grid.depths[-1]),
        vanishes=any(not np.isfinite(part.judged.log_errors).all() for part in estimated.parts),
        # Roots of differences, and ratios of distances to them, rest on no few paths. Nor do differences
        # that expand in known powers of the depth on every path: with any weights they have the same orders.
        kurtosis=0.0
        if pairing.paired_floor is not None
        else max(
            0.0 if part.directed and m > 2 and known else part.judged.kurtosis
            for part in estimated.parts
            if part.decides
        ),
    )


def _judged(
    task: Task, pairing: Pairing, estimated: Estimated, confidence: float, levels: verdict.Levels
) -> Outcome:
    """Fit order and floor of each part, and judge; it always rests on the times that all depths share."""
    known, depth = pairing.correction is Correction.KNOWN, task.grid.depths[-1]
    missed = [unseen_share_of_weights(c, depth, task.seed) for c in task.network.channels if c.function]
    unseen = max(missed, default=0.0)
    floors, judged = [], []
    for part in (part for part in estimated.parts if part.decides):
        floor = part.floor()
        lifted = part.judged
        if floor.probability >= 1 - verdict.DOUBTFUL and known:
            lifted = above_floor(lifted, floor.share)
        apart = pairing.apart(part.shown.log_errors[-1], part.is_gap)
        is_scheme = task.splits and not part.is_gap and pairing.falls
        uncertain = pairing.order is not None and pairing.order.uncertain
        evidence = dataclasses.replace(
            part.evidence(lifted, floor, pairing, levels),
            apart=apart,
            apart_by_paths=pairing.apart_by_paths,
            is_scheme=is_scheme,
            is_uncertain=uncertain,
            unseen=unseen,
            own=pairing.own,
        )
        judgement = judge(verdict.rules, evidence)
        if judgement.rule == "falls" and not pairing.own and task.quantity != GRADIENT:
            evidence = dataclasses.replace(evidence, movement=movement(task))
            judgement = judge(verdict.rules, evidence)
        if judgement.code == verdict.DOES_NOT and pairing.smooth:
            jump = jump_of_weights(task.network.channels, task.seed)
            # One layer of a jump moves states of size 1 per entry by at most that.
            explains = jump is not None and evidence.deepest * depth <= jump.size
            evidence = dataclasses.replace(evidence, jump=jump if explains else None)
            judgement = judge(verdict.rules, evidence)
        share, lower, upper = (part.part_of_square * each for each in (floor.share, floor.lower, floor.upper))
        floors.append(Floor(share, lower, upper, floor.probability))  # shares of the whole error
        judged.append((evidence, judgement))
    floor, judgement = floors[0], verdict.together([each for _, each in judged])
    # Half the power tames the tails of a few paths that are large.
    shown, layer = [part.judged for part in estimated.parts], estimated.layer
    if floor.probability >= 1 - verdict.DOUBTFUL and known:
        shown, layer = [above_uncertain_floor(shown[0], floor)], above_uncertain_floor(layer, floor)
    if (pairing.measured and judgement.code != verdict.DOES_NOT) or not all(
        verdict.gives_an_order(evidence, each) for evidence, each in judged
    ):
        return Outcome(judgement, estimated, floor)
    # Between layers a Young limit moves with order H, which is above 2H - 1: the parts have the sum's order.
    if task.statistic.looks_between_layers and not (pairing.splits and pairing.reads is Reads.PATH):
        if not (pairing.rough or pairing.smooth):
            layer = dataclasses.replace(layer, is_walk=True)
        fit = fit_rate(layer)
        interval = _over_all_times(layer, fit, pairing.rough, confidence)
        return Outcome(judgement, estimated, floor, fit.rate, interval, float(np.exp(fit.log_constant)))
    # A sum falls like the part that falls more slowly.
    fits = [part.fit(errors) for part, errors in zip(estimated.parts, shown, strict=True)]
    intervals = [fit.interval(confidence) for fit in fits]
    slowest = min(fits, key=lambda fit: fit.rate)
    if len(fits) > 1 and max(low for low, _ in intervals) < min(high for _, high in intervals):
        # Which of the two is the slower one is not known: the lesser upper end of two errs twice as often.
        intervals = [
            (low, fit.interval(0.5 + confidence / 2)[1])
            for fit, (low, _) in zip(fits, intervals, strict=True)
        ]
    interval = min(low for low, _ in intervals), min(high for _, high in intervals)
    constant = constant_of(estimated.common, slowest.rate)
    return Outcome(judgement, estimated, floor, slowest.rate, interval, constant)


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
    lost_ones = diverged * (pairing.distances is None)
    errors, spread = corrected(layer, lost_ones)
    common_errors, common_spread = corrected(common, lost_ones)
    raw = np.where(diverged > 0, np.inf, np.exp(moments.log_errors()[:m]))
    slopes, slope_errors = local_slopes(layer if task.statistic.looks_between_layers else common)
    order = pairing.order if pairing.measured else None
    if order is not None and outcome.judgement.code != verdict.DOES_NOT:
        slopes, slope_errors = (_in_place(each, m - 1) for each in (order.slopes, order.slope_errors))
    equal = outcome.judgement.rule in verdict.EQUAL
    lost = (lost_ones[1:] > 0) | (lost_ones[:-1] > 0) | equal
    slopes, slope_errors = np.where(lost, np.nan, slopes), np.where(lost, np.nan, slope_errors)
    seen = np.isfinite(slopes)
    # On a fractional path the order is that of the part that falls more slowly, however the sum bends.
    drifts = bool(seen.any()) and not (pairing.splits and pairing.reads is Reads.PATH)
    drifts &= outcome.judgement.code != verdict.DOES_NOT  # of which nobody reads an order
    measures = pairing.correction is Correction.MEASURED
    reference_error = float(np.exp(moments.log_errors()[-1])) if measures else coupled.reference_error
    is_corrected = pairing.correction_over_layers is not Correction.NONE
    numbers = verdict.Numbers(
        depths=task.grid.depths,
        errors=errors,
        kurtosis=np.zeros(m) if equal or pairing.exact or pairing.distances is not None else kurtosis,
        diverged=diverged,
        limit_lost=moments.limit_lost,
        medians=pairing.distances is not None,
        paths=moments.count,
        exact=pairing.exact,
        equal=equal,
        rate=outcome.rate,
        interval=outcome.interval,
        predicted=pairing.predicted,
        is_bound=pairing.regime.rate_is_bound,
        contradicts=outcome.judgement.code == verdict.DOES_NOT and pairing.own,
        unknown=pairing.regime.not_checked if pairing.own else (),
        drift=float(np.ptp(slopes[seen][[0, -1]])) if drifts else 0.0,
        drift_error=float(np.hypot(*slope_errors[seen][[0, -1]])) if drifts else 0.0,
        reference_error=coupled.reference_error,
        parts_fall=min(
            float(part.shown.log_errors[0] - part.shown.log_errors[-1])
            if task.splits and np.isfinite(part.shown.log_errors).all()
            else 0.0
            for part in outcome.estimated.parts
        ),
        rounding=rounding(task),
        swollen=measures and _differ(raw, errors, 1.5),
        narrow=task.dtype == torch.float32,
    )
    wrong = outcome.judgement.code == verdict.DOES_NOT and pairing.reads is Reads.INCREMENTS
    other_motions = wrong and same_covariance_of_other_motions(task)
    sense = getattr(task.limit, "interpretation", "")
    report = CompareReport(
        verdict=outcome.judgement.code,
        reason=said(outcome.judgement, wording.REASONS) + (wording.PATH_BY_PATH if other_motions else ""),
        network=str(task.network),
        limit=task.limit.equation + (INDEPENDENT if task.independent else ""),
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
        norm=task.statistic.name,
        quantity=task.quantity,
        average=MEAN if pairing.distances is None else MEDIAN,
        p=task.p,
        paths=moments.count,
        seed=task.seed,
        coupling=wording.coupling(task, pairing),
        inputs=wording.inputs(task),
        reference=task.limit.reference_in_words(
            task.grid.size,
            task.tolerance,
            reference_error,
            reference_error if measures else None,
            is_corrected,
        ),
        reference_error=reference_error,
        device=str(task.device),
        dtype=str(task.dtype).removeprefix("torch."),
        seconds=seconds,
        versions=versions(),
        reservations=(
            *wording.pairing_notes(task, pairing, is_corrected),
            *([wording.OF_THE_SENSE] if wrong and sense == STRATONOVICH else []),
            *([wording.OF_OTHER_MOTIONS] if other_motions else []),
            *([wording.OF_SINGLE_STEPS] if outcome.of_single_steps else []),
            *all_said(verdict.caveats(numbers), numbers, wording.OF_THE_NUMBERS),
        ),
        citations=pairing.citations,
        rule=outcome.judgement.rule,
        predicted_is_bound=pairing.predicted is not None and pairing.regime.rate_is_bound,
        parts=tuple(
            _shown(part, confidence) for part in outcome.estimated.parts if task.splits and not equal
        ),
    )
    return report.measured_by(CoupledErrors(task, device=task.device))


def _in_place(slopes: np.ndarray, count: int) -> np.ndarray:
    """Return slopes between consecutive differences beside the depths where both have been seen (count,)."""
    return np.pad(slopes, (1, count - 1 - len(slopes)), constant_values=np.nan)


def _shown(part: Part, confidence: float) -> PartOfError:
    logs = part.shown.log_errors - part.shown.log_bias
    errors, spread = corrected(part.shown, np.zeros(len(logs)))
    is_whole = bool(np.isfinite(logs).all()) and part.shown.count >= least_paths(len(logs))
    fit = fit_rate(part.judged) if is_whole else None
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
