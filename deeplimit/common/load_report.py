"""Reading any report back from its file, whatever made it."""

from __future__ import annotations

import importlib
import os
from typing import Any

from deeplimit.common import files
from deeplimit.common.global_state import by_default
from deeplimit.common.report import KINDS

HOMES = {
    "work-precision": "judge.solver.work_report",
    "compare": "judge.convergence.report",
    "recommendation": "modules.recommendation.report",
    "block-limit": "judge.block_limit.report",
    "order": "judge.solver.order_report",
    "solver": "judge.solver.solver_report",
    "laws": "judge.in_law.report",
    "stability": "signal.report",
    "phase-diagram": "signal.phase_report",
    "depth": "modules.depth_check.report",
    "depth-diagnosis": "trained.diagnosis.sweep_report",
    "network-diagnosis": "trained.diagnosis.network_report",
    "study": "trained.diagnosis.study_report",
    "depth-controls": "trained.diagnosis.depth_controls_report",
    "training": "trained.training.report",
    "training-check": "modules.training_check.report",
    "validate": "papers.scoreboard.report",
    "reproduction": "papers.figures.reproduction",
    "initialisation": "networks.initialise.result",
    "residual-initialisation": "networks.initialise.result",
}
"""Where the library's own kinds of reports live: only the one that is asked for is imported."""


@by_default
def load_report(path: str | os.PathLike[str]) -> Any:
    """Read a report that `report.save(path)` wrote, of whatever class; your own class must be imported first.

    Raises:
        TypeError: if `path` is not a path.
        FileNotFoundError: if there is no such file.
        ValueError: if it is not a report, is damaged, or was written by a later version.

    Examples:
        >>> import deeplimit as dl, tempfile, pathlib
        >>> report = dl.compare(dl.res1(width=2, activation="tanh"), depths=[4, 8, 16], paths=64)
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "r.json"
        >>> report.save(file)
        >>> dl.load_report(file).rate == report.rate
        True
    """
    document = files.loaded(path)
    kind, content = str(document.get("kind")), document.get("report", {})
    if kind not in KINDS and kind in HOMES:
        importlib.import_module(f"deeplimit.{HOMES[kind]}")
    if kind not in KINDS:
        known = ", ".join(dict.fromkeys([*HOMES, *KINDS]))
        raise ValueError(
            f"{str(path)!r} holds a report of kind {kind if kind[:1] == '[' else repr(kind)};"
            f" this deeplimit reads {known}. Import the module of your own reports first."
        )
    try:
        report = KINDS[kind].from_dict(content).made_as(document.get("provenance"))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{str(path)!r} is a damaged {kind} report: {str(error).rstrip('.')}.") from error
    return report.measured_as(document.get("measurement"))
