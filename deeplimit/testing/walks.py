"""Paths walked along a grid, with everything that they said kept."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from deeplimit.driving import Layer, Path, Shape, WeightLaw
from deeplimit.driving.path import Grid
from deeplimit.testing.contract import SEED, stream


@dataclass(frozen=True)
class Walk:
    """What a path said: layers by depth, and Brownian increments with the ends of their steps."""

    depths: tuple[int, ...]
    layers: list[list[Layer]]  # by depth, in order; values are copies
    brownian: list[Tensor]
    times: list[float]
    functions: int = 0
    """How many sampled functions of time its layers read."""

    def values(self, j: int) -> Tensor | None:
        """Return all layers of depth j (L, P or 1, *shape); None where they are 0."""
        return _stacked([layer.values for layer in self.layers[j]])

    def biases(self, j: int) -> Tensor | None:
        """Return all biases of depth j (L, P or 1, d); None where there are none."""
        return _stacked([layer.bias for layer in self.layers[j]])

    def motion(self, depth: int) -> Tensor:
        """Return the Brownian increments over the layers of a depth (L, P, motions)."""
        sums: list[Tensor | None] = [None] * depth
        for time, increment in zip(self.times, self.brownian, strict=True):
            k = min(depth - 1, int(time * depth - 1e-9))
            held = sums[k]
            sums[k] = increment if held is None else held + increment
        return torch.stack([each for each in sums if each is not None])


def _stacked(parts: list[Tensor | None]) -> Tensor | None:
    given = [part for part in parts if part is not None]
    return torch.stack(given) if given else None


def walk(
    law: WeightLaw,
    shape: Shape,
    depths: tuple[int, ...],
    paths: int,
    *,
    seed: int = SEED,
    dtype: torch.dtype = torch.float64,
) -> Walk:
    """Return what a path of the law said."""
    grid = Grid(depths)
    return _along(law.path(shape, grid, paths, stream(seed), dtype), grid)


def walked_twice(law: WeightLaw, shape: Shape, depths: tuple[int, ...], paths: int) -> tuple[Walk, Walk]:
    """Return what a path of the law said, and what it said after it was rewound."""
    grid = Grid(depths)
    path = law.path(shape, grid, paths, stream(SEED), torch.float64)
    first = _along(path, grid)
    path.rewind()
    return first, _along(path, grid)


def _along(path: Path, grid: Grid) -> Walk:
    found = Walk(grid.depths, [[] for _ in grid.depths], [], [], len(path.functions))
    for chunk in grid.chunks():
        path.begin(chunk)
        for index, ends in enumerate(chunk.ends.tolist()):
            path.advance(index)
            if path.brownian is not None:
                found.brownian.append(path.brownian.clone())
                found.times.append(float(chunk.times[index]))
            for j in range(len(grid.depths) - 1, -1, -1):
                if ends[j]:
                    found.layers[j].append(_copied(path.layer(j)))
    return found


def _copied(layer: Layer) -> Layer:
    values = None if layer.values is None else layer.values.clone()
    bias = None if layer.bias is None else layer.bias.clone()
    return Layer(values, layer.depth, layer.layer_exponent, layer.entry_scale, bias, layer.product_of)
