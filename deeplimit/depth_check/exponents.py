"""The effective residual exponent: how fast the size of a branch's update falls as the network deepens,
with an interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

# No size is believed to more than this: rounding, and states that are the same up to it.
FLOOR = 1e-3
# The level at which sizes that no power law passes through are told from noise.
LACK = 1e-3


@dataclass(frozen=True)
class Exponent:
    """size ~ depth**-value: the value, its standard error and interval, and whether a power law fits at
    all.
    """

    value: float
    error: float
    low: float
    high: float
    power_law: bool

    def within(self, target: float, tolerance: float) -> bool | None:
        """Return whether the exponent is `target` up to `tolerance`; None if the interval is too wide to
        tell.

        Too wide: it reaches the target, but also what lies further away than half of the distance 1/2
        between the classical exponents 0, 1/2 and 1.
        """
        if self.low > target + tolerance or self.high < target - tolerance:
            return False
        return (
            True
            if self.high - target <= max(tolerance, 0.25) and target - self.low <= max(tolerance, 0.25)
            else None
        )


def fit(
    depths: Sequence[float], sizes: Sequence[Sequence[float]], confidence: float, epsilon: float = 0.0
) -> Exponent | None:
    """Return the exponent of the mean square of `sizes` (one sequence of branches a depth) in 1/depth;
    None if any mean is 0.

    Branches of one depth are independent draws of one law if the initialisation makes them so: their
    scatter gives the standard error, pooled over depths. If the depths' means lie off every power law by
    more than that explains, there is no one exponent, and the interval is widened to hold the slopes
    between neighbouring depths. `confidence`: of the interval.
    epsilon: the precision of the numbers in which the module computes.
    """
    groups = [np.asarray(group, dtype=np.float64) for group in sizes]
    means = np.array([float(np.mean(group**2)) for group in groups])
    if np.any(means <= 0) or not np.all(np.isfinite(means)):
        return None
    x, y = np.log(np.asarray(depths, dtype=np.float64)), 0.5 * np.log(means)
    counts = np.array([group.size for group in groups], dtype=np.float64)
    freedom = int(counts.sum()) - len(groups)
    # The relative scatter of squares, halved: the standard deviation of a log size.
    scatter = (
        sum(float(np.sum((group**2 / mean - 1) ** 2)) for group, mean in zip(groups, means, strict=True))
        / 4
        / max(freedom, 1)
    )
    floor = max(FLOOR, epsilon) ** 2
    variances = scatter / counts + floor
    weights = 1 / variances
    centre = np.sum(weights * x) / weights.sum()
    spread = float(np.sum(weights * (x - centre) ** 2))
    if spread == 0:
        return None
    slope = float(np.sum(weights * (x - centre) * y)) / spread
    remaining = y - np.sum(weights * y) / weights.sum() - slope * (x - centre)
    misfit = float(np.sum(weights * remaining**2))
    left = len(groups) - 2
    power_law = bool(left <= 0 or special.chdtrc(left, misfit) > LACK)
    error = 1 / math.sqrt(spread)
    half = student(confidence, max(freedom, 1)) * error
    low, high = -slope - half, -slope + half
    if not power_law:
        steps = -np.diff(y) / np.diff(x)
        low, high = min(low, float(steps.min())), max(high, float(steps.max()))
    return Exponent(-slope, error, low, high, power_law)


def slope(depths: Sequence[float], values: Sequence[float]) -> float | None:
    """Return the least-squares exponent of positive values in 1/depth; None if any is not positive."""
    if len(values) < 2 or any(not 0 < value < math.inf for value in values):
        return None
    x, y = np.log(np.asarray(depths, dtype=np.float64)), np.log(np.asarray(values, dtype=np.float64))
    x = x - x.mean()
    return -float(np.sum(x * y) / np.sum(x**2)) if np.any(x != 0) else None


def student(confidence: float, freedom: int) -> float:
    """Return the two-sided quantile of Student's law."""
    return float(special.stdtrit(freedom, 0.5 + confidence / 2))
