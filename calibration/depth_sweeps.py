"""Weights of known laws at several depths: trends of known exponents, noise, both, and a few large layers."""

from __future__ import annotations

import numpy as np

DEPTHS = (8, 16, 32, 64, 128, 256, 512, 1024)
FINE = 2**14


def smooth(rng, width, waves=(0, 1, 2, 3)):
    """A trend of cosines; without the 0th its integral vanishes."""
    sizes = rng.normal(size=(4, width, width)) / np.sqrt(width)
    return lambda t: sum(sizes[j] * np.cos(np.pi * j * t)[:, None, None] for j in waves)


def rough(rng, width):
    """A path of Brownian motion about a constant: Hölder exponent 1/2, the same path at every depth."""
    constant = 0.5 * rng.normal(size=(width, width)) / np.sqrt(width)
    path = np.cumsum(rng.normal(size=(FINE + 1, width, width)) / np.sqrt(width * FINE), axis=0)
    return lambda t: constant + path[np.round(t * FINE).astype(int)]


def sweep(rng, trend=None, beta=0.0, noise=0.0, width=10, depths=DEPTHS):
    """Return {L: dict(A=...)} with A_k = L^-β Ā(k/L) + Brownian increments of size `noise`/√d."""
    weights = {}
    for depth in depths:
        layers = noise * rng.normal(size=(depth, width, width)) / np.sqrt(width * depth)
        if trend is not None:
            layers = layers + depth**-beta * trend(np.arange(depth) / depth)
        weights[depth] = {"A": layers}
    return weights


def seven(seed=0, width=10):
    """The seven rows whose truth is known: name -> (verdict, weights)."""
    rng = np.random.default_rng(seed)
    trend, centred, path = smooth(rng, width), smooth(rng, width, (1, 2, 3)), rough(rng, width)
    return {
        "Hypothesis 1": ("linear-ode", sweep(rng, trend, 0.3, width=width)),
        "Hypothesis 2, little noise": ("sde", sweep(rng, trend, 0.3, 0.3, width=width)),
        "Hypothesis 2, much noise": ("sde", sweep(rng, trend, 0.3, 1.0, width=width)),
        "Hypothesis 2, small trend": ("sde", sweep(rng, trend, 0.8, 1.0, width=width)),
        "Brownian": ("no trend", sweep(rng, noise=1.0, width=width)),
        "Hypothesis 1, no integral": ("linear-ode", sweep(rng, centred, 0.3, width=width)),
        "Hypothesis 1, rough trend": ("linear-ode", sweep(rng, path, 0.3, width=width)),
    }


def sparse(rng, width=10, layers=3, depths=DEPTHS):
    """A few layers of fixed size among layers that vanish."""
    weights = sweep(rng, noise=0.1, width=width, depths=depths)
    for depth, stacks in weights.items():
        for layer in rng.choice(depth, layers, replace=False):
            stacks["A"][layer] = rng.normal(size=(width, width)) / np.sqrt(width)
    return weights


def fractional(rng, hurst, width=10, depths=DEPTHS):
    """Increments of fractional Brownian motions with this Hurst index, independent between entries."""
    weights = {}
    for depth in depths:
        lags = np.abs(np.subtract.outer(np.arange(depth), np.arange(depth)))
        covariance = 0.5 * (
            np.abs(lags + 1.0) ** (2 * hurst) + np.abs(lags - 1.0) ** (2 * hurst) - 2.0 * lags ** (2 * hurst)
        )
        draws = np.linalg.cholesky(covariance) @ rng.normal(size=(depth, width * width))
        weights[depth] = {"A": draws.reshape(depth, width, width) * depth**-hurst / np.sqrt(width)}
    return weights
