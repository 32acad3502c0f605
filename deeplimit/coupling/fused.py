"""`projected` on a GPU as one kernel launch a block, where Triton is there and the task is one that the kernel knows.

The same law, from other numbers: the kernel draws its noise inside, counted by path, so that a path's numbers depend on neither
blocks nor launches.
"""

from __future__ import annotations

import importlib.util

import numpy as np
import torch

from deeplimit import activations
from deeplimit.coupling.followers import NetworkFollower, NeuralSDEFollower
from deeplimit.coupling.moments import Moments
from deeplimit.coupling.pathwise import Tick
from deeplimit.coupling.task import Task
from deeplimit.coupling.triton_kernel import ACTIVATIONS, MOST_DEPTHS, run_kernel
from deeplimit.limits import NeuralSDE
from deeplimit.randomness import Purpose
from deeplimit.recursions import Res1


def applies(task: Task) -> bool:
    """Return whether a task is on a GPU and one that the kernel knows: res-1 and its own limit, in float32."""
    return task.device.type == "cuda" and importlib.util.find_spec("triton") is not None and is_known(task)


def is_known(task: Task) -> bool:
    """Return whether the kernel computes what `projected` does for this task, wherever it runs."""
    recursion, limit = task.network.recursion, task.limit
    if task.coupling != "projected" or not task.shares_increments or task.same_network:
        return False
    if (
        not isinstance(recursion, Res1)
        or not isinstance(limit, NeuralSDE)
        or limit.recursion.activation is not recursion.activation
    ):
        return False
    sigma = recursion.activation
    named = sigma.name in ACTIVATIONS and sigma is activations.resolve(sigma.name)
    return named and task.dtype == torch.float32 and task.norm != "sup-continuous" and len(task.grid.depths) <= MOST_DEPTHS


@torch.no_grad()
def run_block(task: Task, block: int, tick: Tick | None = None) -> Moments:
    """Advance one block; returns and `tick` as in `pathwise.run_block`."""
    h0 = task.initial_states(block)
    assert isinstance(task.limit, NeuralSDE)
    reference = NeuralSDEFollower(h0[:1], task.limit)
    networks = [NetworkFollower(h0[:1], task.network, depth) for depth in task.grid.depths]
    words = np.random.SeedSequence([task.seed, int(Purpose.STEP_PRODUCTS)]).generate_state(2, np.uint32)
    found = run_kernel(
        h0,
        task.grid,
        task.network.recursion.activation.name,
        [network.layer.scale(network.exponent) for network in networks],
        reference_scale=reference.layer.scale(),
        seed=int(words[0]) << 32 | int(words[1]),
        first_path=block * task.block_size,
        final=task.norm == "final",
    )
    errors = torch.cat([found.errors, found.common]).T.double().cpu().numpy()
    if tick is not None:
        tick(1.0)
    return Moments.of(errors, task.p, int((~found.finite).sum()))
