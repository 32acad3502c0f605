"""The streaming pass over one block of paths: the limit and the network at every depth, step by step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from deeplimit.driving import Path, SampledFunction, functions_of
from deeplimit.equations import Drive, Solver
from deeplimit.simulation.moments import ErrorAccumulator, Moments, moments_of
from deeplimit.simulation.task import Task

Tick = Callable[[float], None]


FEWEST_MOVED, MOST_MOVED, NUMBERS_HELD = 8, 128, 2**24
"""Paths on which a limit's movement is measured: at least, at most, and up to how many weights per layer of
all paths together. The RMS size of 8 paths is known to a quarter."""


class Observer(Protocol):
    """What a walk tells of one start: states in order of time, as `ErrorAccumulator` says."""

    def at(self, limit: Tensor, coarse: Tensor | None, is_common: bool) -> None: ...
    def between(self, j: int, state: Tensor) -> None: ...
    def layer(self, j: int, state: Tensor, scheme: Tensor | None = None) -> None: ...


def drive(
    task: Task,
    block: int,
    h0: Tensor,
    paths: tuple[Path, ...],
    functions: tuple[SampledFunction, ...] | None = None,
) -> Drive:
    """Return what the limit is solved on for one block; `functions` default to those that `paths` read."""
    return Drive(
        state=h0,
        paths=paths,
        functions=tuple(f for path in paths for f in path.functions) if functions is None else functions,
        laws=functions_of(task.network.channels),
        sharing=task.sharing,
        stream=partial(task.limit_stream, block),
        grid=task.grid,
        twice=task.measures_reference,
        tolerance=task.tolerance,
        schemes=task.splits,
    )


def make_solver(task: Task, block: int, h0: Tensor, paths: tuple[Path, ...]) -> Solver:
    """Return the limit's solver for one block, reading the network's paths where it shares them."""
    return task.limit.solver(drive(task, block, h0, paths))


@torch.no_grad()
def run_block(
    task: Task,
    block: int,
    tick: Tick | None = None,
    accumulator: Callable[[Task, Tensor], ErrorAccumulator] = ErrorAccumulator,
) -> Moments:
    """Advance one block with all weights drawn, and return the moments of its per-path errors to the power p.

    `tick` is called with the fraction of a block just done; `accumulator` keeps what is measured.
    """
    starts = task.starts(block)
    paths = task.network_paths(block, len(starts[0]))
    solvers = [make_solver(task, block, h0, paths) for h0 in starts]
    accumulators = [accumulator(task, h0) for h0 in starts]
    walk(task, paths, starts, solvers, accumulators, tick)
    return moments_of(accumulators, task)


def walk(
    task: Task,
    paths: tuple[Path, ...],
    starts: Sequence[Tensor],
    solvers: Sequence[Solver],
    accumulators: Sequence[Observer],
    tick: Tick | None = None,
) -> None:
    """Advance networks and limit over the grid: from each of `starts`, with a solver and an accumulator."""
    for _ in steps(task, paths, starts, solvers, accumulators, tick):
        pass


def steps(
    task: Task,
    paths: tuple[Path, ...],
    starts: Sequence[Tensor],
    solvers: Sequence[Solver],
    accumulators: Sequence[Observer],
    tick: Tick | None = None,
) -> Iterator[None]:
    """Advance as `walk` does, and pause after every step: a caller may end there, or begin to keep graphs."""
    recursion, exponent = task.network.recursion, task.network.exponent
    states = [[h0] * len(task.grid.depths) for h0 in starts]
    deepest_first = range(len(task.grid.depths) - 1, -1, -1)
    for chunk in task.grid.chunks():
        for path in paths:
            path.begin(chunk)
        for solver in solvers:
            solver.begin(chunk)
        ends = chunk.ends.tolist()
        for index, is_common in enumerate(chunk.common.tolist()):
            for path in paths:
                path.advance(index)
            for solver, kept in zip(solvers, accumulators, strict=True):
                limit = solver.step(index)
                kept.at(limit, solver.coarse if chunk.coarse[index] else None, is_common)
            for j in deepest_first:
                layers = tuple(path.layer(j) for path in paths) if ends[index][j] else ()
                for each, solver, kept in zip(states, solvers, accumulators, strict=True):
                    kept.between(j, each[j])
                    if layers:
                        each[j] = recursion.advance(each[j], layers, exponent)
                        kept.layer(j, each[j], solver.schemes[j] if task.splits else None)
            yield
        if tick is not None:
            tick(len(ends) / task.grid.size)


@torch.no_grad()
def movement(task: Task) -> float:
    """Return how far the limit moves: the largest RMS distance from its inputs over time, of a few paths.

    A limit that hardly moves, such as the identity, counts as moving by half of its inputs.
    """
    numbers = sum(math.prod(shape) for shape in task.network.weight_shapes)
    h0 = task.starts(0)[0][: max(FEWEST_MOVED, min(MOST_MOVED, NUMBERS_HELD // max(numbers, 1)))]
    paths = task.network_paths(0, len(h0))
    solver = make_solver(task, 0, h0, paths)
    largest = float(h0.flatten(1).double().square().sum(dim=1).mean()) / 4
    for chunk in task.grid.chunks():
        solver.begin(chunk)
        for path in paths:
            path.begin(chunk)
        for index in range(len(chunk.ends)):
            for path in paths:
                path.advance(index)
            moved = (solver.step(index) - h0).flatten(1)
            largest = max(largest, float(moved.double().square().sum(dim=1).mean()))
    return math.sqrt(largest)


@torch.no_grad()
def reference_error(task: Task) -> float:
    """Return the RMS change, over the first block, of a reference solution at a 10 times looser tolerance.

    The looser solution's error mostly dominates the difference. At the default tolerances this overstates the
    reference solution's error; at loose ones (1e-3 and more on dH = H) it can be a third too small. It is
    zero for a reference on a grid, whose error is corrected for instead.
    """
    if task.limit.setting != "tolerance" or task.limit.is_exact:
        return 0.0
    starts = task.starts(0)
    paths = task.network_paths(0, len(starts[0]))
    times = reference_times(task)
    squares = []
    for h0 in starts:
        change = task.limit.sensitivity(drive(task, 0, h0, paths), times)  # (times, P, ...)
        size = torch.linalg.vector_norm(change.flatten(2), dim=2, dtype=torch.float64)
        squares.append(size.amax(dim=0).square().mean().item())
    return math.sqrt(sum(squares) / len(squares))


def reference_times(task: Task) -> Tensor:
    """Return the times at which two solutions of a reference are compared."""
    count = min(task.grid.depths[0], 64) + 1
    return torch.linspace(0.0, 1.0, count, dtype=torch.float64, device=task.device)
