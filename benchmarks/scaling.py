"""Time against paths and layers, which should be a straight line, and memory against both, which should be flat."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import deeplimit as dl
from benchmarks.optional import compiled_kernel, compiled_kernel_at_every_size
from benchmarks.strong_error import absent
from benchmarks.timing import OURS, Row, Target, Workload, timed_in_turn

WIDTH = 40
# A process starts with its parent's peak in ru_maxrss, which would hide all that is below it; VmHWM begins at nought.
PROGRAM = """
import re, resource, sys, time
from pathlib import Path
import deeplimit as dl
depth, paths, width, coupling = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
try:
    from deeplimit.coupling import compiled
    compiled.WORTHWHILE = 0  # else a large comparison loads numba and a small one does not
except ImportError:
    pass
start = time.perf_counter()
dl.compare(dl.res1(width, "tanh"), depths=[depth // 2, depth], paths=paths, coupling=coupling)
seconds = time.perf_counter() - start
status = Path("/proc/self/status")
found = re.search(r"VmHWM:\\s*(\\d+)", status.read_text()) if status.exists() else None
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
print(seconds, int(found[1]) / 2**10 if found else peak)
"""


def spread(seconds: Sequence[float], sizes: Sequence[int]) -> float:
    """Return by what factor the time for a unit of work differs between sizes: 1 where time is linear."""
    each = [time / size for time, size in zip(seconds, sizes, strict=True)]
    return max(each) / min(each)


def _layers(depth: int) -> int:
    """Return all layers that a comparison at depths L/2 and L takes, those of its reference included."""
    return depth // 2 + depth + 2 * depth


def _linear(coupling: str, quick: bool, repeats: int) -> tuple[list[Row], list[Target]]:
    # One worker: with several, the last blocks of paths leave some idle, by chance of the sizes. The smallest sizes are large
    # enough for what a comparison costs whatever its size (checks, the fit, the report) to be lost in them.
    network = dl.res1(WIDTH, "tanh")
    fast = coupling == "projected" and compiled_kernel()[0] is not None
    scale = (4 if fast else 1) * (2 if quick else 4)
    paths = [256 * scale * factor for factor in (1, 2, 4)]
    depths = [128 * scale * factor for factor in (1, 2, 4)]
    if coupling == "pathwise":
        paths, depths = [count // 4 for count in paths], [depth // 2 for depth in depths]
    depth, count = 64, paths[0] // scale
    sizes = [(depth, many) for many in paths] + [(deep, count) for deep in depths]

    def run(size: tuple[int, int]) -> None:
        dl.compare(network, depths=[size[0] // 2, size[0]], paths=size[1], coupling=coupling, workers=1)

    with compiled_kernel_at_every_size():
        run((16, 64))
        # The shortest times: a few per cent are to be seen, and what else the machine does only ever adds.
        timings = timed_in_turn([lambda size=size: run(size) for size in sizes], repeats if quick else repeats + 2, min)
    rows = []
    for (deep, many), (seconds, _) in zip(sizes, timings, strict=True):
        note = f"{1e6 * seconds / (many * _layers(deep)):.3g} µs a path and layer"
        rows.append(Row(f"deeplimit, {coupling}, {many} paths, depths {deep // 2} and {deep}", seconds, note, None, OURS))
    times = [seconds for seconds, _ in timings]
    by_paths = spread(times[:3], paths)
    by_depth = spread(times[3:], [_layers(deep) for deep in depths])
    return rows, [
        Target(f"{coupling}: time a path at {paths[0]} to {paths[-1]} paths differs by a factor", by_paths, at_most=1.1),
        Target(f"{coupling}: time a layer at depths {depths[0]} to {depths[-1]} differs by a factor", by_depth, at_most=1.1),
    ]


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
        # What `compare` takes by itself goes to the depth that papers ask for; whole matrices there would take minutes.
        deep = 2**11 if quick else 2**17 if coupling == "projected" else 2**14
        # The small number of paths fills a block a core already: what is held must not depend on how many blocks follow.
        cases = {"depth": [(64, 16, WIDTH), (deep, 16, WIDTH)], "paths": [(8, 10_000, 8), (8, many, 8)]}
        for what, sizes in cases.items():
            peaks = []
            for depth, paths, width in sizes:
                seconds, peak = measured(depth, paths, width, coupling)
                who = f"deeplimit, {coupling}, depth {depth}, {paths} paths, d = {width}"
                rows.append(Row(who, seconds, f"{peak:.0f} MiB at the peak", None, OURS))
                peaks.append(peak)
            words = f"{coupling}: peak memory grows with {what}, from {peaks[0]:.0f} to {peaks[1]:.0f} MiB, by a factor"
            targets.append(Target(words, peaks[1] / peaks[0], at_most=1.1))
    settings = {"quick": quick, "compiled kernel": compiled_kernel()[0] is not None}
    return Workload("memory", "peak memory of a process that compares", tuple(rows), settings, tuple(targets))


def measured(depth: int, paths: int, width: int, coupling: str) -> tuple[float, float]:
    """Return seconds and peak MiB of a comparison in a process of its own."""
    arguments = [sys.executable, "-c", PROGRAM, str(depth), str(paths), str(width), coupling]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, env=os.environ)
    seconds, peak = done.stdout.split()
    return float(seconds), float(peak)
