"""Running moments of per-path errors: all that the statistics need, at a size independent of the paths."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

MOST_ROWS = 2**17
"""Differences of more paths than this are not kept: there sampling errors of an order are negligible."""


@dataclass(frozen=True)
class Moments:
    """Moments of columns of (error / scale)^p, merged in a fixed order, so that workers change no bit.

    Each column's scale is its largest error so far. The p-th powers then lie in [0, 1] and cannot overflow,
    however large p or the errors are.
    """

    power: float
    count: int
    scale: np.ndarray  # (C,): the largest finite error; 1 where all are 0
    mean: np.ndarray  # (C,)
    scatter: np.ndarray  # (C, C): sum of products of deviations
    third: np.ndarray  # (C,): sum of cubed deviations
    fourth: np.ndarray  # (C,)
    diverged: np.ndarray  # (C,) int: errors that were not finite; they enter as 0, and the caller must say so
    limit_lost: int  # paths on which the limit itself was not finite
    # (m, m), or (0, 0) where they are not kept: sums over paths of the products of differences of network and
    # limit at two depths, averaged over the times that all depths share.
    products: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((0, 0)))
    # (P, columns), or (0, 0) where they are not kept: consecutive differences of the first MOST_ROWS paths.
    differences: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((0, 0)))

    @staticmethod
    def of(
        errors: np.ndarray,
        power: float,
        limit_lost: int = 0,
        products: np.ndarray | None = None,
        differences: np.ndarray | None = None,
    ) -> Moments:
        """Return the moments of `errors` (P, C) to the given power, with sums of products where there are."""
        finite = np.isfinite(errors)
        clean = np.where(finite, errors, 0.0)
        scale = clean.max(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        values = (clean / scale) ** power
        mean = values.mean(axis=0)
        deviation = values - mean
        return Moments(
            power,
            len(values),
            scale,
            mean,
            deviation.T @ deviation,
            (deviation**3).sum(axis=0),
            (deviation**4).sum(axis=0),
            (~finite).sum(axis=0),
            limit_lost,
            np.zeros((0, 0)) if products is None else products,
            np.zeros((0, 0)) if differences is None else differences,
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """Return every field as an array, to be written to a file."""
        return {field.name: np.asarray(getattr(self, field.name)) for field in dataclasses.fields(self)}

    @staticmethod
    def from_arrays(arrays: dict[str, np.ndarray]) -> Moments:
        """Return the moments whose `arrays()` these are."""
        values: dict[str, Any] = {name: each if each.ndim else each.item() for name, each in arrays.items()}
        return Moments(**values)

    def _at(self, scale: np.ndarray) -> Moments:
        """Return the same moments with other, larger scales."""
        factor = (self.scale / scale) ** self.power
        return dataclasses.replace(
            self,
            scale=scale,
            mean=self.mean * factor,
            scatter=self.scatter * np.outer(factor, factor),
            third=self.third * factor**3,
            fourth=self.fourth * factor**4,
        )

    def merge(self, other: Moments) -> Moments:
        """Return the moments of both samples together (Chan, Golub & LeVeque; Pébay for the higher ones)."""
        both = np.where(
            self.mean == 0,
            other.scale,
            np.where(other.mean == 0, self.scale, np.maximum(self.scale, other.scale)),
        )
        a, b = self._at(both), other._at(both)
        n, m = a.count, b.count
        total = n + m
        delta = b.mean - a.mean
        mine, theirs = np.diag(a.scatter), np.diag(b.scatter)
        third = (
            a.third
            + b.third
            + delta**3 * n * m * (n - m) / total**2
            + 3 * delta * (n * theirs - m * mine) / total
        )
        fourth = (
            a.fourth
            + b.fourth
            + delta**4 * n * m * (n * n - n * m + m * m) / total**3
            + 6 * delta**2 * (n * n * theirs + m * m * mine) / total**2
            + 4 * delta * (n * b.third - m * a.third) / total
        )
        return Moments(
            self.power,
            total,
            both,
            a.mean + delta * m / total,
            a.scatter + b.scatter + np.outer(delta, delta) * n * m / total,
            third,
            fourth,
            a.diverged + b.diverged,
            a.limit_lost + b.limit_lost,
            a.products + b.products,
            np.concatenate([a.differences, b.differences])[:MOST_ROWS],
        )

    def log_errors(self) -> np.ndarray:
        """Return log of the L^p mean of the errors (C,); minus infinity where all are 0."""
        with np.errstate(divide="ignore"):
            logs: np.ndarray = np.log(self.scale) + np.log(self.mean) / self.power
        return logs

    def relative_covariance(self) -> np.ndarray:
        """Return the covariance of `log_errors` by the delta method (C, C)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            covariance = self.scatter / max(self.count - 1, 1) / np.outer(self.mean, self.mean)
        return covariance / self.count / self.power**2

    def worst(self) -> np.ndarray:
        """Return the largest error (C,); infinite where a path was lost, 0 where there is none."""
        return np.where(self.diverged > 0, np.inf, np.where(self.mean > 0, self.scale, 0.0))

    def kurtosis(self) -> np.ndarray:
        """Return E(x - mean)⁴ / Var², which is 3 for a Gaussian; 0 where a column is constant."""
        variance = np.diag(self.scatter) / self.count
        constant = variance <= 1e-30
        return np.divide(self.fourth / self.count, variance**2, out=np.zeros_like(variance), where=~constant)
