"""What becomes of a residual stream as the network deepens: a list of rules, the first that holds decides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from deeplimit.common import verdict
from deeplimit.modules.depth_check.meaning import Distance


@dataclass(frozen=True)
class Evidence:
    """What the meaning of a stream rests on, at each depth; see `StreamScaling`."""

    sums: tuple[int, ...]
    skip: tuple[float, ...]
    growth: tuple[float, ...]
    gradient_growth: tuple[float | None, ...]
    kept: tuple[float, ...]
    growth_exponent: float | None
    normalised: bool
    renormed: bool
    excess: Distance | None = None  # the smallest of a branch's exponent above its critical one
    turned: tuple[float | None, ...] = ()
    mixed: tuple[float, ...] = ()
    from_zero: bool = False
    bent: float = 0.0

    @property
    def is_bent(self) -> bool:
        """Whether a function of the state stands between sums: as many act on it as there are layers."""
        return self.bent > MIXED

    @property
    def is_mixed(self) -> bool:
        """Whether earlier states are added between sums, so that skip and updates are not the whole."""
        return bool(self.mixed) and max(self.mixed) > MIXED

    @property
    def log_skips(self) -> list[float]:
        """Logarithms of what all skips together multiply the state by, at each depth."""
        return [count * math.log(max(gain, TINY)) for count, gain in zip(self.sums, self.skip, strict=True)]

    @property
    def grows_like_a_power(self) -> bool:
        """Whether the state grows with depth, by more than updates of one size in total do."""
        # Updates above their critical exponent make it grow by that power themselves.
        own = -self.excess.value if self.excess is not None and self.excess.is_below else 0.0
        rises = self.growth_exponent is not None and self.growth_exponent > OUTGROWN + own
        return rises and self.growth[-1] > LARGE

    @property
    def added_exponent(self) -> float | None:
        """The power with which what updates add to the stream grows: half of that of growth² - 1.

        The state itself has it only where it has outgrown its input. None if it does not grow.
        """
        added = [value**2 - 1 for value in self.growth]
        ends = (self.sums[0], self.sums[-1]), (added[0], added[-1])
        slopes = slopes_of(*ends) if min(added) > ADDED else []
        return slopes[0][1] / 2 if slopes else None

    @property
    def outruns_powers(self) -> bool:
        """Whether branches that read the state as it is make it grow faster than aligned updates could.

        Their growth is exponential in a power of the depth; fluctuations hide that it steepens.
        """
        larger = self.excess is not None and self.excess.is_below
        slopes = [slope for _, slope in slopes_of(self.sums, self.growth)]
        return (
            larger and not self.normalised and not self.renormed and len(slopes) > 1 and min(slopes) > POWER
        )

    @property
    def keeps_its_input(self) -> bool:
        """Whether the last state still points where the first does, at the largest depth and the least."""
        known = [value for value in self.turned if value is not None]
        return bool(known) and len(known) == len(self.turned) and min(known[-1], known[0]) > KEPT

    @property
    def changes(self) -> list[float]:
        """Sizes of the last state less the first one over the latter, at each depth; empty where unknown."""
        pairs = list(zip(self.growth, self.turned, strict=False))
        if len(pairs) < len(self.sums) or not pairs or any(turned is None for _, turned in pairs):
            return []
        return [math.sqrt(max(1 + size**2 - 2 * size * (turned or 0.0), 0.0)) for size, turned in pairs]

    @property
    def moves_all_the_same(self) -> bool:
        """Whether the state moves about as far in deep networks as in shallow ones, whatever updates say."""
        changes = self.changes
        if len(changes) < 2 or self.excess is None or self.renormed:
            return False
        falls = (self.sums[0] / self.sums[-1]) ** (SLOWLY * self.excess.value)
        return bool(changes[-1] > max(MOVES, falls * changes[0]))

    @property
    def dies_out(self) -> bool:
        """Whether the state shrinks exponentially in a power of the depth though no skip makes it.

        Branches take it away: h + t (f - h) keeps 1 - t of it per layer. Updates of a finite clock leave a
        share that does not depend on the depth. Of a state that starts at zero there is nothing to take. A
        function of the state, such as tanh, takes it away like a power of the depth.
        """
        shrinks = self.growth_exponent is not None and self.growth_exponent < -SHRINKING
        taken = self.is_bent and not self.renormed and shrinks and self.growth[-1] < FADED
        return not self.from_zero and (taken or self._fades(self.growth))

    @property
    def is_forgotten(self) -> bool:
        """Whether the gradient shrinks so. In h + (f(h) - a h) the state need not."""
        gradients = [value for value in self.gradient_growth if value is not None]
        whole = len(gradients) == len(self.sums) and self.excess is not None and self.excess.is_below
        return whole and self._fades(gradients)

    def _fades(self, values: Sequence[float]) -> bool:
        logs = [math.log(max(value, TINY)) for value in values]
        faded = not self.renormed and logs[-1] < math.log(FADED) and rises(self.sums, logs)
        return faded and (self.is_mixed or self.is_bent or self.drift == 0.0)

    @property
    def drift(self) -> float:
        """Logarithm of what the skips alone multiply the state by, in the deepest network.

        0 if it does not grow like a power of the depth: skips of sqrt(1 - 1/N), or sqrt(l / (l + 1)) in
        layer l.
        """
        if self.renormed:
            return 0.0
        logs = self.log_skips
        first, last = logs[0], logs[-1]
        deeper = (self.sums[-1] / self.sums[0]) ** STEEPENING
        grows = len(self.sums) == 1 or abs(last) > abs(first) * deeper or rises(self.sums, logs)
        return last if abs(last) > DRIFT and grows else 0.0


MIXED = 0.02
"""Share of a state beside the sum before it that is no round-off: half precision leaves 1e-3, published
designs mix in 5 to 50 %."""
OUTGROWN, LARGE = 0.35, 2.5
"""Power of the depth and factor that a state does not reach whose updates all together have one size: e^½ to
e in the mean."""
ADDED = 0.02
"""Growth of a squared size that is no sampling error of its depths: half precision leaves 1e-3."""
KEPT = 0.5
"""Cosine with the first state above which nobody may call it forgotten."""
MOVES, SLOWLY = 0.1, 0.25
"""Part of itself by which a state moves that does not stand still, and the part of the exponent above the
critical one with which its move then falls at most: all of it, where updates are all that moves it."""
SHRINKING = 0.25
"""Half of the least power with which an activation of the state takes it away: x - x³/3 leaves L^-1/2."""
FADED = 0.5
"""Share of its size that is left of a state, at most, where nobody would say that it goes on."""
TINY = 1e-30
DRIFT = 0.02
"""Skips that together multiply a state by less than exp(DRIFT) are taken for one."""

POWER = 2.0
"""Well above 1, the largest exponent with which updates of one size, all aligned, make a stream grow."""

STEEPENING = 0.75
"""An exponential's slope on logarithmic axes grows like the number of sums, or at least this power of it."""

RISING = 0.25
"""Half way between 0, the power of the depth by which the slope of a logarithm rises, and that of
1 - N^-1/2."""


def runs_away(sums: Sequence[int], values: Sequence[float | None], power: float = POWER) -> bool:
    """Return whether values grow exponentially in the number of sums, as far as a few depths show it.

    Between the last two depths they must grow faster than this power, and faster than between those before.
    """
    known = [(count, value) for count, value in zip(sums, values, strict=True) if value is not None]
    if len(known) < 2 or known[0][1] == math.inf:
        return False
    if known[-1][1] == math.inf:
        return True
    slopes = slopes_of(*zip(*known, strict=True))
    if len(slopes) < 2:
        return bool(slopes) and slopes[0][1] > 2 * power
    (earlier, before), (count, slope_now) = slopes[-2:]
    return slope_now > power and slope_now > before * (count / earlier) ** STEEPENING


def rises(sums: Sequence[int], logs: Sequence[float]) -> bool:
    """Return whether the logarithm of a factor grows like a power of the number of sums.

    A power of the number itself, sqrt(l / (l + 1)) in layer l, has the same slope at all depths.
    """
    points = sorted(dict(zip(sums, logs, strict=True)).items())
    slopes = [
        (math.sqrt(count * earlier), (value - before) / math.log(count / earlier))
        for (earlier, before), (count, value) in pairwise(points)
    ]
    if len(slopes) < 2 or abs(points[-1][1]) < abs(points[0][1]) + DRIFT:
        return False
    (shallow, first), (deep, last) = slopes[0], slopes[-1]
    # Of a logarithm of one size at all depths the slopes are noise.
    whole = abs(points[-1][1]) > abs(points[0][1]) * (points[-1][0] / points[0][0]) ** (RISING / 2)
    return bool(whole and abs(last) > abs(first) * (deep / shallow) ** RISING)


def slopes_of(counts: Sequence[int], values: Sequence[float]) -> list[tuple[float, float]]:
    """Return the powers of the count between neighbours, and where they are."""
    known = zip(counts, values, strict=True)
    return [
        (
            math.sqrt(count * earlier),
            math.log(max(value, TINY) / max(before, TINY)) / math.log(count / earlier),
        )
        for (earlier, before), (count, value) in pairwise(known)
        if count > earlier
    ]


OUTGROWS = "grows with depth, more than its branches"
MULTIPLIED, DAMPED = "explosion (skip above one)", "forgets its input (skip below one)"
EXPLODING, BACKWARD = "explosion", "explosion of the gradient"
OPEN = "cannot tell (earlier states are added)"
BENT = "cannot tell (the state is bent between sums)"
UNSEEN = "cannot tell (the state moves all the same)"
DYING = "forgets its input (branches take the state away)"
EXPLOSIONS, RUNAWAY = (MULTIPLIED, EXPLODING, BACKWARD), (MULTIPLIED, DAMPED, DYING, EXPLODING)


def meanings(e: Evidence) -> verdict.RuleByRule[str]:
    """Yield the rules on what becomes of a stream for depth going to infinity."""
    # Whatever parts say, less is left of the state the deeper the network.
    yield DYING, "dies_out", e.dies_out
    # Nor of what the gradient knows of it.
    yield DYING, "is_forgotten", e.is_forgotten
    # Earlier states are added between sums: what skip and updates say is not the whole.
    yield OUTGROWS, "grows_by_earlier_states", (e.is_mixed or e.is_bent) and e.grows_like_a_power
    yield (
        "keeps its input (earlier states are added)",
        "holds_by_earlier_states",
        (e.is_mixed and e.keeps_its_input and e.growth[-1] < LARGE),
    )
    yield OPEN, "is_mixed", e.is_mixed
    # Nor are they where a function of the state stands between sums.
    yield BENT, "is_bent", e.is_bent and e.drift == 0
    # The skip's gain is above one.
    yield MULTIPLIED, "is_multiplied", e.drift > 0
    # The skip's gain is below one.
    yield DAMPED, "is_damped", e.drift < 0
    # The state grows faster than any power of the depth.
    yield EXPLODING, "grows_exponentially", runs_away(e.sums, e.growth) or e.outruns_powers
    # The gradient grows faster than any power of the depth.
    yield (
        BACKWARD,
        "gradient_grows_exponentially",
        e.gradient_growth[-1] is not None and runs_away(e.sums, e.gradient_growth, 2 * POWER),
    )
    # Nothing can be said about larger depths.
    yield "one depth", "is_one_depth", len(set(e.sums)) == 1
    # The skips shrink or grow the state by one factor at any depth, which is a drift of its own.
    yield (
        "finite clock",
        "is_scaled_as_a_whole",
        (
            len(e.skip) > 1
            and not e.renormed
            and all(abs(whole) > DRIFT for whole in e.log_skips)
            and e.drift == 0
            and e.excess is not None
            and not e.excess.is_below
        ),
    )
    # Updates vanish, all together, and what they add up to does not: a velocity keeps it.
    vanishes = e.excess.is_above if e.excess is not None else e.kept[-1] > 0.999
    yield UNSEEN, "moves_all_the_same", vanishes and e.moves_all_the_same
    # Updates vanish, all together.
    yield "identity", "stands_still", vanishes
    # Updates do not make it grow, and yet it does.
    yield OUTGROWS, "outgrows", e.excess is not None and not e.excess.is_below and e.grows_like_a_power
    # All updates together have a size that does not depend on the depth.
    yield "finite clock", "has_a_finite_clock", e.excess is not None and not e.excess.is_below
    # Post-norm with updates that are too large.
    yield "forgets its input (post-norm)", "is_turned_at_any_depth", e.renormed
    # Pre-norm with updates that are too large: they do not grow with the stream, which so outgrows them.
    yield "logarithmic clock (pre-norm)", "has_a_logarithmic_clock", e.normalised
    # What remains.
    yield "grows with depth", "grows", True


def power(base: float, exponent: float) -> float:
    """Return base ** exponent, infinite where a number cannot hold it."""
    try:
        return float(base**exponent)
    except OverflowError:
        return math.inf
