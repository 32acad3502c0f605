"""Weights inside the activation that shrink with the depth: Theorems 4.3 and 4.4."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import deeplimit as dl
from calibration.cell import Cell, Converging
from calibration.cells.independent import in_words
from calibration.cells.trends import (
    MIXED,
    order_of_diffusion,
    order_of_vanishing_noise,
    order_without_noise,
    square_root,
    turning,
)

LINEAR, VANISHING, DIFFUSION = "Theorem 4.3", "Theorem 4.4, ODE", "Theorem 4.4, SDE"
DEEP = [16, 32, 64, 128, 256, 512]
ALPHAS = (0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8)
BETAS = (1.2, 1.3, 1.4, 1.5, 1.75, 2.0)
WEAK = dl.Ito(A=0.02, b=0.1)
WIDTH = 4


def gelu_twice(x: Any) -> Any:
    """Return 2·GELU(x), a user's activation."""
    from torch.nn import functional

    return 2 * functional.gelu(x)


def cells() -> Iterator[Cell]:
    """Yield the cells of both theorems."""
    yield from _linear()
    yield from _vanishing()
    yield from _diffusion()


def _linear() -> Iterator[Cell]:
    for size, words in ((0.25, "weak"), (0.4, "strong"), (0.7, "very strong")):
        yield Cell(LINEAR, f"{words} trend ({size:g}), α from 0.2 to 0.8", _mixed_linear(size, DEEP))
        yield Cell(LINEAR, f"{words} trend ({size:g}), default depths", _mixed_linear(size, None))
    for activation in ("tanh", "scaled_softplus"):
        for alpha in (0.3, 0.5, 0.7):
            name = f"{activation}, α = {alpha:g}, β = {1 - alpha:g}"
            yield Cell(LINEAR, name, _fixed_linear(activation, alpha))
    yield Cell(LINEAR, "identity, α = 0.7, β = 0.3", _fixed_linear("identity", 0.7))
    yield Cell(LINEAR, "tanh, trend with √t, α = β = 0.5", _fixed_linear("tanh", 0.5, square_root))
    few: dict[str, Any] = {"depths": [16, 32, 64, 128], "paths": 20}
    for activation, alpha in (("tanh", 0.5), ("identity", 0.7)):
        yield Cell(
            LINEAR,
            f"{activation}, α = {alpha:g}, β = {1 - alpha:g}{in_words(few)}",
            _fixed_linear(activation, alpha, **few),
            quick=True,
        )


def _mixed_linear(size: float, depths: list[int] | None) -> Callable[[int], Converging]:
    settings: dict[str, Any] = {"paths": 100} if depths is None else {"paths": 100, "depths": depths}

    def make(seed: int) -> Converging:
        activation, alpha = MIXED[seed % len(MIXED)], float(np.random.default_rng(seed).choice(ALPHAS))
        network = dl.inner(WIDTH, activation, trend=turning(WIDTH, size, seed), alpha=alpha, beta=1 - alpha)
        return Converging(network, order_without_noise(activation, 1 - alpha), settings=settings)

    return make


def _fixed_linear(
    activation: str, alpha: float, trend: Callable[[int, float, int], dl.Trend] = turning, **settings: Any
) -> Callable[[int], Converging]:
    def make(seed: int) -> Converging:
        network = dl.inner(WIDTH, activation, trend=trend(WIDTH, 0.25, seed), alpha=alpha, beta=1 - alpha)
        return Converging(network, order_without_noise(activation, 1 - alpha), settings=settings)

    return make


def _vanishing() -> Iterator[Cell]:
    yield Cell(VANISHING, "weak trend (0.25), α from 0.2 to 0.8", _mixed_vanishing)
    for activation, alpha in (("tanh", 0.5), ("scaled_silu", 0.5), ("scaled_gelu", 0.4), ("sin", 0.7)):
        name = f"{activation}, α = {alpha:g}, β = {1 - alpha:g}"
        yield Cell(VANISHING, name, _fixed_vanishing(activation, alpha))


def _mixed_vanishing(seed: int) -> Converging:
    activation, alpha = MIXED[seed % len(MIXED)], float(np.random.default_rng(seed).choice(ALPHAS))
    trend = turning(WIDTH, 0.25, seed)
    network = dl.inner(WIDTH, activation, trend=trend, noise=WEAK, alpha=alpha, beta=1 - alpha)
    truth = order_of_vanishing_noise(activation, alpha)
    return Converging(network, truth, settings={"paths": 500, "depths": DEEP})


def _fixed_vanishing(activation: str, alpha: float, **settings: Any) -> Callable[[int], Converging]:
    def make(seed: int) -> Converging:
        trend = turning(WIDTH, 0.25, seed)
        network = dl.inner(WIDTH, activation, trend=trend, noise=WEAK, alpha=alpha, beta=1 - alpha)
        return Converging(network, order_of_vanishing_noise(activation, alpha), settings=settings)

    return make


def _diffusion() -> Iterator[Cell]:
    for width in (8, 16, 40):
        yield plain(width, "tanh", 1 / width, f"1/{width}", quick=width == 8)
    yield plain(8, "tanh", 1 / 64, "1/64")
    yield plain(8, "tanh", 1 / 16, "1/16")
    yield plain(8, "sin", 1 / 8, "1/8")
    yield plain(8, gelu_twice, 1 / 64, "1/64", "2·GELU as a callable")
    yield plain(8, "scaled_gelu", 1 / 16, "1/16")
    yield plain(8, "identity", 1 / 8, "1/8")
    yield plain(8, "tanh", 1 / 8, "1/8", paths=4096)
    yield plain(8, "tanh", 1 / 8, "1/8", norm="final")
    yield Cell(DIFFUSION, "mixed activations, d = 4, A = 0.02, no trend", _mixed(None))
    yield Cell(DIFFUSION, "mixed activations, d = 4, A = 0.02, β from 1.2 to 2", _mixed(0.25, fading=True))
    for size, words in ((0.25, "weak"), (0.4, "strong"), (0.7, "very strong")):
        yield Cell(DIFFUSION, f"mixed activations, d = 4, A = 0.02, {words} trend ({size:g})", _mixed(size))


def plain(
    width: int,
    activation: Any,
    rate: float,
    rate_in_words: str,
    told: str = "",
    *,
    quick: bool = False,
    **settings: Any,
) -> Cell:
    """Return a cell of `inner` with noise alone: entries of W^A have this variance at time 1, W^b has 0.1."""
    name = f"{told or activation}, d = {width}, A = {rate_in_words}{in_words(settings)}"
    network = dl.inner(width, activation, noise=dl.Ito(A=rate, b=0.1))
    return Cell(DIFFUSION, name, lambda seed: Converging(network, 0.5, settings=settings), quick=quick)


def _mixed(size: float | None, *, fading: bool = False) -> Callable[[int], Converging]:
    def make(seed: int) -> Converging:
        activation = MIXED[seed % len(MIXED)]
        beta = float(np.random.default_rng(seed).choice(BETAS)) if fading else 1.0
        trend: dict[str, Any] = (
            {} if size is None else {"trend": turning(WIDTH, size, seed), "alpha": 0.0, "beta": beta}
        )
        network = dl.inner(WIDTH, activation, noise=WEAK, **trend)
        return Converging(network, order_of_diffusion(beta), settings={"paths": 500, "depths": DEEP})

    return make
