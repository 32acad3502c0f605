"""What the evidence asks for, and which sizes give it: pure functions of small frozen records."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import final

MOST_DEPTHS = 6
"""A deeper analysis leaves out its coarsest depths beyond this many: they tell least, each costs a pass."""
DEEPEST = 2**16
MOST_COUNT = 2**22
"""No analysis is larger than these, whatever the budget."""
DEEPER = 2
"""How many depths an analysis adds, each larger than the last one by the list's own ratio."""
FEWER = 4
"""By what the paths are divided where depth is requested and does not fit into the budget otherwise."""
MOST_TIMES = 16
"""An analysis takes at most this many times as many paths: a guess from few paths is not trusted further."""


class Asks(Enum):
    """What would decide where a rule says "cannot tell"."""

    DEPTH = "deeper networks"
    COUNT = "more paths or draws"
    EITHER = "whichever leaves the interval wide"
    NOTHING = "neither"


@final
@dataclass(frozen=True)
class Size:
    """How much is measured: numbers of layers, and paths (or draws)."""

    depths: tuple[int, ...]
    count: int

    @property
    def ratio(self) -> float:
        """By how much neighbouring depths grow, on average; 2 where there is one depth."""
        if len(self.depths) == 1:
            return 2.0
        return math.exp(math.log(self.depths[-1] / self.depths[0]) / (len(self.depths) - 1))

    def deeper(self, steps: int) -> Size:
        """Return the size with `steps` further depths, the coarsest ones beyond `MOST_DEPTHS` left out.

        Examples:
            >>> Size((16, 32, 64, 128, 256), 512).deeper(2)
            Size(depths=(32, 64, 128, 256, 512, 1024), count=512)
        """
        depths = [*self.depths]
        for _ in range(steps):
            depths.append(max(depths[-1] + 1, round(depths[-1] * self.ratio)))
        return Size(tuple(depths[-max(MOST_DEPTHS, len(self.depths)) :]), self.count)

    def larger(self, times: int) -> Size:
        """Return the size with this many times as many paths."""
        return Size(self.depths, self.count * times)


@final
@dataclass(frozen=True)
class SampleSizeRequest:
    """What an analysis asks of the next one: `order` lists what to raise first; COUNT by the factor `times`.

    `order` holds `Asks.DEPTH` and `Asks.COUNT` at most, and is empty where nothing would decide.
    """

    order: tuple[Asks, ...] = ()
    times: float = 4.0

    @classmethod
    def of(cls, asks: Asks, noise: float, times: float = 4.0) -> SampleSizeRequest:
        """Return the request of a rule; `noise` is the share of an interval's width that sampling explains.

        More than a half asks for paths, less for depth.
        """
        first, second = (Asks.COUNT, Asks.DEPTH) if noise > 0.5 else (Asks.DEPTH, Asks.COUNT)
        orders = {Asks.EITHER: (first, second), Asks.NOTHING: ()}
        return cls(orders.get(asks, (asks,)), times)

    def after(self, raised: Asks | None) -> SampleSizeRequest:
        """Return the request of an analysis after a step: of two, what was not raised last comes first.

        To tell a floor from a slow order takes both depth and paths; neither alone helps much.
        """
        turned = len(self.order) == 2 and self.order[0] is raised
        return SampleSizeRequest(self.order[::-1], self.times) if turned else self


def next_sizes(
    size: Size,
    request: SampleSizeRequest,
    *,
    depth_is_free: bool,
    count_is_free: bool,
    least: int = MOST_COUNT,
) -> tuple[Size, ...]:
    """Return the sizes that a request allows, the one to prefer first; smaller steps follow larger ones.

    Where depth alone is requested, the last ones are deeper with a quarter of the paths, but not below
    `least`. Empty where the request is, and where all it asks for is fixed or at its maximum.

    Examples:
        >>> request = SampleSizeRequest((Asks.COUNT,))
        >>> next_sizes(Size((8, 16, 32), 100), request, depth_is_free=True, count_is_free=True)
        (Size(depths=(8, 16, 32), count=400), Size(depths=(8, 16, 32), count=200))
    """
    found: list[Size] = []
    for asks in request.order:
        if asks is Asks.DEPTH and depth_is_free:
            found += [size.deeper(steps) for steps in range(DEEPER, 0, -1)]
        if asks is Asks.COUNT and count_is_free:
            power = math.ceil(math.log2(min(max(request.times, 2.0), MOST_TIMES)))
            found += [size.larger(2**each) for each in range(power, 0, -1)]
    if request.order == (Asks.DEPTH,) and depth_is_free and count_is_free and size.count // FEWER >= least:
        fewer = Size(size.depths, size.count // FEWER)
        found += [fewer.deeper(steps) for steps in range(DEEPER, 0, -1)]
    return tuple(each for each in found if each.depths[-1] <= DEEPEST and each.count <= MOST_COUNT)
