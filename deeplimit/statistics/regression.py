"""Least squares in the three forms that measurements need: the one place that solves for coefficients.

`CorrelatedData` is generalised least squares with known covariances, many at once, and marginal likelihoods
to weigh them. `independent` is weighted least squares with any design. `line` is a weighted straight line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special


@dataclass(frozen=True)
class Regressions:
    """Generalised least-squares fits for k covariances and o data sets, with c coefficients each.

    Attributes:
        log_likelihoods: log marginal likelihoods, coefficients integrated out with a flat prior, (k, o).
        coefficients: solutions (k, c, o).
        covariances: covariances of the solutions (k, c, c).
    """

    log_likelihoods: np.ndarray
    coefficients: np.ndarray
    covariances: np.ndarray


@dataclass(frozen=True)
class CorrelatedData:
    """Data whose covariance is one of k.

    Attributes:
        values: data (m,).
        inverses: inverses of the covariances (k, m, m).
        log_determinants: log determinants of the covariances (k,), less twice the log Jacobian of a
            transformation that made the data.
    """

    values: np.ndarray
    inverses: np.ndarray
    log_determinants: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, covariances: np.ndarray, log_jacobian: float = 0.0) -> CorrelatedData:
        """Return data (m,) with covariances (k, m, m)."""
        determinants = np.linalg.slogdet(covariances)[1] - 2 * log_jacobian
        return cls(values, np.linalg.inv(covariances), determinants)

    def regress(self, design: np.ndarray, offsets: np.ndarray) -> Regressions:
        """Fit `design` (m, c) to the data less each of the `offsets` (o, m), for every covariance."""
        z = (self.values - offsets).T
        information = design.T @ self.inverses @ design
        spread = np.linalg.inv(information)
        solution = spread @ (design.T @ self.inverses @ z)
        residual = z - design @ solution
        chi2 = (residual * (self.inverses @ residual)).sum(axis=1)
        free = design.shape[1] * np.log(2 * np.pi)
        likelihood = -0.5 * (
            (self.log_determinants + np.linalg.slogdet(information)[1] - free)[:, None] + chi2
        )
        return Regressions(likelihood, solution, spread)


@dataclass(frozen=True)
class StudentMixture:
    """A mixture of Student distributions, all with the same degrees of freedom.

    Attributes:
        weights: probabilities of the components (n,), which add up to 1.
        centres, scales: location and scale of each component (n,).
        degrees: degrees of freedom.
    """

    weights: np.ndarray
    centres: np.ndarray
    scales: np.ndarray
    degrees: float

    def quantile(self, probability: float) -> float:
        """Return the value below which the mixture has this probability."""

        def excess(value: float) -> float:
            return (
                float(self.weights @ special.stdtr(self.degrees, (value - self.centres) / self.scales))
                - probability
            )

        reach = 1.0 + 4 * np.abs(special.stdtrit(self.degrees, min(probability, 1 - probability) / 4))
        low = float((self.centres - reach * self.scales).min()) - 1e-12
        high = float((self.centres + reach * self.scales).max()) + 1e-12
        return float(optimize.brentq(excess, low, high, xtol=1e-12))


@dataclass(frozen=True)
class Regression:
    """One weighted least-squares fit.

    Attributes:
        coefficients: solution (c,).
        covariance: covariance of the solution (c, c).
        misfit: probability that noise alone leaves residuals as large; 1 where as many coefficients as data
            leave none.
    """

    coefficients: np.ndarray
    covariance: np.ndarray
    misfit: float


def independent(design: np.ndarray, values: np.ndarray, variances: np.ndarray) -> Regression:
    """Fit `design` (m, c) to independent values (m,) with known variances (m,).

    It solves by the pseudo-inverse of the scaled design. Powers of the depth are nearly dependent, and normal
    equations, as in `CorrelatedData`, would square the condition number.
    """
    weights = 1 / np.sqrt(variances)
    scaled = design * weights[:, None]
    inverse = np.linalg.pinv(scaled)
    solution = inverse @ (values * weights)
    chi2 = float(((values * weights - scaled @ solution) ** 2).sum())
    return Regression(solution, inverse @ inverse.T, _chance(chi2, len(values) - design.shape[1]))


def solution(design: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the matrix (c, m) that takes data (m,) to their least-squares coefficients in `design` (m, c).

    Data are weighted by the roots of inverse variances, `weights` (m,).
    """
    found: np.ndarray = np.linalg.pinv(design * weights[:, None]) * weights
    return found


@dataclass(frozen=True)
class Line:
    """A weighted straight line.

    Attributes:
        slope: the slope.
        spread: weighted sum of squares of x, centred as the fit was: the slope's inverse variance.
        misfit: as in `Regression`.
    """

    slope: float
    spread: float
    misfit: float

    @property
    def error(self) -> float:
        """Standard error of the slope."""
        return 1 / math.sqrt(self.spread)


def line(x: np.ndarray, y: np.ndarray, weights: np.ndarray, *, through_origin: bool = False) -> Line | None:
    """Fit a line to y (m,) at x (m,), with weights 1/variance (m,); None where all x are one.

    With two coefficients the normal equations have a closed form once x is centred; x is centred unless the
    line goes `through_origin`. With weights of 1 this is ordinary least squares, and `error` and `misfit` are
    in units of an unknown standard deviation.
    """
    total = weights.sum()
    centre = 0.0 if through_origin else np.sum(weights * x) / total
    away = x - centre
    spread = float(np.sum(weights * away**2))
    if spread == 0:
        return None
    slope = float(np.sum(weights * away * y)) / spread
    height = 0.0 if through_origin else np.sum(weights * y) / total
    chi2 = float(np.sum(weights * (y - height - slope * away) ** 2))
    return Line(slope, spread, _chance(chi2, len(x) - (1 if through_origin else 2)))


def slope_weights(x: np.ndarray) -> np.ndarray:
    """Return the weights (m,) that give the slope of data at x (m,) by ordinary least squares.

    0 for a single x.
    """
    away = x - x.mean()
    square = float(away @ away)
    return away / square if square > 0 else np.zeros(len(away))


def student_quantile(confidence: float, degrees: int) -> float:
    """Return how many standard errors a central interval at this confidence level extends to either side."""
    return float(special.stdtrit(degrees, 0.5 + confidence / 2))


def _chance(chi2: float, degrees: int) -> float:
    return float(special.chdtrc(degrees, chi2)) if degrees > 0 else 1.0
