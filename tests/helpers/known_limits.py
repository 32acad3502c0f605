"""Forty stacks of torch blocks as people write them: thirty with a known limit, ten without one.

A row says which names are right. Updates of a vector whose last layer is one matrix of independent entries
have an isotropic covariance; those of tokens and pixels share that matrix, so their noise is directed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from block_stacks import (
    WIDTH,
    Factory,
    PostNorm,
    Residual,
    copies,
    directed,
    linear,
    stable,
    stack,
    tanh_first,
    turning,
    two_layers,
)
from torch import nn

CHANNELS, TOKENS, SIDE = 6, 5, 4


@dataclass(frozen=True)
class Known:
    """A stack, the names that are right for its limit, the exponent of one update, and what a state is."""

    name: str
    factory: Factory
    right: tuple[str, ...]
    exponent: float = math.nan
    shape: tuple[int, ...] = (WIDTH,)


class Of(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return self.function(h)


class Gated(nn.Module):
    """W₃(W₁h · σ(W₂h)), a gated linear unit."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.value, self.gate, self.out = (
            linear(width, 2 * width),
            linear(width, 2 * width),
            linear(2 * width),
        )

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return self.out(self.value(h) * torch.sigmoid(self.gate(h)))


class Attention(nn.Module):
    """Pre-norm attention of torch, one head or more."""

    def __init__(self, heads: int = 2) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.inside = nn.MultiheadAttention(8, heads, batch_first=True)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        entering = self.norm(h)
        mixed: torch.Tensor = self.inside(entering, entering, entering, need_weights=False)[0]
        return mixed


class WithBias(nn.Module):
    """W tanh(h) + 1: every layer pushes one way, too."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        nn.init.normal_(self.linear.weight, std=WIDTH**-0.5)
        nn.init.ones_(self.linear.bias)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.linear(torch.tanh(h))
        return made


class AroundEncoder(nn.Module):
    """torch's own encoder layer, whose two output projections are multiplied by a number."""

    def __init__(self, scale: float, first: bool) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True, norm_first=first)
        with torch.no_grad():
            for weight in (self.layer.self_attn.out_proj.weight, self.layer.linear2.weight):
                weight.mul_(scale)
            for bias in (self.layer.self_attn.out_proj.bias, self.layer.linear2.bias):
                bias.zero_()

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.layer(h)
        return made


def mlp(activation: Callable[[], nn.Module], width: int = WIDTH, norm: nn.Module | None = None) -> nn.Module:
    first = [] if norm is None else [norm]
    return nn.Sequential(*first, linear(width, 2 * width), activation(), linear(2 * width, width))


def convolutions(dimensions: int = 2) -> nn.Module:
    kind = {1: nn.Conv1d, 2: nn.Conv2d}[dimensions]
    made = nn.Sequential(
        kind(CHANNELS, CHANNELS, 3, padding=1, bias=False),
        nn.ReLU(),
        kind(CHANNELS, CHANNELS, 3, padding=1, bias=False),
    )
    for weight in made.parameters():
        nn.init.kaiming_normal_(weight)
    return made


def batch_normed() -> nn.Module:
    return nn.Sequential(nn.BatchNorm2d(CHANNELS), *convolutions())


def orthogonal() -> nn.Module:
    made = linear()
    nn.init.orthogonal_(made.weight)
    return nn.Sequential(nn.Tanh(), made)


def signs() -> nn.Module:
    """Weights of ±1/√d, half of them zero."""
    made = linear()
    with torch.no_grad():
        made.weight.copy_(torch.sign(made.weight) * (torch.rand(WIDTH, WIDTH) < 0.5) * (2 / WIDTH) ** 0.5)
    return nn.Sequential(nn.SiLU(), made)


def scaled_channels() -> nn.Module:
    """LayerScale with another gain in each channel, the same in all layers."""
    return nn.Sequential(*mlp(nn.GELU), Of(lambda h: h * torch.linspace(0.2, 1.8, WIDTH)))


def average_token(h: torch.Tensor) -> torch.Tensor:
    """Softmax attention without weights, less the token itself."""
    return torch.softmax(h @ h.transpose(-1, -2) / h.shape[-1] ** 0.5, -1) @ h - h


def rotated(h: torch.Tensor) -> torch.Tensor:
    """The first half of the coordinates turns into the second: a deterministic linear field."""
    first, second = h.chunk(2, -1)
    return torch.cat((-second, first), -1)


def walking(depth: int) -> list[nn.Module]:
    """Weights that go a random walk over layers, W(k/L): continuous in the limit, though not smooth."""
    made, weight = [], linear().weight.detach()
    for _ in range(depth):
        branch = tanh_first()
        branch[1].weight.data.copy_(weight)
        made.append(Residual(branch, 1 / depth))
        weight = weight + linear(gain=depth**-0.5).weight.detach()
    return made


def around_a_mean(depth: int) -> list[nn.Module]:
    """Independent weights about one matrix that all layers share, the same in every network."""
    fixed = torch.linspace(-1, 1, WIDTH**2).reshape(WIDTH, WIDTH) * (3 / WIDTH) ** 0.5
    made = [tanh_first() for _ in range(depth)]
    with torch.no_grad():
        for branch in made:
            branch[1].weight.add_(fixed)
    return [Residual(branch, 1 / depth) for branch in made]


def encoders(exponent: float, first: bool = True) -> Factory:
    return lambda depth: nn.Sequential(*(AroundEncoder(depth**-exponent, first) for _ in range(depth)))


PIXELS, ROW, SENTENCE = (CHANNELS, SIDE, SIDE), (CHANNELS, 8), (TOKENS, 8)
ISOTROPIC, DIFFUSION, ODE = ("isotropic SDE",), ("neural SDE",), ("neural ODE",)
STILL, BLOWN = ("identity",), ("explosion",)
NAMED = [
    Known("gelu", stack(lambda: mlp(nn.GELU), 0.5), ISOTROPIC, 0.5),
    Known("silu, wide", stack(lambda: mlp(nn.SiLU, 48), 0.5), ISOTROPIC, 0.5, (48,)),
    Known(
        "sine, narrow", stack(lambda: nn.Sequential(Of(torch.sin), linear(6, 6)), 0.5), ISOTROPIC, 0.5, (6,)
    ),
    Known("rms norm", stack(lambda: mlp(nn.ReLU, norm=nn.RMSNorm(WIDTH)), 0.5), ISOTROPIC, 0.5),
    Known("gated unit", stack(lambda: Gated(WIDTH), 0.5), ISOTROPIC, 0.5),
    Known(
        "torch's own weights",
        stack(lambda: nn.Sequential(nn.Tanh(), nn.Linear(WIDTH, WIDTH)), 0.5),
        ISOTROPIC,
    ),
    Known("orthogonal", stack(orthogonal, 0.5), ISOTROPIC, 0.5),
    Known("sparse signs", stack(signs, 0.5), ISOTROPIC, 0.5),
    Known("dropout", stack(lambda: nn.Sequential(*mlp(nn.GELU), nn.Dropout(0.3)), 0.5), ISOTROPIC, 0.5),
    Known("attention", stack(Attention, 0.5), DIFFUSION, 0.5, SENTENCE),
    Known("convolution", stack(convolutions, 0.5), DIFFUSION, 0.5, PIXELS),
    Known("convolution of a series", stack(lambda: convolutions(1), 0.5), DIFFUSION, 0.5, ROW),
    Known("batch norm", stack(batch_normed, 0.5), DIFFUSION, 0.5, PIXELS),
    Known("encoder", encoders(0.5), DIFFUSION, 0.5, SENTENCE),
    Known("gains of channels", stack(scaled_channels, 0.5), DIFFUSION, 0.5),
    Known("post-norm, tokens", stack(lambda: mlp(nn.GELU, 8), 0.5, kind=PostNorm), DIFFUSION, 0.5, SENTENCE),
    Known("tied gelu", copies(lambda: mlp(nn.GELU), 1.0), ODE, 1.0),
    Known("tied attention", copies(Attention, 1.0), ODE, 1.0, SENTENCE),
    Known("tied convolution", copies(convolutions, 1.0), ODE, 1.0, PIXELS),
    Known("two blocks in turn", copies(tanh_first, 1.0, period=2), ODE, 1.0),
    Known("smooth pre-norm", turning(lambda: mlp(nn.SiLU, norm=nn.LayerNorm(WIDTH)), 1.0), ODE, 1.0),
    Known("walking weights", walking, ODE, 1.0),
    Known("averages of tokens", stack(lambda: Of(average_token), 1.0), ODE, 1.0, SENTENCE),
    Known("rotation", stack(lambda: Of(rotated), 1.0), ODE, 1.0),
    Known("a bias", stack(WithBias, 1.0), ODE, 1.0),
    Known("around a mean", around_a_mean, ODE, 1.0),
    Known("convolution over L", stack(convolutions, 1.0), STILL, 1.0, PIXELS),
    Known("encoder over L", encoders(1.0), STILL, 1.0, SENTENCE),
    Known("convolution, unscaled", stack(convolutions, 0.0), BLOWN, 0.0, PIXELS),
    Known("encoder, unscaled", encoders(0.0), BLOWN, 0.0, SENTENCE),
]


def first_layer_large(depth: int) -> list[nn.Module]:
    """The first block misses the scaling of all others: its update does not become small."""
    return [Residual(tanh_first(), 1.0 if k == 0 else depth**-0.5) for k in range(depth)]


def halving(depth: int) -> list[nn.Module]:
    return [Residual(tanh_first(), 2.0**-k) for k in range(depth)]


def by_parity(depth: int) -> list[nn.Module]:
    """1/√L where log₂ L is even, else 1/L."""
    return [Residual(tanh_first(), depth ** (-0.5 if depth.bit_length() % 2 else -1.0)) for _ in range(depth)]


def autoregressive(depth: int) -> list[nn.Module]:
    """Weights that forget over a few layers, whatever the depth: no naive diffusion, and no ODE."""
    made, weight = [], linear().weight.detach()
    for _ in range(depth):
        branch = tanh_first()
        branch[1].weight.data.copy_(weight)
        made.append(Residual(branch, depth**-0.5))
        weight = 0.8 * weight + 0.6 * linear().weight.detach()
    return made


def squashed(depth: int) -> list[nn.Module]:
    """tanh after the sum: not residual."""
    return [nn.Sequential(Residual(two_layers(), depth**-0.5), nn.Tanh()) for _ in range(depth)]


def changing_size(depth: int) -> list[nn.Module]:
    """One block in eight, at random, is not scaled: a sum of jumps."""
    return [Residual(tanh_first(), 1.0 if float(torch.rand(())) < 2 / depth else 0.0) for _ in range(depth)]


UNNAMED = [
    Known("Cauchy weights", stack(lambda: stable(1.0), 1.0), ()),
    Known("first layer large", first_layer_large, ()),
    Known("halving", halving, ()),
    Known("no power", by_parity, ()),
    Known("short memory", autoregressive, ()),
    Known("squashed", squashed, ()),
    Known("jumps", changing_size, ()),
    Known("post-norm, unscaled", stack(lambda: mlp(nn.GELU, 8), 0.0, kind=PostNorm), (), shape=SENTENCE),
    Known("post-norm encoder, unscaled", encoders(0.0, first=False), (), shape=SENTENCE),
    Known("mean of state and branch", stack(directed, 0.0, lambda depth: 2**-0.5), ()),
]
