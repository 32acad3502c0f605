"""Blocks of a user's torch module whose weights are normal and enter linearly: Brownian motions drive them.

Where every drawn number of a block is independent and normal with mean 0, and what the block adds is linear
in these numbers, the layers of depth L are increments of Brownian motions over 1/L, and so are those of any
other depth, on one path. The law of each network is what its factory draws.

How a factory draws is read from its operations (`drawn_blocks`); that blocks are linear in it is tried.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import final

import torch
from torch import Tensor, nn

from deeplimit.driving.blocks import FreshBlocks, traced_at
from deeplimit.driving.drawn_blocks import (
    At,
    Operation,
    Place,
    TracedFactory,
    called_together,
    close,
)
from deeplimit.driving.independent import Brownian
from deeplimit.driving.law import Channel, ChannelKind, Dependence, Facts, Shape, WeightLaw
from deeplimit.driving.path import Chunk, Grid, Layer, Path

aten = torch.ops.aten
SCALES = {aten.mul.Tensor: 1.0, aten.mul_.Tensor: 1.0, aten.div.Tensor: -1.0, aten.div_.Tensor: -1.0}
"""Operations that multiply by a number, and the power of it."""
TRIED_DEPTHS = (2, 8)
"""Depths at which blocks are tried before anything is measured; others are tried when they are reached."""


@final
@dataclass(frozen=True)
class NormalStack:
    """The blocks of one depth.

    Attributes:
        blocks: those of one draw.
        deviations: per block the standard deviation of each tensor that is drawn, by name.
        same: per block the other tensors.
    """

    blocks: Sequence[nn.Module]
    deviations: Sequence[dict[str, float]]
    same: Sequence[dict[str, Tensor]]


@final
@dataclass(frozen=True)
class NormalBlocks(WeightLaw):
    """The blocks that a factory builds, with their normal weights as increments of Brownian motions.

    `shapes` are those of a block's drawn tensors, by name. No theorem is about such a network.
    """

    fresh: FreshBlocks
    shapes: tuple[tuple[str, Shape], ...]

    @property
    def facts(self) -> Facts:
        return Facts(Dependence.INDEPENDENT, gaussian=True, independent_entries=True, symmetric=True)

    @property
    def layer_exponent(self) -> float:
        return 0.0

    def channels(self, shape: Shape) -> tuple[Channel, ...]:
        return tuple(
            Channel(name, ChannelKind.BROWNIAN, each, math.inf, 1.0, 0.0) for name, each in self.shapes
        )

    def path(
        self, shape: Shape, grid: Grid, paths: int, generator: torch.Generator, dtype: torch.dtype
    ) -> Path:
        return NormalBlocksPath(self, grid, paths, generator, dtype)

    def describe(self) -> str:
        return f"{self.fresh.describe()}, normal weights as Brownian increments"


class NormalBlocksPath(Path):
    """One Brownian motion for all numbers of a block, in the order of their names."""

    def __init__(
        self, law: NormalBlocks, grid: Grid, paths: int, generator: torch.Generator, dtype: torch.dtype
    ) -> None:
        self.law, self.depths, self.dtype = law, grid.depths, dtype
        self.device = torch.device(generator.device)
        self.sizes = [math.prod(shape) for _, shape in law.shapes]
        self.motions = Brownian().path((sum(self.sizes),), grid, paths, generator, dtype)
        self.stacks: list[NormalStack | None] = [None for _ in grid.depths]
        self.passed = [0] * len(grid.depths)

    @property
    def brownian(self) -> Tensor | None:
        return self.motions.brownian

    @property
    def increment(self) -> Tensor | None:
        return self.motions.increment

    def begin(self, chunk: Chunk) -> None:
        self.motions.begin(chunk)

    def advance(self, index: int) -> None:
        self.motions.advance(index)

    def layer(self, j: int) -> Layer:
        depth, k = self.depths[j], self.passed[j]
        self.passed[j] += 1
        stack = self.stacks[j] = self.stacks[j] or self._own(depth)
        values = self.motions.layer(j).values
        assert values is not None
        unit = values * math.sqrt(depth)
        numbers = {
            name: part.reshape(len(part), *shape) * stack.deviations[k][name]
            for part, (name, shape) in zip(torch.split(unit, self.sizes, 1), self.law.shapes, strict=True)
        }

        def product(states: Tensor) -> Tensor:
            return called_together(stack.blocks[k], numbers, stack.same[k], states)

        return Layer(None, depth, 0.0, 1.0, product_of=product)

    def _own(self, depth: int) -> NormalStack:
        """Return blocks that no other thread calls."""
        found = normal_stack(self.law.fresh, depth)
        if found is None or shapes_of(found) != self.law.shapes:
            raise ValueError(
                f"factory({depth}) must draw its blocks as it does at depths {TRIED_DEPTHS}: independent"
                " normal weights, in which blocks are linear. compare_laws(factory, limit, x) compares laws."
            )
        blocks = [copy.deepcopy(block).to(self.device, self.dtype) for block in found.blocks]
        return NormalStack(blocks, found.deviations, [self._moved(each) for each in found.same])

    def _moved(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return {
            name: each.to(self.device, self.dtype if each.is_floating_point() else each.dtype)
            for name, each in tensors.items()
        }

    def rewind(self) -> None:
        self.motions.rewind()
        self.passed = [0] * len(self.depths)


def normal_blocks(fresh: FreshBlocks) -> NormalBlocks | None:
    """Return the law of blocks with their weights as Brownian increments; None where they are not."""
    found = [normal_stack(fresh, depth) for depth in TRIED_DEPTHS]
    first, *others = [None if stack is None else shapes_of(stack) for stack in found]
    return NormalBlocks(fresh, first) if first and all(each == first for each in others) else None


def shapes_of(stack: NormalStack) -> tuple[tuple[str, Shape], ...] | None:
    """Return the shapes of the drawn tensors, by name; None where blocks differ in them."""
    tensors = [dict((*block.named_parameters(), *block.named_buffers())) for block in stack.blocks]
    found = {
        tuple((name, tuple(own[name].shape)) for name in drawn)
        for own, drawn in zip(tensors, stack.deviations, strict=True)
    }
    return found.pop() if len(found) == 1 else None


@lru_cache(maxsize=16)
def normal_stack(fresh: FreshBlocks, depth: int) -> NormalStack | None:
    """Return the blocks of a depth; None where weights are not normal, or blocks not linear in them."""
    if fresh.keeps or fresh.repeats or (found := traced_at(fresh, depth)) is None:
        return None
    blocks = fresh.stack(depth, 0, torch.device("cpu"), torch.float64)
    deviations: list[dict[str, float]] = []
    same: list[dict[str, Tensor]] = []
    taken: list[tuple[int, int, int]] = []
    writes = _writes(found)
    for block, places in zip(blocks, found.places, strict=True):
        own = dict((*block.named_parameters(), *block.named_buffers()))
        drawn = {name: place for name, place in places.items() if place[0] in found.drawn}
        spreads = {name: _deviation(writes, place) for name, place in drawn.items()}
        if any(each is None for each in spreads.values()):
            return None
        moving = {name: each for name, each in spreads.items() if each}
        taken += [(drawn[name][0], *_range(drawn[name])) for name in moving]
        deviations.append(moving)
        same.append({name: each for name, each in own.items() if name not in moving})
    # A tensor that stands in two layers is one motion.
    apart = all(one[0] != other[0] or one[2] <= other[1] for one, other in pairwise(sorted(taken)))
    stack = NormalStack(blocks, deviations, same)
    return stack if apart and _is_linear(stack, fresh.state_shape) else None


def _range(place: Place) -> tuple[int, int]:
    """Return where a tensor begins and ends in its storage."""
    _, offset, shape, strides = place
    return offset, offset + 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


Writes = dict[int, list[tuple[Place, float | None]]]
"""By storage, the tensors in it that were written in turn, with the standard deviation of what was drawn."""


def _writes(found: TracedFactory) -> Writes:
    """Return what a factory draws, in order; a deviation is 0 for zeros and None for what is not known."""
    writes: Writes = {}
    for operation in found.operations:
        given = operation.given[0] if operation.given else None
        source = given.place if isinstance(given, At) else None
        made = operation.made[0] if operation.made else None
        target = made or (source if operation.call._schema.is_mutable else None)
        if target is not None:
            before = None if source is None else _deviation(writes, source)
            writes.setdefault(target[0], []).append((target, _value(operation, before)))
    return writes


def _deviation(writes: Writes, place: Place) -> float | None:
    """Return the standard deviation of the normal draws in a tensor; 0 for zeros, None for anything else."""
    for target, value in reversed(writes.get(place[0], [])):
        if _covers(target, place):
            return value
        if _overlaps(target, place):
            return None
    return None


def _covers(target: Place, place: Place) -> bool:
    """Whether a tensor without gaps holds all of another one in the same storage."""
    size, (start, end) = math.prod(target[2]), _range(target)
    first, last = _range(place)
    return end - start == size and start <= first and last <= end


def _overlaps(target: Place, place: Place) -> bool:
    (start, end), (first, last) = _range(target), _range(place)
    return start < last and first < end


def _value(operation: Operation, before: float | None) -> float | None:
    """Return the standard deviation of what an operation makes of draws with another one."""
    call, rest = operation.call, operation.given[1:]
    if call is aten.randn.default:
        return 1.0
    if call is aten.normal_.default:
        mean = rest[0] if rest else operation.named.get("mean", 0.0)
        deviation = rest[1] if len(rest) > 1 else operation.named.get("std", 1.0)
        return float(deviation) if mean == 0 else None
    if call is aten.zero_.default or (call is aten.fill_.Scalar and rest[0] == 0):
        return 0.0
    if call in SCALES and before is not None and isinstance(rest[0], (int, float)) and rest[0]:
        return before * float(abs(float(rest[0])) ** SCALES[call])
    return None


def _is_linear(stack: NormalStack, shape: Shape) -> bool:
    """Try whether what each block adds is linear in its drawn numbers, up to a drift that has none."""
    random = torch.Generator().manual_seed(0)
    state = torch.randn(1, *shape, generator=random, dtype=torch.float64).expand(4, *shape)
    for block, deviations, same in zip(stack.blocks, stack.deviations, stack.same, strict=True):
        own = dict((*block.named_parameters(), *block.named_buffers()))
        numbers = {}
        for name, deviation in deviations.items():
            one, other = deviation * torch.randn(2, *own[name].shape, generator=random, dtype=torch.float64)
            numbers[name] = torch.stack([one, other, one + 2 * other, torch.zeros_like(one)])
        try:
            with torch.no_grad():
                first, second, both, none = called_together(block, numbers, same, state)
        except Exception:  # noqa: BLE001  # whatever a block does that has no batch
            return False
        if not close(both - none, (first - none) + 2 * (second - none)):
            return False
    return True
