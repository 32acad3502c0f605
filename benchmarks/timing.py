"""How things are timed, and what a timing is."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One way to do a workload: who, how many seconds for all of it, and a note."""

    who: str
    seconds: float
    note: str = ""
    errors: list[float] | None = None


@dataclass(frozen=True)
class Workload:
    """A workload's name, its setting in words, and the rows, deeplimit's own first."""

    name: str
    setting: str
    rows: tuple[Row, ...]


def timed(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Return the median time of `repeats` runs, and the last result."""
    times, result = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - start)
    return statistics.median(times), result
