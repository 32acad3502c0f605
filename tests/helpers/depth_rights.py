"""A hundred and fifty right configurations of the bases of `depth_bases`: none may be called wrong."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from depth_bases import BASES, Number, by_gains, by_numbers, by_weights, own
from depth_faults import PAIRED, Apply, Chain, as_copies, flat, summed, with_velocity
from planted_faults import deep
from stand_in_stacks import vectors
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class DepthRight:
    """A network that follows what it is held to.

    Attributes:
        exponent: The exponent of its branches; None where they have none.
    """

    name: str
    factory: Callable[[int], nn.Module]
    batch: Callable[[], Any]
    expected: Any
    exponent: float | None

    def __str__(self) -> str:
        return f"{self.name}, {self.expected}"


def scaled(
    name: str, expected: Any, exponent: float | None, number: Number, by: Apply = by_numbers, how: str = ""
) -> DepthRight:
    base = BASES[name]

    def factory(depth: int) -> nn.Module:
        return by(base, number, base.unscaled(depth), depth)

    return DepthRight(f"{name}{how and f', {how}'}", factory, base.batch, expected, exponent)


def alike(name: str, expected: Any, tied: bool) -> DepthRight:
    """Copies of a layer, or one layer as often as the depth says, over L."""
    base = BASES[name]

    def factory(depth: int) -> nn.Module:
        model = by_numbers(base, lambda d, i, k: 1 / d, base.unscaled(depth), depth)
        return as_copies(base, model, tied)

    how = "tied" if tied else "copies"
    return DepthRight(f"{name}, {how}", factory, base.batch, expected, 1.0)


def power(exponent: float, times: float = 1.0) -> Number:
    return lambda depth, layer, kind: times * depth**-exponent


def line(exponent: float) -> Number:
    """A shape over time, from 1.5 to 0.5."""
    return lambda depth, layer, kind: (1.5 - layer / depth) * depth**-exponent


def of_bases() -> Iterator[DepthRight]:
    names = tuple(BASES)
    for name in names:
        yield scaled(name, 0.5, 0.5, power(0.5))
        # Without norms, updates of the state's own size explode.
        yield scaled(name, 0.0, None, power(0.0, 0.05 if name in ("resmlp", "tower") else 1.0))
    for name in names[::2]:
        yield scaled(name, 1.0, 1.0, power(1.0))
    for name in names[1::3]:
        yield scaled(name, "depth-mup", 0.5, power(0.5, 2.0))
    for name in names[::3]:
        yield scaled(name, "completep", 1.0, power(1.0, 3.0))
    for name in ("gpt2", "llama", "opt", "mpt", "t5-encoder", "whisper", "vit", "mixer", "encoder", "own"):
        total = len(BASES[name].kinds)
        yield scaled(name, "gpt-2", 0.5, lambda d, i, k, n=total: (n * d) ** -0.5, by_weights, "weights")
    for name in ("dinov2", "torchvision-swin"):
        yield scaled(name, "megatron", 0.5, lambda d, i, k: (2 * d) ** -0.5, by_weights, "weights")
    for name in names[2::4]:
        yield scaled(name, 0.25, None, power(0.25))
        yield scaled(name, 1.5, None, power(1.5))
    for name in PAIRED[:6]:
        yield scaled(name, 0.5, 0.5, line(0.5), how="a shape over layers")
    for name in PAIRED[6:10]:
        yield scaled(name, 1.0, 1.0, line(1.0), how="a shape over layers")
    for name in ("gpt2", "llama", "opt", "whisper", "vit", "mixer", "own", "tower", "perceptron", "mamba"):
        yield alike(name, 1.0, tied=True)
    for name in ("falcon", "mpt", "dinov2", "graph"):
        yield alike(name, "completep", tied=False)
    for name in ("resmlp", "dinov2", "convnext"):
        yield scaled(name, "rezero", None, power(0.0, 0.0), by_gains, "gains")
        yield scaled(name, 0.5, 0.5, power(0.5), by_gains, "gains")
        yield scaled(name, 1.0, 1.0, power(1.0), by_gains, "gains")
    for name in ("gpt2", "llama", "opt", "mpt", "whisper", "vit", "own"):
        yield scaled(name, "mitchell", None, lambda d, i, k: (2 * (i + 1)) ** -0.5, by_weights, "weights")


def decaying(net: Chain, h: torch.Tensor, depth: int) -> torch.Tensor:
    for place in range(depth):
        h = (1 - 1 / depth) * h + net.branch(place, h)
    return h


def kept_at_one_size(net: Chain, h: torch.Tensor, depth: int) -> torch.Tensor:
    for place in range(depth):
        h = (1 - 1 / depth) ** 0.5 * h + net.branch(place, h)
    return h


def dropped_in_branches(net: Chain, h: torch.Tensor, depth: int) -> torch.Tensor:
    for place in range(depth):
        h = h + F.dropout(net.branch(place, h), 0.1, net.training)
    return h


def held_by_the_first(net: Chain, h: torch.Tensor, depth: int) -> torch.Tensor:
    first = h
    for place in range(depth):
        h = 0.9 * h + 0.1 * first + net.branch(place, h)
    return h


def turned_in_part(net: Chain, h: torch.Tensor, depth: int) -> torch.Tensor:
    for place in range(depth):
        h = (h + net.branch(place, h)) / 2**0.5
    return h


def of_chains() -> Iterator[DepthRight]:
    def chain(
        name: str, stream: Callable[..., torch.Tensor], expected: float, norm: bool = True
    ) -> DepthRight:
        factory = functools.partial(Chain, exponent=expected, stream=stream, norm=norm)
        return DepthRight(name, factory, flat, expected, expected or None)

    yield chain("a chain", summed, 0.5)
    yield chain("a chain without norms", summed, 0.5, norm=False)
    yield chain("momentum", with_velocity, 0.5)
    yield chain("momentum", with_velocity, 1.0)
    yield chain("a decay", decaying, 1.0)
    yield chain("one size", kept_at_one_size, 0.5)
    yield chain("dropout in branches", dropped_in_branches, 0.5)
    yield chain("held by the first state", held_by_the_first, 0.5)
    yield chain("a part of every state", turned_in_part, 0.0)
    yield DepthRight(
        "deepnorm",
        lambda depth: deep(depth, lambda d: ((2 * d) ** 0.25,) * 2, lambda d: (8 * d) ** -0.25),
        vectors,
        "deepnorm",
        None,
    )
    yield DepthRight("post-norm", functools.partial(own, order="post"), vectors, 0.0, None)
    yield DepthRight("parallel", functools.partial(own, order="parallel"), vectors, 0.0, None)


DEPTH_RIGHTS = [*of_bases(), *of_chains()]
