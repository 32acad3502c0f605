"""The streaming pass over one block of paths: the limit and the network at every depth, step by step of the
union grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from deeplimit.coupling.account import Account, moments_of
from deeplimit.coupling.moments import Moments
from deeplimit.coupling.readers import FractionalReader, HypothesisReader, Reader, make_reader
from deeplimit.coupling.references import (
    AdaptiveODE,
    EulerMaruyama,
    ItoEuler,
    ModifiedEuler,
    Reference,
    solve,
)
from deeplimit.coupling.task import Task
from deeplimit.ground.randomness import Purpose, generator
from deeplimit.limits import ItoCorrectedSDE, NeuralYoung, ODELimit, SDELimit
from deeplimit.weights import FunctionPath, FunctionProcess

Tick = Callable[[float], None]


def network_readers(task: Task, block: int, paths: int) -> list[Reader]:
    """Return one reader for each weight matrix of the network, each on a stream of its own."""
    return [
        make_reader(
            process,
            task.grid.depths,
            task.network.width,
            paths,
            generator(task.seed, Purpose.NETWORK_WEIGHTS, block, index, task.device),
            task.dtype,
            task.grid.size,
        )
        for index, process in enumerate(task.network.weights)
    ]


def functions_of_limit(
    task: Task, functions: tuple[FunctionProcess, ...], block: int, own: tuple[FunctionPath, ...], paths: int
) -> tuple[FunctionPath, ...]:
    """Return the paths that the limit reads: the network's own where they share them, else drawn afresh."""
    if task.shares_functions:
        return own
    streams = (
        generator(task.seed, Purpose.LIMIT_NOISE, block, 1 + index, task.device)
        for index in range(len(functions))
    )
    return tuple(
        process.sample(task.network.width, paths, stream, task.dtype, task.device)
        for process, stream in zip(functions, streams, strict=True)
    )


def paths_of(readers: list[Reader]) -> tuple[FunctionPath, ...]:
    """Return the functions of time that the readers read."""
    return tuple(path for reader in readers for path in reader.paths)


def _limit_field(
    task: Task, block: int, own_paths: tuple[FunctionPath, ...], paths: int
) -> Callable[..., Tensor]:
    assert isinstance(task.limit, ODELimit)
    return task.limit.bind(functions_of_limit(task, task.limit.functions, block, own_paths, paths))


def _young(task: Task, limit: NeuralYoung, block: int, h0: Tensor, readers: list[Reader]) -> ModifiedEuler:
    if task.shares_path:
        (reader,) = readers
        assert isinstance(reader, FractionalReader)
        return ModifiedEuler(limit, h0, reader, False, task.measures_reference)
    stream = generator(task.seed, Purpose.LIMIT_NOISE, block, 0, task.device)
    reader = FractionalReader(limit.weights[0], (), limit.width, len(h0), stream, task.dtype, task.grid.size)
    return ModifiedEuler(limit, h0, reader, True, False)


def make_reference(
    task: Task,
    block: int,
    h0: Tensor,
    readers: list[Reader],
    functions: tuple[FunctionPath, ...] | None = None,
) -> Reference:
    """Return the limit's solver for one block, reading the network's own path and functions of time where
    they share them.

    `functions` are those that `readers` read, unless given.
    """
    own_paths = paths_of(readers) if functions is None else functions
    if isinstance(task.limit, NeuralYoung):
        return _young(task, task.limit, block, h0, readers)
    if isinstance(task.limit, SDELimit):
        own = (
            None
            if task.shares_increments
            else generator(task.seed, Purpose.LIMIT_NOISE, block, 0, task.device)
        )
        twice = task.measures_reference
        if not isinstance(task.limit, ItoCorrectedSDE):
            return EulerMaruyama(task.limit, h0, readers, own, twice)
        trends = (
            ()
            if task.limit.trend is None
            else functions_of_limit(task, (task.limit.trend,), block, own_paths, len(h0))
        )
        same = (
            [reader for reader in readers if isinstance(reader, HypothesisReader)]
            if task.shares_noise
            else []
        )
        return ItoEuler(
            task.limit, h0, readers, own, twice, same[0] if same else None, trends[0] if trends else None
        )
    return AdaptiveODE(_limit_field(task, block, own_paths, len(h0)), h0, task.tolerance)


@torch.no_grad()
def run_block(task: Task, block: int, tick: Tick | None = None) -> Moments:
    """Advance one block with all increments drawn, and return the moments of its per-path errors to the power
    p.

    `tick` is called with the fraction of a block just done.
    """
    starts = task.starts(block)
    readers = network_readers(task, block, len(starts[0]))
    references = [make_reference(task, block, h0, readers) for h0 in starts]
    states = [[h0] * len(task.grid.depths) for h0 in starts]
    deepest_first = range(len(task.grid.depths) - 1, -1, -1)
    accounts = [Account(task, h0) for h0 in starts]
    for chunk in task.grid.chunks():
        for reader in readers:
            reader.begin(chunk)
        for reference in references:
            reference.begin(chunk)
        ends = chunk.ends.tolist()
        for index, is_common in enumerate(chunk.common.tolist()):
            for reader in readers:
                reader.step(index)
            for reference, account in zip(references, accounts, strict=True):
                limit = reference.step(index)
                account.at(limit, reference.coarse if chunk.coarse[index] else None, is_common)
            for j in deepest_first:
                layers = tuple(reader.layer(j) for reader in readers) if ends[index][j] else ()
                for own, account in zip(states, accounts, strict=True):
                    account.between(j, own[j])
                    if layers:
                        own[j] = own[j] + task.network.recursion.residual(
                            own[j], layers, task.network.exponent
                        )
                        account.layer(j, own[j])
        if tick is not None:
            tick(len(ends) / task.grid.size)
    return moments_of(accounts)


@torch.no_grad()
def reference_error(task: Task) -> float:
    """Return the root mean square, over the first block, of what the ODE reference changes at a ten times
    looser tolerance.

    The looser solution's error mostly dominates the difference, so at the default tolerances this overstates
    the reference's own error; at loose ones (1e-3 and more on dH = H) it can fall a third short of it. Zero
    for an SDE, whose reference is corrected for instead.
    """
    if not isinstance(task.limit, ODELimit):
        return 0.0
    starts = task.starts(0)
    field = _limit_field(task, 0, paths_of(network_readers(task, 0, len(starts[0]))), len(starts[0]))
    times = torch.linspace(
        0.0, 1.0, min(task.grid.depths[0], 64) + 1, dtype=torch.float64, device=task.device
    )
    squares = []
    for h0 in starts:
        fine, coarse = (solve(field, h0, times, task.tolerance * factor) for factor in (1.0, 10.0))
        squares.append(
            torch.linalg.vector_norm(fine - coarse, dim=2, dtype=torch.float64)
            .amax(dim=0)
            .square()
            .mean()
            .item()
        )
    return math.sqrt(sum(squares) / len(squares))
