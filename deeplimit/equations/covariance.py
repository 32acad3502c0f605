"""The covariance of inputs in a network whose width grows with its depth, and its SDE (Li et al. 2022)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.driving import Shape
from deeplimit.equations.in_law import LawLimit
from deeplimit.layers.shaped import cholesky

STEPS = 256
"""Fewest steps of `draw`, which is not told how many to take."""
LARGEST = 2**24
"""Most steps of a draw."""


@final
@dataclass(frozen=True)
class CovarianceSDE(LawLimit):
    """dV = T b(V) dt + √T V^½ dS V^½, the neural covariance SDE of Li, Nica and Roy (2022), in law.

    S is a symmetric Brownian motion with variance 2 t on the diagonal and t beside it, and b^ab(V) =
    √(V^aa V^bb) ν(ρ^ab), ν(ρ) = (c₊ - c₋)²/(2π) (√(1-ρ²) - ρ arccos ρ), ρ the correlation of two inputs. So
    the size of one input is log-normal: ln(V_1/V_0) ~ N(-T, 2 T). Correlations follow the drift T (ν(ρ) -
    ½ρ(1-ρ²)) and the diffusion √T (1-ρ²).

    States are the lower Cholesky factors h (P, m, m) of V = h hᵀ, as those of `ShapedMLP`. The scheme moves
    h by the noise, dh = √(T/2) h dB - (m/4) T h dt, and V by the drift. So V stays a covariance where
    T (c₊ - c₋)² dt is well below 4; in longer steps `cholesky` cuts off what is negative. `fewest_steps` says
    how many steps keep the scheme's distribution functions within about 0.01 of the equation's.

    Attributes:
        width: number of inputs m.
        depth_to_width: T, the depth over the width.
        slope_difference: c₊ - c₋.

    Raises:
        TypeError, ValueError: For a number of inputs below 1, a ratio outside [0.001, 1000], or a difference
            that is not finite.

    Examples:
        >>> import torch, deeplimit as dl
        >>> limit = dl.shaped_mlp(2, depth_to_width=0.5).limit()
        >>> limit.log_size_mean, limit.log_size_variance
        (-0.5, 1.0)
        >>> limit.draw(torch.eye(2).expand(5, 2, 2), torch.Generator().manual_seed(0)).shape
        torch.Size([5, 2, 2])
    """

    width: int
    depth_to_width: float = 1.0
    slope_difference: float = 1.0
    citations: ClassVar[tuple[str, ...]] = ("li2022",)
    is_drawn_by_steps: ClassVar[bool] = True
    scheme: ClassVar[str] = "Euler-Maruyama for a factor of V"

    @by_default
    def __post_init__(self) -> None:
        validation.plain_numbers(self)
        validation.integer(self.width, "width", minimum=1, hint="It is the number of inputs m.")
        hint = "It is depth over width, T = L/n."
        validation.real(self.depth_to_width, "depth_to_width", minimum=1e-3, maximum=1e3, hint=hint)
        validation.real(self.slope_difference, "slope_difference", hint="It is c₊ - c₋.")

    @property
    def equation(self) -> str:
        shape = f"T = {self.depth_to_width:g}, c₊ - c₋ = {self.slope_difference:g}, m = {self.width}"
        return f"dV = T b(V) dt + √T V^½ dS V^½, b^ab = √(V^aa V^bb) ν(ρ^ab), in law, {shape}"

    def state_shape(self, width: int) -> Shape:
        return (width, width)

    @property
    def log_size_mean(self) -> float:
        """The mean of ln(V_1^aa/V_0^aa), -T."""
        return -self.depth_to_width

    @property
    def log_size_variance(self) -> float:
        """The variance of ln(V_1^aa/V_0^aa), 2 T."""
        return 2.0 * self.depth_to_width

    def drift(self, h: Tensor) -> Tensor:
        """Return b(V) (P, m, m) for V = h hᵀ; 0 where inputs agree, or one is 0."""
        size = torch.linalg.vector_norm(h, dim=-1)
        sizes = size.unsqueeze(-1) * size.unsqueeze(-2)
        correlation = (h @ h.mT / sizes.clamp_min(torch.finfo(h.dtype).tiny)).clamp(-1.0, 1.0)
        angle = torch.arccos(correlation)
        pull = (1.0 - correlation.square()).clamp_min(0.0).sqrt() - correlation * angle
        drift: Tensor = self.slope_difference**2 / (2.0 * math.pi) * sizes * pull
        return drift

    def fewest_steps(self) -> int:
        """Return max(4 T (c₊ - c₋)², (32 + 2 m²) T^3/2), rounded up.

        The first keeps correlations, whose drift is a stiff pull towards 1. The second keeps sizes: a step of
        length dt moves the mean of ln V by (m²/16 + m/4 - 1) (T dt)², and ln V_1 has the deviation √(2 T).
        Both factors are measured. With T = 10 and T (c₊ - c₋)² = 256 the distribution function of the angle
        of two inputs is wrong by 0.08 on 256 steps, by 0.03 on 512 and by 0.01, its sampling error, on 1024.

        Raises:
            ValueError: For more than 2^24 steps.
        """
        ratio, difference, inputs = self.depth_to_width, self.slope_difference, self.width
        steps: float = max(4.0 * ratio * difference * difference, (32.0 + 2.0 * inputs**2) * ratio**1.5)
        if steps > LARGEST:
            raise ValueError(
                f"depth_to_width={ratio:g}, slope_difference={difference:g} and {inputs} inputs would"
                f" take {steps:.2g} steps, more than {LARGEST}, to draw; make one of them smaller."
            )
        return math.ceil(steps)

    def draw(self, h0: Tensor, generator: torch.Generator) -> Tensor:
        return self.draw_end(h0, generator, max(STEPS, self.fewest_steps()))

    def draw_end(self, h0: Tensor, generator: torch.Generator, steps: int) -> Tensor:
        h, time = h0.double(), self.depth_to_width / max(steps, 1)
        still = (1.0 - self.width * time / 4.0) * torch.eye(self.width, dtype=h.dtype, device=h.device)
        for _ in range(steps):
            noise = torch.empty_like(h).normal_(0.0, math.sqrt(time / 2.0), generator=generator)
            moved = h @ (still + noise)
            h = cholesky(moved @ moved.mT + time * self.drift(h))
        return h.to(h0.dtype)
