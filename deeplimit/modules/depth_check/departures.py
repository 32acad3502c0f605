"""By how much the sizes of layers depart from what is asked of them: all of them, or which."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from deeplimit.modules.depth_check.base_scale import SAME
from deeplimit.modules.depth_check.findings import FACTOR, number, times
from deeplimit.modules.depth_check.scaling import PartScaling

EXACT = 1e-3
"""Relative error of numbers that are read from the forward's operations."""

FEW = 3
"""Sizes that layers may have beside each other and be no profile: first, inner and last layers."""

DRAWN = 0.02
"""The same where gains are drawn at random."""


@dataclass(frozen=True)
class Departure:
    """How a part departs from a rule in the deepest network.

    Attributes:
        factor: How many times too large it is, the root mean square over the layers that depart; None if no
            factor says it.
        layers: Places of the layers that depart, if not all do.
        everywhere: Whether it departs as much at every depth.
        spread: Smallest and largest factor among the layers that depart.
        places: The layers that depart at each depth, where that is known exactly; `layers` are the last.
        factors: By how much they do at each depth.
    """

    factor: float | None
    layers: tuple[int, ...] = ()
    everywhere: bool = False
    spread: tuple[float, float] | None = None
    places: tuple[tuple[int, ...], ...] = ()
    factors: tuple[float, ...] = ()

    @property
    def times(self) -> str:
        """The factor in words; smallest and largest where layers lie on both sides."""
        if self.factor is None:
            return "not as asked by"
        if self.spread is not None and self.spread[0] < 1 / FACTOR and self.spread[1] > FACTOR:
            low, high = self.spread
            small = f"{number(1 / low)} times too small" if low > 0 else "zero"
            return f"from {small} to {number(high)} times too large for"
        return times(self.factor)

    def near(self, other: Departure) -> bool:
        """Whether two factors are the same, up to the least that is reported."""
        if not self.factor or not other.factor:
            return self.factor == other.factor
        return abs(math.log(self.factor / other.factor)) < math.log(FACTOR)


def departure(part: PartScaling, wanted: Sequence[Sequence[float]]) -> Departure | None:
    """Return how the sizes of a part depart from what is wanted at each depth in each layer; None if not.

    Weights are draws: their standard deviation has a relative error of 1/sqrt(2 entries).
    """
    factors = [
        [size / want if want > 0 else math.inf for size, want in zip(layers, wants, strict=True)]
        for layers, wants in zip(part.layers, wanted, strict=True)
    ]
    error = 1 / math.sqrt(2 * max(part.weight.entries if part.weight else 1, 1))
    means = [
        size / wants[0] if wants[0] > 0 and len(set(wants)) == 1 else mean(layers)
        for size, wants, layers in zip(part.sizes, wanted, factors, strict=True)
    ]
    pooled = math.log(FACTOR) + 4 * error / math.sqrt(len(factors[-1]))
    single = math.log(FACTOR) + 5 * error
    last = factors[-1]
    bad = tuple(place for place, factor in enumerate(last) if _off(factor) > single)
    off = max(map(_off, means)) > pooled
    if not off and not bad:
        return None
    some = 0 < len(bad) < len(last)
    chosen = [last[place] for place in bad] if some else last
    everywhere = not some and len(means) > 1 and min(means) > 0 and max(means) / min(means) < FACTOR**2
    return Departure(
        mean(chosen) if some else means[-1], bad if some else (), everywhere, (min(chosen), max(chosen))
    )


def _off(factor: float) -> float:
    return abs(math.log(factor)) if 0 < factor < math.inf else math.inf


def mean(values: Sequence[float]) -> float:
    """Return the root mean square."""
    return math.sqrt(math.fsum(value * value for value in values) / len(values))


def drift(shape: Sequence[Sequence[float]]) -> bool:
    """Whether what is asked for changes with depth."""
    means = [mean(scales) for scales in shape]
    return max(means) > FACTOR * min(means)


def drifted(
    part: PartScaling,
    stated: bool,
    shape: Sequence[Sequence[float]],
    totals: Sequence[int],
    exact: float = EXACT,
) -> Departure | None:
    """Return how the sizes of a part depart from a shape, counted from the first depth unless stated."""
    values = [
        [size / scale for size, scale in zip(sizes, scales, strict=True)]
        for sizes, scales in zip(part.layers, shape, strict=True)
    ]
    anchors = [1.0] if stated else values[0]
    if part.weight is None and not stated and is_profile(values[-1], exact):
        # No layer is one that the others follow: all of them together do, or do not.
        over = mean(values[-1]) / mean(anchors)
        slack = math.log(FACTOR) + (max(anchors) - min(anchors)) / (2 * len(anchors) * mean(anchors))
        return None if abs(math.log(over)) <= slack else Departure(over)
    if part.weight is None:  # exact, layer by layer
        near = [
            [min(abs(math.log(value / one)) for one in anchors) <= exact for value in row] for row in values
        ]
        if all(map(all, near)):
            return None
    else:
        # A power of the depth that no size is stated for may be a little off.
        near = [[True] * len(row) for row in values]
        slack = math.log(FACTOR) + SAME * math.log(totals[-1] / totals[0])
        # Two draws are compared; of a small weight (that mixes four heads) both are rough.
        slack = math.hypot(slack, 4 / math.sqrt(part.weight.entries * min(map(len, values))))
        if max(abs(math.log(mean(row) / mean(anchors))) for row in values) <= slack:
            return None
        near[-1] = [any(abs(math.log(value / one)) <= slack for one in anchors) for value in values[-1]]
    bad = tuple(place for place, good in enumerate(near[-1]) if not good)
    good = [value for value, kept in zip(values[-1], near[-1], strict=True) if kept]
    if not bad or not good:
        pooled = [
            size / scales[0] if len(set(scales)) == 1 else mean(row)
            for size, scales, row in zip(part.sizes, shape, values, strict=True)
        ]
        return Departure(pooled[-1] / (1.0 if stated else pooled[0]))
    over = mean([values[-1][place] for place in bad]) / mean(good)
    if part.weight is not None:
        return Departure(over, bad)
    places = tuple(
        tuple(place for place, value in enumerate(row) if _apart(value, good) > exact) for row in values
    )
    factors = tuple(
        mean([row[place] for place in chosen]) / mean(good) if chosen else 1.0
        for row, chosen in zip(values, places, strict=True)
    )
    return Departure(over, bad, places=places, factors=factors)


def is_profile(values: Sequence[float], exact: float) -> bool:
    """Return whether layers follow a profile: more sizes than rules and exceptions have, none of them common.

    A profile over the relative depth, c(i / L), has a mean that the smallest depth misses by half the range
    of c divided by its number of layers, as any sum does an integral.
    """
    logs = sorted(map(math.log, values))
    groups = [1]
    for before, after in pairwise(logs):
        if after - before > exact:
            groups.append(0)
        groups[-1] += 1
    return len(groups) > FEW and 2 * max(groups) < len(values)


def _apart(value: float, others: Sequence[float]) -> float:
    return min(abs(math.log(value / other)) for other in others)


def count_in_words(
    part: PartScaling,
    shape_at: Callable[[list[int]], list[list[float]] | None],
    depths: Sequence[int],
    exact: float,
) -> str:
    """Return which count near the depth the sizes of a part follow exactly, in words; nothing if none."""
    for shift in (shift for shift in (-1, 1, -2, 2) if min(depths) + shift > 0):
        counts = [depth + shift for depth in depths]
        shape = shape_at(counts)
        if shape and drift(shape) and drifted(part, False, shape, depths, exact) is None:
            exponent = math.log(shape[0][0] / shape[-1][0]) / math.log(counts[-1] / counts[0])
            return f"; 1/{'sqrt' if abs(exponent - 0.5) < 1e-9 else ''}(L{shift:+d}) fits exactly"
    return ""


def mixed(part: PartScaling, plain: float, scales: Sequence[float]) -> bool:
    """Whether a third of a weight's rows is scaled, but rows of all kinds lie in each of its thirds."""
    mean_sizes = [plain * math.sqrt((2 + scale**2) / 3) for scale in scales]
    between = all(
        scale * plain * FACTOR < third < plain / math.sqrt(FACTOR)
        for thirds, scale in zip(part.thirds, scales, strict=True)
        for third in thirds
    )
    return between and near(part.sizes, mean_sizes)


def near(sizes: Sequence[float], targets: Sequence[float]) -> bool:
    """Whether sizes are as large as targets, up to half of the factor that is reported."""
    slack = 0.5 * math.log(FACTOR)
    return all(
        size > 0 and abs(math.log(size / target)) < slack for size, target in zip(sizes, targets, strict=True)
    )
