"""What an effective exponent means for depth going to infinity: a list of rules, the first that holds
decides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from deeplimit.common import verdict
from deeplimit.modules.depth_check.exponents import Exponent

ADAPTER = "identity (an adapter that is zero at the start)"
"""Meaning of a branch of low rank and zero that is added beside another: not a residual branch of the
network.
"""

FEW_LAYERS = "no limit (as few layers carry the updates at any depth)"
"""Meaning of branches where the number of layers that make up the updates does not grow."""
NOT_DEEPENED = "as many at every depth"
"""Meaning of branches whose number does not change: those of one module, or of its stem."""


class Critical(NamedTuple):
    """The exponent at which all updates together have one size, with the ends that alignment leaves it."""

    value: float
    low: float
    high: float


class Distance(NamedTuple):
    """How far an exponent lies above the critical one, with an interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, exponent: Exponent, critical: Critical) -> Distance:
        """Return the distance of an exponent from the critical one."""
        return cls(
            exponent.value - critical.value, exponent.low - critical.high, exponent.high - critical.low
        )

    @property
    def is_above(self) -> bool:
        """Whether updates are clearly smaller than at the critical exponent."""
        return self.value > MARGIN or self.low > SURE

    @property
    def is_below(self) -> bool:
        """Whether they are clearly larger."""
        return self.value < -MARGIN or self.high < -SURE


@dataclass(frozen=True)
class Evidence:
    """What the meaning of an exponent rests on.

    The sum of the updates of N layers is of size N**(alignment - exponent), bounded at the critical exponent.
    That is 1/2 for independent layers (an SDE), 1 for aligned ones (an ODE), and in between for fractional
    ones.

    Attributes:
        exponent: the fitted one; None where updates are zero at some depth.
        critical: the critical exponent of the alignment.
        swept: whether depths have different numbers of branches.
        moving: whether any update is not zero.
        adapter: whether the branch is an addition of low rank.
        renormed: whether the stream is normalised after the branch.
        normalised: whether the branch's input is.
        growth: size of the stream at its end over that at its start, one per depth.
        turned: cosine between the stream's last state and its first, at the largest depth.
        few: whether as few layers make up the updates at every depth.
        counts: number of branches, one per depth.
    """

    exponent: Exponent | None
    critical: Critical
    swept: bool
    moving: bool
    adapter: bool
    renormed: bool
    normalised: bool
    growth: tuple[float, ...]
    turned: float | None = None
    few: bool = False
    counts: tuple[int, ...] = ()

    @property
    def levels(self) -> bool:
        """Whether the stream grows by one power of the depth, whose slope does not rise with depth.

        What grows with its own size is exponential in a power of the depth.
        """
        logs = [math.log(size) for size in self.growth if 0 < size < math.inf]
        if len(logs) < len(self.counts) or len(set(self.counts)) < len(self.counts) or len(logs) < LEVELS:
            return False
        at = [math.log(count) for count in self.counts]
        slopes = [(b - a) / (d - c) for (a, b), (c, d) in zip(pairwise(logs), pairwise(at), strict=True)]
        return logs[-1] > math.log(GROWN) and 0 < slopes[-1] <= min(slopes[:-1])

    @property
    def smaller(self) -> bool:
        """Whether updates are clearly smaller than at the critical exponent."""
        return self.exponent is not None and Distance.of(self.exponent, self.critical).is_above

    @property
    def larger(self) -> bool:
        """Whether updates are clearly larger than at the critical exponent."""
        return self.exponent is not None and Distance.of(self.exponent, self.critical).is_below

    @property
    def bounded(self) -> bool:
        """Whether the stream keeps its size however large updates are: it is normalised, or gated.

        What reads a normalised state makes a stream grow that nothing holds, be it ever so slowly.
        """
        held = not self.normalised and self.growth[-1] < 1.2 * max(self.growth[0], 1.0)
        return self.renormed or held

    @property
    def stands(self) -> bool:
        """Whether the state has hardly turned at the largest depth, so that its size says nothing yet."""
        return not self.renormed and self.turned is not None and self.turned > TURNED


TURNED = 0.5
"""Cosine above which a state still points where it began. Updates of the state's size in total leave 0.7."""
MARGIN = 0.2
"""Exponents that are further than this from the critical one are not taken for it, however uncertain."""
SURE = 0.1
"""Nor are those whose whole interval is further than this: updates of all layers then change by a fifth
where the depth is tenfold."""


LEVELS, GROWN = 4, 1.5
"""Depths that show whether a slope rises, and how much a stream must have grown for that to be seen."""


def meanings(e: Evidence) -> verdict.RuleByRule[str]:
    """Yield the rules on what an exponent means for depth going to infinity."""
    # Nothing moves, and the branch is an addition of low rank.
    yield ADAPTER, "is_a_silent_adapter", not e.moving and e.adapter
    # Nothing moves.
    yield "identity (branches are zero at the start)", "starts_at_zero", not e.moving
    # There are as many branches at every depth.
    yield NOT_DEEPENED, "is_not_deepened", not e.swept
    # A logarithm is infinite.
    yield "no exponent (zero at some depths)", "vanishes_at_some_depths", e.exponent is None
    # Sums of few terms have no limit theorem.
    yield FEW_LAYERS, "has_few_layers", e.few
    # The interval spans two classical exponents.
    yield "cannot tell", "is_too_uncertain", e.exponent is not None and e.exponent.high - e.exponent.low > 0.5
    # Updates are of the size of an ODE's, but independent, so that their sum vanishes.
    yield (
        "neural-ODE-like (the identity while layers are independent)",
        "would_be_an_ode",
        e.exponent is not None and e.smaller and 0.8 < e.exponent.value < 1.2,
    )
    # The sum of all updates vanishes.
    yield "identity", "vanishes", e.smaller
    # Updates are too large for a limit, but small in all at these depths: their effect is still to come.
    yield "grows with depth", "is_small_yet", e.larger and e.bounded and e.stands
    # Updates are too large for a limit, but the stream keeps its size.
    yield (
        "no limit (each layer turns the state as far at any depth)",
        "turns_as_far_at_any_depth",
        e.larger and e.bounded,
    )
    # Updates are too large, and do not depend on the stream's size: normalised, or tanh bounds them.
    yield "grows with depth", "grows_like_a_power", e.larger and (e.normalised or e.levels)
    # Updates are too large, and grow with the stream.
    yield "explosion", "explodes", e.larger
    # The critical exponent is 1/2.
    yield "neural-SDE-like", "is_critical_for_independent_layers", e.critical.value == 0.5
    # The critical exponent is 1.
    yield "neural-ODE-like", "is_critical_for_aligned_layers", e.critical.value == 1.0
    # What remains: layers are correlated, as fractional noise is.
    yield "between SDE and ODE", "is_critical_in_between", True


def critical_exponent(aligned: tuple[float, float, float] | None) -> Critical:
    """Return the critical exponent of an alignment: 1/2 and 1 where the interval allows."""
    if aligned is None or aligned[1] <= 0.5:
        return Critical(0.5, 0.5, 0.5)
    value, low, high = aligned
    if low > 0.75 and high >= 0.95:
        return Critical(1.0, 1.0, 1.0)
    return Critical(*(min(max(end, 0.5), 1.0) for end in (value, low, high)))
