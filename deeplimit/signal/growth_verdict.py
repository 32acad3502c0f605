"""From how a change grows with depth to one of four verdicts: identity, stable, explosion, cannot tell.

Two lists of rules: FAILED_PRECONDITIONS says why nothing can be fitted, RULES judges the growth exponent γ.
Effect and law are apart: sizes that explode are said to explode where the exponent is not resolved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from deeplimit.common import verdict
from deeplimit.common.verdict import StabilityVerdict
from deeplimit.signal.sizes import Sizes
from deeplimit.statistics.power_law import least_paths
from deeplimit.theory import Growth

IDENTITY, STABLE, EXPLOSION, CANNOT_TELL = StabilityVerdict
UNKNOWN = Growth()
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


def expected_by(theory: Growth) -> StabilityVerdict | None:
    """Return what theory says; None where it says nothing of γ."""
    return None if theory.predicted is None else _verdict_of(theory.predicted)


def _verdict_of(exponent: float) -> StabilityVerdict:
    return STABLE if exponent == 0.0 else EXPLOSION if exponent > 0.0 else IDENTITY


def explodes_by_theory(sizes: Sizes | None, theory: Growth) -> bool:
    """Theory has an explosion, and the change is likely larger than that of any state that turns round."""
    if sizes is None or expected_by(theory) != EXPLOSION:
        return False
    return sizes.likely[0] > math.log(MOST_OF_THE_DYING) and not sizes.has_fallen(0.05)


def vanishes_by_theory(sizes: Sizes | None, theory: Growth) -> bool:
    """Theory has the identity, and the change is likely small, and falls."""
    if sizes is None or expected_by(theory) != IDENTITY:
        return False
    return sizes.likely[1] < math.log(SMALL) and sizes.has_fallen(0.05)


@dataclass(frozen=True)
class Changes:
    """What is known before any fit, as in `measure_growth`: `depths` (m,), `log_change` (m, draws), ...

    `undefined` says what made the NaN among the changes; it is empty if overflow did. `sizes` are the
    medians, and `theory` what is known of γ.
    """

    depths: np.ndarray
    log_change: np.ndarray
    exponential: bool
    exact: bool = False
    undefined: str = ""
    sizes: Sizes | None = None
    theory: Growth = UNKNOWN

    @property
    def overflowed(self) -> np.ndarray:
        """Which networks overflowed, (m, draws); NaN counts."""
        return np.asarray(~(self.log_change < np.inf))

    @property
    def draws(self) -> int:
        """How many networks were drawn at each depth."""
        return int(self.log_change.shape[1])

    @property
    def unchanged(self) -> np.ndarray:
        """Which networks change nothing at all, (m, draws)."""
        return np.asarray(self.log_change == -np.inf)


def _no_fit(changes: Changes) -> verdict.RuleByRule[StabilityVerdict]:
    """Yield the rules in order; the first that holds decides."""
    # The mean over the others would mislead.
    yield CANNOT_TELL, "some_overflowed", bool(changes.overflowed.any())
    # Every one of the deepest networks is the identity.
    yield IDENTITY, "deepest_are_unchanged", bool(changes.unchanged[-1].all())
    # Every network of some depth is the identity, but not of the deepest.
    yield CANNOT_TELL, "a_depth_is_unchanged", bool(changes.unchanged.all(axis=1).any())
    # A mean of logarithms is infinite.
    yield CANNOT_TELL, "some_are_unchanged", bool(not changes.exponential and changes.unchanged.any())
    # With two depths a power and its correction look the same.
    yield CANNOT_TELL, "depths_are_few", len(changes.depths) < 3
    # Variances are not known.
    yield CANNOT_TELL, "draws_are_few", not changes.exact and changes.draws < least_paths(len(changes.depths))


def failed_preconditions(changes: Changes) -> verdict.RuleByRule[StabilityVerdict]:
    """Yield the rules by which nothing can be fitted."""
    # A layer made NaN out of finite states, which is no growth.
    yield CANNOT_TELL, "are_undefined", bool(changes.undefined)
    # Most of the deepest networks are beyond the range of numbers.
    yield EXPLOSION, "deepest_overflowed", bool(changes.overflowed[-1].mean() > 0.5)
    failed = verdict.first(_no_fit, changes)
    # No exponent can be fitted, and yet sizes explode as theory says.
    explode = failed is not None and explodes_by_theory(changes.sizes, changes.theory)
    yield EXPLOSION, "explodes_without_a_fit", explode
    # No exponent can be fitted, and yet sizes vanish as theory says.
    unknown = failed is not None and failed.code == CANNOT_TELL
    yield IDENTITY, "vanishes_without_a_fit", unknown and vanishes_by_theory(changes.sizes, changes.theory)
    yield from _no_fit(changes)


@dataclass(frozen=True)
class Evidence:
    """What the fit, the deepest networks and theory say.

    Attributes:
        usual, close, sure: intervals of γ at 95 %, at CLOSE and at SURE.
        change, left: medians of log |h_L - h_0|/|h_0| and of log |h_L|/|h_0| at the deepest network.
        turns: whether the change rises between some depths and falls between others.
        theory: what theory says of γ.
        exponent: the network's residual exponent.
        exponential: whether an explosion is exponential in the depth.
        sizes: medians at the coarsest and the deepest networks; None where they are not known.
        one_of: the γ that theory leaves open where it has two parts of which one may be missing; else empty.
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
    sizes: Sizes | None = None
    one_of: tuple[float, ...] = ()

    @property
    def left_by_theory(self) -> set[StabilityVerdict]:
        """What those of theory's γ would be that the interval at SURE does not exclude."""
        low, high = self.sure
        return {_verdict_of(each) for each in self.one_of if low <= each <= high}

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
    def suggests(self) -> StabilityVerdict:
        """What the fit alone says."""
        return verdict.judge(_by_the_fit, self).code

    @property
    def expected(self) -> StabilityVerdict | None:
        """What theory says; None where it says nothing of γ."""
        return expected_by(self.theory)


def grows_no_further_than_a_turn(e: Evidence) -> bool:
    """A growing change is still bounded by that of a state that dies or turns round.

    Where theory has an explosion, the state does neither.
    """
    large = e.change >= math.log(MOST_OF_THE_DYING)
    return e.suggests == EXPLOSION and e.expected != EXPLOSION and not large


def is_not_small_yet(e: Evidence) -> bool:
    """A falling change is still large, and theory does not say that it vanishes."""
    small = e.change <= math.log(SMALL)
    return e.suggests == IDENTITY and e.expected != IDENTITY and not small


def contradicts_theory(e: Evidence) -> bool:
    """Fit and theory say different things, and the interval excludes theory's γ.

    Not so where theory has an explosion and the sizes are one, by another law.
    """
    predicted = e.theory.predicted
    if predicted is None or e.sure[0] <= predicted <= e.sure[1] or has_exploded(e):
        return False
    return e.suggests != e.expected


def should_stay(e: Evidence) -> bool:
    """Theory says that the change does not vanish at this exponent."""
    beyond = e.theory.vanishes_beyond
    return e.suggests == IDENTITY and beyond is not None and not e.exponent > beyond


def is_far_from_critical(e: Evidence) -> bool:
    """Theory knows the critical exponent, and the network's is not near it: it cannot be stable."""
    critical = e.theory.critical
    if e.suggests != STABLE or critical is None:
        return False
    return not abs(e.exponent - critical) < RESOLUTION - 1e-9


def has_exploded(e: Evidence) -> bool:
    """Theory has an explosion, and the change surely is large, has grown, and likely still grows."""
    if e.sizes is None or e.expected != EXPLOSION or not e.usual[0] > 0.0:
        return False
    return e.sizes.sure[0] > math.log(MOST_OF_THE_DYING) and e.sizes.has_grown(1.0 - SURE)


def stays(e: Evidence) -> bool:
    """γ is near 0: growth and decay that could be told apart from it are excluded."""
    low, high = e.margins
    return low < e.close[0] <= e.close[1] < high


def explodes_in_size(e: Evidence) -> bool:
    """γ is not resolved, but the change is large: as theory says, or surely, and growing."""
    if explodes_by_theory(e.sizes, e.theory):
        return True
    if e.sizes is None or e.expected is not None or not e.usual[0] > 0.0:
        return False
    return e.sizes.sure[0] > math.log(MOST_OF_THE_DYING) and e.sizes.has_grown(1.0 - SURE)


def _resolved(e: Evidence) -> verdict.RuleByRule[StabilityVerdict]:
    """Yield the rules by which the fit decides."""
    # γ is surely negative.
    yield IDENTITY, "vanishes", e.sure[1] < 0
    # γ is surely positive.
    yield EXPLOSION, "grows", e.sure[0] > 0
    yield STABLE, "stays", stays(e)


def _unresolved(e: Evidence) -> verdict.RuleByRule[StabilityVerdict]:
    """Yield the rules by which it does not."""
    # γ is not 0 at 95 %, but may be at SURE.
    yield CANNOT_TELL, "is_likely_to_change", not e.usual[0] <= 0.0 <= e.usual[1]
    # What remains: γ may be 0, or far from it.
    yield CANNOT_TELL, "is_too_uncertain", True


def _by_the_fit(e: Evidence) -> verdict.RuleByRule[StabilityVerdict]:
    """Yield the rules on the fit alone."""
    yield from _resolved(e)
    yield from _unresolved(e)


def rules(e: Evidence) -> verdict.RuleByRule[StabilityVerdict]:
    """Yield the rules on the fit, held against the deepest networks and theory."""
    # Next to nothing of the state is left, so that its change is bounded.
    yield CANNOT_TELL, "dies", e.left < math.log(DEAD)
    yield CANNOT_TELL, "grows_no_further_than_a_turn", grows_no_further_than_a_turn(e)
    yield CANNOT_TELL, "is_not_small_yet", is_not_small_yet(e)
    yield CANNOT_TELL, "contradicts_theory", contradicts_theory(e)
    yield CANNOT_TELL, "should_stay", should_stay(e)
    # A falling change may have a coherent part that stays, by theory, and is too small to be seen.
    yield (
        CANNOT_TELL,
        "may_level_off",
        e.suggests == IDENTITY and any(_verdict_of(each) == STABLE for each in e.one_of),
    )
    yield CANNOT_TELL, "is_far_from_critical", is_far_from_critical(e)
    # No γ describes the depths.
    yield CANNOT_TELL, "follows_no_power", e.turns
    yield from _resolved(e)
    # Of the γ that theory leaves open, the data leave none but negative ones.
    yield IDENTITY, "can_only_vanish", e.left_by_theory == {IDENTITY}
    # Of the γ that theory leaves open, the data leave none but 0.
    yield STABLE, "can_only_stay", e.left_by_theory == {STABLE}
    yield EXPLOSION, "explodes_in_size", explodes_in_size(e)
    # γ is not resolved, but sizes fall and are small, as theory says.
    yield IDENTITY, "vanishes_in_size", vanishes_by_theory(e.sizes, e.theory)
    yield from _unresolved(e)


WITHOUT_LAW = {"explodes_in_size", "vanishes_in_size", "explodes_without_a_fit", "vanishes_without_a_fit"}
"""Rules by which sizes decide, while no γ is resolved."""
