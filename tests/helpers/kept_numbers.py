"""Numbers that are what they were: stored once, compared on any machine to rounding.

`KEEP_NUMBERS=1 pytest FILE` stores what a file's tests find now. Use it where numbers are meant to change.
"""

import dataclasses
import enum
import json
import math
import os
import re
from pathlib import Path

import numpy as np
import torch
from matplotlib import pyplot

from tests.guard.freeze import DROPPED, FIGURES, PROSE

FOLDER = Path(__file__).parents[1] / "guard" / "numbers"


def plain(value):
    """Return `value` as JSON gives it back; what is not finite as text."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (torch.Tensor, np.ndarray, np.generic)):
        return plain(value.tolist())
    if dataclasses.is_dataclass(value):
        return plain({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else str(value)
    if isinstance(value, enum.Enum):
        return plain(value.value)
    assert value is None or isinstance(value, (bool, int, str)), f"{type(value)} cannot be stored"
    return value


LEFT_OUT = {*DROPPED, *PROSE, *FIGURES, "provenance", "measurement"}
"""Keys of reports that differ from run to run, and sentences."""
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
ABOUT = 0.06
"""A last digit of a text may be rounded over."""


def without(value, keys):
    """Return a plain value without these keys, wherever they are."""
    if isinstance(value, dict):
        return {key: without(item, keys) for key, item in value.items() if key not in keys}
    return [without(item, keys) for item in value] if isinstance(value, list) else value


def said(text):
    """Return the numbers of a text, line by line, without those of how long something took."""
    lines = [line for line in text.splitlines() if not re.search(r"\d ?(s|ms|seconds?|minutes?)\b", line)]
    return [[float(found) for found in NUMBER.findall(line)] for line in lines]


def some(points):
    """Return all of a few points, and some of many."""
    return points[:: len(points) // 30] if len(points) > 60 else points


def drawn(report):
    """Return what a picture holds, panel by panel: its lines, points, limits and how many texts."""
    axes = report.plot()
    panels = []
    for panel in axes.figure.axes:
        shown = panel.get_legend()
        panels.append(
            {
                "lines": [some(np.array(line.get_xydata(), dtype=float)) for line in panel.lines],
                "points": [
                    np.array(each.get_offsets(), dtype=float)
                    for each in panel.collections
                    if len(each.get_offsets())
                ],
                "bars": [
                    np.array(each.get_bbox().bounds) for each in panel.patches if hasattr(each, "get_bbox")
                ],
                "limits": (panel.get_xlim(), panel.get_ylim()),
                "scales": (panel.get_xscale(), panel.get_yscale()),
                "texts": len(panel.texts),
                "entries": 0 if shown is None else len(shown.get_texts()),
            }
        )
    pyplot.close(axes.figure)
    return panels


def same_report(file, name, report, tolerance=1e-5, *, with_picture=True):
    """Assert that numbers and codes of a report, numbers in its words and its picture are what is stored."""
    check(file, name, without(plain(report.to_dict()), LEFT_OUT), tolerance)
    check(file, f"{name}: said", said(report.full()), ABOUT)
    if with_picture:
        check(file, f"{name}: drawn", drawn(report), max(tolerance, 1e-3))


ROUNDED = {".nonlinearity": (0.01, 0.03)}
"""What processors round otherwise, with a relative and an absolute tolerance: differences of numbers of
single precision that agree to three digits (0.5 %, which moves exponents of 0 by 0.02)."""
ADAPTIVE = 0.02
"""Tolerance of what follows from an adaptive solver's solution, which takes other steps on other processors:
kurtoses moved by 0.07 %, floors by 1 %. Its estimate of its own error moved by 30 %, and is not kept."""


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def apart(old, new, tolerance, where="", scale=0.0):
    """Yield where two plain values differ; numbers in a list may by the tolerance of its largest."""
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        for key, value in old.items():
            yield from apart(value, new[key], tolerance, f"{where}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        largest = max((abs(item) for item in old if is_number(item)), default=0.0)
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from apart(one, other, tolerance, f"{where}[{index}]", largest)
    elif is_number(old) and is_number(new):
        relative, absolute = tolerance, 1e-12
        for key, (share, size) in ROUNDED.items():
            if key in where:  # sizes have a share, exponents may be 0
                relative, absolute = max(tolerance, share), absolute if ".values" in where else size
        if abs(old - new) > relative * max(abs(old), abs(new), scale) + absolute:
            yield f"{where}: kept {old!r}, now {new!r}"
    elif type(old) is not type(new) or old != new:
        yield f"{where}: kept {old!r}, now {new!r}"


def check(file, name, value, tolerance=1e-5):
    """Assert that a value is what is stored as `name` of a file of numbers, to a relative tolerance."""
    path, fresh = FOLDER / f"{file}.json", plain(value)
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if os.environ.get("KEEP_NUMBERS"):
        lines = [
            f"{json.dumps(key)}: {json.dumps(each)}" for key, each in sorted({**kept, name: fresh}.items())
        ]
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        return
    changed = [*apart(kept.get(name), fresh, tolerance)]
    assert not changed, "\n".join(changed)
