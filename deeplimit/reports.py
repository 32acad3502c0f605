"""Reading any report back from its file, whatever made it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from deeplimit.convergence import CompareReport
from deeplimit.convergence.report import KIND as COMPARE
from deeplimit.depth_check import DepthReport
from deeplimit.depth_check.report import KIND as DEPTH
from deeplimit.figures.reproduction import KIND as REPRODUCTION, Reproduction
from deeplimit.ground import files as store
from deeplimit.in_law import LawReport
from deeplimit.in_law.report import KIND as LAWS
from deeplimit.scoreboard import Scoreboard
from deeplimit.scoreboard.report import KIND as VALIDATE
from deeplimit.signal.phase_report import KIND as PHASE, PhaseDiagram
from deeplimit.signal.report import KIND as STABILITY, StabilityReport

_READERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    COMPARE: CompareReport.from_dict,
    VALIDATE: Scoreboard.from_dict,
    STABILITY: StabilityReport.from_dict,
    PHASE: PhaseDiagram.from_dict,
    REPRODUCTION: Reproduction.from_dict,
    LAWS: LawReport.from_dict,
    DEPTH: DepthReport.from_dict,
}


def load_report(path: str | os.PathLike[str]) -> Any:
    """Read a report that `report.save(path)` wrote: a `CompareReport`, `LawReport`, `Scoreboard`,
    `StabilityReport`, `PhaseDiagram`, `DepthReport` or `Reproduction`, whatever it was.

    Raises TypeError for what is no path, FileNotFoundError where there is no such file, ValueError where it
    is not a report, is damaged, or was written by a later version.

    Examples:
        >>> import deeplimit as dl, tempfile, pathlib
        >>> report = dl.compare(dl.res1(width=2, activation="tanh"), depths=[4, 8, 16], paths=64)
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "r.json"
        >>> report.save(file)
        >>> dl.load_report(file).rate == report.rate
        True
    """
    kind, content = store.load(path)
    if kind not in _READERS:
        raise ValueError(
            f"{str(path)!r} holds a report of kind {kind if kind[:1] == '[' else repr(kind)}; "
            f"this deeplimit reads {', '.join(_READERS)}."
        )
    try:
        return _READERS[kind](content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{str(path)!r} is a damaged {kind} report: {str(error).rstrip('.')}.") from error
