"""Reading any report back from its file, whatever made it."""

from __future__ import annotations

import os

from deeplimit import store
from deeplimit.convergence.report import KIND, CompareReport

_READERS = {KIND: CompareReport.from_dict}


def load_report(path: str | os.PathLike[str]) -> CompareReport:
    """Read a report that `report.save(path)` wrote.

    Raises TypeError for what is no path, FileNotFoundError where there is no such file, ValueError where it is not a report,
    is damaged, or was written by a later version.

    Example:
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
        raise ValueError(f"{str(path)!r} is a damaged {kind} report: {error}.") from error
