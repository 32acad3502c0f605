"""Named tensors of one network, from a file, a state_dict, a module or a mapping; no code in a file is run.

Tensors are read one at a time, when they are asked for, so a checkpoint need not fit into memory twice.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import re
import struct
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from deeplimit.common import validation

SAFE, TORCH = (".safetensors",), (".pt", ".pth", ".bin", ".ckpt")
"""Endings of files of safetensors, and of those that torch writes."""
COMPILED = "_orig_mod."
"""What torch.compile puts before the names of a module."""


@final
@dataclass(frozen=True, eq=False)
class Source:
    """The tensors of one network by name.

    Attributes:
        name: how messages call it: a path, or the class of a module.
        shapes: shape of each tensor, in the order of the file or the module.
        read: function that returns the tensor of a name, on the CPU.
        settings: what the module that owns a tensor says of itself, such as its kernel and its dilation;
            empty where there is no module.
    """

    name: str
    shapes: Mapping[str, tuple[int, ...]]
    read: Callable[[str], torch.Tensor]
    settings: Mapping[str, str] = field(default_factory=dict)


def source_of(given: object) -> Source:
    """Return the tensors of one network, whatever holds them.

    Args:
        given: path of a .safetensors file, or of one that torch wrote (.pt, .pth, .bin, .ckpt); a module; a
            state_dict, perhaps inside the dict of a checkpoint; or a mapping from names to tensors or arrays.

    Raises:
        TypeError: for anything else, and for a tensor that is complex, sparse, nested or without data.
        ValueError: for a file that is truncated, lies about its tensors or holds code, and for a checkpoint
            with no state_dict or with several.

    Not checked here: whether numbers are finite; who reads a tensor checks it.

    Examples:
        >>> import torch
        >>> source_of(torch.nn.Sequential(torch.nn.Linear(2, 3))).shapes
        {'0.weight': (3, 2), '0.bias': (3,)}
    """
    if isinstance(given, nn.Module):
        return _of_module(given)
    if isinstance(given, Mapping):
        return _of_mapping(given, "weights")
    if isinstance(given, (str, os.PathLike)):
        return _of_file(Path(given))
    raise TypeError(
        "weights must be a module, a state_dict, a path of a .safetensors or .pt file, or a dict of layers"
        f" such as dict(A=(L, d, d)); got {validation.named(given)}."
    )


def finite_numbers(value: object, name: str) -> torch.Tensor:
    """Return a tensor, an array or a number as a tensor, detached, on its device; all numbers are finite."""
    is_plain = isinstance(value, (np.ndarray, float, int)) and not isinstance(value, bool)
    checked = validation.real_tensor(torch.as_tensor(value) if is_plain else value, name)
    return validation.finite_tensor(checked, name, tuple(checked.shape)).detach()


def _of_module(model: nn.Module) -> Source:
    if isinstance(model, torch.jit.ScriptModule):
        raise TypeError(
            f"weights must be a module in Python, got TorchScript ({type(model).__name__}); pass its"
            " state_dict()."
        )
    name = type(getattr(model, "_orig_mod", model)).__name__
    settings = {
        f"{path}.{key}".removeprefix(".").removeprefix(COMPILED): f"{type(module).__name__} {_said(module)}"
        for path, module in model.named_modules()
        for key in (*module._parameters, *module._buffers)
    }
    found = _of_mapping(model.state_dict(), name)
    return Source(name, found.shapes, found.read, settings)


def _said(module: nn.Module) -> str:
    """Return what a module prints of its settings; whether it has a bias does not tell layers apart."""
    return re.sub(r",? *bias=\w+", "", module.extra_repr())


def _of_mapping(given: Mapping[Any, Any], name: str) -> Source:
    tensors = _state(given, name)
    return Source(
        name,
        {key: tuple(value.shape) for key, value in tensors.items()},
        lambda key: tensors[key].detach().to("cpu"),
    )


def _state(given: Mapping[Any, Any], name: str) -> dict[str, torch.Tensor]:
    """Return the tensors of a mapping, or of the one state_dict inside of a checkpoint."""
    tensors = _tensors(given, name)
    if tensors:
        return tensors
    inner = {key: value for key, value in given.items() if isinstance(value, Mapping)}
    states = {key: found for key, value in inner.items() if (found := _tensors(value, f"{name}[{key!r}]"))}
    if len(states) != 1:
        names = ", ".join(map(repr, states)) or "none"
        raise ValueError(
            f"{name} must hold tensors by name, or one state_dict, got a mapping with the entries"
            f" {', '.join(map(repr, [*given][:8]))}; entries that are a state_dict: {names}. Pass that one."
        )
    return next(iter(states.values()))


def _tensors(given: Mapping[Any, Any], name: str) -> dict[str, torch.Tensor]:
    """Return the tensors with a text as their name; versions and other extra states are passed over."""
    found = {}
    for key, value in given.items():
        if not isinstance(key, str) or not isinstance(value, (torch.Tensor, np.ndarray)):
            continue
        tensor = torch.from_numpy(value) if isinstance(value, np.ndarray) else value
        if tensor.dtype != torch.bool:
            found[key.removeprefix(COMPILED)] = _held(tensor, f"{name}[{key!r}]")
    return found


def _held(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """Return a tensor if its numbers are there: not expanded from fewer, as a file can claim."""
    validation.real_tensor(tensor, name)
    if tensor.layout == torch.strided and 0 in tensor.stride():
        held = tensor.untyped_storage().nbytes() // tensor.element_size()
        if tensor.numel() > held:
            raise ValueError(
                f"{name} must hold its numbers, got shape {tuple(tensor.shape)} with {held} numbers behind"
                " it; clone() an expanded tensor first."
            )
    return tensor


def _of_file(path: Path) -> Source:
    shown, suffix = repr(str(path)), path.suffix.lower()
    if not path.is_file():
        raise ValueError(f"weights must be a file that exists, got {shown}.")
    if suffix in SAFE:
        return _of_safetensors(path, shown)
    if suffix not in TORCH:
        raise ValueError(
            f"weights must be a file of type {', '.join(SAFE + TORCH)}, got {shown}; save a state_dict with"
            " safetensors.torch.save_file."
        )
    try:
        content = torch.load(path, "cpu", weights_only=True, mmap=zipfile.is_zipfile(path) or None)
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"{shown} holds more than tensors, or is damaged, and is not run: {_first_line(error)} Save"
            " model.state_dict(), without the module, and pass that file."
        ) from error
    except (RuntimeError, EOFError, OSError, ValueError, KeyError, struct.error, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{shown} cannot be read, it is truncated or damaged: {_first_line(error)} Copy it again."
        ) from error
    if not isinstance(content, Mapping):
        raise ValueError(
            f"{shown} must hold a state_dict, got {validation.named(content)}; save model.state_dict()."
        )
    return _of_mapping(content, shown)


def _of_safetensors(path: Path, shown: str) -> Source:
    try:
        opened: Any = safe_open(path, framework="pt")
        names = list(opened.keys())
        shapes = {name: tuple(opened.get_slice(name).get_shape()) for name in names}
    except (OSError, SafetensorError) as error:
        blamed = _damaged_tensor(path)
        tensor = f": {blamed}" if blamed else ""
        raise ValueError(
            f"{shown} cannot be read, it is truncated or damaged{tensor} ({_first_line(error)})"
            " Copy it again."
        ) from error

    def read(name: str) -> torch.Tensor:
        try:
            return validation.real_tensor(opened.get_tensor(name), f"{name!r} in {shown}")
        except (OSError, SafetensorError) as error:
            raise ValueError(f"{name!r} in {shown} cannot be read: {_first_line(error)}") from error

    return Source(shown, shapes, read)


def _damaged_tensor(path: Path) -> str:
    """Return which tensor of a safetensors file does not fit its header, in words; "" if unknown."""
    with path.open("rb") as file:
        start = file.read(8)
        length = int.from_bytes(start, "little")
        held = path.stat().st_size - 8 - length
        if len(start) < 8 or held < 0:
            return "not even its header is whole"
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError):
            return "its header is not JSON"
    entries = header.items() if isinstance(header, dict) else ()
    for name, entry in entries:
        match entry:
            case {"shape": list(shape), "data_offsets": [int(begin), int(end)], "dtype": str(kind)}:
                # Types of fewer than 8 bits have other names; those of torch end in their bits.
                bits = "".join(letter for letter in kind.partition("_")[0] if letter.isdigit())
                entries_ = math.prod(size for size in shape if isinstance(size, int))
                if end > held:
                    return f"tensor {name!r} ends at byte {end} of {held}"
                if bits and kind != "BOOL" and entries_ * int(bits) != 8 * (end - begin):
                    return f"tensor {name!r} of shape {tuple(shape)} and type {kind} has {end - begin} bytes"
    return ""


def _first_line(error: Exception) -> str:
    """Return the first sentence of what a reader raised, with a full stop."""
    text = str(error).partition("\n")[0].partition(". ")[0].strip().rstrip(".")
    return f"{text or type(error).__name__}."
