"""Stochastic volatility, ready to use: a bounded random factor on any covariance of Itô weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.driving.auxiliary import AuxiliaryDiffusion
from deeplimit.driving.covariance import Kronecker, as_tensor
from deeplimit.driving.ito import Ito


@dataclass(frozen=True)
class _Restoring:
    """-speed · v: the drift of an Ornstein-Uhlenbeck process."""

    speed: float

    def __call__(self, time: float, v: Tensor) -> Tensor:
        return -self.speed * v


@dataclass(frozen=True)
class _Constant:
    value: float

    def __call__(self, time: float, v: Tensor) -> Tensor:
        return torch.full_like(v, self.value)


@dataclass(frozen=True, eq=False)
class _Scaled:
    """2/(1 + e^-v) times a constant covariance: random, between 0 and twice the constant."""

    covariance: Tensor
    columns: Tensor | None = None

    def __call__(self, time: float, v: Tensor) -> Any:
        factor = 2.0 * torch.sigmoid(v[:, 0].double().cpu())
        scaled = factor[(..., *[None] * self.covariance.ndim)] * self.covariance
        return scaled if self.columns is None else Kronecker(scaled, self.columns)


@by_default
def stochastic_volatility(
    A: Any = None,
    b: Any = None,
    *,
    mean_reversion: float = 2.0,
    volatility: float = 2.0,
    leverage: float = -0.7,
) -> Ito:
    """Return Itô weights with covariances times 2/(1 + exp(-v)), v an Ornstein-Uhlenbeck process.

    dv = -mean_reversion · v dt + volatility · dZ, v = 0 at first; Z has correlation `leverage` with the first
    Brownian motion behind the weights. The factor lies between 0 and 2, so the rates are bounded, as Theorem
    4.4 asks. Weights are neither independent between layers nor Gaussian nor, by themselves, Markov. `A` and
    `b` are constant covariances as for `Ito`.

    Raises TypeError or ValueError as `Ito` does, and for parameters that are no finite numbers.

    Examples:
        >>> import deeplimit as dl
        >>> dl.inner(4, "scaled_silu", noise=dl.stochastic_volatility(A=0.05, b=0.1)).regime().name
        'sde'
    """
    scaled = {}
    for name, value in (("A", A), ("b", b)):
        if callable(value):
            raise TypeError(
                f"{name} must be constant here, got {validation.named(value)}; give Ito a function of (t, v)"
                " and an auxiliary diffusion."
            )
        if isinstance(value, Kronecker) and max(value.R.ndim, value.C.ndim) > 2:
            raise ValueError(
                f"{name} must be constant here, but its Kronecker(R, C) differs from path to path; give one"
                " (d, d)."
            )
        parts = (value.R, value.C) if isinstance(value, Kronecker) and name == "A" else (value,)
        scaled[name] = None if value is None else _Scaled(*(as_tensor(part, name) for part in parts))
    auxiliary = AuxiliaryDiffusion(
        _Restoring(validation.real(mean_reversion, "mean_reversion", minimum=0.0)),
        _Constant(validation.real(volatility, "volatility", minimum=0.0)),
        leverage=leverage,
    )
    return Ito(A=scaled["A"], b=scaled["b"], auxiliary=auxiliary)
