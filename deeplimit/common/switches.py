"""Global switches of torch and numpy: public functions compute as if nobody had moved them."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
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


@contextlib.contextmanager
def defaults(*, inference: bool = False) -> Iterator[None]:
    """Have torch's default device and dtype, gradients and autocast, and numpy's errors, as they start.

    Deterministic mode stays as it is: it changes no bit of what is computed here.
    """
    with contextlib.ExitStack() as stack:
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        stack.enter_context(_precision())
        if torch.is_inference_mode_enabled() and not inference:
            stack.enter_context(torch.inference_mode(False))
        if not torch.is_grad_enabled() and not inference:
            stack.enter_context(torch.enable_grad())
        for place in PLACES:
            if torch.is_autocast_enabled(place):
                stack.enter_context(torch.autocast(place, enabled=False))
        stack.enter_context(np.errstate(**ERRORS))  # type: ignore[arg-type]
        yield


_lock = threading.Lock()
_inside = 0
_before = PRECISION


@contextlib.contextmanager
def _precision() -> Iterator[None]:
    """Have torch's default dtype while any thread is inside: it is the one switch that all threads share."""
    global _inside, _before  # noqa: PLW0603  # as torch's own is
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
