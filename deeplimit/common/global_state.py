"""Global switches of torch and numpy: public functions compute as if nobody had moved them."""

from __future__ import annotations

import contextlib
import functools
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures.thread import _WorkItem
from types import FrameType
from typing import Final, ParamSpec, TypeVar

import numpy as np
import torch

Given = ParamSpec("Given")
Returned = TypeVar("Returned")

ERRORS: Final = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
"""What numpy does with numbers out of range unless it is told otherwise."""
PRECISION: Final = torch.float32
PLACES: Final = ("cpu", "cuda")


def by_default(function: Callable[Given, Returned]) -> Callable[Given, Returned]:
    """Have a function run under the switches that torch and numpy start with; they are put back after it."""

    @functools.wraps(function)
    def run(*given: Given.args, **named: Given.kwargs) -> Returned:
        with defaults():
            return function(*given, **named)

    return run


def written_by_default(function: Callable[Given, Returned]) -> Callable[Given, Returned]:
    """Have a function that writes into the caller's tensors do the same, but leave inference mode as it is.

    Tensors that were made in inference mode can be written to in it alone.
    """

    @functools.wraps(function)
    def run(*given: Given.args, **named: Given.kwargs) -> Returned:
        with defaults(inference=torch.is_inference_mode_enabled()):
            return function(*given, **named)

    return run


_lock = threading.Lock()
_inside = 0
_before = PRECISION


@contextlib.contextmanager
def defaults(*, inference: bool = False) -> Iterator[None]:
    """Have torch's default device and dtype, gradients and autocast, and numpy's errors, as they start.

    The default dtype is the one switch that all threads share: it stays while any thread is inside.
    Deterministic mode stays as it is: it changes no bit of what is computed here.
    """
    global _inside, _before  # noqa: PLW0603  # as torch's own is
    with contextlib.ExitStack() as stack:
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        if torch.is_inference_mode_enabled() and not inference:
            stack.enter_context(torch.inference_mode(False))
        if not torch.is_grad_enabled() and not inference:
            stack.enter_context(torch.enable_grad())
        for place in PLACES:
            if torch.is_autocast_enabled(place):
                stack.enter_context(torch.autocast(place, enabled=False))
        stack.enter_context(np.errstate(**ERRORS))  # type: ignore[arg-type]
        with _lock:
            if _inside == 0:
                _before = torch.get_default_dtype()
                torch.set_default_dtype(PRECISION)
            _inside += 1
        try:
            yield
        finally:
            with _lock:
                _inside -= 1
                if _inside == 0:
                    torch.set_default_dtype(_before)


LOOK: Final = 0.1
"""Seconds between two looks at what the owner of a turn does."""
PATIENCE: Final = 60.0
"""Seconds in which this process stands still, after which a thread gives up its wait for a turn."""
STILL: Final = 0.05
"""Share of one core up to which a process stands still: threads that wait look again and again."""


class Turn:
    """A lock that its owner may take again, and that it hands to a thread for whose end it waits.

    A function of the user's, which runs in the owner's turn, may start threads that call the library and wait
    for them, as they would for the owner. Where it is certain that it waits for one, that one owns the turn
    until it gives it back. Where it can only be guessed, since nothing happens any more, the wait ends in an
    error.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.inside: dict[int, int] = {}  # how often each thread has taken it; the last one is the owner

    def wait(self) -> None:
        """Return once no thread is inside, or the last one waits for this one; `changed` is held."""
        still = 0  # looks in a row; a process that was stopped meanwhile has taken one, however long
        while self.inside and not _waits_for_this_thread(owner := next(reversed(self.inside))):
            began, spent = time.monotonic(), time.process_time()
            self.changed.wait(LOOK)
            worked = time.process_time() - spent > STILL * (time.monotonic() - began)
            still = 0 if worked else still + 1
            if still * LOOK > PATIENCE:
                names = {thread.ident: thread.name for thread in threading.enumerate()}
                raise RuntimeError(
                    f"thread {threading.current_thread().name} has to wait for thread"
                    f" {names.get(owner, owner)}, which is in deeplimit and owns the global generators, and"
                    f" nothing has happened for {PATIENCE:.0f} s. If that thread waits for this one, neither"
                    " can go on: call deeplimit there, without threads, or wait for each thread by its join()"
                    " or its future's result(), without a timeout."
                )


_RUN: Final = _WorkItem.run.__code__
_WAIT: Final = {each.__code__ for each in (threading.Thread.join, Future.result, Future.exception)}


def _waits_for_this_thread(owner: int) -> bool:
    """Return whether a thread waits, for as long as it takes, for the end of this one or of what this one
    runs, or of another one that does.
    """
    running = {thread: [*_outwards(frame)] for thread, frame in sys._current_frames().items()}
    ended_by: dict[int, int] = {id(thread): thread.ident or 0 for thread in threading.enumerate()}
    for thread, frames in running.items():
        work = [frame.f_locals.get("self") for frame in frames if frame.f_code is _RUN]  # None once it failed
        ended_by |= {id(each.future): thread for each in work if each is not None}
    seen: set[int] = set()
    waiting: int | None = owner
    while waiting is not None and waiting not in seen and waiting != threading.get_ident():
        seen.add(waiting)
        given = [frame.f_locals for frame in running.get(waiting, ()) if frame.f_code in _WAIT]
        waiting = next((ended_by.get(id(each["self"])) for each in given if each["timeout"] is None), None)
    return waiting == threading.get_ident()


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


class _Here(threading.local):
    """The turn that a thread takes: one for all, but for threads that stand in for its owner."""

    turn: Turn = Turn()


here = _Here()


def stand_in(turn: Turn) -> None:
    """Have this thread take another turn: one that threads share whose end the owner of `alone` waits for."""
    here.turn = turn


@contextlib.contextmanager
def alone(*, keeping: bool = False) -> Iterator[None]:
    """One thread of the library at a time inside: global generators, and a module that is traced, have one
    owner. A thread for which the owner waits is its deputy. Threads of the caller's that use either are not
    kept out.

    Args:
        keeping: the CPU's global generators (torch, numpy, random) are afterwards as they were before,
            whatever is drawn inside.

    Raises:
        RuntimeError: Where the owner seems to wait for this thread.
    """
    turn, thread = here.turn, threading.get_ident()
    with turn.changed:
        if turn.inside and thread not in turn.inside:
            turn.wait()
        turn.inside[thread] = turn.inside.get(thread, 0) + 1
    try:
        if not keeping:
            yield
            return
        python, numbers = random.getstate(), np.random.get_state()
        with torch.random.fork_rng(devices=[]):
            try:
                yield
            finally:
                random.setstate(python)
                np.random.set_state(numbers)
    finally:
        with turn.changed:
            turn.inside[thread] -= 1
            if not turn.inside[thread]:
                del turn.inside[thread]
                turn.changed.notify_all()


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Every global generator (torch, numpy, random) set to `seed` inside, and as it was before afterwards."""
    started = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    devices = list(range(torch.cuda.device_count())) if started else []
    with alone(keeping=True), torch.random.fork_rng(devices=devices):
        first = torch.initial_seed()
        try:
            torch.manual_seed(seed % 2**64)
            np.random.seed(seed % 2**32)
            random.seed(int(seed))
            yield
        finally:
            # The seed waits for CUDA to start, or CUDA started inside: all devices get their seed again.
            if not started:
                torch.cuda.manual_seed_all(first)
