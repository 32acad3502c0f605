"""The limit of res-1 whose layers remember those before: a stretched noise, and a drift."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.equations.base import SDELimit
from deeplimit.layers.activations import Activation, derivative


@final
@dataclass(frozen=True)
class ColouredSDE(SDELimit):
    """dH = (r/√d) dB σ(H) + (m/d) σ'(H)σ(H) dt, entry by entry in the drift, B a d × d Brownian motion.

    Layers with a short memory add up to r times the motion B of their innovations, and neighbours that are
    correlated leave a mean of their products. With correlations c_k of layers k apart, r² is the sum of c_k
    over all k (Green and Kubo), and m that over k ≥ 1.

    A torchsde object as it is: f (P, d), g_prod (P, d).

    Args:
        activation: σ.
        response: r.
        memory: m.
        width: d.

    Raises TypeError or ValueError for arguments of another kind.

    Examples:
        >>> import deeplimit as dl
        >>> limit = dl.res1(width=4, activation="tanh", weights=dl.AR1(0.5)).limit()
        >>> round(limit.response**2, 9), limit.memory
        (3.0, 1.0)
    """

    activation: Activation
    response: float
    memory: float
    width: int

    sde_type: ClassVar[str] = "ito"
    noise_type: ClassVar[str] = "general"

    @by_default
    def __post_init__(self) -> None:
        validation.instance(
            self.activation, "activation", Activation, "an Activation, such as resolve('tanh')"
        )
        validation.integer(self.width, "width", minimum=1, hint="It is the number of hidden units d.")
        validation.real(self.response, "response", hint="it multiplies the noise.")
        validation.real(self.memory, "memory", hint="it multiplies the drift.")

    @property
    def equation(self) -> str:
        return (
            f"dH = ({self.response:.4g}/√d) dB σ(H) + ({self.memory:.4g}/d) σ'(H)σ(H) dt,"
            f" σ = {self.activation.name}, d = {self.width}"
        )

    def f(self, t: Any, y: Tensor) -> Tensor:
        """Return the drift (P, d)."""
        return self.memory / self.width * derivative(self.activation, y) * self.activation(y)

    def g_prod(self, t: Any, y: Tensor, v: Tensor) -> Tensor:
        """Return the diffusion times `v` (P, d²) as (P, d)."""
        matrix = v.reshape(len(y), self.width, self.width)
        moved = torch.bmm(matrix, self.activation(y).unsqueeze(2)).squeeze(2)
        return moved * (self.response / math.sqrt(self.width))

    def noise_size(self, h: Tensor) -> int | None:
        return self.width**2

    def increment(self, time: float, step: float, h: Tensor, noise: Tensor) -> Tensor:
        return self.g_prod(time, h, noise) + step * self.f(time, h)
