"""Networks that read normalised states: pre-norm networks and attention."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

import deeplimit as dl
from calibration.cell import Cell, Converging
from calibration.cells.independent import SMALL, in_words

PRENORM, ATTENTION = "Pre-norm networks", "Attention"


def cells() -> Iterator[Cell]:
    """Yield pre-norm networks and attention with their SDE, their ODE and the identity."""
    smooth = dl.SmoothGaussian(0.5)
    for activation, norm, width in (("tanh", "rms", 11), ("identity", "rms", 11), ("relu", "layer", 16)):
        network = dl.ResidualNetwork(dl.PreNorm(activation, norm), width)
        yield _cell(PRENORM, f"{activation}, {norm}, d = {width}", network, 0.5)
    network = dl.ResidualNetwork(dl.PreNorm("tanh"), 16)
    yield _cell(PRENORM, "tanh, rms, d = 16", network, 0.5, quick=True, **SMALL)
    network = dl.ResidualNetwork(dl.PreNorm("tanh"), 8, exponent=0.8)
    yield _cell(PRENORM, "tanh, rms, d = 8, β = 0.8", network, 0.3)
    network = dl.ResidualNetwork(dl.PreNorm("tanh", "layer"), 6, smooth, exponent=1.0)
    yield _cell(PRENORM, "tanh, layer, d = 6, smooth", network, 1.0, **SMALL)
    for width, tokens, temperature in ((2, 2, 1.0), (3, 2, 2.0), (4, 4, 1.0), (4, 4, 8.0)):
        network = dl.attention(width, tokens=tokens, inverse_temperature=temperature)
        yield _cell(ATTENTION, f"n = {tokens}, d = {width}, κ = {temperature:g}", network, 0.5)
    network = dl.attention(4, tokens=2)
    yield _cell(ATTENTION, "n = 2, d = 4, κ = 1", network, 0.5, quick=True, **SMALL)
    weights = dl.Trend(_unit)
    for temperature in (2.0, 8.0):
        network = dl.attention(4, tokens=8, inverse_temperature=temperature, weights=weights)
        yield _cell(ATTENTION, f"n = 8, d = 4, κ = {temperature:g}, V = I", network, 1.0, **SMALL)
    network = dl.attention(4, tokens=3, weights=dl.SmoothGaussian(0.2))
    yield _cell(ATTENTION, "n = 3, d = 4, κ = 1, smooth", network, 1.0, **SMALL)


def _unit(t: float) -> torch.Tensor:
    return torch.eye(4)


def _cell(group: str, name: str, network: Any, truth: float, *, quick: bool = False, **settings: Any) -> Cell:
    return Cell(
        group,
        name + in_words(settings),
        lambda seed: Converging(network, truth, settings=settings),
        quick=quick,
    )
