"""Gradients by the layers' states, against those of the limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import deeplimit as dl
from calibration.cell import Cell, Converging
from calibration.cells.independent import SMALL, in_words
from deeplimit.papers.cases.trends import shear, shear_push

GROUP = "Gradients"
TREND = dl.Trend(shear, shear_push)


def cells() -> Iterator[Cell]:
    """Yield networks of each statement that says an order of gradients."""
    for activation, width in (
        ("tanh", 1),
        ("tanh", 6),
        ("tanh", 20),
        ("gelu", 8),
        ("sin", 4),
        ("identity", 1),
    ):
        yield _cell(f"res1, {activation}, d = {width}", dl.res1(width, activation), 0.5)
    yield _cell("res1, tanh, d = 6", dl.res1(6, "tanh"), 0.5, norm="final", **SMALL)
    yield _cell("res1, tanh, d = 6", dl.res1(6, "tanh"), 0.5, norm="sup-continuous", **SMALL)
    yield _cell("res1, tanh, d = 6", dl.res1(6, "tanh"), 0.5, quick=True, **SMALL)
    yield _cell("res1, softplus, d = 4, β = 0.7", dl.res1(4, "softplus", exponent=0.7), 0.2, **SMALL)
    smooth = dl.SmoothGaussian(0.5)
    yield _cell("res1, tanh, smooth, d = 3", dl.res1(3, "tanh", weights=smooth), 1.0, **SMALL)
    linear = dl.inner(2, "scaled_silu", trend=TREND, alpha=0.5, beta=0.5)
    yield _cell("inner, scaled_silu, trend, α = 0.5", linear, 0.5)
    yield _cell("inner, scaled_silu, trend, α = 0.5", linear, 0.5, **SMALL)
    for width, noise in ((2, 0.01), (2, 0.05), (8, 1 / 8)):
        network = dl.inner(width, "scaled_silu", noise=dl.Ito(A=noise))
        yield _cell(f"inner, scaled_silu, noise {noise:g}, d = {width}", network, 0.5)


def _cell(name: str, network: Any, truth: float, *, quick: bool = False, **settings: Any) -> Cell:
    settings["quantity"] = "gradient"
    told = {key: value for key, value in settings.items() if key != "quantity"}
    return Cell(
        GROUP,
        name + in_words(told),
        lambda seed: Converging(network, truth, settings=settings),
        quick=quick,
    )
