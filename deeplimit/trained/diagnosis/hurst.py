"""Roughness of layers over depth: the Hurst index of fractional noise, by its exact likelihood.

Layers are taken as H-fractional noise over depth, the same law for every entry, with any covariance between
entries. The likelihood of independent entries gives the estimate; its score is judged by random rotations of
the whitened layers, so the interval needs no count of independent entries.

A part that is common to all layers, or to those of a group, reads as a large index. About their mean it is
removed exactly: what is left are contrasts of layers, and their covariance is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np
from scipy import linalg, optimize, special

from deeplimit.driving.fractional import noise_covariance
from deeplimit.trained.diagnosis import rotations
from deeplimit.trained.diagnosis.layer_gram import LayerGram, cosines

BLOCK = 128
"""Most layers in one block. Longer stacks are cut; products of two blocks are not used."""
SMALLEST, LARGEST = 0.01, 0.99
"""Estimates lie between these. An interval that reaches one of them extends to 0 or 1."""
NEIGHBOURS = 8
"""Largest distance of blocks that count as dependent in the estimate's error; groups never do."""
FEW_ENTRIES, WIDENING = 3.0, 1.15
"""Below FEW_ENTRIES effective entries, three moments describe the score's law badly near H = 1.

The ends of the interval are then WIDENING times as many standard errors away.
"""
GRID = 33
"""Number of indices at which the score is evaluated, before its zero and the interval's ends are refined."""


@final
@dataclass(frozen=True)
class Roughness:
    """Hurst index of one stack's layers, as if they were fractional noise over depth.

    Attributes:
        hurst: median-unbiased estimate; 0.5 for independent layers, above for smoother ones.
        interval: confidence interval at `level`.
        level: confidence level of the interval.
        effective_entries: how many independent entries of equal variance would scatter as these do.
        variogram: the second route: half the slope of log mean squares of sums over 1, 2, 3 layers.
            None about means, which it would need.
    """

    hurst: float
    interval: tuple[float, float]
    level: float
    effective_entries: float
    variogram: float | None


@final
@dataclass(frozen=True)
class _Model:
    """Fractional noise of one index over M contrasts, of covariance K = F Fᵀ, in a block of layers.

    The score is the derivative of K in whitened coordinates less its mean diagonal, N = F⁻¹ K' F⁻ᵀ - c. What
    is read of it and of whitened products W = F⁻¹ S F⁻ᵀ are traces, and these F does not enter: tr N W is
    tr Q S with Q = F⁻ᵀ N F⁻¹, and K⁻¹ S has the traces of W and of its powers.

    Attributes:
        inverse: K⁻¹ (M, M).
        log_determinant: log det K.
        score: Q (M, M).
        square, cube: traces of N² and of N³.
        across: variance of the sum of blocks' scores, over that of independent blocks.
    """

    inverse: np.ndarray
    log_determinant: float
    score: np.ndarray
    square: float
    cube: float
    across: float


def contrasts(labels: tuple[int, ...]) -> np.ndarray:
    """Return orthonormal contrasts (L, L - groups) that the means of layers of one label do not enter.

    Examples:
        >>> contrasts((0, 0, 1)).round(3).tolist()
        [[0.707], [-0.707], [0.0]]
    """
    found = np.zeros((len(labels), 0))
    for label in dict.fromkeys(labels):
        inside = np.flatnonzero(np.equal(labels, label))
        columns = np.zeros((len(labels), len(inside) - 1))
        if len(inside) > 1:
            columns[inside] = linalg.helmert(len(inside)).T
        found = np.hstack([found, columns])
    return found


def fractional_covariance(hurst: float, labels: tuple[int, ...]) -> np.ndarray:
    """Return the covariance of fractional noise (L, L), one independent series per label.

    Lags are counted among layers of one label: layers that alternate between two kinds are two series.

    Examples:
        >>> fractional_covariance(0.75, (0, 1, 0)).round(3)[0].tolist()
        [1.0, 0.0, 0.414]
    """
    return _by_rank(noise_covariance(hurst, np.arange(len(labels))), labels)


def _by_rank(row: np.ndarray, labels: tuple[int, ...]) -> np.ndarray:
    """Return the matrix (L, L) of a covariance at lags (L,) within labels; other pairs have none."""
    together = np.equal.outer(labels, labels)
    ranks = (np.tril(together).sum(axis=1) - 1).astype(np.int64)
    matrix: np.ndarray = row[np.abs(np.subtract.outer(ranks, ranks))] * together
    return matrix


@lru_cache(maxsize=64)
def _model(hurst: float, labels: tuple[int, ...], blocks: int, about_mean: bool) -> _Model:
    depth, step = len(labels), 1e-5
    basis = _basis(labels, about_mean)
    slope = (fractional_covariance(hurst + step, labels) - fractional_covariance(hurst - step, labels)) / (
        2 * step
    )
    covariance = basis.T @ fractional_covariance(hurst, labels) @ basis
    inverse = np.linalg.inv(covariance)
    moved = inverse @ (basis.T @ slope @ basis)
    moved -= np.trace(moved) / len(moved) * np.eye(len(moved))
    score = moved @ inverse
    square, cube = map(float, rotations.power_traces(moved))
    shared = 0.0
    if len(set(labels)) == 1:
        for apart in range(1, min(blocks - 1, NEIGHBOURS) + 1):
            lags = apart * depth + np.subtract.outer(np.arange(depth), np.arange(depth)).T
            between = basis.T @ noise_covariance(hurst, lags) @ basis
            shared += 2 * (1 - apart / blocks) * float((score @ between * (between @ score)).sum())
    log_determinant = float(np.linalg.slogdet(covariance)[1])
    return _Model(inverse, log_determinant, (score + score.T) / 2, square, cube, 1 + shared / square)


def _basis(labels: tuple[int, ...], about_mean: bool) -> np.ndarray:
    """Return the combinations of layers (L, M) that are used: contrasts, or the layers themselves."""
    return contrasts(labels) if about_mean else np.eye(len(labels))


def diagonal_blocks(products: np.ndarray, longest: int = BLOCK) -> np.ndarray:
    """Return the fewest equal diagonal blocks (blocks, B, B) of at most `longest` layers.

    Fewer layers at the end than there are blocks are left out.
    """
    depth = len(products)
    count = -(-depth // longest)
    size = depth // count
    return np.stack([products[k * size : (k + 1) * size, k * size : (k + 1) * size] for k in range(count)])


@dataclass(frozen=True)
class _Blocks:
    """Blocks of layers, sorted by how groups lie in them.

    Attributes:
        products: mean products (blocks, M, M) of contrasts, or of layers themselves, per pattern of groups.
        about_mean: whether means of groups are removed.
        lost: variance of the score over that of layers that may differ in size.
    """

    products: dict[tuple[int, ...], np.ndarray]
    about_mean: bool
    lost: float

    @classmethod
    def of(cls, gram: LayerGram, about_mean: bool, equal_sizes: bool = False) -> _Blocks:
        products = gram.products
        if equal_sizes:
            # Layers' sizes fluctuate: with n Gaussian entries a mean cosine is c (1 - (1 - c²)/2n).
            products = cosines(gram)
            products = products * (1 + (1 - products**2) / (2 * gram.entries))
        blocks = diagonal_blocks(products / np.trace(products))
        size = blocks.shape[-1]
        labels = gram.groups or (0,) * len(gram.products)
        found: dict[tuple[int, ...], list[np.ndarray]] = {}
        for k, block in enumerate(blocks):
            here = labels[k * size : (k + 1) * size]
            pattern = tuple(list(dict.fromkeys(here)).index(label) for label in here)
            if size - about_mean * len(set(here)) >= rotations.FEWEST:
                found.setdefault(pattern, []).append(block)
        lost = rotations.spread_lost(size) if equal_sizes else 1.0
        bases = {pattern: _basis(pattern, about_mean) for pattern in found}
        return cls(
            {each: basis.T @ np.stack(found[each]) @ basis for each, basis in bases.items()}, about_mean, lost
        )

    def models(self, hurst: float) -> list[tuple[_Model, np.ndarray]]:
        """Return the model of each pattern, and its products (blocks, M, M)."""
        return [
            (_model(float(hurst), pattern, len(blocks), self.about_mean), blocks)
            for pattern, blocks in self.products.items()
        ]

    def score(self, hurst: float) -> float:
        """Return the slope of the log likelihood as a normal score."""
        total = variance = third = 0.0
        for model, products in self.models(hurst):
            white = model.inverse @ products
            sizes = np.trace(white, axis1=1, axis2=2) / white.shape[-1]
            squares, cubes = rotations.power_traces(white - sizes[:, None, None] * np.eye(white.shape[-1]))
            second, cube = rotations.moments_of_traces(
                white.shape[-1], (model.square, model.cube), (float(squares.sum()), float(cubes.sum()))
            )
            total += float((model.score * products).sum())
            variance, third = variance + second * model.across, third + cube
        if variance <= 0:  # the products are those of the model, exactly
            return 0.0
        deviation = float(np.sqrt(variance * self.lost))
        return float(
            np.clip(rotations.normal_score(total / deviation, third * self.lost**2 / deviation**3), -1e3, 1e3)
        )

    def likelihood(self, hurst: float) -> float:
        """Return the log likelihood per entry, scale profiled out."""
        count, fit, determinant = 0, 0.0, 0.0
        for model, products in self.models(hurst):
            count += products.shape[0] * products.shape[1]
            fit += float((model.inverse * products).sum())
            determinant += len(products) * model.log_determinant
        return -0.5 * (count * math.log(fit) + determinant)

    def effective_entries(self, hurst: float, entries: int) -> float:
        """Return the effective entries of whitened blocks, their inverse averaged over all products."""
        pieces = [model.inverse @ products for model, products in self.models(hurst)]
        inverse = [1 / rotations.effective_entries(white, entries) for white in pieces]
        return float(1 / self.lost / np.average(inverse, weights=[white.size for white in pieces]))


def roughness(
    gram: LayerGram, level: float = 0.95, about_mean: bool = False, equal_sizes: bool = False
) -> Roughness:
    """Return the Hurst index of a stack with its interval.

    Layers of different groups are taken as independent.

    Args:
        gram: products of at least 4 layers.
        level: confidence level of the interval.
        about_mean: remove what layers of each group have in common, so that it cannot read as roughness.
        equal_sizes: divide layers by their sizes. Without, layers that differ in size by more than chance
            leave few effective entries. With fewer than about 30 of these the interval would be too short.

    Raises:
        ValueError: where all weights are zero, or fewer than 4 layers (3 beside the means) are left.

    Not checked: that layers are fractional noise. A common trend, unless it is removed, and a smooth trend
    with noise read as a large index; compare models first.

    Examples:
        >>> import numpy as np
        >>> from deeplimit.trained.diagnosis.layer_gram import LayerGram, cosines
        >>> layers = np.random.default_rng(1).standard_normal((12, 4096)) + 1
        >>> gram = LayerGram(layers @ layers.T / 4096, 4096)
        >>> found = roughness(gram), roughness(gram, about_mean=True)
        >>> found[0].hurst > 0.7, abs(found[1].hurst - 0.5) < 0.02
        (True, True)
    """
    depth = len(gram.products)
    if depth < 4:
        raise ValueError(f"roughness needs at least 4 layers, got {depth}; take a network of more layers.")
    size = float(np.trace(gram.products))
    if not size > 0:
        raise ValueError(
            f"roughness needs weights that are not all zero, got a sum of squares of {size}; leave them out,"
            " or take them after training."
        )
    blocks = _Blocks.of(gram, about_mean, equal_sizes)
    if not blocks.products:
        raise ValueError(
            f"roughness about means needs 3 layers more than groups, got {depth} in groups {gram.groups};"
            " give fewer groups, or take a network of more layers."
        )
    grid = np.linspace(SMALLEST, LARGEST, GRID)
    scores = np.array([blocks.score(hurst) for hurst in grid])

    def zero(at: float, k: int) -> float:
        """Return where the score passes a value between the grid's point k and the next; its end if k is."""
        if k in (-1, GRID - 1):
            return float(grid[max(k, 0)])
        return float(optimize.brentq(lambda hurst: blocks.score(hurst) - at, grid[k], grid[k + 1], xtol=1e-6))

    # The score need not fall everywhere: of several zeros that of the largest likelihood is the estimate, and
    # the interval is what is not rejected around it. Near 1 the score looks at the sum of layers only, so
    # that few entries never reject an index there, whatever the layers.
    falls = [k for k in range(-1, GRID) if (k < 0 or scores[k] > 0) and (k == GRID - 1 or scores[k + 1] <= 0)]
    best = max(falls, key=lambda k: blocks.likelihood(grid[max(k, 0)])) if len(falls) > 1 else falls[0]
    estimate = zero(0.0, best)
    count = blocks.effective_entries(estimate, gram.entries)
    bound = float(special.ndtri((1 + level) / 2)) * (WIDENING if count < FEW_ENTRIES else 1.0)
    low = max((k for k in range(best + 1) if scores[k] > bound), default=-1)
    high = min((k for k in range(best + 1, GRID) if scores[k] < -bound), default=GRID) - 1
    lower, upper = zero(bound, low), zero(-bound, high)
    interval = (0.0 if lower <= SMALLEST else lower, 1.0 if upper >= LARGEST else upper)
    return Roughness(estimate, interval, level, count, None if about_mean else variogram_index(gram))


def variogram_index(gram: LayerGram) -> float:
    """Return half the slope of log mean squares of sums over 1, 2, 3 layers, which need lags 0, 1, 2.

    Not checked: that layers are of one group.

    Examples:
        >>> import numpy as np
        >>> variogram_index(LayerGram(np.eye(8), 100))
        0.5
    """
    lags = [float(np.diagonal(gram.products, lag).mean()) for lag in range(3)]
    squares = np.array([[1.0, 0.0, 0.0], [2.0, 2.0, 0.0], [3.0, 4.0, 2.0]]) @ lags
    logs = np.log([1.0, 2.0, 3.0])
    slope = (logs - logs.mean()) / np.square(logs - logs.mean()).sum()
    index = slope @ np.log(np.maximum(squares, 1e-12 * lags[0])) / 2
    return round(float(np.clip(index, 0.0, 1.0)), 12)
