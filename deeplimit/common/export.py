"""What a store holds, for people and other programs: one measurement in words, its blocks as JSON or CSV.

A store keeps the results of blocks and a description, by which measurements are told apart. The description
makes no measurement again, so blocks are exported as they are, not merged.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from deeplimit.common import fields, files, validation
from deeplimit.common.report import as_csv
from deeplimit.common.store import Store, StoredRun

MOST_SHOWN: Final = 5
LONGEST: Final = 60
SUFFIXES: Final = (".json", ".csv")


def told(store: Store, key: str) -> Iterator[str]:
    """Yield one measurement of a store as lines: what it is, how much is done, what decides its numbers."""
    run = store.run(key)
    missing = [label for label, arrays in store.blocks(run.key) if arrays is None]
    facts = {
        "key": run.key,
        "what": run.what,
        "names": ", ".join(run.names),
        "begun": f"{run.date[:16]} (UTC)",
        "versions": ", ".join(f"{name} {version}" for name, version in run.environment.items()),
        "done": f"{run.done} of {run.total} blocks",
        "missing": _few(missing),
    }
    yield from (f"{name:<9}  {text}" for name, text in facts.items() if text)
    yield ""
    yield "Specification:"
    yield from (f"  {line}" for line in _lines(run.specification))
    yield ""
    does = "computes nothing" if not missing else "computes only what is missing"
    yield f"The call that began it, made again with this store, {does} and returns its result."


def export(store: Store, key: str | None, path: str | Path) -> None:
    """Write one measurement with its blocks, or the list of all where `key` is None, as .json or .csv.

    Raises TypeError or ValueError, before anything is read, where `path` cannot be written to.
    """
    checked = validation.writable_file(path, "--export", SUFFIXES)
    if checked.suffix == ".json":
        content = [_summary(run) for run in store.runs()] if key is None else _whole(store, key)
        text = json.dumps(fields.plain(content), ensure_ascii=False, allow_nan=False, indent=1) + "\n"
    else:
        text = as_csv(_listed(store) if key is None else _cells(store, key))
    with files.whole_file(checked) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _summary(run: StoredRun) -> dict[str, Any]:
    return {field.name: getattr(run, field.name) for field in dataclasses.fields(run)}


def _whole(store: Store, key: str) -> dict[str, Any]:
    run = store.run(key)
    blocks = dict(store.blocks(run.key))
    done = {
        label: {name: {"dtype": str(each.dtype), "values": each.tolist()} for name, each in arrays.items()}
        for label, arrays in blocks.items()
        if arrays is not None
    }
    return {**_summary(run), "missing": [label for label in blocks if label not in done], "blocks": done}


def _listed(store: Store) -> Iterator[Sequence[Any]]:
    yield "key", "what", "names", "done", "total", "version", "date"
    for run in store.runs():
        yield run.key, run.what, ", ".join(run.names), run.done, run.total, run.version, run.date


def _cells(store: Store, key: str) -> Iterator[Sequence[Any]]:
    """Yield every number of every finished block, with where it stands."""
    yield "block", "array", "index", "value"
    for label, arrays in store.blocks(key):
        for name, array in (arrays or {}).items():
            for place, value in enumerate(array.reshape(-1).tolist()):
                yield label, name, place, value


def _few(labels: Sequence[str]) -> str:
    more = f"; and {len(labels) - MOST_SHOWN} more" if len(labels) > MOST_SHOWN else ""
    return "; ".join(labels[:MOST_SHOWN]) + more


def _lines(value: dict[str, Any]) -> Iterator[str]:
    """Yield a specification as an indented list: a record by its class, then its fields."""
    for name, item in value.items():
        if name == "is":
            continue
        items = item if isinstance(item, list) and any(isinstance(each, dict) for each in item) else [item]
        for place, each in enumerate(items):
            called = f"{name}[{place}]" if items is item else name
            inner = list(_lines(each)) if isinstance(each, dict) else []
            yield f"{called}: {_word(each)}".rstrip()
            yield from (f"  {line}" for line in inner)


def _word(value: Any) -> str:
    """Return a value in a line; of a record, its class."""
    if isinstance(value, dict):
        kind = value.get("is", "")
        return str(kind.get("is", "") if isinstance(kind, dict) else kind).rpartition(".")[2]
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
