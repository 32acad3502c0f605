"""What a run prints and keeps: the table, the targets, and how it stands against the recorded run."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import platform
import time
from pathlib import Path
from typing import Any

import torch

import deeplimit
from benchmarks.timing import ALTERNATIVE, FLOOR, OURS, Row, Target, Workload

RECORDED = Path(__file__).parent / "results"
LATEST = RECORDED / "latest"
TOLERATED = 1.2
"""A recorded ratio alternative : deeplimit may shrink by this factor before the row counts as regressed.
"""


def machine() -> dict[str, object]:
    """Return what a reader needs to place the numbers."""
    return {
        **_cores(),
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "deeplimit": deeplimit.__version__,
        "date": time.strftime("%Y-%m-%d"),
    }


def busy() -> str | None:
    """Return a warning where other programs already use the cores; torch's threads then wait for each
    other.
    """
    try:
        load = os.getloadavg()[0]
    except (AttributeError, OSError):  # not every system knows
        return None
    cores = os.cpu_count() or 1
    return (
        f"the machine is busy (load {load:.1f} on {cores} cores): these times mean little"
        if load > 0.5 * cores
        else None
    )


def table(workload: Workload) -> str:
    """Return a workload as text: a row for each way to do it, what was left out, the targets, the floors."""
    lines = [f"{workload.name.upper()}: {workload.setting}"]
    if workload.rows:
        lines.append(f"{'who':<72} {'seconds':>9} {'× deeplimit':>12}")
    alone = all(row.role == OURS for row in workload.rows)  # different work, not different ways to do it
    for row in workload.rows:
        ratio = "" if alone else f"{workload.ratio(row):.3g}"
        lines.append(f"{row.who:<72} {row.seconds:>9.3g} {ratio:>12}  {row.note}".rstrip())
    lines += workload.skipped
    lines += [_target(target) for target in workload.targets]
    lines += [
        f"floor: {workload.rows[0].who} takes {1 / workload.ratio(row):.3g} times as long as"
        f" {row.who.removeprefix('floor: ')}"
        for row in workload.rows
        if row.role == FLOOR and not row.beside
    ]
    return "\n".join(lines)


def _target(target: Target) -> str:
    bounds = [f"at least {target.at_least:g}"] if target.at_least is not None else []
    bounds += [f"at most {target.at_most:g}"] if target.at_most is not None else []
    return (
        f"target: {target.words}: {target.value:.3g}, {' and '.join(bounds)}:"
        f" {'met' if target.met else 'NOT met'}"
    )


def save(workload: Workload, path: Path) -> None:
    """Write a workload with its ratios, its settings and the machine as JSON."""
    document = {"machine": machine(), **dataclasses.asdict(workload)}
    for row, kept in zip(workload.rows, document["rows"], strict=True):
        kept["ratio"] = workload.ratio(row)
    for target, kept in zip(workload.targets, document["targets"], strict=True):
        kept["met"] = target.met
    document["settings"] = comparable(workload)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Whole or not at all: a run that is stopped must not leave half a record.
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    unfinished.replace(path)


def load(path: Path) -> tuple[Workload, dict[str, Any]]:
    """Return a workload that `save` wrote, and the machine it ran on; raise ValueError for a file of
    another form.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        rows = tuple(
            Row(**{f.name: row[f.name] for f in dataclasses.fields(Row)}) for row in document["rows"]
        )
        targets = tuple(
            Target(**{f.name: kept[f.name] for f in dataclasses.fields(Target)})
            for kept in document["targets"]
        )
        workload = Workload(
            document["name"],
            document["setting"],
            rows,
            document["settings"],
            targets,
            tuple(document["skipped"]),
        )
        return workload, document["machine"]
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(
            f"{path} is no record of a benchmark in this form ({type(error).__name__}: {error})"
        ) from error


def _cores() -> dict[str, object]:
    """Return what the alternatives' times hang on beside sizes: cores, and how many torch uses of them."""
    return {"cores": os.cpu_count(), "torch threads": torch.get_num_threads()}


def comparable(workload: Workload) -> dict[str, Any]:
    """Return everything that must be equal before two runs' ratios may be compared, as JSON gives it back."""
    settings: dict[str, Any] = json.loads(json.dumps({**_cores(), **workload.settings}))
    return settings


def against_record(workload: Workload, path: Path) -> list[str]:
    """Return a line for each alternative or floor that deeplimit does worse against than in the recorded
    run.

    Only ratios count, since seconds drift from machine to machine, and only between equal settings.
    """
    if not workload.rows:
        return []
    if not path.exists():
        return [f"no recorded run ({path.name}): nothing to compare with; --record keeps this one"]
    try:
        recorded, then = load(path)
    except ValueError as error:
        return [f"not compared with the recorded run: {error}"]
    now = comparable(workload)
    different = [
        key for key in sorted({*now, *recorded.settings}) if now.get(key) != recorded.settings.get(key)
    ]
    if different:
        pairs = ", ".join(
            f"{key} {now.get(key)} here, {recorded.settings.get(key)} there" for key in different
        )
        return [f"not compared with the recorded run, whose settings differ: {pairs}"]
    before = {row.who: recorded.ratio(row) for row in recorded.rows if row.role != OURS}
    lines = []
    for row in workload.rows:
        if row.role == OURS:
            continue
        if row.who not in before:
            lines.append(f"not in the recorded run: {row.who}")
            continue
        ratio, old = workload.ratio(row), before[row.who]
        if not math.isfinite(ratio) or old > TOLERATED * ratio:
            what = "faster than" if row.role == ALTERNATIVE else "against"
            lines.append(
                f"REGRESSED: deeplimit {what} '{row.who}': the ratio fell from {old:.3g} ({then.get('date')})"
                f" to {ratio:.3g}, by {100 * (1 - ratio / old):.0f} %; more --repeats tell a regression from"
                " a busy machine"
            )
    gone = [who for who in before if who not in {row.who for row in workload.rows}]
    return lines + [f"in the recorded run, but not in this one: {who}" for who in gone]
