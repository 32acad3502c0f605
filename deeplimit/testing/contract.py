"""What all contracts share: problems as sentences, records that compare, and global state left alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deeplimit.common.global_state import __tracebackhide__  # noqa: F401

SEED = 20_26


def hold(subject: object, checks: tuple[Callable[[], Iterator[str]], ...]) -> None:
    """Raise AssertionError with the first problem that a check yields; what a check raises is one, too.

    Checks are functions, or partials of them, whose docstring's first line says what they look at."""
    name = type(subject).__name__
    for check in checks:
        try:
            problem = next(check(), None)
        except Exception as error:  # whatever a user's class raises is what it breaks
            what = (getattr(check, "func", check).__doc__ or "").strip().splitlines()[0].rstrip(".")
            raise AssertionError(f"{name}: {what}: it raised {type(error).__name__}: {error}") from error
        if problem is not None:
            raise AssertionError(f"{name}: {problem}.")


def record(subject: Any) -> Iterator[str]:
    """A frozen dataclass that can be hashed and equals its copy."""
    kind = type(subject)
    if not dataclasses.is_dataclass(kind) or not getattr(kind, "__dataclass_params__").frozen:  # noqa: B009
        yield "the class must be a frozen dataclass: @dataclass(frozen=True)"
        return
    try:
        hash(subject)
    except TypeError as error:
        yield f"it cannot be hashed ({error}); fields must be numbers, texts, tuples or functions"
        return
    copied = dataclasses.replace(subject)
    if copied != subject or hash(copied) != hash(subject):
        yield "a copy (dataclasses.replace) is not equal to it, or has another hash"


def words(text: object, what: str) -> Iterator[str]:
    """A line of text."""
    if not isinstance(text, str) or not text.strip():
        yield f"{what} must be a text, got {text!r}"
    elif "\n" in text or len(text) > 160:
        yield f"{what} must be one line of at most 160 characters, got {text!r}"


def stream(seed: int = SEED) -> torch.Generator:
    """Return a generator of a fixed seed."""
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, dtype: torch.dtype = torch.float64, seed: int = SEED) -> Tensor:
    """Return standard normal numbers of this shape, the same for the same seed."""
    return torch.randn(*shape, dtype=dtype, generator=stream(seed))


@contextmanager
def watched() -> Iterator[list[str]]:
    """Yield a list that holds, at the end, what global state was touched."""
    touched: list[str] = []
    # NumPy's state is a tuple, as legacy=True gives.
    numbers = np.random.get_state()[1].copy()  # type: ignore[index]
    before = torch.get_rng_state(), numbers, torch.get_default_dtype()
    yield touched
    if not torch.equal(before[0], torch.get_rng_state()):
        touched.append("it draws from torch's global generator; draw from the generator that it is given")
    if not np.array_equal(before[1], np.random.get_state()[1]):  # type: ignore[index]
        touched.append("it draws from numpy's global generator; draw from the generator that it is given")
    if before[2] != torch.get_default_dtype():
        touched.append("it changes torch's default dtype")


def same(a: Tensor | None, b: Tensor | None) -> bool:
    """Return whether two results are equal bit for bit."""
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and a.dtype == b.dtype and bool(torch.equal(a, b))


def near(a: Tensor, b: Tensor, tolerance: float) -> bool:
    """Return whether two tensors agree up to `tolerance` times the larger one's largest entry."""
    size = max(float(a.abs().max()), float(b.abs().max()), 1e-300) if a.numel() else 1.0
    return a.shape == b.shape and bool(((a - b).abs() <= tolerance * size).all())
