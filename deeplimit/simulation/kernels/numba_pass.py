"""`projected` with inner loops compiled by numba, where it is installed and the task is supported.

The same streams of normals, the same arithmetic up to rounding: which of the two ran decides nothing but the
time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from threading import Lock
from types import ModuleType

import numpy as np
import torch

from deeplimit.common.users_line import warn_at_users_line
from deeplimit.simulation.kernels import projected
from deeplimit.simulation.moments import Moments, moments_from
from deeplimit.simulation.pathwise import Tick
from deeplimit.simulation.task import COMPILED, Task, compiled_steps

ENABLED = True
"""Set to False to run the same computation in torch."""
STEPS = 16
LOADING = Lock()
"""Held while loops load: threads that ask together would load them, and warn, twice."""
WORTHWHILE, EACH = 2**20, 2**9
"""Less work than this takes torch a tenth of a second or so, and loading the loops as long.

Work is steps x columns x (paths x width + EACH): for every step of every column torch pays what EACH numbers
cost. From here on the loops take a third to a tenth of its time: res-1 at width 8 with 64 paths and 256 steps
0.04 s for 0.26, with 512 paths 0.064 for 0.58, Theorem 4.4 at width 10 0.17 for 1.13.
"""


def loops() -> ModuleType | None:
    """Return the compiled loops; None, with one warning, where numba is missing or does not load."""
    with LOADING:
        return load()


@cache
def load() -> ModuleType | None:
    """Load them; asked once, with the lock held."""
    try:
        from deeplimit.simulation.kernels import numba_loops as compiled
    except (ImportError, RuntimeError) as error:
        warn_at_users_line(
            f"numba is missing or does not load ({error}): pip install 'deeplimit[fast]' makes this three to"
            " ten times as fast. Without it, coupling='pathwise' is faster below width 32."
        )
        return None
    return compiled


def applies(task: Task) -> bool:
    """Return whether the compiled loops compute what `projected` does for this task and are worth loading."""
    if not (ENABLED and task.coupling == "projected" and task.sharing.increments) or task.same_network:
        return False
    if task.device.type != "cpu" or task.dtype != torch.float32 or task.statistic not in COMPILED:
        return False
    columns = len(task.grid.depths) + 1
    if task.grid.size * columns * (task.paths * task.network.width + EACH) < WORTHWHILE:
        return False
    if (steps := compiled_steps(task.network, task.limit)) is None or (known := loops()) is None:
        return False
    return all(step.activation is None or step.activation.name in known.NAMES for step in steps)


def run_block(task: Task, block: int, tick: Tick | None = None) -> Moments:
    """Advance one block; returns and `tick` as in `pathwise.run_block`."""
    compiled = loops()
    if compiled is None:  # a user's worker may lack what the caller has
        return projected.run_block(task, block, tick)
    errors, lost, differences = _errors(compiled, task, block, tick)
    return moments_from(task, errors, lost, differences=differences)


def errors_again(task: Task, block: int) -> np.ndarray:
    """Return the errors (P, C) of one block, as they entered its moments."""
    compiled = loops()
    assert compiled is not None, "asked only where `applies`"
    return _errors(compiled, task, block, None)[0]


@torch.no_grad()
def _errors(
    compiled: ModuleType, task: Task, block: int, tick: Tick | None
) -> tuple[np.ndarray, int, np.ndarray | None]:
    """Return the errors (P, C) of one block, on how many paths the limit was lost, and the differences."""
    run = Compiled(compiled, task, block)
    for _ in run.steps(tick):
        pass
    return run.measured()


class Compiled:
    """One block in compiled loops: what runs, advanced some steps at a time."""

    def __init__(self, compiled: ModuleType, task: Task, block: int) -> None:
        self.compiled, self.task = compiled, task
        self.whole = whole = projected.Block(task, block)
        self.width, self.paths = task.network.width, len(whole.starts[0])
        steppers = [*whole.columns, *whole.fine]
        moves = [step for stepper in steppers if (step := stepper.compiled_step()) is not None]
        sigmas = [
            0 if step.activation is None else compiled.NAMES.index(step.activation.name) for step in moves
        ]
        self.motion = compiled.Motion(
            np.array([int(step.motion) for step in moves]),
            np.array(sigmas),
            np.array([step.product for step in moves], np.float32),
            np.array([step.bias.double().numpy() for step in moves], np.float32),
            np.array([step.outer for step in moves], np.float32),
            np.array([step.energy for step in moves], np.float32),
            np.array([step.spread.double().numpy() for step in moves], np.float32),
        )
        self.columns, depths = len(whole.columns), len(task.grid.depths)
        whole.start()
        shape = (self.columns, self.width, self.paths)
        self.space = compiled.Space.of(*shape)
        state = whole.starts[0].T.numpy()
        self.run = compiled.Running(
            reference=state.copy(),
            states=np.repeat(state[None], self.columns, axis=0),
            held=whole.products.held.numpy(),
            units=whole.products.units.numpy(),
            known=np.zeros(shape, np.float32),
            overlap=np.zeros((self.columns, self.columns, self.paths), np.float32),
            along=np.zeros((self.columns, self.paths), np.float32),
            biases=np.zeros(shape, np.float32),
            errors=np.zeros((6, depths, self.paths)),
            differences=np.zeros(
                ((1 + 2 * task.splits) * task.keeps_differences, max(3 * depths - 4, 0), self.paths)
            ),
        )

    def steps(self, tick: Tick | None = None, stops: Sequence[int] = ()) -> Iterator[int]:
        """Advance over the grid; yield the number of steps made, at `stops` and in between."""
        task, whole, depths = self.task, self.whole, len(self.task.grid.depths)
        durations = np.array([1.0 / depth for depth in task.grid.depths])
        no_biases = np.zeros((0, self.width, self.paths), np.float32)
        done, waiting = 0, sorted(stops, reverse=True)
        for chunk in task.grid.chunks():
            every = np.tile(chunk.ends, self.columns // depths)
            first, size = 0, len(chunk.steps)
            while first < size:
                while waiting and waiting[-1] <= done:
                    waiting.pop()
                count = min(STEPS, size - first, waiting[-1] - done if waiting else STEPS)
                some = slice(first, first + count)
                steps = self.compiled.Steps(
                    chunk.steps[some], np.ascontiguousarray(every[some]), chunk.common[some]
                )
                self.compiled.advance(
                    self.run,
                    self.space,
                    self.motion,
                    steps,
                    whole.step_normals.take(count).numpy(),
                    whole.layer_normals.take(int(steps.ends.sum())).numpy(),
                    no_biases if whole.bias_normals is None else whole.bias_normals.take(count).numpy(),
                    depths,
                    durations,
                    task.statistic.name == "final",
                )
                first, done = first + count, done + count
                yield done
            if tick is not None:
                tick(size / task.grid.size)

    def measured(self) -> tuple[np.ndarray, int, np.ndarray | None]:
        """Return the errors (P, C), on how many paths the limit was lost, and the differences."""
        task, run, depths = self.task, self.run, len(self.task.grid.depths)
        squares = run.errors[: 6 if task.splits else 2].reshape(-1, self.paths)
        lost = int((~np.isfinite(run.reference).all(axis=0)).sum())
        errors = np.ascontiguousarray(np.sqrt(squares).T)
        if not task.keeps_differences:
            return errors, lost, None
        run.differences[:, : depths - 1] = np.sqrt(run.differences[:, : depths - 1])
        return errors, lost, np.ascontiguousarray(run.differences.reshape(-1, self.paths).T)
