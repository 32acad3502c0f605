"""Order of convergence and floor, from errors at several depths that share their paths, by least squares.

The model is log e_L = a − r log L + δ(L) + noise. The noise has the delta-method covariance of the per-path
errors, in which depths are correlated. δ is the correction that vanishes as L grows, a random sum of powers
(L_1/L)^s. s is 1, 2, 3, 4 where errors expand in 1/L, and smaller where the regime says so. Its size τ is not
known and is integrated over, so that straight data give a narrow interval and bent data a wide one.

A regime may know of a second contribution, L^-s times the first and perhaps larger at small depth. Then
errors are (1 + 2ρκu^s + κ²u^{2s})^½, u = L_1/L, times the first. κ is integrated over, and so is the
correlation ρ unless it is known to vanish. A floor f makes it e_L² = c² L^{-2r} + f², with a share φ = f²/e²
of the deepest squared error between 0 and 1. Every (τ, κ, ρ, s, φ) is one generalised least-squares fit
(`CorrelatedData`), weighted by its marginal likelihood. docs/statistics.md has the calibration.

Errors are e² = f² + 2ρ f g + g², with a floor f and a part g that falls as above. Errors of
diffusions fluctuate about either limit, so that ρ = 0. Errors of smooth weights do not fluctuate: network,
limit and another limit are three points, and ρ is the cosine of the angle between two of their differences.
It is then integrated over. With ρ < 0 errors pass a minimum, where g has fallen to about f. Beyond it g is
the smaller root of the equation.

The floor's share φ = f²/(f² + g²) at the deepest network is between 0 and 1.

`CorrelatedData` is generalised least squares with known covariances, many at once, and marginal likelihoods
to weigh them. `independent` is weighted least squares with any design. `line` is a weighted straight line.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import optimize, special


@dataclass(frozen=True)
class Regressions:
    """Generalised least-squares fits for k covariances and o data sets, with c coefficients each.

    Attributes:
        log_likelihoods: log marginal likelihoods, coefficients integrated out with a flat prior, (..., k, o).
        coefficients: solutions (..., k, c, o).
        covariances: covariances of the solutions (..., k, c, c).
    """

    log_likelihoods: np.ndarray
    coefficients: np.ndarray
    covariances: np.ndarray


@dataclass(frozen=True)
class CorrelatedData:
    """Data whose covariance is one of k; any number of such data may stand side by side.

    Attributes:
        values: data (..., m).
        inverses: inverses of the covariances (..., k, m, m).
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
        z = np.swapaxes(self.values[..., None, None, :] - offsets, -1, -2)  # (..., 1, m, o)
        information = design.T @ self.inverses @ design
        spread = np.linalg.inv(information)
        solution = spread @ (design.T @ self.inverses @ z)
        residual = z - design @ solution
        chi2 = (residual * (self.inverses @ residual)).sum(axis=-2)
        free = design.shape[1] * np.log(2 * np.pi)
        likelihood = -0.5 * (
            (self.log_determinants + np.linalg.slogdet(information)[1] - free)[..., None] + chi2
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
        reach = 1.0 + 4 * np.abs(special.stdtrit(self.degrees, min(probability, 1 - probability) / 4))
        low = float((self.centres - reach * self.scales).min()) - 1e-12
        high = float((self.centres + reach * self.scales).max()) + 1e-12
        return float(
            optimize.brentq(
                lambda x: (
                    float(self.weights @ special.stdtr(self.degrees, (x - self.centres) / self.scales))
                    - probability
                ),
                low,
                high,
                xtol=1e-12,
            )
        )


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


def coefficients(design: np.ndarray, data: np.ndarray) -> np.ndarray:
    """Return the least-squares coefficients (c, k) of `data` (m, k), of one weight, in `design` (m, c)."""
    found: np.ndarray = np.linalg.lstsq(design, data, rcond=None)[0]
    return found


@dataclass(frozen=True)
class Line:
    """A weighted straight line.

    Attributes:
        slope: the slope.
        spread: weighted sum of squares of x, centred as the fit was: the slope's inverse variance.
        misfit: as in `Regression`.
        chi2: weighted sum of squared residuals.
    """

    slope: float
    spread: float
    misfit: float
    chi2: float

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
    return Line(slope, spread, _chance(chi2, len(x) - (1 if through_origin else 2)), chi2)


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
EULER_CORRECTION_SCALE = 0.12
"""The same scale of Euler schemes whose steps add independent errors. Local orders of ten such networks are
0.47 to 0.50 at depth 16. Of 1,800 calls of res-1 (width 1 to 20, four activations, 512 paths) 98.4 % hold 1/2
at lengths of 4.4 to 5.5 standard deviations; a scale of 0.35 covered 98.7 % at 4.5 to 6.5."""
MIXED_CORRECTION_SCALE = 2.0
"""The same scale where contributions of several orders mix, which leaves more cross terms."""
SECOND_SCALE = 1.5
"""Scale of the prior of κ, half-Student with 3 degrees of freedom: at the coarsest depth both contributions
are expected to be of one size.
"""
BESIDE_SCALE = 0.5
"""The same scale, of a normal law, beside an Euler scheme's martingale: larger coherent parts show in its
differences (`Coherence.MARTINGALE_TAKES_OVER`). In Theorem 4.4 with trends of 0.4 (A = 0.02, d = 4) 75 and 77
of 80 intervals cover at scales of 0.3 and 0.5, at widths of 0.061 and 0.067."""
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
WALKS = dict.fromkeys((0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6), 1 / 7)
"""Log maxima of a random walk over its L steps lie c/√L below those over all times; equally likely c.

Of a Brownian motion the expected maximum over a grid falls short by 0.58/√L (Asmussen, Glynn, Pitman 1995),
and sup |B| is 1.25 in the mean: c = 0.46. In several dimensions it is the norm that walks, and c is less.
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
        second_orders: powers of second contributions.
        interfere: whether they may correlate with the first.
        resolution: what an ODE reference's own error leaves uncertain of each error.
        hides: whether a second contribution may hide the first.
        is_euler: whether these are errors of an Euler-Maruyama scheme, which fall short of their power law by
            `DEFICITS`/L.
        is_walk: whether these are maxima of a random walk, short of their power law by `WALKS`/√L.
        is_series: whether corrections at the coarsest depth fall by their own powers of it; else they are of
            one size there.
        of_one_size: whether both are of about one size at usual coarsest depths: κ is half-normal.
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
    of_one_size: bool = False
    is_walk: bool = False
    is_series: bool = False

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

    @cached_property
    def as_data(self) -> CorrelatedData:
        """Log errors without bias, with a covariance for each size of the correction, `SIZES`."""
        coarsest = float(self.depths[0])
        ratio, small = coarsest / self.depths, coarsest**-2.0 if self.is_series else 1.0
        shares = [small ** (power - self.powers[0]) for power in self.powers]
        terms = zip(shares, self.powers, strict=True)
        correction = sum(share * np.outer(ratio, ratio) ** power for share, power in terms) / sum(shares)
        covariances = self.noise + (SIZES**2)[:, None, None] * correction
        return CorrelatedData.of(self.log_errors - self.log_bias, covariances)

    @cached_property
    def design(self) -> np.ndarray:
        """The design (m, 2) of log errors: a constant, and less the log of the depth."""
        return np.stack([np.ones(len(self.depths)), -np.log(self.depths)], axis=1)

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

    @cached_property
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
    beside = (
        special.ndtr(edges / BESIDE_SCALE)
        if estimates.of_one_size
        else special.stdtr(3, edges / SECOND_SCALE)
    )
    sizes = 2 * np.diff(beside)
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
    deficits, falls = (WALKS, 0.5) if estimates.is_walk else (deficits, 1.0)
    both = [factor - size / depths**falls for size in deficits for factor in factors]
    weights = np.outer(list(deficits.values()), np.array(prior) / np.sum(prior)).ravel()
    return np.stack(both), weights


def correlated(estimates: ErrorEstimates, logs: np.ndarray, stretch: np.ndarray) -> CorrelatedData:
    """Return data `logs` (..., m) that move `stretch` (..., m) times as much as log errors.

    They have one covariance per size of the correction, `SIZES`.
    """
    plain = estimates.as_data
    both = stretch[..., :, None] * stretch[..., None, :]
    # A covariance's determinant grows by the square of the Jacobian, which is taken off again.
    return CorrelatedData(logs, plain.inverses / both[..., None, :, :], plain.log_determinants)


def size_prior(estimates: ErrorEstimates) -> np.ndarray:
    """Return the prior probabilities of the correction's `SIZES`."""
    scale = EULER_CORRECTION_SCALE if estimates.is_euler else CORRECTION_SCALE
    scale = MIXED_CORRECTION_SCALE if estimates.second_powers else scale
    edges = np.concatenate([[0.0, SIZES[1] / 2], np.sqrt(SIZES[1:-1] * SIZES[2:]), [np.inf]])
    # A half-Cauchy law.
    below = np.arctan(edges / scale * float(estimates.depths[0]) ** min(estimates.powers))
    prior: np.ndarray = np.diff(below) * (2 / math.pi)
    return prior


def fit_rate(estimates: ErrorEstimates, trend: np.ndarray | float = 0.0) -> Fit:
    """Fit the order without a floor; `trend` (m,) is the log of a known factor, which is taken out first."""
    factors, prior = second_contributions(estimates)
    fits = estimates.as_data.regress(estimates.design, factors + trend)
    likelihood, solution, spread = fits.log_likelihoods, fits.coefficients, fits.covariances
    weights = np.exp(likelihood - likelihood.max()) * size_prior(estimates)[:, None] * prior
    weights = (weights / weights.sum()).ravel()
    centres, scales = solution[:, 1].ravel(), np.repeat(np.sqrt(spread[:, 1, 1]), len(prior))
    kept = weights > 1e-12 / len(weights)
    orders = StudentMixture(
        weights[kept] / weights[kept].sum(),
        centres[kept],
        scales[kept],
        float(estimates.count - len(estimates.depths)),  # those that estimating the covariance leaves
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


SLOWER = 0.05
"""Prior probability that errors fall more slowly than the network's order, instead of levelling off."""
FASTER = 0.1
"""Prior probability that the distance of two schemes of one order falls faster than both: then their leading
terms cancel, which takes schemes that are nearly one.
"""
_SHARES = np.concatenate(
    [
        [0.0, 0.003, 0.006],
        np.arange(0.01, 0.1, 0.01),
        np.arange(0.1, 0.96, 0.025),
        [0.96, 0.97, 0.98, 0.99, 0.995],
    ]
)
_COSINES = {-1.0: 0.075, -0.9: 0.075, -0.5: 0.15, 0.0: 0.4, 0.5: 0.15, 0.9: 0.075, 1.0: 0.075}
"""Values of ρ with their prior probabilities."""
_CANCELLED = 1e-3
"""Errors at the deepest network smaller than this times f² + g² are not considered."""
_MOST_TURNED = 2
"""How many of the deepest networks may lie beyond the minimum that errors pass where ρ < 0."""


@dataclass(frozen=True)
class Floor:
    """How much of the deepest squared error would remain at infinite depth.

    Attributes:
        share: median of f²/e² at the deepest depth, between 0 and 1.
        lower, upper: its 5 % and 95 % quantiles.
        probability: probability that the share exceeds one half, or what `fit_floor` was told is large.
    """

    share: float
    lower: float
    upper: float
    probability: float

    @property
    def error(self) -> float:
        """Standard error of the share, at least the distance of the nodes that integrate it."""
        spacing = float(np.interp(self.share, _SHARES, np.gradient(_SHARES)))
        return max((self.upper - self.lower) / (2 * 1.645), spacing)


def fit_floor(
    estimates: ErrorEstimates,
    predicted: float | None,
    *,
    is_bound: bool = False,
    coherent: bool = False,
    large: float = 0.5,
    measured: tuple[float, float] | None = None,
) -> Floor:
    """Fit e² = f² + 2ρ f g + g² and return what is known of f²/(f² + g²) at the deepest depth.

    Over a short range of depths a floor and a slow order look alike. If a theorem says how fast this network
    reaches its limit, that order (`predicted`) has the prior probability 1 - SLOWER, and otherwise the order
    is uniform between 0 and it. The distance to a wrong limit may fall more slowly than that to the right
    one, but not faster. If the theorem gives a lower bound alone, the order is uniform between it and the
    bound plus STEEPEST. Where no order is predicted, it is uniform from 0 to STEEPEST. Where it was
    `measured` by other means, it is uniform in that interval, or if that is a bound perhaps above it.

    ρ is 0, or integrated over where errors are `coherent`.
    """
    factors, prior = second_contributions(estimates)
    order = _Order(predicted, is_bound, measured)
    joint = np.full((len(_SHARES), len(size_prior(estimates)), len(prior)), -np.inf)
    found = [
        (row, weight, *falling)
        for row, share in enumerate(_SHARES)
        for falling, weight in _falling_parts(estimates, float(share), coherent=coherent)
    ]
    rows, weights, logs, stretches = (np.array(each) for each in zip(*found, strict=True))
    likelihoods = order.likelihoods(correlated(estimates, logs, stretches), estimates.design, factors)
    likelihoods += np.log(weights)[:, None, None]
    for row in np.unique(rows):
        joint[row] = np.logaddexp.reduce(likelihoods[rows == row], axis=0)
    posterior = (
        np.exp(joint - joint.max())
        * np.gradient(_SHARES)[:, None, None]
        * size_prior(estimates)[:, None]
        * prior
    )
    marginal = posterior.sum(axis=(1, 2)) / posterior.sum()
    cumulative = np.cumsum(marginal)
    lower, share, upper = (
        float(_SHARES[min(int(np.searchsorted(cumulative, q)), len(_SHARES) - 1)]) for q in (0.05, 0.5, 0.95)
    )
    return Floor(share, lower, upper, float(marginal[large < _SHARES].sum()))


@dataclass(frozen=True)
class _Order:
    """What is known of the falling part's order before errors are seen."""

    predicted: float | None
    is_bound: bool
    measured: tuple[float, float] | None = None

    def likelihoods(self, data: CorrelatedData, design: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Return log likelihoods (..., sizes, contributions) of the falling part."""
        fits = data.regress(design, factors)
        order, scale = fits.coefficients[..., 1, :], np.sqrt(fits.covariances[..., 1, 1])[..., None]

        def between(low: float, high: float) -> np.ndarray:
            inside = special.ndtr((high - order) / scale) - special.ndtr((low - order) / scale)
            found: np.ndarray = fits.log_likelihoods + np.log(np.maximum(inside, 1e-300) / (high - low))
            return found

        if self.predicted is None:
            return between(0.0, STEEPEST)
        if self.measured is not None:
            known = between(*self.measured)
            if self.is_bound:
                faster = between(self.measured[0], self.measured[1] + STEEPEST)
                known = np.logaddexp(np.log1p(-FASTER) + known, np.log(FASTER) + faster)
        elif self.is_bound:
            known = between(self.predicted, self.predicted + STEEPEST)
        else:
            known = data.regress(design[:, :1], factors + self.predicted * design[:, 1]).log_likelihoods
        slower = between(0.0, self.predicted)
        both: np.ndarray = np.logaddexp(np.log(SLOWER) + slower, np.log1p(-SLOWER) + known)
        return both


def _falling_parts(
    estimates: ErrorEstimates, share: float, *, coherent: bool
) -> Iterator[tuple[tuple[np.ndarray, np.ndarray], float]]:
    """Yield what falls, as `_falling`, for each way in which a floor of this share may be hidden.

    Beside it stands the way's prior weight.

    A floor that is too high for some error yields nothing.
    """
    if not coherent or share == 0.0:
        found = _falling(estimates, share, 0.0, 0)
        if found is not None:
            yield found, 1.0
        return
    for cosine, weight in _COSINES.items():
        is_beyond = np.sqrt((1.0 - share) / share) < -cosine
        for turned in range(1, _MOST_TURNED + 1) if is_beyond else (0,):
            found = _falling(estimates, share, cosine, turned)
            if found is not None:
                yield found, weight


def _falling(
    estimates: ErrorEstimates, share: float, cosine: float, turned: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return log g (m,), and how many times as much as log errors it moves; None where there is no such g.

    The deepest `turned` networks lie beyond the minimum of errors that a cosine below 0 brings.
    """
    squares = _squares(estimates)
    whole = 1.0 + 2.0 * cosine * np.sqrt(share * (1.0 - share))
    if whole < _CANCELLED:
        return None
    floor = share / whole  # f² over the deepest error squared
    rest = squares - floor * (1.0 - cosine**2)
    if rest.min() <= 0:
        return None
    if cosine == 0.0:
        stretch, logs = squares / rest, 0.5 * np.log(rest)
    else:
        side = np.where(np.arange(len(squares)) < len(squares) - turned, 1.0, -1.0)
        part = -cosine * np.sqrt(floor) + side * np.sqrt(rest)
        if part.min() <= 0:
            return None
        # Beyond the minimum errors grow as g falls.
        stretch, logs = side * squares / (part * np.sqrt(rest)), np.log(part)
    return logs + estimates.log_errors[-1] - estimates.log_bias, stretch


def with_whole_scheme_error(
    log_errors: np.ndarray, covariance: np.ndarray, bias: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return log errors (m,) and their covariance, with what the reference hides of them.

    Given are log errors (2m,) and their covariance: of the network against the reference, e, and its distance
    g to the limit's scheme on its layers. In e² = g² + 2 ⟨g, scheme - reference⟩ + |scheme - reference|² the
    last two would be 1/f² times as large if the reference were exact, `bias` being log f (m,). So the square
    of what is returned is e² + (1/f² - 1)(e² - g²).
    """
    m = len(bias)
    whole, gap = log_errors[:m], log_errors[m:]
    if not np.isfinite(whole).all():
        return whole, covariance[:m, :m]
    hidden = np.expm1(-2 * bias)
    # At this share a quarter is left; beyond it the correction would be most of the result.
    most = 1 + 0.75 / np.maximum(hidden, 1e-300)
    share = np.exp(np.minimum(2 * (gap - whole), np.log(most)))
    grown = 1 + hidden * (1 - share)
    change = np.concatenate([np.diag((1 + hidden) / grown), np.diag(-hidden * share / grown)], axis=1)
    return whole + 0.5 * np.log(grown), change @ np.nan_to_num(covariance) @ change.T


def without_reference_error(
    log_errors: np.ndarray, covariance: np.ndarray, surplus: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return log errors (m,) and their covariance (m, m) with the reference's error taken out.

    This is Richardson extrapolation of squares. Given are log errors (2m + 1,) and their covariance: against
    the fine and the coarse solution, and last the distance of the two. The coarse one has steps twice as
    large everywhere. The noise's part of squared errors is linear in the step, whatever the limit. So e² = 2
    e²_fine - e²_coarse. For a scheme of a better order, `surplus` times the squared distance remains
    (docs/theorems/young.md). Both solutions read the same path, so differences are known far better than
    either.
    """
    m = len(log_errors) // 2
    scale = log_errors[: 2 * m].max()
    if not np.isfinite(scale):  # every path was lost
        return log_errors[:m], covariance[:m, :m]
    squares = np.exp(2 * (log_errors - scale))
    fine, coarse, apart = squares[:m], squares[m : 2 * m], surplus * squares[-1]
    # Beyond this the correction would be most of the result; the report says so.
    square = np.clip(2 * fine - coarse + apart, fine / 4, 4 * fine)
    change = np.concatenate(
        [np.diag(2 * fine / square), np.diag(-coarse / square), (apart / square)[:, None]], axis=1
    )
    return 0.5 * np.log(square) + scale, change @ np.nan_to_num(covariance) @ change.T


def above_floor(estimates: ErrorEstimates, share: float) -> ErrorEstimates:
    """Return the estimates with the reference's bias taken only from what lies above a floor.

    The reference shrinks the part of an error that comes from the step size, not a difference between two
    limits. Of squares e² the part e² - f² is divided by the squared factor, and f² is left. Where e² is below
    f², nothing lies above the floor, and e² is left as measured. `share` is f² over the deepest e². The
    covariance stays that of the measured errors, with which verdicts were calibrated.
    """
    squares, growth = _squares(estimates), _growth(estimates, share)
    corrected = squares + (squares - share) * (growth - 1.0)
    return dataclasses.replace(estimates, log_bias=0.5 * np.log(squares / corrected))


def above_uncertain_floor(estimates: ErrorEstimates, floor: Floor) -> ErrorEstimates:
    """Return the same with the covariance of the result, by the delta method: what a table may show.

    It contains what the correction magnifies, and what is not known of the floor.
    """
    share, squares, growth = floor.share, _squares(estimates), _growth(estimates, floor.share)
    corrected = squares + (squares - share) * (growth - 1.0)
    # f² is a share of the deepest square, and so moves with it.
    change = np.diag(squares * growth / corrected)
    change[:, -1] += share * (1.0 - growth) / corrected
    by_share = 0.5 * (1.0 - growth) / corrected * floor.error
    covariance = change @ np.nan_to_num(estimates.covariance) @ change.T + np.outer(by_share, by_share)
    return dataclasses.replace(above_floor(estimates, share), covariance=covariance)


def _squares(estimates: ErrorEstimates) -> np.ndarray:
    """Return squared errors (m,) over the deepest one."""
    squares: np.ndarray = np.exp(2 * (estimates.log_errors - estimates.log_errors[-1]))
    return squares


def _growth(estimates: ErrorEstimates, share: float) -> np.ndarray:
    """Return by what the square above the floor is multiplied (m,); 1 where there is nothing above it."""
    return np.where(_squares(estimates) > share, np.exp(-2 * estimates.log_bias), 1.0)
