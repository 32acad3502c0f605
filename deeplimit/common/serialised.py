"""A measurement as JSON, and made again from it, so that a report from a file can draw its paths.

Only the library's own objects are written: their fields, numbers, texts and tensors of moderate size. A
user's functions and objects cannot be made again from a file. A file names classes of this library, and
functions of its known cases, but no other code.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib
import math
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from deeplimit.common.measurement import Measurement

LIBRARY: Final = "deeplimit"
MOST_NUMBERS: Final = 4096
"""The largest tensor that a file keeps, in numbers; larger inputs stay with whoever has them."""
SIZES: Final = ("depths", "depth", "width", "reference", "steps", "layers", "state_shape")
LARGEST_SIZE: Final = 2**20
"""No file may ask for a network deeper or wider than this: one path of it takes hours, or all memory."""
FUNCTIONS: Final = (
    "deeplimit.papers.cases.",
    "deeplimit.networks.residual_network.",
    "deeplimit.networks.architectures.",
)
"""Where functions that a file may name live: they make networks and cases, and do nothing else."""
FAILURES: Final = (
    AttributeError, ArithmeticError, ImportError, LookupError, RuntimeError, TypeError, ValueError
)  # fmt: skip
"""What `rebuilt` raises for JSON that `written` did not give, and `written` for objects that are odd."""
BY_NAME: Final = "by_name"
"""A class with this method has objects that are known by their attribute `name`."""


class Unwritable(ValueError):
    """What cannot be made again from a file, and why."""


@dataclass(frozen=True)
class Origin:
    """The measurement of a report, or what a file says of it: the measurement serialised, or why it is not.

    Attributes:
        measurement: the measurement itself, where the report comes from one in this process.
        serialised: the measurement as JSON, or None.
        refusal: why it cannot be made again, in words; empty where it can.
    """

    measurement: Measurement[Any, Any] | None = None
    serialised: dict[str, Any] | None = None
    refusal: str = ""

    def written(self) -> Any:
        """Return what a file keeps: the measurement serialised, or a text that says why it is not."""
        if self.measurement is None:
            return self.serialised if self.serialised is not None else self.refusal
        try:
            return written(self.measurement, "measurement")
        except Unwritable as why:
            return str(why)

    @staticmethod
    def read(content: object) -> Origin:
        """Return the origin whose `written` this is."""
        return Origin(serialised=content) if isinstance(content, dict) else Origin(refusal=str(content))

    def again(self) -> Measurement[Any, Any]:
        """Return the measurement; raise ValueError where it cannot be made again."""
        if self.measurement is not None:
            return self.measurement
        advice = "Call the verb again with the same arguments; the same seed gives the same paths."
        if self.serialised is None:
            raise ValueError(
                f"report was read from a file and cannot draw a path again: {self.refusal}. {advice}"
            )
        try:
            _refuse_excess(self.serialised)
            made = rebuilt(self.serialised)
        except FAILURES as error:
            raise ValueError(
                "report cannot draw a path again: the measurement in its file is damaged, or of another"
                f" version ({error}). {advice}"
            ) from error
        if not isinstance(made, Measurement):
            raise ValueError(f"report cannot draw a path again: its file holds no measurement. {advice}")
        return made


def written(value: Any, name: str) -> Any:
    """Return a value as JSON; raise `Unwritable` for what only its user can make again.

    `name` is what messages call it.
    """
    if value is None or type(value) in (bool, str, int):
        return value
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else {"is": "float", "value": str(float(value))}
    if isinstance(value, (tuple, list)):
        items = [written(item, f"{name}[{k}]") for k, item in enumerate(value)]
        return {"is": "tuple", "items": items} if isinstance(value, tuple) else items
    if isinstance(value, dict):
        pairs = [[written(key, name), written(item, f"{name}[{key!r}]")] for key, item in value.items()]
        return {"is": "dict", "items": pairs}
    if isinstance(value, (torch.dtype, torch.device)):
        return {"is": type(value).__name__, "value": str(value).removeprefix("torch.")}
    if isinstance(value, torch.Tensor):
        return _tensor(value, name)
    if isinstance(value, enum.Enum):
        return {"is": "member", "of": _place(type(value), name), "value": value.name}
    if isinstance(value, (type, types.FunctionType)):
        return {"is": "name", "of": _place(value, name)}
    return _foreign(value, name)


def _foreign(value: Any, name: str) -> Any:
    """Return what numpy and Python's own modules make as JSON, or one of the library's objects."""
    if isinstance(value, (np.integer, np.bool_)):
        return value.item()
    if isinstance(value, range):
        return [*value]
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return {**_tensor(torch.from_numpy(np.ascontiguousarray(value)), name), "is": "array"}
    if isinstance(value, Path):
        return {"is": "path", "value": str(value)}
    if isinstance(value, functools.partial):
        parts = {"arguments": [*value.args], "keywords": dict(value.keywords)}
        return {"is": "partial", "of": _place(value.func, name), **_each(parts, name)}
    return _object(value, name)


def rebuilt(content: Any) -> Any:
    """Return the value that `written` gave this JSON for; raise where it is damaged."""
    if isinstance(content, list):
        return [rebuilt(item) for item in content]
    if not isinstance(content, dict):
        return content
    return _MAKERS[content["is"]](content)


def told(content: Any) -> str:
    """Return in words the value that `written` gave this JSON for; a file may hold any other.

    Examples:
        >>> import deeplimit as dl
        >>> told(written(dl.res1(4).recursion, "recursion"))
        'Res1(activation=relu)'
    """
    try:
        return _told(content)
    except FAILURES:
        return "damaged"


def _told(content: Any) -> str:
    if isinstance(content, list):
        return f"[{', '.join(map(_told, content))}]"
    if not isinstance(content, dict):
        return repr(content)
    kind = content["is"]
    if kind == "tuple":
        return _told(content["items"])
    if kind == "dict":
        return "{" + ", ".join(f"{_told(key)}: {_told(item)}" for key, item in content["items"]) + "}"
    if kind in ("tensor", "array"):
        return f"{kind} of shape {content['shape']}, {content['dtype']}"
    if kind in ("object", "partial"):
        fields = content["fields"] if kind == "object" else dict(content["keywords"]["items"])
        shown = ", ".join(f"{key}={_told(item)}" for key, item in fields.items())
        return f"{content['of'].partition(':')[2]}({shown})"
    return content["of"].partition(":")[2] if kind == "name" else str(content["value"])


def _refuse_excess(content: Any) -> None:
    """Raise ValueError where a file asks for a network that is too deep or too wide to be drawn."""
    waiting: list[tuple[str, Any]] = [("", content)]
    while waiting:
        name, each = waiting.pop()
        if isinstance(each, dict):
            waiting += [(name if key == "items" else key, item) for key, item in each.items()]
        elif isinstance(each, list):
            waiting += [(name, item) for item in each]
        elif name in SIZES and isinstance(each, (int, float)) and each > LARGEST_SIZE:
            raise ValueError(f"its {name} holds a number above {LARGEST_SIZE}, more than a file may ask for")


def _tensor(value: torch.Tensor, name: str) -> Any:
    if value.numel() > MOST_NUMBERS:
        raise Unwritable(
            f"{name} is a tensor of {value.numel()} numbers, more than the {MOST_NUMBERS} that a file keeps"
        )
    if value.layout != torch.strided or value.is_complex() or value.is_quantized:
        raise Unwritable(f"{name} is a tensor that a file does not keep ({value.layout}, {value.dtype})")
    numbers = written(value.detach().to("cpu").reshape(-1).tolist(), name)
    dtype = str(value.dtype).removeprefix("torch.")
    return {"is": "tensor", "dtype": dtype, "shape": [*value.shape], "numbers": numbers}


def _object(value: Any, name: str) -> Any:
    kind = type(value)
    place = _place(kind, name)
    if (known := getattr(kind, BY_NAME, None)) is not None:
        if known(value.name) != value:
            raise Unwritable(
                f"{name} is {value.name!r}, made of a user's function, which no file can bring back"
            )
        return {"is": "known", "of": place, "value": value.name}
    if dataclasses.is_dataclass(value):
        state = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    else:
        state = {
            key: item
            for key, item in getattr(value, "__dict__", {}).items()
            if not isinstance(getattr(kind, key, None), functools.cached_property)
        }
    return {"is": "object", "of": place, "fields": _each(state, name)}


def _each(state: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: written(item, f"{name}.{key}") for key, item in state.items()}


def _place(value: Any, name: str) -> str:
    """Return where a class or a function of the library is found; raise `Unwritable` for any other."""
    module, path = getattr(value, "__module__", None) or "", getattr(value, "__qualname__", "")
    allowed = f"{LIBRARY}." if isinstance(value, type) else FUNCTIONS
    if not f"{module}.".startswith(allowed) or "<" in path:
        kind = f"an object of the class {path}" if isinstance(value, type) else f"the function {path}"
        raise Unwritable(f"{name} is {kind} of {module or 'a user'}, which no file can bring back")
    return f"{module}:{path}"


def _found(place: str) -> Any:
    """Return the class or function that `_place` named, and nothing else."""
    module, _, path = place.partition(":")
    if not f"{module}.".startswith(f"{LIBRARY}."):
        raise ValueError(f"{place!r} is not part of {LIBRARY}")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    if not isinstance(found, (type, types.FunctionType)) or _place(found, "it") != place:
        raise ValueError(f"{place!r} is not the name of a class of {LIBRARY}")
    return found


def _made_tensor(content: dict[str, Any]) -> torch.Tensor:
    numbers = torch.tensor(rebuilt(content["numbers"]), dtype=_dtype(content["dtype"]))
    return numbers.reshape(content["shape"])


def _made_object(content: dict[str, Any]) -> Any:
    kind = _found(content["of"])
    wanted = {field.name for field in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()
    if dataclasses.is_dataclass(kind) and wanted != content["fields"].keys():
        differing = sorted(wanted ^ content["fields"].keys())
        raise ValueError(f"{content['of']} has other fields: {', '.join(differing)}")
    made = object.__new__(kind)
    for key, item in content["fields"].items():
        object.__setattr__(made, key, rebuilt(item))
    return made


def _made_partial(content: dict[str, Any]) -> functools.partial[Any]:
    function = _found(content["of"])
    if not isinstance(function, types.FunctionType):
        raise ValueError(f"{content['of']} is no function")
    return functools.partial(function, *rebuilt(content["arguments"]), **rebuilt(content["keywords"]))


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"{name!r} is no dtype")
    return found


_MAKERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "float": lambda content: float(content["value"]),
    "tuple": lambda content: tuple(rebuilt(item) for item in content["items"]),
    "dict": lambda content: {rebuilt(key): rebuilt(item) for key, item in content["items"]},
    "dtype": lambda content: _dtype(content["value"]),
    "device": lambda content: torch.device(content["value"]),
    "tensor": _made_tensor,
    "array": lambda content: _made_tensor(content).numpy(),
    "path": lambda content: Path(content["value"]),
    "partial": _made_partial,
    "member": lambda content: _found(content["of"])[content["value"]],
    "name": lambda content: _found(content["of"]),
    "known": lambda content: getattr(_found(content["of"]), BY_NAME)(content["value"]),
    "object": _made_object,
}
