"""The slope of a quantity over depth on logarithmic scales, with an interval that holds for few depths.

The model is log q = a + s log L + c(L) + noise. Noise has a part of the same size at all depths and parts
that fall, as sampling errors and those of sums over layers do. The correction c falls like L^-1/2 or 1/L. All
sizes are unknown and integrated over. Where a contribution that falls faster may hide the slope, it is, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, final

import numpy as np

from deeplimit.statistics.power_law import CorrelatedData, StudentMixture
from deeplimit.trained.diagnosis.hidden_slopes import NOTHING, Hidden

SCATTERS = np.geomspace(1e-3, 3.0, 12)
"""Sizes of the noise, equally likely up to USUAL. The smallest is added to all: no model has more digits.

Where sampling variances are known, noise beyond them is there with probability 1/2.
"""
USUAL = 0.1
PROFILES = ((0.0, 1.0), (0.5, 1.0), (1.0, 1.0), (1.0, 2.0))
"""Shares of the noise's variance that fall with depth, and the powers with which they do."""


class Corrections(NamedTuple):
    """Powers of 1/L with which the correction may fall; the next term of each has twice the power.

    `sizes` are those at the smallest depth, with the prior probabilities of a half-Cauchy law of this scale.
    """

    powers: tuple[float, ...]
    sizes: tuple[float, ...]
    scale: float


LARGE = Corrections((0.5, 1.0), (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8), 0.2)
OF_NOISE = Corrections((0.5, 1.0), (0.0, 0.02, 0.1), 0.01)
"""Of sizes of noise: the expectation of its squared differences needs next to no correction."""
OF_TRENDS = Corrections((1.0,), LARGE.sizes, 0.1)
"""Of sizes of smooth trends without noise, whose mean square is a Riemann sum, off by O(1/L). Of two seeds at
five depths 513 of 540 intervals cover, 5 standard deviations long; with large corrections 525, and 6.
"""
NEAR = 0.1
"""Standard deviation of the slope of what a faster contribution hides: most often noise of slope 0."""
NEGLIGIBLE = 1e-5
"""Posterior probability of components that are left out."""
LEAST_DEPTHS = 3
"""Fewest different depths that give a slope."""
SURE = 0.99
"""Level of the intervals on which verdicts rest."""
DEGREES = 1000.0
"""The scatter is integrated over, so that components of the mixture are nearly normal."""


@final
@dataclass(frozen=True)
class Slope:
    """A slope and its interval; NaN where it is not determined.

    Attributes:
        value: median of the slope.
        interval: central interval at the confidence level.
        sure: central interval at SURE, on which verdicts rest.
    """

    value: float
    interval: tuple[float, float]
    sure: tuple[float, float]

    @property
    def is_known(self) -> bool:
        """Whether there were depths enough."""
        return bool(np.isfinite(self.value))

    def __neg__(self) -> Slope:
        return Slope(-self.value, _turned(self.interval), _turned(self.sure))

    def plus(self, shift: float) -> Slope:
        """Return the slope with a known number added."""
        low, high = self.interval
        least, most = self.sure
        return Slope(self.value + shift, (low + shift, high + shift), (least + shift, most + shift))

    def at_most(self, limit: float) -> Slope:
        """Return the slope of what cannot exceed a limit."""

        def cut(interval: tuple[float, float]) -> tuple[float, float]:
            return min(interval[0], limit), min(interval[1], limit)

        return Slope(min(self.value, limit), cut(self.interval), cut(self.sure)) if self.is_known else self

    @classmethod
    def of(cls, quantile: Callable[[float], float], confidence: float) -> Slope:
        """Return the slope of which a function gives the quantiles."""
        return cls(quantile(0.5), _central(quantile, confidence), _central(quantile, SURE))


def _turned(interval: tuple[float, float]) -> tuple[float, float]:
    return -interval[1], -interval[0]


def _central(quantile: Callable[[float], float], confidence: float) -> tuple[float, float]:
    tail = (1 - confidence) / 2
    return quantile(tail), quantile(1 - tail)


UNKNOWN = Slope(float("nan"), (float("nan"),) * 2, (float("nan"),) * 2)


def fit(
    depths: Sequence[int] | np.ndarray,
    values: np.ndarray,
    confidence: float,
    variances: np.ndarray | None = None,
    *,
    hidden: Hidden = NOTHING,
    corrections: Corrections | None = None,
) -> Slope:
    """Return the slope of log values in log depth.

    Args:
        depths: depth of each network (n,); depths may repeat.
        values: the quantity of each network (n,). What is not above 0 is left out.
        confidence: level of the interval.
        variances: sampling variances of the logarithms (n,), where values are sizes of noise.
        hidden: contributions that fall faster and may hide the slope, for the networks with values above 0.
        corrections: which ones the power law may have; left out, `OF_NOISE` with variances, else `LARGE`.

    Returns:
        The slope; `UNKNOWN` for fewer than three different depths.

    Not checked: that values are finite.

    Examples:
        >>> round(fit([8, 16, 32, 64], np.array([8, 16, 32, 64]) ** -0.5, 0.95).value, 2)
        -0.5
    """
    kept = np.asarray(values) > 0
    levels, logs = np.asarray(depths, float)[kept], np.log(np.asarray(values)[kept])
    if len(np.unique(levels)) < LEAST_DEPTHS:
        return UNKNOWN
    of_noise = variances is not None
    known = np.zeros(len(levels)) if variances is None else variances[kept]
    logs = logs + known  # the mean logarithm of a sum of squares is below the logarithm of its mean
    model = _model(tuple(levels), tuple(known), of_noise, corrections or (OF_NOISE if of_noise else LARGE))
    design = np.stack([np.ones(len(levels)), np.log(levels)], axis=1)
    fits = CorrelatedData(logs, model.inverses, model.log_determinants).regress(
        design, hidden.offsets * np.ones(len(levels))
    )
    likelihood = fits.log_likelihoods + model.log_prior[:, None] + hidden.log_weights
    likelihood[:, 1:] -= 0.5 * (fits.coefficients[:, 1, 1:] / NEAR) ** 2
    posterior = np.exp(likelihood - likelihood.max()).ravel()
    posterior /= posterior.sum()
    largest = np.argsort(posterior)[::-1]
    some = largest[: 1 + int(np.searchsorted(np.cumsum(posterior[largest]), 1 - NEGLIGIBLE))]
    slopes = StudentMixture(
        posterior[some] / posterior[some].sum(),
        fits.coefficients[:, 1, :].ravel()[some],
        np.repeat(np.sqrt(fits.covariances[:, 1, 1]), len(hidden.offsets))[some],
        DEGREES,
    )
    return Slope.of(slopes.quantile, confidence)


@dataclass(frozen=True)
class _Model:
    """Covariances of the logarithms, for every size of noise and correction: (k, n, n), (k,), (k,)."""

    inverses: np.ndarray
    log_determinants: np.ndarray
    log_prior: np.ndarray


@lru_cache(maxsize=16)
def _model(
    depths: tuple[float, ...], variances: tuple[float, ...], of_noise: bool, allowed: Corrections
) -> _Model:
    levels = np.array(depths)
    ratio = levels.min() / levels
    bends = np.array(allowed.sizes)
    edges = np.concatenate([[0.0], (bends[1:] + bends[:-1]) / 2, [np.inf]])
    none, *some = np.diff(np.arctan(edges / allowed.scale))
    bent = [np.outer(ratio**power, ratio**power) for power in allowed.powers]
    corrections = [np.zeros_like(bent[0])]
    corrections += [size**2 * (first + first**2) for first in bent for size in bends[1:]]
    falling = [
        (1 - share) * np.eye(len(levels)) + share * np.diag(ratio**power / (ratio**power).mean())
        for share, power in PROFILES
    ]
    known = np.diag(np.array(variances) + SCATTERS[0] ** 2)
    sizes, likely = SCATTERS, np.minimum(1.0, USUAL / SCATTERS)
    if of_noise:
        sizes, likely = np.append(0.0, sizes), np.append(likely.sum(), likely)
    covariances = np.stack(
        [size**2 * profile + known + bend for size in sizes for profile in falling for bend in corrections]
    )
    prior = np.outer(
        np.repeat(likely, len(PROFILES)), [none, *(share / len(bent) for _ in bent for share in some)]
    ).ravel()
    return _Model(np.linalg.inv(covariances), np.linalg.slogdet(covariances)[1], np.log(prior))
