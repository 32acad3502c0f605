"""Blocks of work over threads, or over any executor a user brings; results do not depend on which."""

from __future__ import annotations

import contextlib
import os
import pickle
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import TypeVar

import torch

Task = TypeVar("Task")
Result = TypeVar("Result")
Progress = Callable[[float], None]


@contextlib.contextmanager
def one_thread_an_operation(device: torch.device) -> Iterator[None]:
    """Give each block one core: blocks in flight use the cores better than threads inside small
    operations.
    """
    if device.type != "cpu":
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def map_blocks(
    work: Callable[..., Result],
    task: Task,
    count: int,
    device: torch.device,
    *,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Iterator[Result]:
    """Yield `work(task, block, tick)` for every block from 0 to `count` - 1, in their order, and forget
    it.

    `tick` is to be called with the fraction of a block just done, and `progress` is called with the
    fraction done of all, from 0 to 1; finely with the library's own threads, once a block with a user's
    executor (whose workers import deeplimit by themselves; there `tick` is left out).
    """
    lock = threading.Lock()
    done = 0.0

    def tick(fraction: float) -> None:
        nonlocal done
        with lock:
            done += fraction
            if progress is not None:
                progress(min(done / count, 1.0))

    if executor is not None:
        futures = [executor.submit(work, task, block) for block in range(count)]
        for future in futures:
            future.add_done_callback(lambda _: tick(1.0))
        try:
            yield from _in_order(futures)
            return
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            if "pickle" not in str(error):
                raise
            raise TypeError(
                "the executor runs in other processes, so the activation, the weights and the limit must be"
                f" importable there: functions of a module, not lambdas or local ones ({error})."
            ) from error
    threads = workers if workers is not None else (os.cpu_count() or 1) if device.type == "cpu" else 1
    # OpenMP counts threads for each thread by itself: what the first line sets does not reach the pool's
    # own.
    with (
        one_thread_an_operation(device),
        ThreadPoolExecutor(min(threads, count), initializer=torch.set_num_threads, initargs=(1,)) as pool,
    ):
        yield from _in_order([pool.submit(work, task, block, tick) for block in range(count)])


def _in_order(futures: list[Future[Result]]) -> Iterator[Result]:
    waiting = deque(futures)
    futures.clear()  # the results of a million paths would fill memory, if slowly
    try:
        while waiting:
            yield waiting.popleft().result()
    except BaseException:
        for future in waiting:
            future.cancel()
        raise
