"""From differences at several depths to the difference at infinite depth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deeplimit.statistics.power_law import Regression, independent


@dataclass(frozen=True)
class Extrapolated:
    """A difference at infinite depth.

    Attributes:
        value, error: the difference and its standard error.
        allowance: what leaving out one more depth would change, beyond noise.
        fits: whether the expansion in powers of 1/depth describes the depths that were kept.
    """

    value: float
    error: float
    allowance: float
    fits: bool


def extrapolate(
    depths: np.ndarray,
    differences: np.ndarray,
    variances: np.ndarray,
    shared: float,
    powers: tuple[float, float],
    level: float,
) -> Extrapolated:
    """Return a + b L^-powers[0] (+ c L^-powers[1], from four depths on) at L = ∞, by weighted least squares.

    The coarsest depths are left out while residuals as large have a probability below `level`. The allowance
    is what leaving out one more would change, beyond one standard deviation of that change.

    Args:
        depths: numbers of layers L (m,).
        differences: network minus limit (m,).
        variances: those of the networks' means (m,), which are independent.
        shared: variance of the limit's mean, which all differences have in common.
        powers: the two leading powers of 1/L.
        level: as above.
    """
    terms = 3 if len(depths) >= 4 else 2

    def fitted(first: int) -> Regression:
        kept = depths[first:]
        columns = [np.ones(len(kept)), *(kept**-power for power in powers[: terms - 1])]
        return independent(np.stack(columns, axis=1), differences[first:], variances[first:])

    first, fit = 0, fitted(0)
    while fit.misfit < level and len(depths) - first > terms + 1:
        first += 1
        fit = fitted(first)
    allowance = 0.0
    if len(depths) - first > terms:
        shorter = fitted(first + 1)
        # The variance of the change between nested least-squares fits is the difference of their variances.
        chance = np.sqrt(max(0.0, _variance(shorter) - _variance(fit)))
        allowance = max(0.0, abs(_value(fit) - _value(shorter)) - chance)
    return Extrapolated(_value(fit), float(np.sqrt(_variance(fit) + shared)), allowance, fit.misfit >= level)


def _value(fit: Regression) -> float:
    return float(fit.coefficients[0])


def _variance(fit: Regression) -> float:
    return float(fit.covariance[0, 0])
