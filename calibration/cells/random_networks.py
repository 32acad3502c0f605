"""Networks drawn at random from the seed: activation, width, law, exponents, norm, trend, depths, paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import deeplimit as dl
from calibration.cell import Cell, Converging
from calibration.cells.trends import (
    CURVED,
    ODD,
    order_of_diffusion,
    order_of_vanishing_noise,
    order_without_noise,
    turning,
)

GROUP = "Networks drawn at random"
ACTIVATIONS = ("tanh", "sin", "erf", "relu", "leaky_relu", "elu", "silu", "gelu", "softplus", "identity")
DEPTHS = (
    [16, 32, 64, 128, 256],
    [8, 16, 32, 64, 128],
    [4, 8, 16, 32, 64],
    [10, 20, 50, 100, 200],
    [16, 32, 64, 128],
    [16, 32, 64, 128, 256, 512],
)
STATES = 60_000
"""States per layer, paths times width, of the largest call: about two seconds."""


def cells() -> Iterator[Cell]:
    """Yield one cell per family of networks."""
    yield Cell(GROUP, "Proposition 11: res1, width 1 to 64, 256 to 60,000 paths", _drawn(_independent, 256))
    yield Cell(GROUP, "Identity: res1 and res3, β from 0.6 to 1.2", _drawn(_vanishing_branch, 256))
    yield Cell(GROUP, "Proposition 12: res1, res2, res3, smooth weights", _drawn(_smooth, 64, 20_000))
    yield Cell(GROUP, "Theorem 4.3: trend 0.1 to 0.7, α from 0.2 to 0.8", _drawn(_trend, 64, 4000))
    yield Cell(GROUP, "Theorem 4.4, ODE: trend 0.1 to 0.5, α from 0.2 to 0.8", _drawn(_trend_and_noise, 256))
    yield Cell(GROUP, "Theorem 4.4, SDE: variance up to 1/d, trend up to 0.3", _drawn(_diffusion, 256))


Draw = Callable[[np.random.Generator, int], tuple[Any, float]]


def _drawn(draw: Draw, least_paths: int, states: int = STATES) -> Callable[[int], Converging]:
    """Return the call on a network that `draw` makes, with settings drawn as well."""

    def make(seed: int) -> Converging:
        choice = np.random.default_rng(seed)
        network, truth = draw(choice, seed)
        most = max(states / network.width, least_paths + 1)
        settings = {
            "paths": int(np.exp(choice.uniform(np.log(least_paths), np.log(most)))),
            "depths": DEPTHS[choice.integers(len(DEPTHS))],
            "norm": str(choice.choice(["sup", "sup", "final", "sup-continuous"])),
        }
        return Converging(network, truth, settings=settings)

    return make


def _width(choice: np.random.Generator, most: int = 64) -> int:
    return int(np.exp(choice.uniform(0.0, np.log(most + 1))))


def _independent(choice: np.random.Generator, seed: int) -> tuple[Any, float]:
    return dl.res1(_width(choice), str(choice.choice(ACTIVATIONS))), 0.5


def _vanishing_branch(choice: np.random.Generator, seed: int) -> tuple[Any, float]:
    exponent, width = round(float(choice.uniform(0.6, 1.2)), 2), _width(choice, 40)
    if choice.random() < 0.3:
        return dl.res3(width, exponent=exponent), exponent - 0.5
    return dl.res1(width, str(choice.choice(ACTIVATIONS)), exponent=exponent), exponent - 0.5


def _smooth(choice: np.random.Generator, seed: int) -> tuple[Any, float]:
    weights, width = dl.SmoothGaussian(float(choice.uniform(0.05, 0.5))), _width(choice, 8)
    kind, activation = int(choice.integers(3)), str(choice.choice(("tanh", "sin", "relu", "silu")))
    if kind == 2:
        return dl.res3(width, weights=weights), 1.0
    return (dl.res1, dl.res2)[kind](width, activation, weights=weights), 1.0


def _trend(choice: np.random.Generator, seed: int) -> tuple[Any, float]:
    activation, alpha = str(choice.choice(ODD + CURVED)), round(float(choice.uniform(0.2, 0.8)), 2)
    width = _width(choice, 16)
    trend = turning(width, float(choice.uniform(0.1, 0.7)) * (4 / max(width, 4)) ** 0.5, seed)
    network = dl.inner(width, activation, trend=trend, alpha=alpha, beta=1 - alpha)
    return network, order_without_noise(activation, 1 - alpha)


def _trend_and_noise(choice: np.random.Generator, seed: int) -> tuple[Any, float]:
    activation, alpha = str(choice.choice(ODD + CURVED)), round(float(choice.uniform(0.2, 0.8)), 2)
    width = _width(choice, 16)
    trend = turning(width, float(choice.uniform(0.1, 0.5)) * (4 / max(width, 4)) ** 0.5, seed)
    noise = dl.Ito(A=float(choice.uniform(0.02, 0.3)) / width, b=0.1)
    network = dl.inner(width, activation, trend=trend, noise=noise, alpha=alpha, beta=1 - alpha)
    return network, order_of_vanishing_noise(activation, alpha)


def _diffusion(choice: np.random.Generator, seed: int) -> tuple[Any, float]:
    """Curved activations have at most a quarter of the variance 1/d: with more their limit may explode."""
    activation, width = str(choice.choice(ODD + CURVED)), _width(choice, 40)
    most = 0.25 if activation in CURVED else 1.0
    noise = dl.Ito(A=float(choice.uniform(0.1, most)) / width, b=float(choice.uniform(0.02, 0.2)))
    beta = float(choice.choice([1.0, 1.0, 1.3, 1.5, 2.0]))
    if choice.random() < 0.5:
        return dl.inner(width, activation, noise=noise), 0.5
    trend = turning(width, float(choice.uniform(0.05, 0.3)) * (4 / max(width, 4)) ** 0.5, seed)
    network = dl.inner(width, activation, trend=trend, noise=noise, alpha=0.0, beta=beta)
    return network, order_of_diffusion(beta)
