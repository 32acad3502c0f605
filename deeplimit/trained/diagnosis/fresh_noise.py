"""Whether differences of layers are those of noise that is new in every layer, or of a rough path.

Fourth and second differences of independent noise have the same size, D4 = D2. Those of layers that lie on a
rough path have D4 < D2, by a factor that does not change with depth: 0.86 in squares for a Brownian path. So
the two differ where slopes over depth cannot tell them apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import special

from deeplimit.trained.diagnosis.norms import LayerNorms

NUGGET_VARIANCE = 1.31
"""Variance of log D4 of independent Gaussian noise, times the number of fourth differences."""
VARIANCE = 0.34
"""Variance of log(D4²/D2²) of independent Gaussian noise, times the number of fourth differences."""


def fresh_share(networks: Sequence[LayerNorms], confidence: float) -> tuple[float, tuple[float, float]]:
    """Return D4²/D2² over all networks, deeper ones weighing more, and an interval.

    Args:
        networks: norms of one weight in each network, more than four layers each.
        confidence: level of the interval.

    Returns:
        The ratio, about 1 for noise that is new in every layer, and its interval.

    Not checked: that differences are above round-off.

    Examples:
        >>> import torch
        >>> from deeplimit.trained.diagnosis.stacks import Stack
        >>> draws = torch.randn(4000, 16, generator=torch.Generator().manual_seed(0))
        >>> fresh, rough = (LayerNorms.of(Stack("A", each)) for each in (draws, draws.cumsum(dim=0)))
        >>> round(fresh_share([fresh], 0.95)[0], 1), round(fresh_share([rough], 0.95)[0], 2)
        (1.0, 0.86)
    """
    weights = [float(norms.depth - 4) ** 2 for norms in networks]
    total = sum(weights)
    mean = (
        sum(weight * math.log(_ratio(norms)) for weight, norms in zip(weights, networks, strict=True)) / total
    )
    spread = sum(weight**1.5 for weight in weights) * VARIANCE / total**2 / effective_entries(networks)
    reach = float(special.ndtri(0.5 + confidence / 2)) * math.sqrt(spread)
    return math.exp(mean), (math.exp(mean - reach), math.exp(mean + reach))


def log_ratios(networks: Sequence[LayerNorms]) -> tuple[np.ndarray, np.ndarray]:
    """Return log(D4²/D2²) of each network and its standard deviation for independent noise, (n,) and (n,)."""
    entries = effective_entries(networks)
    ratios = np.array([math.log(_ratio(norms)) for norms in networks])
    return ratios, np.array([math.sqrt(VARIANCE / entries / (norms.depth - 4)) for norms in networks])


def effective_entries(networks: Sequence[LayerNorms]) -> float:
    """Return how many independent entries the noise of a layer is worth.

    Products of fourth differences that share no layer have mean 0 and a mean square of n²/N, n their mean
    square norm: this needs no estimate of the entries' covariance. A trend makes them alike, and N small.
    """
    products = pairs = 0.0
    for norms in networks:
        count = len(norms.apart)
        mean = float(np.trace(norms.apart)) / count
        if count < 2 or mean == 0:
            continue
        apart = norms.apart / mean
        products += float((apart**2).sum() - (np.diag(apart) ** 2).sum())
        pairs += count * (count - 1)
    return 1.0 / min(max(products / pairs, 1e-12), 1.0) if pairs else 1.0


def sampling_variances(networks: Sequence[LayerNorms]) -> np.ndarray:
    """Return the variances of log D4 if layers are independent noise (n,)."""
    entries = effective_entries(networks)
    return np.array([NUGGET_VARIANCE / entries / (norms.depth - 4) for norms in networks])


def _ratio(norms: LayerNorms) -> float:
    fourth = norms.fourth / 70 / (norms.depth - 4)
    second = norms.second / 6 / (norms.depth - 2)
    return max(fourth, 1e-300) / max(second, 1e-300)
