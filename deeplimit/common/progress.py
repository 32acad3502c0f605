"""How far a measurement has come: a user's function, a bar in a terminal or a notebook, a line in the log."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

Progress = Callable[[float], None]
SECONDS_BETWEEN = 0.1
"""A notebook is sent a new bar no more often than this."""
SECONDS_IN_SILENCE = 10.0
"""A call that nobody asked to show its progress says after this time, once, how long it will take."""


@contextlib.contextmanager
def shown(progress: Progress | bool | None, name: str) -> Iterator[Progress | None]:
    """Yield a function of the fraction done: the user's own, that of a bar (True), one that logs that a call
    takes long (None), or None (False).
    """
    if progress is False:
        yield None
    elif progress is None:
        yield _line_in_the_log(name)
    elif progress is not True:
        yield progress
    elif _in_a_notebook():
        yield _notebook_bar(name)
    else:
        with _terminal_bar(name) as move:
            yield move


def _line_in_the_log(name: str) -> Progress:
    """Return the function that says once that a call takes long, and how long it may yet take."""
    first: list[tuple[float, float]] = [(time.perf_counter(), 0.0)]
    said: list[bool] = []

    def note(fraction: float) -> None:
        now = time.perf_counter()
        if len(first) == 1:  # what a store held from the start took no time
            first.append((now, fraction))
        began, held = first[1] if first[1][0] - first[0][0] < SECONDS_BETWEEN else first[0]
        gone = now - began
        if said or gone < SECONDS_IN_SILENCE or not held < fraction < 1.0:
            return
        said.append(True)
        left = gone * (1.0 - fraction) / (fraction - held)
        logging.getLogger("deeplimit").warning(
            "%s: %.0f %% done after %.0f s, about %s to go. progress=True shows a bar, False nothing.",
            name,
            100.0 * fraction,
            gone,
            in_words(left),
        )

    return note


def in_words(seconds: float) -> str:
    """Return a time in words.

    Examples:
        >>> in_words(75.0), in_words(5e3), in_words(5e5), in_words(5e7)
        ('75 s', '83 min', '139 h', '579 days')
    """
    if seconds < 120.0:
        return f"{seconds:.0f} s"
    if seconds < 7200.0:
        return f"{seconds / 60.0:.0f} min"
    return f"{seconds / 3600.0:.0f} h" if seconds < 1e6 else f"{seconds / 86400.0:.0f} days"


def _in_a_notebook() -> bool:
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return running is not None and hasattr(running, "kernel")


@contextlib.contextmanager
def _terminal_bar(name: str) -> Iterator[Progress]:
    """Yield the function that moves a bar on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress as Bar, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    with Bar(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=1.0)

        def move(fraction: float) -> None:
            bar.update(task, completed=fraction)

        yield move


def _notebook_bar(name: str) -> Progress:
    """Return the function that moves a bar in the output of a notebook's cell, in plain HTML."""
    from IPython.display import HTML, display  # type: ignore[import-not-found, unused-ignore]

    started = time.perf_counter()
    handle: Any = display(HTML(_html(name, 0.0, 0.0)), display_id=True)
    last = [0.0, 0.0]  # when a bar was sent, and with what fraction

    def move(fraction: float) -> None:
        now = time.perf_counter() - started
        if handle is not None and (now - last[0] >= SECONDS_BETWEEN or fraction >= 1.0 > last[1]):
            last[:] = [now, fraction]
            handle.update(HTML(_html(name, fraction, now)))

    return move


def _html(name: str, fraction: float, seconds: float) -> str:
    from html import escape

    left = f", {seconds * (1 - fraction) / fraction:.0f} s left" if 0.0 < fraction < 1.0 else ""
    return (
        f"<div>{escape(name)} <progress value='{fraction:.4f}' max='1'></progress>"
        f" {fraction:.0%}, {seconds:.0f} s{left}</div>"
    )
