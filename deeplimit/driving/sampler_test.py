"""A cheap test of a user's sampler: are its entries and its layers independent, as far as draws can tell?

Under independence any two functions of two different entries are uncorrelated. Two are used: the rank of an
entry among all draws, and the rank of its size. Ranks keep the normal approximation accurate, however heavy
the tails. Every statistic is a sum of products of distinct entries, so that its variance is known. It is
compared with a χ² law, with one degree of freedom per independent square.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

Sampler = Callable[[tuple[int, ...], torch.Generator], Tensor]

LEVEL = 1e-6
"""Probability with which a sampler of independent draws is found dependent, by each of fifteen statistics."""
QUANTILE = 4.7534
"""The normal quantile of `LEVEL`, one-sided."""
NUMBERS = 2**15
FEWEST, MOST = 32, 512
"""Layers drawn, at least and at most; between them as many as make `NUMBERS` draws."""
WIDEST = 32
"""Wider matrices are tested at this width: the test costs a few milliseconds at any width."""


@dataclass(frozen=True)
class Tested:
    """What a test of draws found: sentences on dependence, whether layers depend, and the kurtosis."""

    found: tuple[str, ...]
    layers_depend: bool
    kurtosis: float
    count: int
    width: int


def test_sampler(sampler: Sampler, width: int) -> Tested:
    """Test a sampler at a width, with a fixed seed. NOT tested: more than entries and sizes tell."""
    return _tested(_Same(sampler), width)


class _Same:
    """A sampler told from others by identity: a user's object need not be hashable."""

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler

    def __hash__(self) -> int:
        return id(self.sampler)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.sampler is self.sampler


@lru_cache(maxsize=256)
def _tested(same: _Same, width: int) -> Tested:
    sampler = same.sampler
    d = min(width, WIDEST)
    layers = max(FEWEST, min(MOST, NUMBERS // d**2)) // 2
    stream = torch.Generator().manual_seed(0)
    calls = [sampler((layers, d, d), stream).double() for _ in range(2)]
    draws = torch.cat(calls)
    found, layers_depend = [], False
    for words, size, freedom, between in _statistics(draws):
        if abs(size) > _threshold(freedom):
            found.append(f"{words} ({abs(size):.0f} standard deviations)")
            layers_depend |= between
    spread = draws - draws.mean()
    fourth, second = float(spread.pow(4).mean()), float(spread.square().mean())
    kurtosis = fourth / second**2 if second > 0 else math.inf  # weights so rare that none was drawn
    return Tested(tuple(found), layers_depend, kurtosis, draws.numel(), d)


def _threshold(freedom: int) -> float:
    """Return how many standard deviations a χ² variable exceeds its mean by with probability `LEVEL`.

    After Wilson and Hilferty.
    """
    part = 2.0 / (9.0 * freedom)
    quantile = freedom * (1.0 - part + QUANTILE * math.sqrt(part)) ** 3
    return (quantile - freedom) / math.sqrt(2.0 * freedom)


def _statistics(draws: Tensor) -> Iterator[tuple[str, float, int, bool]]:
    """Yield what is looked for, in standard deviations, its degrees of freedom, and whether layers depend."""
    layers, d = draws.shape[0], draws.shape[1]
    entries, sizes = _ranks(draws), _ranks((draws - draws.median()).abs())
    for name, x in (("entries", entries), ("sizes of entries", sizes)):
        variance = float(x.square().mean())
        if variance < 1e-12:  # sizes are all the same, as for ±1
            continue
        if d > 1:
            for place, sums in (("row", x.sum(dim=2)), ("column", x.sum(dim=1))):
                size = _products(sums, x.square().sum(), layers * d * math.comb(d, 2), variance)
                yield f"{name} of one {place} are correlated", size, layers * d, False
            whole = x.sum(dim=(1, 2))
            size = _products(whole, x.square().sum(), layers * math.comb(d * d, 2), variance)
            yield f"{name} of one matrix are correlated", size, layers, False
        flat = x.reshape(layers, -1)
        gram, squares = flat @ flat.T, flat.square()
        off = gram.square() - squares @ squares.T
        pairs = math.comb(layers, 2)
        if d > 1:
            size = _gram(off, variance, math.comb(d * d, 2))
            yield f"pairs of {name} are correlated", size, math.comb(d * d, 2), False
        total = float(gram.sum() - gram.diagonal().sum()) / 2.0
        size = total / (variance * math.sqrt(pairs * d * d))
        yield f"{name} have different laws, or depend on those of other layers", size, d * d, True
        adjacent = float((flat[1:] * flat[:-1]).sum()) / (variance * math.sqrt((layers - 1) * d * d))
        yield f"{name} depend on those of the layer before", adjacent, (layers - 1) * d * d, True
        half = layers // 2
        across = float((flat[:half] * flat[half:]).sum()) / (variance * math.sqrt(half * d * d))
        yield f"{name} of one call depend on those of the next", across, half * d * d, True
    if d > 1:
        variance = float(entries.square().mean())
        gram, squares = entries @ entries.mT, entries.square()
        off = gram.square() - squares @ squares.mT
        yield (
            "rows of one matrix are orthogonal or dependent",
            _gram(off, variance, math.comb(d, 2)),
            layers * math.comb(d, 2),
            False,
        )


def _gram(off: Tensor, variance: float, products: int) -> float:
    """Return the sum of the entries above the diagonal of `off` (..., n, n), in standard deviations.

    Each entry is twice a sum of `products` uncorrelated products of four draws. Where most draws are equal,
    few products differ from 0, and the sum of squares of the entries is the better variance. The smaller
    result counts.
    """
    n = off.shape[-1]
    above = off[..., *torch.triu_indices(n, n, 1)].flatten() / 2.0
    known = variance**2 * math.sqrt(above.numel() * products)
    total, seen = float(above.sum()), float(above.square().sum().sqrt())
    return total / max(known, seen, 1e-300)


def _ranks(values: Tensor) -> Tensor:
    """Return the rank of every number among all, centred, between -1/2 and 1/2; equal numbers share one."""
    ordered = values.flatten().sort().values
    below, upto = (torch.searchsorted(ordered, values, right=right) for right in (False, True))
    return (below + upto).double() / (2.0 * values.numel()) - 0.5


def _products(sums: Tensor, squares: Tensor, pairs: int, variance: float) -> float:
    """Return the sum of products of distinct entries of each group, in its standard deviations."""
    total = float(sums.square().sum() - squares) / 2.0
    return total / (variance * math.sqrt(pairs))
