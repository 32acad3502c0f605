"""From errors of a solver to a verdict: small named rules on the evidence, the first that holds decides.

`order` judges errors that somebody has, `strong` and `weak` those that `check_solver` measured. The sentences
are in `wording`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deeplimit.common import verdict
from deeplimit.common.verdict import OrderVerdict, SolverVerdict
from deeplimit.statistics.consecutive import Order
from deeplimit.statistics.power_law import Floor, solution
from deeplimit.statistics.solver_errors import ErrorOrder, WeakOrder

CERTAIN = 0.99
"""Probability of a floor above half of the deepest squared error from which "levels off" is said."""
SURE = 0.999
"""Level from which a solver is accused, of another limit or a lower order, as in `convergence.verdict`: where
only the interval that is printed excludes the documented order, one right solver in 40 would be accused."""
DOUBTFUL = 0.05
"""Probability of such a floor up to which "power law" is said, as in `convergence.verdict`."""
OF_NO_LAW = 0.3
"""Least distance, in logarithms, of the last level that is left out from the power law of the finer ones. A
floor bends less from one level to the next: of 540 errors with floors of half to twice the finest one, 3 more
were power laws without it, 1 more is with it, and of 300 stiff equations 263 are power laws (276 without)."""
FEWEST_OF_THE_FINE = 4
"""With fewer levels a floor cannot be told from a power law."""
LEAST_LEVELS = 3
"""Two numbers of steps cannot tell a slow order from a floor."""
FLAT = 0.25
"""Errors do not fall where the interval of their order reaches 0 and ends below this, half of the lowest
order of a solver in use."""
NEAR_ROUND_OFF = 1e3
"""Errors below this many machine epsilons may be round-off: some hundred operations on states of size 1."""
ODD = 0.1
"""A level is odd that is this far, in logarithms, from the line through the others, and five times as far as
any of them."""
DRIFT, SETTLING = 0.05, 0.7
"""Slopes drift that change by this much, and do not settle where the last change is this share of the first:
that of a correction n^-1/2 is 0.5 after three changes, that of 1/n 0.25."""
SEEN, GROWING = 0.01, 2.0
"""A smaller change is one as well where changes double: of no correction, all of which fall."""
FLUCTUATING = 0.05
"""How far the order of a part must surely lie below the order of the whole to be another one."""
OUTSIDE = 0.05
"""An order this far outside of all local slopes needs a word: half a usual interval is twice as long."""
HEAVY = 100.0
"""Kurtosis of |error|^p from which one path in a hundred makes up the mean."""
APART = 3.0
"""Distances above this many times what further steps and the reference's error leave are another limit's; the
triangle inequality gives 1, the rest allows for norms and sampling errors, as in `convergence.verdict`."""
HALF = 0.5
"""Orders of schemes are multiples of this: an interval decides where it excludes the next lower one."""
EXACT_SOLUTION = "the exact solution"
"""What a report calls a reference that is the equation's own solution."""
SINGLE_STEPS = "single steps"
"""What a report's order is of where the part that has it is too small to be seen at usual steps."""
NEGLIGIBLE = 0.02
"""A lower bound of that share above this leaves the limit open, as in `convergence.verdict`."""
LARGE = 0.5
"""Share of the deepest squared distance that must be excluded before the limit is called the right one."""


@dataclass(frozen=True)
class OrderEvidence:
    """Errors that somebody has.

    Attributes:
        errors: errors (P, m) as given.
        kept: those of the paths (P', m) whose errors are finite and not 0.
        steps: numbers of steps (m,).
        levels: how many are above round-off, from the coarsest on.
        single: whether it is one vector without sampling noise.
        resolution: machine epsilon of the errors.
        fit: what was fitted; None where nothing could be.
        interval: interval of the order.
        of_a_part: whether that is the order of what paths do not have in common, and not of all.
        left_out: coarsest levels that were not fitted.
        local: local orders of all levels, with standard errors (2, m - 1).
    """

    errors: np.ndarray
    kept: np.ndarray
    steps: np.ndarray
    levels: int
    single: bool
    resolution: float
    fit: ErrorOrder | None
    interval: tuple[float, float]
    of_a_part: bool = False
    left_out: int = 0
    local: np.ndarray = field(default_factory=lambda: np.empty((2, 0)))

    @property
    def smallest(self) -> float:
        """Median error at the finest level."""
        return float(np.median(self.kept[:, -1])) if len(self.kept) else 0.0


_LEVELS_OFF, _UNCLEAR = OrderVerdict.LEVELS_OFF, OrderVerdict.CANNOT_TELL


def order(e: OrderEvidence) -> verdict.RuleByRule[OrderVerdict]:
    """Yield the rules on errors that somebody has."""
    # Averages over the other paths would mislead.
    yield _UNCLEAR, "some_are_not_finite", not bool(np.isfinite(e.errors).all())
    # There is nothing that could fall.
    yield _UNCLEAR, "all_vanish", not bool((e.errors > 0).any())
    # Every path has an error of 0 at some level.
    yield _UNCLEAR, "vanish_on_every_path", len(e.kept) == 0
    # A slow order and a floor look the same.
    yield _UNCLEAR, "have_few_levels", len(e.steps) < LEAST_LEVELS
    # Too few levels are above round-off.
    yield _UNCLEAR, "are_round_off", e.levels < LEAST_LEVELS
    # The covariance between levels cannot be estimated.
    yield _UNCLEAR, "have_few_paths", not e.single and len(e.kept) < e.levels + 3
    # Errors whose order is surely high have not levelled off: the coarsest of them may be of any size.
    falls = e.interval[0] > HALF
    level_off = e.fit is not None and e.fit.floor.probability > CERTAIN and not falls
    # Where the sign of an error changes on the way no power law is in sight, and the next rules speak.
    bends = e.fit is not None and e.fit.uncertain
    are_flat = e.interval[0] <= 0 and e.interval[1] < FLAT and not bends
    round_off = e.smallest < NEAR_ROUND_OFF * e.resolution
    # What remains may be round-off.
    yield _UNCLEAR, "level_off_near_round_off", (level_off or are_flat) and round_off
    # Most of the finest error remains at infinitely many steps.
    yield _LEVELS_OFF, "level_off", level_off
    # The whole interval of the order is near 0.
    yield _LEVELS_OFF, "are_flat", are_flat
    # Large corrections explain the errors best.
    yield _UNCLEAR, "follow_no_power_law", e.fit is not None and e.fit.uncertain
    # The interval of the order contains 0.
    yield _UNCLEAR, "may_not_fall", not e.interval[0] > 0
    # A large floor is not improbable enough.
    yield _UNCLEAR, "may_level_off", e.fit is not None and not e.fit.floor.probability <= DOUBTFUL
    # They fall more and more slowly: towards a floor, or a smaller order.
    slows = e.fit is not None and e.fit.slopes[-1] < e.fit.slopes[0]
    drifts = e.fit is not None and keeps_drifting(e.fit.slopes, e.fit.slope_errors)
    yield _UNCLEAR, "keep_slowing_down", slows and drifts
    # What remains: errors fall, and no large floor is in sight.
    yield OrderVerdict.POWER_LAW, "fall", True


def odd_level(steps: np.ndarray, errors: np.ndarray) -> tuple[int, float] | None:
    """Return which level is unlike the line through all others, and by which factor; None of less than five.

    The first is left alone: corrections are largest there.
    """
    if len(errors) < 5 or not (errors > 0).all() or not np.isfinite(errors).all():
        return None
    found = []
    x, y = np.log(steps), np.log(errors)
    for level in range(len(x)):
        others = np.arange(len(x)) != level
        design = np.stack([np.ones(len(x)), x], axis=1)
        rest = y - design @ (solution(design[others], np.ones(len(x) - 1)) @ y[others])
        allowed = max(5 * np.abs(rest[others]).max(), ODD)
        found.append((abs(rest[level]) / allowed, level, math.exp(rest[level])))
    most, level, factor = max(found)
    return (level, factor) if level > 0 and most > 1 else None


def grow(steps: np.ndarray, slopes: np.ndarray) -> bool:
    """Whether errors are larger at the finest of these steps (m,) than at the coarsest, by local orders."""
    return bool(np.nansum(slopes * np.log(steps[1:] / steps[:-1])) < 0)


def keeps_drifting(slopes: np.ndarray, errors: np.ndarray) -> bool:
    """Whether local slopes change in one direction, surely, and at the end no less than before.

    Those of a power law with corrections change less and less: after three changes half as much, or less.
    """
    changes = np.diff(slopes)
    if len(changes) < 2 or not np.isfinite(slopes).all() or not (changes * changes[0] > 0).all():
        return False
    grow = abs(changes[-1]) > GROWING * abs(changes[0])
    least = max(SEEN if grow else DRIFT, 4 * math.hypot(errors[0], errors[-1]))
    return bool(abs(slopes[-1] - slopes[0]) > least and abs(changes[-1]) > SETTLING * abs(changes[0]))


def order_caveats(report: Any, of_a_part: bool = False) -> Iterator[tuple[str, bool]]:
    """Yield what may have to be known of an order, and whether it does."""
    # One number of steps is unlike all others.
    yield "one_level_is_odd", odd_level(report.steps, report.errors) is not None
    # The order at more steps is another one.
    drifts = keeps_drifting(report.local_slopes, report.local_slope_errors)
    yield "slopes_keep_drifting", bool(drifts and report.levels == len(report.steps))
    # Paths with an error of exactly 0 were left out.
    yield "some_paths_vanish", bool(0 < report.vanished < report.paths)
    # The coarsest levels follow no power law with the others.
    yield "coarse_levels_are_left_out", report.left_out > 0
    # The finest levels are round-off.
    yield "levels_are_left_out", bool(0 < report.levels < len(report.steps))
    # A few paths make up the mean that is stated.
    yield "tails_are_heavy", bool(report.kurtosis > HEAVY or report.average == "medians")
    # The smallest error is not far above machine epsilon.
    yield "round_off_is_near", bool(0 < report.smallest < NEAR_ROUND_OFF * report.resolution)
    # What paths do not have in common falls more slowly.
    yield "order_is_of_a_part", of_a_part
    # Covariances of less than 100 paths are rough.
    yield "paths_are_few", bool(report.average != "single" and report.paths < 100)


@dataclass(frozen=True)
class StrongEvidence:
    """What was measured path by path.

    Attributes:
        lost: paths with a state that is not finite.
        order: the order of the solver's consecutive differences; None where it could not be fitted.
        interval: interval of the order, of these or of distances.
        sure: the same at level `SURE`.
        moves: whether any two levels differ.
        documented: the documented order; None where there is none.
        distance: root mean square distance of the finest level to the reference; NaN without one.
        reference_error: what the reference's own error, and round-off, allow of it.
        floor: share of the finest squared distance that would remain; None where it was not fitted.
        falls: orders at which distances fall at most, over all levels and over the last two.
        too_long: whether states grow without bound, at steps longer than the equation's time scale.
        in_float32: whether distances fall no longer, and may be round-off of float32.
        typical: the distance in the average in which `remaining` is known; where a few paths make up mean
            squares, in one in which they do not. NaN where that is the mean square.
        rises: whether local slopes keep rising, as before the steps resolve a singularity that is near.
        jump: time of a jump of the equation, which steps see late, if that alone explains the distance.
        drift_jumps, diffusion_jumps: whether they do as functions of the state, where that may explain it.
        is_steep: whether the finest steps do not resolve the diffusion, and a right scheme is not seen to
            converge either.
        unstable: how many of the coarsest numbers of steps are too few for the solver to be stable; nothing
            else is read of them.
    """

    lost: int
    order: Order | None
    interval: tuple[float, float]
    sure: tuple[float, float]
    moves: bool
    documented: float | None
    distance: float
    reference_error: float
    floor: Floor | None
    falls: tuple[float, float] = (math.inf, math.inf)
    too_long: bool = False
    in_float32: bool = False
    typical: float = math.nan
    rises: bool = False
    jump: float | None = None
    drift_jumps: bool = False
    diffusion_jumps: bool = False
    is_steep: bool = False
    unstable: int = 0

    @property
    def remaining(self) -> float:
        """What further steps would still change, at most."""
        return math.inf if self.order is None else self.order.remaining

    @property
    def next_lower(self) -> float:
        """The next order below the documented one."""
        return 0.0 if self.documented is None else max(0.0, self.documented - HALF)


def distance_levels_off(e: StrongEvidence) -> bool:
    """Most of the finest distance remains, and the reference's error is not what remains."""
    if e.floor is None or not e.floor.probability > SURE:
        return False
    return math.sqrt(e.floor.lower) * e.distance > APART * e.reference_error


def limit_is_open(e: StrongEvidence) -> bool:
    """A large remainder is not excluded, or a small one is sure, and the reference could show it."""
    if math.isnan(e.distance):
        return False
    if e.floor is None:
        return e.distance > APART * (e.remaining + e.reference_error)
    open_to = e.floor.lower if e.floor.lower > NEGLIGIBLE else e.floor.upper * (e.floor.upper > LARGE)
    return math.sqrt(open_to) * e.distance > APART * e.reference_error


_V = SolverVerdict
MORE_STEPS_MAY_DECIDE = frozenset(
    ("falls_faster", "may_fall_faster", "limit_is_open", "has_no_power_law", "slopes_keep_rising")
)
"""Rules that may say another thing at more steps: what falls more slowly is the larger part there, and steps
longer than the equation's time scale have no power law."""
MORE_PATHS_MAY_DECIDE = frozenset(
    (
        "order_is_not_fitted",
        "has_no_power_law",
        "slopes_keep_rising",
        "may_fall_more_slowly",
        "interval_is_wide",
        "limit_is_open",
        "may_fall_faster",
        "weak_error_is_noise",
        "means_may_fall_more_slowly",
        "weak_intervals_are_wide",
    )
)
"""Rules that say "cannot tell", and may not with more paths."""
JUMPS_MAY_EXPLAIN = frozenset(
    (
        "order_is_not_fitted",
        "has_no_power_law",
        "falls_more_slowly",
        "may_fall_more_slowly",
        "interval_is_wide",
    )
)
"""Rules, beside those that name another limit, whose reason may be that the equation jumps in time."""


def strong(e: StrongEvidence) -> verdict.RuleByRule[SolverVerdict]:
    """Yield the rules on errors path by path."""
    # Any explicit solver grows without bound there.
    yield _V.CANNOT_TELL, "steps_are_too_long", e.too_long
    # Averages over the other paths would mislead.
    yield _V.CANNOT_TELL, "paths_are_lost", e.lost > 0
    # The solver is stable at too few numbers of steps for an order.
    yield _V.CANNOT_TELL, "few_steps_are_stable", e.unstable > 0 and e.order is None
    # There is no error at any number of steps.
    yield _V.DOCUMENTED_ORDER, "equals_the_solution", not e.moves and e.distance <= APART * e.reference_error
    # A solver in float32 is as near to the solution as it can be.
    yield _V.CANNOT_TELL, "may_be_float32", e.in_float32
    # More steps change nothing, and the solution is elsewhere.
    yield _V.NOT_THE_LIMIT, "does_not_move", not e.moves and e.distance > APART * e.reference_error
    # Steps see a jump up to one step late: errors go up and down with their number.
    yield _V.CANNOT_TELL, "equation_jumps", e.jump is not None
    # There may be no solution on a given path (Tanaka), and no theorem says that schemes tend to one.
    yield _V.CANNOT_TELL, "diffusion_jumps", e.diffusion_jumps
    # Errors of one step are as large as the step.
    yield _V.CANNOT_TELL, "diffusion_is_steep", e.is_steep
    # What is taken for the solution tends to it more slowly than is known.
    yield _V.CANNOT_TELL, "drift_jumps", e.drift_jumps and distance_levels_off(e)
    # The solver tends to something, and that is not the solution.
    far = e.distance if math.isnan(e.typical) else e.typical
    yield _V.NOT_THE_LIMIT, "stays_apart", far > APART * (e.remaining + e.reference_error)
    yield _V.NOT_THE_LIMIT, "distance_levels_off", distance_levels_off(e)
    # The distance to the solution is as large with many steps as with few, and stays so.
    yield (
        _V.NOT_THE_LIMIT,
        "distance_does_not_fall",
        e.falls[0] < FLAT and e.falls[1] < HALF and e.distance > APART * e.reference_error,
    )
    # Fewer than two differences are above round-off, or there are too few paths.
    yield _V.CANNOT_TELL, "order_is_not_fitted", e.order is None
    # Large corrections explain the differences best.
    yield _V.CANNOT_TELL, "has_no_power_law", e.order is not None and e.order.uncertain
    # It would lie below the documented one, but local slopes are on their way to it.
    low = e.documented is not None and e.interval[1] < e.documented
    yield _V.CANNOT_TELL, "slopes_keep_rising", low and e.rises
    # Documented orders are those of Lipschitz drifts.
    yield _V.CANNOT_TELL, "drift_jumps_slowly", low and e.drift_jumps
    # The order surely lies below the documented one.
    yield (
        _V.NOT_THE_DOCUMENTED_ORDER,
        "falls_more_slowly",
        e.documented is not None and e.sure[1] < e.documented,
    )
    # No order is documented, and the whole interval is near 0: the solver tends to nothing.
    yield (
        _V.NOT_THE_LIMIT,
        "does_not_settle",
        e.documented is None and e.interval[0] <= 0 and e.interval[1] < FLAT,
    )
    # The printed interval lies below the documented order, and the surer one does not.
    yield _V.CANNOT_TELL, "may_fall_more_slowly", low
    # The next lower order, or 0, is not excluded.
    yield _V.CANNOT_TELL, "interval_is_wide", not e.interval[0] > e.next_lower
    yield _V.CANNOT_TELL, "limit_is_open", limit_is_open(e)
    # The order surely lies above the documented one.
    yield _V.FASTER, "falls_faster", e.documented is not None and e.sure[0] > e.documented
    # The printed interval lies above it by half the distance to the next one, and the surer one does not.
    high = e.documented is not None and e.interval[0] > e.documented + HALF / 2
    yield _V.CANNOT_TELL, "may_fall_faster", high
    # Nothing to compare with.
    yield _V.MEASURED, "has_no_documented_order", e.documented is None
    # What remains: the order is not below the documented one, and the next lower one is excluded.
    yield _V.DOCUMENTED_ORDER, "has_its_order", True


OF_NOTHING = 0.1
"""Where an interval of 95 % begins that knows nothing, all orders in [0, 4] being alike: it excludes no 0."""


@dataclass(frozen=True)
class WeakEvidence:
    """What was measured in means of test functions.

    Attributes:
        lost: paths with a state that is not finite.
        orders: per test function, the order of the means of its differences.
        moves: whether any value of a test function differs between two levels.
        documented: the documented weak order; None where there is none.
        gaps: per test function, |mean of f at infinitely many steps less that of the reference|; NaN without.
        allowed: per test function, what sampling, extrapolation and the reference allow of it.
        varies: whether any test function has two values at all, over paths and levels.
    """

    lost: int
    orders: tuple[WeakOrder, ...]
    moves: bool
    documented: float | None
    gaps: tuple[float, ...]
    allowed: tuple[float, ...]
    varies: bool = True

    @property
    def resolved(self) -> tuple[WeakOrder, ...]:
        """The orders of functions whose weak error is more than noise."""
        return tuple(order for order in self.orders if order.resolved)


def weak_intervals_are_wide(e: WeakEvidence) -> bool:
    """No function's interval excludes the next lower weak order, a whole one; or, if that is 0, any other."""
    lower = 0.0 if e.documented is None else max(0.0, e.documented - 1.0)
    if lower > 0:
        return not any(order.low > lower + 1e-9 for order in e.resolved)
    # Means that do not tend to the reference's are another rule's, so that the next higher order will do.
    reaches = [order.high > (e.documented or order.rate) + 1 for order in e.resolved]
    least = [OF_NOTHING if far else 1e-9 for far in reaches]
    return all(order.low <= low for order, low in zip(e.resolved, least, strict=True))


def weak(e: WeakEvidence) -> verdict.RuleByRule[SolverVerdict]:
    """Yield the rules on errors of means."""
    # Means over the other paths would mislead.
    yield _V.CANNOT_TELL, "weak_paths_are_lost", e.lost > 0
    # Some mean tends to another value than the reference's.
    yield (
        _V.NOT_THE_LIMIT,
        "means_stay_apart",
        any(gap > allowed for gap, allowed in zip(e.gaps, e.allowed, strict=True)),
    )
    # Constants have no error, whatever the states are.
    yield _V.CANNOT_TELL, "functions_are_constant", not e.varies
    # There is no error at any number of steps.
    yield _V.DOCUMENTED_ORDER, "equals_the_means", not e.moves
    # No test function's weak error is more than noise.
    yield _V.CANNOT_TELL, "weak_error_is_noise", not e.resolved
    # The order of some function's mean surely lies below the documented one.
    yield (
        _V.NOT_THE_DOCUMENTED_ORDER,
        "means_fall_more_slowly",
        e.documented is not None and any(order.sure_upper < e.documented for order in e.resolved),
    )
    # Some printed interval lies below the documented order, and the surer one does not.
    yield (
        _V.CANNOT_TELL,
        "means_may_fall_more_slowly",
        e.documented is not None and any(order.high < e.documented for order in e.resolved),
    )
    yield _V.CANNOT_TELL, "weak_intervals_are_wide", weak_intervals_are_wide(e)
    # All intervals lie above the documented order.
    yield (
        _V.FASTER,
        "means_fall_faster",
        e.documented is not None and all(order.low > e.documented for order in e.resolved),
    )
    # Nothing to compare with.
    yield _V.MEASURED, "has_no_documented_weak_order", e.documented is None
    # What remains: no interval lies below the documented order, and some contain it.
    yield _V.DOCUMENTED_ORDER, "has_its_weak_order", True


def solver_caveats(report: Any) -> Iterator[tuple[str, bool]]:
    """Yield what may have to be known of a check, and whether it does."""
    # The reference's error is close to the distance that it should resolve.
    exact = report.reference == EXACT_SOLUTION  # what is left is round-off
    equal = report.rule == "equals_the_solution"
    yield (
        "reference_is_coarse",
        bool(not (exact or equal) and report.reference_error > report.distances[-1] / APART),
    )
    # Some test functions' weak errors are noise, and say nothing.
    yield "functions_are_noise", any(not each.resolved for each in report.functions)
    # A few paths make up the means of differences.
    yield "order_is_of_medians", bool(report.medians)
    # Differences have two parts, and the local slopes are those of their sum.
    slopes = [each for each in report.local_slopes if math.isfinite(each)]
    outside = bool(slopes) and not min(slopes) - OUTSIDE <= report.rate <= max(slopes) + OUTSIDE
    hidden = report.source == SINGLE_STEPS
    yield "order_is_of_a_part", outside and not hidden and math.isfinite(report.rate)
    # Single steps show a part that these numbers of steps do not.
    yield "order_is_of_single_steps", hidden
    # Covariances of less than 100 paths are rough.
    yield "few_paths_were_run", bool(report.random and report.paths < 100)
