"""From how a change grows with depth to one of four verdicts: identity, stable, explosion, cannot tell.

Two lists of rules: OBSTACLES says why nothing can be fitted, RULES judges the fitted growth exponent γ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from deeplimit.common.verdict import Verdict
from deeplimit.statistics import verdict
from deeplimit.statistics.power_law import least_paths
from deeplimit.theory import Growth

VERDICTS = (Verdict.IDENTITY, Verdict.STABLE, Verdict.EXPLOSION, Verdict.CANNOT_TELL)
IDENTITY, STABLE, EXPLOSION, CANNOT_TELL = VERDICTS
SURE = 0.999
"""Confidence level of the interval that must exclude 0 before growth or decay is claimed."""
CLOSE = 0.98
"""Confidence level of the interval that must exclude growth and decay before "stable" is claimed."""
RESOLUTION = 0.05
"""Residual exponents this far from the critical one are excluded where "stable" is said."""
MOST_OF_THE_DYING = 2.0
"""A state that dies has changed by 1, one that turns round by 2: only a larger change is an explosion."""
SMALL = 0.5
"""Median change of the deepest networks below which the identity may be claimed."""
DEAD = 0.1
"""Median ratio of norms at the deepest network below which a signal or gradient dies."""


@dataclass(frozen=True)
class Changes:
    """What is known before any fit, as in `measure_growth`: `depths` (m,), `log_change` (m, draws), ...

    `undefined` says what made the NaN among the changes; it is empty if overflow did.
    """

    depths: np.ndarray
    log_change: np.ndarray
    exponential: bool
    exact: bool = False
    undefined: str = ""

    @property
    def overflowed(self) -> np.ndarray:
        """Which networks overflowed, (m, draws); NaN counts."""
        return np.asarray(~(self.log_change < np.inf))

    @property
    def unchanged(self) -> np.ndarray:
        """Which networks change nothing at all, (m, draws)."""
        return np.asarray(self.log_change == -np.inf)


def are_undefined(changes: Changes) -> str | None:
    """A layer made NaN out of finite states, which is no growth."""
    if not changes.undefined:
        return None
    share = np.isnan(changes.log_change).mean()
    return f"{share:.1%} of the networks gave NaN: {changes.undefined}"


def deepest_overflowed(changes: Changes) -> str | None:
    """Most of the deepest networks are beyond the range of numbers."""
    share = changes.overflowed[-1].mean()
    return f"{share:.0%} of the deepest networks overflowed" if share > 0.5 else None


def some_overflowed(changes: Changes) -> str | None:
    """The mean over the others would mislead."""
    if not changes.overflowed.any():
        return None
    share = changes.overflowed.mean()
    return f"{share:.1%} of the networks overflowed; dtype='float64' or smaller depths would help"


def deepest_are_unchanged(changes: Changes) -> str | None:
    """Every one of the deepest networks is the identity."""
    return "the deepest networks change nothing at all" if changes.unchanged[-1].all() else None


def a_depth_is_unchanged(changes: Changes) -> str | None:
    """Every network of some depth is the identity, but not of the deepest."""
    if not changes.unchanged.all(axis=1).any():
        return None
    return "at some depth the networks change nothing at all; take other depths or inputs"


def some_are_unchanged(changes: Changes) -> str | None:
    """A mean of logarithms is infinite."""
    if changes.exponential or not changes.unchanged.any():
        return None
    return "some networks change nothing at all, so logarithms have no mean; take other inputs"


def depths_are_few(changes: Changes) -> str | None:
    """A power cannot be told from its correction."""
    return "growth with depth needs at least three depths" if len(changes.depths) < 3 else None


def draws_are_few(changes: Changes) -> str | None:
    """Variances are not known."""
    count, m = changes.log_change.shape[1], len(changes.depths)
    if changes.exact or count >= least_paths(m):
        return None
    few = "1 draw is" if count == 1 else f"{count} draws are"
    return f"{few} too few for an interval; take {least_paths(m)} or more"


OBSTACLES: verdict.Rules[Verdict, Changes] = (
    (CANNOT_TELL, are_undefined),
    (EXPLOSION, deepest_overflowed),
    (CANNOT_TELL, some_overflowed),
    (IDENTITY, deepest_are_unchanged),
    (CANNOT_TELL, a_depth_is_unchanged),
    (CANNOT_TELL, some_are_unchanged),
    (CANNOT_TELL, depths_are_few),
    (CANNOT_TELL, draws_are_few),
)


@dataclass(frozen=True)
class Evidence:
    """What the fit, the deepest networks and theory say.

    Attributes:
        usual, close, sure: intervals of γ at 95 %, at CLOSE and at SURE.
        change, left: medians of log |h_L - h_0|/|h_0| and of log |h_L|/|h_0| at the deepest network.
        turns: whether the change rises between some depths and falls between others.
        theory: what theory says of γ. exponent: the network's residual exponent.
        exponential: whether an explosion is exponential in the depth.
    """

    usual: tuple[float, float]
    close: tuple[float, float]
    sure: tuple[float, float]
    change: float
    left: float
    turns: bool
    theory: Growth
    exponent: float
    exponential: bool = False

    @property
    def margins(self) -> tuple[float, float]:
        """The γ at residual exponents RESOLUTION above and below the critical one, c.

        Above, γ = 2(c - β). Below, the same holds for powers. Exponential growth has γ = 1 - β/c in the end:
        blocks of L^{β/c} layers multiply the state. Before, x is a power, and log(1 + x) has x/((1 + x)
        log(1 + x)) times its exponent.
        """
        critical = max(self.theory.critical or 1.0, 0.5)
        if not self.exponential or critical == 0.5:
            return -2 * RESOLUTION, 2 * RESOLUTION
        x = math.exp(min(max(2.0 * self.change, -30.0), 30.0))
        return -2 * RESOLUTION, 2 * RESOLUTION * max(0.5 / critical, x / ((1.0 + x) * math.log1p(x)))

    @property
    def suggests(self) -> Verdict:
        """What the fit alone says."""
        return verdict.judge(BY_THE_FIT, self).word

    @property
    def expected(self) -> Verdict | None:
        """What theory says; None where it says nothing of γ."""
        predicted = self.theory.predicted
        if predicted is None:
            return None
        return STABLE if predicted == 0.0 else EXPLOSION if predicted > 0.0 else IDENTITY


def dies(e: Evidence) -> str | None:
    """Next to nothing of the state is left, so that its change is bounded."""
    if not e.left < math.log(DEAD):
        return None
    return (
        f"it dies: at the deepest network a median share of {math.exp(e.left):.2g} is left, so that its"
        " change is 1; read the ratios instead"
    )


def grows_no_further_than_a_turn(e: Evidence) -> str | None:
    """A growing change is still bounded by that of a state that dies or turns round.

    Where theory has an explosion, the state does neither.
    """
    if e.suggests != EXPLOSION or e.expected == EXPLOSION or e.change >= math.log(MOST_OF_THE_DYING):
        return None
    return (
        "the change grows, but is no larger than that of a state that dies or turns round; take deeper"
        " networks"
    )


def is_not_small_yet(e: Evidence) -> str | None:
    """A falling change is still large, and theory does not say that it vanishes."""
    if e.suggests != IDENTITY or e.expected == IDENTITY or e.change <= math.log(SMALL):
        return None
    return "the change falls, but is not small yet: take deeper networks"


def contradicts_theory(e: Evidence) -> str | None:
    """Fit and theory say different things, and the interval excludes theory's γ."""
    predicted = e.theory.predicted
    if predicted is None or e.sure[0] <= predicted <= e.sure[1] or e.suggests == e.expected:
        return None
    return (
        f"theory has {predicted:g}, which is {e.expected}: these depths are still far from infinite depth;"
        " take deeper networks"
    )


def should_stay(e: Evidence) -> str | None:
    """Theory says that the change does not vanish at this exponent."""
    beyond = e.theory.vanishes_beyond
    if e.suggests != IDENTITY or beyond is None or e.exponent > beyond:
        return None
    return (
        f"theory has a change that stays up to the exponent {beyond:g}: these depths are far from infinite;"
        " take deeper networks"
    )


def is_far_from_critical(e: Evidence) -> str | None:
    """Theory knows the critical exponent, and the network's is not near it: it cannot be stable."""
    critical = e.theory.critical
    if e.suggests != STABLE or critical is None or abs(e.exponent - critical) < RESOLUTION - 1e-9:
        return None
    return (
        f"theory has {critical:g} as the critical exponent: these depths are still far from infinite depth;"
        " take deeper networks"
    )


def follows_no_power(e: Evidence) -> str | None:
    """No γ describes the depths."""
    if not e.turns:
        return None
    return (
        "the change follows no power of the depth: it rises between some depths and falls between others;"
        " take deeper networks"
    )


def vanishes(e: Evidence) -> str | None:
    """γ is surely negative."""
    return "the change vanishes as the depth grows" if e.sure[1] < 0 else None


def grows(e: Evidence) -> str | None:
    """γ is surely positive."""
    return "the change grows without bound with the depth" if e.sure[0] > 0 else None


def stays(e: Evidence) -> str | None:
    """γ is near 0: growth and decay that could be told apart from it are excluded."""
    low, high = e.margins
    if not low < e.close[0] <= e.close[1] < high:
        return None
    return (
        f"no growth or decay with depth: residual exponents {RESOLUTION:g} and more from the critical one are"
        " excluded"
    )


def is_likely_to_change(e: Evidence) -> str | None:
    """γ is not 0 at 95 %, but may be at SURE."""
    if e.usual[0] <= 0.0 <= e.usual[1]:
        return None
    return (
        "growth or decay is likely (95 %) but not certain (99.9 %): take more draws, or depths over a larger"
        " range"
    )


def is_too_uncertain(e: Evidence) -> str:
    """What remains: γ may be 0, or far from it."""
    return "the interval is too wide: take more draws, or depths over a larger range"


BY_THE_FIT: verdict.Rules[Verdict, Evidence] = (
    (IDENTITY, vanishes),
    (EXPLOSION, grows),
    (STABLE, stays),
    (CANNOT_TELL, is_likely_to_change),
    (CANNOT_TELL, is_too_uncertain),
)
RULES: verdict.Rules[Verdict, Evidence] = (
    (CANNOT_TELL, dies),
    (CANNOT_TELL, grows_no_further_than_a_turn),
    (CANNOT_TELL, is_not_small_yet),
    (CANNOT_TELL, contradicts_theory),
    (CANNOT_TELL, should_stay),
    (CANNOT_TELL, is_far_from_critical),
    (CANNOT_TELL, follows_no_power),
    *BY_THE_FIT,
)
