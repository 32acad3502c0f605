"""E log(1 + x) of the diffusion that independent layers tend to, as a function of the energy they add.

A layer adds α V g to the state h, with V of independent entries of variance 1/d. For small α that is
dH = |H| √(q/d) dβ, β a d-dimensional Brownian motion. Over an energy τ = q·time its log size is
N(½τ(1 - 2/d), τ/d). Its direction is a Brownian motion on the sphere, independent of the size.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import special

from deeplimit.signal.monotone import Monotone

ENERGIES = np.geomspace(1e-6, 1e5, 300)
NODES = 32
"""Nodes of each of the two quadratures: doubling them changes no value by more than 1e-3."""
LARGE = 30.0
"""Log size from which log(1 + x) is twice it, to float64's digits of interest."""


@lru_cache(maxsize=64)
def log_change_by_energy(width: int) -> Monotone:
    """Return log E log(1 + x) as a function of log τ at width d, x = |H_τ - H_0|²/|H_0|².

    It is followed while it rises: at width 1 the state dies in the end.
    """
    d, tau = width, ENERGIES
    normal, of_normal = np.polynomial.hermite_e.hermegauss(NODES)
    size = 0.5 * tau[:, None] * (1.0 - 2.0 / d) + np.sqrt(tau / d)[:, None] * normal
    away, of_away = _one_less_cosine(d)
    grown = np.minimum(size, LARGE)[:, :, None]
    change = np.expm1(grown) ** 2 + 2.0 * np.exp(grown) * away[:, None, :]
    logs = np.log1p(change) + 2.0 * np.maximum(size - LARGE, 0.0)[:, :, None]
    means = np.einsum("tij,i,j->t", logs, of_normal / of_normal.sum(), of_away)
    return Monotone.rising(np.log(tau), np.log(means))


def _one_less_cosine(d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes (energies, NODES) and weights of 1 - cos θ, θ the angle after a Brownian path on a sphere.

    Its law is replaced by a beta law with the exact mean and variance, which is right for short and for long
    times.
    """
    if d == 1:
        return np.zeros((len(ENERGIES), 1)), np.ones(1)
    time = ENERGIES / d
    mean = -np.expm1(-0.5 * (d - 1) * time)
    # Var cos θ = (1 - e^{-dt})²/d + ... cancels for short times, where it is ½(d - 1)t².
    exact = (1.0 + (d - 1) * np.exp(-d * time)) / d - np.exp(-(d - 1) * time)
    variance = np.where(d * time < 1e-4, 0.5 * (d - 1) * time**2, exact)
    half, quarter = mean / 2.0, variance / 4.0
    total = half * (1.0 - half) / quarter - 1.0
    points, weights = np.polynomial.legendre.leggauss(NODES)
    shape = (half * total)[:, None], ((1.0 - half) * total)[:, None]
    return 2.0 * special.betaincinv(*shape, 0.5 * (points + 1.0)), 0.5 * weights
