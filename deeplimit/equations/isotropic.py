"""Limits of branches that move states by the mean of σ over normal entries: a radial SDE, and an ODE."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.driving import SampledFunction
from deeplimit.equations.base import ODELimit, VectorField
from deeplimit.equations.in_law import LawLimit
from deeplimit.layers.activations import Activation
from deeplimit.layers.gaussian_means import normal_mean

STEPS = 512
"""Steps of `draw`, which is not told how many to take: a bias of about 0.2 % of a standard deviation."""
FINEST, WIDEST = 1e-4, 1e6
"""Sizes |h|/√d between which the diffusion is tabulated on a logarithmic grid, after a linear one below."""
CELLS = 4096
"""Cells of that grid, 0.6 % wide: linear interpolation errs by at most 4e-6 of the value."""


def _check(limit: RadialSDE | AveragedODE) -> None:
    validation.plain_numbers(limit)
    validation.integer(limit.width, "width", minimum=1, hint="It is the number of hidden units d.")
    validation.instance(
        limit.activation, "activation", Activation, "an Activation, such as activations.resolve('tanh')"
    )


def _size(h: Tensor, width: int) -> Tensor:
    """Return |h|/√d (P, 1), the standard deviation of an entry of W h."""
    size: Tensor = torch.linalg.vector_norm(h, dim=1, keepdim=True) / math.sqrt(width)
    return size


@lru_cache(maxsize=16)
def _grid() -> Tensor:
    """Return the sizes at which the diffusion is tabulated, increasing from 0."""
    places = torch.linspace(0.0, math.asinh(WIDEST / FINEST), CELLS + 1, dtype=torch.float64)
    return FINEST * torch.sinh(places)


@lru_cache(maxsize=64)
def _deviations(activation: Activation) -> Tensor:
    """Return (E σ(sZ)²)^½ for every size s of the grid."""
    with torch.no_grad():
        return normal_mean(activation, _grid(), power=2).sqrt()


@final
@dataclass(frozen=True)
class RadialSDE(LawLimit):
    """dH = ψ(|H|)^½ dβ with ψ(r) = E σ(r Z/√d)², Z standard normal, β a d-dimensional Brownian motion (Itô).

    It is the limit in law, at exponent 1/2, of V σ(W h) with independent layers, W Gaussian, and of σ(W h)
    with W Gaussian and σ odd. `IsotropicSDE` is the case of homogeneous σ, whose law is drawn exactly. This
    one is drawn by Euler-Maruyama. A torchsde object as it is: f (P, d), g (P, d, d). No paper states it; its
    derivation is on the page "Limits in law" of the documentation.

    Args:
        activation: σ, an `Activation`.
        width: d.

    Raises TypeError or ValueError for a width below 1 and anything but an activation. NOT checked: that σ is
    Lipschitz, without which the equation need not have one solution.

    Examples:
        >>> import torch, deeplimit as dl
        >>> limit = dl.res2(width=4, activation="sin").limit()
        >>> limit.equation
        'dH = (E sin(|H| Z/√d)²)^½ dβ, Z normal, in law, d = 4'
        >>> limit.variance(torch.tensor([0.0, 2.0]))  # (1 - exp(-2 r²/d))/2
        tensor([0.0000, 0.4323])
    """

    activation: Activation
    width: int
    is_drawn_by_steps: ClassVar[bool] = True
    citations: ClassVar[tuple[str, ...]] = ("kloeden1992",)
    remark: ClassVar[str] = (
        "the limit is this library's own derivation from the branch's covariance; neither paper states it."
    )
    sde_type: ClassVar[str] = "ito"
    noise_type: ClassVar[str] = "general"

    @by_default
    def __post_init__(self) -> None:
        _check(self)

    @property
    def equation(self) -> str:
        return f"dH = (E {self.activation.name}(|H| Z/√d)²)^½ dβ, Z normal, in law, d = {self.width}"

    def variance(self, norms: Tensor) -> Tensor:
        """Return ψ (K,) for the norms r (K,) of states."""
        sizes = norms.double() / math.sqrt(self.width)
        return normal_mean(self.activation, sizes, power=2).to(norms.dtype)

    def _deviation(self, h: Tensor) -> Tensor:
        """Return ψ(|h|)^½ (P, 1), interpolated; beyond the table along its last cell."""
        size = _size(h, self.width).double()
        grid, values = _grid().to(h.device), _deviations(self.activation).to(h.device)
        place = torch.asinh(size / FINEST) * (CELLS / math.asinh(WIDEST / FINEST))
        left = place.nan_to_num(0.0).long().clamp(0, CELLS - 1)
        share = (size - grid[left]) / (grid[left + 1] - grid[left])
        deviation: Tensor = (1 - share) * values[left] + share * values[left + 1]
        return deviation.to(h.dtype)

    def f(self, t: Any, y: Tensor) -> Tensor:
        """Return the drift, which is zero, as (P, d)."""
        return torch.zeros_like(y)

    def g(self, t: Any, y: Tensor) -> Tensor:
        """Return the diffusion ψ(|y|)^½ I as (P, d, d)."""
        eye = torch.eye(self.width, dtype=y.dtype, device=y.device)
        return self._deviation(y)[:, :, None] * eye

    def draw(self, h0: Tensor, generator: torch.Generator) -> Tensor:
        return self.draw_end(h0, generator, STEPS)

    def draw_end(self, h0: Tensor, generator: torch.Generator, steps: int) -> Tensor:
        """Return draws of H_1 (P, d) by Euler-Maruyama on so many equal steps, at least one."""
        h, deviation = h0, max(steps, 1) ** -0.5
        for _ in range(max(steps, 1)):
            noise = torch.empty_like(h).normal_(0.0, deviation, generator=generator)
            h = h + self._deviation(h) * noise
        return h


@final
@dataclass(frozen=True)
class AveragedODE(ODELimit):
    """dH = E σ(|H| Z/√d) 1 dt, Z standard normal and 1 the vector of ones: independent layers average out.

    It is the limit, at exponent 1, of σ(W h) with independent Gaussian layers W, if σ is not odd. A
    torchdiffeq function as it is, f(t, h) (P, d). No paper states it; its derivation is on the page "Limits
    in law" of the documentation.

    Args:
        activation: σ, an `Activation`.
        width: d.

    Raises TypeError or ValueError for a width below 1 and anything but an activation. NOT checked: that σ is
    Lipschitz.

    Examples:
        >>> import torch, deeplimit as dl
        >>> ode = dl.inner(width=2, activation="relu", exponent=1.0).limit()
        >>> ode(0.0, torch.tensor([[0.6, 0.8]]))  # |h|/√(2πd) in every entry
        tensor([[0.2821, 0.2821]])
    """

    activation: Activation
    width: int

    @by_default
    def __post_init__(self) -> None:
        _check(self)

    @property
    def equation(self) -> str:
        return f"dH = E {self.activation.name}(|H| Z/√d) 1 dt, Z normal, 1 = (1, …, 1), d = {self.width}"

    def bind(self, functions: tuple[SampledFunction, ...]) -> VectorField:
        field: Callable[[Any, Tensor], Tensor] = self.__call__
        return field

    def __call__(self, t: Any, h: Tensor) -> Tensor:
        """Return dH/dt (P, d) at state `h` (P, d), whatever the time `t`."""
        mean = normal_mean(self.activation, _size(h, self.width)[:, 0])
        return mean[:, None].expand_as(h).to(h.dtype)
