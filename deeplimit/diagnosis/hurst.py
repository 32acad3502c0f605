"""Roughness of layers over depth: the Hurst index of fractional noise, by its exact likelihood.

Layers are taken as H-fractional noise over depth, the same law for every entry, with any covariance between
entries. The likelihood of independent entries gives the estimate; its score is judged by random rotations of
the whitened layers, so the interval needs no count of independent entries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np
from scipy import linalg, optimize, special

from deeplimit.diagnosis import rotations
from deeplimit.diagnosis.layer_gram import LayerGram
from deeplimit.weights.fractional import noise_covariance

BLOCK = 128
"""Longer stacks are read in blocks of at most so many layers; products across blocks are not used."""
SMALLEST, LARGEST = 0.01, 0.99
"""Estimates lie between these. An interval that reaches one of them extends to 0 or 1."""
NEIGHBOURS = 8
"""Blocks further apart than so many are taken as independent in the error of the estimate."""
GRID = 33
"""At so many indices the score is evaluated before its zero and the interval's ends are refined."""


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
    """

    hurst: float
    interval: tuple[float, float]
    level: float
    effective_entries: float
    variogram: float


@dataclass(frozen=True)
class _Model:
    """Fractional noise of one index over a block of layers.

    Attributes:
        factor: lower Cholesky factor of the covariance R.
        score: derivative of log R in whitened coordinates, less its mean diagonal (L, L).
        across: variance of the sum of blocks' scores, over that of independent blocks.
    """

    factor: np.ndarray
    score: np.ndarray
    across: float

    def whiten(self, matrices: np.ndarray) -> np.ndarray:
        """Return F⁻¹ S F⁻ᵀ for each of the matrices (blocks, L, L)."""
        return np.stack([_whitened(self.factor, matrix) for matrix in matrices])


def _whitened(factor: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    half = linalg.solve_triangular(factor, matrix, lower=True, check_finite=False)
    whole = linalg.solve_triangular(factor, half.T, lower=True, check_finite=False)
    symmetric: np.ndarray = (whole + whole.T) / 2
    return symmetric


@lru_cache(maxsize=64)
def _model(hurst: float, depth: int, blocks: int) -> _Model:
    neighbours = min(blocks - 1, NEIGHBOURS)
    lags, step = np.arange((neighbours + 1) * depth), 1e-5
    row = noise_covariance(hurst, lags)
    slope = (noise_covariance(hurst + step, lags) - noise_covariance(hurst - step, lags)) / (2 * step)
    factor = np.linalg.cholesky(linalg.toeplitz(row[:depth]))
    score = _whitened(factor, linalg.toeplitz(slope[:depth]))
    score -= np.trace(score) / depth * np.eye(depth)
    shared = 0.0
    for apart in range(1, neighbours + 1):
        begin = apart * depth
        between = linalg.toeplitz(row[begin - np.arange(depth)], row[begin : begin + depth])
        half = linalg.solve_triangular(factor, between, lower=True)
        tie = linalg.solve_triangular(factor, half.T, lower=True).T
        shared += 2 * (1 - apart / blocks) * float((score @ tie * (tie @ score)).sum())
    return _Model(factor, score, 1 + shared / float((score**2).sum()))


def diagonal_blocks(products: np.ndarray, longest: int = BLOCK) -> np.ndarray:
    """Return the fewest equal diagonal blocks (blocks, B, B) of at most `longest` layers.

    Fewer layers at the end than there are blocks are left out.
    """
    depth = len(products)
    count = -(-depth // longest)
    size = depth // count
    return np.stack([products[k * size : (k + 1) * size, k * size : (k + 1) * size] for k in range(count)])


def _score(weights: np.ndarray, white: np.ndarray, across: float) -> float:
    """Return Σ tr(M G) over whitened blocks G as a normal score, for a matrix M of trace zero."""
    variance, third = rotations.moments(weights, white)
    if variance <= 0:  # the products are those of the model, exactly
        return 0.0
    deviation = float(np.sqrt(variance * across))
    total = float((weights * white).sum())
    return float(np.clip(rotations.normal_score(total / deviation, third / deviation**3), -1e3, 1e3))


def roughness(gram: LayerGram, level: float = 0.95) -> Roughness:
    """Return the Hurst index of a stack with its interval.

    Args:
        gram: products of at least 4 layers.
        level: confidence level of the interval.

    Raises:
        ValueError: where there are fewer layers, or all weights are zero.

    Not checked: that layers are fractional noise. A common trend, a smooth trend with noise and layers in
    groups can all read as a large index; compare models first.

    Examples:
        >>> import numpy as np
        >>> from deeplimit.diagnosis.layer_gram import LayerGram
        >>> layers = np.random.default_rng(1).standard_normal((12, 4096))
        >>> found = roughness(LayerGram(layers @ layers.T / 4096, 4096))
        >>> abs(found.hurst - 0.5) < 0.02
        True
    """
    depth = len(gram.products)
    if depth < 4:
        raise ValueError(f"roughness needs at least 4 layers, got {depth}.")
    size = float(np.trace(gram.products))
    if not size > 0:
        raise ValueError(f"roughness needs weights that are not all zero, got a sum of squares of {size}.")
    blocks = diagonal_blocks(gram.products / size)
    bound = float(special.ndtri((1 + level) / 2))

    def score(hurst: float) -> float:
        model = _model(float(hurst), blocks.shape[-1], len(blocks))
        return _score(model.score, model.whiten(blocks), model.across)

    grid = np.linspace(SMALLEST, LARGEST, GRID)
    scores = np.array([score(hurst) for hurst in grid])
    estimate = _crossing(score, grid, scores, 0.0, last=False)
    lower = _crossing(score, grid, scores, bound, last=False)
    upper = _crossing(score, grid, scores, -bound, last=True)
    interval = (0.0 if lower <= SMALLEST else lower, 1.0 if upper >= LARGEST else upper)
    model = _model(estimate, blocks.shape[-1], len(blocks))
    white = model.whiten(blocks)
    count = rotations.effective_entries(white, gram.entries)
    return Roughness(estimate, interval, level, count, _variogram_index(blocks))


def _crossing(
    score: Callable[[float], float], grid: np.ndarray, scores: np.ndarray, at: float, last: bool
) -> float:
    """Return where the falling score first (or last) passes a value; an end of the grid where nowhere."""
    above = scores > at
    falls = np.flatnonzero(above[:-1] & ~above[1:])
    if len(falls) == 0:
        return float(grid[-1] if above[-1] else grid[0])
    k = falls[-1 if last else 0]
    root: float = optimize.brentq(lambda hurst: score(hurst) - at, grid[k], grid[k + 1], xtol=1e-6)
    return root


def _variogram_index(products: np.ndarray) -> float:
    """Return half the slope of log mean squares of sums over 1, 2, 3 layers, which need lags 0, 1, 2."""
    lags = [np.diagonal(products, lag, axis1=-2, axis2=-1).mean() for lag in range(3)]
    squares = np.array([[1.0, 0.0, 0.0], [2.0, 2.0, 0.0], [3.0, 4.0, 2.0]]) @ lags
    logs = np.log([1.0, 2.0, 3.0])
    slope = (logs - logs.mean()) / np.square(logs - logs.mean()).sum()
    index = slope @ np.log(np.maximum(squares, 1e-12 * lags[0])) / 2
    return float(np.clip(index, 0.0, 1.0))
