"""A figure per group: how many intervals of each cell cover, over their length."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from calibration.cell import Cell
from calibration.summary import LEAST_COVERED, MOST_COVERED, Summary

SHORTEST, LONGEST = 3.92, 5.5
"""Lengths, in standard deviations, of a normal law's 95 % interval, and of one that is still short."""
LEAST_SHOWN = 0.8
"""Shares below this stand at the lower edge."""


def picture(group: str) -> str:
    """Return the name of a group's file."""
    return (
        "calibration-" + "-".join("".join(c if c.isalnum() else " " for c in group.lower()).split()) + ".png"
    )


def drawn(cells: Sequence[Cell], results: Mapping[str, Summary]) -> list[Summary]:
    """Return the records of a group that have a place in its figure."""
    records = [results[cell.key] for cell in cells if cell.key in results]
    return [record for record in records if record.given and math.isfinite(record.length)]


def draw(cells: Sequence[Cell], results: Mapping[str, Summary], folder: Path) -> None:
    """Write the figure of every group that has one."""
    from matplotlib.figure import Figure

    for group, members in groupby(cells, key=lambda cell: cell.group):
        records = drawn(list(members), results)
        if not records:
            continue
        figure = Figure(figsize=(6.4, 2.8), layout="constrained")
        axes = figure.subplots()
        axes.axhspan(LEAST_COVERED, MOST_COVERED, color="#2a9d8f", alpha=0.12, lw=0)
        axes.axvspan(SHORTEST, LONGEST, color="#2a9d8f", alpha=0.12, lw=0)
        axes.axhline(0.95, color="#2a9d8f", lw=0.8)
        for record in records:
            covered, low, high = (max(LEAST_SHOWN, each) for each in record.covers)
            axes.plot([record.length] * 2, [low, high], color="#264653", lw=0.8, alpha=0.5)
            axes.plot(record.length, covered, "o", color="#264653", ms=3.5)
        lengths = [record.length for record in records]
        axes.set_xscale("log")
        axes.set_xlim(min(3.0, min(lengths) / 1.1), max(12.0, max(lengths) * 1.1))
        axes.set_ylim(LEAST_SHOWN, 1.005)
        ticks = [each for each in (1, 2, 4, 6, 10, 20, 40, 100) if each <= axes.get_xlim()[1]]
        axes.set_xticks(ticks, [f"{each}" for each in ticks], minor=False)
        axes.set_xticks([], minor=True)
        axes.set_yticks([0.8, 0.85, 0.9, 0.95, 1.0], ["80 %", "85 %", "90 %", "95 %", "100 %"])
        axes.set_xlabel("length of the intervals, in standard deviations of the estimate")
        axes.set_ylabel("covered")
        figure.savefig(folder / picture(group), dpi=110, metadata={"Software": None})
