"""Running moments of per-path errors: everything the statistics need, at a size that does not grow with the paths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Moments:
    """Moments of columns of per-path numbers; blocks are merged in a fixed order, so results do not depend on workers."""

    count: int
    mean: np.ndarray  # (C,)
    scatter: np.ndarray  # (C, C): sum of products of deviations
    third: np.ndarray  # (C,): sum of cubed deviations
    fourth: np.ndarray  # (C,)
    worst: np.ndarray  # (C,): the largest value
    diverged: np.ndarray  # (C,) int: values that were not finite; they enter as 0, and the caller must say so

    @staticmethod
    def of(values: np.ndarray) -> Moments:
        """Return the moments of `values` (P, C)."""
        finite = np.isfinite(values)
        clean = np.where(finite, values, 0.0)
        mean = clean.mean(axis=0)
        deviation = clean - mean
        return Moments(
            len(values),
            mean,
            deviation.T @ deviation,
            (deviation**3).sum(axis=0),
            (deviation**4).sum(axis=0),
            clean.max(axis=0),
            (~finite).sum(axis=0),
        )

    def merge(self, other: Moments) -> Moments:
        """Return the moments of both samples together (Chan, Golub & LeVeque; Pébay for the higher ones)."""
        n, m = self.count, other.count
        total = n + m
        delta = other.mean - self.mean
        mine, theirs = np.diag(self.scatter), np.diag(other.scatter)
        third = self.third + other.third + delta**3 * n * m * (n - m) / total**2 + 3 * delta * (n * theirs - m * mine) / total
        fourth = (
            self.fourth
            + other.fourth
            + delta**4 * n * m * (n * n - n * m + m * m) / total**3
            + 6 * delta**2 * (n * n * theirs + m * m * mine) / total**2
            + 4 * delta * (n * other.third - m * self.third) / total
        )
        return Moments(
            total,
            self.mean + delta * m / total,
            self.scatter + other.scatter + np.outer(delta, delta) * n * m / total,
            third,
            fourth,
            np.maximum(self.worst, other.worst),
            self.diverged + other.diverged,
        )

    def covariance(self) -> np.ndarray:
        """Return the sample covariance (C, C)."""
        return self.scatter / max(self.count - 1, 1)

    def kurtosis(self) -> np.ndarray:
        """Return E(x - mean)⁴ / Var², which is 3 for a Gaussian; 0 where a column is constant."""
        variance = np.diag(self.scatter) / self.count
        return np.divide(self.fourth / self.count, variance**2, out=np.zeros_like(variance), where=variance > 0)
