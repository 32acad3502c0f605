"""What chance does to quadratic statistics of whitened layers, whatever the covariance of their entries.

Whitened layers are independent draws of one Gaussian vector. An orthogonal mixture of them has the same law,
so their Gram matrix is a random rotation of its own eigenvalues. Moments under this rotation need no estimate
of how entries depend on each other. Tests and intervals that use them hold for any spectrum of the weights.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

FEWEST = 3
"""Two layers leave no room for a rotation that keeps their mean size and changes their products."""


def effective_entries(grams: np.ndarray, entries: int) -> float:
    """Return how many independent entries of equal variance would scatter as the whitened layers do.

    Args:
        grams: mean products of whitened layers (..., L, L), or matrices that are similar to them, averaged
            over leading dimensions.
        entries: number of entries, which is an upper bound.

    Returns:
        (tr Ω)² / tr Ω² for entries of covariance Ω, without bias in its inverse where it is large.

    Not checked: that layers are whitened. Where they are not, the number is too small.

    Examples:
        >>> import numpy as np
        >>> layers = np.random.default_rng(1).standard_normal((8, 4000))
        >>> 3000 < effective_entries(layers @ layers.T / 4000, 10**6) < 6000
        True
    """
    depth = grams.shape[-1]
    sizes = np.trace(grams, axis1=-2, axis2=-1)
    spread = (grams * np.swapaxes(grams, -1, -2)).sum(axis=(-2, -1)) - sizes**2 / depth
    excess = float(spread.mean() / sizes.mean() ** 2)
    if excess <= 0:
        return float(entries)
    count: float = (depth - 1) * (depth + 2) / (depth**2 * excess)
    return min(float(entries), count)


def spread_lost(depth: int) -> float:
    """Return by which factor scatter is larger than it looks where layers were divided by their sizes.

    Of the (L - 1)(L + 2) parts of the scatter of L whitened layers' products, equal diagonals leave L(L - 1).

    Examples:
        >>> spread_lost(12)
        1.1666666666666667
    """
    return (depth + 2) / depth


def moments(weights: np.ndarray, grams: np.ndarray) -> tuple[float, float]:
    """Return variance and third cumulant of Σ tr(M G) over independent rotations of each Gram matrix G.

    Args:
        weights: symmetric matrix M (L, L) of trace zero.
        grams: Gram matrices (blocks, L, L), of which only the eigenvalues matter.

    Not checked: that the trace of `weights` is zero.

    Examples:
        >>> import numpy as np
        >>> moments(np.diag([1.0, -1.0, 0.0]), np.eye(3)[None])
        (0.0, 0.0)
    """
    depth = weights.shape[-1]
    means = np.trace(grams, axis1=-2, axis2=-1) / depth
    squares, cubes = power_traces(grams - means[:, None, None] * np.eye(depth))
    square, cube = power_traces(weights)
    return moments_of_traces(depth, (float(square), float(cube)), (float(squares.sum()), float(cubes.sum())))


def power_traces(matrices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the traces (...) of the squares and of the cubes of matrices (..., L, L)."""
    turned = np.swapaxes(matrices, -1, -2)
    return (matrices * turned).sum(axis=(-2, -1)), (matrices @ matrices * turned).sum(axis=(-2, -1))


def moments_of_traces(
    depth: int, weights: tuple[float, float], grams: tuple[float, float]
) -> tuple[float, float]:
    """Return the same from traces of squares and cubes, for the Gram matrices summed, less their means."""
    (square, cube), (second, third) = weights, grams
    ways = (depth - 2) * (depth - 1) * (depth + 2) * (depth + 4) / (8 * depth)
    return 2 * square * second / ((depth - 1) * (depth + 2)), cube * third / ways


def normal_score(deviation: float, skewness: float) -> float:
    """Return the normal quantile of a standardised deviation whose law has this skewness.

    The law is taken as a shifted Gamma law of the same first three moments.

    Examples:
        >>> round(normal_score(1.96, 0.0), 6), round(normal_score(1.96, 1.0), 2)
        (1.96, 1.7)
    """
    if abs(skewness) < 1e-6:
        return deviation
    shape = 4 / skewness**2
    place = shape + math.copysign(1.0, skewness) * deviation * math.sqrt(shape)
    if place <= 0:  # beyond the end of the Gamma law
        return math.copysign(math.inf, deviation)
    below, above = special.gammainc(shape, place), special.gammaincc(shape, place)
    score = -special.ndtri(above) if below > 0.5 else special.ndtri(below)
    return math.copysign(1.0, skewness) * float(score)
