"""Every block of paths, merged into what the statistics need."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from functools import reduce

from deeplimit.coupling import pathwise
from deeplimit.coupling.kernels import numba_pass as compiled, projected, triton_pass as fused
from deeplimit.coupling.moments import Moments
from deeplimit.coupling.task import Task
from deeplimit.ground.workers import Progress, map_blocks, one_thread_an_operation


@dataclass(frozen=True)
class Coupled:
    """What a run measured: moments of the per-path errors, and the reference's own error."""

    moments: Moments
    reference_error: float


def run(
    task: Task,
    *,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Coupled:
    """Run every block and merge the results in the order of the blocks; `progress` is called with the
    fraction done.
    """
    work = pathwise.run_block
    if task.coupling == "projected":
        work = projected.run_block
        work = compiled.run_block if compiled.applies(task) else work
        work = fused.run_block if fused.applies(task) else work
    blocks = map_blocks(
        work, task, task.blocks, task.device, workers=workers, executor=executor, progress=progress
    )
    with one_thread_an_operation(task.device):
        return Coupled(reduce(Moments.merge, blocks), pathwise.reference_error(task))
