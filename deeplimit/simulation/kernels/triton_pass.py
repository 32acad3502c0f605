"""`projected` as one kernel launch per block, where Triton and a GPU exist and the task is supported.

The law is the same, the numbers are not: the kernel draws its noise itself. Numbers are counted by path, so
blocks and launches do not change them.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

from deeplimit.common.randomness import Purpose
from deeplimit.common.users_line import warn_at_users_line
from deeplimit.driving import Dependence
from deeplimit.driving.path import Grid
from deeplimit.equations import CompiledStep, Limit, Motion
from deeplimit.networks.residual_network import ResidualNetwork
from deeplimit.simulation.kernels import projected
from deeplimit.simulation.kernels.triton_kernel import ACTIVATIONS, choose_launch, run_kernel
from deeplimit.simulation.moments import Moments, moments_from
from deeplimit.simulation.pathwise import Tick
from deeplimit.simulation.task import COMPILED, NetworkStepper, Task, compiled_steps

MOST_UNROLLED = 16
"""More depths than this make a kernel that is unrolled over their pairs too long."""
MOST_WARPS = 32
LARGEST_START = 1e12
"""The kernel squares norms in float32: states that start beyond this, or below its inverse, are left to
torch.
"""


def applies(task: Task) -> bool:
    """Return whether a task is on a GPU where the kernel runs, and one that it knows."""
    return task.device.type == "cuda" and is_known(task) and runs_on(task.device)


def is_known(task: Task) -> bool:
    """Return whether the kernel computes what `projected` does for this task: res-1 and its limit."""
    depths = len(task.grid.depths)
    if task.coupling != "projected" or not task.sharing.increments or task.same_network or task.splits:
        return False
    if task.dtype != torch.float32 or task.statistic not in COMPILED or depths > MOST_UNROLLED:
        return False
    if choose_launch(task.network.width, depths, task.block_size).warps > MOST_WARPS:
        return False
    return knows(task.network, task.limit)


def knows(network: ResidualNetwork, limit: Limit) -> bool:
    """Return whether the kernel has the steps of this network and of the limit that shares its noise."""
    sigma = network.recursion.activation
    if network.facts.dependence is not Dependence.INDEPENDENT or sigma.name not in ACTIVATIONS:
        return False
    steps = compiled_steps(network, limit)
    return steps is not None and all(
        step.motion is Motion.LINEAR and step.activation is sigma for step in steps
    )


def _steps(task: Task, state: Tensor) -> list[CompiledStep]:
    """Return the networks' steps, shallow depths first, then the limit's; only where they are compiled."""
    networks = [NetworkStepper(state, task.network, depth) for depth in task.grid.depths]
    steps = [stepper.compiled_step() for stepper in [*networks, task.limit.stepper(state)]]
    return [step for step in steps if step is not None]


@cache
def runs_on(device: torch.device) -> bool:
    """Return whether Triton is there and its compiler works, by trying; warn once of what stops it."""
    try:
        run_kernel(torch.ones(1, 1, device=device), Grid((1, 2)), "identity", [1.0, 1.0], seed=0)
    except Exception as error:  # noqa: BLE001 (whatever a compiler on a user's machine may raise)
        warn_at_users_line(
            f"the fused kernel does not run on {device}, and torch's operations, which are slower, take its"
            f" place: {type(error).__name__}: {error}",
            RuntimeWarning,
        )
        return False
    return True


@torch.no_grad()
def run_block(task: Task, block: int, tick: Tick | None = None) -> Moments:
    """Advance one block; returns and `tick` as in `pathwise.run_block`."""
    h0 = task.initial_states(block)
    sizes = torch.linalg.vector_norm(h0, dim=1, dtype=torch.float64)
    if not bool(((sizes == 0) | ((sizes > 1 / LARGEST_START) & (sizes < LARGEST_START))).all()):
        return projected.run_block(task, block, tick)
    *networks, reference = _steps(task, h0[:1])
    words = np.random.SeedSequence([task.seed, int(Purpose.STEP_PRODUCTS)]).generate_state(2, np.uint32)
    found = run_kernel(
        h0,
        task.grid,
        task.network.recursion.activation.name,
        [step.product for step in networks],
        reference_scale=reference.product,
        seed=int(words[0]) << 32 | int(words[1]),
        first_path=block * task.block_size,
        final=task.statistic.name == "final",
        consecutive=task.keeps_differences,
    )
    if not bool(found.finite.all() & found.errors.isfinite().all()):
        # It takes states of any size, and loses one network at a time.
        return projected.run_block(task, block, tick)
    errors = torch.cat([found.errors, found.common]).T.double().cpu().numpy()
    kept = found.differences
    differences = None if kept is None else kept.T.double().contiguous().cpu().numpy()
    if tick is not None:
        tick(1.0)
    return moments_from(task, errors, 0, differences=differences)
