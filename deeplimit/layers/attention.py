"""Self-attention without key and query matrices, each token on its own sphere (Geshkovski et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, final

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.driving import Layer, Shape
from deeplimit.layers import activations
from deeplimit.layers.activations import Activation
from deeplimit.layers.base import Formula, Recursion, Weight

LEAST = 1e-12
"""Tokens are divided by this where their norm is smaller: 0, which has no direction, stays 0."""


@final
@dataclass(frozen=True)
class Attention(Recursion):
    """‖h_i‖ N(u_i + L^-β V m_i), m_i = Σ_j softmax_j(κ⟨u_i, u_j⟩) u_j: what token i takes from all tokens.

    u_i = h_i/‖h_i‖ is the direction of token i, N(y) = y/‖y‖. States h are (P, n, d) with n tokens, the
    weight V of a layer is (P, d, d), and the softmax runs over j. Every token keeps its norm, so any state
    may be the first. On the unit sphere this is the transformer with post-normalisation of Geshkovski et al.
    (2023). A token that is 0 stays 0. `deeplimit.attention` makes the network in one call.

    Attributes:
        activation: not used; the softmax is the only nonlinearity beside N.
        tokens: number of tokens n.
        inverse_temperature: κ, which the literature calls β; 0 gives every token the mean of all directions.

    Raises:
        TypeError, ValueError: For a number of tokens below 1, or an inverse temperature below 0.

    Examples:
        >>> import deeplimit as dl
        >>> network = dl.ResidualNetwork(dl.Attention(tokens=8), width=16)
        >>> network.state_shape, network.weight_shapes
        ((8, 16), ((16, 16),))
    """

    activation: Activation = field(
        default_factory=lambda: activations.resolve("identity"), init=False, repr=False
    )
    tokens: int
    inverse_temperature: float = 1.0
    name: ClassVar[str] = "attention"
    formula: ClassVar[Formula] = Formula(
        "‖h_i‖ N(u_i + L^-{exponent} V Σ_j softmax_j(κ⟨u_i, u_j⟩) u_j)",
        "‖H_i‖ P_i V_t Σ_j softmax_j(κ⟨U_i, U_j⟩) U_j",
        r"\|h_i\| N(u_i + L^{-%(exponent)s} V \Sigma_j \mathrm{softmax}_j(\kappa u_i \cdot u_j) u_j)",
        r"\|H_i\| P_i V_t \Sigma_j \mathrm{softmax}_j(\kappa U_i \cdot U_j) U_j",
    )
    weights: ClassVar[tuple[Weight, ...]] = (Weight("V"),)

    @by_default
    def __post_init__(self) -> None:
        validation.plain_numbers(self)
        super().__post_init__()
        validation.integer(self.tokens, "tokens", minimum=1, hint="It is the number of tokens n.")
        validation.real(
            self.inverse_temperature,
            "inverse_temperature",
            minimum=0.0,
            hint="it multiplies the scores before the softmax.",
        )

    def check(self, width: int) -> None:
        if width < 2:
            raise ValueError(
                f"width must be at least 2 for attention, got {width}: the directions of one dimension are 1"
                " and -1, and cannot move."
            )
        super().check(width)

    @property
    def activation_in_words(self) -> str:
        return f"κ = {self.inverse_temperature:g}"

    def width_in_words(self, width: int) -> str:
        return f"{self.tokens} tokens, d = {width}"

    def state_shape(self, width: int) -> Shape:
        return (self.tokens, width)

    def mean_field(self, u: Tensor) -> Tensor:
        """Return m (P, n, d), the mean of all directions that each token attends to, for directions `u`."""
        return torch.softmax(self.inverse_temperature * (u @ u.mT), dim=-1) @ u

    def advance(self, h: Tensor, layers: tuple[Layer, ...], exponent: float) -> Tensor:
        (value,) = layers
        size, u = polar(h)
        return size * polar(u + value.apply(self.mean_field(u), exponent))[1]

    def residual(self, h: Tensor, layers: tuple[Layer, ...], exponent: float) -> Tensor:
        return self.advance(h, layers, exponent) - h

    def vector_field(self, h: Tensor, layers: tuple[Layer, ...]) -> Tensor:
        """Return ‖h_i‖ P_i V m_i, P_i the projection orthogonal to u_i: what N leaves of a small step."""
        (value,) = layers
        size, u = polar(h)
        return size * projected(u, value.apply(self.mean_field(u)))


def polar(h: Tensor) -> tuple[Tensor, Tensor]:
    """Return the norm (P, n, 1) and the direction (P, n, d) of every token; the direction of 0 is 0."""
    size = torch.linalg.vector_norm(h, dim=-1, keepdim=True)
    return size, h / size.clamp_min(LEAST)


def projected(u: Tensor, vector: Tensor) -> Tensor:
    """Return what is orthogonal to the directions `u` of a vector for each (P, n, d)."""
    return vector - u * (u * vector).sum(dim=-1, keepdim=True)
