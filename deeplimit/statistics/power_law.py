"""The order of convergence and the floor, from errors at several depths that share their paths.

The model is log e_L = a − r log L + δ(L) + noise. The noise has the delta-method covariance of the per-path
errors, in which depths are correlated. δ is the correction that vanishes as L grows, a random sum of powers
(L_1/L)^s. s is 1, 2, 3, 4 where errors expand in 1/L, and smaller where the regime says so. Its size τ is not
known and is integrated over, so that straight data give a narrow interval and bent data a wide one.

A regime may know of a second contribution, L^-s times the first and perhaps larger at small depth. Then
errors are (1 + 2ρκu^s + κ²u^{2s})^½, u = L_1/L, times the first. κ is integrated over, and so is the
correlation ρ unless it is known to vanish. A floor f makes it e_L² = c² L^{-2r} + f², with a share φ = f²/e²
of the deepest squared error between 0 and 1. Every (τ, κ, ρ, s, φ) is one generalised least-squares fit
(`regression`), weighted by its marginal likelihood. docs/statistics.md has the calibration.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from deeplimit.statistics.regression import CorrelatedData, StudentMixture

CORRECTION_POWERS = 4
"""The correction has powers up to this many times the smallest, and in any case up to 1."""
MOST_TERMS = 40
"""The largest number of terms in the correction; those that vanish most slowly are kept."""
DISTINCT = 0.025
"""Powers closer than this count as one: over depths a factor of 16 apart, L^-0.025 changes by 7 %."""
CORRECTION_SCALE = 0.7
"""Scale of the half-Cauchy prior of τ·L_1^s, s the smallest power: at the coarsest depth the correction is
expected to be of size L_1^-s.
"""
MIXED_CORRECTION_SCALE = 2.0
"""The same scale where contributions of several orders mix, which leaves more cross terms."""
SECOND_SCALE = 1.5
"""Scale of the prior of κ, half-Student with 3 degrees of freedom: at the coarsest depth both contributions
are expected to be of one size.
"""
MOST_SECOND = 2.0
"""At the deepest depth the second contribution is at most this many times the first; beyond that nothing of
the order is visible.
"""
MODEL_ERROR = 1e-4
"""Relative error that the model itself is allowed: without sampling noise the fit would believe more digits
than the model has.
"""
NO_SAMPLING_NOISE = 10**6
"""Number of paths or draws that stands for none, in quantiles of Student's distribution."""
UNSETTLED = 0.1
"""No order is given if it lies further than this from the deepest local slope, which is extrapolation."""
HEAVY_TAIL_FACTOR = 10.0
"""The covariance is multiplied by this times kurtosis/count, where that exceeds 1."""
STEEPEST = 2.0
"""Upper end of the prior of an order that no theorem predicts; the lower end is 0."""
DEFICITS = {0.0: 0.2, 0.25: 0.2, 0.5: 0.3, 0.75: 0.2, 1.0: 0.1}
"""Log errors of an Euler-Maruyama scheme lie c/L below their power law; prior probabilities of c.

For dH = √a H dB the squared error is e^a - (1 + a/L)^L, so that c = a/3 + a²/8. That is 0.46 at a = 1, the
total variance of usual initialisations.
"""
SIZES = np.concatenate([[0.0], np.geomspace(0.001, 1.0, 25)])
_RATIOS = np.geomspace(0.1, 30.0, 13)
_CORRELATIONS = (-1.0, -0.9, -0.5, 0.0, 0.5, 0.9, 1.0)


@dataclass(frozen=True)
class ErrorEstimates:
    """Errors at m depths with their joint uncertainty.

    Attributes:
        depths: numbers of layers L (m,).
        log_errors: log e_L as measured (m,), not yet corrected for the reference.
        covariance: covariance of `log_errors` (m, m).
        log_bias: log of the factor by which the reference shrinks each error (m,); 0 where it does not.
        count: number of paths.
        kurtosis: largest kurtosis of the per-path errors to the power p.
        corrections: powers of 1/L by which further terms are smaller than the first, as in `Regime`.
        second_orders: powers of second contributions. interfere: whether they may correlate with the first.
        resolution: what an ODE reference's own error leaves uncertain of each error.
        hides: whether a second contribution may hide the first.
        is_euler: whether these are errors of an Euler-Maruyama scheme, which fall short of their power law by
            `DEFICITS`/L.
    """

    depths: np.ndarray
    log_errors: np.ndarray
    covariance: np.ndarray
    log_bias: np.ndarray
    count: int
    kurtosis: float = 3.0
    corrections: tuple[float, ...] = (1.0,)
    second_orders: tuple[float, ...] = ()
    interfere: bool = False
    resolution: float = 0.0
    hides: bool = False
    is_euler: bool = False

    @cached_property
    def powers(self) -> tuple[float, ...]:
        """The powers of 1/L in the correction: sums of `corrections`, rounded to 1e-6, DISTINCT apart.

        A power below DISTINCT is not dropped, because it bends errors of small order and many paths. Its
        multiples are so dense that those of DISTINCT stand for them.
        """
        generators = [max(power, DISTINCT) for power in self.corrections if power > 1e-6]
        most = max(CORRECTION_POWERS * min(generators), 1.0) + 1e-9
        sums = [0.0]
        while len(sums) <= MOST_TERMS:
            further = [a + b for a in sums for b in generators if sums[-1] + DISTINCT <= a + b <= most]
            if not further:
                break
            sums.append(round(min(further), 6))
        return tuple(sums[1:])

    @cached_property
    def second_powers(self) -> tuple[float, ...]:
        """The `second_orders` at least DISTINCT apart.

        A small power is kept, since it shifts the order as much.
        """
        kept: list[float] = []
        for power in sorted(self.second_orders):
            if power > 1e-6 and (not kept or power >= kept[-1] + DISTINCT):
                kept.append(power)
        return tuple(kept)

    @property
    def degrees(self) -> float:
        """Degrees of freedom that estimating the covariance leaves."""
        return float(self.count - len(self.depths))

    @property
    def noise(self) -> np.ndarray:
        """The covariance (m, m), made larger where it is known to be too small.

        Once for inverting an estimate (the mean of an inverse Wishart matrix), and once for heavy tails. The
        relative variance of a sample variance is (kurtosis - 1)/count. It is too low where the rare large
        paths have not been seen yet. The factor was calibrated on geometric Brownian motion
        (docs/statistics.md).
        """
        inversion = (self.count - 1) / (self.count - len(self.depths) - 2)
        tails = max(1.0, HEAVY_TAIL_FACTOR * self.kurtosis / self.count)
        unresolved = MODEL_ERROR**2 + (self.resolution * np.exp(-self.log_errors)) ** 2
        inflated: np.ndarray = inversion * tails * self.covariance + np.diag(unresolved)
        return inflated


@dataclass(frozen=True)
class Fit:
    """The fitted order: a mixture, with one component per size of the correction and of a second term.

    Attributes:
        orders: the mixture.
        log_constant: log c in e_L ≈ c L^-order.
        reach: how far the order lies from the deepest local slope, less two standard errors: how far it is
            extrapolated.
    """

    orders: StudentMixture
    log_constant: float
    reach: float = 0.0

    @property
    def rate(self) -> float:
        """The order: the mixture's median."""
        return self.orders.quantile(0.5)

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the central interval of the order, at least as wide as the order is extrapolated."""
        tail = (1.0 - confidence) / 2
        low, high = self.rate - self.reach, self.rate + self.reach
        return float(min(self.orders.quantile(tail), low)), float(max(self.orders.quantile(1.0 - tail), high))


def least_paths(depths: int) -> int:
    """Return the smallest number of paths that can estimate the covariance between this many depths."""
    return 2 * depths + 4


def second_contributions(estimates: ErrorEstimates) -> tuple[np.ndarray, np.ndarray]:
    """Return by which log factors (o, m) second contributions multiply the errors, and their prior (o,).

    The first is 0: no second contribution.
    """
    depths = estimates.depths.astype(float)
    factors, prior = [np.zeros(len(depths))], [1.0]
    edges = np.concatenate([[0.0], np.sqrt(_RATIOS[1:] * _RATIOS[:-1]), [np.inf]])
    sizes = 2 * np.diff(special.stdtr(3, edges / SECOND_SCALE))
    correlations = _CORRELATIONS if estimates.interfere else (0.0,)
    for power in estimates.second_powers:
        for correlation in correlations:
            for ratio, size in zip(_RATIOS, sizes, strict=True):
                second = ratio * (depths[0] / depths) ** power
                square = 1.0 + 2.0 * correlation * second + second**2
                # Where the two cancel at some depth no sum over paths would.
                if square.min() > 1e-3 and second[-1] <= MOST_SECOND:
                    factors.append(0.5 * np.log(square))
                    prior.append(size / len(estimates.second_powers) / len(correlations))
    deficits = DEFICITS if estimates.is_euler else {0.0: 1.0}
    both = [factor - size / depths for size in deficits for factor in factors]
    weights = np.outer(list(deficits.values()), np.array(prior) / np.sum(prior)).ravel()
    return np.stack(both), weights


def correlated(estimates: ErrorEstimates, logs: np.ndarray, stretch: np.ndarray) -> CorrelatedData:
    """Return data `logs` (m,) that move `stretch` (m,) times as much as log errors, one covariance per size.

    The sizes are those of the correction, `SIZES`.
    """
    ratio = float(estimates.depths[0]) / estimates.depths
    correction = sum(np.outer(ratio, ratio) ** power for power in estimates.powers) / len(estimates.powers)
    covariances = (estimates.noise + (SIZES**2)[:, None, None] * correction) * np.outer(stretch, stretch)
    return CorrelatedData.of(logs, covariances, log_jacobian=float(np.log(np.abs(stretch)).sum()))


def design_of(estimates: ErrorEstimates) -> np.ndarray:
    """Return the design (m, 2) of log errors: a constant, and less the log of the depth."""
    return np.stack([np.ones(len(estimates.depths)), -np.log(estimates.depths)], axis=1)


def size_prior(estimates: ErrorEstimates) -> np.ndarray:
    """Return the prior probabilities of the correction's `SIZES`."""
    scale = MIXED_CORRECTION_SCALE if estimates.second_powers else CORRECTION_SCALE
    edges = np.concatenate([[0.0, SIZES[1] / 2], np.sqrt(SIZES[1:-1] * SIZES[2:]), [np.inf]])
    # A half-Cauchy law.
    below = np.arctan(edges / scale * float(estimates.depths[0]) ** min(estimates.powers))
    prior: np.ndarray = np.diff(below) * (2 / math.pi)
    return prior


def fit_rate(estimates: ErrorEstimates, trend: np.ndarray | float = 0.0) -> Fit:
    """Fit the order without a floor; `trend` (m,) is the log of a known factor, which is taken out first."""
    data = correlated(estimates, estimates.log_errors - estimates.log_bias, np.ones(len(estimates.depths)))
    factors, prior = second_contributions(estimates)
    fits = data.regress(design_of(estimates), factors + trend)
    likelihood, solution, spread = fits.log_likelihoods, fits.coefficients, fits.covariances
    weights = np.exp(likelihood - likelihood.max()) * size_prior(estimates)[:, None] * prior
    weights = (weights / weights.sum()).ravel()
    centres, scales = solution[:, 1].ravel(), np.repeat(np.sqrt(spread[:, 1, 1]), len(prior))
    kept = weights > 1e-12 / len(weights)
    orders = StudentMixture(
        weights[kept] / weights[kept].sum(), centres[kept], scales[kept], estimates.degrees
    )
    fit = Fit(orders, float(weights @ solution[:, 0].ravel()))
    if not estimates.second_powers:
        return fit
    slopes, errors = local_slopes(estimates)
    return dataclasses.replace(fit, reach=max(0.0, abs(fit.rate - slopes[-1]) - 2 * errors[-1]))


def local_slopes(estimates: ErrorEstimates) -> tuple[np.ndarray, np.ndarray]:
    """Return the orders between neighbouring depths (m - 1,) and their standard errors."""
    logs = estimates.log_errors - estimates.log_bias
    return slopes_between(np.log(estimates.depths), logs, estimates.covariance)


def slopes_between(
    log_depths: np.ndarray, logs: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return by which powers of 1/depth values with these logs (m,) fall between neighbouring depths.

    Both results are (m - 1,): the powers, and their standard errors for this covariance of the logs (m, m).
    """
    with np.errstate(invalid="ignore"):
        steps = np.diff(log_depths)
        variances = np.diag(covariance)
        change = variances[1:] + variances[:-1] - 2 * np.diag(covariance, 1)
        return -np.diff(logs) / steps, np.sqrt(np.maximum(change, 0.0)) / steps
