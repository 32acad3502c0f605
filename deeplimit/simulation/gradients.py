"""Gradients by the state of every layer, of networks and their limit, on the same noise.

A loss ℓ reads the last state. Backpropagation gives p_k = ∂ℓ(h_L)/∂h_k, and the limit has

    p_t = ∂ℓ(H_1)/∂H_t = (J_1 J_t^-1)ᵀ ∇ℓ(H_1),    J_t = ∂H_t/∂h_0.

No equation is solved backward in time, whose solution would not be adapted to the noise: states are kept with
the graph of their computation, and p is read off it, segment by segment where a path's graph is too large for
memory. An ODE has no noise; its p solves the adjoint equation.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from deeplimit.driving import ItoStep, Layer, Path
from deeplimit.driving.path import CHUNK
from deeplimit.equations import Drive
from deeplimit.equations.base import VectorField
from deeplimit.equations.solvers import Solver, solve
from deeplimit.simulation import pathwise
from deeplimit.simulation.moments import ErrorAccumulator, Moments, moments_of
from deeplimit.simulation.task import Task

LOSS = "ℓ(h) = ½|h|²"


def loss(h: Tensor) -> Tensor:
    """Return the sum over paths of ℓ(h) = ½|h|² at the last states h (P, *state_shape)."""
    return 0.5 * h.square().sum()


def _clone(value: Tensor | None) -> Tensor | None:
    return None if value is None else value.clone()


class HeldPath(Path):
    """A path that hands out copies: a graph keeps what paths overwrite at the next step."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.functions = path.functions

    @property
    def brownian(self) -> Tensor | None:
        return _clone(self.path.brownian)

    @property
    def ito(self) -> object | None:
        along = cast("ItoStep | None", self.path.ito)
        if along is None:
            return None
        return dataclasses.replace(along, matrix=_clone(along.matrix), bias=_clone(along.bias))

    @property
    def increment(self) -> Tensor | None:
        return _clone(self.path.increment)

    def begin(self, chunk: Any) -> None:
        self.path.begin(chunk)

    def advance(self, index: int) -> None:
        self.path.advance(index)

    def layer(self, j: int) -> Layer:
        layer = self.path.layer(j)
        return dataclasses.replace(layer, values=_clone(layer.values), bias=_clone(layer.bias))

    def rewind(self) -> None:
        self.path.rewind()


class States:
    """What a walk leaves: every state of the limit, of its coarser solution, the networks and the schemes.

    Where no graph is recorded, the last of each is all that is kept: there a segment may begin.
    """

    def __init__(self, task: Task, h0: Tensor) -> None:
        self.limit, self.coarse = [h0], [h0]
        self.networks = [[h0] for _ in task.grid.depths]
        self.schemes = [[h0] for _ in task.grid.depths]

    @property
    def trajectories(self) -> list[list[Tensor]]:
        return [self.limit, self.coarse, *self.networks, *self.schemes]

    def begin_graph(self) -> None:
        """Let graphs begin at the present states."""
        for trajectory in self.trajectories:
            trajectory[-1].requires_grad_()

    def at(self, limit: Tensor, coarse: Tensor | None, is_common: bool) -> None:
        _keep(self.limit, limit)
        if coarse is not None:
            _keep(self.coarse, coarse)

    def between(self, j: int, state: Tensor) -> None:
        """Nothing to keep: states change at layers."""

    def layer(self, j: int, state: Tensor, scheme: Tensor | None = None) -> None:
        _keep(self.networks[j], state)
        if scheme is not None:
            _keep(self.schemes[j], scheme)


def _keep(trajectory: list[Tensor], state: Tensor) -> None:
    if not torch.is_grad_enabled():
        trajectory.clear()
    trajectory.append(state)


Gradients = Sequence[Tensor] | Tensor
"""p at each time of one trajectory, (P, *state_shape) each."""


def backward(states: Sequence[Tensor], later: Sequence[Tensor] = ()) -> Sequence[Tensor]:
    """Return ∂ℓ/∂state for each state of one trajectory, then what is known of `later` ones.

    These begin with the last of `states`. Nothing is returned where no states were kept.
    """
    if len(states) == 1:
        return later
    if not states[-1].requires_grad:
        raise RuntimeError(
            "quantity='gradient' follows states by autograd, but those of the limit or of the network do not"
            " depend on states before them. Let a solver or recursion go on from the tensor that it returned,"
            " by torch operations; quantity='state' needs neither."
        )
    if not later:
        return torch.autograd.grad(loss(states[-1]), [*states], materialize_grads=True)
    here = torch.autograd.grad(states[-1], [*states[:-1]], later[0], materialize_grads=True)
    return [*here, *later]


class _Still(Solver):
    """Holds the place of an ODE's solver in a walk: its gradients come from the adjoint equation."""

    def __init__(self, h0: Tensor) -> None:
        self.h0 = h0

    def step(self, index: int) -> Tensor:
        return self.h0


def adjoint(field: VectorField, h0: Tensor, times: Tensor, tolerance: float) -> Tensor:
    """Return p_t = ∂ℓ(H_1)/∂H_t of dH = f dt at increasing `times` (K,) from 0 to 1, as (K, P, *state_shape).

    Solved backward from time 1 together with the state: dp = -(Df)ᵀ p dt.
    """
    end = solve(field, h0, times[[0, -1]], tolerance)[-1]

    def reversed_field(s: Tensor, y: Tensor) -> Tensor:
        with torch.enable_grad():
            state = y[..., 0].detach().requires_grad_()
            moved = field(1.0 - s, state)
            pulled = torch.zeros_like(state)
            if moved.requires_grad:
                (pulled,) = torch.autograd.grad(moved, state, y[..., 1], materialize_grads=True)
        return torch.stack([-moved.detach(), pulled], dim=-1)

    with torch.enable_grad():
        last = end.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(loss(last), last)
    start = torch.stack([end, gradient], dim=-1)
    return solve(reversed_field, start, 1.0 - times.flip(0), tolerance)[..., 1].flip(0)


def _adjoint_on_grid(task: Task, drive: Drive) -> Tensor:
    times = np.concatenate([[0.0], *(chunk.times for chunk in task.grid.chunks())])
    grid = torch.from_numpy(times).to(task.device)
    return adjoint(task.limit.bound(drive), drive.state, grid, task.tolerance)


def run_block(
    task: Task,
    block: int,
    tick: pathwise.Tick | None = None,
    accumulator: Callable[[Task, Tensor], ErrorAccumulator] = ErrorAccumulator,
) -> Moments:
    """Return the moments of a block's per-path errors of gradients to the power p.

    Graphs of whole paths may not fit in memory. They are made segment by segment then, the last one first:
    the path is rewound, and walked without a graph up to where the segment begins.
    """
    h0 = task.initial_states(block)
    paths = tuple(HeldPath(path) for path in task.network_paths(block, len(h0)))
    marks = segment_ends(task)

    def told(steps: int) -> None:
        if tick is not None:
            tick(steps / sum(marks))

    found: list[Sequence[Tensor]] = []
    for first, last in reversed(list(itertools.pairwise(marks))):
        states = States(task, h0.clone())
        _walk_segment(task, block, states, paths, first, last, told)
        found = [
            backward(each, later)
            for each, later in itertools.zip_longest(states.trajectories, found, fillvalue=())
        ]
    depths = len(task.grid.depths)
    limit: Gradients = found[0]
    with torch.no_grad():
        if task.is_ode:
            limit = _adjoint_on_grid(task, pathwise.drive(task, block, h0, paths))
        kept = accumulator(task, h0)
        _tell(task, kept, limit, found[1], found[2 : 2 + depths], found[2 + depths :])
    return moments_of([kept], task)


def segment_ends(task: Task) -> list[int]:
    """Return after how many steps segments of graphs end, 0 first: at times that all depths share."""
    common = task.grid.common
    every = -(-common // task.segments)
    return [task.grid.size * k // common for k in (*range(0, common, every), common)]


def _walk_segment(
    task: Task,
    block: int,
    states: States,
    paths: tuple[HeldPath, ...],
    first: int,
    last: int,
    told: Callable[[int], None],
) -> None:
    """Walk to step `last`, and keep in `states` those from step `first` on, with their graph."""
    for path in paths:
        path.rewind()
    start = states.limit[0]
    if first == 0:
        states.begin_graph()
    with torch.set_grad_enabled(first == 0):
        solver = _Still(start) if task.is_ode else pathwise.make_solver(task, block, start, paths)
        for step, _ in enumerate(pathwise.steps(task, paths, [start], [solver], [states]), 1):
            if step == first:
                states.begin_graph()
                torch.set_grad_enabled(True)
            if step % CHUNK == 0 or step == last:
                told((step - 1) % CHUNK + 1)
            if step == last:
                break


def _tell(
    task: Task,
    accumulator: ErrorAccumulator,
    limit: Gradients,
    coarse: Gradients,
    networks: Sequence[Gradients],
    schemes: Sequence[Gradients],
) -> None:
    """Tell an accumulator all gradients in order of time, and those by h_0 last."""
    now, coarser, layers = 0, 0, [0] * len(networks)
    deepest_first = range(len(networks) - 1, -1, -1)

    def tell(j: int) -> None:
        at = layers[j]
        accumulator.layer(j, networks[j][at], schemes[j][at] if task.splits else None)

    for chunk in task.grid.chunks():
        ends = chunk.ends.tolist()
        for index, is_common in enumerate(chunk.common.tolist()):
            now += 1
            coarser += bool(chunk.coarse[index])
            second = coarse[coarser] if len(coarse) and chunk.coarse[index] else None
            accumulator.at(limit[now], second, is_common)
            for j in deepest_first:
                accumulator.between(j, networks[j][layers[j]])
                if ends[index][j]:
                    layers[j] += 1
                    tell(j)
    accumulator.at(limit[0], coarse[0] if len(coarse) else None, True)
    for j in deepest_first:
        layers[j] = 0
        tell(j)


@torch.no_grad()
def reference_error(task: Task) -> float:
    """Return the RMS change, over the first block, of the limit's gradients at a 10 times looser tolerance.

    0 for a reference on a grid, as in `pathwise.reference_error`.
    """
    if not task.is_ode:
        return 0.0
    h0 = task.initial_states(0)
    field = task.limit.bound(pathwise.drive(task, 0, h0, task.network_paths(0, len(h0))))
    times = pathwise.reference_times(task)
    fine, coarse = (adjoint(field, h0, times, task.tolerance * factor) for factor in (1.0, 10.0))
    size = torch.linalg.vector_norm((fine - coarse).flatten(2), dim=2, dtype=torch.float64)
    return float(size.amax(dim=0).square().mean().sqrt())
