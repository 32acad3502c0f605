"""The file of results: one record per cell, committed, from which the page is written."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Sequence
from pathlib import Path

from calibration import runs
from calibration.cell import Cell
from calibration.summary import Summary, summarise

RESULTS = Path(__file__).parent / "results.json"


def load(path: Path = RESULTS) -> dict[str, Summary]:
    """Return the record of every cell that was measured."""
    if not path.exists():
        return {}
    document = json.loads(path.read_text(encoding="utf-8"))
    return {
        key: Summary(**{**record, "errors": tuple(record["errors"]), "code": tuple(record["code"])})
        for key, record in document["cells"].items()
    }


def dates(path: Path = RESULTS) -> tuple[str, str]:
    """Return the first and the last day of measurement; empty where nothing was measured."""
    if not path.exists():
        return "", ""
    first, last = json.loads(path.read_text(encoding="utf-8"))["measured"]
    return first, last


def update(cells: Sequence[Cell], replications: Path, path: Path = RESULTS) -> None:
    """Put the replications of the present sources into the file of results.

    A cell that has none keeps its record; one that is no longer a cell loses it.
    """
    kept, before = runs.read(replications), load(path)
    records = {
        cell.key: summarise(kept[cell.key].values(), [runs.code()]) if cell.key in kept else before[cell.key]
        for cell in cells
        if cell.key in kept or cell.key in before
    }
    today = time.strftime("%Y-%m-%d")
    untouched = any(cell.key in before and cell.key not in kept for cell in cells)
    first = (dates(path)[0] or today) if untouched else today
    document = {
        "measured": [first, today],
        "cells": {key: dataclasses.asdict(record) for key, record in records.items()},
    }
    unfinished = path.with_suffix(".part")  # whole or not at all
    unfinished.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    unfinished.replace(path)
