"""Peak memory of a process above what imports take, against paths, depth and repetitions, call by call."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.timing import OURS, Row, Target, Workload

# A process starts with its parent's peak in ru_maxrss, which would hide all that is below it; VmHWM begins at
# nought.
PROGRAM = """
import re, resource, sys, tempfile, time
from pathlib import Path
import deeplimit as dl
import torch
from deeplimit.simulation.kernels import numba_pass
numba_pass.WORTHWHILE = 0  # else a large comparison loads numba and a small one does not

def peak():
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\\s*(\\d+)", status.read_text()) if status.exists() else None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(found[1]) / 2**10 if found else most / (2**20 if sys.platform == "darwin" else 2**10)

def stored(count):
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(count):
            dl.compare(network, depths=[16, 32, 64], paths=1000, seed=seed, store=Path(folder) / "s.sqlite")

network, n, before = dl.res1(40, "tanh"), int(sys.argv[1]), peak()
begun = time.perf_counter()
CALL
print(time.perf_counter() - begun, peak() - before)
"""
CALLS = {
    "compare, paths": ("dl.compare(network, depths=[16, 32, 64], paths=n)", (10**3, 10**4, 10**5)),
    "compare, depth": ("dl.compare(network, depths=[n // 4, n // 2, n], paths=256)", (64, 256, 1024)),
    "compare, fractional weights, depth": (
        "dl.compare(dl.res1(8, 'tanh', weights=dl.FractionalBrownian(0.7)),"
        " depths=[n // 4, n // 2, n], paths=256)",
        (64, 256, 1024),
    ),
    "compare with a store, repetitions": ("stored(n)", (1, 5, 20)),
    "compare_laws, draws": ("dl.compare_laws(network, depths=[16, 32, 64], draws=n)", (10**3, 10**4, 10**5)),
    "stability, draws": ("dl.stability(network, [16, 32, 64], draws=n)", (10**3, 10**4, 10**5)),
    "simulate, summaries, paths": (
        "dl.simulate(network, torch.ones(1, 40), depths=[16, 32, 64], paths=n, keep='summaries')",
        (10**3, 10**4, 10**5),
    ),
}
"""What is measured, in a fresh process for each size `n`."""
FLAT = ("compare, paths", "compare, depth", "compare with a store, repetitions")
"""What keeps nothing of a path, a layer or a call. Laws and stability keep some numbers of every draw, and
summaries a sketch of the quantiles that grows with the logarithm of the paths.
"""
MOST = 1.1
"""How many times as much the largest of those sizes may take as the middle one."""


def peaks(*, quick: bool, repeats: int) -> Workload:
    """Measure what every call takes at its sizes; `quick` leaves out the largest."""
    rows: list[Row] = []
    targets: list[Target] = []
    for name, (call, sizes) in CALLS.items():
        found = []
        for size in sizes[:-1] if quick else sizes:
            seconds, taken = measured(call, size)
            rows.append(Row(f"{name}: {size}", seconds, f"{taken:.0f} MiB above the imports", None, OURS))
            found.append(taken)
        if not quick and name in FLAT:
            words = f"{name}: from {sizes[1]} to {sizes[2]} memory grows by a factor"
            targets.append(Target(words, found[2] / found[1], at_most=MOST))
    setting = "peak memory of a process above its imports, res-1, tanh, d = 40"
    return Workload("peaks", setting, tuple(rows), {"quick": quick}, tuple(targets))


def measured(call: str, size: int) -> tuple[float, float]:
    """Return seconds and MiB above the imports of a call in a process of its own."""
    arguments = [sys.executable, "-c", PROGRAM.replace("CALL", call), str(size)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, env=os.environ)
    seconds, taken = done.stdout.split()
    return float(seconds), float(taken)
