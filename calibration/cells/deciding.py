"""Right limits at sensible widths: the cells whose shares the library is judged by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

import deeplimit as dl
from calibration.cell import Cell, Converging

GROUP, ADAPTIVE, CALLS = "Calls that decide", "Calls that decide, of any size", 400
SIZES: dict[str, dict[str, Any]] = {GROUP: {}, ADAPTIVE: {"depths": "auto", "paths": "auto"}}
TURN = torch.tensor(
    [[0.3, 0.6, 0.0, 0.0], [-0.6, 0.3, 0.0, 0.0], [0.0, 0.0, -0.4, 0.2], [0.0, 0.0, 0.2, 0.1]]
)


def cells() -> Iterator[Cell]:
    """Yield Propositions 11 and 12, Theorems 4.3 and 4.4, Young equations and gradients, of both sizes."""
    for group, sizes in SIZES.items():
        for name, network, truth, settings in _calls():
            yield _cell(group, name, network, truth, {**sizes, **settings})


def _calls() -> Iterator[tuple[str, Any, float, dict[str, Any]]]:
    for activation in ("tanh", "relu", "gelu"):
        for width in (1, 6):
            yield f"Proposition 11, {activation}, d = {width}", dl.res1(width, activation), 0.5, {}
    yield "Proposition 11, tanh, d = 40", dl.res1(40, "tanh"), 0.5, {}
    for width in (1, 6):
        smooth = dl.res1(width, "tanh", weights=dl.SmoothGaussian())
        yield f"Proposition 12, tanh, d = {width}", smooth, 1.0, {}
    trend = dl.Trend(_trend)
    yield "Theorem 4.3, tanh, d = 4", dl.inner(4, "tanh", trend=trend), 1.0, {}
    curved = dl.inner(4, "scaled_silu", trend=trend, alpha=0.5, beta=0.5)
    yield "Theorem 4.3, scaled_silu, d = 4, α = 0.5", curved, 0.5, {}
    for width in (2, 4, 8):
        noisy = dl.inner(width, "tanh", noise=dl.Ito(A=1 / width))
        yield f"Theorem 4.4, tanh, d = {width}", noisy, 0.5, {}
    for activation in ("scaled_gelu", "scaled_silu"):
        curved = dl.inner(8, activation, noise=dl.Ito(A=1 / 8))
        yield f"Theorem 4.4, {activation}, d = 8", curved, 0.5, {}
    for width in (2, 4):
        rough = dl.res1(width, "tanh", weights=dl.FractionalBrownian(0.7))
        yield f"Young, H = 0.7, tanh, d = {width}", rough, 0.4, {}
    yield "gradients, tanh, d = 4", dl.res1(4, "tanh"), 0.5, {"quantity": "gradient"}


def _trend(t: float) -> torch.Tensor:
    return TURN * (1.0 + t)


def _cell(group: str, name: str, network: Any, truth: float, settings: dict[str, Any]) -> Cell:
    return Cell(group, name, lambda seed: Converging(network, truth, settings=settings), calls=CALLS)
