"""Trends drawn from a seed, the same for the same seed."""

from __future__ import annotations

import math

import numpy as np
import torch

import deeplimit as dl

ODD = ("tanh", "sin", "erf")
CURVED = ("scaled_silu", "scaled_softplus", "scaled_gelu")
MIXED = ("tanh", "sin", "scaled_silu", "scaled_softplus", "erf")
"""Smooth activations in turn: odd ones, whose cube counts, and curved ones, whose square does."""


def turning(width: int, size: float, seed: int) -> dl.Trend:
    """Return a trend that turns with time; entries of Ā and b̄ have about this size."""
    draws = torch.Generator().manual_seed(seed)
    matrices = [size * torch.randn(width, width, generator=draws) for _ in range(3)]
    vectors = [size * torch.randn(width, generator=draws) for _ in range(2)]
    return dl.Trend(
        lambda t: matrices[0] + matrices[1] * np.sin(3 * t) + matrices[2] * t * t,
        lambda t: vectors[0] + vectors[1] * np.cos(2 * t),
    )


def square_root(width: int, size: float, seed: int) -> dl.Trend:
    """Return a trend with √t, of Hölder index 1/2 at one point and smooth elsewhere."""
    draws = torch.Generator().manual_seed(seed)
    matrices = [size * torch.randn(width, width, generator=draws) for _ in range(2)]
    vector = size * torch.randn(width, generator=draws)
    return dl.Trend(
        lambda t: matrices[0] + matrices[1] * math.sqrt(t), lambda t: vector * (1 + math.sqrt(t)), holder=0.5
    )


def is_curved(activation: str) -> bool:
    """Return whether σ''(0) ≠ 0."""
    return activation in CURVED


def order_without_noise(activation: str, beta: float) -> float:
    """Return the order of Theorem 4.3 at α = 1 - β for a smooth trend.

    Layers leave out σ''(0)M²/2 or σ'''(0)M³/6, which add up to L^-β or L^-2β; Euler's scheme is off by 1/L.
    """
    if activation == "identity":
        return 1.0
    return min(1.0, beta if is_curved(activation) else 2 * beta)


def order_of_vanishing_noise(activation: str, alpha: float) -> float:
    """Return the order of Theorem 4.4 at α + β = 1 with 0 < α: the noise adds up to L^-α."""
    return min(alpha, order_without_noise(activation, 1 - alpha))


def order_of_diffusion(beta: float) -> float:
    """Return the order of Theorem 4.4 at α = 0: Euler's 1/2, or what is left of the trend, L^(1 - β)."""
    return min(0.5, beta - 1.0) if beta > 1.0 else 0.5
