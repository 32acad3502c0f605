"""From errors and fits to one of three verdicts: rules on what is known before any fit, then on the fits.

Caveats say what to know before trusting the numbers: every one that holds is said. The sentences are in
`wording`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from deeplimit.common import verdict
from deeplimit.common.verdict import ConvergenceVerdict, Judgement
from deeplimit.driving.jumps import Jump
from deeplimit.statistics.differences import Remainder
from deeplimit.statistics.power_law import (
    UNSETTLED,
    ErrorEstimates,
    Fit,
    Floor,
    least_paths,
    local_slopes,
)

CONVERGES, DOES_NOT, CANNOT_TELL = ConvergenceVerdict
FLAT = 0.05
"""Errors do not fall if the whole interval of the order lies below this, or below half the predicted order.
"""
GROWS, STEEPEST, STEADY, LEAST_GROWN = 0.05, -1.1, 0.7, 4
"""Power of the depth by which errors surely grow; the most with which updates of one size, all aligned, make
them grow, -1, with room for noise; how much of the slope before the deepest one has; and depths for that.
Near a maximum the slope is at most .45 of the one before where depths double.
"""
HUGE = 1e10
"""Error of the coarsest network beyond which that of deeper ones, which overflow, may be instability: at
stiffness 3000 it is 4e36 at 16 layers.
"""
UNSTABLE = 7.7
"""Error of the coarsest network, to the power 1/L, beyond which its steps are unstable.

At stiffness s errors are (s/L)^L, and steepen up to L = s/e². Where they do so over three doublings, s/L is
at least 8 e² = 59 at the coarsest depth. The root of that leaves room for states of which a small part is
stiff.
"""
FLAT_GAP = 0.25
"""The same where a right limit leaves no error at all, and so none that could fall slowly at first."""
CERTAIN = 0.999
"""Probability of a floor above half of the deepest squared error from which "does not converge" is said."""
DOUBTFUL = 0.05
"""Probability of such a floor up to which "converges" is said."""
USUAL = 0.95
"""Level of the interval of the order that verdicts rest on."""
LEVEL = 0.02
"""Errors no smaller at the deepest network than at the coarsest do not fall if the last local slope is below
this.
"""
CLEAR = 0.1
"""Where contributions interfere, an upper bound of the floor above this forbids "converges"."""
UNPAIRED = 0.05
"""A floor of this part of what the limit moves forbids "converges" where no theorem pairs network and limit.
Networks that near their limit slowly have errors of that size, in which a small share is another limit: res-1
of AR(1) layers (ρ = .8, d = 5) was "converges" with σ 8 % too large in 4 of 5 calls."""
NEGLIGIBLE = 0.02
"""A lower bound of the floor above this share of the deepest squared error forbids "converges"."""
APART = 3.0
"""The triangle inequality gives 1 for the right limit; the rest allows for norms other than the mean square,
and for the sampling error of both sides."""
APART_BY_PATHS = 2.0
"""The same, held against differences of the same paths: 1.2 was the largest of 71 right Young equations, of
Hurst index .6 to .9, widths 1 to 4, depths from 4. At first, differences may fall more slowly than the
theorem says."""
UNSEEN = 0.5
"""A larger part of a function of time between its layers leaves open what deeper networks read: a wave with
fewer than three layers per period has 1 - cos(π/3) or more."""
RESOLVED = 3.0
"""Errors below this many times what round-off and the reference allow are not called a wrong limit's."""


@dataclass(frozen=True)
class Levels:
    """How sure a verdict must be: shared out where several interim analyses are taken at growing samples."""

    certain: float = CERTAIN
    doubtful: float = DOUBTFUL
    usual: float = USUAL

    def shared(self, weight: float) -> Levels:
        """Return the levels of one analysis to which this part of every error rate is given.

        `doubtful` stays. It bounds a posterior probability, and by Ville's inequality the probability that
        evidence ever speaks so strongly against a floor that is there has a bound without regard to analyses.
        """
        return Levels(1.0 - weight * (1.0 - self.certain), self.doubtful, 1.0 - weight * (1.0 - self.usual))


@dataclass(frozen=True)
class Evidence:
    """What the fits say.

    Attributes:
        depths: how many depths there are.
        interval: 95 % interval of the order, whatever confidence level is asked for, assuming a pure power.
        sure_upper: upper end of its 99.9 % interval.
        floor: the fit with a floor.
        last_slope, last_slope_error: order between the two deepest depths alone.
        previous_slope: order between the two depths before; NaN for two depths.
        fallen, fallen_error: log of the coarsest error over the deepest one.
        rate, reach: the fitted order, and how far it is extrapolated beyond the deepest slope.
        order: order of the network if the limit is right, by its theorem; None where no theorem says.
        kurtosis, count: kurtosis of the per-path errors, and how many there are.
        interfere: whether several contributions may cancel in part.
        hidden: whether a second contribution, known to be larger at small depth, makes up most of the
            deepest slope.
        deepest, resolution: the deepest error in the norm asked for, and what round-off and the reference's
            own error allow.
        on_its_own_grid: whether a finer grid of the same recursion stands in for the limit.
        what: what was fitted, in the plural.
        levels: how sure a verdict must be.
        flat: order below which errors count as flat.
        negligible: share below which floors do not count.
        remainder: what the differences of network and limit tend to, where they keep their direction.
        part_of_square: part of the whole error's deepest square that these errors have.
        is_uncertain: whether the networks' differences follow no power law that is in sight.
        is_scheme: whether the network is the limit's own scheme on its layers, to the last digits, and its
            measured order is surely above 0.
        apart: the deepest error over the most that the network's own differences leave of it; 0 if unknown.
        apart_by_paths: the same, path by path, where a theorem says how fast these differences fall.
        is_settling: whether networks of two depths differ less and less, about as fast as theory says.
        measured: whether the networks' differences surely fall, by an order that was measured.
        jump: the largest jump in time of the weights, where another limit would be said and one layer of the
            jump explains errors of this size: layers see it up to one layer late.
        own: whether a theorem pairs network and limit.
        movement: how far the limit moves, where that was looked at.
        unseen: the share of weights, as functions of time, that lines between the deepest layers leave.
        coarsest: the smallest number of layers.
    """

    depths: int
    interval: tuple[float, float]
    sure_upper: float
    floor: Floor
    last_slope: float
    last_slope_error: float
    previous_slope: float
    fallen: float
    fallen_error: float
    rate: float
    reach: float
    order: float | None
    kurtosis: float
    count: int
    interfere: bool = False
    hidden: bool = False
    deepest: float = math.inf
    resolution: float = 0.0
    on_its_own_grid: bool = False
    what: str = "the errors"
    levels: Levels = Levels()
    flat: float = FLAT
    negligible: float = NEGLIGIBLE
    remainder: Remainder | None = None
    part_of_square: float = 1.0
    apart: float = 0.0
    apart_by_paths: float = 0.0
    is_scheme: bool = False
    is_uncertain: bool = False
    is_settling: bool = True
    measured: bool = False
    jump: Jump | None = None
    unseen: float = 0.0
    own: bool = True
    movement: float = math.inf
    coarsest: int = 1

    @property
    def grown(self) -> bool:
        """Whether errors are no smaller at the deepest network than at the coarsest, beyond noise."""
        return self.fallen + 4 * self.fallen_error <= 0

    @property
    def is_level(self) -> bool:
        """Whether errors change by less than LEVEL over all depths, and between the deepest three.

        Near a maximum they do not stay so level: over a factor of 8 in depth, parts of orders r and s change
        by more unless both are near 0.
        """
        slopes = abs(self.last_slope), abs(self.previous_slope)
        return abs(self.fallen) <= LEVEL and max(slopes) <= LEVEL

    @property
    def heavy(self) -> bool:
        """Whether a few paths make up the average."""
        return self.kurtosis > self.count / 4

    @property
    def has_a_floor(self) -> bool:
        """Whether a large floor is certain by the fit."""
        return not self.floor.probability < self.levels.certain

    @property
    def may_remain(self) -> float:
        """The largest floor that is not improbable, as an error."""
        return self.deepest * math.sqrt(self.floor.upper)

    @property
    def unsettled(self) -> bool:
        """Whether differences are known to vanish, but their order would be an extrapolation."""
        return self.remainder is not None and self.reach > UNSETTLED

    @property
    def nears_a_floor(self) -> bool:
        """Whether errors that grow do so as they would towards a wrong limit.

        There the slope shrinks by a factor L^-s, s at most 1, from depth to depth, so not below half when
        depths double. Where two contributions cancel in part, errors pass a maximum, at which the slope falls
        to 0 at once.
        """
        return (
            not self.previous_slope < 0
            or self.last_slope - 2 * self.last_slope_error <= 0.45 * self.previous_slope
        )

    @classmethod
    def of(
        cls,
        estimates: ErrorEstimates,
        fit: Fit,
        floor: Floor,
        order: float | None,
        levels: Levels = Levels(),
    ) -> Evidence:
        """Return what the fits of one set of errors say by themselves."""
        logs, variances = estimates.log_errors - estimates.log_bias, np.diag(estimates.covariance)
        slopes, slope_errors = local_slopes(estimates)
        return cls(
            depths=len(estimates.depths),
            coarsest=int(estimates.depths[0]),
            interval=fit.interval(levels.usual),
            sure_upper=fit.interval(levels.certain)[1],
            floor=floor,
            last_slope=float(slopes[-1]),
            last_slope_error=float(slope_errors[-1]),
            previous_slope=float(slopes[-2]) if len(slopes) > 1 else np.nan,
            fallen=float(logs[0] - logs[-1]),
            fallen_error=math.sqrt(max(0.0, variances[0] + variances[-1] - 2 * estimates.covariance[0, -1])),
            rate=fit.rate,
            reach=fit.reach,
            order=order,
            kurtosis=estimates.kurtosis,
            count=estimates.count,
            interfere=estimates.interfere,
            # Of squared errors u^2r (1 + κ² u^2s), u = 1/L, the local slope is r + s κ²u^2s / (1 + κ²u^2s):
            # beyond r + s/2 the second contribution is the larger one.
            hidden=order is not None
            and estimates.hides
            and float(slopes[-1]) > order + min(estimates.second_orders) / 2,
            levels=levels,
        )


def _another_limit(e: Evidence) -> verdict.RuleByRule[ConvergenceVerdict]:
    """Yield the rules by which errors do not fall to 0."""
    # The whole interval of the order is near 0.
    yield DOES_NOT, "is_flat", not e.interval[1] > (e.flat if e.order is None else min(e.flat, e.order / 2))
    # Errors are no smaller than at the coarsest depth, and fall no more.
    level = LEVEL if e.order is None else min(LEVEL, e.order / 10)
    no_more = e.last_slope + 4 * e.last_slope_error <= level
    yield DOES_NOT, "has_grown_and_is_level", e.grown and no_more
    # A floor is certain, and the deepest slope as flat as it implies: a floor of half the deepest square
    # leaves at most two thirds of the order there, when depths double. Where it is steeper, the floor model
    # does not fit and proves nothing.
    flat = e.last_slope + 2 * e.last_slope_error < (0.33 if e.order is None else 2 * e.order / 3)
    yield DOES_NOT, "levels_off", e.has_a_floor and flat and not e.heavy
    # The differences at several depths, as vectors, tend to something other than 0. Where networks have not
    # settled, they are far from any expansion in powers of the depth.
    certain = e.remainder is not None and e.remainder.is_certain
    yield DOES_NOT, "tends_elsewhere", certain and e.is_settling


def rules(e: Evidence) -> verdict.RuleByRule[ConvergenceVerdict]:
    """Yield the rules on fits of errors that are finite and positive."""
    # A slow order and a floor look the same.
    yield CANNOT_TELL, "has_two_depths", e.depths <= 2
    # Deeper networks read other weights than these: what they tend to has not been looked at.
    yield CANNOT_TELL, "layers_miss_the_weights", e.unseen > UNSEEN
    # A scheme of an equation tends to its solution, and the network is one that does tend to something.
    yield CONVERGES, "is_the_limits_scheme", e.is_scheme
    # Errors may be how late layers see a jump, which goes up and down with depth.
    yield CANNOT_TELL, "weights_jump", e.jump is not None
    # The network tends to something, and its distance to that is far smaller than that to the limit.
    yield DOES_NOT, "stays_apart", e.apart > APART or e.apart_by_paths > APART_BY_PATHS
    # Errors fall steeply, and by no power law: the depths are too small for the equation.
    yield CANNOT_TELL, "is_far_from_a_power_law", e.is_uncertain and e.last_slope > FLAT_GAP
    # Errors grow from depth to depth by a power of it that does not become less. Where two contributions
    # cancel in part, they grow more slowly before they fall.
    last, before, noise = e.last_slope, e.previous_slope, 4 * e.last_slope_error
    grows = e.depths >= LEAST_GROWN and max(last + noise, before) < -GROWS and e.grown
    by_a_power = last <= STEADY * before and min(last, before) - noise > STEEPEST
    # Or faster: so they do where depths are too small for a stiff equation, too, but from larger ones.
    coarsest = math.log(e.deepest) - e.fallen if 0 < e.deepest < math.inf else math.inf
    faster = last <= before and coarsest < e.coarsest * math.log(UNSTABLE)
    yield DOES_NOT, "goes_away", grows and (by_a_power or faster)
    # What the networks tend to is not in sight: at more depth they may come to the limit.
    yield CANNOT_TELL, "is_still_moving", not e.is_settling and verdict.first(_another_limit, e) is not None
    # Errors may be passing a maximum, where two contributions cancel in part; level ones do not.
    yield CANNOT_TELL, "grows_ever_more_slowly", e.grown and not e.nears_a_floor and not e.is_level
    # What looks like another limit is round-off or the reference's error.
    yield (
        CANNOT_TELL,
        "falls_to_what_can_be_resolved",
        e.deepest < RESOLVED * e.resolution and verdict.first(_another_limit, e) is not None,
    )
    # What differences tend to may be the reference's error, which they all share.
    remains = e.remainder
    hidden = remains is not None and remains.is_seen and not remains.is_certain
    yield CANNOT_TELL, "tends_to_what_can_be_resolved", hidden
    yield from _another_limit(e)
    # A floor is certain by the fit, but a few paths make up the average.
    yield CANNOT_TELL, "seems_to_level_off", e.has_a_floor and e.heavy
    # A floor is certain by the fit, but the deepest slope is too steep for one.
    yield CANNOT_TELL, "follows_no_power_law", e.has_a_floor
    # The order would be an extrapolation far beyond the deepest slope.
    yield CANNOT_TELL, "mixes_orders", not e.reach <= UNSETTLED and not e.hidden and e.remainder is None
    # The interval of the order holds 0, and no order was measured from consecutive differences.
    yield CANNOT_TELL, "may_not_fall", not e.interval[0] > 0 and not (e.measured and e.fallen > 0)
    # A large floor is not improbable enough.
    yield CANNOT_TELL, "may_level_off", not e.floor.probability <= e.levels.doubtful
    # The distance to another limit may cancel in part against contributions that interfere.
    yield CANNOT_TELL, "may_hide_a_floor", e.interfere and not e.floor.upper <= CLEAR
    # No theorem pairs the two, and what may remain is no small part of what the limit moves.
    yield CANNOT_TELL, "may_remain", not e.own and e.may_remain > UNPAIRED * e.movement
    # Some floor is certain, however small.
    yield CANNOT_TELL, "has_a_small_floor", not e.floor.lower <= e.negligible
    # The order is surely smaller than the network's.
    yield CANNOT_TELL, "falls_too_slowly", e.order is not None and not e.sure_upper >= e.order
    # What remains: errors fall, and no floor of any size is in sight.
    yield CONVERGES, "falls", True


WITHOUT_ORDER = {
    "layers_miss_the_weights",
    "weights_jump",
    "is_still_moving",
    "grows_ever_more_slowly",
    "follows_no_power_law",
    "mixes_orders",
}
"""Rules by which no power law describes the errors, so that no order is given."""
WITHOUT_ORDER_OF_DIFFERENCES = {"may_level_off", "may_hide_a_floor"}
"""Further ones where differences are expanded: these depths do not resolve the expansion."""


def together(judgements: list[Judgement[ConvergenceVerdict]]) -> Judgement[ConvergenceVerdict]:
    """Return the judgement of errors that have several parts: they converge where all parts do."""
    for word in (DOES_NOT, CANNOT_TELL):
        for judgement in judgements:
            if judgement.code == word:
                return judgement
    return judgements[0]


def gives_an_order(evidence: Evidence, judgement: Judgement[ConvergenceVerdict]) -> bool:
    """Whether a power law describes the errors, and no faster contribution hides the network's."""
    unclear = evidence.remainder is not None and judgement.rule in WITHOUT_ORDER_OF_DIFFERENCES
    unclear = unclear or evidence.unsettled
    return judgement.rule not in WITHOUT_ORDER and not evidence.hidden and not unclear


SWALLOWED = 0.01
"""Round-off beyond which equal states prove nothing: layers move states by about their own size, or by 1."""
TINY = 1e-6
"""Round-off and a reference's error below this, at states of size 1, hide no other limit that matters."""
FALLEN = 100.0
"""Errors that fall by this factor to what can be resolved have a limit that is right to as many digits."""


@dataclass(frozen=True)
class Measured:
    """What is known before any fit.

    Attributes:
        depths: numbers of layers (m,).
        paths: number of paths.
        errors: (m,), infinite where a path was lost.
        diverged: paths that were not finite, by depth (m,).
        limit_lost: those on which the limit was not.
        resolution: what round-off and the reference's own error allow.
        vanishes: whether the error is exactly zero at some depth, on either set of times.
        kurtosis: kurtosis of the per-path errors at the times that all depths share.
        accumulated: round-off at most, if every step of the reference rounds to the same side.
    """

    depths: tuple[int, ...]
    paths: int
    errors: np.ndarray
    diverged: np.ndarray
    limit_lost: int
    resolution: float
    vanishes: bool
    kurtosis: float
    accumulated: float = 0.0


def failed_preconditions(m: Measured) -> verdict.RuleByRule[ConvergenceVerdict]:
    """Yield the rules by which no order can be fitted."""
    lost, largest, deepest = m.diverged, float(m.errors.max()), float(m.errors[-1])
    # Most paths of the deepest network were lost, fewer at less depth, and none by the limit.
    # Steps that are too large for the equation make errors that large at the coarsest depth already.
    unstable = HUGE < m.errors[0] < math.inf
    deep_ones = bool(lost[-1] > m.paths / 2 and lost[0] < lost[-1] and not unstable)
    yield DOES_NOT, "deep_networks_diverge", deep_ones and not m.limit_lost
    # Averages over the other paths would mislead.
    yield CANNOT_TELL, "some_paths_diverge", bool(lost.any())
    # There is no error, but nobody could see a layer's change beside states of this size.
    yield CANNOT_TELL, "is_swallowed", largest == 0 and m.resolution > SWALLOWED
    yield CONVERGES, "equals_the_limit", largest == 0
    # There is no error but round-off, which is tiny.
    most = max(m.resolution, m.accumulated)
    yield CONVERGES, "equals_the_limit_up_to_rounding", largest <= most < TINY
    # Nothing can be seen of the errors.
    yield CANNOT_TELL, "lies_within_resolution", largest <= m.resolution
    # Errors fall until nothing can be seen of them, as they would not towards another limit.
    yield CONVERGES, "falls_to_the_resolution", deepest <= m.resolution < float(m.errors[0]) / FALLEN
    # The deepest errors are round-off, or the reference's, and an order of them is neither's.
    yield CANNOT_TELL, "deepest_is_not_resolved", deepest <= m.resolution
    # A logarithm is infinite.
    yield CANNOT_TELL, "vanishes_at_some_depths", m.vanishes
    # The covariance between depths cannot be inverted.
    yield CANNOT_TELL, "has_too_few_paths", m.paths < least_paths(len(m.depths))
    # No uncertainty can be estimated where one or two paths make up the spread.
    yield CANNOT_TELL, "rests_on_two_paths", m.kurtosis > m.paths / 2


HEAVY = 100.0
"""Kurtosis from which a few paths dominate an average (Giles' warning for multilevel Monte Carlo)."""
FEW = 100
"""Fewer paths leave the covariance between depths poorly known."""
WORSE, SLIGHT = 2.0, 0.2
"""How many times as steep, in logarithms, both parts of an error fall as their sum, from which the sum is
the reference's error; and a fall that is none. Milstein's recursion has 20, with its correction a tenth
short 2.7 (the sum is the reference's in both), and with two fifths short 1."""
CLOSE = 0.05
"""A disturbance above this share of the smallest error is mentioned."""
STEEPER = 0.3
"""Slopes this far above the order cannot be taken for it in a picture: from order 1/2 to 1 it is 1/2."""
DRIFT = 0.05
"""Local slopes that change by more than this, beyond noise, are mentioned."""


@dataclass(frozen=True)
class Numbers:
    """What the reservations rest on; arrays have one entry per depth.

    Attributes:
        depths, errors, kurtosis: as in the report.
        diverged, limit_lost: paths lost by depth, and by the limit.
        paths: number of paths.
        exact: whether nothing is random, given them.
        equal: whether the verdict is that there is no error but round-off and the reference's.
        rate, interval, predicted: order, its interval, and the predicted one (None where there is none).
        is_bound: whether that is a lower bound.
        contradicts: whether the verdict is "does not converge", against a theorem.
        unknown: what the theorem assumes, and nobody knows of this network, as sentences.
        drift, drift_error: change of the local slope from the first to the last, and its standard error.
        reference_error, rounding: size of the reference solution's error and of round-off.
        parts_fall: logarithm of how many times both parts fall from the coarsest on; 0 for one part.
        medians: whether errors are medians over paths.
        swollen: whether taking the reference's error out changes some error by more than half.
        narrow: whether states are float32.
    """

    depths: tuple[int, ...]
    errors: np.ndarray
    kurtosis: np.ndarray
    diverged: np.ndarray
    limit_lost: int
    paths: int
    exact: bool
    rate: float
    interval: tuple[float, float]
    predicted: float | None
    is_bound: bool
    contradicts: bool
    drift: float
    drift_error: float
    reference_error: float
    rounding: float
    swollen: bool
    narrow: bool
    unknown: tuple[str, ...] = ()
    medians: bool = False
    equal: bool = False
    parts_fall: float = 0.0

    @property
    def steepness(self) -> float:
        """The slope of the errors from the coarsest to the deepest; NaN where one of them is 0 or lost."""
        first, last = float(self.errors[0]), float(self.errors[-1])
        if not (0 < last < np.inf and 0 < first < np.inf):
            return np.nan
        return float(np.log(first / last) / np.log(self.depths[-1] / self.depths[0]))

    @property
    def smallest(self) -> float:
        """The smallest error that is finite and not zero; infinite where there is none."""
        return float(self.errors[np.isfinite(self.errors) & (self.errors > 0)].min(initial=np.inf))


BY_ROUNDING = {
    "is_swallowed",
    "lies_within_resolution",
    "deepest_is_not_resolved",
    "vanishes_at_some_depths",
    "falls_to_what_can_be_resolved",
    "tends_to_what_can_be_resolved",
}
"""Rules by which float32 may be too narrow to tell."""
EQUAL = {"equals_the_limit", "equals_the_limit_up_to_rounding"}
"""Rules that find no error: then there is no slope, and no reference that would have to be better."""


def caveats(n: Numbers) -> Iterator[tuple[str, bool]]:
    """Yield what may have to be known before the numbers are trusted, and whether it does."""
    # The limit overflowed.
    yield "limit_was_lost", n.limit_lost > 0
    # A network overflowed, and no median is taken, which does not mind.
    yield "paths_were_lost", bool((n.diverged > 0).any()) and not n.medians
    # The covariance is poorly known.
    yield "paths_are_few", n.paths < FEW and not n.exact
    # A few paths make up every mean, or are lost.
    yield "medians_are_taken", n.medians
    # Few paths make up the average.
    yield "tails_are_heavy", n.kurtosis.max(initial=0.0) > HEAVY
    # The solver's tolerance shows.
    yield "reference_is_coarse", n.reference_error > CLOSE * n.smallest and not n.equal
    # Both parts fall and their sum does not: what is left is the reference's, of hardly shorter steps.
    sum_falls = n.steepness * np.log(n.depths[-1] / n.depths[0]) if n.parts_fall else 0.0
    yield "reference_is_worse", n.parts_fall > WORSE * max(sum_falls, SLIGHT)
    # The correction is large.
    yield "reference_changes_errors", n.swollen
    # Errors are near round-off.
    yield "rounding_shows", n.rounding > CLOSE * n.smallest and not n.equal
    # The interval excludes theory, and is not above a lower bound.
    (low, high), order = n.interval, n.predicted if np.isfinite(n.rate) else None
    outside = order is not None and not low <= order <= high and not (n.is_bound and low > order)
    yield "order_is_not_the_predicted", outside
    # The verdict is against a theorem.
    yield "theorem_is_contradicted", n.contradicts
    # The order is not asymptotic yet.
    yield "slopes_drift", n.drift > max(DRIFT, 3 * n.drift_error)
    # The order is that of a part which takes over at larger depth, and errors show another slope.
    yield "errors_fall_faster_than_the_order", n.predicted is None and bool(n.steepness - n.rate > STEEPER)
