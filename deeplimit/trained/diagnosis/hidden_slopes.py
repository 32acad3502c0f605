"""What a trend that falls faster than noise may add to fourth differences, and so hide the slope of noise.

A trend of size L^-β and Hölder index ν has fourth differences of size L^(1/2 - β - ν), and Brownian noise
those of size 1. A rough trend may hide in the noise over many depths. Then D4²/D2² is below 1 by its share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from deeplimit.trained.diagnosis.fresh_noise import log_ratios
from deeplimit.trained.diagnosis.norms import LayerNorms

GAPS = (0.15, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.5, 2.0, 3.5)
"""Powers of depth by which the trend's differences fall faster than those of noise."""
FASTER = 0.5
"""Smallest of these powers where no trend is found."""
LEAST_HOLDER = 0.25
"""Smallest Hölder index that a trend may have beside noise. A rougher one would look like noise."""
SMALLEST = 0.05
"""Smallest share of noise's squared differences at the smallest depth that the trend adds to them."""
STEP = 1.5
"""Factor between neighbouring shares."""
LEAST_SHARE = 0.3
"""Least share of the squared differences that noise may have at the deepest network.

A smaller one is not seen there: the slope is that of the depths that were measured.
"""
CROSSING = 0.5
"""Prior probability of a second contribution, where one is possible."""


@final
@dataclass(frozen=True)
class Hidden:
    """Second contributions, the first of them none.

    Attributes:
        offsets: log factors by which they raise the size of differences in n networks (o, n).
        log_weights: logarithms of their prior probabilities times the likelihood of D4²/D2² (o,).
    """

    offsets: np.ndarray
    log_weights: np.ndarray


NOTHING = Hidden(np.zeros((1, 1)), np.zeros(1))
"""No second contribution."""


def hidden_trends(networks: Sequence[LayerNorms], beta: tuple[float, float] | None) -> Hidden:
    """Return the trends that may hide the slope of D4.

    Args:
        networks: norms of one weight in each network (n,), more than four layers each.
        beta: interval of the trend's exponent; None where no trend is found.

    Returns:
        The contributions. D4²/D2² counts by its mean over networks: a smooth trend adds to D2 at small depth.

    Not checked: that differences are above round-off.
    """
    levels = np.array([float(norms.depth) for norms in networks])
    ratios, deviations = log_ratios(networks)
    least, most = levels.min(), levels.max()
    lowest = FASTER if beta is None else min(FASTER, beta[0] + LEAST_HOLDER - 0.5)
    none = np.zeros(len(levels))
    offsets, log_weights = [none], [math.log(1 - CROSSING) + _likelihood(ratios, deviations, none)]
    possible = [gap for gap in GAPS if gap >= lowest]
    for gap in possible:
        fresh = 1.0 if beta is None else path_ratio(gap + 0.5 - beta[1])
        largest = (1 / LEAST_SHARE - 1) * (most / least) ** (2 * gap)
        sizes = np.geomspace(SMALLEST, largest, 1 + math.ceil(math.log(largest / SMALLEST) / math.log(STEP)))
        prior = math.log(CROSSING / len(possible) / len(sizes))
        for added in np.outer(sizes, (least / levels) ** (2 * gap)):
            offsets.append(0.5 * np.log1p(added))
            expected = np.log1p(added) - np.log1p(added / fresh)
            log_weights.append(prior + _likelihood(ratios, deviations, expected))
    return Hidden(np.stack(offsets), np.array(log_weights))


def path_ratio(holder: float) -> float:
    """Return D4²/D2² of a fractional Brownian path with this index; 1 for paths as smooth as lines.

    Examples:
        >>> round(path_ratio(0.5), 3)
        0.857
    """
    if holder >= 1:
        return 1.0
    second, fourth = (
        _variance([math.comb(order, k) * (-1.0) ** k for k in range(order + 1)], holder) for order in (2, 4)
    )
    return (fourth / 70) / (second / 6)


def _variance(weights: Sequence[float], holder: float) -> float:
    """Return the variance of this combination of neighbouring values of a fractional Brownian motion."""
    lags = np.abs(np.subtract.outer(np.arange(len(weights)), np.arange(len(weights)))).astype(float)
    return float(-0.5 * np.asarray(weights) @ lags ** (2 * max(holder, 0.01)) @ np.asarray(weights))


def _likelihood(ratios: np.ndarray, deviations: np.ndarray, expected: np.ndarray) -> float:
    """Return the log likelihood of the ratios' mean, in which the deepest networks count most."""
    away = float(((ratios - expected) / deviations**2).sum() / math.sqrt((deviations**-2).sum()))
    return -0.5 * away**2
