"""Trend and noise of one network's layers: shares of their squares, and how slowly the trend changes.

Layers are taken as a trend that changes slowly over depth, and noise that is independent from layer to layer.
Differences of neighbouring layers remove the trend. No kernel is fitted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np
from scipy import optimize, sparse, stats

from deeplimit.trained.diagnosis import rotations
from deeplimit.trained.diagnosis.hurst import BLOCK
from deeplimit.trained.diagnosis.layer_gram import LayerGram, cosines

ROWS_KEPT = 2 / 3
"""Of the modes of second differences those with the most noise, in which a trend leaves least."""
FEWEST_ROWS = 3
"""Second differences in which the noise's effective entries can be counted."""


@final
@dataclass(frozen=True)
class NoiseShare:
    """Noise and trend of one stack, as shares of its mean square.

    Attributes:
        noise: share of noise, the mean square of second differences over six times that of layers. It may
            exceed 1 where neighbours differ more than independent layers would.
        noise_interval: confidence interval of the share at `level`, within [0, 1]; None where withheld.
        length: trend's root mean square over that of its change per layer, in layers; infinite where no
            change is seen, None where no trend is.
        length_interval: confidence interval of the length at `level`; None where withheld.
        level: confidence level of both.
        effective_entries: independent entries of equal variance in the noise.
        withheld: why there is no interval; empty where there is one.
    """

    noise: float
    noise_interval: tuple[float, float] | None
    length: float | None
    length_interval: tuple[float, float] | None
    level: float
    effective_entries: float
    withheld: str

    @property
    def trend(self) -> float:
        """Share of the trend: what noise leaves, between 0 and 1."""
        return min(1.0, max(0.0, 1 - self.noise))


def difference_rows(groups: tuple[int, ...], depth: int, order: int) -> sparse.csr_array:
    """Return the matrix (rows, L) of differences of this order between neighbours of one group.

    Examples:
        >>> difference_rows((), 4, 2).toarray()
        array([[ 1., -2.,  1.,  0.],
               [ 0.,  1., -2.,  1.]])
    """
    labels = np.asarray(groups or (0,) * depth)
    slots = np.argsort(labels, kind="stable")
    first = np.arange(max(0, depth - order))
    first = first[labels[slots[first]] == labels[slots[first + order]]]
    weights = np.array([math.comb(order, k) * (-1.0) ** k for k in range(order + 1)])
    columns = slots[first[:, None] + np.arange(order + 1)]
    rows = np.repeat(np.arange(len(first)), order + 1)
    return sparse.csr_array(
        (np.tile(weights, len(first)), (rows, columns.ravel())), shape=(len(first), depth)
    )


@dataclass(frozen=True)
class _Pencil:
    """Statistics tr((P - tQ) S) for any t, linear in the products S of layers: moments under white noise.

    Attributes:
        left, right: P and Q (L, L).
        square: coefficients in t of tr B² for B = P - tQ (3,).
    """

    left: sparse.csr_array
    right: sparse.csr_array
    square: np.ndarray

    @classmethod
    def of(cls, left: sparse.csr_array, right: sparse.csr_array) -> _Pencil:
        square = np.array([_inner(left, left), -2 * _inner(left, right), _inner(right, right)])
        return cls(left, right, square)

    def zero(
        self, products: np.ndarray, entries: float, noise: Callable[[float], float], bound: float, end: float
    ) -> float:
        """Return the t in [0, end] at which the statistic is `bound` standard errors from 0, or an end.

        Args:
            products: S (L, L).
            entries: effective entries of the noise.
            noise: variance of the noise, as a function of t.
            bound: that number, negative for the upper end of an interval.
            end: largest t.
        """
        mean = np.array([_inner(self.left, products), -_inner(self.right, products), 0.0])
        here, there = self.left @ products, self.right @ products
        spread = np.array(
            [_inner(self.left, here.T), -2 * _inner(self.left, there.T), _inner(self.right, there.T)]
        )

        def gap(t: float) -> float:
            powers = t ** np.arange(3)
            variance = max(0.0, noise(t))
            pure = variance**2 * float(self.square @ powers)
            with_trend = max(0.0, variance * float(spread @ powers) - pure)
            deviation = math.sqrt((2 * pure + 4 * with_trend) / entries)
            if deviation == 0:
                return math.copysign(1e3, float(mean @ powers))
            return float(mean @ powers) / deviation - bound

        if gap(0.0) <= 0:
            return 0.0
        if gap(end) >= 0:
            return end
        return float(optimize.brentq(gap, 0.0, end, xtol=1e-9))


def _inner(first: sparse.csr_array, second: sparse.csr_array | np.ndarray) -> float:
    return float(first.multiply(second).sum())


def noise_share(gram: LayerGram, level: float = 0.95, equal_sizes: bool = False) -> NoiseShare:
    """Return the shares of noise and trend in a stack of layers.

    The upper end of the noise's interval is that of second differences S₂, which hold all noise. What else
    they hold comes from the trend, and fourth differences S₄ hold less of it: a third, where the trend is as
    rough as a Matérn-3/2 process, and nearly nothing where it is smooth. So the lower end is that of
    S₄ - (S₂ - S₄).

    Args:
        gram: products of layers; differences stay within groups.
        level: confidence level of both intervals.
        equal_sizes: divide layers by their sizes, as in `roughness`.

    Raises:
        ValueError: where no three layers are of one group, or all weights are zero.

    Not checked: that noise is independent from layer to layer. Fractional noise has no nugget, and reads as
    0.44 at H = 0.8. A trend rougher than Matérn-3/2 reads as noise.

    Examples:
        >>> import numpy as np
        >>> from deeplimit.trained.diagnosis.layer_gram import LayerGram, cosines
        >>> noise = np.random.default_rng(1).standard_normal((12, 4096))
        >>> layers = 2 * np.linspace(0.5, 1.5, 12)[:, None] + noise
        >>> round(noise_share(LayerGram(layers @ layers.T / 4096, 4096)).noise, 2)
        0.18
    """
    depth = len(gram.products)
    size = float(np.trace(gram.products)) / depth
    if not size > 0:
        raise ValueError(
            f"a noise share needs weights that are not all zero, got a mean square of {size}; leave them out,"
            " or take them after training."
        )
    rows = difference_rows(gram.groups, depth, 2)
    if rows.shape[0] == 0:
        raise ValueError(
            f"a noise share needs three layers of one group, got {depth} layers in groups {gram.groups}; give"
            " fewer groups, or take a network of more layers."
        )
    products = cosines(gram) if equal_sizes else gram.products / size
    statistics = _statistics(gram.groups, depth)
    noise = _inner(statistics.most_noise.left, products)
    change = _inner(statistics.change.left, products)
    trend = _inner(statistics.change.right, products)
    length = None if trend <= 0 else math.inf if change <= 0 else math.sqrt(trend / change)
    if rows.shape[0] < FEWEST_ROWS:
        why = f"{rows.shape[0]} second differences are too few to count independent entries"
        return NoiseShare(noise, None, length, None, level, float(gram.entries), why)
    entries, squares = _noise_entries(rows, products, gram.entries)
    entries /= rotations.spread_lost(min(depth, BLOCK)) if equal_sizes else 1.0
    bound = float(stats.t.ppf((1 + level) / 2, squares))

    def end(pencil: _Pencil, side: float, last: float, variance: Callable[[float], float]) -> float:
        return pencil.zero(products, entries, variance, side * bound, last)

    shares = end(statistics.least_noise, 1, 1.0, float), end(statistics.most_noise, -1, 1.0, float)
    if shares[1] >= 1:
        return NoiseShare(noise, shares, None, None, level, entries, "no trend is seen, so it has no length")
    slow = end(statistics.least_change, 1, 4.0, lambda _: noise)
    fast = end(statistics.most_change, -1, 4.0, lambda _: noise)
    lengths = math.inf if fast <= 0 else fast**-0.5, math.inf if slow <= 0 else slow**-0.5
    return NoiseShare(noise, shares, length, lengths, level, entries, "")


@dataclass(frozen=True)
class _Statistics:
    """Noise less its share of the mean square; squared change less its share of the squared trend.

    Of each there is one with the most and one with the least noise that a trend leaves possible. The change
    that is printed is taken between, with the noise of fourth differences.
    """

    most_noise: _Pencil
    least_noise: _Pencil
    least_change: _Pencil
    most_change: _Pencil
    change: _Pencil


@lru_cache(maxsize=16)
def _statistics(groups: tuple[int, ...], depth: int) -> _Statistics:
    square = sparse.eye_array(depth, format="csr") / depth
    first, second, fourth = (_mean_square(difference_rows(groups, depth, order)) for order in (1, 2, 4))
    if fourth.nnz == 0:  # groups of four layers or fewer: all of second differences may be the trend
        fourth = second / 2
    least = 2 * fourth - second
    changes = (_Pencil.of(2 * (first - noise), square - noise) for noise in (second, least, fourth))
    return _Statistics(_Pencil.of(second, square), _Pencil.of(least, square), *changes)


def _mean_square(rows: sparse.csr_array) -> sparse.csr_array:
    """Return the matrix B for which tr(B S) is the differences' mean square, 1 for white noise."""
    if rows.shape[0] == 0:
        return sparse.csr_array((rows.shape[1], rows.shape[1]))
    size = _inner(rows, rows)
    return (rows.T @ rows / size).tocsr()


def _noise_entries(rows: sparse.csr_array, products: np.ndarray, entries: int) -> tuple[float, float]:
    """Return the noise's effective entries, and how many products of whitened differences tell them."""
    count = -(-rows.shape[0] // BLOCK)
    size = rows.shape[0] // count
    kept = max(FEWEST_ROWS, math.ceil(ROWS_KEPT * size))
    whitened = []
    for k in range(count):
        part = rows[k * size : (k + 1) * size]
        values, vectors = np.linalg.eigh((part @ part.T).toarray())
        modes = part.T @ (vectors[:, -kept:] / np.sqrt(values[-kept:]))
        whitened.append(modes.T @ products @ modes)
    return rotations.effective_entries(np.stack(whitened), entries), count * (kept * (kept + 1) / 2 - 1)
