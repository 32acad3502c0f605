"""A public function or constructor with small arguments that are right, and what a bad one does to it."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from bad_values import NEVER, VALUES

import deeplimit

ROOT = str(Path(deeplimit.__file__).parent)
SECONDS, WAITED = 20, 200
"""Seconds of the processor, and by the wall, for machines with other work."""
DOCUMENTED = (
    TypeError,
    ValueError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)


@dataclass(frozen=True)
class Subject:
    """A function with arguments that are right; `anything` names those that take every value."""

    name: str
    call: Callable[..., Any]
    arguments: Mapping[str, Any]
    anything: tuple[str, ...] = ()
    called: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Other words by which a message may name an argument."""
    runs: tuple[str, ...] = ()
    """Arguments that are the user's own code, or go into it: what it raises comes through, with a note."""

    def bad(self, argument: str, value: str) -> str | None:
        """Return what is wrong with how one bad value ends, or None where it is refused or right."""
        with torch.random.fork_rng(devices=[]):  # some values and arguments are drawn
            return self._bad(argument, value)

    def _bad(self, argument: str, value: str) -> str | None:
        arguments = {name: made() if callable(made) else made for name, made in self.arguments.items()}
        passed = VALUES[value]()
        _limit(SECONDS, WAITED)
        try:
            self.call(**{**arguments, argument: passed})
        except DOCUMENTED as error:
            _limit(0, 0)
            return None if self._noted(argument, error) else self._unclear(argument, error)
        except ModuleNotFoundError as error:  # an extra, which no value can bring
            _limit(0, 0)
            return None if "pip install" in str(error) else f"raised {_text(error)}"
        except BaseException as error:  # noqa: BLE001  # whatever is raised is what is looked for
            _limit(0, 0)
            if self._noted(argument, error):
                return None
            return f"raised {type(error).__name__} at {_where(error)}: {_text(error)}"
        finally:
            _limit(0, 0)
        return "was accepted" if value in NEVER and argument not in self.anything else None

    def _noted(self, argument: str, error: BaseException) -> bool:
        return argument in self.runs and "deeplimit" in " ".join(getattr(error, "__notes__", ()))

    def _unclear(self, argument: str, error: Exception) -> str | None:
        text = _text(error)
        if not _where(error).startswith(ROOT) and not isinstance(error, FileNotFoundError):
            return f"came from {_where(error)}: {type(error).__name__}: {text}"
        words = (argument, *self.called.get(argument, ()), *self.called.get("*", ()))
        if not any(word.lower() in text.lower() for word in words):
            return f"does not name {argument}: {type(error).__name__}: {text}"
        return None if len(text) <= 700 else f"is long ({len(text)}): {text[:200]}"


def _limit(seconds: int, waited: int) -> None:
    """Raise TimeoutError after `seconds` of processor time or `waited` by the clock; 0 lifts both limits."""
    signal.signal(signal.SIGALRM, _too_long)
    signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(waited)


def _too_long(*_: object) -> None:
    raise TimeoutError(f"took more than {SECONDS} s of the processor, or {WAITED} s by the wall")


def _where(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.filename}:{frame.lineno}"


def _text(error: BaseException) -> str:
    return " ".join([str(error), *getattr(error, "__notes__", ())])
