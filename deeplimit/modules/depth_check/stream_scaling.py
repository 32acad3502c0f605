"""What becomes of a residual stream as the network deepens: gain of the skip, growth, and what follows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from deeplimit.common import verdict
from deeplimit.modules.depth_check import wording
from deeplimit.modules.depth_check.exponents import slope
from deeplimit.modules.depth_check.meaning import Distance
from deeplimit.modules.depth_check.one_depth import AtOneDepth
from deeplimit.modules.depth_check.stream_meaning import (
    DYING,
    EXPLOSIONS,
    OPEN,
    OUTGROWS,
    Evidence,
    meanings,
    power,
)

MOSTLY = 0.5
"""Share of a state from elsewhere: published designs mix in 5 to 50 %."""


@dataclass(frozen=True)
class StreamScaling:
    """A residual stream over depths: how much state and gradient grow along it.

    Attributes:
        stream: Number of the stream, from 0.
        branches: Number of residual branches on the stream, at each depth.
        growth: Size of the state at the end of the stream divided by its size at the start, at each depth.
        gradient_growth: Size of the loss's gradient at the start of the stream divided by its size at the
            end, of post-norm streams where the last layer begins, at each depth; None if the loss does not
            depend on the stream.
        sums: Number of residual sums, at each depth. Branches in parallel share one.
        skip: Number that multiplies the stream from one sum to the next, at each depth (geometric mean).
        kept: Share of the final state that came through skips alone, at each depth.
        growth_exponent: Exponent of growth ~ sums**exponent; None with one depth.
        normalised: Whether every branch normalises its input.
        renormed: Whether the stream itself is normalised between sums (post-norm).
        turned: Cosine between the last state and the first, at each depth; None where their shapes differ.
        mixed: Largest share of a state that is no multiple of the sum before it, at each depth.
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
    turned: tuple[float | None, ...] = ()
    mixed: tuple[float, ...] = ()
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
        return tuple(power(gain, count) for gain, count in zip(self.skip, self.sums, strict=True))

    @property
    def explodes(self) -> bool:
        """Whether state or gradient grow faster than any power of the depth."""
        return self.meaning in EXPLOSIONS

    @property
    def is_open(self) -> bool:
        """Whether most of a state is not from the sum before it, so that its skip is not known."""
        return self.meaning == OPEN and max(self.mixed) > MOSTLY

    @property
    def dies_out(self) -> bool:
        """Whether branches take away more of the state the deeper the network."""
        return self.meaning == DYING

    @property
    def outgrows_its_branches(self) -> bool:
        """Whether the state grows with depth though its branches do not make it grow."""
        return self.meaning == OUTGROWS


def streams(
    taken: Sequence[AtOneDepth], excess: Mapping[int, Distance] = MappingProxyType({})
) -> tuple[StreamScaling, ...]:
    """Return the scaling of every stream that all depths have.

    `excess`, by stream: the smallest distance of a branch's exponent above its critical one.
    """
    count = min(len(one.streams) for one in taken)
    return tuple(_scaling(number, taken, excess.get(number)) for number in range(count))


def _scaling(number: int, taken: Sequence[AtOneDepth], excess: Distance | None) -> StreamScaling:
    own = [one.streams[number] for one in taken]
    sums = tuple(stream.sums for stream in own)
    growth = tuple(over(stream.end, stream.start) for stream in own)
    fitted = slope(sums, growth) if len(set(sums)) > 1 else None
    # Where a deeper network has more streams, the gradient reaches this one by other ways than its end.
    scattered = len(taken[-1].streams) > len(taken[0].streams)
    evidence = Evidence(
        sums=sums,
        skip=tuple(stream.skip for stream in own),
        growth=growth,
        gradient_growth=tuple(
            None
            if scattered or stream.gradient_start is None or not stream.gradient_end
            else over(stream.gradient_start, stream.gradient_end)
            for stream in own
        ),
        kept=tuple(stream.kept for stream in own),
        growth_exponent=None if fitted is None else -fitted,
        normalised=own[-1].normalised,
        renormed=own[-1].renormed,
        excess=excess,
        turned=tuple(stream.turned for stream in own),
        mixed=tuple(stream.mixed for stream in own),
        from_zero=own[-1].from_zero,
        bent=max(stream.bent for stream in own),
    )
    unsaid = ("excess", "from_zero", "bent")
    told = {name: value for name, value in vars(evidence).items() if name not in unsaid}
    judged = verdict.judge(meanings, evidence)
    return StreamScaling(
        stream=number,
        branches=tuple(stream.branches for stream in own),
        meaning=judged.code,
        follows=wording.reason(judged),
        **told,
    )


def over(value: float, base: float) -> float:
    """Return value / base, infinite for a base of zero."""
    return value / base if base > 0 else math.inf
