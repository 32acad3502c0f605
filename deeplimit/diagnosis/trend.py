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

from deeplimit.diagnosis.norms import LayerNorms
from deeplimit.diagnosis.slopes import LEAST_DEPTHS, UNKNOWN, Slope

WAVES = 4
"""Slow components: cosines of 0, 1, 2, 3 half-turns over the network."""
FLIPS = 4000
"""Sign flips of blocks that give the law of T without a trend."""
EXPONENTS = np.linspace(-1.0, 2.0, 301)
SCATTERS = np.geomspace(0.003, 1.0, 6)
SIZES = np.geomspace(1e-3, 1e2, 101)


@final
@dataclass(frozen=True, eq=False)
class TrendEvidence:
    """What blocks of layers of n networks say of a trend.

    Attributes:
        depths: number of layers (n,).
        energies: T (n,).
        errors: standard deviations of T without a trend (n,), an upper bound where there is one.
        noise: energy of the slow components that independent blocks would have (n,).
        p_value: probability of an as large sum of T / errors without a trend, by sign flips.
    """

    depths: np.ndarray
    energies: np.ndarray
    errors: np.ndarray
    noise: np.ndarray
    p_value: float

    @classmethod
    def of(cls, networks: Sequence[LayerNorms], generator: torch.Generator) -> TrendEvidence:
        """Return the evidence of one stack in n networks; the generator draws the sign flips."""
        forms = [_waves(norms.block_products) for norms in networks]
        own, errors, noise = (np.array(each) for each in zip(*map(_moments, networks, forms), strict=True))
        energies = np.array([form.sum() for form in forms])
        flipped = np.zeros(FLIPS)
        for form, error in zip(forms, errors, strict=True):
            coins = torch.randint(0, 2, (FLIPS, len(form)), generator=generator, dtype=torch.float64)
            signs = 2 * coins.numpy() - 1
            flipped += (((signs @ form) * signs).sum(axis=1) - np.trace(form)) / error
        above = int((flipped >= ((energies - own) / errors).sum()).sum())
        depths = np.array([norms.depth for norms in networks])
        return cls(depths, energies - noise, errors, noise, (1 + above) / (1 + FLIPS))

    def share(self) -> float:
        """Return the largest share that the trend may have in the slow components, at 3 standard errors."""
        spread = float(np.sqrt((self.errors**2).sum()))
        return float(self.energies.sum() + 3 * spread) / max(float(self.noise.sum()), 1e-300)

    def exponent(self, confidence: float) -> Slope:
        """Return β, by the likelihood of T given L^(2 - 2β); its size and scatter are integrated over."""
        if len(np.unique(self.depths)) < LEAST_DEPTHS:
            return UNKNOWN
        scale = np.abs(self.energies).max()
        energies, errors = self.energies / scale, self.errors / scale
        growth = (self.depths / self.depths.max())[None, :] ** (2 - 2 * EXPONENTS[:, None])
        mean = SIZES[:, None, None] * growth  # (sizes, exponents, networks)
        posterior = np.zeros(len(EXPONENTS))
        logs = []
        for scatter in SCATTERS:
            variance = errors**2 + (scatter * mean) ** 2
            logs.append(-0.5 * (np.log(variance) + (energies - mean) ** 2 / variance).sum(axis=2))
        joint = np.stack(logs)
        posterior = np.exp(joint - joint.max()).sum(axis=(0, 1))
        cumulative = (np.cumsum(posterior) - 0.5 * posterior) / posterior.sum()
        return Slope.of(lambda level: float(np.interp(level, cumulative, EXPONENTS)), confidence)


def _waves(products: np.ndarray) -> np.ndarray:
    """Return products of blocks weighted by the slow components (K, K)."""
    count = len(products)
    times = (np.arange(count) + 0.5) / count
    waves = np.cos(np.pi * np.outer(np.arange(min(WAVES, count)), times))
    weighted: np.ndarray = products * (waves.T @ waves)
    return weighted


def _moments(norms: LayerNorms, form: np.ndarray) -> tuple[float, float, float]:
    """Return what blocks have with themselves, T's deviation under sign flips, and the noise's energy in T.

    The noise's energy is that of layers whose variance is the nugget of the second differences.
    """
    own = np.diag(form)
    weights = own / np.maximum(np.diag(norms.block_products), 1e-300)
    layers = norms.depth / len(form)
    nugget = norms.second / 6 / (norms.depth - 2)
    spread = np.sqrt(2 * (form**2).sum() - 2 * (own**2).sum())
    return float(own.sum()), max(float(spread), 1e-300), float(weights.sum()) * layers * nugget
