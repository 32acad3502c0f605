"""A report made again by the call that its file keeps, and compared with it value by value."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import math
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, final

import numpy as np
import torch

from deeplimit.common import recipe, validation
from deeplimit.common.load_report import load_report
from deeplimit.common.progress import Progress
from deeplimit.common.provenance import RUNNING, Provenance
from deeplimit.common.report import Report
from deeplimit.common.store import Store
from deeplimit.common.table import printable
from deeplimit.statistics.interim import Replay, Size

VERBS: Final = (
    "check_depth", "check_training", "compare", "compare_laws", "depth_controls", "diagnose", "phase_diagram",
    "probe", "reproduce", "stability", "train", "validate",
)  # fmt: skip
"""Public functions that a file may ask for: each measures, and returns a report."""
ADVICE: Final = "Call the verb again with the same arguments; the same seed gives the same numbers"
OTHERWISE: Final = frozenset({"key", "needs", "seconds", "version", "versions"})
"""Fields that are not compared: times, what is predicted of them, and versions, which are named apart."""
MOST_LINES = 20
_NOTHING: Final = "nothing"


@final
@dataclass(frozen=True)
class Difference:
    """One value of a report that came out otherwise.

    Attributes:
        name: where it stands, such as "errors[3]".
        was, now: in the report, and in the new one.
    """

    name: str
    was: Any
    now: Any

    @property
    def size(self) -> float:
        """The difference of two numbers over the larger one; infinite where one is no finite number."""
        both = (self.was, self.now)
        if not all(isinstance(each, (int, float)) and math.isfinite(each) for each in both):
            return math.inf
        return float(abs(self.was - self.now) / (max(map(abs, both)) or 1.0))  # 0 and -0 differ by nothing

    def __str__(self) -> str:
        size = f" (relative {self.size:.2g})" if math.isfinite(self.size) else ""
        was, now = (str(each) if isinstance(each, Enum) else repr(each) for each in (self.was, self.now))
        return f"{self.name}: was {was}, is {now}{size}"


@final
@dataclass(frozen=True, eq=False)
class Repetition:
    """What came of making a report again.

    Attributes:
        report: the new report.
        compared: how many numbers and verdicts the two have.
        differences: those that are not the same, bit for bit.
        reworded: texts that read otherwise, which do not count.
        surroundings: versions and the device, where they are not those of the report.
    """

    report: Report
    compared: int
    differences: tuple[Difference, ...]
    reworded: tuple[Difference, ...]
    surroundings: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """Whether every number and every verdict is the same, bit for bit."""
        return not self.differences

    def __str__(self) -> str:
        lines = [self._headline()]
        lines += [f"- {each}" for each in self.differences[:MOST_LINES]]
        if (more := len(self.differences) - MOST_LINES) > 0:
            lines.append(f"- and {more} more")
        lines += [f"{each}." for each in self.surroundings]
        if self.reworded:
            lines.append("Texts that read otherwise: " + ", ".join(each.name for each in self.reworded) + ".")
        return printable("\n".join(lines))

    def _headline(self) -> str:
        if self.agrees:
            return f"Agrees: all {self.compared} numbers and verdicts are the same, bit for bit."
        sizes = {each.size: each.name for each in self.differences if math.isfinite(each.size)}
        largest = (
            f"; the largest relative difference is {max(sizes):.2g}, of {sizes[max(sizes)]}" if sizes else ""
        )
        return f"Differs: {len(self.differences)} of {self.compared} numbers and verdicts{largest}."


def rerun(
    report: Report | str | os.PathLike[str],
    *,
    given: Mapping[str, Any] | None = None,
    device: str | torch.device | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    store: Store | str | os.PathLike[str] | None = None,
    progress: Progress | bool | None = None,
) -> Repetition:
    """Make a report again by the same call, and say whether its numbers are the same, bit for bit.

    An adaptive call takes the same looks again, whatever they cost now.

    Args:
        report: A report, or the file of one.
        given: Arguments that no file can hold, by name: your functions, modules and large tensors
            (`report.provenance.left_out` names them).
        device: "cpu" or "cuda", instead of the report's.
        workers: Number of threads, by default one per core. executor: Any `concurrent.futures.Executor`, or a
            Dask client, instead. Neither changes a bit of the result.
        store: File, or `Store`, that keeps finished blocks. What it holds already is read, not computed.
        progress: Function of the fraction done, between 0 and 1; True shows a bar.

    Returns:
        The new report, and every value that differs; `print` it.

    Raises:
        TypeError: For an argument of the wrong kind.
        ValueError: For a report that does not say by which call it was made, one of your functions that is
            neither in the file nor `given`, and an argument in `given` that the file has.
        OSError: For a file that cannot be read.

    NOT checked: whether files that the call reads are those that it read before.

    Examples:
        >>> import deeplimit as dl
        >>> report = dl.compare(dl.res1(4, "tanh"), depths=[4, 8, 16], paths=64)
        >>> again = dl.rerun(report)
        >>> again.agrees, again.differences
        (True, ())
    """
    if isinstance(report, (str, os.PathLike)):
        report = load_report(report)
    if not isinstance(report, Report):
        raise TypeError(f"report must be a deeplimit.Report or its file, got {validation.named(report)}.")
    provenance = report.provenance
    verb = _verb(provenance)
    arguments = _arguments(provenance, verb, {} if given is None else given)
    looks = getattr(report, "looks", ())
    if looks:
        arguments["budget"] = Replay(tuple(Size(look.depths, look.paths) for look in looks))
    how = {"device": device, "workers": workers, "executor": executor, "store": store}
    arguments |= {name: value for name, value in how.items() if value is not None}
    known = inspect.signature(verb).parameters
    for name in how:
        if name in arguments and name not in known:
            raise ValueError(
                f"{name}={arguments[name]!r} is not for {provenance.verb}, which has no such argument."
            )
    if "progress" in known:
        arguments["progress"] = progress
    return compared(report, verb(**arguments))


def compared(report: Report, again: Report) -> Repetition:
    """Return how a report that was made again differs from what it was."""
    was, now = dict(_values(report, "")), dict(_values(again, ""))
    both = ((name, was.get(name, _NOTHING), now.get(name, _NOTHING)) for name in {**was, **now})
    found = [Difference(*each) for each in both if not _same(*each[1:])]
    texts = [each for each in found if type(each.was) is type(each.now) is str]
    counted = sum(type(value) is not str for value in now.values())
    return Repetition(
        again,
        counted,
        tuple(each for each in found if each not in texts),
        tuple(texts),
        tuple(_surroundings(report.provenance, again.provenance)),
    )


def _verb(provenance: Provenance) -> Any:
    if not provenance.verb:
        raise ValueError(
            "report cannot be made again: it does not say which call made it. Reports of earlier versions,"
            f" and those that you put together, do not. {ADVICE}."
        )
    if provenance.verb not in VERBS:
        raise ValueError(
            f"report cannot be made again: its file says that {provenance.verb!r} made it, which is none of"
            f" {', '.join(VERBS)}. {ADVICE}."
        )
    return getattr(importlib.import_module("deeplimit"), provenance.verb)


def _arguments(provenance: Provenance, verb: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the call; raise ValueError where one is missing, unknown, or there twice."""
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise TypeError(f"given must hold arguments by name, got {validation.named(given)}.")
    missing = [f"{name} ({why})" for name, why in provenance.left_out.items() if name not in given]
    if missing:
        raise ValueError(
            f"report cannot be made again from its file alone: {'; '.join(missing)}. Pass it in `given` to"
            f" deeplimit.rerun, or call {provenance.verb} again with the same arguments."
        )
    if extra := sorted(given.keys() - provenance.left_out.keys()):
        lacking = ", ".join(provenance.left_out) or "none"
        raise ValueError(f"given must hold what the file lacks ({lacking}), got {', '.join(extra)}.")
    known = inspect.signature(verb).parameters.keys() - RUNNING
    unknown = sorted((provenance.arguments.keys() | provenance.left_out.keys()) - known)
    if unknown:
        raise ValueError(
            f"report cannot be made again: {provenance.verb} has no argument {', '.join(unknown)}; its file"
            f" is damaged, or of another version. {ADVICE}."
        )
    try:
        read = {name: recipe.rebuilt(content) for name, content in provenance.arguments.items()}
    except recipe.FAILURES as error:
        raise ValueError(
            "report cannot be made again: the call in its file is damaged, or of another version"
            f" ({error}). {ADVICE}."
        ) from error
    return {**read, **given}


def _values(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield every number, word and text of a report, by where it stands."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            if field.name not in OTHERWISE:
                inner = f"{name}.{field.name}" if name else field.name
                yield from _values(getattr(value, field.name), inner)
    elif isinstance(value, np.ndarray):
        yield from _values(value.tolist(), name)
    elif isinstance(value, (list, tuple)):
        yield f"len({name})", len(value)
        for place, item in enumerate(value):
            yield from _values(item, f"{name}[{place}]")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _values(item, f"{name}[{key!r}]")
    else:
        yield name, value


def _same(was: Any, now: Any) -> bool:
    if isinstance(was, float) and isinstance(now, float):
        return repr(float(was)) == repr(float(now))  # NaN is the same as NaN, and -0 is not 0
    return bool(was == now)


def _surroundings(was: Provenance, now: Provenance) -> Iterator[str]:
    for name in {**was.versions, **now.versions}:
        before, after = was.versions.get(name), now.versions.get(name)
        if before != after:
            yield f"{name} was {before or 'not there'}, is {after or 'not there'}"
    if was.device != now.device:
        yield f"It was computed on {was.device or 'an unknown device'}, now on {now.device}"
