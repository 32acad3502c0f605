"""`diagnose` of weights at several depths, whose trend and noise are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from calibration import depth_sweeps as known
from calibration.cell import Cell, Diagnosing

GROUP, SEEDS = "Trained weights", "Trained weights, two seeds"
CALLS = 200
WIDTHS = (1, 4, 10, 32)
RANGES = {"L = 8 to 1024": known.DEPTHS, "L = 16 to 256": (16, 32, 64, 128, 256)}
Make = Callable[[np.random.Generator, int, tuple[int, ...]], Mapping[int, Any]]


def trend(beta: float, noise: float = 0.0, waves: tuple[int, ...] = (0, 1, 2, 3)) -> Make:
    """Return sweeps L^-β Ā(k/L) with Ā a sum of cosines, and Brownian increments of this size."""
    return lambda rng, width, depths: known.sweep(
        rng, known.smooth(rng, width, waves), beta, noise, width, depths
    )


LAWS: dict[str, tuple[Make, str, str, float]] = {
    "smooth trend, β = 0.3": (trend(0.3), "linear-ode", "beta", 0.3),
    "smooth trend, β = 0.7": (trend(0.7), "linear-ode", "beta", 0.7),
    "smooth trend without integral, β = 0.3": (trend(0.3, waves=(1, 2, 3)), "linear-ode", "beta", 0.3),
    "trend of Hölder index 1/2, β = 0.3": (
        lambda rng, width, depths: known.sweep(rng, known.rough(rng, width), 0.3, 0.0, width, depths),
        "linear-ode",
        "beta",
        0.3,
    ),
    "smooth trend that keeps its size": (trend(0.0), "neural-ode", "beta", 0.0),
    "trend, β = 0.3, noise of size 0.3": (trend(0.3, 0.3), "sde", "beta", 0.3),
    "trend, β = 0.3, noise of size 1": (trend(0.3, 1.0), "sde", "beta", 0.3),
    "trend, β = 0.8, noise of size 1": (trend(0.8, 1.0), "sde", "beta", 0.8),
    "Brownian increments": (
        lambda rng, width, depths: known.sweep(rng, None, 0.0, 1.0, width, depths),
        "no trend",
        "hurst",
        0.5,
    ),
    "fractional increments, H = 0.25": (
        lambda rng, width, depths: known.fractional(rng, 0.25, width, depths),
        "no trend",
        "hurst",
        0.25,
    ),
    "fractional increments, H = 0.75": (
        lambda rng, width, depths: known.fractional(rng, 0.75, width, depths),
        "no trend",
        "hurst",
        0.75,
    ),
    "three large layers": (
        lambda rng, width, depths: known.sparse(rng, width, depths=depths),
        "sparse",
        "beta",
        float("nan"),
    ),
}


def diagnosing(law: str, width: int, depths: tuple[int, ...]) -> Callable[[int], Diagnosing]:
    """Return the call of `diagnose` on weights of this law."""
    make, word, exponent, truth = LAWS[law]
    return lambda seed: Diagnosing(
        f"{law}, d = {width}", lambda rng: make(rng, width, depths), truth, (word,), exponent
    )


def replicated(make: Make) -> Make:
    """Return two networks at each depth, each with a trend of its own, as each training has its optimum."""
    return lambda rng, width, depths: {
        depth: [make(rng, width, (depth,))[depth] for _ in range(2)] for depth in depths
    }


def of_two_seeds(law: str) -> Callable[[int], Diagnosing]:
    """Return the call of `diagnose` on two seeds of this law at each depth."""
    make, word, exponent, truth = LAWS[law]
    both, width, depths = replicated(make), 10, RANGES["L = 16 to 256"]
    return lambda seed: Diagnosing(
        f"{law}, two seeds", lambda rng: both(rng, width, depths), truth, (word,), exponent
    )


def cells() -> Iterator[Cell]:
    """Yield the cells of `diagnose` over depths."""
    for law in LAWS:
        for width in WIDTHS:
            for told, depths in RANGES.items():
                quick = width == 10 and depths == RANGES["L = 16 to 256"] and "β" in law
                yield Cell(GROUP, f"{law}, d = {width}, {told}", diagnosing(law, width, depths), quick=quick)
    for law in LAWS:
        name = f"{law}, d = 10, L = 16 to 256, two seeds"
        yield Cell(SEEDS, name, of_two_seeds(law), quick=law == "Brownian increments", calls=CALLS)
