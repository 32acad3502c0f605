"""Small stacks of layers, built from one seed, and states for them: what tests of the trace share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from deeplimit.common.global_state import seeded

WIDTH = 16
DEPTHS = [2, 4, 8]


def made(build: Callable[..., nn.Module], *arguments: Any, **more: Any) -> nn.Module:
    """Return what this builds from seed 0."""
    with seeded(0):
        return build(*arguments, **more)


def states(*shape: int) -> torch.Tensor:
    """Return states of this shape, one for each of eight inputs unless told, drawn from seed 0."""
    return torch.randn(*(shape or (8, WIDTH)), generator=torch.Generator().manual_seed(0))


class Stack(nn.Module):
    """A linear entry, then `depth` layers; `add` makes the next state from a state and its update."""

    def __init__(
        self,
        depth: int,
        add: Callable[..., torch.Tensor] = torch.add,
        make: Callable[[int], nn.Module] = lambda depth: nn.Linear(WIDTH, WIDTH),
    ):
        super().__init__()
        self.entry, self.add = nn.Linear(WIDTH, WIDTH), add
        self.layers = nn.ModuleList(make(depth) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.entry(x)
        for layer in self.layers:
            x = self.add(x, layer(x))
        return x
