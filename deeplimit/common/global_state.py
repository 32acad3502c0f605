"""Global switches of torch and numpy: public functions compute as if nobody had moved them."""

from __future__ import annotations

import contextlib
import functools
import random
import threading
import time
from collections.abc import Callable, Iterator
from operator import methodcaller
from typing import Any, Final, ParamSpec, TypeVar

import numpy as np
import torch

Given = ParamSpec("Given")
Returned = TypeVar("Returned")

ERRORS: Final = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
"""What numpy does with numbers out of range unless it is told otherwise."""
PRECISION: Final = torch.float32
PLACES: Final = ("cpu", "cuda")

__tracebackhide__ = methodcaller("errisinstance", AssertionError)
"""pytest shows the test, not these lines, where an assertion fails in a module that has this name."""


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


BETWEEN_CHECKS: Final = 0.1
"""Seconds between two checks whether the process still works."""
PATIENCE: Final = 120.0
"""Seconds in which this process stands still, after which a thread gives up its wait for another one."""
STILL: Final = 0.05
"""Share of one core up to which a process stands still: threads that wait check again and again."""


class _Here(threading.local):
    """What a thread takes to be alone: one lock for all, but for threads that stand in for its owner."""

    lock: Any = threading.RLock()


here = _Here()


def stand_in(lock: Any) -> None:
    """Have this thread take another lock: one that threads share whose end the owner of `alone` waits for."""
    here.lock = lock


@contextlib.contextmanager
def alone(*, keeping: bool = False) -> Iterator[None]:
    """One thread of the library at a time inside: global generators, and a module that is traced, have one
    owner. Threads of the caller's that use either are not kept out.

    Args:
        keeping: whether the CPU's global generators (torch, numpy, random) are afterwards as they were
            before, whatever is drawn inside.

    Raises:
        RuntimeError: Where the owner seems to wait for this thread.
    """
    lock = here.lock
    if not lock.acquire(blocking=False):
        _wait(lock)
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
        lock.release()


def _wait(lock: Any) -> None:
    """Acquire a lock; a user's function that holds it may wait for this thread, and nothing would happen."""
    still = 0  # checks in a row; a process that was stopped meanwhile counts one, however long
    while True:
        began, spent = time.monotonic(), time.process_time()
        if lock.acquire(timeout=BETWEEN_CHECKS):
            return
        worked = time.process_time() - spent > STILL * (time.monotonic() - began)
        still = 0 if worked else still + 1
        if still * BETWEEN_CHECKS > PATIENCE:
            raise RuntimeError(
                f"thread {threading.current_thread().name} waits for another thread that is in deeplimit and"
                f" owns the global generators, and nothing has happened for {PATIENCE:.0f} s. If that thread"
                " waits for this one, neither can go on: in a function that deeplimit calls, such as a"
                " factory, call deeplimit without threads."
            )


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
