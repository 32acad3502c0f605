"""Warnings that point at the user's line, not into this package or a thread of it."""

from __future__ import annotations

import inspect
import sys
import threading
import warnings
from types import FrameType


def warn_at_users_line(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line that called this package; from a thread, at the line where the main thread did."""
    main = sys._current_frames().get(threading.main_thread().ident or 0)
    frame = _caller(inspect.currentframe()) if threading.current_thread() is threading.main_thread() else None
    frame = frame or _caller(main)
    if frame is None:
        warnings.warn(message, category, stacklevel=2)
        return
    code, registry = frame.f_code, frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, code.co_filename, frame.f_lineno, registry=registry)


def _caller(frame: FrameType | None) -> FrameType | None:
    """Return the frame that called the outermost function of this package; None where there is none."""
    found = None
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] == "deeplimit":
            found = frame.f_back
        frame = frame.f_back
    return found
