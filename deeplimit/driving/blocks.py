"""Layers that are the blocks of a user's torch module, built afresh for each path and depth."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import torch
from torch import Tensor, nn

from deeplimit.common import validation
from deeplimit.common.global_state import seeded
from deeplimit.driving.law import Channel, ChannelKind, Dependence, Facts, Shape, WeightLaw
from deeplimit.driving.path import Grid, Layer, Path

Factory = Callable[[int], Any]
"""Modules draw their weights from the global generators: one stack is built at a time."""


NOT_KNOWN = (
    "how the blocks of a module draw their weights (an equation that holds one draw is the limit of a factory"
    " that draws the same each time: call torch.manual_seed in it)"
)
"""What every report on a module's blocks says of their weights."""


@final
@dataclass(frozen=True)
class FreshBlocks(WeightLaw):
    """The blocks that `factory(depth)` builds, with fresh weights for each path at each depth.

    Blocks are put in evaluation mode, so that dropout draws nothing. Where the factory returns the same
    blocks when it is called again, `keeps`, they are copied and stay as they are. How blocks draw their
    weights is not known, so no theorem is about them.
    """

    factory: Factory
    keeps: bool = False

    @property
    def facts(self) -> Facts:
        return Facts(Dependence.UNKNOWN, not_known=(NOT_KNOWN,))

    @property
    def layer_exponent(self) -> float:
        return 0.0

    def channels(self, shape: Shape) -> tuple[Channel, ...]:
        return (Channel("block", ChannelKind.SEPARATE, shape, held=math.prod(shape)),)

    def path(
        self, shape: Shape, grid: Grid, paths: int, generator: torch.Generator, dtype: torch.dtype
    ) -> Path:
        return BlocksPath(self, grid.depths, paths, generator, dtype)

    def describe(self) -> str:
        name = getattr(self.factory, "__name__", type(self.factory).__name__)
        return f"fresh blocks of {name}(depth)"

    def stack(self, depth: int, seed: int, device: torch.device, dtype: torch.dtype) -> Sequence[nn.Module]:
        """Return the blocks of one network; raise where they are not modules, or not one per layer."""
        with seeded(seed):
            blocks = blocks_of(self.factory, depth)
            blocks = [copy.deepcopy(block) for block in blocks] if self.keeps else blocks
        return [block.to(device, dtype).eval().requires_grad_(False) for block in blocks]


def blocks_of(factory: Factory, depth: int) -> list[nn.Module]:
    """Return the blocks that a factory builds; raise where they are not modules, or not one per layer."""
    built = factory(depth)
    if not isinstance(built, (nn.Sequential, nn.ModuleList, list, tuple)):
        raise TypeError(
            f"factory({depth}) must return its blocks in order, as an nn.Sequential, nn.ModuleList or list;"
            f" got {validation.named(built)}. identify(factory, x) and check_depth(factory) take whole"
            " models."
        )
    blocks = list(built)
    for k, block in enumerate(blocks):
        if not isinstance(block, nn.Module):
            raise TypeError(f"factory({depth})[{k}] must be an nn.Module; got {validation.named(block)}.")
    if len(blocks) != depth:
        raise ValueError(f"factory({depth}) must return {depth} blocks, one per layer; got {len(blocks)}.")
    return blocks


class BlocksPath(Path):
    """A stack of blocks for every path at every depth, built when the depth's first layer ends."""

    def __init__(
        self,
        law: FreshBlocks,
        depths: tuple[int, ...],
        paths: int,
        generator: torch.Generator,
        dtype: torch.dtype,
    ) -> None:
        self.law = law
        self.depths = depths
        self.device, self.dtype = torch.device(generator.device), dtype
        many = (len(depths), paths)
        self.seeds = torch.randint(2**62, many, generator=generator, device=self.device).tolist()
        self.stacks: list[list[Sequence[nn.Module]]] = [[] for _ in depths]
        self.passed = [0] * len(depths)

    def advance(self, index: int) -> None:
        """Nothing to do: a depth's blocks follow each other."""

    def layer(self, j: int) -> Layer:
        depth, k = self.depths[j], self.passed[j]
        if not self.stacks[j]:
            self.stacks[j] = [self.law.stack(depth, seed, self.device, self.dtype) for seed in self.seeds[j]]
        self.passed[j] += 1
        blocks = [stack[k] for stack in self.stacks[j]]
        return Layer(None, depth, 0.0, 1.0, product_of=partial(_called, blocks), blocks=blocks)

    def rewind(self) -> None:
        self.passed = [0] * len(self.depths)


def _called(blocks: Sequence[nn.Module], state: Tensor) -> Tensor:
    """Return every path's block of its own state (1, *state_shape); a copy, which blocks may write on."""
    return torch.cat([block(h.clone()) for block, h in zip(blocks, state.unsqueeze(1), strict=True)])
