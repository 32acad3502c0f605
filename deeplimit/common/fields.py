"""Typed JSON both ways, derived from the fields of a frozen dataclass.

`plain` writes; `read` reads by the type of each field and names the field that is damaged, as
`bounds[0].holds`. Arrays say their shape in named dimensions:

    errors: Annotated[np.ndarray, Shape("depths")]
    p_values: Annotated[np.ndarray, Shape("tests depths")]

A dimension is a number, a name, or a name and what is taken off it ("depths-1"). A name is the size that the
first array with it has, or the value of an integer field of this name.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

import numpy as np

from deeplimit.common.validation import named

Sizes = dict[str, int]


@dataclass(frozen=True)
class Shape:
    """The shape and the numbers of an array field, or the length of a tuple field.

    Attributes:
        dims: dimensions, separated by spaces.
        whole: whether the numbers are integers.
        increasing: whether they must be positive and strictly increasing, one at least.
        finite: whether they must be finite, one at least.
    """

    dims: str
    whole: bool = False
    increasing: bool = False
    finite: bool = False


Depths = Annotated[np.ndarray, Shape("depths", whole=True, increasing=True)]
"""Numbers of layers (m,), which name the dimension "depths"."""
PerDepth = Annotated[np.ndarray, Shape("depths")]
"""One number per depth (m,)."""
CountPerDepth = Annotated[np.ndarray, Shape("depths", whole=True)]
"""One integer per depth (m,)."""
Interval = tuple[float, float]


@dataclass(frozen=True)
class OneOf:
    """The words that a text field may have."""

    words: tuple[str, ...]


@dataclass(frozen=True)
class Within:
    """The least and the largest value that a number may have; infinity is refused."""

    low: float
    high: float = math.inf


Seed = Annotated[int, Within(0)]
Seconds = Annotated[float, Within(0.0)]
Count = Annotated[int, Within(0, 2**53)]
"""A number of paths, draws or networks: what a float can count."""
Level = Annotated[float, Within(0.0, 1.0)]
"""A probability."""


def plain(value: Any) -> Any:
    """Return `value` as JSON can hold it: records as dictionaries, arrays as lists, NaN as text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value.tolist()]
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, (np.integer, np.bool_)):
        return value.item()
    return value


@functools.cache
def hints(kind: type) -> dict[str, Any]:
    """Return the types of a dataclass's fields, by name."""
    every = typing.get_type_hints(kind, include_extras=True)
    return {field.name: every[field.name] for field in dataclasses.fields(kind)}


def read(kind: Any, content: Any, where: str) -> Any:
    """Return the dataclass `kind` that `plain` wrote as `content`; `where` names it, empty for the outermost.

    A field that has a default may be missing: it came with a later version.

    Raises TypeError or ValueError that name the field.
    """
    what = where or "the report"
    if not isinstance(content, dict):
        raise TypeError(f"{what} must have named fields, got {named(content)}")
    types_ = hints(kind)
    needed = {
        field.name
        for field in dataclasses.fields(kind)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    for problem, names in (
        ("lacks", needed - content.keys()),
        ("has unknown fields:", content.keys() - types_.keys()),
    ):
        if names:
            raise ValueError(f"{what} {problem} {', '.join(sorted(map(str, names)))}")
    sizes: Sizes = {}
    values: dict[str, Any] = {}
    for name, wanted in types_.items():
        if name in content:
            inside = f"{where}.{name}" if where else name
            values[name] = _value(wanted, content[name], inside, sizes)
            if _is_integer(wanted) and sizes.setdefault(name, values[name]) != values[name]:
                raise ValueError(f"{inside} must be {sizes[name]}, the size of an array, got {values[name]}")
    return kind(**values)


def _is_integer(wanted: Any) -> bool:
    return wanted is int or (typing.get_origin(wanted) is Annotated and typing.get_args(wanted)[0] is int)


def _value(wanted: Any, value: Any, name: str, sizes: Sizes) -> Any:
    """Return one value of the type `wanted`; `name` is how a message calls it."""
    origin, inside = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is Annotated:
        return _annotated(inside[0], inside[1], value, name, sizes)
    if origin in (typing.Union, types.UnionType):
        return _optional(inside, value, name, sizes)
    if origin is tuple:
        return _tuple(inside, value, name, sizes)
    if origin is dict:
        if not isinstance(value, dict):
            raise TypeError(f"{name} must have named fields, got {named(value)}")
        return {key: _value(inside[1], item, f"{name}[{key!r}]", sizes) for key, item in value.items()}
    if dataclasses.is_dataclass(wanted):
        return read(wanted, value, name)
    if wanted is float:
        return number(value, name)
    if wanted in (str, bool, int) and type(value) is not wanted:
        raise TypeError(f"{name} must be of type {wanted.__name__}, got {named(value)}")
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return _word(tuple(str(member.value) for member in wanted), wanted, value, name)
    return value


def _annotated(wanted: Any, rule: Any, value: Any, name: str, sizes: Sizes) -> Any:
    if isinstance(rule, OneOf):
        return _word(rule.words, wanted, value, name)
    if isinstance(rule, Within):
        return _within(rule, _value(wanted, value, name, sizes), name)
    if not isinstance(rule, Shape):
        return _value(wanted, value, name, sizes)
    if wanted is np.ndarray:
        return _array(rule, value, name, sizes)
    result = _value(wanted, value, name, sizes)
    expected = _expected(rule, (len(result),), sizes)
    if (len(result),) != expected:
        raise ValueError(f"{name} must have {expected[0]} entries, got {len(result)}")
    return result


def _within(rule: Within, value: Any, name: str) -> Any:
    if not (rule.low <= value <= rule.high and value < math.inf):
        above = f" and at most {rule.high:g}" if rule.high < math.inf else ", and finite"
        raise ValueError(f"{name} must be at least {rule.low:g}{above}; got {named(value)}")
    return value


def _word(words: Sequence[str], kind: Any, value: Any, name: str) -> Any:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be of type str, got {named(value)}")
    if value not in words:
        raise ValueError(f"{name} must be one of {', '.join(words)}; got {value!r}")
    return kind(value)


def _optional(options: tuple[Any, ...], value: Any, name: str, sizes: Sizes) -> Any:
    """Return a value of one of several types: None, a text or a number; else of the first type."""
    if value is None and types.NoneType in options:
        return None
    rest = [option for option in options if option is not types.NoneType]
    if isinstance(value, str) and str in rest and value not in ("nan", "inf", "-inf"):
        return value
    numbers = [option for option in rest if option is not str]
    allowed = {bool: "true or false", float: "a number", str: "a text", int: "an integer"}
    try:
        return _value((numbers or rest)[0], value, name, sizes)
    except (TypeError, ValueError) as error:
        if not all(option in allowed for option in rest):
            raise
        words = ", ".join([*(allowed[option] for option in rest), "null"][: len(options)])
        raise TypeError(f"{name} must be {words}; got {named(value)}") from error


def _tuple(kinds: tuple[Any, ...], value: Any, name: str, sizes: Sizes) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise TypeError(f"{name} must be a list, got {named(value)}")
    wanted = [kinds[0]] * len(value) if kinds[1:] == (Ellipsis,) else list(kinds)
    if len(wanted) != len(value):
        raise ValueError(f"{name} must have {len(wanted)} entries, got {named(value)}")
    return tuple(
        _value(kind, item, f"{name}[{place}]", sizes)
        for place, (kind, item) in enumerate(zip(wanted, value, strict=True))
    )


def number(value: Any, name: str) -> float:
    """Return a number as `plain` wrote it: NaN and infinities are texts."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not known and value not in ("nan", "inf", "-inf"):
        raise TypeError(f"{name} must be a number, got {named(value)}")
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError(f"{name} must be a number that a float can hold") from error


def _expected(rule: Shape, actual: tuple[int, ...], sizes: Sizes) -> tuple[int, ...]:
    """Return the shape that a rule asks for; a name that has no size yet takes the actual one."""
    wanted = rule.dims.split()
    shape = []
    for place, dimension in enumerate(wanted):
        name, _, less = dimension.partition("-")
        if name.isdigit():
            shape.append(int(name))
            continue
        if name not in sizes and len(actual) == len(wanted):
            sizes[name] = actual[place]
        shape.append(max(0, sizes.get(name, 0) - int(less or 0)))
    return tuple(shape)


def _array(rule: Shape, value: Any, name: str, sizes: Sizes) -> np.ndarray:
    if not isinstance(value, list):
        raise TypeError(f"{name} must be a list of numbers, got {named(value)}")
    try:
        result = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be a list of numbers, got {named(value)}") from error
    expected = _expected(rule, result.shape, sizes)
    if result.size == 0 and math.prod(expected) == 0:
        result = result.reshape(expected)
    if result.shape != expected:
        raise ValueError(f"{name} must have shape {expected}, got {result.shape}")
    if rule.whole and not bool((np.isfinite(result) & (result == np.round(result))).all()):
        raise ValueError(f"{name} must hold integers, got {named(value)}")
    if (rule.finite or rule.increasing) and (result.size == 0 or not bool(np.isfinite(result).all())):
        raise ValueError(f"{name} must hold finite numbers, at least one, got {named(value)}")
    if rule.increasing and (result[0] < 1 or bool((np.diff(result) <= 0).any())):
        raise ValueError(f"{name} must be positive and strictly increasing, got {named(value)}")
    return result.astype(np.int64) if rule.whole else result
