"""`diagnose` of one network, whose layers follow a known process over depth."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy import linalg

from calibration.cell import Cell, Examining

GROUP, SEEDS = "One network", "Seeds of one network"
WIDTH = 32
DEPTHS = (12, 24, 48)
REPLICATES, CALLS = 3, 200
SPECTRA = {"white entries": 0.0, "spectra 1/j": 1.0, "spectra 1/j^1.5": 1.5}
Covariance = Callable[[int], np.ndarray]


def lags(depth: int) -> np.ndarray:
    """Return the distances of layers (L, L)."""
    return np.abs(np.subtract.outer(np.arange(depth), np.arange(depth))).astype(float)


def fractional(hurst: float) -> Covariance:
    """Return the covariance of fractional noise."""

    def covariance(depth: int) -> np.ndarray:
        distance = lags(depth)
        powers = [np.abs(distance + shift) ** (2 * hurst) for shift in (1, -1, 0)]
        found: np.ndarray = 0.5 * (powers[0] + powers[1]) - powers[2]
        return found

    return covariance


def trend(noise: float) -> Covariance:
    """Return the covariance of a smooth trend of length L/4 with this share of independent noise."""
    return lambda depth: (
        (1 - noise) * np.exp(-0.5 * (4 * lags(depth) / depth) ** 2) + (noise + 1e-9) * np.eye(depth)
    )


LAWS: dict[str, tuple[Covariance, str, float]] = {
    "independent layers": (np.eye, "independent", 0.5),
    "a common part of 1/2": (lambda depth: 0.5 + 0.5 * np.eye(depth), "common trend", 0.5),
    "smooth trend": (trend(0.0), "smooth trend", math.nan),
    "smooth trend, noise share 0.2": (trend(0.2), "smooth trend", math.nan),
    "fractional noise, H = 0.2": (fractional(0.2), "rough", 0.2),
    "fractional noise, H = 0.8": (fractional(0.8), "rough", 0.8),
}


def layers(rng: np.random.Generator, covariance: np.ndarray, power: float) -> np.ndarray:
    """Return Gaussian layers (L, d, d), this covariance over depth; rows and columns have spectra j^-p."""
    sizes = np.arange(1, WIDTH + 1) ** (-power / 2)
    white = rng.normal(size=(len(covariance), WIDTH * WIDTH)).reshape(len(covariance), WIDTH, WIDTH)
    over_depth = linalg.cholesky(covariance, lower=True)
    found: np.ndarray = np.einsum("kl,lij->kij", over_depth, white * sizes[:, None] * sizes)
    return found


def examining(law: str, depth: int, power: float, seeds: int = 1) -> Callable[[int], Examining]:
    """Return the call of `diagnose` on networks of this law."""
    covariance, word, hurst = LAWS[law]
    return lambda seed: Examining(
        f"{law}, L = {depth}", lambda rng: layers(rng, covariance(depth), power), hurst, (word,), seeds
    )


def cells() -> Iterator[Cell]:
    """Yield the cells of `diagnose` for one network."""
    for law in LAWS:
        for depth in DEPTHS:
            for told, power in SPECTRA.items():
                quick = depth == 24 and power == 1.0
                yield Cell(GROUP, f"{law}, L = {depth}, {told}", examining(law, depth, power), quick=quick)
    for law in LAWS:
        for depth in DEPTHS[:2]:
            make = examining(law, depth, 1.0, REPLICATES)
            yield Cell(SEEDS, f"{law}, L = {depth}, three seeds", make, quick=depth == DEPTHS[0], calls=CALLS)
