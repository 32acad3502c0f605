"""Files that appear whole or not at all: versioned JSON for results (never pickle), images for plots."""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from deeplimit import validation

FORMAT = "deeplimit-report"
VERSION = 1

_READERS: dict[str, Callable[[dict[str, Any]], Any]] = {}


def register(kind: str, reader: Callable[[dict[str, Any]], Any]) -> None:
    """Name the function that makes a report of `kind` out of its `to_dict()`."""
    _READERS[kind] = reader


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary file's path in the same folder; it takes the name `path` only if the block succeeds."""
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
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
    if isinstance(value, np.integer):
        return int(value)
    return value


def number(value: Any) -> float:
    """Return the float that `plain` may have written as a string."""
    return float(value)


def save(kind: str, content: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a report's `to_dict()` as JSON.

    Raises TypeError or ValueError, before anything is written, where `path` cannot be written to.
    """
    checked = validation.writable_file(path, "path", (".json",))
    document = {"format": FORMAT, "version": VERSION, "kind": kind, "report": plain(content)}
    with whole_file(checked) as temporary:
        temporary.write_text(json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n", encoding="utf-8")


def load_report(path: str | os.PathLike[str]) -> Any:
    """Read a report that `report.save(path)` wrote.

    Raises FileNotFoundError where there is no such file, ValueError where it is not a report or of a later version.

    Example:
        >>> import deeplimit as dl, tempfile, pathlib
        >>> report = dl.compare(dl.res1(width=2, activation="tanh"), depths=[4, 8, 16], paths=64)
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "r.json"
        >>> report.save(file)
        >>> dl.load_report(file).rate == report.rate
        True
    """
    source = Path(path)
    try:
        document = json.loads(source.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{str(source)!r} is not a deeplimit report: it is not JSON ({error}).") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"{str(source)!r} is not a deeplimit report: its 'format' is not {FORMAT!r}.")
    if document.get("version") != VERSION:
        raise ValueError(
            f"{str(source)!r} has version {document.get('version')!r}; this deeplimit reads version {VERSION}: upgrade it."
        )
    kind = document.get("kind")
    if kind not in _READERS:
        raise ValueError(f"{str(source)!r} holds a report of kind {kind!r}; this deeplimit reads {', '.join(_READERS)}.")
    try:
        return _READERS[kind](document["report"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{str(source)!r} is a damaged {kind} report: {error!r}.") from error
