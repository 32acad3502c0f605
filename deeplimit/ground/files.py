"""Files that appear whole or not at all: versioned JSON for results (never pickle), images for plots."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from deeplimit.ground import validation

FORMAT = "deeplimit-report"
VERSION = 1


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary file's path in the same folder; it takes the name `path` only if the block
    succeeds.
    """
    handle, name = tempfile.mkstemp(prefix=".deeplimit-", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def plain(value: Any) -> Any:
    """Return `value` as JSON can hold it: arrays as lists, NaN and infinities as strings."""
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


def fields_of(kind: type, content: Any, what: str) -> dict[str, Any]:
    """Return `content` if it has the fields of a dataclass, each of its type; arrays and other containers
    are left to the caller.

    Raises TypeError or ValueError that name the field and `what` it is in.
    """
    if not isinstance(content, dict):
        raise TypeError(f"{what} must have named fields, got {validation.named(content)}")
    types = {field.name: field.type for field in dataclasses.fields(kind)}
    for problem, names in (
        ("lacks", types.keys() - content.keys()),
        ("has unknown fields:", content.keys() - types.keys()),
    ):
        if names:
            raise ValueError(f"{what} {problem} {', '.join(sorted(map(str, names)))}")
    values = dict(content)
    for name, wanted in types.items():
        value = values[name]
        if wanted == "float" or (wanted == "float | None" and value is not None):
            values[name] = number(value, f"{name} of {what}")
        elif wanted in ("str", "bool", "int") and type(value).__name__ != wanted:
            raise TypeError(f"{name} of {what} must be of type {wanted}, got {validation.named(value)}")
        elif wanted == "bool | None" and value is not None and not isinstance(value, bool):
            raise TypeError(f"{name} of {what} must be true, false or null, got {validation.named(value)}")
        elif wanted == "tuple[str, ...]":
            values[name] = tuple(texts(value, f"{name} of {what}"))
    return values


def number(value: Any, name: str) -> float:
    """Return a number as `plain` wrote it: NaN and infinities are texts."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be a number, got {validation.named(value)}") from error


def texts(value: Any, name: str) -> list[str]:
    """Return a list of texts."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TypeError(f"{name} must be a list of texts, got {validation.named(value)}")
    return value


def array(value: Any, name: str, shape: tuple[int, ...], *, whole: bool = False) -> np.ndarray:
    """Return numbers as `plain` wrote them, as an array of this shape; of integers if `whole`."""
    try:
        result = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must hold numbers in the shape {shape}, got {validation.named(value)}"
        ) from error
    if result.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {result.shape}")
    if not whole:
        return result
    if not bool((np.isfinite(result) & (result == np.round(result))).all()):
        raise ValueError(f"{name} must hold integers")
    return result.astype(np.int64)


def save(kind: str, content: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a report's `to_dict()` as JSON.

    Raises TypeError or ValueError, before anything is written, where `path` cannot be written to.
    """
    checked = validation.writable_file(path, "path", (".json",))
    document = {"format": FORMAT, "version": VERSION, "kind": kind, "report": plain(content)}
    with whole_file(checked) as temporary:
        temporary.write_text(
            json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n", encoding="utf-8"
        )


def load(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any]]:
    """Return the kind and the content of a file that `save` wrote; raise as `deeplimit.load_report` says."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path must be a path, got {path!r} of type {type(path).__name__}.")
    source = Path(path)
    try:
        document = json.loads(source.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{str(source)!r} is not a deeplimit report: it is not JSON ({error}).") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"{str(source)!r} is not a deeplimit report: its 'format' is not {FORMAT!r}.")
    if document.get("version") != VERSION:
        raise ValueError(
            f"{str(source)!r} has version {document.get('version')!r}; this deeplimit reads version"
            f" {VERSION}: upgrade it."
        )
    return str(document.get("kind")), document.get("report", {})
