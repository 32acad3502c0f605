"""Every check of what a caller passes: what was passed, what is wrong, what to do.

`TypeError` for a wrong kind of thing, `ValueError` for a wrong value. The checks run once, at the public
entry; nothing below it checks again.
"""

from __future__ import annotations

import inspect
import itertools
import math
import numbers
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch


class NoTheoremError(ValueError):
    """No theorem pairs this network with a limit on the same noise; the message names one that has one."""


def named(value: object) -> str:
    """Return what was passed, in a few words on one line: a class by its name, an array by its shape."""
    if isinstance(value, type):
        return f"the class {value.__name__}, not an object: {value.__name__}(...)"
    kind = type(value).__name__
    shape = None if getattr(value, "is_nested", False) else getattr(value, "shape", None)
    if isinstance(shape, tuple) and len(shape) > 0:
        return f"{kind} of shape {tuple(shape)}"
    text = repr(value)
    return f"{text} of type {kind}" if len(text) <= 100 and "\n" not in text else f"an object of type {kind}"


def integer(value: object, name: str, *, minimum: int, maximum: int | None = None, hint: str = "") -> int:
    """Return `value` as an int that is at least `minimum` and at most `maximum`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an integer, got {named(value)}. {hint}".rstrip())
    result = int(value)
    if result < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {result}. {hint}".rstrip())
    if maximum is not None and result > maximum:
        raise ValueError(f"{name} must be at most {maximum}, got {result}. {hint}".rstrip())
    return result


def real(
    value: object,
    name: str,
    *,
    minimum: float = -math.inf,
    above: float = -math.inf,
    maximum: float = math.inf,
    hint: str = "",
) -> float:
    """Return `value` as a finite float: at least `minimum`, more than `above`, at most `maximum`."""
    sentence = hint[:1].upper() + hint[1:]
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {named(value)}. {sentence}".rstrip())
    try:
        result = float(value)
    except OverflowError:
        result = -math.inf if value < 0 else math.inf
    if result > maximum:
        raise ValueError(f"{name} must be at most {maximum:g}, got {result:g}; {hint}".rstrip("; .") + ".")
    if not math.isfinite(result):
        raise ValueError(f"{name} must be finite, got {result}. {sentence}".rstrip())
    if result < minimum:
        raise ValueError(f"{name} must be at least {minimum:g}, got {result:g}. {sentence}".rstrip())
    if result <= above:
        raise ValueError(f"{name} must be more than {above:g}, got {result:g}. {sentence}".rstrip())
    return result


def probability(value: object, name: str, hint: str = "") -> float:
    """Return `value` as a float strictly between 0 and 1."""
    result = real(value, name, above=0.0, hint=hint)
    if result >= 1.0:
        raise ValueError(f"{name} must be below 1, got {result:g}; {hint}".rstrip("; .") + ".")
    return result


def evaluated(name: str, takes: str, function: Callable[..., Any], time: float, *more: Any) -> Any:
    """Return a user's function of time at `time`; whatever it raises, say which function it was, and when."""
    try:
        return function(time, *more)
    except TypeError as error:
        raise TypeError(
            f"{name} must be a function of {takes}; at t = {time:.6g} it raised: {_sentence(error)}."
        ) from error
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"{name} must be defined at all times in [0, 1]; at t = {time:.6g} it raised"
            f" {type(error).__name__}: {_sentence(error)}."
        ) from error


def takes(function: Any, arguments: int) -> bool:
    """Return whether a function can be called with this many arguments, where its signature tells."""
    try:
        inspect.signature(function).bind(*[None] * arguments)
    except TypeError:
        return False
    except ValueError:  # functions written in C may have no signature
        return True
    return True


def _sentence(error: Exception) -> str:
    return str(error).rstrip(".")


def real_tensor(value: object, name: str) -> torch.Tensor:
    """Return `value` if it is a dense tensor of real numbers that holds data."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name} must be a tensor, got {named(value)}; torch.as_tensor makes one.")
    if value.is_nested or value.layout != torch.strided:
        kind = "a nested one" if value.is_nested else f"{value.layout}; to_dense() fills it"
        raise TypeError(f"{name} must be a dense tensor, got {kind}.")
    if value.device.type == "meta":
        raise TypeError(
            f"{name} must hold data, got a tensor of shape {tuple(value.shape)} on the device meta."
        )
    if value.is_complex() or value.dtype == torch.bool:
        raise TypeError(f"{name} must hold real numbers, got {value.dtype}.")
    return value


def finite_tensor(value: object, name: str, *shapes: tuple[int, ...]) -> torch.Tensor:
    """Return `value` if it is a dense real tensor of one of these shapes, and finite."""
    result = real_tensor(value, name)
    if tuple(result.shape) not in shapes:
        raise ValueError(
            f"{name} must have shape {' or '.join(map(str, shapes))}, got {tuple(result.shape)}."
        )
    if not bool(torch.isfinite(result).all()):
        raise ValueError(f"{name} must be finite, but holds NaN or infinity.")
    return result


def choice(value: object, name: str, allowed: Sequence[str]) -> str:
    """Return `value` if it is one of the `allowed` names."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, one of {', '.join(allowed)}; got {value!r}.")
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {value!r}.")
    return value


def depths(value: object, at_least: int = 2) -> tuple[int, ...]:
    """Return depths as a strictly increasing tuple of `at_least` positive integers."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise TypeError(
            f"depths must be a list of integers such as [16, 32, 64], got {value!r} of type"
            f" {type(value).__name__}."
        )
    listed = [integer(item, "every depth", minimum=1, hint="Depths count residual layers.") for item in value]
    if len(listed) < at_least:
        wanted = "two depths to measure a rate" if at_least > 1 else "one depth"
        raise ValueError(f"depths must name at least {wanted}, got {listed}.")
    if any(later <= earlier for earlier, later in itertools.pairwise(listed)):
        raise ValueError(
            f"depths must be strictly increasing without repeats, got {listed}; try {sorted(set(listed))}."
        )
    if listed[-1] > 2**24:
        raise ValueError(
            f"depths beyond 2**24 = {2**24} are not supported (exact layer times), got {listed[-1]}."
        )
    return tuple(listed)


def device(value: object) -> torch.device:
    """Return `value` as a torch device that this machine has."""
    if not isinstance(value, (str, torch.device)):
        raise TypeError(f"device must be a string such as 'cpu' or 'cuda', or a torch.device; got {value!r}.")
    try:
        result = torch.device(value)
    except RuntimeError as error:
        raise ValueError(f"device {value!r} is not known to torch; use 'cpu' or 'cuda'.") from error
    if result.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"device {str(value)!r} was asked for, but torch sees no CUDA device here; use device='cpu'."
        )
    if result.type not in ("cpu", "cuda") or (result.type == "cpu" and result.index not in (None, 0)):
        raise ValueError(f"device must be 'cpu' or 'cuda', got {str(value)!r}.")
    return result


def dtype(value: object) -> torch.dtype | None:
    """Return `value` if it is None, float32 or float64; the names as strings are accepted too."""
    named = {"float32": torch.float32, "float64": torch.float64}
    if value is None:
        return None
    if isinstance(value, str) and value in named:
        return named[value]
    if value in (torch.float32, torch.float64):
        assert isinstance(value, torch.dtype)
        return value
    kind = ValueError if isinstance(value, (str, torch.dtype)) else TypeError
    raise kind(
        f"dtype must be torch.float32 or torch.float64 (or None to choose by the limit), got {value!r}."
    )


def inputs(value: object, shape: tuple[int, ...] = (1,)) -> torch.Tensor | None:
    """Return inputs as a finite float tensor, or None for standard normal ones.

    Of shape (inputs, n_in) for states that are vectors, whatever n_in is; else (inputs, *shape) for states of
    this shape.
    """
    if value is None:
        return None
    if not isinstance(value, torch.Tensor):
        raise TypeError(
            f"x must be a torch tensor of shape (inputs, n_in), got {type(value).__name__};"
            " torch.as_tensor(x) makes one."
        )
    if value.layout != torch.strided or value.device.type == "meta":
        raise TypeError(
            f"x must be a dense tensor that holds data, got {value.layout} on {value.device}; x.to_dense()"
            " fills one."
        )
    if len(shape) != 1 and tuple(value.shape[1:]) != shape:
        raise ValueError(
            f"x must have shape (inputs, {', '.join(map(str, shape))}), got x.shape={tuple(value.shape)}."
        )
    if len(shape) == 1 and value.ndim != 2:
        raise ValueError(
            f"x must have two dimensions (inputs, n_in), got x.shape={tuple(value.shape)}; x.flatten(1) does"
            " it for images, x[None] for one input."
        )
    if value.numel() == 0:
        raise ValueError(
            f"x must hold at least one input of at least one entry, got x.shape={tuple(value.shape)}."
        )
    if value.is_complex():
        raise TypeError(
            f"x must be floating point, got {value.dtype}; x.real and x.imag are, or"
            " torch.view_as_real(x).flatten(1)."
        )
    if not value.is_floating_point():
        raise TypeError(f"x must be floating point, got {value.dtype}; x.float() converts.")
    if not bool(torch.isfinite(value).all()):
        bad = int((~torch.isfinite(value)).flatten(1).any(dim=1).sum())
        raise ValueError(f"x must be finite; {bad} of its {value.shape[0]} rows hold NaN or infinity.")
    return value.detach()


def writable_file(path: object, name: str, suffixes: Sequence[str] = ()) -> Path:
    """Return `path` if a file can be written there; checked before any work, so that no result is lost."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path, got {path!r} of type {type(path).__name__}.")
    result = Path(path)
    if len(result.name.encode()) > 200:
        raise ValueError(
            f"{name} has a name of {len(result.name.encode())} bytes, too long, got {result.name!r}; use a"
            " shorter one."
        )
    if suffixes and result.suffix.lower() not in suffixes:
        raise ValueError(f"{name} must end in {' or '.join(suffixes)}, got {str(result)!r}.")
    if result.is_dir():
        raise ValueError(f"{name} names a folder, got {str(result)!r}; give a file's name.")
    parent = result.parent
    if not parent.is_dir():
        raise ValueError(f"{name} lies in {str(parent)!r}, which is not a folder; make it first.")
    if not os.access(parent, os.W_OK):
        raise ValueError(f"{name} lies in {str(parent)!r}, which cannot be written to.")
    return result
