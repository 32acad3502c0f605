"""Time against paths and layers, which should be a straight line, and memory against both, which should be
flat.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import deeplimit as dl
from benchmarks.optional import compiled_kernel, compiled_kernel_at_every_size
from benchmarks.strong_error import absent
from benchmarks.timing import OURS, Row, Target, Workload, timed

WIDTH = 40
# A process starts with its parent's peak in ru_maxrss, which would hide all that is below it; VmHWM begins at
# nought.
PROGRAM = """
import re, resource, sys, time
from pathlib import Path
import deeplimit as dl
depth, paths, width, coupling = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
from deeplimit.simulation.kernels import numba_pass
numba_pass.WORTHWHILE = 0  # else a large comparison loads numba and a small one does not
start = time.perf_counter()
dl.compare(dl.res1(width, "tanh"), depths=[depth // 2, depth], paths=paths, coupling=coupling)
seconds = time.perf_counter() - start
status = Path("/proc/self/status")
found = re.search(r"VmHWM:\\s*(\\d+)", status.read_text()) if status.exists() else None
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
print(seconds, int(found[1]) / 2**10 if found else peak)
"""


def _layers(depth: int) -> int:
    """Return all layers that a comparison at depths L/2 and L takes, those of its reference included."""
    return depth // 2 + depth + 2 * depth


FACTOR = 4
"""How many times as large the large sizes are."""


def beyond_proportion(
    small: Callable[[], Any], large: Callable[[], Any], repeats: int
) -> tuple[float, float, float]:
    """Return the median times of FACTOR small runs and of a large one, and the median of the ratios, 1 where
    time is linear.

    Each ratio is of two neighbours in time: machines run faster for some seconds and slower for others.
    """
    times = []
    for _ in range(repeats):
        pair = [timed(lambda: [small() for _ in range(FACTOR)], 1)[0], timed(large, 1)[0]]
        times.append(pair)
    ratios = [after / before for before, after in times]
    return (
        statistics.median(pair[0] for pair in times),
        statistics.median(pair[1] for pair in times),
        statistics.median(ratios),
    )


def _linear(coupling: str, quick: bool, repeats: int) -> tuple[list[Row], list[Target]]:
    # One worker: with several, the last blocks of paths leave some idle, by chance of the sizes. The small
    # sizes are large enough for what a comparison costs whatever its size (checks, the fit, the report) to be
    # lost in them.
    network = dl.res1(WIDTH, "tanh")
    fast = coupling == "projected" and compiled_kernel()[0] is not None
    scale = 8 if fast else 1
    if not quick:
        scale *= 2
    depth, paths = 64, 128 * scale
    deep, few = 64 * scale, 128

    def run(deepest: int, many: int) -> Callable[[], Any]:
        return lambda: dl.compare(
            network, depths=[deepest // 2, deepest], paths=many, coupling=coupling, workers=1
        )

    rows, targets = [], []
    with compiled_kernel_at_every_size():
        run(16, 64)()
        for what, small, large in (
            ("paths", (depth, paths), (depth, FACTOR * paths)),
            ("layers", (deep, few), (FACTOR * deep, few)),
        ):
            before, after, ratio = beyond_proportion(
                run(*small), run(*large), repeats if quick else 2 * repeats + 1
            )
            for (deepest, many), seconds, count in ((small, before, FACTOR), (large, after, 1)):
                each = f"{1e6 * seconds / (count * many * _layers(deepest)):.3g} µs a path and layer"
                times = f"{count} times " if count > 1 else ""
                who = f"deeplimit, {coupling}, {times}{many} paths, depths {deepest // 2} and {deepest}"
                rows.append(Row(who, seconds, each, None, OURS))
            off = abs(ratio - 1.0)
            words = (
                f"{coupling}: {FACTOR} times as many {what} take {FACTOR} times as long, but for a share of"
            )
            targets.append(Target(words, off, at_most=0.1))
    return rows, targets


def scaling(*, quick: bool, repeats: int) -> Workload:
    """Time growing numbers of paths and of layers."""
    rows: list[Row] = []
    targets: list[Target] = []
    for coupling in ("projected", "pathwise"):
        own, reached = _linear(coupling, quick, repeats)
        rows, targets = rows + own, targets + reached
    settings = {"quick": quick, "compiled kernel": compiled_kernel()[0] is not None}
    words = f"time against paths and layers, res-1, tanh, d = {WIDTH}, one core"
    return Workload("scaling", words, tuple(rows), settings, tuple(targets), tuple(absent()))


def memory(*, quick: bool, repeats: int) -> Workload:
    """Measure peak memory in fresh processes: a deep network and many paths, each beside a small one."""
    many = 20_000 if quick else 10**6
    rows: list[Row] = []
    targets: list[Target] = []
    for coupling in ("projected", "pathwise"):
        # What `compare` takes by itself goes to the depth that papers ask for; whole matrices there would
        # take minutes.
        deep = 2**11 if quick else 2**17 if coupling == "projected" else 2**14
        # The small number of paths fills a block a core already: what is held must not depend on how many
        # blocks follow.
        cases = {"depth": [(64, 16, WIDTH), (deep, 16, WIDTH)], "paths": [(8, 10_000, 8), (8, many, 8)]}
        for what, sizes in cases.items():
            peaks = []
            for depth, paths, width in sizes:
                seconds, peak = measured(depth, paths, width, coupling)
                who = f"deeplimit, {coupling}, depth {depth}, {paths} paths, d = {width}"
                rows.append(Row(who, seconds, f"{peak:.0f} MiB at the peak", None, OURS))
                peaks.append(peak)
            words = (
                f"{coupling}: peak memory grows with {what}, from {peaks[0]:.0f} to {peaks[1]:.0f} MiB, by a"
                " factor"
            )
            targets.append(Target(words, peaks[1] / peaks[0], at_most=1.1))
    settings = {"quick": quick, "compiled kernel": compiled_kernel()[0] is not None}
    return Workload("memory", "peak memory of a process that compares", tuple(rows), settings, tuple(targets))


def measured(depth: int, paths: int, width: int, coupling: str) -> tuple[float, float]:
    """Return seconds and peak MiB of a comparison in a process of its own."""
    arguments = [sys.executable, "-c", PROGRAM, str(depth), str(paths), str(width), coupling]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, env=os.environ)
    seconds, peak = done.stdout.split()
    return float(seconds), float(peak)
