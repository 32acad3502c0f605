"""The streaming pass over one block of paths: the limit and the network at every depth, step by step of the union grid."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from deeplimit.coupling.moments import Moments
from deeplimit.coupling.readers import FunctionReader, IncrementReader, Reader, make_reader
from deeplimit.coupling.references import AdaptiveODE, EulerMaruyama, Reference, solve
from deeplimit.coupling.task import Task
from deeplimit.limits import ODELimit, SDELimit
from deeplimit.randomness import Purpose, generator

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
        )
        for index, process in enumerate(task.network.weights)
    ]


def _limit_field(task: Task, block: int, readers: list[Reader], paths: int) -> Callable[..., Tensor]:
    assert isinstance(task.limit, ODELimit)
    if task.shares_functions:
        return task.limit.bind(tuple(reader.path for reader in readers if isinstance(reader, FunctionReader)))
    own = tuple(
        process.sample(
            task.network.width,
            paths,
            generator(task.seed, Purpose.LIMIT_NOISE, block, index, task.device),
            task.dtype,
            task.device,
        )
        for index, process in enumerate(task.limit.functions)
    )
    return task.limit.bind(own)


def make_reference(task: Task, block: int, h0: Tensor, readers: list[Reader]) -> Reference:
    """Return the limit's solver for one block, reading the network's own path where they share one."""
    if isinstance(task.limit, SDELimit):
        shared = [reader for reader in readers if isinstance(reader, IncrementReader)]
        own = None if task.shares_increments else generator(task.seed, Purpose.LIMIT_NOISE, block, 0, task.device)
        return EulerMaruyama(task.limit, h0, shared, own)
    return AdaptiveODE(_limit_field(task, block, readers, len(h0)), h0, task.tolerance)


def _distance(a: Tensor, b: Tensor) -> Tensor:
    distance: Tensor = torch.linalg.vector_norm(a - b, dim=1, dtype=torch.float64)
    return distance


@torch.no_grad()
def run_block(task: Task, block: int, tick: Tick | None = None) -> Moments:
    """Advance one block and return the moments of its per-path errors to the power p.

    Columns: for every depth the error in the task's norm, then for every depth the largest error at the times that all
    depths share (theory.md 4.1: the maximum over more and more points creeps, the one over fixed points does not).
    `tick` is called with the fraction of a block just done.
    """
    h0 = task.initial_states(block)
    readers = network_readers(task, block, len(h0))
    reference = make_reference(task, block, h0, readers)
    states = [h0] * len(task.grid.depths)
    deepest_first = range(len(states) - 1, -1, -1)
    zero = torch.zeros(len(h0), dtype=torch.float64, device=task.device)
    errors, common = [zero] * len(states), [zero] * len(states)
    limit = h0
    for chunk in task.grid.chunks():
        for reader in readers:
            reader.begin(chunk)
        reference.begin(chunk)
        ends = chunk.ends.tolist()
        for index, is_common in enumerate(chunk.common.tolist()):
            for reader in readers:
                reader.step(index)
            limit = reference.step(index)
            for j in deepest_first:
                if task.norm == "sup-continuous":
                    errors[j] = torch.maximum(errors[j], _distance(limit, states[j]))
                if not ends[index][j]:
                    continue
                layers = tuple(reader.layer(j) for reader in readers)
                states[j] = states[j] + task.network.recursion.residual(states[j], layers, task.network.exponent)
                distance = _distance(limit, states[j])
                errors[j] = distance if task.norm == "final" else torch.maximum(errors[j], distance)
                if is_common:
                    common[j] = torch.maximum(common[j], distance)
        if tick is not None:
            tick(len(ends) / task.grid.size)
    values = torch.stack(errors + (errors if task.norm == "final" else common), dim=1)
    lost = int((~torch.isfinite(limit).all(dim=1)).sum())
    return Moments.of(values.cpu().numpy(), task.p, lost)


@torch.no_grad()
def reference_error(task: Task) -> float:
    """Return the root mean square, over the first block, of what the ODE reference changes at a ten times looser tolerance.

    The looser solution's error mostly dominates the difference, so at the default tolerances this overstates the reference's
    own error; at loose ones (1e-3 and more on dH = H) it can fall a third short of it. Zero for an SDE, whose reference is
    corrected for instead.
    """
    if not isinstance(task.limit, ODELimit):
        return 0.0
    h0 = task.initial_states(0)
    field = _limit_field(task, 0, network_readers(task, 0, len(h0)), len(h0))
    times = torch.linspace(0.0, 1.0, min(task.grid.depths[0], 64) + 1, dtype=torch.float64, device=task.device)
    fine, coarse = (solve(field, h0, times, task.tolerance * factor) for factor in (1.0, 10.0))
    change = torch.linalg.vector_norm(fine - coarse, dim=2, dtype=torch.float64).amax(dim=0)
    return math.sqrt(change.square().mean().item())
