"""Right limits at sensible widths, in plain calls: the cells whose shares the library is judged by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

import deeplimit as dl
from calibration.cell import Cell, Converging

GROUP, CALLS = "Calls that decide", 400
TURN = torch.tensor(
    [[0.3, 0.6, 0.0, 0.0], [-0.6, 0.3, 0.0, 0.0], [0.0, 0.0, -0.4, 0.2], [0.0, 0.0, 0.2, 0.1]]
)


def cells() -> Iterator[Cell]:
    """Yield Propositions 11 and 12, Theorems 4.3 and 4.4, Young equations and gradients."""
    for activation in ("tanh", "relu", "gelu"):
        for width in (1, 6):
            yield _cell(f"Proposition 11, {activation}, d = {width}", dl.res1(width, activation), 0.5)
    yield _cell("Proposition 12, tanh, d = 6", dl.res1(6, "tanh", weights=dl.SmoothGaussian()), 1.0)
    yield _cell("Theorem 4.3, tanh, d = 4", dl.inner(4, "tanh", trend=dl.Trend(_trend)), 1.0)
    for width in (2, 4, 8):
        yield _cell(
            f"Theorem 4.4, tanh, d = {width}", dl.inner(width, "tanh", noise=dl.Ito(A=1 / width)), 0.5
        )
    curved = dl.inner(8, "scaled_gelu", noise=dl.Ito(A=1 / 8))
    yield _cell("Theorem 4.4, scaled_gelu, d = 8", curved, 0.5)
    rough = dl.FractionalBrownian(0.7)
    yield _cell("Young, H = 0.7, tanh, d = 2", dl.res1(2, "tanh", weights=rough), 0.4)
    yield _cell("gradients, tanh, d = 4", dl.res1(4, "tanh"), 0.5, quantity="gradient")


def _trend(t: float) -> torch.Tensor:
    return TURN * (1.0 + t)


def _cell(name: str, network: Any, truth: float, **settings: Any) -> Cell:
    chosen = {"depths": "auto", "paths": "auto", **settings}
    return Cell(GROUP, name, lambda seed: Converging(network, truth, settings=chosen), calls=CALLS)
