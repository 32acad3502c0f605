"""A user's torch module as a network: its blocks are called in order, with fresh weights per path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from deeplimit.common import validation
from deeplimit.common.randomness import seeded
from deeplimit.driving import FreshBlocks, Shape
from deeplimit.driving.blocks import blocks_of
from deeplimit.layers import ModuleBlocks
from deeplimit.networks.residual_network import ResidualNetwork, checked_network

TRIED = 2
"""Depth at which a factory is tried."""
A_MODULE_WEIGHS = 1000
"""What a module costs in memory beside its parameters, in numbers."""


def module_network(
    factory: Callable[[int], nn.Module | list[nn.Module]], width: int | tuple[int, ...]
) -> ResidualNetwork:
    """Make a network of the blocks that `factory(depth)` builds: h_{k+1} = block_{k+1}(h_k).

    Every path has a separate stack at every depth, built with generators seeded for it. The global
    generators are restored afterwards. No theorem is about such a network. `stability(factory, x=x)` and
    `compare(factory, limit, x=x)` make it themselves, with the shape of x.

    Args:
        factory: Function of the depth that returns as many blocks, as an `nn.Sequential`, `nn.ModuleList` or
            list. Each is called on one state at a time, (1, *shape), in evaluation mode.
        width: Shape of a state: an integer d for vectors, or a tuple such as (channels, height, width).

    Raises:
        TypeError: For a factory that cannot be called, or does not return modules.
        ValueError: For another number of blocks than the depth, or a block that changes a state's shape.

    NOT checked: that blocks draw their weights when they are built, and that they treat states one by one.

    Examples:
        >>> import torch, deeplimit as dl
        >>> class Block(torch.nn.Module):
        ...     def __init__(self, depth):
        ...         super().__init__()
        ...         self.linear, self.depth = torch.nn.Linear(4, 4), depth
        ...     def forward(self, h):
        ...         return h + torch.tanh(self.linear(h)) / self.depth
        >>> def blocks(depth):
        ...     return torch.nn.Sequential(*(Block(depth) for _ in range(depth)))
        >>> network = dl.module_network(blocks, width=4)
        >>> print(network)
        module: block(h), states of 4, fresh blocks of blocks(depth)
        >>> dl.stability(network, depths=[10, 20, 40], draws=20).hidden_ratio.shape
        (3, 20)
    """
    if isinstance(factory, nn.Module) or not callable(factory):
        raise TypeError(
            "factory must be a function of the depth that returns a stack of blocks; got"
            f" {validation.named(factory)}."
        )
    shape = _shape(width)
    with seeded(0):
        with validation.noted(f"deeplimit called the factory with depth {TRIED} to try it."):
            blocks, again = blocks_of(factory, TRIED), blocks_of(factory, TRIED)
        keeps = any(block is other for block in blocks for other in again)
    law = FreshBlocks(factory, keeps)
    tried = law.stack(TRIED, 0, torch.device("cpu"), torch.float32)
    _try(tried[0], shape)
    numbers = sum(tensor.numel() for tensor in (*tried[0].parameters(), *tried[0].buffers()))
    recursion = ModuleBlocks(shape=shape, numbers=numbers + A_MODULE_WEIGHS)
    return ResidualNetwork(recursion, shape[0], (law,), 0.0)


def network_of(value: object, x: Tensor | None, name: str = "resnet") -> ResidualNetwork:
    """Return a network as it is, and one of the blocks that a factory builds for states shaped as x."""
    factory = callable(value) and not isinstance(value, (type, nn.Module, ResidualNetwork))
    if not factory or x is None or getattr(value, "__module__", "").startswith("deeplimit."):
        return checked_network(value, name)
    if not isinstance(x, Tensor) or x.ndim < 2:
        raise ValueError(f"x must have shape (inputs, *shape of a state); got {validation.named(x)}.")
    return module_network(value, tuple(x.shape[1:]))  # type: ignore[arg-type]  # it was found to be callable


def _shape(width: Any) -> Shape:
    sizes = width if isinstance(width, tuple) else (width,)
    hint = "It is the shape of a state: d, or a tuple such as (channels, height, width)."
    return tuple(validation.integer(size, "width", minimum=1, hint=hint) for size in sizes)


def _try(block: nn.Module, shape: Shape) -> None:
    """Call a block once; raise in words unless it returns a state of the same shape."""
    with torch.no_grad(), seeded(0):
        try:
            after = block(torch.ones(1, *shape))
        except (RuntimeError, ValueError, IndexError) as error:
            raise ValueError(
                f"width must be the shape of the states that blocks take; one on (1, {_told(shape)}) raised"
                f" {type(error).__name__}: {str(error)[:200]}."
            ) from error
    if not isinstance(after, Tensor):
        raise TypeError(f"factory's blocks must return a tensor; one returned {type(after).__name__}.")
    if tuple(after.shape) != (1, *shape):
        raise ValueError(
            f"factory's blocks must keep the shape of states, (1, {_told(shape)}); one returned"
            f" {tuple(after.shape)}."
        )


def _told(shape: Shape) -> str:
    return ", ".join(map(str, shape))
