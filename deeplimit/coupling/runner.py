"""Blocks of paths over threads, or over any executor a user brings; results do not depend on which."""

from __future__ import annotations

import contextlib
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce

import torch

from deeplimit.coupling.moments import Moments
from deeplimit.coupling.pathwise import reference_error, run_block
from deeplimit.coupling.task import Task

Progress = Callable[[float], None]


@dataclass(frozen=True)
class Coupled:
    """What a run measured: moments of the per-path errors, and the reference's own error."""

    moments: Moments
    reference_error: float


@contextlib.contextmanager
def one_thread_an_operation() -> Iterator[None]:
    """Give each block one core: blocks in flight use the cores better than threads inside small operations."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def run(task: Task, *, workers: int | None = None, executor: Executor | None = None, progress: Progress | None = None) -> Coupled:
    """Run every block and merge the results in the order of the blocks.

    `progress` is called with the fraction done, from 0 to 1; finely with the library's own threads, once a block with a
    user's executor (whose workers import deeplimit by themselves).
    """
    lock = threading.Lock()
    done = 0.0

    def tick(fraction: float) -> None:
        nonlocal done
        with lock:
            done += fraction
            if progress is not None:
                progress(min(done / task.blocks, 1.0))

    if executor is not None:
        futures = [executor.submit(run_block, task, block) for block in range(task.blocks)]
        for future in futures:
            future.add_done_callback(lambda _: tick(1.0))
        try:
            moments = _collect(futures)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            if "pickle" not in str(error):
                raise
            raise TypeError(
                "the executor runs in other processes, so the activation, the weights and the limit must be importable there: "
                f"functions of a module, not lambdas or local ones ({error})."
            ) from error
        return Coupled(moments, reference_error(task))
    count = workers if workers is not None else (os.cpu_count() or 1) if task.device.type == "cpu" else 1
    with one_thread_an_operation() if task.device.type == "cpu" else contextlib.nullcontext():
        # OpenMP counts threads for each thread by itself: what is set above does not reach the pool's own.
        with ThreadPoolExecutor(min(count, task.blocks), initializer=torch.set_num_threads, initargs=(1,)) as pool:
            futures = [pool.submit(run_block, task, block, tick) for block in range(task.blocks)]
            moments = _collect(futures)
        return Coupled(moments, reference_error(task))


def _collect(futures: list[Future[Moments]]) -> Moments:
    try:
        return reduce(Moments.merge, (future.result() for future in futures))
    except BaseException:
        for future in futures:
            future.cancel()
        raise
