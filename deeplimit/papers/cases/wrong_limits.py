"""Limits that are wrong in exactly one way, and must be rejected."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.driving import functions_of
from deeplimit.driving.covariance_rate import Rate
from deeplimit.equations import ItoCorrectedSDE, NeuralODE, NeuralSDE, NeuralYoung
from deeplimit.networks.residual_network import ResidualNetwork


@dataclass(frozen=True)
class AlteredSDE:
    """A torchsde object: a neural SDE with its diffusion scaled, its noise transposed or a drift added."""

    sde: NeuralSDE
    diffusion_scale: float = 1.0
    transpose: bool = False
    drift: Callable[[Tensor], Tensor] = torch.zeros_like
    sde_type: ClassVar[str] = "ito"
    noise_type: ClassVar[str] = "general"

    def __post_init__(self) -> None:
        validation.plain_numbers(self)
        validation.instance(self.sde, "sde", NeuralSDE, "a NeuralSDE, such as res1(4, 'tanh').limit()")
        validation.real(self.diffusion_scale, "diffusion_scale", hint="it multiplies the noise.")
        validation.flag(self.transpose, "transpose")
        validation.function(self.drift, "drift", "a function of states (P, d) that returns as many")

    def f(self, t: Any, y: Tensor) -> Tensor:
        return self.drift(y)

    def g_prod(self, t: Any, y: Tensor, v: Tensor) -> Tensor:
        width = self.sde.width
        noise = v.reshape(-1, width, width).transpose(1, 2).reshape(len(v), -1) if self.transpose else v
        return self.diffusion_scale * self.sde.g_prod(t, y, noise)


@by_default
def exchanged_quadratic(rate: Rate, h: Tensor) -> Tensor:
    """Return Q with the rows and columns of Σ^A exchanged: Σ_jk x_j x_k Σ_jiki for Σ_ijik."""
    matrix, vector, _ = rate.dense()
    # (…, j, k, i) = Σ_jiki
    column = torch.diagonal(matrix, dim1=-3, dim2=-1) if matrix is not None else torch.zeros(1)
    exchanged = torch.einsum("...j,...jki,...k->...i", h, column, h)
    return exchanged if vector is None else exchanged + torch.diagonal(vector, dim1=-2, dim2=-1)


@by_default
def quadratic_without_cross_term(rate: Rate, h: Tensor) -> Tensor:
    """Return Q as (12) of Cohen et al. (2021) prints it, without the covariance of W^A and W^b."""
    return (rate.quadratic(h) + rate.quadratic(-h)) / 2  # the cross term is the part that is odd in h


@by_default
def quadratic_without_derivative(rate: Rate, h: Tensor) -> Tensor:
    """Return Q itself, but without a derivative: the limit of states stays right, that of gradients not."""
    return rate.quadratic(h.detach())


@by_default
def with_other_quadratic(
    limit: ItoCorrectedSDE, quadratic: Callable[[Rate, Tensor], Tensor]
) -> ItoCorrectedSDE:
    """Return the diffusive limit with another Q; raise TypeError for another limit, or for no function."""
    diffusive = "a diffusive limit, such as inner(4, noise=Ito(A=0.1)).limit()"
    validation.instance(limit, "limit", ItoCorrectedSDE, diffusive)
    validation.function(quadratic, "quadratic", "a function of (rate, states)")
    return dataclasses.replace(limit, other_quadratic=quadratic)


@by_default
def with_noise_scaled(limit: NeuralYoung, scale: float) -> NeuralYoung:
    """Return the Young equation with its noise scaled: by √d, the 1/√d is dropped.

    Raises TypeError for another limit, TypeError or ValueError for a scale that is no finite number.
    """
    validation.instance(limit, "limit", NeuralYoung, "a Young equation, NeuralYoung(...)")
    validation.real(scale, "scale", hint="it multiplies the noise.")
    return dataclasses.replace(limit, noise_scale=scale)


@by_default
def neural_ode_of(network: ResidualNetwork) -> NeuralODE:
    """Return dH = σ(Ā_t H + b̄_t) dt, the limit of `inner` at α = 1, β = 0 and nowhere else.

    Raises TypeError for anything but a network whose weights are functions of time.
    """
    validation.instance(network, "network", ResidualNetwork, "a ResidualNetwork, such as inner(4, trend=...)")
    functions = functions_of(network.channels)
    return NeuralODE(network.recursion, functions, network.width)


@by_default
def stratonovich_drift(sde: NeuralSDE, derivative: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return ½ σ(h) σ'(h) / d, the drift that reading the neural SDE in Stratonovich's sense would add.

    Raises TypeError for another SDE, or for no function. That it is σ' is NOT checked.
    """
    validation.instance(sde, "sde", NeuralSDE, "a NeuralSDE, such as res1(4, 'tanh').limit()")
    validation.function(derivative, "derivative", "σ', a function of states (P, d) that returns as many")

    def drift(y: Tensor) -> Tensor:
        return 0.5 * sde.recursion.activation(y) * derivative(y) / sde.width

    return drift


def tanh_derivative(y: Tensor) -> Tensor:
    """Return tanh'(y) = 1 - tanh²(y)."""
    return 1.0 - torch.tanh(y) ** 2
