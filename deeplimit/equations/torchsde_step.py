"""One step of a torchsde method, on increments that were drawn before."""

from __future__ import annotations

from typing import Any

import torch
import torchsde
from torch import Tensor


class GivenIncrement(torchsde.BaseBrownian):  # type: ignore[misc]
    """The Brownian motion of one step, with its space-time Lévy area, as torchsde asks for it."""

    levy_area_approximation = "space-time"

    def __init__(self, moved: Tensor, area: Tensor) -> None:
        super().__init__()
        self.moved, self.area = moved, area

    def __call__(
        self, ta: Any, tb: Any = None, return_U: bool = False, return_A: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        return (self.moved, self.area) if return_U else self.moved

    def __repr__(self) -> str:
        return "GivenIncrement()"

    dtype = property(lambda self: self.moved.dtype)
    device = property(lambda self: self.moved.device)
    shape = property(lambda self: self.moved.shape)


class AsTorchsde:
    """An equation with f and g alone: torchsde draws from the global generator to try a g_prod."""

    def __init__(self, equation: Any) -> None:
        self.f, self.g = equation.f, equation.g
        self.sde_type, self.noise_type = equation.sde_type, equation.noise_type


def torchsde_step(
    equation: Any, method: str, time: float, length: float, h: Tensor, moved: Tensor, area: Tensor
) -> Tensor:
    """Return the states (P, d) one step after h, for increments and areas (P, Brownian motions)."""
    ends = torch.tensor([time, time + length], dtype=h.dtype, device=h.device)
    states: Tensor = torchsde.sdeint(
        AsTorchsde(equation), h, ends, bm=GivenIncrement(moved, area), method=method, dt=length
    )
    return states[-1]
