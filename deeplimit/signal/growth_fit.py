"""The growth exponent γ from averages of a change at several depths, whose draws are independent.

`of_time` reads each average as a time and fits log T_L = c + γ log L + δ_L + noise. δ has three parts: a term
of relative size α² = L^-2β with a normal coefficient, an error of the curve that scales γ, and whatever else
vanishes as L grows. The size of the last is integrated over, and straight data leave it out. `of_power` fits
the averages themselves, with 1/L in place of α².
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np
from scipy.special import stdtrit

from deeplimit.signal.layer_time import Curve
from deeplimit.statistics.power_law import (
    MODEL_ERROR,
    NO_SAMPLING_NOISE,
    CorrelatedData,
    ErrorEstimates,
    Fit,
    StudentMixture,
    fit_rate,
    slopes_between,
)
from deeplimit.theory import Growth

STEP_SCALE = 0.15
"""Standard deviation of the coefficient of α² in log T."""
GRID_SCALE = 0.7
"""Standard deviation of the coefficient of 1/L in a power law, as for orders of convergence."""
MEMORY_SCALE = 4.0
"""The same for layers with a short memory: 3 was measured for a chain with ρ = 1/2."""
OTHER_POWERS = (0.5, 1.0)
"""Powers of 1/L in further corrections."""
DEFAULT_CORRECTIONS = (0.5, 1.0)
"""Powers of 1/L where theory says nothing of γ and there is no sampling noise."""
OTHER_PART = 0.5
"""Power of 1/L between the roots of two parts of a change of which theory says nothing: of coherent layers
and of independent ones. A floor with an incoherent part is no slow decay then. With 1/4 in addition, half of
the stable networks at 400 draws would not be decided."""
_SIZES = np.concatenate([[0.0], np.geomspace(0.003, 1.0, 15)])


@final
@dataclass(frozen=True)
class Averages:
    """Averages over draws at several depths.

    Attributes:
        depths: numbers of layers L (m,).
        log_means: logs of the averages (m,).
        variances: variances of `log_means` (m,).
        draws: networks per depth.
    """

    depths: np.ndarray
    log_means: np.ndarray
    variances: np.ndarray
    draws: int


class FittedExponent(Protocol):
    """What is known of γ."""

    @property
    def exponent(self) -> float:
        """The estimate: the median."""

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the central interval at a confidence level."""


@final
@dataclass(frozen=True)
class Deviations:
    """How far averages may be from a power of the depth.

    Attributes:
        step: standard deviation of log values (m,) by a term whose shape over the depths is known.
        scale: scale of the half-Cauchy prior of further corrections at the coarsest depth.
        probability: prior probability that there are any.
        uncertainty: relative error of the exponent itself, where a change is a power only over a time that
            is short or long.
    """

    step: np.ndarray
    scale: float
    probability: float
    uncertainty: float


@final
@dataclass(frozen=True)
class ExponentOfMixture:
    """γ as a mixture of Student's distributions, one per size of further corrections."""

    mixture: StudentMixture

    @property
    def exponent(self) -> float:
        return self.mixture.quantile(0.5)

    def interval(self, confidence: float) -> tuple[float, float]:
        tail = (1.0 - confidence) / 2.0
        return self.mixture.quantile(tail), self.mixture.quantile(1.0 - tail)


@final
@dataclass(frozen=True)
class ExponentOfOrder:
    """γ as `slope` less an order that was fitted to a power `root` of the averages."""

    fit: Fit
    slope: float
    root: float

    @property
    def exponent(self) -> float:
        return self.slope - self.fit.rate / self.root

    def interval(self, confidence: float) -> tuple[float, float]:
        slowest, fastest = self.fit.interval(confidence)
        return self.slope - fastest / self.root, self.slope - slowest / self.root


def of_time(averages: Averages, curve: Curve, residual_exponent: float) -> FittedExponent:
    """Fit γ to the times that layers need for these changes, by a known curve."""
    depths, errors = averages.depths.astype(float), np.sqrt(averages.variances)
    times, above, below = (
        curve.log_times(averages.log_means + shift * errors, depths) for shift in (0.0, 0.5, -0.5)
    )
    step = STEP_SCALE * depths ** (-2.0 * residual_exponent)
    read = Averages(averages.depths, times, (above - below) ** 2, averages.draws)
    return _fit(read, Deviations(step, 0.05, 0.05, curve.uncertainty))


def of_power(averages: Averages, known: Growth, grid_scale: float = GRID_SCALE) -> FittedExponent:
    """Fit γ to the averages themselves, which need not be a power of the depth yet."""
    if known.predicted is not None or known.faster is not None:
        return _of_power(averages, known, grid_scale)
    return _no_further_than_the_slope(_of_power(averages, known, grid_scale), averages)


def _of_power(averages: Averages, known: Growth, grid_scale: float) -> FittedExponent:
    if known.faster is not None or averages.draws == NO_SAMPLING_NOISE:
        return _as_order(averages, known, known.faster)
    # A change much smaller than 1 is a power, with nothing that bends it.
    size = float(np.exp(min(averages.log_means.mean(), 30.0)))
    grid, bends = grid_scale / averages.depths, size / (1.0 + size)
    if known.predicted is not None:
        return _fit(averages, Deviations(grid, 0.05, 0.05, 0.1 * bends))
    of_one = _fit(averages, Deviations(grid, 0.05, 0.5, 0.2 * bends))
    return ExponentFromBelow(_as_order(averages, known, OTHER_PART), of_one)


def _fit(averages: Averages, deviations: Deviations) -> FittedExponent:
    depths, logs = averages.depths.astype(float), np.log(averages.depths)
    noise = np.diag(averages.variances + MODEL_ERROR**2) + np.outer(deviations.step, deviations.step)
    ratio = depths[0] / depths
    other = sum(np.outer(ratio, ratio) ** power for power in OTHER_POWERS) / len(OTHER_POWERS)
    # The overall slope is taken out and put back, so that no size of it overflows.
    slope = (averages.log_means[-1] - averages.log_means[0]) / (logs[-1] - logs[0])
    data = CorrelatedData.of(averages.log_means - slope * logs, noise + (_SIZES**2)[:, None, None] * other)
    fits = data.regress(np.stack([np.ones(len(logs)), logs - logs.mean()], axis=1), np.zeros((1, len(logs))))
    edges = np.concatenate([[0.0, _SIZES[1] / 2], np.sqrt(_SIZES[1:-1] * _SIZES[2:]), [np.inf]])
    prior = deviations.probability * np.diff(np.arctan(edges / deviations.scale)) * (2.0 / math.pi)
    prior[0] += 1.0 - deviations.probability
    weights = np.exp(fits.log_likelihoods[:, 0] - fits.log_likelihoods.max()) * prior
    centres = slope + fits.coefficients[:, 1, 0]
    scales = np.sqrt(fits.covariances[:, 1, 1] + (deviations.uncertainty * centres) ** 2)
    return ExponentOfMixture(
        StudentMixture(weights / weights.sum(), centres, scales, float(averages.draws - 1))
    )


@final
@dataclass(frozen=True)
class ExponentFromBelow:
    """γ where nobody knows whether a change has a second part, which falls faster.

    Squares of parts add, so that no local slope lies above γ: from below, γ is known as well as if there were
    one part.
    """

    of_two: FittedExponent
    of_one: FittedExponent

    @property
    def exponent(self) -> float:
        return self.of_two.exponent

    def interval(self, confidence: float) -> tuple[float, float]:
        low, high = self.of_two.interval(confidence)
        below = self.of_one.interval(confidence)[0]
        # A change that falls faster at first has local slopes below γ, and is no sum of such parts.
        return (low, high) if below > self.exponent else (below, high)


BENT = 3.0
"""Standard errors by which the last two local slopes must differ before the data are taken for bent: straight
ones are so in fewer than one of 700 fits."""


@final
@dataclass(frozen=True)
class ExponentUpToSlope:
    """γ where local slopes still fall, and the last one lies above every γ that the powers of 1/L allow.

    A change that saturates does so exponentially (a state that forgets its input is √2 away from it), and
    powers continue its bend below 0. So the last slope, with its standard error, is γ as well.
    """

    by_powers: FittedExponent
    slope: float
    error: float
    draws: int

    @property
    def exponent(self) -> float:
        return self.by_powers.exponent

    def interval(self, confidence: float) -> tuple[float, float]:
        low, high = self.by_powers.interval(confidence)
        reach = float(stdtrit(self.draws - 1, (1.0 + confidence) / 2.0)) * self.error
        return low, max(high, self.slope + reach)


def _no_further_than_the_slope(found: FittedExponent, averages: Averages) -> FittedExponent:
    if len(averages.depths) < 3:
        return found
    noise = averages.variances + MODEL_ERROR**2
    falls, errors = slopes_between(np.log(averages.depths), averages.log_means, np.diag(noise))
    before, last = -falls[-2:]
    # Both slopes share the depth between them: errors of their difference are at most the sum.
    bent = before - last > BENT * errors[-2:].sum()
    return ExponentUpToSlope(found, float(last), float(errors[-1]), averages.draws) if bent else found


def _as_order(averages: Averages, known: Growth, faster: float | None) -> FittedExponent:
    """Fit γ as orders are fitted, with a second part that falls faster by a power of 1/L, or none.

    Two parts of a squared change are two parts of its root whose squares add, as the fit of orders expects.
    """
    depths, log_means = averages.depths, averages.log_means
    root = 1.0 if faster is None else 0.5
    # The overall slope is taken out and put back, so that no size of it overflows.
    slope = float((log_means[-1] - log_means[0]) / np.log(depths[-1] / depths[0]))
    estimates = ErrorEstimates(
        depths=depths,
        log_errors=root * (log_means - slope * np.log(depths)),
        covariance=root**2 * np.diag(np.maximum(averages.variances, 1e-20)),
        log_bias=np.zeros(len(depths)),
        count=averages.draws,
        corrections=corrections(known.predicted) if faster is None else (1.0,),
        second_orders=() if faster is None else (faster,),
    )
    return ExponentOfOrder(fit_rate(estimates), slope, root)


def corrections(predicted: float | None) -> tuple[float, ...]:
    """Return the powers of 1/L by which a change bends: |γ| is one of them, from log(1 + x) against x."""
    if predicted is None:
        return DEFAULT_CORRECTIONS
    power = abs(predicted)
    return (1.0,) if power < 0.05 else tuple(sorted({min(power, 1.0), 1.0}))
