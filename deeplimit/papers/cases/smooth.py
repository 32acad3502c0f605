"""Weights that are smooth functions of time: the neural ODE."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from deeplimit.driving import SmoothGaussian, Trend
from deeplimit.equations import Independent
from deeplimit.networks.residual_network import inner, res1, res2, res3
from deeplimit.papers.cases.case import Case, WrongTwin, other_path
from deeplimit.papers.cases.independent import NEURAL_SDE, sde_of
from deeplimit.papers.cases.trends import WIDTH, rotation

PROPOSITION_12, PROPOSITION_14 = "[M] Prop. 12", "[M] Prop. 14"
_SOURCE = "Marion et al. (2025), Prop. 12"
RES1_ODE = r"dH = V_t\,\sigma(H)\,dt"


def cases(width: int = WIDTH) -> Iterator[Case]:
    """Yield the cases with smooth weights, of this width where the trend does not fix it."""
    smooth = SmoothGaussian(0.2)
    sde = WrongTwin(
        "SDE for the ODE network",
        Independent(sde_of(res1(width, "tanh"))),
        NEURAL_SDE,
        "The weights are one function of time, and not independent from layer to layer.",
    )
    for network, equation, more in (
        (res1(width, "tanh", weights=smooth), RES1_ODE, (sde,)),
        (res2(width, "tanh", weights=smooth), r"dH = V_t\,\sigma(W_t H)\,dt", ()),
        (res3(width, weights=smooth), r"dH = V_t\,\mathrm{ReLU}(W_t H)\,dt", ()),
    ):
        name = network.recursion.name
        wrong = (other_path(network.limit(), equation, "other smooth weights"), *more)
        setting = f"{name}, {network.recursion.activation.name}, smooth weights"
        short = "res-1, smooth" if name == "res1" else f"{name}, smooth"
        yield Case(PROPOSITION_12, setting, network, equation, 1.0, _SOURCE, wrong, paths=600, short=short)
    network = inner(width, "tanh", weights=smooth)
    equation, short = r"dH = \sigma(W_t H + b_t)\,dt", "inner, smooth"
    wrong = (other_path(network.limit(), equation, "other smooth weights"),)
    yield Case(PROPOSITION_12, short, network, equation, 1.0, _SOURCE, wrong, short=short)
    yield _spiral()
    yield _explosion()


def _spiral() -> Case:
    backwards = WrongTwin(
        "the spiral turned backwards",
        res1(2, "tanh", weights=Trend(_counter_rotation)).limit(),
        r"dH = A(t)^\top\sigma(H)\,dt",
        "The transposed matrix turns states the other way.",
    )
    network, equation = res1(2, "tanh", weights=Trend(rotation)), r"dH = A(t)\,\sigma(H)\,dt"
    return Case(PROPOSITION_12, "spiral", network, equation, 1.0, _SOURCE, (backwards,), short="spiral")


def _counter_rotation(t: float) -> Tensor:
    return rotation(t).T


def _unit(t: float) -> Tensor:
    return torch.eye(2)


def _explosion() -> Case:
    """Return a network that has no limit, in closed form."""
    expected = WrongTwin(
        "ODE of β = 1 at β = 0.75",
        res1(2, "identity", weights=Trend(_unit)).limit(),
        r"dH = H\,dt",
        "h_L = (1 + L^-0.75)^L h_0, which grows as exp(L^0.25), whereas H_1 = e h_0.",
    )
    return Case(
        PROPOSITION_14,
        "res-1, identity, V = I, β = 0.75: explosion",
        res1(2, "identity", weights=Trend(_unit), exponent=0.75),
        r"h_L = (1 + L^{-3/4})^L\,h_0 \to \infty",
        None,
        "closed form, after Marion et al. (2025), Prop. 14",
        (expected,),
    )
