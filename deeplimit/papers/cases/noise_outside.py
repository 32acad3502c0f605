"""Independent layers outside σ, and functions of time inside."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor

from deeplimit.driving import Brownian, FunctionLaw, SmoothGaussian, Trend
from deeplimit.equations import MixedSDE
from deeplimit.layers import activations
from deeplimit.networks.residual_network import ResidualNetwork, res1, res2
from deeplimit.papers.cases.case import Case, WrongTwin, other_path
from deeplimit.papers.cases.isotropic import louder
from deeplimit.papers.cases.trends import WIDTH, mixing

STATEMENT, SOURCE = "res-2, V noise", "derived on the page Proposition 11"
EQUATION = r"dH = d^{-1/2}\,dB\,\sigma(W_t H)"


def turning(t: float) -> Tensor:
    """Return W(t) (4, 4): the identity and a matrix that turns with time."""
    return torch.eye(WIDTH) + mixing(t)


def _network(inside: FunctionLaw) -> ResidualNetwork:
    return res2(WIDTH, "tanh", weights=(Brownian(), inside))


def cases() -> Iterator[Case]:
    """Yield a W that is given, and one that is random."""
    network = _network(Trend(turning))
    limit = cast(MixedSDE, network.limit())
    left_out = WrongTwin(
        "W left out",
        res1(WIDTH, "tanh").limit(),
        r"dH = d^{-1/2}\,dB\,\sigma(H)",
        "A layer reads W h, and W is not the identity.",
    )
    larger = WrongTwin(
        "diffusion 10 % too large",
        dataclasses.replace(limit, activation=louder(activations.resolve("tanh"), 1.1)),
        r"dH = 1.1\,d^{-1/2}\,dB\,\sigma(W_t H)",
        "A constant factor 1.1 stays at every depth.",
    )
    kept = WrongTwin(
        "W kept at time 0",
        dataclasses.replace(limit, inside=Trend(_first)),
        r"dH = d^{-1/2}\,dB\,\sigma(W_0 H)",
        "W changes with time, at every depth.",
    )
    setting = "tanh, W given"
    wrong = (left_out, larger, kept)
    yield Case(STATEMENT, setting, network, EQUATION, 0.5, SOURCE, wrong, paths=1500)
    network = _network(SmoothGaussian(0.5))
    wrong_path = other_path(network.limit(), EQUATION)
    setting = "tanh, smooth random W"
    yield Case(STATEMENT, setting, network, EQUATION, 0.5, SOURCE, (wrong_path,), paths=1500)


def _first(t: float) -> Tensor:
    return turning(0.0)
