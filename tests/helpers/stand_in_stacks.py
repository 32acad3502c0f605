"""Stacks whose blocks are put together as other libraries do it: norm and sum in every order."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from stand_in_mixers import FEEDS, HEADS, MIXERS, TOKENS, WIDTH, Attention, Convolution, FeedForward
from torch import nn


class Scale(nn.Module):
    """A parameter or a number times the branch, as a module of its own."""

    def __init__(self, value: float, learned: bool = True, wide: bool = False) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.full((WIDTH,) if wide else (), value)) if learned else value

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gain * x


class Bounded(nn.Module):
    """A gate between zero and one that looks at the stream, as in gated residuals."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.gate = FeedForward(), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.gate(x)) * self.inner(x)


class Block(nn.Module):
    """Two branches, or as many as `branches` names, each with a norm and a scale."""

    def __init__(
        self,
        branches: dict[str, nn.Module],
        order: str = "pre",
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
        scale: Callable[[], nn.Module] = nn.Identity,
    ) -> None:
        super().__init__()
        self.order, self.names = order, tuple(branches)
        for name, module in branches.items():
            self.add_module(name, module)
            self.add_module(f"norm_{name}", norm(WIDTH))
            self.add_module(f"scale_{name}", scale())
            if order in ("sandwich", "after"):
                self.add_module(f"after_{name}", norm(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.order == "parallel":
            entering = self.norm_attn(x)
            return x + self.scale_attn(self.attn(entering)) + self.scale_mlp(self.mlp(entering))
        for name in self.names:
            branch, norm, scale = (getattr(self, f"{kind}{name}") for kind in ("", "norm_", "scale_"))
            if self.order == "post":
                x = norm(x + scale(branch(x)))
            elif self.order == "sandwich":
                x = x + getattr(self, f"after_{name}")(scale(branch(norm(x))))
            elif self.order == "after":
                x = x + getattr(self, f"after_{name}")(scale(branch(x)))
            elif self.order == "bare":
                x = x + scale(branch(x))
            elif self.order == "in place":
                update = scale(branch(norm(x)))
                update += x
                x = update
            elif self.order == "subtracted":
                x = x - scale(branch(norm(x)))
            else:
                x = x + scale(branch(norm(x)))
        return x


class Stack(nn.Module):
    """An entry, blocks, a last norm; `shared` applies one block as often as the depth says."""

    def __init__(self, depth: int, make: Callable[[], nn.Module], shared: bool = False) -> None:
        super().__init__()
        self.entry = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList(make() for _ in range(1 if shared else depth))
        self.times = depth if shared else 1
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.entry(x)
        for _ in range(self.times):
            for block in self.blocks:
                x = block(x)
        return self.norm(x)


def stack(
    depth: int,
    mixer: str = "softmax",
    feed: str = "gelu",
    order: str = "pre",
    norm: Callable[[int], nn.Module] = nn.LayerNorm,
    scale: Callable[[int], nn.Module] | None = None,
    shared: bool = False,
) -> nn.Module:
    """A stack of a mixer and a feed-forward; `scale` makes what stands behind a branch, given the depth."""

    def make() -> nn.Module:
        behind = nn.Identity if scale is None else (lambda: scale(depth))
        return Block({"attn": MIXERS[mixer](), "mlp": FEEDS[feed]()}, order, norm, behind)

    return Stack(depth, make, shared)


def macaron(depth: int) -> nn.Module:
    """As a conformer: half a feed-forward, attention, convolution, half a feed-forward."""

    def make() -> nn.Module:
        branches = {
            "ff1": FeedForward("silu"),
            "attn": Attention(),
            "conv": Convolution(),
            "ff2": FeedForward("silu"),
        }
        block = Block(branches)
        block.scale_ff1, block.scale_ff2 = (Scale(0.5, learned=False) for _ in range(2))
        return block

    return Stack(depth, make)


def gated(depth: int) -> nn.Module:
    return Stack(depth, lambda: Block({"attn": Attention(), "mlp": Bounded()}))


def only(depth: int, branch: str) -> nn.Module:
    """One branch per block."""
    return Stack(depth, lambda: Block({"mlp": (FEEDS | MIXERS)[branch]()}))


class Decoder(nn.Module):
    """Self-attention, cross-attention into a memory, feed-forward."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.entry = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    **{name: Attention() for name in ("attn", "cross")},
                    "mlp": FeedForward(),
                    **{f"norm_{name}": nn.LayerNorm(WIDTH) for name in ("attn", "cross", "mlp")},
                }
            )
            for _ in range(depth)
        )

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        x = self.entry(x)
        for block in self.blocks:
            x = x + block["attn"](block["norm_attn"](x))
            x = x + block["cross"](block["norm_cross"](x), memory)
            x = x + block["mlp"](block["norm_mlp"](x))
        return x


def torch_decoder(depth: int) -> nn.Module:
    layer = nn.TransformerDecoderLayer(WIDTH, HEADS, 2 * WIDTH, 0.0, batch_first=True, norm_first=True)
    return nn.TransformerDecoder(layer, depth)


def torch_encoder(depth: int, first: bool = True) -> nn.Module:
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, 0.0, batch_first=True, norm_first=first)
    return nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)


def vectors(rows: int = 2) -> torch.Tensor:
    return torch.randn(rows, TOKENS, WIDTH, generator=torch.Generator().manual_seed(0))


def two() -> tuple[torch.Tensor, torch.Tensor]:
    return vectors(), vectors().flip(1)


def power(exponent: float, times: float = 1.0) -> Callable[[int], nn.Module]:
    """A number that falls with the depth, c / L^exponent, behind every branch."""
    return lambda depth: Scale(times / depth**exponent, learned=False)


def inverse_root(depth: int) -> nn.Module:
    return Scale(1 / math.sqrt(depth))
