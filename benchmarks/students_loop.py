"""What a competent user writes instead, in 25 lines of torch per theorem: one vectorised loop for all depths.

Paths run in blocks that fit the cache. Every depth adds up the increments of the finest grid, each from the
next finer depth. Errors are largest distances over each depth's layers, their root mean square over paths.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

Increments = tuple[Tensor, ...]
Step = Callable[[Tensor, Increments, float], Tensor]
Draw = Callable[[int], Iterator[Increments]]


def errors(
    layer: Step,
    limit: Step,
    draw: Draw,
    width: int,
    depths: Sequence[int],
    reference: int,
    paths: int,
    *,
    adds: bool = True,
) -> list[float]:
    """Return the errors at all depths, which double and divide the reference.

    `layer` and `limit` take a state (P, d), increments and a step's length; `draw` yields the increments of
    the finest grid for a number of paths. A layer reads the sum of its increments, or the
    last of them where `adds` is False.
    """
    block = max(8, min(paths, 2**15 // width**2))
    squares = torch.zeros(len(depths))
    for first in range(0, paths, block):
        count = min(block, paths - first)
        fine = torch.randn(count, width)
        states, waiting = [fine] * len(depths), [()] * len(depths)  # type: list[Tensor], list[Increments]
        worst = torch.zeros(len(depths), count)
        for k, drawn in enumerate(draw(count), start=1):
            fine, increments = limit(fine, drawn, 1 / reference), drawn
            for j in reversed(range(len(depths))):
                again = adds and waiting[j]
                waiting[j] = tuple(map(torch.add, waiting[j], increments)) if again else increments
                if k % (reference // depths[j]):
                    break
                states[j] = layer(states[j], waiting[j], 1 / depths[j])
                worst[j] = torch.maximum(worst[j], (states[j] - fine).norm(dim=1))
                increments, waiting[j] = waiting[j], ()
        squares += worst.square().sum(dim=1)
    return list((squares / paths).sqrt().tolist())


def brownian(reference: int, *shapes: tuple[int, ...]) -> Draw:
    """Return what draws independent increments of these shapes."""

    def draw(count: int) -> Iterator[Increments]:
        for _ in range(reference):
            yield tuple(torch.randn(count, *shape) / math.sqrt(reference) for shape in shapes)

    return draw


def on_a_grid(covariance: Tensor, *shape: int) -> Draw:
    """Return what draws increments whose covariance over the grid is given, by its Cholesky factor."""
    factor = torch.linalg.cholesky(covariance.double() + 1e-12 * torch.eye(len(covariance))).float()

    def draw(count: int) -> Iterator[Increments]:
        numbers = count * math.prod(shape)
        for row in (factor @ torch.randn(len(factor), numbers)).view(-1, count, *shape):
            yield (row,)

    return draw


def times(matrix: Tensor, vector: Tensor) -> Tensor:
    """Return the products of matrices (P, d, d) and vectors (P, d)."""
    return torch.bmm(matrix, vector[..., None])[..., 0]
