"""Files that appear whole or not at all: versioned JSON for results (never pickle), images for plots."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock
from safetensors import SafetensorError

from deeplimit.common import fields, validation

LEFTOVER = ".deeplimit-"
"""How the names of files begin that are not whole yet."""
SECONDS_LEFT_OVER = 24 * 3600.0
FORMAT = "deeplimit-report"
VERSION, WITHOUT_DIGEST = 2, 1
"""Files of the second version hold a digest of all else in them; the first ones are read as they are."""


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary file's path in the same folder; it becomes `path` only if the block succeeds.

    What a killed process has left in the folder is removed a day later, by the next one that writes there.
    Raises OSError with the path where the disk is full or the folder has gone; what was there is unchanged.
    """
    temporary = None
    try:
        _remove_leftovers(path.parent)
        handle, name = tempfile.mkstemp(prefix=LEFTOVER, suffix=path.suffix, dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        if error.errno is None:  # of no disk: an alarm of the caller's, say
            raise
        raise OSError(
            error.errno,
            f"{error.strerror or error}: nothing was written, what was there is unchanged",
            str(path),
        ) from error
    except SafetensorError as error:  # it writes files itself, and names no path
        raise OSError(
            f"{path!s}: nothing was written, what was there is unchanged ({str(error).rstrip('.')})"
        ) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process of this machine at a time read a file and write it again; others wait.

    The lock is a file of its own beside other temporary ones, so that it is no part of a user's folder.
    """
    name = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:16]
    with FileLock(Path(tempfile.gettempdir()) / f"deeplimit-{name}.lock"):
        yield


def _remove_leftovers(folder: Path) -> None:
    for each in folder.glob(f"{LEFTOVER}*"):
        with contextlib.suppress(OSError):
            if time.time() - each.stat().st_mtime > SECONDS_LEFT_OVER:
                each.unlink()


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def as_text(kind: str, content: dict[str, Any], **beside: object) -> str:
    """Return a report's `to_dict()` as the JSON of a file, and what else is given by name, unless None."""
    document = {"format": FORMAT, "version": VERSION, "kind": kind, "report": fields.plain(content)}
    return sealed(document | {name: value for name, value in beside.items() if value is not None})


def sealed(document: dict[str, Any]) -> str:
    """Return the JSON of a document with a digest of all that it holds."""
    document = document | {"digest": _digest(document)}
    return json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _digest(document: dict[str, Any]) -> str:
    """Return what stands for all that a document holds but this, whatever the layout of its text."""
    content = {name: value for name, value in document.items() if name != "digest"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def load(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any]]:
    """Return the kind and the content of a file that `save` wrote; raise as `deeplimit.load_report` says."""
    document = loaded(path)
    return str(document.get("kind")), document.get("report", {})


def loaded(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return all that a file holds; raise as `deeplimit.load_report` says."""
    source = validation.as_path(path, "path")
    text = validation.text_of(source, "path")
    try:
        document = json.loads(text)
    except ValueError as error:  # no JSON, or a number of more digits than Python reads
        raise ValueError(f"{str(source)!r} is not a deeplimit report: it is not JSON ({error}).") from error
    except RecursionError as error:
        raise ValueError(
            f"{str(source)!r} is not a deeplimit report: its lists are nested too deeply."
        ) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"{str(source)!r} is not a deeplimit report: its 'format' is not {FORMAT!r}.")
    if document.get("version") not in (VERSION, WITHOUT_DIGEST):
        raise ValueError(
            f"{str(source)!r} has version {document.get('version')!r}; this deeplimit reads versions up to"
            f" {VERSION}: upgrade it."
        )
    if document["version"] == VERSION and document.get("digest") != _digest(document):
        raise ValueError(
            f"{str(source)!r} is damaged, or was edited: what it holds is not what was saved. The call is in"
            " its provenance; the same call gives the same numbers."
        )
    return document
