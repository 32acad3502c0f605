"""A measurement's specification as plain data, by which a store tells one measurement from another.

Two specifications are equal only where the numbers are. Tensors enter by their content, records by their
fields, functions by their code, their closure and the globals that they read. Code of installed packages
enters by name and version. What cannot be told apart in this way is refused.
"""

from __future__ import annotations

import copyreg
import dataclasses
import dis
import enum
import functools
import hashlib
import importlib
import json
import math
import pickle
import random
import sys
import types
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from deeplimit.common.machine import machine
from deeplimit.common.randomness import STREAMS
from deeplimit.version import versions

HOOK = "__deeplimit_key__"
"""An attribute with this name, a text, stands for an object's whole content."""
MOST_PARTS = 20_000
_SLOTS = (types.GetSetDescriptorType, types.MemberDescriptorType)
_GENERATORS = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)
_OWN_TO_A_CLASS = {
    "__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__abstractmethods__", "_abc_impl",
    "__dataclass_fields__", "__dataclass_params__", "__match_args__", "__firstlineno__", "__annotate__",
    "__static_attributes__", "__parameters__", "__orig_bases__", "__annotate_func__", "__annotations_cache__",
}  # fmt: skip


def describe(value: object, name: str) -> Any:
    """Return `value` as plain data (texts, numbers, lists, dicts); `name` is what messages call it.

    Raises ValueError where two different values could not be told apart, such as a generator of random
    numbers or an object of compiled code. NOT checked: what a function reads from files, from the
    environment, or by names made up as it runs.

    Examples:
        >>> from deeplimit.common.specification import describe
        >>> describe((1, 0.5, "sup"), "knobs")
        [1, 0.5, 'sup']
        >>> def steep(slope):
        ...     return lambda h: slope * h
        >>> describe(steep(2.0), "activation") == describe(steep(3.0), "activation")
        False
    """
    return _Describer().any(value, name)


def digest(specification: Mapping[str, Any]) -> str:
    """Return 64 hexadecimal digits that stand for a specification."""
    return hashlib.sha256(text(specification).encode()).hexdigest()


def text(plain: object) -> str:
    """Return plain data as JSON that is the same for equal data."""
    return json.dumps(plain, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def environment() -> dict[str, str]:
    """Return what decides the last bits of a result and what a function's code looks like."""
    found = versions()
    return {**found, "python": ".".join(found["python"].split(".")[:2]), "streams": STREAMS, **machine()}


def differences(there: object, here: object, name: str = "") -> Iterator[str]:
    """Yield "field: value there, value here" for every field in which two specifications differ."""
    if isinstance(there, dict) and isinstance(here, dict):
        for key in sorted(there.keys() | here.keys()):
            inner = f"{name}.{key}" if name else str(key)
            yield from differences(there.get(key, _MISSING), here.get(key, _MISSING), inner)
    elif there != here or type(there) is not type(here):
        yield f"{name}: {_shown(there)} there, {_shown(here)} here"


_MISSING = object()


def _shown(value: object) -> str:
    if value is _MISSING:
        return "nothing"
    shown = text(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


class _Describer:
    """One walk over a value; objects on the way to where it is are named, not entered again."""

    def __init__(self) -> None:
        self.inside: dict[int, str] = {}
        self.parts = 0

    def any(self, value: Any, name: str) -> Any:
        self.parts += 1
        if self.parts > MOST_PARTS:
            raise self.refusal(name, f"is made of more than {MOST_PARTS} parts")
        if (simple := _simple(value)) is not None or value is None:
            return simple
        if id(value) in self.inside:
            return {"is": "the same as", "that": self.inside[id(value)]}
        self.inside[id(value)] = name
        try:
            return self.compound(value, name)
        finally:
            del self.inside[id(value)]

    def refusal(self, name: str, why: str) -> ValueError:
        return ValueError(
            f"store= needs measurements that can be told apart, but {name} {why}. Use functions and objects"
            f" of plain Python and tensors, or give it an attribute {HOOK}, a text that changes whenever it"
            " would compute other numbers."
        )

    def compound(self, value: Any, name: str) -> Any:
        if isinstance(hook := getattr(value, HOOK, None), str):
            return {"is": HOOK, "key": hook}
        if isinstance(value, torch.Tensor):
            return self.tensor(value, name)
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return _numbers("array", str(value.dtype), value.shape, np.ascontiguousarray(value).tobytes())
        if type(value) in (list, tuple):
            return [self.any(item, f"{name}[{k}]") for k, item in enumerate(value)]
        if type(value) in (dict, types.MappingProxyType):
            return self.mapping(value, name)
        if isinstance(value, (set, frozenset)):
            return {"is": "set", "of": sorted((self.any(item, name) for item in value), key=text)}
        if isinstance(value, _GENERATORS):
            raise self.refusal(name, "is a generator of random numbers, which changes as it is used")
        if isinstance(value, type):
            return self.kind(value, name)
        if dataclasses.is_dataclass(value):
            return self.record(value, name)
        return self.called(value, name)

    def called(self, value: Any, name: str) -> Any:
        if isinstance(value, types.ModuleType):
            return _named_code(value.__name__, value.__name__)
        if isinstance(value, types.FunctionType):
            return self.function(value, name)
        if isinstance(value, types.MethodType):
            return [self.any(value.__func__, name), self.any(value.__self__, f"the object of {name}")]
        if isinstance(value, functools.partial):
            parts = (value.func, value.args, value.keywords)
            return {"is": "partial", "of": [self.any(part, name) for part in parts]}
        return self.reduced(value, name)

    def tensor(self, value: torch.Tensor, name: str) -> Any:
        if value.layout != torch.strided or value.device.type == "meta" or value.is_nested:
            raise self.refusal(name, f"is a tensor of layout {value.layout} on {value.device}")
        dense = value.detach().to("cpu").contiguous().reshape(-1)
        content = (
            dense.resolve_conj().resolve_neg().view(torch.uint8).numpy().tobytes() if dense.numel() else b""
        )
        return _numbers("tensor", str(value.dtype).removeprefix("torch."), tuple(value.shape), content)

    def mapping(self, value: Mapping[Any, Any], name: str) -> Any:
        if all(type(key) is str for key in value) and "is" not in value:
            return {key: self.any(item, f"{name}.{key}") for key, item in value.items()}
        pairs = [[self.any(key, name), self.any(item, f"{name}[{key!r}]")] for key, item in value.items()]
        return {"is": "mapping", "of": sorted(pairs, key=text)}

    def record(self, value: Any, name: str) -> Any:
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        kind = type(value)
        if not _is_installed(kind.__module__):  # what a user's class keeps beside its fields may count, too
            own = getattr(value, "__dict__", {})
            fields |= {
                key: item
                for key, item in own.items()
                if not isinstance(getattr(kind, key, None), functools.cached_property)
            }
        described = {key: self.any(item, f"{name}.{key}") for key, item in fields.items()}
        return {"is": self.kind(kind, f"the class of {name}"), **described}

    def reduced(self, value: Any, name: str) -> Any:
        """Describe any other object by its state, as copying it would take it apart."""
        kind = f"is an object of type {type(value).__name__}"
        try:
            registered = copyreg.dispatch_table.get(type(value))
            parts = value.__reduce_ex__(4) if registered is None else registered(value)
        except Exception as error:  # whatever an object says that cannot be taken apart
            raise self.refusal(name, f"{kind}, which cannot be taken apart") from error
        if isinstance(parts, str):  # the name of a global
            with warnings.catch_warnings():  # it looks into every module, also into deprecated ones
                warnings.simplefilter("ignore")
                module = pickle.whichmodule(value, parts)  # type: ignore[attr-defined]
            if getattr(sys.modules.get(module), parts, None) is not value:
                raise self.refusal(name, f"{kind}, which no module holds")
            return _named_code(module, parts)
        make, arguments, *rest = parts
        state, *items = [*rest, None, None, None][:3]
        return {
            "is": "object",
            "made by": self.any(make, f"the class of {name}"),
            "of": self.any(tuple(arguments), name),
            "state": self.any(state, name),
            "items": [self.any(list(each), name) for each in items if each is not None],
        }

    def kind(self, value: type, name: str) -> Any:
        """Describe a class: by its name where it is installed, else by the code of all its methods."""
        named = _named_code(value.__module__, value.__qualname__)
        if _is_installed(value.__module__):
            return named
        if id(value) in self.inside and self.inside[id(value)] != name:
            return {"is": "the same as", "that": self.inside[id(value)]}
        before = self.inside.get(id(value))
        self.inside[id(value)] = name
        try:
            members = {
                key: self.any(_unwrapped(item), f"{value.__name__}.{key}")
                for key, item in sorted(vars(value).items())
                if key not in _OWN_TO_A_CLASS and not isinstance(item, _SLOTS)
            }
        finally:
            if before is None:
                del self.inside[id(value)]
        bases = [self.any(base, f"a base of {value.__name__}") for base in value.__bases__]
        return {"is": named, "members": members, "bases": bases}

    def function(self, value: types.FunctionType, name: str) -> Any:
        """Describe a function by its name where it is installed, else by its code; and its closure."""
        found: dict[str, Any] = {"is": _named_code(value.__module__, value.__qualname__)}
        cells = dict(zip(value.__code__.co_freevars, value.__closure__ or (), strict=True))
        closed = {key: cell.cell_contents for key, cell in cells.items() if _is_filled(cell)}
        called = f"{value.__qualname__} of {name}" if value.__qualname__ not in name else name
        if closed:
            found["closes over"] = {key: self.any(item, f"{key} in {called}") for key, item in closed.items()}
        if _is_installed(value.__module__):
            return found
        found["code"] = _code(value.__code__)
        for what, defaults in (("defaults", value.__defaults__), ("keywords", value.__kwdefaults__)):
            if defaults:
                found[what] = self.any(defaults, f"a default of {called}")
        read = dict(_globals(value))
        if read:
            found["reads"] = {
                key: self.any(item, f"{key}, which {called} reads,") for key, item in read.items()
            }
        return found


def _simple(value: Any) -> Any:
    """Return what JSON holds as it is, or as a text; None for anything else."""
    if type(value) in (bool, int, str):
        return value
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, (np.integer, np.bool_)):
        return value.item()
    if isinstance(value, (bytes, bytearray, complex, torch.dtype, torch.device, np.dtype, range, slice)):
        return f"{type(value).__name__} {value!s}"
    if isinstance(value, (torch.Size, torch.layout, torch.memory_format, type(NotImplemented), type(...))):
        return repr(value)
    return None


def _numbers(kind: str, dtype: str, shape: tuple[int, ...], content: bytes) -> dict[str, Any]:
    return {"is": kind, "dtype": dtype, "shape": [*shape], "sha256": hashlib.sha256(content).hexdigest()}


def _named_code(module: str, name: str) -> str:
    top = sys.modules.get(str(module).partition(".")[0])
    version = getattr(top, "__version__", None)
    installed = isinstance(version, str) and _is_installed(module) and top is not None
    own = installed and top is not None and top.__name__ in ("deeplimit", "torch", "numpy")
    full = name if name == module else f"{module}.{name}"
    return f"{full} ({version})" if installed and not own else full  # the environment states those three


def _is_installed(module: object) -> bool:
    """Return whether a module's code is fixed by a version: Python's own, deeplimit's or a package's."""
    top = str(module).partition(".")[0]
    if top == "__main__":
        return False
    if top in sys.stdlib_module_names or top in ("deeplimit", "None"):
        return True
    file = getattr(sys.modules.get(top), "__file__", None) or ""
    return "site-packages" in file or "dist-packages" in file


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _unwrapped(member: Any) -> Any:
    """Return the functions inside a property, a class method, a static or a cached one."""
    if isinstance(member, (classmethod, staticmethod)):
        return member.__func__
    if isinstance(member, property):
        return (member.fget, member.fset, member.fdel)
    return member.func if isinstance(member, functools.cached_property) else member


def _code(code: types.CodeType) -> str:
    """Return a digest of what a function does; where it stands in a file does not count."""
    constants = [
        _code(each)
        if isinstance(each, types.CodeType)
        else f"frozenset {sorted(map(repr, each))}"
        if isinstance(each, frozenset)
        else f"{type(each).__name__} {each!r}"
        for each in code.co_consts
    ]
    arguments = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    parts = (code.co_code, constants, code.co_names, arguments, code.co_freevars, code.co_exceptiontable)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _nested(each)


def _globals(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the globals that a function reads, and what it reads of modules that are not installed."""
    for code in _nested(function.__code__):
        modules = []
        for step in dis.get_instructions(code):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval in function.__globals__:
                value = function.__globals__[step.argval]
                yield step.argval, value
                modules += [value] if isinstance(value, types.ModuleType) else []
            elif step.opname == "IMPORT_NAME" and not _is_installed(step.argval):
                modules.append(importlib.import_module(step.argval))
        for module in modules:
            if not _is_installed(module.__name__):
                for name in code.co_names:
                    if hasattr(module, name):
                        yield f"{module.__name__}.{name}", getattr(module, name)
