"""Whether layers share a trend over depth, and how its size changes with the number of layers.

The statistic T is the energy of the layers' slow components, less that of noise, whose variance the second
differences give. Independent noise has T = 0 on average, whatever its size and the dependence of entries. A
trend L^-β Ā(k/L) has T proportional to L^(2 - 2β), also where the integral of Ā vanishes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from deeplimit.trained.diagnosis.norms import WAVES, LayerNorms
from deeplimit.trained.diagnosis.slopes import LEAST_DEPTHS, UNKNOWN, Slope

WIDEST = 0.4
"""Largest share of the noise's energy that one of the slow components has."""
FLIPS = 4000
"""Sign flips of networks that give the law of their agreement without a trend."""
EXPONENTS = np.linspace(-1.0, 2.0, 301)
"""Exponents β that are tried."""
SCATTERS = np.geomspace(0.003, 1.0, 6)
"""Scatters of a trend's energy among networks that are tried, relative to it."""
SIZES = np.geomspace(1e-3, 1e2, 101)
"""Energies of the trend at the deepest network that are tried, over the largest |T|."""
MEMORY = 0.3
"""Noise with Hurst index H has at most L^(2H - 1) times the slow energy of independent noise.

This is the power at H = 0.65, the largest H of noise of size L^-H that is called steady, by
`hypotheses.STEADY`.
"""
BESIDE = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8), (1.0, 1.0, 1.02, 1.06, 1.14, 1.29, 2.12)
"""Powers 2H - 1, and how many times that fractional noise has of its size by second differences, at 8 to 256
layers."""

SAME, ALIKE = 1 - 1e-6, 0.9
"""Cosines of layers that are the same draw, and of neighbours in one network that may be a trend."""

ENTRIES_TOLD = 4
"""Layers of fewer entries are alike by chance."""


@final
@dataclass(frozen=True, eq=False)
class TrendEvidence:
    """What blocks of layers of n networks say of a trend.

    Attributes:
        depths: number of layers (n,).
        energies: T (n,).
        errors: standard deviations of T without a trend (n,), an upper bound where there is one.
        noise: energy of the slow components that independent blocks would have (n,).
        crossed: variance that a trend and noise have together in T, over T (n,).
        p_value: probability of as large an agreement between networks without a trend that they share.
    """

    depths: np.ndarray
    energies: np.ndarray
    errors: np.ndarray
    noise: np.ndarray
    crossed: np.ndarray
    p_value: float

    @classmethod
    def of(cls, networks: Sequence[LayerNorms], generator: torch.Generator) -> TrendEvidence:
        """Return the evidence of one stack in n networks; the generator draws the sign flips."""
        forms = [_waves(norms.block_products) for norms in networks]
        moments = zip(*map(_moments, networks, forms), strict=True)
        errors, noise, crossed = (np.array(each) for each in moments)
        energies = np.array([form.sum() for form in forms])
        depths = np.array([norms.depth for norms in networks])
        p_value = agreement(networks, generator)
        return cls(depths, energies - noise, errors, noise, crossed, p_value)

    def share(self) -> float:
        """Return the trend's energy over the noise's in the slow components: at most this, by 3 errors."""
        return self._over(self.noise, 3.0)

    def least_share(self) -> float:
        """Return the same: at least this, by 3 errors."""
        return self._over(self.noise, -3.0)

    def over_memory(self, memory: float = MEMORY) -> float:
        """Return the trend's energy over that of noise with long memory: at least this, by 3 errors.

        Above 1, layers of single networks have a trend, whether or not networks share it.
        """
        return self._over(self.noise * np.interp(memory, *BESIDE) * self.depths**memory, -3.0)

    def _over(self, noise: np.ndarray, errors: float) -> float:
        spread = float(np.sqrt((self.errors**2).sum()))
        return float(self.energies.sum() + errors * spread) / max(float(noise.sum()), 1e-300)

    def exponent(self, confidence: float) -> Slope:
        """Return β, by the likelihood of T given L^(2 - 2β); its size and scatter are integrated over."""
        if len(np.unique(self.depths)) < LEAST_DEPTHS:
            return UNKNOWN
        scale = np.abs(self.energies).max()
        energies, errors, crossed = (each / scale for each in (self.energies, self.errors, self.crossed))
        growth = (self.depths / self.depths.max())[None, :] ** (2 - 2 * EXPONENTS[:, None])
        mean = SIZES[:, None, None] * growth  # (sizes, exponents, networks)
        logs = []
        for scatter in SCATTERS:
            variance = errors**2 + crossed * mean + (scatter * mean) ** 2
            logs.append(-0.5 * (np.log(variance) + (energies - mean) ** 2 / variance).sum(axis=2))
        joint = np.stack(logs)
        posterior = np.exp(joint - joint.max()).sum(axis=(0, 1))
        cumulative = (np.cumsum(posterior) - 0.5 * posterior) / posterior.sum()
        return Slope.of(lambda level: float(np.interp(level, cumulative, EXPONENTS)), confidence)


def share_draws(networks: Sequence[LayerNorms]) -> bool:
    """Whether networks of two depths have the same first two layers, up to size, and these two differ.

    Trends that start alike have the same first layer, but not the same second one.
    """
    units: list[np.ndarray] = []
    if networks[0].heads.shape[1] < ENTRIES_TOLD:
        return False
    for norms in networks:
        sizes = np.linalg.norm(norms.heads, axis=1, keepdims=True)
        units.append(norms.heads / np.where(sizes > 0, sizes, 1.0))
    alone = [each for each, norms in zip(units, networks, strict=True) if each[0] @ each[1] < ALIKE]
    depths = [norms.depth for each, norms in zip(units, networks, strict=True) if each[0] @ each[1] < ALIKE]
    return any(
        depths[i] != depths[j] and bool(((alone[i] * alone[j]).sum(axis=1) > SAME).all())
        for i in range(len(alone))
        for j in range(i)
    )


def agreement(networks: Sequence[LayerNorms], generator: torch.Generator) -> float:
    """Return the probability of as similar slow components in networks that share no trend.

    The statistic is the sum of the cosines between the slow components of every two networks. Without a trend
    networks are independent, and their noise is as likely with the other sign, and in the other order of
    layers. So the even and the odd components of each network may have their signs flipped: an exact test,
    whatever the dependence between layers and entries.
    """
    parts = [norms.waves[parity::2].ravel() for norms in networks for parity in (0, 1)]
    sizes = [float(np.linalg.norm(norms.waves)) or 1.0 for norms in networks for _ in (0, 1)]
    cosines = np.array([[float(one @ other) for other in parts] for one in parts])
    cosines /= np.outer(sizes, sizes)
    numbers = np.arange(len(parts))
    cosines[(numbers[:, None] % 2 != numbers % 2) | (numbers[:, None] == numbers)] = 0.0
    coins = torch.randint(0, 2, (FLIPS, len(parts)), generator=generator, dtype=torch.float64)
    signs = 2 * coins.numpy() - 1
    flipped = ((signs @ cosines) * signs).sum(axis=1)
    # Some flips are no flips: they reach the same sum up to rounding.
    return (1 + int((flipped >= cosines.sum() - 1e-9).sum())) / (1 + FLIPS)


def _waves(products: np.ndarray) -> np.ndarray:
    """Return products of blocks weighted by the slow components (K, K)."""
    count = len(products)
    times = (np.arange(count) + 0.5) / count
    waves = np.cos(np.pi * np.outer(np.arange(min(WAVES, count)), times))
    weighted: np.ndarray = products * (waves.T @ waves)
    return weighted


def _moments(norms: LayerNorms, form: np.ndarray) -> tuple[float, float, float]:
    """Return T's deviation under sign flips of blocks, and two moments of the noise.

    These are the energy of the slow components of layers whose variance is the nugget of the second
    differences, and the factor that makes T the variance of a trend's products with that noise. Products of
    different blocks say how many entries are effectively independent.
    """
    own = np.diag(form)
    waves = own / np.maximum(np.diag(norms.block_products), 1e-300)
    layers = norms.depth / len(form)
    noise = float(waves.sum()) * layers * norms.second / 6 / (norms.depth - 2)
    flips = max(float(2 * (form**2).sum() - 2 * (own**2).sum()), 0.0)
    weights = _waves(np.ones_like(form))
    entries = (
        2
        * (noise / max(waves.sum(), 1e-300)) ** 2
        * float((weights**2).sum() - (waves**2).sum())
        / max(flips, 1e-300)
    )
    crossed = 4 * noise * WIDEST / max(entries, 1.0)
    return max(flips**0.5, 1e-300), noise, crossed
