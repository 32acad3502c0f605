"""Two-sample tests at each depth, and the difference of two laws as a function of depth, extrapolated to
infinite depth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2, ks_2samp, norm

EXCEEDANCES = 20
"""Permutations are drawn until so many reach the observed distance; their number makes the p-value (Besag
& Clifford 1991).
"""
MOST_PERMUTATIONS = 100_000
SHAPES = ("location", "spread", "odd shape", "even shape")
SMALLEST = 0.1
"""What a test function's mean is divided by is at least this, so that odd laws do not blow up noise."""


def kolmogorov_smirnov(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Return the largest distance of two distribution functions, and its p-value: asymptotic, and
    conservative for atoms.
    """
    found = ks_2samp(first, second, method="asymp")
    return float(found.statistic), float(found.pvalue)


def energy_test(
    first: np.ndarray, second: np.ndarray, level: float, random: np.random.Generator
) -> tuple[float, float]:
    """Return the energy distance of two samples (P, d), and its p-value over swaps within pairs (p of one,
    p of the other).

    Draws of one pair start at the same input, so that under the null hypothesis each swap leaves the joint
    law as it is: the p-value is exact for any number of draws. It can fall to about a half of `level`, if
    that takes no more than `MOST_PERMUTATIONS`.
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
    """Return Holm's adjusted p-values: rejecting those up to a level errs once or more with at most that
    probability.
    """
    flat = p_values.ravel()
    order = np.argsort(flat)
    adjusted = np.empty_like(flat)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(flat[order] * np.arange(len(flat), 0, -1)))
    return adjusted.reshape(p_values.shape)


@dataclass(frozen=True)
class Standard:
    """What turns one feature into bounded test functions: its mean and deviation under the limit, and
    their units.

    With z the feature in units of the limit's own, the four are sin z, -cos z, sin 2z, cos 2z. The first
    two are divided by E cos z and E z sin z, so that to first order they read as a shift in standard
    deviations and as a relative change of the standard deviation. Bounded functions have means that no
    tail can spoil.
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
        """Return the means (4,) of the test functions over one sample (P,), and the variances of those
        means.
        """
        z = (feature - self.mean) / self.deviation
        values = (
            np.stack([np.sin(z), np.cos(z), np.sin(2 * z), np.cos(2 * z)]) / np.array(self.units)[:, None]
        )
        return values.mean(axis=1), np.maximum(values.var(axis=1, ddof=1) / len(feature), 1e-16)


@dataclass(frozen=True)
class Extrapolated:
    """A difference of means at infinite depth, with its standard error, what the choice of depths adds,
    and whether it fits.
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
    """Return a + b L^-powers[0] (+ c L^-powers[1], from four depths on) at L = ∞, fitted by weighted least
    squares.

    `variances` are those of the networks' means, which are independent; `shared` is that of the limit's
    mean, which all differences have in common. The coarsest depths are left out while the residuals are
    too large at `level`. The allowance is what leaving out one more would change, beyond one standard
    deviation of that change.
    """
    first = 0
    fit = _fit(depths, differences, variances, powers)
    terms = fit.terms
    while fit.misfit < level and len(depths) - first > terms + 1:
        first += 1
        fit = _fit(depths[first:], differences[first:], variances[first:], powers, terms)
    fits = fit.misfit >= level
    allowance = 0.0
    if len(depths) - first > terms:
        shorter = _fit(depths[first + 1 :], differences[first + 1 :], variances[first + 1 :], powers, terms)
        chance = np.sqrt(
            max(0.0, shorter.variance - fit.variance)
        )  # of the change, as of nested least squares
        allowance = max(0.0, abs(fit.value - shorter.value) - chance)
    return Extrapolated(fit.value, float(np.sqrt(fit.variance + shared)), allowance, fits)


@dataclass(frozen=True)
class _Fit:
    value: float
    variance: float
    misfit: float
    terms: int


def _fit(
    depths: np.ndarray,
    values: np.ndarray,
    variances: np.ndarray,
    powers: tuple[float, float],
    terms: int | None = None,
) -> _Fit:
    terms = terms if terms is not None else 3 if len(depths) >= 4 else 2
    design = np.stack([np.ones(len(depths)), *(depths**-power for power in powers[: terms - 1])], axis=1)
    weights = 1 / np.sqrt(variances)
    scaled = design * weights[:, None]
    inverse = np.linalg.pinv(scaled)
    solution = inverse @ (values * weights)
    left = float(((values * weights - scaled @ solution) ** 2).sum())
    free = len(depths) - terms
    misfit = float(chi2.sf(left, free)) if free > 0 else 1.0
    return _Fit(float(solution[0]), float((inverse @ inverse.T)[0, 0]), misfit, terms)


def two_sided(level: float) -> float:
    """Return the number of standard errors that a normal variable exceeds with probability `level`, on
    either side.
    """
    return float(norm.isf(level / 2))
