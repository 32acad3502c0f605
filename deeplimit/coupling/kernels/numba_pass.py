"""`projected` with its inner loops compiled by numba, where that is installed and the task is one that the
loops know.

The same streams of normals, the same arithmetic up to rounding: which of the two ran decides nothing but the
time.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType

import numpy as np
import torch

from deeplimit.activations import Activation
from deeplimit.coupling.kernels import projected
from deeplimit.coupling.kernels.followers import (
    Follower,
    ItoFollower,
    NetworkFollower,
    NeuralSDEFollower,
    is_plain,
)
from deeplimit.coupling.moments import Moments
from deeplimit.coupling.pathwise import Tick
from deeplimit.coupling.task import Task
from deeplimit.limits import NeuralSDE
from deeplimit.recursions import Res1
from deeplimit.weights.covariance import VectorEntries

ENABLED = True
"""Set to False to run the same computation in torch."""
STEPS = 16
WORTHWHILE = 2**24
"""Less work than this (paths x steps x columns x width) takes torch a fraction of a second, and loading the
loops as long.
"""


@cache
def loops() -> ModuleType | None:
    """Return the compiled loops; None where numba is missing, does not go with the numpy that is there, or
    may write nowhere.
    """
    try:
        from deeplimit.coupling.kernels import numba_loops as lanes
    except (ImportError, RuntimeError):
        return None
    return lanes


def applies(task: Task) -> bool:
    """Return whether the compiled loops do exactly what `projected` does for this task, and are worth
    loading.
    """
    if not (ENABLED and task.coupling == "projected" and task.shares_increments) or task.same_network:
        return False
    if task.device.type != "cpu" or task.dtype != torch.float32 or task.norm == "sup-continuous":
        return False
    if task.paths * task.grid.size * (len(task.grid.depths) + 1) * task.network.width < WORTHWHILE:
        return False
    return (
        is_plain(task.network, task.limit)
        and (lanes := loops()) is not None
        and _are_known(task, lanes.NAMES)
    )


def _are_known(task: Task, names: tuple[str, ...]) -> bool:
    own = isinstance(task.limit, NeuralSDE) and task.limit.recursion.activation.name not in names
    return task.network.recursion.activation.name in names and not own


def _numbers(
    follower: Follower, width: int
) -> tuple[int, Activation | None, float, np.ndarray, float, float, np.ndarray]:
    """Return a trajectory's entries of `lanes.Motion`."""
    from deeplimit.coupling.kernels import numba_loops as lanes

    factor = float(follower.factors.rows) * float(follower.factors.columns)
    deviations, variances = np.zeros(width), np.zeros(width)
    if follower.rate is not None and isinstance(follower.rate.vector, VectorEntries):
        deviations = np.broadcast_to(follower.rate.vector.deviations.numpy(), (width,))
        variances = np.broadcast_to(follower.rate.vector.variances.numpy(), (width,))
    if isinstance(follower, ItoFollower):
        slope, half = follower.limit.slope, 0.5 * follower.limit.curvature
        return lanes.ITO, None, slope * factor, slope * deviations, half, factor**2, variances
    if isinstance(follower, NetworkFollower) and not isinstance(follower.recursion, Res1):
        outer = float(follower.layer.depth) ** -follower.exponent
        sigma = follower.recursion.activation
        return lanes.BRANCH, sigma, factor * follower.layer.scale(), deviations, outer, 0.0, variances
    assert isinstance(follower, (NetworkFollower, NeuralSDEFollower))
    exponent = follower.exponent if isinstance(follower, NetworkFollower) else 0.0
    return (
        lanes.LINEAR,
        follower.recursion.activation,
        factor * follower.layer.scale(exponent),
        deviations,
        0.0,
        0.0,
        variances,
    )


@torch.no_grad()
def run_block(task: Task, block: int, tick: Tick | None = None) -> Moments:
    """Advance one block; returns and `tick` as in `pathwise.run_block`."""
    lanes = loops()
    if lanes is None:  # a worker of the user's own may lack what the caller has
        return projected.run_block(task, block, tick)
    whole = projected.Block(task, block)
    width, paths = task.network.width, len(whole.starts[0])
    entries = [_numbers(follower, width) for follower in [*whole.columns, *whole.fine]]
    kinds, sigmas, products, biases, outers, energies, spreads = zip(*entries, strict=True)
    numbers = [0 if sigma is None else lanes.NAMES.index(sigma.name) for sigma in sigmas]
    real = [np.array(part, np.float32) for part in (products, biases, outers, energies, spreads)]
    motion = lanes.Motion(np.array(kinds), np.array(numbers), *real)
    columns, depths = len(whole.columns), len(task.grid.depths)
    whole.start(0.0)
    shape = (columns, width, paths)
    state = whole.starts[0].T.numpy()
    run = lanes.Running(
        reference=state.copy(),
        states=np.repeat(state[None], columns, axis=0),
        held=whole.products.held.numpy(),
        units=whole.products.units.numpy(),
        known=np.zeros(shape, np.float32),
        overlap=np.zeros((columns, columns, paths), np.float32),
        along=np.zeros((columns, paths), np.float32),
        biases=np.zeros(shape, np.float32),
        errors=np.zeros((4, columns, paths)),
        apart=np.zeros((2, paths)),
    )
    durations = np.array([1.0 / depth for depth in task.grid.depths])
    no_biases = np.zeros((0, width, paths), np.float32)
    for chunk in task.grid.chunks():
        every = (
            np.concatenate([chunk.ends, chunk.coarse[:, None]], axis=1) if columns > depths else chunk.ends
        )
        for first in range(0, len(chunk.steps), STEPS):
            some = slice(first, min(first + STEPS, len(chunk.steps)))
            steps = lanes.Steps(chunk.steps[some], np.ascontiguousarray(every[some]), chunk.common[some])
            count = some.stop - first
            lanes.advance(
                run,
                motion,
                steps,
                whole.step_normals.take(count).numpy(),
                whole.layer_normals.take(int(steps.ends.sum())).numpy(),
                no_biases if whole.bias_normals is None else whole.bias_normals.take(count).numpy(),
                depths,
                durations,
                task.norm == "final",
            )
        if tick is not None:
            tick(len(chunk.steps) / task.grid.size)
    return _moments(task, run.errors, run.apart, run.reference, columns > depths)


def _moments(
    task: Task, errors: np.ndarray, apart: np.ndarray, reference: np.ndarray, twice: bool
) -> Moments:
    depths = len(task.grid.depths)
    squares = [*errors[0, :depths], *errors[1, :depths]]
    if twice:
        squares += [*errors[2, :depths], *errors[3, :depths], *apart]
    lost = int((~np.isfinite(reference).all(axis=0)).sum())
    return Moments.of(np.sqrt(np.stack(squares, axis=1)), task.p, lost)
