"""Files that appear whole or not at all: versioned JSON for results (never pickle), images for plots."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deeplimit.ground import fields, validation

FORMAT = "deeplimit-report"
VERSION = 1


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary file's path in the same folder; it becomes `path` only if the block succeeds."""
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


def save(
    kind: str, content: dict[str, Any], path: str | os.PathLike[str], measurement: object = None
) -> None:
    """Write a report's `to_dict()` as JSON, and beside it what makes its measurement again, if anything does.

    Raises TypeError or ValueError, before anything is written, where `path` cannot be written to.
    """
    checked = validation.writable_file(path, "path", (".json",))
    document = {"format": FORMAT, "version": VERSION, "kind": kind, "report": fields.plain(content)}
    if measurement is not None:
        document["measurement"] = measurement
    with whole_file(checked) as temporary:
        temporary.write_text(
            json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n", encoding="utf-8"
        )


def load(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any]]:
    """Return the kind and the content of a file that `save` wrote; raise as `deeplimit.load_report` says."""
    document = loaded(path)
    return str(document.get("kind")), document.get("report", {})


def loaded(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return all that a file holds; raise as `deeplimit.load_report` says."""
    source = validation.as_path(path, "path")
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
    return document
