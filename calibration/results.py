"""The table of results: one line per cell, committed, from which the page is written."""

from __future__ import annotations

import csv
import dataclasses
import io
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from calibration import runs
from calibration.cell import Cell
from calibration.summary import Summary, summarise

RESULTS = Path(__file__).parent / "results.csv"
NUMBERS = ("width", "deviation", "bias", "level")


def _counts(text: str) -> dict[str, int]:
    pairs = (entry.rpartition(" ") for entry in text.split("; ") if entry)
    return {word: int(count) for word, _, count in pairs}


READ: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("replications", "right", "false", "known", "covered", "missed"), int),
    **dict.fromkeys(("verdicts", "not_given"), _counts),
    **dict.fromkeys(NUMBERS, lambda text: float(text) if text else None),
    "seconds": float,
    **dict.fromkeys(("errors", "code"), lambda text: tuple(text.split(" | ")) if text else ()),
    "measured": str,
}
"""How every column is read; it is written by `_written`."""


def _written(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{word} {count}" for word, count in value.items())
    if isinstance(value, tuple):
        return " | ".join(value)
    return "" if value is None else str(value)


def load(path: Path = RESULTS) -> dict[str, Summary]:
    """Return the record of every cell that was measured."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {
            row["cell"]: Summary(**{name: read(row[name]) for name, read in READ.items()})
            for row in csv.DictReader(file)
        }


def update(cells: Sequence[Cell], replications: Path, path: Path = RESULTS) -> None:
    """Put the replications of the present sources into the table.

    A cell that has none keeps its record; one that is no longer a cell loses it.
    """
    kept, before = runs.read(replications), load(path)
    today = time.strftime("%Y-%m-%d")
    records = {
        cell.key: summarise(kept[cell.key].values(), [runs.code(cell.rooms)], today)
        if cell.key in kept
        else before[cell.key]
        for cell in cells
        if cell.key in kept or cell.key in before
    }
    write(records, path)


def write(records: Mapping[str, Summary], path: Path = RESULTS) -> None:
    """Write the table, whole or not at all."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["cell", *READ])
    for key, record in records.items():
        values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
        table.writerow([key, *(_written(values[name]) for name in READ)])
    unfinished = path.with_suffix(".part")
    unfinished.write_text(text.getvalue(), encoding="utf-8")
    unfinished.replace(path)
