"""Every check of what a caller passes: what was passed, what is wrong, what to do.

`TypeError` for a wrong kind of thing, `ValueError` for a wrong value. The checks run once, at the public
entry; nothing below it checks again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import itertools
import math
import numbers
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

T = TypeVar("T")


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
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  # a user's own class may raise anything; the message is not about that
        text = ""
    shown = text.isprintable() and 0 < len(text) <= 100
    return f"{text} of type {kind}" if shown else f"an object of type {kind}"


LARGEST = 2**53
"""The largest size, number or depth: floats count no further, and no machine either."""


def integer(value: object, name: str, *, minimum: int, maximum: int = LARGEST, hint: str = "") -> int:
    """Return `value` as an int that is at least `minimum` and at most `maximum`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an integer, got {named(value)}. {hint}".rstrip())
    result = int(value)
    if result < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {_digits(result)}. {hint}".rstrip())
    if result > maximum:
        raise ValueError(f"{name} must be at most {maximum}, got {_digits(result)}. {hint}".rstrip())
    return result


def seed(value: object, name: str = "seed") -> int:
    """Return `value` as an int of at least 0, however large."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an integer, got {named(value)}.")
    if value < 0:
        raise ValueError(f"{name} must be at least 0, got {_digits(int(value))}.")
    return int(value)


def _digits(number: int) -> str:
    size = abs(number).bit_length()
    return str(number) if size <= 100 else f"{'-' if number < 0 else ''}2**{size - 1} or more"


def plain_numbers(owner: Any) -> None:
    """Put Python's own numbers into the fields of a frozen dataclass that hold numpy's, or fractions.

    What is neither stays as it is, for the checks that follow.
    """
    for entry in dataclasses.fields(owner):
        value = getattr(owner, entry.name)
        if isinstance(value, (bool, int, float)) or not isinstance(value, numbers.Real):
            continue
        plain = int(value) if isinstance(value, numbers.Integral) else float(value)
        object.__setattr__(owner, entry.name, plain)


def flag(value: object, name: str) -> bool:
    """Return `value` if it is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {named(value)}.")
    return bool(value)


def instance(value: T, name: str, kinds: type | tuple[type, ...], hint: str) -> T:
    """Return `value` if it is an object of one of these kinds; `hint` says what is meant."""
    if not isinstance(value, kinds):
        raise TypeError(f"{name} must be {hint}; got {named(value)}.")
    return value


def function(value: T, name: str, hint: str) -> T:
    """Return `value` if it can be called and is no class; `hint` says what is meant."""
    if isinstance(value, type) or not callable(value):
        raise TypeError(f"{name} must be {hint}; got {named(value)}.")
    return value


def factory(value: T, name: str, hint: str) -> T:
    """Return `value` if it makes modules: a function, or their class."""
    if isinstance(value, type) and issubclass(value, torch.nn.Module):
        return value
    if isinstance(value, torch.nn.Module):
        raise TypeError(f"{name} must be {hint}; got the module {type(value).__name__} itself.")
    return function(value, name, hint)


def untrained(null: T, depths: int) -> T:
    """Return `null` if it makes untrained modules, of a depth, or of none where that is known."""
    factory(null, "null", "a function that makes an untrained module")
    if not takes(null, depths):
        wanted = ("no argument, as lambda: Net(16)", "the depth alone, as lambda depth: Net(depth)")[depths]
        raise TypeError(f"null must be a function of {wanted}; got one that takes others.")
    return null


def text(value: object, name: str) -> str:
    """Return `value` if it is a string that can be printed and written."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {named(value)}.")
    if not value or not value.isprintable():
        raise ValueError(f"{name} must be a line of characters that can be printed, got {value!a}.")
    return value


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


@contextlib.contextmanager
def noted(note: str) -> Iterator[None]:
    """Let what a user's own code raises come through, with a note that says what deeplimit did with it."""
    try:
        yield
    except Exception as error:
        error.add_note(note)
        raise


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
    """Return whether a value can be called with this many arguments, where its signature tells."""
    if not callable(function):
        return False
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
        raise TypeError(f"{name} must be a string, one of {', '.join(allowed)}; got {named(value)}.")
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {value!r}.")
    return value


MOST_ENTRIES = 100_000
"""Lists of arguments end here: a range of a billion depths is a mistake, and would fill memory."""


def entries(value: object, name: str, hint: str) -> list[Any]:
    """Return what a list, or anything else that can be iterated but no string, holds; `hint` says of what."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be {hint}, got {named(value)}.")
    try:
        result = list(itertools.islice(value, MOST_ENTRIES + 1))
    except Exception as error:  # arrays without dimensions, and whatever a user's own class raises
        raise TypeError(f"{name} must be {hint}, got {named(value)}.") from error
    if len(result) > MOST_ENTRIES:
        raise ValueError(f"{name} must hold at most {MOST_ENTRIES} entries, got more.")
    return result


def depths(value: object, at_least: int = 2, name: str = "depths", one: str = "depth") -> tuple[int, ...]:
    """Return depths as a strictly increasing tuple of `at_least` positive integers.

    `name` and `one` are what messages call them.
    """
    given = entries(value, name, "a list of integers such as [16, 32, 64]")
    hint = "Depths count residual layers." if name == "depths" else ""
    listed = [integer(item, f"every {one}", minimum=1, hint=hint) for item in given]
    if len(listed) < at_least:
        few = "three" if at_least > 2 else "two"
        wanted = f"{few} depths to measure a rate" if at_least > 1 else f"one {one}"
        raise ValueError(f"{name} must name at least {wanted}, got {listed}.")
    if any(later <= earlier for earlier, later in itertools.pairwise(listed)):
        raise ValueError(
            f"{name} must be strictly increasing without repeats, got {listed}; try {sorted(set(listed))}."
        )
    if listed[-1] > 2**24:
        raise ValueError(
            f"{name} beyond 2**24 = {2**24} are not supported (exact layer times), got {listed[-1]}."
        )
    return tuple(listed)


def device(value: object) -> torch.device:
    """Return `value` as a torch device that this machine has."""
    if not isinstance(value, (str, torch.device)):
        raise TypeError(
            f"device must be a string such as 'cpu' or 'cuda', or a torch.device; got {named(value)}."
        )
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
    if value is None:
        return None
    by_name = {"float32": torch.float32, "float64": torch.float64}
    if isinstance(value, str) and value in by_name:
        return by_name[value]
    if isinstance(value, torch.dtype) and value in by_name.values():
        return value
    kind = ValueError if isinstance(value, (str, torch.dtype)) else TypeError
    raise kind(
        f"dtype must be torch.float32 or torch.float64 (or None to choose by the limit), got {named(value)}."
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
    if value.is_nested or value.layout != torch.strided or value.device.type == "meta":
        kind = "a nested one" if value.is_nested else f"{value.layout} on {value.device}"
        raise TypeError(f"x must be a dense tensor that holds data, got {kind}; x.to_dense() fills one.")
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


LARGEST_TEXT = 2**28
"""Bytes of the longest file that is read whole as text."""


def text_of(path: object, name: str) -> str:
    """Return what a text file holds; a pipe, a device or an endless file is refused before it is read.

    Raises FileNotFoundError that names the argument, other OSErrors as they are, ValueError for what is no
    text.
    """
    source = as_path(path, name)
    try:
        found = source.stat()
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{name} must be a file that exists, got {str(source)!r}.") from error
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"{name} must be a file, got {str(source)!a}, which is a folder, pipe or device.")
    if found.st_size > LARGEST_TEXT:
        raise ValueError(
            f"{name} must be a file of at most {LARGEST_TEXT} bytes, got {str(source)!r} of {found.st_size}."
        )
    try:
        return source.read_text(encoding="utf-8")
    except OSError as error:  # one of a disk that fails while it is read names no file
        raise OSError(error.errno, error.strerror or str(error), str(source)) from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} must be a file of text, got {str(source)!r}: {error}.") from error


def as_path(path: object, name: str) -> Path:
    """Return `path` as a Path that this system can name."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path, got {named(path)}.")
    try:
        result = Path(path)
        plain = b"\0" not in os.fsencode(result)
    except (TypeError, UnicodeEncodeError) as error:
        raise ValueError(f"{name} must be a path that this system can write, got {path!a}.") from error
    if not plain:
        raise ValueError(f"{name} must be a path without null bytes, got {str(path)!a}.")
    return result


def writable_file(path: object, name: str, suffixes: Sequence[str] = ()) -> Path:
    """Return `path` if a file can be written there; checked before any work, so that no result is lost."""
    result = as_path(path, name)
    if len(result.name.encode()) > 200:
        raise ValueError(
            f"{name} has a name of {len(result.name.encode())} bytes, too long, got {result.name!r}; use a"
            " shorter one."
        )
    if suffixes and result.suffix.lower() not in suffixes:
        raise ValueError(f"{name} must end in {' or '.join(suffixes)}, got {str(result)!r}.")
    if result.exists() and not result.is_file():
        what = "a folder" if result.is_dir() else "a pipe or a device"
        raise ValueError(f"{name} names {what}, got {str(result)!r}; give a file's name.")
    parent = result.parent
    if not parent.is_dir():
        raise ValueError(f"{name} lies in {str(parent)!r}, which is not a folder; make it first.")
    if not os.access(parent, os.W_OK):
        raise ValueError(f"{name} lies in {str(parent)!r}, which cannot be written to.")
    return result
