"""Everything that takes time is a `Measurement`: blocks of work, merged in their order; `measure` runs one.

What runs the blocks (threads, an executor of processes or machines) changes no bit of the result. If they are
kept in a store, neither does an interruption. Progress goes to a user's function, a bar in a terminal or a
notebook, or a line in the log.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import logging
import multiprocessing
import os
import pickle
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch

from deeplimit.common import global_state, validation
from deeplimit.common.cached_blocks import CachedBlocks
from deeplimit.common.contents import DAMAGED, packed, unpacked
from deeplimit.common.global_state import by_default
from deeplimit.common.specification import describe, differences, environment
from deeplimit.common.store import Journal, Store, as_store

Progress = Callable[[float], None]
SECONDS_BETWEEN = 0.1
"""A notebook is sent a new bar no more often than this."""
SECONDS_IN_SILENCE = 10.0
"""A call that nobody asked to show its progress says after this time, once, how long it will take."""


@contextlib.contextmanager
def shown(progress: Progress | bool | None, name: str) -> Iterator[Progress | None]:
    """Yield a function of the fraction done: the user's own, that of a bar (True), one that logs that a call
    takes long (None), or None (False).
    """
    if progress is False:
        yield None
    elif progress is None:
        yield _line_in_the_log(name)
    elif progress is not True:
        yield progress
    elif _in_a_notebook():
        yield _notebook_bar(name)
    else:
        with _terminal_bar(name) as move:
            yield move


@contextlib.contextmanager
def in_one_pass(progress: object, name: str) -> Iterator[Progress]:
    """Yield a function that shows the fraction done of work without blocks; all is done where it ends.

    Raises TypeError for a progress that is no function, truth value or None.
    """
    with shown(Running.checked(None, None, None, progress).progress, name) as show:
        reached = 0.0

        def move(fraction: float) -> None:
            nonlocal reached
            if show is not None and fraction > reached:
                reached = min(fraction, 1.0)
                with validation.noted("deeplimit called progress with the fraction done."):
                    show(reached)

        yield move
        move(1.0)


def part_of(move: Progress, first: float, last: float) -> Progress:
    """Return the function that shows the fraction done of one part of the work."""
    return lambda fraction: move(first + fraction * (last - first))


def _line_in_the_log(name: str) -> Progress:
    """Return the function that says once that a call takes long, and how long it may yet take."""
    first: list[tuple[float, float]] = [(time.perf_counter(), 0.0)]
    said: list[bool] = []

    def note(fraction: float) -> None:
        now = time.perf_counter()
        if len(first) == 1:  # what a store held from the start took no time
            first.append((now, fraction))
        began, held = first[1] if first[1][0] - first[0][0] < SECONDS_BETWEEN else first[0]
        gone = now - began
        if said or gone < SECONDS_IN_SILENCE or not held < fraction < 1.0:
            return
        said.append(True)
        left = gone * (1.0 - fraction) / (fraction - held)
        logging.getLogger("deeplimit").warning(
            "%s: %.0f %% done after %.0f s, about %s to go. progress=True shows a bar, False nothing.",
            name,
            100.0 * fraction,
            gone,
            in_words(left),
        )

    return note


def in_words(seconds: float) -> str:
    """Return a time in words.

    Examples:
        >>> in_words(75.0), in_words(5e3), in_words(5e5), in_words(5e7)
        ('75 s', '83 min', '139 h', '579 days')
    """
    if seconds < 120.0:
        return f"{seconds:.0f} s"
    if seconds < 7200.0:
        return f"{seconds / 60.0:.0f} min"
    return f"{seconds / 3600.0:.0f} h" if seconds < 1e6 else f"{seconds / 86400.0:.0f} days"


def _in_a_notebook() -> bool:
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return running is not None and hasattr(running, "kernel")


@contextlib.contextmanager
def _terminal_bar(name: str) -> Iterator[Progress]:
    """Yield the function that moves a bar on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress as Bar, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    with Bar(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=1.0)

        def move(fraction: float) -> None:
            bar.update(task, completed=fraction)

        yield move


def _notebook_bar(name: str) -> Progress:
    """Return the function that moves a bar in the output of a notebook's cell, in plain HTML."""
    from IPython.display import HTML, display  # type: ignore[import-not-found, unused-ignore]

    started = time.perf_counter()
    handle: Any = display(HTML(_html(name, 0.0, 0.0)), display_id=True)
    last = [0.0, 0.0]  # when a bar was sent, and with what fraction

    def move(fraction: float) -> None:
        now = time.perf_counter() - started
        if handle is not None and (now - last[0] >= SECONDS_BETWEEN or fraction >= 1.0 > last[1]):
            last[:] = [now, fraction]
            handle.update(HTML(_html(name, fraction, now)))

    return move


def _html(name: str, fraction: float, seconds: float) -> str:
    from html import escape

    left = f", {seconds * (1 - fraction) / fraction:.0f} s left" if 0.0 < fraction < 1.0 else ""
    return (
        f"<div>{escape(name)} <progress value='{fraction:.4f}' max='1'></progress>"
        f" {fraction:.0%}, {seconds:.0f} s{left}</div>"
    )


Part = TypeVar("Part")

SENT = 1024
"""How many blocks are with an executor at a time: enough for a cluster, and no more than memory holds."""

WAITING = 8
"""How many blocks per thread are submitted at a time, so that none waits for a slow one before it."""

NOT_KEPT = "Nothing is kept. With store='runs.sqlite' the same call would go on from what was done."
WHAT_IS_DONE = "What is done is in the store, if there is one: call again with a new executor."


class Ticks:
    """Counts what is done, for the user's progress; raises in every block once all is given up.

    `stopped` is what the progress function raised; `by_a_block` says whether all was given up since a block
    raised, not the thread that waits for it.
    """

    def __init__(
        self, progress: Progress | None, measurement: Measurement[Any, Any], missing: Sequence[int]
    ) -> None:
        self.progress, self.measurement, self.costs = progress, measurement, measurement.costs()
        self.whole = float(measurement.blocks) if self.costs is None else sum(self.costs)
        left = len(missing) if self.costs is None else sum(self.costs[block] for block in missing)
        self.done = self.whole - left
        self.lock = threading.Lock()
        self.given_up = False
        self.stopped: BaseException | None = None
        self.by_a_block = False
        self.skipped: set[int] = set()
        if len(missing) < measurement.blocks and progress is not None:
            progress(self.done / self.whole)

    def __call__(self, fraction: float) -> None:
        if self.given_up:
            raise CancelledError
        with self.lock:
            self.done += fraction
            if self.progress is not None:
                try:
                    self.progress(min(self.done / self.whole, 1.0))
                except BaseException as error:
                    # It is the user's way to end a run: no block is tried again.
                    self.stopped, self.given_up = error, True
                    error.add_note("deeplimit called progress with the fraction done.")
                    raise

    def run(self, block: int) -> Any:
        """Run one block, of which fractions done count as much as it costs."""
        cost = None if self.costs is None else self.costs[block]
        return self.measurement.run(block, self if cost is None else lambda fraction: self(fraction * cost))

    def skip(self, kept: set[int]) -> None:
        """Leave out blocks that another process has kept."""
        self.skipped = kept


def flow(
    submit: Callable[[int], Future[Part]], blocks: Sequence[int], ticks: Ticks, window: int, ordered: bool
) -> Generator[tuple[int, Part], None, None]:
    """Yield (block, result) as blocks end, or in their order; give all up where one fails or the caller ends.

    At most `window` blocks are submitted at a time: the results of a million paths would fill memory, if
    slowly. A block that fails for want of memory, or of a file or a machine, is tried once more; what a
    signal raises in the waiting thread, such as a TimeoutError of an alarm, comes through.
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
                except BaseException as error:
                    if not _is_of(future, error):
                        raise
                    ticks.by_a_block = True
                    if not isinstance(error, (OSError, MemoryError)):
                        raise
                    _note_failure(error, block, failed, ticks)
                    ticks.by_a_block = False
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


def _is_of(future: Future[Any], error: BaseException) -> bool:
    """Return whether a block raised this, and not the thread that waits for it."""
    return future.done() and not future.cancelled() and future.exception() is error


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


Result = TypeVar("Result")
Tick = Callable[[float], None]
Arrays = dict[str, np.ndarray]

SECONDS_BETWEEN_WRITES = 0.2
"""Finished blocks wait at most this long before they are kept; a killed run loses no more than these."""


@dataclass(frozen=True)
class Measurement(ABC, Generic[Part, Result]):
    """A frozen specification of work that is done in blocks, from which the same numbers come every time.

    Subclass it as a frozen dataclass, with the specification as its fields, and hand it to `measure`. A block
    must depend on the fields and on its number alone. It takes its random numbers from a generator seeded by
    both, never from a global one.

    Attributes:
        device: Where the blocks compute; one block at a time on a GPU, one per core on a CPU.
        what: Name of the measurement in progress bars and in a store's list.
        carries: What a block is sent to other processes with, as messages call it.
        side_by_side: Whether blocks may run in several threads at once. Those that use global state, such as
            torch's own generator, run one after the other in the calling thread.

    Examples:
        >>> import numpy as np, deeplimit as dl
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Pi(dl.Measurement):
        ...     points: int
        ...     seed: int
        ...     what = "pi"
        ...     @property
        ...     def blocks(self):
        ...         return 4
        ...     def run(self, block, tick=None):
        ...         x, y = np.random.default_rng([self.seed, block]).random((2, self.points))
        ...         return np.array(np.hypot(x, y) < 1).mean(keepdims=True)
        ...     def merge(self, parts):
        ...         return 4 * float(np.mean(list(parts)))
        >>> abs(dl.measure(Pi(10_000, seed=0)) - np.pi) < 0.05
        True
    """

    device: torch.device = field(default=torch.device("cpu"), kw_only=True)

    what: ClassVar[str] = "measurement"
    carries: ClassVar[str] = "the activation, the weights and the limit"
    side_by_side: ClassVar[bool] = True

    @property
    @abstractmethod
    def blocks(self) -> int:
        """The number of blocks, at least 1."""

    @abstractmethod
    def run(self, block: int, tick: Tick | None = None) -> Part:
        """Return the partial result of one block; `tick` is called with each fraction of it just done.

        In other processes `tick` is left out. It raises CancelledError where the measurement is given up.
        """

    @abstractmethod
    def merge(self, parts: Iterator[Part]) -> Result:
        """Return the result of all partial ones, which come in the order of the blocks and are not kept."""

    def costs(self) -> Sequence[float] | None:
        """Return how long each block takes, in any unit, for the fraction done; None if all take as long."""
        return None

    def key(self) -> dict[str, Any]:
        """Return all that decides the numbers, as plain data; by default all fields.

        Raises ValueError where a field holds something whose content cannot be told.
        """
        return {name: describe(value, name) for name, value in self._fields().items()}

    def label(self, block: int) -> str:
        """Return what a store tells a block by from the others with the same `key`; by default its number.

        A `key` may leave out how many paths there are, so that a run with more paths takes the blocks of a
        smaller one from a store. The label must then hold all else that decides the block: a last block with
        fewer paths must never pass for a full one.
        """
        return str(block)

    def path(self, index: int, *which: int) -> Any:
        """Draw path `index` again by running its block, and return what was seen on the way.

        By default there are no paths. `which` chooses where a path holds several signals, such as inputs.
        """
        raise ValueError(f"index {index!r} names no path: a measurement of the kind {self.what!r} has none.")

    def name(self) -> str:
        """Return a few words for a store's list."""
        return self.what

    def write(self, part: Part) -> Arrays:
        """Return a partial result as arrays of numbers and texts; by default it is one array."""
        return {"part": np.asarray(part)}

    def read(self, arrays: Arrays) -> Part:
        """Return the partial result that `write` gave these arrays for, bit for bit."""
        part: Any = arrays["part"]
        return part  # type: ignore[no-any-return]

    def _fields(self) -> dict[str, Any]:
        return {entry.name: getattr(self, entry.name) for entry in dataclasses.fields(self)}


@by_default
def measure(
    measurement: Measurement[Part, Result],
    *,
    workers: int | None = None,
    executor: Executor | None = None,
    store: Store | str | os.PathLike[str] | None = None,
    progress: Progress | bool | None = None,
) -> Result:
    """Run every block of a measurement that is not in the store yet, and return the merged result.

    Args:
        measurement: What is measured. Its `device` says where.
        workers: Number of threads, by default one per core (one on a GPU). No bit of the result depends on
            it.
        executor: Any `concurrent.futures.Executor`, or a Dask client, that runs the blocks instead of the
            library's threads. No bit of the result depends on it.
        store: File (SQLite), or a `Store`, that keeps every finished block. A call that was killed and is
            made again computes only the missing blocks; several processes may share one file.
        progress: Function of the fraction done, between 0 and 1; True shows a bar, False nothing. Left out, a
            call of more than ten seconds says in the log how long it will take.

    Raises:
        TypeError: For an argument of the wrong kind, or a measurement that cannot be sent to the executor's
            processes.
        ValueError: For a wrong value; a store that is damaged, no store of deeplimit, made by another
            version or, under the same name, for another specification; a specification that cannot be told
            from others; an executor whose workers have other versions.
        RuntimeError: Where the executor's workers died, or it was shut down. What is done is in the store.
        OSError: Where the store cannot be read or written.
    """
    return Running.checked(workers, executor, store, progress).measure(measurement)


@dataclass(frozen=True)
class Running:
    """How measurements are run: the arguments that all functions share, checked once.

    `cached` holds the blocks that several measurements of one call share, where there is no store.
    """

    workers: int | None = None
    executor: Executor | None = None
    store: Store | None = None
    progress: Progress | bool | None = None
    cached: CachedBlocks | None = None

    @staticmethod
    def checked(workers: object, executor: object, store: object, progress: object) -> Running:
        """Return the arguments as a `Running`; raise TypeError or ValueError as `measure` says."""
        if workers is not None:
            workers = validation.integer(workers, "workers", minimum=1)
        if executor is not None and (isinstance(executor, type) or not hasattr(executor, "submit")):
            raise TypeError(
                f"executor must have submit(), as in concurrent.futures; got {validation.named(executor)}."
            )
        if executor is not None and hasattr(executor, "get_executor"):  # Dask's client
            executor = executor.get_executor()
        drawn = progress is None or isinstance(progress, bool)
        if not drawn and (isinstance(progress, type) or not validation.takes(progress, 1)):
            raise TypeError(
                "progress must be a function of the fraction done, or True for a bar; got"
                f" {validation.named(progress)}."
            )
        kept = None if store is None else as_store(store)
        return Running(workers, executor, kept, progress)  # type: ignore[arg-type]

    @contextlib.contextmanager
    def shown(self, name: str) -> Iterator[Running]:
        """Yield the same with its bar drawn, for several measurements under one bar."""
        with shown(self.progress, name) as progress:
            # None would have each of them say in the log how long it takes, where the caller wants silence.
            yield dataclasses.replace(self, progress=False if progress is None else progress)

    def share(self, first: float, last: float, label: str = "") -> Running:
        """Return the same for one of several measurements, which is this part of the whole.

        `label` tells it from the others in a store with a name.
        """
        progress, store = self.progress, self.store
        if callable(progress):
            whole = progress

            def part(fraction: float) -> None:
                whole(first + fraction * (last - first))

            progress = part
        if store is not None and label:
            store = store.part(label)
        return dataclasses.replace(self, progress=progress, store=store)

    def arguments(self) -> dict[str, Any]:
        """Return what a function takes."""
        names = [entry.name for entry in dataclasses.fields(self) if entry.name != "cached"]
        return {name: getattr(self, name) for name in names}

    def measure(self, measurement: Measurement[Part, Result]) -> Result:
        """Run a measurement, as `deeplimit.measure` does."""
        with contextlib.ExitStack() as stack:
            progress = stack.enter_context(shown(self.progress, measurement.what))
            if measurement.side_by_side:
                stack.enter_context(threads_per_operation(1, measurement.device))
            if self.store is None:  # without `cached` a block is forgotten once it is merged
                cached, blocks = self.cached, range(measurement.blocks)
                names = [] if cached is None else [*map(measurement.label, blocks)]
                missing = blocks if cached is None else cached.begin(names)
                ticks = Ticks(progress, measurement, missing)
                try:
                    with contextlib.closing(self._parts(measurement, missing, ticks, True)) as parts:
                        fresh = (part for _, part in parts)
                        return measurement.merge(fresh if cached is None else cached.in_order(names, fresh))
                except KeyboardInterrupt as stopped:
                    stopped.add_note(NOT_KEPT)
                    raise
            specification, labels = _specified(measurement)
            journal = stack.enter_context(self.store.opened(measurement.name(), specification, labels))
            self._fill(measurement, journal, progress)
            return measurement.merge(
                _unpacked(measurement, journal, block) for block in range(measurement.blocks)
            )

    def missing(self, measurement: Measurement[Part, Result]) -> tuple[int, ...]:
        """Return the blocks that `measure` would run: those that neither `cached` nor the store holds."""
        if self.store is not None:
            held = self.store.holds(*_specified(measurement))
            return tuple(block for block in range(measurement.blocks) if block not in held)
        blocks = range(measurement.blocks)
        if self.cached is None:
            return tuple(blocks)
        return self.cached.missing([*map(measurement.label, blocks)])

    def _fill(
        self, measurement: Measurement[Part, Result], journal: Journal, progress: Progress | None
    ) -> None:
        """Run the blocks that the store lacks, and keep each as soon as it is done, in whatever order."""
        done = journal.news()
        missing = [block for block in range(measurement.blocks) if block not in done]
        if self.cached is not None:
            self.cached.ran = tuple(missing)
        if not journal.is_first:  # a process that is already at work began at the start
            missing = journal.shuffled(missing)
        ticks = Ticks(progress, measurement, missing)
        waiting: list[tuple[int, bytes]] = []
        last = time.monotonic()
        parts = self._parts(measurement, missing, ticks, False)
        with contextlib.closing(parts):
            try:
                for block, part in parts:
                    waiting.append((block, packed(measurement.write(part))))
                    if time.monotonic() - last > SECONDS_BETWEEN_WRITES:
                        journal.keep(waiting)
                        waiting, last = [], time.monotonic()
                        ticks.skip(journal.news())
            except KeyboardInterrupt as stopped:
                journal.keep(waiting)
                waiting, held = [], len(journal.news())
                stopped.add_note(
                    f"{held} of {measurement.blocks} blocks are kept in {journal.path}: the same call goes on"
                    " from there."
                )
                raise
            finally:
                journal.keep(waiting)
        if progress is not None and missing:  # also where another process did the rest
            progress(1.0)

    def _parts(
        self, measurement: Measurement[Part, Any], blocks: Sequence[int], ticks: Ticks, ordered: bool
    ) -> Generator[tuple[int, Part], None, None]:
        """Yield (block, partial result) as they are done, or in the order of `blocks`."""
        if self.executor is not None:
            executor, attempts = self.executor, itertools.count()

            def sent(block: int) -> Future[Part]:
                return executor.submit(
                    _run,
                    measurement,
                    block,
                    next(attempts),
                    environment(),
                    torch.get_num_threads(),
                    os.getpid(),
                )

            try:
                with contextlib.closing(flow(sent, blocks, ticks, SENT, ordered)) as parts:
                    for block, part in parts:
                        # In the calling thread, where what it raises ends the run.
                        ticks(1.0 if ticks.costs is None else ticks.costs[block])
                        yield block, part
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                if "pickle" not in str(error) and "local object" not in str(error):
                    raise
                raise TypeError(
                    f"the executor runs in other processes, so {measurement.carries} must be importable"
                    f" there: functions of a module, or functools.partial of them, not lambdas or local ones"
                    f" ({error})."
                ) from error
        elif not measurement.side_by_side:
            for block in blocks:
                if block not in ticks.skipped:
                    yield block, ticks.run(block)
        elif blocks:
            cpu = measurement.device.type == "cpu"
            most = self.workers if self.workers is not None else (os.cpu_count() or 1) if cpu else 1
            # OpenMP counts threads per thread: `threads_per_operation` does not reach those of the pool.
            threads = min(most, len(blocks))
            lock = global_state.here.lock
            if lock._is_owned():  # this thread waits for those of the pool, which would wait for it
                lock = threading.RLock()
            pool = ThreadPoolExecutor(threads, initializer=_begin, initargs=(lock,))
            tried = threads > 1 and self.workers is None and len(blocks) >= TRIED_FROM * threads
            work = Turns(threads, ticks).run if tried else ticks.run
            started: Callable[[int], Future[Part]] = functools.partial(pool.submit, work)  # type: ignore[call-arg]
            try:
                yield from flow(started, blocks, ticks, WAITING * threads, ordered)
            finally:
                # Given up by the waiting thread: blocks end by themselves, at their next tick, unread.
                at_once = ticks.given_up and not ticks.by_a_block and ticks.stopped is None
                pool.shutdown(wait=not at_once, cancel_futures=True)


TRIED_FROM = 16
"""Blocks per thread from which on it is tried whether threads help: at most 1.5 of them are lost by it."""
SOONER = 1.05
"""How many times as fast two threads have to be. A phase diagram of width 20, with operations of some
microseconds, was half as fast by two threads as by one; one of width 40 was 1.2 times as fast."""


class Turns:
    """Lets blocks run side by side, or one after the other where that ends them sooner.

    Small operations of several threads wait for each other in Python. The first block runs alone and the next
    two together; then it is decided.
    """

    def __init__(self, threads: int, ticks: Ticks) -> None:
        self.threads, self.ticks = threads, ticks
        self.allowed = 1
        self.alone: float | None = None
        self.together: list[tuple[float, float]] = []
        self.running = 0
        self.changed = threading.Condition()

    def run(self, block: int) -> Any:
        """Return what a block's work does, once it is its turn."""
        with self.changed:
            self.changed.wait_for(lambda: self.running < self.allowed)
            self.running += 1
        begun = time.perf_counter()
        try:
            if self.ticks.given_up:  # while it waited for its turn
                raise CancelledError
            return self.ticks.run(block)
        finally:
            with self.changed:
                self.running -= 1
                self.note(begun, time.perf_counter())
                self.changed.notify_all()

    def note(self, begun: float, ended: float) -> None:
        """Take up when a block began and ended."""
        if self.alone is None:
            self.alone, self.allowed = ended - begun, 2
            return
        if len(self.together) == 2:
            return
        self.together.append((begun, ended))
        if len(self.together) == 2:
            spent = max(end for _, end in self.together) - min(start for start, _ in self.together)
            self.allowed = self.threads if 2 * self.alone > SOONER * spent else 1


def _begin(lock: Any) -> None:
    """Prepare a thread of a pool."""
    torch.set_num_threads(1)
    global_state.stand_in(lock)


@contextlib.contextmanager
def threads_per_operation(threads: int, device: torch.device) -> Iterator[None]:
    """Give each operation on a CPU this many threads; blocks side by side have one each, in which they use
    cores better than threads in small operations.
    """
    if device.type != "cpu":
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _specified(measurement: Measurement[Any, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return what a store tells a measurement from others by, and its blocks from each other."""
    specification = {"what": measurement.what, **measurement.key()}
    if measurement.device.type == "cuda":
        specification["card"] = torch.cuda.get_device_name(measurement.device)
    if not measurement.side_by_side:  # its operations use these threads, which add in another order
        specification["threads"] = torch.get_num_threads()
    return specification, [*map(measurement.label, range(measurement.blocks))]


def _run(
    measurement: Measurement[Part, Any],
    block: int,
    _attempt: int,
    versions: dict[str, str],
    threads: int,
    caller: int = 0,
) -> Part:
    """Run a block on an executor; Dask would take a second attempt with equal arguments for the first.

    Operations of one that does not run side by side use as many threads as the caller's. Raises ValueError on
    a machine with other versions or kernels than the caller's, whose last bits may differ.
    """
    _end_with(caller)
    if different := [*differences(environment(), versions)]:
        raise ValueError(
            f"executor has workers with other versions, or on another machine ({'; '.join(different)}). Their"
            " numbers are not mixed: install the same versions, and use machines of one kind."
        )
    with threads_per_operation(1 if measurement.side_by_side else threads, measurement.device):
        return measurement.run(block)  # in this process, too


_watched: set[int] = set()
"""The process whose parent is watched: this one, or none; a copy of a process has another number."""


def _end_with(caller: int) -> None:
    """End this process once the caller is gone, where it is a worker of the caller's own pool.

    A pool that is killed, by SIGTERM say, leaves its workers waiting for the next block for ever.
    """
    parent = multiprocessing.parent_process()
    if parent is None or parent.pid != caller or os.getpid() in _watched:
        return
    _watched.add(os.getpid())

    def watch() -> None:
        parent.join()
        os._exit(1)  # nobody is left to read results, and the main thread may wait in a queue

    threading.Thread(target=watch, name="deeplimit: end with the caller", daemon=True).start()


def _unpacked(measurement: Measurement[Part, Any], journal: Journal, block: int) -> Part:
    try:
        return measurement.read(unpacked(journal.load(block)))
    except DAMAGED as error:
        raise ValueError(
            f"store {str(journal.path)!r} is damaged: block {block} of {measurement.name()} cannot be read"
            f" ({str(error).rstrip('.')}). Drop this measurement (deeplimit runs {str(journal.path)!r} --drop"
            f" {journal.digest[:12]}) and those that share its blocks, or give another file."
        ) from error
