"""Independent layers whose branch has an isotropic covariance, and layers that average out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast, final

import torch
from torch import Tensor

from deeplimit.driving import IID
from deeplimit.equations import IsotropicSDE, RadialSDE
from deeplimit.layers.activations import Activation
from deeplimit.networks.architectures import fully_connected
from deeplimit.networks.residual_network import ResidualNetwork, inner, res1, res2
from deeplimit.papers.cases.case import Case, LawCase, WrongTwin
from deeplimit.papers.cases.in_law import DRAWS
from deeplimit.papers.cases.independent import sde_of

STATEMENT, AVERAGED = "isotropic, in law", "averaged layers"
SOURCE = "derived on the page Limits in law"
RADIAL = r"dH = (E\,\sigma(\|H\| Z/\sqrt{d})^2)^{1/2}\,d\beta"
MEAN = r"dH = E\,\sigma(\|H\| Z/\sqrt{d})\,\mathbf{1}\,dt"


@final
@dataclass(frozen=True)
class Times:
    """A function times a number."""

    factor: float
    function: Any

    def __call__(self, x: Tensor) -> Tensor:
        product: Tensor = self.factor * self.function(x)
        return product


def louder(activation: Activation, factor: float) -> Activation:
    """Return an activation times a number."""
    return Activation(f"{factor:g} {activation.name}", Times(factor, activation))


def _scaled(limit: RadialSDE, factor: float) -> WrongTwin:
    percent = "10 % too large" if factor > 1 else "10 % too small"
    return WrongTwin(
        f"isotropic diffusion {percent}",
        dataclasses.replace(limit, activation=louder(limit.activation, factor)),
        RADIAL.replace("(E", f"{factor:g}\\,(E"),
        f"A constant factor {factor:g} stays at every depth.",
    )


def _tangent(width: int) -> WrongTwin:
    return WrongTwin(
        "σ as its tangent at 0",
        IsotropicSDE(width, 1.0),
        r"dH = d^{-1/2}\,\|H\|\,d\beta",
        "Entries of W h are of size |h|/√d, at which σ bends, at every depth.",
    )


def law_cases() -> Iterator[LawCase]:
    """Yield branches with mean 0 given the state."""
    network = res2(4, "tanh")
    wrong: tuple[WrongTwin, ...] = (_scaled(_radial(network), 1.1), _tangent(4), _of_res1(network))
    yield LawCase(STATEMENT, "res-2, tanh, d = 4", network, RADIAL, SOURCE, wrong, paths=DRAWS)
    network = inner(3, "sin")
    wrong = (_scaled(_radial(network), 0.9), _tangent(3))
    yield LawCase(STATEMENT, "inner, sin, d = 3", network, RADIAL, SOURCE, wrong, paths=DRAWS)
    network = fully_connected(4, "tanh")
    half = WrongTwin(
        "δ = 1/2",
        dataclasses.replace(_radial(network), activation=louder(network.recursion.activation, 0.5)),
        RADIAL.replace("(E", "0.5\\,(E"),
        "δ multiplies every layer.",
    )
    yield LawCase(STATEMENT, "fully connected, δ = 1, tanh, d = 4", network, RADIAL, SOURCE, (half,))
    network = res2(3, "softplus")
    yield LawCase(
        STATEMENT, "res-2, softplus, d = 3", network, RADIAL, SOURCE, (_scaled(_radial(network), 1.1),)
    )
    network = res2(4, "identity", weights=IID("uniform"))
    fewer = WrongTwin(
        "half of the diffusion, as for ReLU",
        IsotropicSDE(4, 0.5),
        r"dH = (2d)^{-1/2}\,\|H\|\,d\beta",
        "The identity passes all of W h, ReLU half of its squares.",
    )
    equation = r"dH = d^{-1/2}\,\|H\|\,d\beta"
    yield LawCase(STATEMENT, "res-2, identity, d = 4, uniform", network, equation, SOURCE, (fewer,))


def _radial(network: ResidualNetwork) -> RadialSDE:
    limit = cast(RadialSDE, network.limit())
    return limit


def _of_res1(network: ResidualNetwork) -> WrongTwin:
    return WrongTwin(
        "the limit of res-1",
        sde_of(res1(network.width, network.recursion.activation)),
        r"dH = d^{-1/2}\,dB\,\tanh(H)",
        "The second matrix is left out: the diffusion depends on the direction of H.",
    )


@final
@dataclass(frozen=True)
class AtTheMean:
    """dH = σ(0) 1 dt: σ of the mean of W h, instead of the mean of σ(W h)."""

    activation: Activation

    def __call__(self, t: float, h: Tensor) -> Tensor:
        return torch.full_like(h, self.activation.at_zero)


def cases() -> Iterator[Case]:
    """Yield layers inside an activation that is not odd, whose means add up to an ODE."""
    for activation, width in (("softplus", 4), ("relu", 3)):
        network = inner(width, activation, exponent=1.0)
        wrong = WrongTwin(
            "σ of the mean for the mean of σ",
            AtTheMean(network.recursion.activation),
            r"dH = \sigma(0)\,\mathbf{1}\,dt",
            "σ is bent between -‖h‖/√d and ‖h‖/√d, over which every layer averages.",
        )
        yield Case(
            AVERAGED,
            f"inner, {activation}, d = {width}",
            network,
            MEAN,
            0.5,
            SOURCE,
            (wrong,),
            paths=500 if activation == "softplus" else 0,
        )
