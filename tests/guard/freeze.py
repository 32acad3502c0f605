"""Reports as plain Python, stored and compared; `python -m tests.guard.freeze` stores all of them again.

To be run only where numbers are meant to change: `--only NAME` (as often as needed) stores single ones.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import platform
import re
import struct
import sys
from pathlib import Path

import torch

from .specimens import SPECIMENS

FOLDER = Path(__file__).parent / "frozen"
MACHINE = FOLDER / "machine.json"

DROPPED = {
    "seconds": "how long it took",
    "versions": "of the library and what it runs on; machine.json has those of the freezing",
    "version": "of the library, in a scoreboard",
    "key": "of a scoreboard's row: its settings, which are stored by themselves, and the library's version",
}
"""Keys that are not stored, and what they hold."""

PROSE = (
    "coupling",  # how noise was drawn, in words
    "explanation",
    "findings",  # of a reproduction: sentences (those of a depth report are dicts, which are compared)
    "bounds_refused",
    "control_reason",
    "inputs",  # where paths start, in words (a phase diagram's is a number, which is compared)
    "limit",  # an equation
    "meaning",  # of an exponent
    "message",
    "method",
    "network",
    "reason",
    "reference",
    "reservations",
    "sampling",
    "stated",
    "title",
    "why",
    "wrongly",
)
"""Keys whose texts are sentences or descriptions for a person: stored, but their wording may change."""

FIGURES = ("growth", "measured", "says")
"""Keys whose texts hold numbers that are nowhere else: wording is free, but decimals are compared."""

TOLERANCE = 1e-5
"""On another machine: other vector units add in another order, and float32 carries seven digits."""

DERIVED = (
    "common_standard_errors",
    "differences",  # of laws, in standard deviations
    "exponent",
    "exponent_interval",
    "floor",
    "floor_lower",
    "floor_margins",
    "floor_probability",
    "floor_upper",
    "floors",
    "interval",
    "kurtosis",
    "local_slope_errors",
    "local_slopes",
    "rate",
    "rate_interval",
    "reference_error",
    "standard_errors",
    "sure",
)
DERIVED_TOLERANCE = 1e-3
"""Of the numbers of `DERIVED`, on another machine, of their size or absolutely: fits, tails and differences
of nearly equal numbers, which magnify what their data differ by.
"""
DECIMAL = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?")


def plain(value):
    """Return `value` as JSON gives it back: no tuples, numbers not finite as texts, no `DROPPED` keys."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items() if key not in DROPPED}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{value!r} of type {type(value).__name__} cannot be stored exactly")


def computed(name):
    """Return the report of one specimen, computed now, as it is stored."""
    report = SPECIMENS[name]()
    return plain(report if isinstance(report, dict) else report.to_dict())


def path_of(name):
    return FOLDER / f"{name}.json"


def stored(name):
    return json.loads(path_of(name).read_text(encoding="utf-8"))


def write(path, content):
    """Write one key a line, so that a change shows as its line; every float comes back bit by bit."""
    lines = [
        f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False, allow_nan=False)}"
        for key, value in content.items()
    ]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def machine():
    """Return what decides how floating-point sums come out, and Python's version for the record."""
    releases = {}
    for package in ("torch", "numpy", "scipy", "numba"):
        try:
            releases[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            releases[package] = None
    hardware = {"cpu_capability": torch.backends.cpu.get_cpu_capability(), "cpu": _processor()}
    return {**releases, **hardware, "python": platform.python_version()}


def _processor():
    """Return the processor's name; on Linux with family and model, since virtual machines shorten it."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    fields = ("model name", "cpu family", "model")
    found = [re.search(rf"^{field}\s*:\s*(.+)$", text, re.MULTILINE) for field in fields]
    return ", ".join(match[1].strip() for match in found if match is not None)


def is_recorded_machine():
    """Whether bits can be asked for: everything that was recorded but Python's version is the same."""
    recorded, here = json.loads(MACHINE.read_text(encoding="utf-8")), machine()
    return all(here[key] == value for key, value in recorded.items() if key != "python")


def differences(name, frozen, fresh, *, exact):
    """Return a line for each value of `frozen` that `fresh` lacks or has otherwise; keys may be added.

    Numbers are compared bit by bit if `exact`, else to `TOLERANCE` of their size, in a list of the largest
    there, or as `DERIVED_TOLERANCE` says. Texts other than those of `PROSE` and `FIGURES`, and truth values,
    must be the same in either case.
    """
    return [
        f"{name}: {where}: frozen {_shown(old)}, now {_shown(new)}"
        for where, old, new in _apart(frozen, fresh, "", "", 0.0, exact)
    ]


class _Missing:
    def __repr__(self):
        return "missing"


MISSING = _Missing()


def _shown(value):
    text = repr(value)
    return text if len(text) < 120 else f"{text[:117]}..."


def _apart(old, new, where, key, scale, exact):
    """Yield (path, frozen, new) for what differs; `key` is the nearest, `scale` what tolerances refer to."""
    if isinstance(old, dict):
        if not isinstance(new, dict):
            yield where, old, new
            return
        for inner, value in old.items():
            place = f"{where}.{inner}" if where else inner
            yield from _apart(value, new.get(inner, MISSING), place, inner, 0.0, exact)
    elif isinstance(old, list):
        if key in PROSE and isinstance(new, list) and all(isinstance(item, str) for item in [*old, *new]):
            return
        if not isinstance(new, list) or len(old) != len(new):
            yield where, old, new
            return
        own = max((abs(item) for item in old if is_number(item)), default=0.0)
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _apart(one, other, f"{where}[{index}]", key, max(scale, own), exact)
    elif not _same(old, new, key, scale, exact):
        yield where, old, new


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _same(old, new, key, scale, exact):
    if is_number(old) and is_number(new):
        if exact:
            return struct.pack("<d", old) == struct.pack("<d", new)
        size = max(abs(old), abs(new), scale)
        allowed = DERIVED_TOLERANCE * max(size, 1.0) if key in DERIVED else TOLERANCE * size
        return abs(old - new) <= allowed
    if isinstance(old, str) and isinstance(new, str):
        if key in FIGURES:
            # On another machine a last digit may be rounded over.
            return not exact or DECIMAL.findall(old) == DECIMAL.findall(new)
        if key in PROSE:
            return True
    return type(old) is type(new) and old == new


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.guard.freeze", description="Store reports anew.")
    names = {"choices": sorted(SPECIMENS), "metavar": "NAME"}
    parser.add_argument("--only", action="append", help="this one alone", **names)
    only = parser.parse_args(arguments).only
    FOLDER.mkdir(exist_ok=True)
    if only is not None and not (MACHINE.exists() and is_recorded_machine()):
        parser.error(
            "this is not the machine of machine.json: store all reports, so that one machine made them"
        )
    if only is None:
        write(MACHINE, machine())
        for path in set(FOLDER.glob("*.json")) - {MACHINE, *map(path_of, SPECIMENS)}:
            path.unlink()
    for name in only or SPECIMENS:
        fresh = computed(name)
        known = path_of(name).exists()
        changed = differences(name, stored(name), fresh, exact=True) if known else [f"{name}: new"]
        write(path_of(name), fresh)
        sys.stdout.writelines(f"{line}\n" for line in changed)


if __name__ == "__main__":
    main()
