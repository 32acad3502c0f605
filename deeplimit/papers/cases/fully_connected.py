"""Fully connected networks with a factor δ per layer: the neural ODE in which δ stays."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from deeplimit.driving import Trend
from deeplimit.equations import NeuralODE
from deeplimit.layers import Inner, activations
from deeplimit.networks.architectures import fully_connected
from deeplimit.papers.cases.case import Case, WrongTwin
from deeplimit.papers.cases.trends import WIDTH, mixing, push, sphere

STATEMENT = "[C] (2) with δ"
_SOURCE = "Cohen et al. (2021), (2), after Thorpe and van Gennip (2018)"
_EQUATION = r"dH = \delta_t\,\sigma(A_t H + b_t)\,dt"


def _falling(t: float) -> Tensor:
    return torch.tensor(1.0 - 1.6 * t)


def cases() -> Iterator[Case]:
    """Yield a shared δ, and one δ per layer; the wrong twin leaves it out."""
    weights = Trend(mixing, push)
    dropped = WrongTwin(
        "δ left out",
        NeuralODE(Inner(activations.resolve("tanh")), (weights,), WIDTH),
        r"dH = \sigma(A_t H + b_t)\,dt",
        "Every layer is multiplied by δ, at every depth.",
    )
    for setting, delta in (("tanh, one δ for all layers", 0.5), ("tanh, one δ per layer", Trend(_falling))):
        network = fully_connected(WIDTH, "tanh", weights=weights, delta=delta)
        yield Case(STATEMENT, setting, network, _EQUATION, 1.0, _SOURCE, (dropped,), sphere())
