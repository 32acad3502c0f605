"""The slope of a quantity over depth on logarithmic scales, with an interval that holds for few depths.

The model is log q = a + s log L + c(L) + noise. Noise has a part of the same size at all depths and one that
falls like L^-1/2, as sampling errors do. The correction c falls like 1/L. Sizes of all three are unknown and
integrated over. Where two contributions may cross over, the second falls faster and is integrated over, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from deeplimit.inference.regression import CorrelatedData, StudentMixture

SCATTERS = np.geomspace(1e-4, 3.0, 12)
"""Sizes of the noise, equally likely up to USUAL; less noise than the smallest is not believed."""
USUAL = 0.1
FALLING = (0.0, 0.5, 1.0)
"""Shares of the noise's variance that fall like 1/depth."""
CORRECTIONS = np.array([0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8])
"""Sizes of the correction at the smallest depth, with the prior probabilities of a half-Cauchy law."""
CORRECTION_SCALE = 0.2
GAPS = (0.5, 1.0, 2.0)
"""Powers of depth by which a second contribution falls faster than the first."""
SHARES = (0.3, 0.5, 0.7, 0.85, 0.95)
"""Shares of the squared quantity that the first contribution may have at the deepest network.

A smaller one is not seen there: the slope is that of the depths that were measured.
"""
CROSSING = 0.1
"""Prior probability of a second contribution, where one is possible."""
NEAR = 0.15
"""Standard deviation of the slope of what a faster contribution hides: most often noise of slope 0."""
LEAST_DEPTHS = 3
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
    depths: Sequence[int] | np.ndarray, values: np.ndarray, confidence: float, *, crosses: bool = False
) -> Slope:
    """Return the slope of log values in log depth.

    Args:
        depths: depth of each network (n,); depths may repeat.
        values: the quantity of each network (n,). What is not above 0 is left out.
        confidence: level of the interval.
        crosses: whether a contribution that falls faster may hide the slope at small depths.

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
    ratio = levels.min() / levels
    same, bent = np.eye(len(levels)), np.outer(ratio, ratio)
    scatters = [
        size**2 * ((1 - share) * same + share * np.diag(ratio / ratio.mean()))
        for size in SCATTERS
        for share in FALLING
    ]
    edges = np.append(np.insert((CORRECTIONS[1:] + CORRECTIONS[:-1]) / 2, 0, 0.0), np.inf)
    likely = np.repeat(np.minimum(1.0, USUAL / SCATTERS), len(FALLING))
    prior = np.outer(likely, np.diff(np.arctan(edges / CORRECTION_SCALE))).ravel()
    covariances = np.stack([each + size**2 * bent for each in scatters for size in CORRECTIONS])
    offsets, weights = _crossings(levels) if crosses else (np.zeros((1, len(levels))), np.ones(1))
    fits = CorrelatedData.of(logs, covariances).regress(
        np.stack([np.ones(len(levels)), np.log(levels)], axis=1), offsets
    )
    likelihood = fits.log_likelihoods + np.log(prior)[:, None] + np.log(weights)
    likelihood[:, 1:] -= 0.5 * (fits.coefficients[:, 1, 1:] / NEAR) ** 2
    posterior = np.exp(likelihood - likelihood.max()).ravel()
    kept = posterior > 1e-9 * posterior.max()
    slopes = StudentMixture(
        posterior[kept] / posterior[kept].sum(),
        fits.coefficients[:, 1].ravel()[kept],
        np.repeat(np.sqrt(fits.covariances[:, 1, 1]), len(weights))[kept],
        DEGREES,
    )
    return Slope.of(slopes.quantile, confidence)


def _crossings(levels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log factors (o, n) by which a second contribution raises values, and their prior (o,)."""
    ratio = levels.max() / levels
    pairs = [(share, gap) for share in SHARES for gap in GAPS]
    factors = [np.zeros(len(levels))] + [
        0.5 * np.log(share + (1 - share) * ratio ** (2 * gap)) for share, gap in pairs
    ]
    return np.stack(factors), np.array([1 - CROSSING] + [CROSSING / len(pairs)] * len(pairs))
