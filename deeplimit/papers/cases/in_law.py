"""Limits in law: other laws than the Gaussian, two matrices per layer, and blocks of a torch module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

import torch
from torch import Tensor, nn

from deeplimit.driving import IID, Brownian
from deeplimit.equations import IsotropicSDE
from deeplimit.networks.residual_network import ResidualNetwork, module_network, res1, res2, res3
from deeplimit.papers.cases.case import LawCase, WrongTwin
from deeplimit.papers.cases.independent import NEURAL_SDE, sde_of
from deeplimit.papers.cases.wrong_limits import AlteredSDE

DONSKER, PRODUCT, MODULE = "[M] Prop. 11, in law", "res-3, in law", "modules, in law"
_SOURCE = "Marion et al. (2025), Prop. 11, with Donsker's invariance principle"
_DERIVED = "derived on the page Limits in law"
ISOTROPIC = r"dH = (2d)^{-1/2}\,\|H\|\,d\beta"
DRAWS = 16384


def cases() -> Iterator[LawCase]:
    """Yield the cases whose limit is known in law, right limits beside wrong ones."""
    yield from _other_laws()
    yield from _products()
    yield _modules()


def _other_laws() -> Iterator[LawCase]:
    """Yield res-1 with layers that are not Gaussian: sums of them tend to Brownian motion."""
    for d, activation, law in ((4, "tanh", "uniform"), (3, "relu", "rademacher")):
        network = res1(d, activation, weights=IID(law))
        sde = sde_of(res1(d, activation))
        yield LawCase(
            DONSKER,
            f"res-1, {activation}, d = {d}, {law}",
            network,
            NEURAL_SDE,
            _SOURCE,
            (_scaled(sde, 1.1), _scaled(sde, 0.9)),
            paths=DRAWS if law == "uniform" else 0,
        )
    network = res1(6, "softplus")
    sde = sde_of(network)
    wrong = (_scaled(sde, 1.1), _by_another_activation(6))
    yield LawCase(DONSKER, "res-1, softplus, d = 6, Gaussian", network, NEURAL_SDE, _SOURCE, wrong)


def _scaled(sde: object, factor: float) -> WrongTwin:
    percent = "10 % too large" if factor > 1 else "10 % too small"
    return WrongTwin(
        f"diffusion {percent}",
        AlteredSDE(sde, diffusion_scale=factor),  # type: ignore[arg-type]
        rf"dH = {factor:g}\,d^{{-1/2}}\,dB\,\sigma(H)",
        f"A constant factor {factor:g} stays at every depth.",
    )


def _by_another_activation(d: int) -> WrongTwin:
    return WrongTwin(
        "tanh for softplus",
        sde_of(res1(d, "tanh")),
        r"dH = d^{-1/2}\,dB\,\tanh(H)",
        "Another activation gives another diffusion.",
    )


def _products() -> Iterator[LawCase]:
    """Yield networks with two matrices per layer, whose product tends to an isotropic motion."""
    for setting, network, draws in (
        ("res-3, d = 8, Gaussian", res3(8), DRAWS),
        ("res-3, d = 3, Rademacher", res3(3, weights=IID("rademacher")), 0),
        ("res-3, d = 4, Gaussian and uniform", res3(4, weights=(Brownian(), IID("uniform"))), 0),
        ("res-2, ReLU, d = 4, Gaussian", res2(4, "relu"), 0),
    ):
        d = network.width
        wrong = (_rate(d, 1.1), _rate(d, 0.9)) + ((_of_res1(network),) if draws else ())
        yield LawCase(PRODUCT, setting, network, ISOTROPIC, _DERIVED, wrong, paths=draws)


def _rate(d: int, factor: float) -> WrongTwin:
    percent = "10 % too large" if factor > 1 else "10 % too small"
    return WrongTwin(
        f"isotropic diffusion {percent}",
        IsotropicSDE(d, 0.5 * factor**2),
        rf"dH = {factor:g}\,(2d)^{{-1/2}}\,\|H\|\,d\beta",
        f"A constant factor {factor:g} stays at every depth.",
    )


def _of_res1(network: ResidualNetwork) -> WrongTwin:
    return WrongTwin(
        "the limit of res-1",
        sde_of(res1(network.width, "relu")),
        r"dH = d^{-1/2}\,dB\,\mathrm{ReLU}(H)",
        "The second matrix is left out: the diffusion depends on the direction of H.",
    )


@final
class TanhBlock(nn.Module):
    """h + depth^-1/2 V tanh(h), V Gaussian with variance 1/d: a layer of res-1, written as a module."""

    def __init__(self, depth: int, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width, bias=False)
        nn.init.normal_(self.linear.weight, std=width**-0.5)
        self.scale = depth**-0.5

    def forward(self, h: Tensor) -> Tensor:
        after: Tensor = h + self.scale * self.linear(torch.tanh(h))
        return after


def tanh_blocks(depth: int) -> nn.Sequential:
    """Return the layers of res-1, width 3, as a torch module."""
    return nn.Sequential(*(TanhBlock(depth, 3) for _ in range(depth)))


def _modules() -> LawCase:
    sde = sde_of(res1(3, "tanh"))
    double = WrongTwin(
        "diffusion twice as large",
        AlteredSDE(sde, diffusion_scale=2.0),
        r"dH = 2\,d^{-1/2}\,dB\,\tanh(H)",
        "A constant factor 2 stays at every depth.",
    )
    return LawCase(
        MODULE,
        "blocks of res-1, tanh, d = 3",
        module_network(tanh_blocks, 3),
        NEURAL_SDE,
        "the blocks are those of res-1; no theorem is about modules",
        (double,),
        right=sde,
    )
