"""Means over independent repeats with Student intervals, and slopes of errors against depth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy import optimize

from deeplimit.papers.figures.recipe import LEVEL
from deeplimit.statistics.power_law import ErrorEstimates, Fit, fit_rate, line, student_quantile

STEEPEST = 4.0
"""Orders beyond this are not looked for."""


@final
@dataclass(frozen=True)
class Mean:
    """A mean over repeats with its standard error.

    Attributes:
        value, error: mean and standard error.
        degrees: degrees of freedom.
    """

    value: float
    error: float
    degrees: int

    @classmethod
    def of(cls, values: np.ndarray) -> Mean:
        """Return the mean of independent values (R,), R >= 2."""
        return cls(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values)), len(values) - 1)

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return the central interval."""
        reach = student_quantile(confidence, self.degrees) * self.error
        return self.value - reach, self.value + reach

    @property
    def sure(self) -> tuple[float, float]:
        """Return the interval that a check rests on."""
        return self.interval(1 - LEVEL)

    def __str__(self) -> str:
        low, high = self.interval()
        return f"{self.value:.2f} [{low:.2f}, {high:.2f}]"


def slope(depths: np.ndarray, errors: np.ndarray) -> float:
    """Return the slope of log errors (m,) in log depth, by least squares; NaN where all depths are one."""
    found = line(np.log(depths), np.log(errors), np.ones(len(depths)))
    return math.nan if found is None else found.slope


def order_against_deepest(depths: np.ndarray, errors: np.ndarray, deepest: int) -> float:
    """Return r for errors c (L^-r - D^-r) at depths L (m,): distances to a network of depth D.

    Returns 0 where no positive order fits.

    Examples:
        >>> L = np.array([8.0, 16.0, 32.0])
        >>> round(order_against_deepest(L, L**-0.5 - 64**-0.5, 64), 6)
        0.5
    """

    def excess(order: float) -> float:
        return -slope(depths, errors / -np.expm1(order * np.log(depths / deepest))) - order

    if excess(1e-6) <= 0:
        return 0.0
    return float(optimize.brentq(excess, 1e-6, STEEPEST)) if excess(STEEPEST) < 0 else STEEPEST


def fitted_order(depths: np.ndarray, squares: np.ndarray, deepest: int) -> Fit:
    """Return the order of distances to the deepest network, whose squares (m, R) are known for R repeats.

    If the order is 1, the deepest network, of depth D, hides the share L/D of each error. That is put back,
    so that errors of another order give neither theirs nor 1.
    """
    means, count = squares.mean(axis=1), squares.shape[1]
    relative = squares / means[:, None]
    centred = relative - 1.0
    covariance = np.cov(relative) / (4.0 * count)
    kurtosis = float(((centred**4).mean(axis=1) / (centred**2).mean(axis=1) ** 2).max())
    bias = np.log1p(-depths / deepest)
    return fit_rate(ErrorEstimates(depths, 0.5 * np.log(means), covariance, bias, count, kurtosis))


def order_in_words(fit: Fit) -> str:
    """Return an order with its 95 % interval."""
    low, high = fit.interval(0.95)
    return f"{fit.rate:.2f} [{low:.2f}, {high:.2f}]"
