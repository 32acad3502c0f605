"""From errors and fits to one of three verdicts, with the reason in a sentence.

RULES judges the fits; `obstacles` says before them why no order can be fitted at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from deeplimit.common.verdict import Verdict
from deeplimit.statistics import verdict
from deeplimit.statistics.differences import Remainder
from deeplimit.statistics.floors import Floor
from deeplimit.statistics.power_law import (
    UNSETTLED,
    ErrorEstimates,
    Fit,
    local_slopes,
)
from deeplimit.statistics.verdict import Judgement

CONVERGES, DOES_NOT = Verdict.CONVERGES, Verdict.DOES_NOT_CONVERGE
CANNOT_TELL = Verdict.CANNOT_TELL
FLAT = 0.05
"""Errors do not fall if the whole interval of the order lies below this, or below half the predicted order.
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
NEGLIGIBLE = 0.02
"""A lower bound of the floor above this share of the deepest squared error forbids "converges"."""
APART = 3.0
"""The triangle inequality gives 1 for the right limit; the rest allows for norms other than the mean square,
and for the sampling error of both sides."""
RESOLVED = 3.0
"""Errors below this many times what round-off and the reference allow are not called a wrong limit's."""


@dataclass(frozen=True)
class Levels:
    """How sure a verdict must be: shared out where several looks are taken at growing samples."""

    certain: float = CERTAIN
    doubtful: float = DOUBTFUL
    usual: float = USUAL

    def shared(self, weight: float) -> Levels:
        """Return the levels of one look to which this part of every error rate is given.

        `doubtful` stays. It bounds a posterior probability, and by Ville's inequality the probability that
        evidence ever speaks so strongly against a floor that is there has a bound without regard to looks.
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
        what: what was fitted, in the plural. levels: how sure a verdict must be.
        flat: order below which errors count as flat. negligible: share below which floors do not count.
        remainder: what the differences of network and limit tend to, where they keep their direction.
        part_of_square: part of the whole error's deepest square that these errors have.
        is_scheme: whether the network is the limit's own scheme on its layers, to the last digits, and its
            measured order is surely above 0.
        apart: the deepest error over the most that the network's own differences leave of it; 0 if unknown.
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
    is_scheme: bool = False

    def of_deepest(self, share: float, least: float = 0.0) -> str:
        """Say a share of their deepest square, not below `least` per cent, as one of the whole error's."""
        if self.part_of_square >= 1.0:
            return f"{max(least, 100 * share):.0f} % of the deepest squared error"
        whole = max(least, 100 * share * self.part_of_square)
        return f"{whole:{'.0f' if whole >= 1 else '.1g'}} % of the deepest squared error"

    @property
    def grown(self) -> bool:
        """Whether errors are no smaller at the deepest network than at the coarsest, beyond noise."""
        return self.fallen + 4 * self.fallen_error <= 0

    @property
    def heavy(self) -> bool:
        """Whether a few paths make up the average."""
        return self.kurtosis > self.count / 4

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
            hidden=_is_hidden(estimates, float(slopes[-1]), order),
            levels=levels,
        )


def _is_hidden(estimates: ErrorEstimates, slope: float, order: float | None) -> bool:
    """Whether the deepest slope is nearer to a second contribution's order than to the network's.

    Of squared errors u^2r (1 + κ² u^2s), u = 1/L, the local slope is r + s κ²u^2s / (1 + κ²u^2s): beyond r +
    s/2 the second contribution is the larger one.
    """
    return order is not None and estimates.hides and slope > order + min(estimates.second_orders) / 2


def has_two_depths(e: Evidence) -> str | None:
    """A slow order and a floor look the same."""
    if e.depths > 2:
        return None
    return (
        "two depths cannot tell a slow order from another limit; give at least three, better five over a"
        " factor of 16"
    )


def is_the_limits_scheme(e: Evidence) -> str | None:
    """A scheme of an equation tends to its solution, and the network is one that does tend to something."""
    if not e.is_scheme:
        return None
    return "the network is the limit's own scheme on its layers, up to round-off, and its differences fall"


def stays_apart(e: Evidence) -> str | None:
    """The network tends to something, and its distance to that is far smaller than that to the limit."""
    if e.apart <= APART:
        return None
    return (
        f"{e.what} at the deepest network are {e.apart:.3g} times what is left between it and what the"
        " networks tend to, so the limit is another one"
    )


def grows_ever_more_slowly(e: Evidence) -> str | None:
    """Errors may be passing a maximum, where two contributions cancel in part."""
    if not e.grown or e.nears_a_floor:
        return None
    return (
        f"{e.what} grow with depth, to {math.exp(-e.fallen):.2f} times the coarsest, but ever more slowly,"
        " so they may yet fall; deeper networks would tell"
    )


def is_flat(e: Evidence) -> str | None:
    """The whole interval of the order is near 0."""
    if e.interval[1] > (e.flat if e.order is None else min(e.flat, e.order / 2)):
        return None
    return f"{e.what} do not fall with depth (order at most {e.interval[1]:.3f}), so the limit is another one"


def has_grown_and_is_level(e: Evidence) -> str | None:
    """Errors are no smaller than at the coarsest depth, and fall no more."""
    level = LEVEL if e.order is None else min(LEVEL, e.order / 10)
    if not (e.grown and e.last_slope + 4 * e.last_slope_error <= level):
        return None
    return (
        f"{e.what} do not fall with depth: the deepest is {math.exp(-e.fallen):.2f} times the coarsest, and"
        " they stay level there, so the limit is another one"
    )


def levels_off(e: Evidence) -> str | None:
    """A floor is certain, and the deepest slope as flat as it implies.

    A floor of half the deepest square leaves at most two thirds of the order in the deepest slope, when
    depths double. Where it is steeper, the floor model does not fit and proves nothing.
    """
    flat = e.last_slope + 2 * e.last_slope_error < (0.33 if e.order is None else 2 * e.order / 3)
    if e.floor.probability < e.levels.certain or not flat or e.heavy:
        return None
    return (
        f"{e.what} level off: {e.of_deepest(e.floor.share)} remains at infinite depth, so the limit is"
        " another one"
    )


def tends_elsewhere(e: Evidence) -> str | None:
    """The differences at several depths, as vectors, tend to something other than 0.

    Towards a floor slopes shrink; where they grow, errors are far from any expansion in powers of the depth.
    """
    if e.remainder is None or not e.remainder.is_certain or e.last_slope > max(e.previous_slope, 0.0):
        return None
    return (
        f"the differences of network and limit tend to {100 * e.remainder.size:.3g} % of the deepest one, not"
        f" to 0 (one term of their expansion changes {100 * e.remainder.error:.2g} %), so the limit is"
        " another one"
    )


def falls_to_what_can_be_resolved(e: Evidence) -> str | None:
    """What looks like another limit is round-off or the reference's error."""
    if not e.deepest < RESOLVED * e.resolution or verdict.first(_ANOTHER_LIMIT, e) is None:
        return None
    return (
        f"{e.what} have reached round-off or the reference's error, about {e.resolution:.1e};"
        " dtype='float64', a smaller tolerance= or smaller depths would help"
    )


def seems_to_level_off(e: Evidence) -> str | None:
    """A floor is certain by the fit, but a few paths make up the average."""
    if e.floor.probability < e.levels.certain or not e.heavy:
        return None
    return (
        f"{e.what} seem to level off, but a few of the {e.count} paths make up the average (kurtosis"
        f" {e.kurtosis:.0f}); more paths or a smaller p would help"
    )


def follows_no_power_law(e: Evidence) -> str | None:
    """A floor is certain by the fit, but the deepest slope is too steep for one."""
    if e.floor.probability < e.levels.certain:
        return None
    return (
        f"no power law fits {e.what}, whose deepest slope is still {e.last_slope:.2f}, so no order is"
        " given; weights may vary faster than the networks resolve, or jump; deeper networks would help"
    )


def mixes_orders(e: Evidence) -> str | None:
    """The order would be an extrapolation far beyond the deepest slope."""
    if e.reach <= UNSETTLED or e.hidden or e.remainder is not None:
        return None
    return (
        f"contributions of several orders mix: the deepest local slope is {e.last_slope:.2f}, an"
        f" extrapolation says {e.rate:.2f}, and no order is given; deeper networks would tell"
    )


def may_not_fall(e: Evidence) -> str | None:
    """The interval of the order holds 0."""
    if e.interval[0] > 0:
        return None
    return "the interval of the order contains 0; more paths or a wider range of depths would help"


def may_level_off(e: Evidence) -> str | None:
    """A large floor is not improbable enough."""
    if e.floor.probability <= e.levels.doubtful:
        return None
    return (
        f"a floor, as if the limit were another one, has probability {e.floor.probability:.2f}"
        f" ({e.levels.doubtful:g} is allowed); more paths or deeper networks would decide"
    )


def may_hide_a_floor(e: Evidence) -> str | None:
    """The distance to another limit may cancel in part against contributions that interfere."""
    if not e.interfere or e.floor.upper <= CLEAR:
        return None
    return (
        f"{e.what} fall, but up to {e.of_deepest(e.floor.upper)} may be a floor, which several interfering"
        " contributions can hide; deeper networks would tell"
    )


def has_a_small_floor(e: Evidence) -> str | None:
    """Some floor is certain, however small."""
    if e.floor.lower <= e.negligible:
        return None
    return (
        f"{e.what} fall, but {e.of_deepest(e.floor.share)} looks like a floor: the limit is slightly off, or"
        " the depths are too small; deeper networks would tell"
    )


def falls_too_slowly(e: Evidence) -> str | None:
    """The order is surely smaller than the network's."""
    if e.order is None or e.sure_upper >= e.order:
        return None
    return (
        f"{e.what} fall, but more slowly than this network reaches its limit (order {e.order:g}): the limit"
        " is slightly off, or the depths are too small; deeper networks would tell"
    )


def falls(e: Evidence) -> str:
    """What remains: errors fall, and no floor of any size is in sight."""
    towards = "to its own finer grid, and to the limit at most in law: " if e.on_its_own_grid else ""
    reason = (
        f"{towards}{e.what} fall with depth; at most {e.of_deepest(e.floor.upper, least=1.0)} would remain at"
        " infinite depth"
    )
    if e.unsettled:
        return f"{reason}. No order is given: contributions of several orders mix at these depths"
    if not e.hidden:
        return reason
    return (
        f"{reason}. No order is given: the deepest local slope, {e.last_slope:.2f}, comes mostly from"
        f" a contribution that vanishes faster and hides the one of order {e.order:g}"
    )


_ANOTHER_LIMIT: verdict.Rules[Verdict, Evidence] = (
    (DOES_NOT, is_flat),
    (DOES_NOT, has_grown_and_is_level),
    (DOES_NOT, levels_off),
    (DOES_NOT, tends_elsewhere),
)
RULES: verdict.Rules[Verdict, Evidence] = (
    (CANNOT_TELL, has_two_depths),
    (CONVERGES, is_the_limits_scheme),
    (DOES_NOT, stays_apart),
    (CANNOT_TELL, grows_ever_more_slowly),
    (CANNOT_TELL, falls_to_what_can_be_resolved),
    *_ANOTHER_LIMIT,
    (CANNOT_TELL, seems_to_level_off),
    (CANNOT_TELL, follows_no_power_law),
    (CANNOT_TELL, mixes_orders),
    (CANNOT_TELL, may_not_fall),
    (CANNOT_TELL, may_level_off),
    (CANNOT_TELL, may_hide_a_floor),
    (CANNOT_TELL, has_a_small_floor),
    (CANNOT_TELL, falls_too_slowly),
    (CONVERGES, falls),
)
WITHOUT_ORDER = {rule.__name__ for rule in (grows_ever_more_slowly, follows_no_power_law, mixes_orders)}
"""Rules by which no power law describes the errors, so that no order is given."""
WITHOUT_ORDER_OF_DIFFERENCES = {rule.__name__ for rule in (may_level_off, may_hide_a_floor)}
"""Further ones where differences are expanded: these depths do not resolve the expansion."""


def judge(evidence: Evidence) -> Judgement[Verdict]:
    """Return the judgement on finite, positive errors."""
    return verdict.judge(RULES, evidence)


def together(judgements: list[Judgement[Verdict]]) -> Judgement[Verdict]:
    """Return the judgement of errors that have several parts: they converge where all parts do."""
    for word in (DOES_NOT, CANNOT_TELL):
        for judgement in judgements:
            if judgement.word == word:
                return judgement
    return judgements[0]


def gives_an_order(evidence: Evidence, judgement: Judgement[Verdict]) -> bool:
    """Whether a power law describes the errors, and no faster contribution hides the network's."""
    unclear = evidence.remainder is not None and judgement.rule in WITHOUT_ORDER_OF_DIFFERENCES
    unclear = unclear or evidence.unsettled
    return judgement.rule not in WITHOUT_ORDER and not evidence.hidden and not unclear
