"""Two-sample tests at each depth, and the bounded test functions by which two laws are compared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import ks_2samp, norm

EXCEEDANCES = 20
"""Number of permutations that must reach the observed distance; how many were drawn is the p-value (Besag
& Clifford 1991).
"""
MOST_PERMUTATIONS = 100_000
SHAPES = ("location", "spread", "odd shape", "even shape")
SMALLEST = 0.1
"""What a test function's mean is divided by is at least this, so that odd laws do not blow up noise."""


def kolmogorov_smirnov(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Return the largest distance of two distribution functions and its asymptotic p-value.

    It is conservative where laws have atoms.
    """
    found = ks_2samp(first, second, method="asymp")
    return float(found.statistic), float(found.pvalue)


def energy_test(
    first: np.ndarray, second: np.ndarray, level: float, random: np.random.Generator
) -> tuple[float, float]:
    """Return the energy distance of two samples (P, d), and its p-value over swaps within pairs.

    Pair p is row p of both samples, which start at the same input. Under the null hypothesis each swap then
    keeps the joint law, and the p-value is exact for any number of draws. It can fall to about a half of
    `level`, if that takes no more than `MOST_PERMUTATIONS`.
    """
    within = _distances(first, first) + _distances(second, second)
    across = _distances(first, second)
    matrix = ((across + across.T - within) / len(first) ** 2).astype(np.float32)
    observed = float(matrix.sum(dtype=np.float64))
    reached, drawn = 0, 0
    most = min(MOST_PERMUTATIONS, int(np.ceil(2 / level)))
    while drawn < most:
        signs = random.integers(0, 2, (1000, len(first))).astype(np.float32) * 2 - 1
        values = np.einsum("bp,bp->b", signs @ matrix, signs)
        at = np.flatnonzero(values >= observed * (1 - 1e-6))
        if reached + len(at) >= EXCEEDANCES:
            return max(observed, 0.0), EXCEEDANCES / (drawn + int(at[EXCEEDANCES - reached - 1]) + 1)
        reached += len(at)
        drawn += len(signs)
    return max(observed, 0.0), (reached + 1) / (drawn + 1)


def _distances(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    squares = (first**2).sum(axis=1)[:, None] + (second**2).sum(axis=1)[None, :] - 2 * first @ second.T
    distances: np.ndarray = np.sqrt(np.maximum(squares, 0.0))
    if first is second:
        np.fill_diagonal(distances, 0.0)  # which rounding would leave at about 1e-8
    return distances


def holm(p_values: np.ndarray) -> np.ndarray:
    """Return Holm's adjusted p-values, which bound the family-wise error rate."""
    flat = p_values.ravel()
    order = np.argsort(flat)
    adjusted = np.empty_like(flat)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(flat[order] * np.arange(len(flat), 0, -1)))
    return adjusted.reshape(p_values.shape)


@dataclass(frozen=True)
class Standard:
    """What makes bounded test functions of one feature: its mean and deviation under the limit, and units.

    With z the feature in units of the limit's own, the four are sin z, -cos z, sin 2z, cos 2z. The first two
    are divided by E cos z and E z sin z. To first order they are then a shift in standard deviations and a
    relative change of the standard deviation. Bounded functions have means that no tail can spoil.
    """

    mean: float
    deviation: float
    units: tuple[float, float, float, float]

    @classmethod
    def of(cls, feature: np.ndarray) -> Standard:
        mean, deviation = float(feature.mean()), float(feature.std())
        deviation = deviation if deviation > 0 else 1.0
        z = (feature - mean) / deviation
        units = max(SMALLEST, float(np.cos(z).mean())), max(SMALLEST, float((z * np.sin(z)).mean()))
        return cls(mean, deviation, (units[0], -units[1], 1.0, 1.0))

    def moments(self, feature: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the means (4,) of the test functions over one sample (P,), and those means' variances."""
        z = (feature - self.mean) / self.deviation
        values = (
            np.stack([np.sin(z), np.cos(z), np.sin(2 * z), np.cos(2 * z)]) / np.array(self.units)[:, None]
        )
        return values.mean(axis=1), np.maximum(values.var(axis=1, ddof=1) / len(feature), 1e-16)


def two_sided(level: float) -> float:
    """Return the number of standard errors that a normal variable exceeds, either way, at this level."""
    return float(norm.isf(level / 2))
