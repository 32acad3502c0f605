"""Branches, blocks and stacks of them with a known infinite-depth limit, for `identify`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import nn

WIDTH = 12

Branch = Callable[[], nn.Module]
Factory = Callable[[int], "nn.Module | Sequence[nn.Module]"]


def linear(inputs: int = WIDTH, outputs: int = WIDTH, gain: float = 1.0) -> nn.Linear:
    made = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(made.weight, std=gain * inputs**-0.5)
    return made


def tanh_first() -> nn.Module:
    return nn.Sequential(nn.Tanh(), linear())


def two_layers() -> nn.Module:
    return nn.Sequential(linear(), nn.ReLU(), linear(gain=1.4))


def relu_last() -> nn.Module:
    return nn.Sequential(linear(), nn.ReLU())


def prenorm() -> nn.Module:
    return nn.Sequential(nn.LayerNorm(WIDTH), linear(), nn.GELU(), linear())


def directed() -> nn.Module:
    made = linear()
    with torch.no_grad():
        made.weight.mul_(torch.linspace(0.1, 2.0, WIDTH)[:, None])
    return nn.Sequential(nn.Tanh(), made)


def stable(tail: float = 1.5) -> nn.Module:
    """A branch with tail-stable weights, by Chambers, Mallows and Stuck."""
    made = linear()
    angle = (torch.rand(WIDTH, WIDTH) - 0.5) * math.pi
    waiting = -torch.log(torch.rand(WIDTH, WIDTH))
    drawn = torch.sin(tail * angle) / torch.cos(angle) ** (1 / tail)
    drawn *= (torch.cos((1 - tail) * angle) / waiting) ** ((1 - tail) / tail)
    with torch.no_grad():
        made.weight.copy_(0.3 * drawn * WIDTH ** (-1 / tail))
    return nn.Sequential(nn.Tanh(), made)


class Residual(nn.Module):
    def __init__(self, branch: nn.Module, scale: float = 1.0, skip: float = 1.0) -> None:
        super().__init__()
        self.branch, self.scale, self.skip = branch, scale, skip

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return self.skip * h + self.scale * self.branch(h)


class PostNorm(Residual):
    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return nn.functional.layer_norm(super().forward(h), h.shape[-1:])


class Whole(nn.Module):
    """A model whose forward adds what a list of branches returns."""

    def __init__(self, depth: int, exponent: float) -> None:
        super().__init__()
        self.first, self.last = linear(5), linear(WIDTH, 3)
        self.branches = nn.ModuleList([two_layers() for _ in range(depth)])
        self.scale = depth**-exponent

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        for branch in self.branches:
            h = h + self.scale * branch(h)
        return self.last(h)


def stack(
    branch: Branch,
    exponent: float,
    skip: Callable[[int], float] = lambda depth: 1.0,
    kind: Callable[..., nn.Module] = Residual,
) -> Factory:
    def blocks(depth: int) -> list[nn.Module]:
        return [kind(branch(), depth**-exponent, skip(depth)) for _ in range(depth)]

    return blocks


def copies(branch: Branch, exponent: float, period: int = 1) -> Factory:
    """Layers k and k + period are one module."""

    def blocks(depth: int) -> nn.Module:
        few = [branch() for _ in range(period)]
        return nn.ModuleList([Residual(few[k % period], depth**-exponent) for k in range(depth)])

    return blocks


def turning(branch: Branch, exponent: float) -> Factory:
    def blocks(depth: int) -> nn.Module:
        ends, found = (branch(), branch()), []
        for k in range(depth):
            made, angle = branch(), 1.5 * k / depth
            with torch.no_grad():
                for weight, a, b in zip(*(each.parameters() for each in (made, *ends)), strict=True):
                    weight.copy_(math.cos(angle) * a + math.sin(angle) * b)
            found.append(Residual(made, depth**-exponent))
        return nn.Sequential(*found)

    return blocks


def moving_average(depth: int) -> list[nn.Module]:
    """Layers that overlap with the next one: not independent, however independent their powers look."""
    raw = [linear().weight.detach() for _ in range(depth + 1)]
    made = [tanh_first() for _ in range(depth)]
    for k, branch in enumerate(made):
        branch[1].weight.data.copy_(raw[k] + raw[k + 1])
    return [Residual(branch, depth**-0.5) for branch in made]


def plain(depth: int) -> list[nn.Module]:
    return [nn.Sequential(linear(gain=2**0.5), nn.ReLU()) for _ in range(depth)]
