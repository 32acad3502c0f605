"""Attention: the clustering ODE, and the noisy transformer SDE."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast, final

import torch
from torch import Tensor

from deeplimit.driving import IID, SmoothGaussian, Trend
from deeplimit.equations import AttentionSDE, NeuralODE, SDELimit
from deeplimit.layers import Attention
from deeplimit.layers.attention import polar
from deeplimit.networks.architectures import attention
from deeplimit.networks.residual_network import ResidualNetwork
from deeplimit.papers.cases.case import Case, LawCase, WrongTwin, other_path

GESHKOVSKI, FEDOROV = "Geshkovski et al.", "Fedorov et al."
_CLUSTERING = r"dH_i = \|H_i\|\,P_i V_t\,m_i^{\kappa}\,dt"
_NOISY = r"dU_i = d^{-1/2} P_i\,dB\,m_i^{\kappa} - \frac{d-1}{2d}\,\|m_i^{\kappa}\|^2\,U_i\,dt"
_SOURCES = ("Geshkovski et al. (2023)", "Fedorov et al. (2026)")


def _unit(t: float) -> Tensor:
    return torch.eye(4)


@final
@dataclass(frozen=True)
class WithoutDrift(SDELimit):
    """dU_i = d^-½ P_i dB m_i: the noisy transformer SDE without the drift that holds tokens on spheres."""

    sde: AttentionSDE

    @property
    def equation(self) -> str:
        return "dU_i = (1/√d) P_i dB m_i"

    def noise_size(self, h: Tensor) -> int | None:
        return self.sde.noise_size(h)

    def increment(self, time: float, step: float, h: Tensor, noise: Tensor) -> Tensor:
        return self.sde.g_prod(time, h, noise)


@final
@dataclass(frozen=True)
class WithoutProjection:
    """dH_i = ‖H_i‖ m_i dt: the clustering ODE for V = I, without the projection on the sphere."""

    recursion: Attention

    def __call__(self, t: float, h: Tensor) -> Tensor:
        size, u = polar(h)
        return size * self.recursion.mean_field(u)


def _attention_of(network: ResidualNetwork) -> Attention:
    return cast(Attention, network.recursion)


def _colder(network: ResidualNetwork, limit: NeuralODE | AttentionSDE, equation: str) -> WrongTwin:
    recursion = _attention_of(network)
    twice = dataclasses.replace(recursion, inverse_temperature=2.0 * recursion.inverse_temperature)
    return WrongTwin(
        "twice the inverse temperature",
        dataclasses.replace(limit, recursion=twice),
        equation.replace(r"\kappa", r"2\kappa"),
        "At 2κ tokens attend less to those that are far away, at every depth.",
    )


def cases() -> Iterator[Case]:
    """Yield attention with V = I, with random functions of time, and with independent layers."""
    yield from _clustering()
    yield from _noisy()


def _clustering() -> Iterator[Case]:
    network = attention(4, tokens=8, inverse_temperature=2.0, weights=Trend(_unit))
    limit, equation = cast(NeuralODE, network.limit()), _CLUSTERING.replace(" V_t", "")
    free = WrongTwin(
        "projection left out of the equation",
        WithoutProjection(_attention_of(network)),
        r"dH_i = \|H_i\|\,m_i^{\kappa}\,dt",
        "Without the projection norms grow, whereas every layer keeps them.",
    )
    wrong = (_colder(network, limit, equation), free)
    yield Case(
        GESHKOVSKI, "V = I, n = 8, d = 4, κ = 2", network, equation, 1.0, _SOURCES[0], wrong, paths=200
    )
    network = attention(4, tokens=3, weights=SmoothGaussian(0.2))
    other = other_path(network.limit(), _CLUSTERING, "other smooth weights")
    setting = "smooth V, n = 3, d = 4, κ = 1"
    yield Case(GESHKOVSKI, setting, network, _CLUSTERING, 1.0, _SOURCES[0], (other,), paths=200)


def _noisy() -> Iterator[Case]:
    network = attention(3, tokens=2, inverse_temperature=2.0)
    limit = cast(AttentionSDE, network.limit())
    dropped = WrongTwin(
        "drift left out",
        WithoutDrift(limit),
        r"dU_i = d^{-1/2} P_i\,dB\,m_i^{\kappa}",
        "Noise along the sphere alone moves tokens off it.",
    )
    wrong = (dropped, _colder(network, limit, _NOISY))
    setting = "n = 2, d = 3, κ = 2"
    yield Case(FEDOROV, setting, network, _NOISY, 0.5, _SOURCES[1], wrong, paths=1500)
    network = attention(4, tokens=4)
    other = other_path(network.limit(), _NOISY)
    setting = "n = 4, d = 4, κ = 1"
    yield Case(FEDOROV, setting, network, _NOISY, 0.5, _SOURCES[1], (other,), paths=1000)


def law_cases() -> Iterator[LawCase]:
    """Yield attention whose layers are uniform."""
    network = attention(3, tokens=2, inverse_temperature=2.0, weights=IID("uniform"))
    limit = cast(AttentionSDE, network.limit())
    wrong = (_colder(network, limit, _NOISY),)
    source = f"{_SOURCES[1]}, with Donsker's invariance principle"
    yield LawCase(f"{FEDOROV}, in law", "n = 2, d = 3, κ = 2, uniform", network, _NOISY, source, wrong)
