"""Replications in parallel processes, each kept as one line of a file, so that a stopped run goes on."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import json
import multiprocessing
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import cache
from pathlib import Path
from typing import Any

import deeplimit
from calibration.cell import Cell, Outcome
from calibration.cells import by_key

BATCH = 5
"""Replications per job: few enough to stop soon, enough to keep processes busy."""

Kept = Mapping[str, Mapping[int, Outcome]]


@cache
def code(rooms: tuple[str, ...] = ("",)) -> str:
    """Return a digest of these rooms' sources: replications of other sources are not mixed with these.

    Comments and docstrings decide nothing, and do not count.
    """
    digest = hashlib.sha256()
    root = Path(deeplimit.__file__).parent
    for path in sorted({path for room in rooms for path in (root / room).rglob("*.py")}):
        digest.update(path.relative_to(root).as_posix().encode() + _statements(path).encode())
    return digest.hexdigest()[:12]


def _statements(path: Path) -> str:
    """Return a file's statements without its comments and docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                setattr(node, field, [each for each in block if not _is_text(each)])
    return ast.dump(tree)


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def read(path: Path) -> dict[str, dict[int, Outcome]]:
    """Return the finished replications of the library's present sources, by cell and seed."""
    kept: dict[str, dict[int, Outcome]] = defaultdict(dict)
    for record in _records(path):
        cell = by_key().get(record["cell"])
        if cell is not None and record["code"] == code(cell.rooms):
            outcome = record["outcome"]
            words = {name: tuple(outcome[name]) for name in ("right", "tolerated")}
            kept[record["cell"]][record["seed"]] = Outcome(**{**outcome, **words})
    return kept


def _records(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:  # the line at which a run was killed
            continue


def measure(
    cells: Sequence[Cell],
    path: Path,
    *,
    calls: int | None,
    workers: int,
    seconds: float,
    progress: bool = True,
) -> None:
    """Append replications to the file until every cell has its number or the time is over.

    The cell that has had the least time comes next, so that a short run is shared out fairly.

    Args:
        cells: what to measure.
        path: file of replications.
        calls: number per cell; None for the cell's own.
        workers: processes, each with one thread.
        seconds: time after which no job is started.
        progress: whether to print a line per minute.
    """
    kept = read(path)
    missing = {
        cell.key: [
            seed
            for seed in range(cell.calls if calls is None else calls)
            if seed not in kept.get(cell.key, ())
        ]
        for cell in cells
    }
    spent = {cell.key: sum(outcome.seconds for outcome in kept.get(cell.key, {}).values()) for cell in cells}
    expected = {key: 0.0 for key in missing}  # what jobs under way will cost, as far as is known
    path.parent.mkdir(parents=True, exist_ok=True)
    stop, told = time.monotonic() + seconds, time.monotonic()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool, path.open("a", encoding="utf-8") as file:
        running: dict[Future[list[tuple[int, Outcome]]], str] = {}
        while True:
            while len(running) < 2 * workers and time.monotonic() < stop and any(missing.values()):
                key = min(
                    (key for key in missing if missing[key]), key=lambda key: spent[key] + expected[key]
                )
                seeds, missing[key] = missing[key][:BATCH], missing[key][BATCH:]
                expected[key] += 1e-3 + spent[key] / max(len(kept.get(key, ())), 1) * len(seeds)
                running[pool.submit(run, key, seeds)] = key
            if not running:
                break
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                key = running.pop(future)
                expected[key] = 0.0
                for seed, outcome in future.result():
                    kept.setdefault(key, {})[seed] = outcome
                    spent[key] += outcome.seconds
                    record = {
                        "cell": key,
                        "seed": seed,
                        "code": code(by_key()[key].rooms),
                        "outcome": dataclasses.asdict(outcome),
                    }
                    file.write(json.dumps(record, ensure_ascii=False) + "\n")
                file.flush()
            if progress and time.monotonic() - told > 60:
                told = time.monotonic()
                print(f"{sum(map(len, missing.values()))} replications left", flush=True)


def run(key: str, seeds: Sequence[int]) -> list[tuple[int, Outcome]]:
    """Return what these replications of a cell find; called in a process of its own."""
    import torch

    torch.set_num_threads(1)
    cell = by_key()[key]
    return [(seed, cell.run(seed)) for seed in seeds]
