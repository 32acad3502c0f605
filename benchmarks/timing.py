"""How things are timed, and what a timing is."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

SLOW = 10.0
"""Seconds after which nothing is run again."""
OURS, ALTERNATIVE, FLOOR = "deeplimit", "alternative", "floor"


@dataclass(frozen=True)
class Row:
    """One way to do a workload: who, how many seconds for all of it, and a note.

    Its ratio is taken to the seconds of the row named `beside`, the workload's first one if left out. Only
    alternatives and floors are held against the recorded run: between two rows of deeplimit itself nothing
    can regress that users would miss.
    """

    who: str
    seconds: float
    note: str = ""
    errors: list[float] | None = None
    role: str = ALTERNATIVE
    beside: str = ""


@dataclass(frozen=True)
class Target:
    """What a workload is to reach: a value measured in this run, and its bound from below or from above."""

    words: str
    value: float
    at_least: float | None = None
    at_most: float | None = None

    @property
    def met(self) -> bool:
        """Whether the value lies within its bounds; a value that is no number does not."""
        above = self.at_least is None or self.value >= self.at_least
        return above and (self.at_most is None or self.value <= self.at_most)


@dataclass(frozen=True)
class Workload:
    """A workload's name, its setting in words, the rows, deeplimit's own first, and what was left out and
    why.

    `settings` says what makes two runs comparable: their sizes. The number of cores is added where results
    are kept.
    """

    name: str
    setting: str
    rows: tuple[Row, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    targets: tuple[Target, ...] = ()
    skipped: tuple[str, ...] = ()

    def ratio(self, row: Row) -> float:
        """Return how many times as long as deeplimit a row takes."""
        base = next((own for own in self.rows if own.who == row.beside), self.rows[0])
        return row.seconds / base.seconds


def timed(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Return the median time of `repeats` runs, and the last result."""
    ((seconds, result),) = timed_in_turn([work], repeats)
    return seconds, result


def timed_in_turn(
    works: Sequence[Callable[[], Any]], repeats: int, pick: Callable[[list[float]], float] = statistics.median
) -> list[tuple[float, Any]]:
    """Return the median time and the last result of each, run in turn: what slows the machine for a while
    slows all of them.
    """
    times: list[list[float]] = [[] for _ in works]
    results: list[Any] = [None] * len(works)
    for _ in range(max(1, repeats)):
        for index, work in enumerate(works):
            start = time.perf_counter()
            results[index] = work()
            times[index].append(time.perf_counter() - start)
    return [(pick(own), result) for own, result in zip(times, results, strict=True)]


def processor_seconds(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Return the least processor time of up to `repeats` runs on one thread, and the last result."""
    threads, found = torch.get_num_threads(), []
    torch.set_num_threads(1)
    try:
        while len(found) < repeats and sum(found) < SLOW:
            begun = time.process_time()
            result = work()
            found.append(time.process_time() - begun)
    finally:
        torch.set_num_threads(threads)
    return min(found), result
