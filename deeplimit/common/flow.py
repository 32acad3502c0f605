"""Blocks on their way through threads or machines: how many at a time, in which order, when they end."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from typing import TypeVar

from deeplimit.common.progress import Progress

Part = TypeVar("Part")

SENT = 1024
"""How many blocks are with an executor at a time: enough for a cluster, and no more than memory holds."""

WAITING = 8
"""How many blocks per thread are submitted at a time, so that none waits for a slow one before it."""

WHAT_IS_DONE = "What is done is in the store, if there is one: call again with a new executor."


class Ticks:
    """Counts what is done, for the user's progress; raises in every block once all is given up.

    `stopped` is what the progress function raised.
    """

    def __init__(self, progress: Progress | None, blocks: int, done: int) -> None:
        self.progress, self.blocks, self.done = progress, blocks, float(done)
        self.lock = threading.Lock()
        self.given_up = False
        self.stopped: BaseException | None = None
        self.skipped: set[int] = set()
        if done and progress is not None:
            progress(done / blocks)

    def __call__(self, fraction: float) -> None:
        if self.given_up:
            raise CancelledError
        with self.lock:
            self.done += fraction
            if self.progress is not None:
                try:
                    self.progress(min(self.done / self.blocks, 1.0))
                except BaseException as error:
                    # It is the user's way to end a run: no block is tried again.
                    self.stopped, self.given_up = error, True
                    error.add_note("deeplimit called progress with the fraction done.")
                    raise

    def skip(self, kept: set[int]) -> None:
        """Leave out blocks that another process has kept."""
        self.skipped = kept


def flow(
    submit: Callable[[int], Future[Part]], blocks: Sequence[int], ticks: Ticks, window: int, ordered: bool
) -> Generator[tuple[int, Part], None, None]:
    """Yield (block, result) as blocks end, or in their order; give all up where one fails or the caller ends.

    At most `window` blocks are submitted at a time: the results of a million paths would fill memory, if
    slowly. A block that fails for want of memory, or of a file or a machine, is tried once more.
    """
    waiting = (block for block in blocks if block not in ticks.skipped)
    running: dict[Future[Part], int] = {}
    failed: set[int] = set()
    block = 0
    try:
        while True:
            for block in itertools.islice(waiting, window - len(running)):
                running[submit(block)] = block
            if not running:
                return
            ended = {next(iter(running))} if ordered else wait(running, return_when=FIRST_COMPLETED).done
            done = [*ended] if ordered else sorted(ended, key=_failed)  # what is done is kept first
            while done:
                future = done.pop(0)
                block = running.pop(future)
                try:
                    part = _result(future, block, ticks)
                except (OSError, MemoryError) as error:
                    _note_failure(error, block, failed, ticks)
                    running = {submit(block): block, **running}  # first in line, as before
                else:
                    del future
                    yield block, part
                    del part
            for future in [each for each, number in running.items() if number in ticks.skipped]:
                if future.cancel():
                    del running[future]
    except BaseException as error:
        ticks.given_up = True  # stops blocks that run, at their next tick
        for future in running:
            future.cancel()
        _note_deaths(error, block)
        raise


def _failed(future: Future[Part]) -> bool:
    return future.cancelled() or future.exception() is not None


def _result(future: Future[Part], block: int, ticks: Ticks) -> Part:
    try:
        return future.result()
    except CancelledError as error:
        if ticks.stopped is not None:  # the block that met it may be looked at later than those it ended
            raise ticks.stopped from None
        if ticks.given_up:
            raise
        raise RuntimeError(
            f"the executor gave up block {block}: it was shut down, or has lost its scheduler. {WHAT_IS_DONE}"
        ) from error


def _note_deaths(error: BaseException, block: int) -> None:
    """Note during which block workers died, and that done ones are not lost."""
    if isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker":  # the latter is Dask's
        error.add_note(
            f"The executor's workers died (killed, or out of memory) while block {block} or one beside it"
            f" ran. {WHAT_IS_DONE}"
        )


def _note_failure(error: Exception, block: int, failed: set[int], ticks: Ticks) -> None:
    """Note that a block failed; raise where it did so before, or all is given up."""
    if ticks.given_up:
        raise error
    if block in failed:
        error.add_note(f"Block {block} failed twice; those before it are done.")
        raise error
    failed.add(block)
