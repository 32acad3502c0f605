"""`validate`: run the scoreboard, row by row, keeping what is done."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from deeplimit.common import fields, files, validation
from deeplimit.common.global_state import by_default
from deeplimit.common.measurement import Progress, Running
from deeplimit.common.store import Store
from deeplimit.common.verdict import LawVerdict, SolverVerdict
from deeplimit.judge.convergence import CompareReport, compare
from deeplimit.judge.in_law import LawReport, compare_laws
from deeplimit.judge.solver import SolverReport, check_solver
from deeplimit.papers.cases import Case, LawCase, validated
from deeplimit.papers.scoreboard.report import (
    AGREES,
    CANNOT_TELL,
    CAUGHT,
    DISAGREES,
    MISSED,
    RowResult,
    Scoreboard,
)
from deeplimit.papers.scoreboard.solver_rows import SolverCase, solver_cases
from deeplimit.version import __version__

Row = Case | LawCase | SolverCase
CONFIDENCE = 0.999
"""Confidence level of each row's interval: with some forty rows, 95 % would give two false alarms per run."""
QUICK_DEPTHS = (16, 32, 64, 128, 256, 512)
FULL_DEPTHS = (16, 32, 64, 128, 256, 512, 1024)
LAW_DEPTHS = (8, 16, 32, 64, 128)
STEPS = (16, 32, 64, 128, 256)
LEVEL = 1e-3
"""Probability of a false alarm in each comparison of laws."""
WRONG_SOLVERS = (SolverVerdict.NOT_THE_LIMIT, SolverVerdict.NOT_THE_DOCUMENTED_ORDER)
FULL_FACTOR = 5
"""A full run takes this many times the paths, and depths twice as large."""


@by_default
def validate(
    *,
    quick: bool = False,
    only: str | Sequence[str] | None = None,
    seed: int = 0,
    device: str | torch.device = "cpu",
    resume: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    store: Store | str | os.PathLike[str] | None = None,
    progress: Progress | bool | None = None,
    on_row: Callable[[RowResult], None] | None = None,
) -> Scoreboard:
    """Check every theorem numerically, together with a deliberately wrong limit that must be rejected.

    The rows cover Propositions 11 and 12 of Marion et al. (2025), Theorems 4.3 and 4.4 of Cohen et al.
    (2021), the Euler schemes of Hu, Liu and Nualart (2016), attention, and limits in law. Activations,
    exponents and covariances vary. A row agrees if the network converges to its limit and the 99.9 % interval
    of the order contains the predicted one. A control is caught if comparing the same network with its wrong
    limit "does not converge". Where a limit is known in law, laws are compared: a row agrees on "same law", a
    control is caught by "another law". Solvers are held to their documented orders on the problems of
    `testing.PROBLEMS`, and a control is a solver with one fault.

    Args:
        quick: Depths up to 512 and up to 2000 paths, instead of 1024 and 10,000.
        only: A text, or several: only rows that have one of them in their name are run, such as "Thm 4.3";
            each must name one.
        seed: Everything random derives from it.
        device: "cpu" or "cuda".
        resume: A .json file that is written after every row. Rows that it holds already, measured by the same
            version in the same way, are not run again. Rows measured in another way stay in it, after those
            of this run.
        workers: Number of threads, by default one per core.
        executor: Any `concurrent.futures.Executor`, or a Dask client, instead. Neither changes a bit of the
            result.
        store: File, or `Store`, that keeps finished blocks: a call made again computes only what is missing.
        progress: Function of the fraction done, between 0 and 1; True shows a bar, False nothing. Left out, a
            call of more than ten seconds says in the log how long it will take.
        on_row: Called with each row when it is done, in order, those from the file included.

    Returns:
        A scoreboard: `print` it, `plot` it, `save` it.

    Raises:
        TypeError: For an argument of the wrong kind.
        ValueError: For a wrong value, or a file to resume from that is not a scoreboard.

    Examples:
        >>> import deeplimit as dl
        >>> board = dl.validate(quick=True, only="α = 1, β = 0")
        >>> board.verdict, len(board.rows)
        ('agrees', 1)
    """
    given = {**locals()}
    validation.flag(quick, "quick")
    checked_seed = validation.seed(seed)
    place = validation.device(device)
    running = Running.checked(workers, executor, store, progress)
    if on_row is not None and not callable(on_row):
        raise TypeError(f"on_row must be a function of a RowResult, got {validation.named(on_row)}.")
    chosen = _chosen(only)
    path = None if resume is None else validation.writable_file(resume, "resume", (".json",))
    earlier = {} if path is None or not path.exists() else _earlier(path)
    sources = tuple(dict.fromkeys(source for case in chosen for source in _cited(case)))
    results: list[RowResult] = []
    with running.shown("validate") as bar:
        for number, case in enumerate(chosen):
            depths, paths = _size(case, quick)
            key = (
                f"{case.name} | {case.wrong[0].wrongly} | depths {depths}, {paths} paths,"
                f" seed {checked_seed}, {place.type}, {__version__}"
            )
            share = (number / len(chosen), (number + 1) / len(chosen))
            part = bar.share(*share, case.name)
            result = (
                earlier[key]
                if key in earlier
                else _measure_row(case, key, depths, paths, checked_seed, place, part)
            )
            results.append(result)
            if callable(bar.progress):
                bar.progress(share[1])
            board = Scoreboard(
                tuple(results), quick, checked_seed, CONFIDENCE, place.type, __version__, sources
            )
            board.called_by("validate", given)
            try:
                if path is not None:
                    _keep(board, path)
            finally:  # also where the disk is full
                if on_row is not None:
                    on_row(result)
    return board


def _keep(board: Scoreboard, path: Path) -> None:
    """Write a scoreboard with the rows that are in the file by now; another process may share it."""
    with files.locked(path):
        others = _earlier(path) if path.exists() else {}
        kept = [row for key, row in others.items() if key not in {done.key for done in board.rows}]
        whole = dataclasses.replace(board, rows=(*board.rows, *kept))
        whole.made_as(fields.plain(board.provenance)).save(path)


def _size(case: Row, quick: bool) -> tuple[tuple[int, ...], int]:
    """Return the depths or steps, and the paths or draws, of a case."""
    if case.of_solver:
        return STEPS, case.paths if quick else FULL_FACTOR * case.paths
    depths = LAW_DEPTHS if case.in_law else QUICK_DEPTHS if quick else FULL_DEPTHS
    return depths, case.paths if quick else FULL_FACTOR * case.paths


def _chosen(only: str | Sequence[str] | None) -> list[Row]:
    texts = [only] if isinstance(only, str) else only
    if texts is not None and not (
        isinstance(texts, (list, tuple)) and all(isinstance(text, str) for text in texts)
    ):
        raise TypeError(f"only must be a text or several, got {validation.named(only)}.")
    every: tuple[Row, ...] = (*validated(), *solver_cases())
    if texts is None:
        return list(every)
    # Every text must name a row: one that is misspelt would leave its rows out in silence.
    lost = [
        text
        for text in texts
        if not text.strip() or not any(text.lower() in case.name.lower() for case in every)
    ]
    if lost or not texts:
        statements = ", ".join(dict.fromkeys(case.statement for case in every))
        raise ValueError(
            f"only={(lost[0] if lost else only)!r} names no row; the statements are {statements}."
        )
    return [case for case in every if any(text.lower() in case.name.lower() for text in texts)]


def _cited(case: Row) -> tuple[str, ...]:
    """Return what the theorem, the limit and the paths of a case rest on."""
    if case.of_solver:
        return (case.problem.citation,)
    network = case.network
    return (*network.regime().citations, *getattr(case.limit, "citations", ()), *network.citations)


def _earlier(path: Path) -> dict[str, RowResult]:
    kind, content = files.load(path)
    if kind != Scoreboard.kind:
        raise ValueError(
            f"{str(path)!r} holds a report of kind {kind!r}, not a scoreboard; give another file."
        )
    try:
        return {row.key: row for row in Scoreboard.from_dict(content).rows}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(
            f"{str(path)!r} is a damaged scoreboard: {str(error).rstrip('.')}; delete it to start again."
        ) from error


def _measure_row(
    case: Row,
    key: str,
    depths: tuple[int, ...],
    paths: int,
    seed: int,
    device: torch.device,
    running: Running,
) -> RowResult:
    if case.of_solver:
        return _measure_solver(case, key, depths, paths, seed)
    measure = _measure_law if case.in_law else _measure
    return measure(case, key, depths, paths, seed, device, running)


def _measure(
    case: Case | LawCase,
    key: str,
    depths: tuple[int, ...],
    paths: int,
    seed: int,
    device: torch.device,
    running: Running,
) -> RowResult:
    started, control = time.perf_counter(), case.wrong[0]

    def run(limit: object, running: Running) -> CompareReport:
        return compare(
            case.network,
            limit,
            case.x,
            depths=depths,
            paths=paths,
            seed=seed,
            confidence=CONFIDENCE,
            quantity=case.quantity,
            device=device,
            **running.arguments(),
        )

    right = run(case.right, running.share(0.0, 0.5, "its limit"))
    wrong = run(control.limit, running.share(0.5, 1.0, "a wrong limit"))
    predicted = right.predicted_rate if right.predicted_rate is not None else np.nan
    low, high = right.rate_interval
    if right.verdict == "converges":
        outcome = AGREES if low <= predicted <= high else DISAGREES
    else:
        outcome = DISAGREES if right.verdict == "does not converge" else CANNOT_TELL
    return _row(
        case,
        key,
        (right, wrong),
        started,
        predicted=float(predicted),
        rate=right.rate,
        interval=right.rate_interval,
        outcome=outcome,
        control=CAUGHT if wrong.verdict == "does not converge" else MISSED,
        errors=right.errors,
        control_errors=wrong.errors,
        worst=right.worst,
    )


def _measure_law(
    case: Case | LawCase,
    key: str,
    depths: tuple[int, ...],
    draws: int,
    seed: int,
    device: torch.device,
    running: Running,
) -> RowResult:
    started, control = time.perf_counter(), case.wrong[0]

    def run(limit: object, running: Running) -> LawReport:
        return compare_laws(
            case.network,
            limit,
            case.x,
            depths=depths,
            draws=draws,
            seed=seed,
            level=LEVEL,
            device=device,
            **running.arguments(),
        )

    right = run(case.right, running.share(0.0, 0.5, "its limit"))
    wrong = run(control.limit, running.share(0.5, 1.0, "a wrong limit"))
    outcomes = {LawVerdict.SAME_LAW: AGREES, LawVerdict.ANOTHER_LAW: DISAGREES}
    return _row(
        case,
        key,
        (right, wrong),
        started,
        predicted=np.nan,
        rate=np.nan,
        interval=(np.nan, np.nan),
        outcome=outcomes.get(right.verdict, CANNOT_TELL),
        control=CAUGHT if wrong.verdict == LawVerdict.ANOTHER_LAW else MISSED,
        errors=np.abs(right.differences).max(axis=0),
        control_errors=np.abs(wrong.differences).max(axis=0),
        worst=right.distances[:-1].max(axis=0),
    )


def _measure_solver(case: SolverCase, key: str, steps: tuple[int, ...], paths: int, seed: int) -> RowResult:
    started, problem = time.perf_counter(), case.problem

    def run(scheme: object, order: float, confidence: float) -> SolverReport:
        return check_solver(
            scheme,
            problem.equation,
            problem.x,
            steps=steps,
            paths="auto" if paths == case.paths else paths,  # a quick run takes more where they cannot tell
            order=order,
            seed=seed,
            confidence=confidence,
            progress=False,
        )

    right = run(case.scheme, case.order, CONFIDENCE)
    # A solver is accused from 99.9 % on whatever the printed interval is.
    wrong = run(case.fault.solver, case.fault.documented, 0.95)
    low, high = right.rate_interval
    outcome = CANNOT_TELL
    if right.verdict in (SolverVerdict.DOCUMENTED_ORDER, SolverVerdict.FASTER):
        outcome = AGREES if low <= case.order <= high else DISAGREES
    elif right.verdict in WRONG_SOLVERS:
        outcome = DISAGREES
    return RowResult(
        key=key,
        statement=case.statement,
        setting=case.setting,
        theorem=problem.citation,
        network=right.scheme,
        limit=right.equation,
        predicted=case.order,
        rate=right.rate,
        interval=right.rate_interval,
        verdict=right.verdict,
        reason=right.reason,
        outcome=outcome,
        wrongly=case.wrong[0].wrongly,
        control_verdict=wrong.verdict,
        control_reason=wrong.reason,
        control=CAUGHT if wrong.verdict in WRONG_SOLVERS else MISSED,
        depths=right.steps,
        errors=right.distances,
        control_errors=wrong.distances,
        worst=np.full(len(right.steps), np.nan),
        seconds=time.perf_counter() - started,
    )


def _row(
    case: Case | LawCase,
    key: str,
    reports: tuple[CompareReport, CompareReport] | tuple[LawReport, LawReport],
    started: float,
    **judged: Any,
) -> RowResult:
    """Return the row of the reports on the right and on the wrong limit, and of what was judged of them."""
    right, wrong = reports
    return RowResult(
        key=key,
        statement=case.statement,
        setting=case.setting,
        theorem=str(right.theorem),
        network=right.network,
        limit=right.limit,
        verdict=right.verdict,
        reason=right.reason,
        wrongly=case.wrong[0].wrongly,
        control_verdict=wrong.verdict,
        control_reason=wrong.reason,
        depths=right.depths,
        seconds=time.perf_counter() - started,
        **judged,
    )
