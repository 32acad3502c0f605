"""What becomes of a residual stream as the network deepens: gain of the skip, growth, and what follows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from deeplimit.modules.depth_check.exponents import slope
from deeplimit.modules.depth_check.meaning import MARGIN
from deeplimit.modules.depth_check.one_depth import AtOneDepth
from deeplimit.statistics import verdict


@dataclass(frozen=True)
class StreamScaling:
    """A residual stream over depths: how much state and gradient grow along it.

    Attributes:
        stream: Number of the stream, from 0.
        branches: Number of residual branches on the stream, at each depth.
        growth: Size of the state at the end of the stream divided by its size at the start, at each depth.
        gradient_growth: Size of the loss's gradient at the start of the stream divided by its size at the
            end, at each depth; None if the loss does not depend on the stream.
        sums: Number of residual sums, at each depth. Branches in parallel share one.
        skip: Number that multiplies the stream from one sum to the next, at each depth (geometric mean).
        kept: Share of the final state that came through skips alone, at each depth.
        growth_exponent: Exponent of growth ~ sums**exponent; None with one depth.
        normalised: Whether every branch normalises its input.
        renormed: Whether the stream itself is normalised between sums (post-norm).
        meaning: What growth and skip say about the limit, in words.
        follows: The reason for the meaning, and what follows from it, in a sentence.
    """

    stream: int
    branches: tuple[int, ...]
    growth: tuple[float, ...]
    gradient_growth: tuple[float | None, ...]
    sums: tuple[int, ...] = ()
    skip: tuple[float, ...] = ()
    kept: tuple[float, ...] = ()
    growth_exponent: float | None = None
    normalised: bool = False
    renormed: bool = False
    meaning: str = ""
    follows: str = ""

    @property
    def growth_per_sum(self) -> tuple[float, ...]:
        """By how much the state grows at one residual sum, at each depth (geometric mean)."""
        return tuple(
            value ** (1 / count) if value > 0 else value
            for value, count in zip(self.growth, self.sums, strict=True)
        )

    @property
    def skip_over_depth(self) -> tuple[float, ...]:
        """By how much the skips alone multiply the state from start to end, at each depth."""
        return tuple(_power(gain, count) for gain, count in zip(self.skip, self.sums, strict=True))

    @property
    def explodes(self) -> bool:
        """Whether state or gradient grow faster than any power of the depth."""
        return self.meaning in EXPLOSIONS


def streams(
    taken: Sequence[AtOneDepth], excess: Mapping[int, float] = MappingProxyType({})
) -> tuple[StreamScaling, ...]:
    """Return the scaling of every stream that all depths have.

    `excess`, by stream: the smallest distance of a branch's exponent above its critical one.
    """
    count = min(len(one.streams) for one in taken)
    return tuple(_scaling(number, taken, excess.get(number)) for number in range(count))


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
    excess: float | None = None  # smallest distance of a branch's exponent above its critical one

    @property
    def drift(self) -> float:
        """Logarithm of what the skips alone multiply the state by, in the deepest network.

        0 if it does not grow like the depth: skips of sqrt(1 - 1/N), or sqrt(l / (l + 1)) in layer l.
        """
        if self.renormed:
            return 0.0
        first, last = (
            count * math.log(max(gain, TINY))
            for count, gain in ((self.sums[0], self.skip[0]), (self.sums[-1], self.skip[-1]))
        )
        deeper = (self.sums[-1] / self.sums[0]) ** STEEPENING
        grows = len(self.sums) == 1 or abs(last) > abs(first) * deeper
        return last if abs(last) > DRIFT and grows else 0.0


TINY = 1e-30
DRIFT = 0.02
"""Skips that together multiply a state by less than exp(DRIFT) are taken for one."""

POWER = 2.0
"""Well above 1, the largest exponent with which updates of one size, all aligned, make a stream grow."""

STEEPENING = 0.75
"""An exponential's slope on logarithmic axes grows like the number of sums, or at least this power of it."""


def runs_away(sums: Sequence[int], values: Sequence[float | None], power: float = POWER) -> bool:
    """Return whether values grow exponentially in the number of sums, as far as a few depths show it.

    Between the last two depths they must grow faster than this power, and faster than between those before.
    """
    known = [(count, value) for count, value in zip(sums, values, strict=True) if value is not None]
    if len(known) < 2 or known[0][1] == math.inf:
        return False
    if known[-1][1] == math.inf:
        return True
    slopes = [
        (
            math.sqrt(count * earlier),
            math.log(max(value, TINY) / max(before, TINY)) / math.log(count / earlier),
        )
        for (earlier, before), (count, value) in pairwise(known)
        if count > earlier
    ]
    if len(slopes) < 2:
        return bool(slopes) and slopes[0][1] > 2 * power
    (earlier, before), (count, slope_now) = slopes[-2:]
    return slope_now > power and slope_now > before * (count / earlier) ** STEEPENING


def is_multiplied(e: Evidence) -> str | None:
    """The skip's gain is above one."""
    return f"{_per_sum(e)}, so the state grows exponentially" if e.drift > 0 else None


def is_damped(e: Evidence) -> str | None:
    """The skip's gain is below one."""
    return f"{_per_sum(e)}, so the input is forgotten exponentially" if e.drift < 0 else None


def grows_exponentially(e: Evidence) -> str | None:
    """The state grows faster than any power of the depth."""
    if not runs_away(e.sums, e.growth):
        return None
    rate = _power(e.growth[-1], 1 / e.sums[-1])
    return f"the state grows {rate:.3g}x per sum, faster than any power of the depth"


def gradient_grows_exponentially(e: Evidence) -> str | None:
    """The gradient grows faster than any power of the depth."""
    gradient = e.gradient_growth[-1]
    if gradient is None or not runs_away(e.sums, e.gradient_growth, 2 * POWER):
        return None
    rate = _power(gradient, 1 / e.sums[-1])
    return f"the gradient grows {rate:.3g}x per sum backwards, faster than any power of the depth"


def is_one_depth(e: Evidence) -> str | None:
    """Nothing can be said about larger depths."""
    if len(set(e.sums)) > 1:
        return None
    return f"{100 * min(e.kept[-1], 1.0):.2g} % of the last state came through the skips alone"


def stands_still(e: Evidence) -> str | None:
    """Updates vanish, all together."""
    still = e.excess > MARGIN if e.excess is not None else e.kept[-1] > 0.999
    return "all updates together vanish as depth grows" if still else None


def has_a_finite_clock(e: Evidence) -> str | None:
    """All updates together have a size that does not depend on the depth."""
    finite = e.excess is not None and e.excess > -MARGIN
    return "all updates together are as large at any depth" if finite else None


def is_turned_at_any_depth(e: Evidence) -> str | None:
    """Post-norm with updates that are too large."""
    if not e.renormed:
        return None
    return f"each sum is normalised again; {100 * e.kept[-1]:.2g} % of the last state came through the skips"


def has_a_logarithmic_clock(e: Evidence) -> str | None:
    """Pre-norm with updates that are too large: they do not grow with the stream, which so outgrows them."""
    if not e.normalised:
        return None
    return f"{_power_of_depth(e)}, updates do not: the state turns by the logarithm of the depth"


def grows(e: Evidence) -> str:
    """What remains."""
    return _power_of_depth(e)


MULTIPLIED, DAMPED = "explosion (skip above one)", "forgets its input (skip below one)"
EXPLODING, BACKWARD = "explosion", "explosion of the gradient"
EXPLOSIONS, RUNAWAY = (MULTIPLIED, EXPLODING, BACKWARD), (MULTIPLIED, DAMPED, EXPLODING)
MEANINGS: verdict.Rules[str, Evidence] = (
    (MULTIPLIED, is_multiplied),
    (DAMPED, is_damped),
    (EXPLODING, grows_exponentially),
    (BACKWARD, gradient_grows_exponentially),
    ("one depth", is_one_depth),
    ("identity", stands_still),
    ("finite clock", has_a_finite_clock),
    ("forgets its input (post-norm)", is_turned_at_any_depth),
    ("logarithmic clock (pre-norm)", has_a_logarithmic_clock),
    ("grows with depth", grows),
)
"""What becomes of a stream for depth going to infinity."""


def _per_sum(e: Evidence) -> str:
    whole = _power(e.skip[-1], e.sums[-1])
    return f"the skips multiply the state by {e.skip[-1]:.4g} per sum, by {whole:.3g} over {e.sums[-1]} sums"


def _power_of_depth(e: Evidence) -> str:
    exponent = e.growth_exponent or 0.0
    return f"the state grows like depth^{exponent:.2f}" if exponent > 0.05 else "the state hardly grows yet"


def _scaling(number: int, taken: Sequence[AtOneDepth], excess: float | None) -> StreamScaling:
    own = [one.streams[number] for one in taken]
    sums = tuple(stream.sums for stream in own)
    growth = tuple(over(stream.end, stream.start) for stream in own)
    fitted = slope(sums, growth) if len(set(sums)) > 1 else None
    evidence = Evidence(
        sums=sums,
        skip=tuple(stream.skip for stream in own),
        growth=growth,
        gradient_growth=tuple(
            None
            if stream.gradient_start is None or not stream.gradient_end
            else over(stream.gradient_start, stream.gradient_end)
            for stream in own
        ),
        kept=tuple(stream.kept for stream in own),
        growth_exponent=None if fitted is None else -fitted,
        normalised=own[-1].normalised,
        renormed=own[-1].renormed,
        excess=excess,
    )
    told = {name: value for name, value in vars(evidence).items() if name != "excess"}
    judged = verdict.judge(MEANINGS, evidence)
    return StreamScaling(
        stream=number,
        branches=tuple(stream.branches for stream in own),
        meaning=judged.word,
        follows=judged.reason,
        **told,
    )


def over(value: float, base: float) -> float:
    """Return value / base, infinite for a base of zero."""
    return value / base if base > 0 else math.inf


def _power(base: float, exponent: float) -> float:
    """Return base ** exponent, infinite where a number cannot hold it."""
    try:
        return float(base**exponent)
    except OverflowError:
        return math.inf
