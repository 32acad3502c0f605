"""Attention with independent layers: tokens on spheres, moved by one common noise (Fedorov et al. 2026)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.driving import Layer, Shape, WeightLaw
from deeplimit.equations.base import SDELimit, check_one_law
from deeplimit.layers import Attention
from deeplimit.layers.attention import polar, projected


@final
@dataclass(frozen=True)
class AttentionSDE(SDELimit):
    """The noisy transformer dU_i = d^-½ P_i dB m_i - (d-1)/(2d) ‖m_i‖² U_i dt of Fedorov et al. (2026).

    U_i is the direction of token i, P_i = I - U_i U_iᵀ, and m_i = Σ_j softmax_j(κ⟨U_i, U_j⟩) U_j. All tokens
    share the d × d Brownian motion B. The drift keeps U_i on the sphere, and the norm of H_i stays.

    A torchsde object on flattened states: f (P, n d), g (P, n d, d²), g_prod (P, n d). The methods take
    states (P, n, d), too. The d² Brownian motions are B's entries, row by row.

    Examples:
        >>> import torch, torchsde, deeplimit as dl
        >>> sde = dl.attention(3, tokens=4).limit()
        >>> ys = torchsde.sdeint(sde, torch.ones(5, 12), torch.tensor([0.0, 1.0]), dt=0.1, method="euler")
        >>> ys.shape
        torch.Size([2, 5, 12])
    """

    recursion: Attention
    weights: tuple[WeightLaw, ...]
    width: int

    @by_default
    def __post_init__(self) -> None:
        validation.plain_numbers(self)
        validation.instance(self.recursion, "recursion", Attention, "an Attention, such as Attention(8)")
        validation.integer(self.width, "width", minimum=2, hint="It is the dimension d of a token.")
        check_one_law(self.weights, WeightLaw, "(Brownian(),)")

    sde_type: ClassVar[str] = "ito"
    noise_type: ClassVar[str] = "general"
    is_drawable: ClassVar[bool] = True

    @property
    def equation(self) -> str:
        words = f"{self.recursion.activation_in_words}, {self.recursion.width_in_words(self.width)}"
        return (
            "dU_i = (1/√d) P_i dB m_i - (d-1)/(2d) ‖m_i‖² U_i dt, ‖H_i‖ kept,"
            f" m_i = Σ_j softmax_j(κ⟨U_i, U_j⟩) U_j, {words}"
        )

    @property
    def scale(self) -> float:
        """The factor of dB, 1/√d."""
        return self.weights[0].entry_scale((self.width, self.width))

    def state_shape(self, width: int) -> Shape:
        return self.recursion.state_shape(width)

    def _states(self, y: Tensor) -> Tensor:
        return y.reshape(len(y), *self.state_shape(self.width))

    def _shrinking(self, m: Tensor) -> Tensor:
        """Return the factor (P, n, 1) of the drift along U_i, for m (P, n, d)."""
        return -0.5 * (self.width - 1) * self.scale**2 * m.square().sum(dim=-1, keepdim=True)

    def f(self, t: Any, y: Tensor) -> Tensor:
        """Return the drift -(d-1)/(2d) ‖m_i‖² h_i, of the shape of `y`."""
        h = self._states(y)
        _, u = polar(h)
        return (self._shrinking(self.recursion.mean_field(u)) * h).reshape(y.shape)

    def g(self, t: Any, y: Tensor) -> Tensor:
        """Return the diffusion as (P, n d, d²): entry ((i, a), (b, c)) is ‖h_i‖ (P_i)_ab m_ic/√d."""
        size, u = polar(self._states(y))
        eye = torch.eye(self.width, dtype=y.dtype, device=y.device)
        projection = eye - u.unsqueeze(-1) * u.unsqueeze(-2)  # (P, n, d, d)
        m = self.scale * size * self.recursion.mean_field(u)
        return torch.einsum("piab,pic->piabc", projection, m).reshape(len(y), -1, self.width**2)

    def g_prod(self, t: Any, y: Tensor, v: Tensor) -> Tensor:
        """Return the diffusion times `v` (P, d²), of the shape of `y`, without building the diffusion."""
        return self.recursion.vector_field(self._states(y), (self._layer(v),)).reshape(y.shape)

    def _layer(self, noise: Tensor) -> Layer:
        matrix = noise.reshape(len(noise), self.width, self.width)
        return Layer(matrix, 1, self.weights[0].layer_exponent, self.scale)

    def noise_size(self, h: Tensor) -> int | None:
        return self.width**2

    def increment(self, time: float, step: float, h: Tensor, noise: Tensor) -> Tensor:
        states = self._states(h)
        size, u = polar(states)
        m = self.recursion.mean_field(u)
        moved = projected(u, self._layer(noise).apply(m)) + step * self._shrinking(m) * u
        return (size * moved).reshape(h.shape)

    @property
    def key_in_law(self) -> object:
        return AttentionSDE, self.recursion, self.width  # whatever the law of the network's entries

    def draw_end(self, h0: Tensor, generator: torch.Generator, steps: int) -> Tensor:
        """Return draws of H_1 (P, n, d) by Euler-Maruyama, put back on the spheres after every step."""
        size, u = polar(h0)
        noise = h0.new_empty(len(h0), self.width**2)
        for _ in range(steps):
            noise.normal_(0.0, steps**-0.5, generator=generator)
            _, u = polar(u + self.increment(0.0, 1.0 / steps, u, noise))
        return size * u

    @property
    def lyapunov_exponents(self) -> tuple[float, float]:
        """The growth rates of 1 - ρ at ρ = 1 and of 1 + ρ at ρ = -1, for the cosine ρ of two tokens.

        The first is negative: two tokens that are close stay close and approach each other. The second is
        negative where κ exceeds artanh √((d-3)/(d-1)), and for all κ > 0 at d ≤ 3. Two opposite tokens then
        attract each other, with positive probability, as no flow without noise does.

        Raises:
            ValueError: For another number of tokens than 2.

        Examples:
            >>> import deeplimit as dl
            >>> for kappa in (0.4, 3.0):
            ...     network = dl.attention(8, tokens=2, inverse_temperature=kappa)
            ...     print(*(f"{exponent:.3f}" for exponent in network.limit().lyapunov_exponents))
            -0.875 0.499
            -0.875 -0.241
        """
        if self.recursion.tokens != 2:
            raise ValueError(
                f"lyapunov_exponents are known for 2 tokens; got {self.recursion.tokens}. Take"
                " attention(width, tokens=2).limit()."
            )
        d, slope = self.width, math.tanh(self.recursion.inverse_temperature)
        return -(d - 1) / d, (d - 3 - (d - 1) * slope**2) / d
