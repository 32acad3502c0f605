"""A checkpoint of a hundred million parameters, diagnosed in a process of its own: seconds and memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file

from benchmarks.timing import FLOOR, OURS, Row, Target, Workload

PROGRAM = """
import resource, sys, time
import torch
import deeplimit as dl
from deeplimit.trained.diagnosis.sources import source_of
path, what = sys.argv[1:]
dl.diagnose
source = source_of(path)
names = [*source.shapes] if what == "read" else []
started = time.perf_counter()
if what == "diagnose":
    dl.diagnose(path)
for name in names:
    source.read(name).double().square().sum()
seconds = time.perf_counter() - started
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
print(seconds, peak)
"""
"""Diagnoses a file, or reads every number in it once; prints seconds and peak MiB."""


def checkpoint(path: Path, depth: int, width: int) -> int:
    """Write the blocks of a transformer with random weights, named as in timm, and return their number."""
    stream = torch.Generator().manual_seed(0)
    shapes = {
        "norm1.weight": (width,),
        "norm1.bias": (width,),
        "norm2.weight": (width,),
        "norm2.bias": (width,),
    }
    shapes |= {"attn.qkv.weight": (3 * width, width), "attn.proj.weight": (width, width)}
    shapes |= {"mlp.fc1.weight": (4 * width, width), "mlp.fc2.weight": (width, 4 * width)}
    weights = {
        f"blocks.{k}.{name}": torch.randn(shape, generator=stream)
        for k in range(depth)
        for name, shape in shapes.items()
    }
    save_file(weights, path)
    return sum(weight.numel() for weight in weights.values())


def diagnose(*, quick: bool, repeats: int) -> Workload:
    """Time `diagnose` of one file, beside reading each of its numbers once in double precision."""
    depth, width = (12, 256) if quick else (14, 768)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.safetensors"
        parameters = checkpoint(path, depth, width)
        size = path.stat().st_size / 2**20
        runs = {what: [measured(path, what) for _ in range(repeats)] for what in ("diagnose", "read")}
    (ours, peak), (floor, least) = (sorted(runs[what])[repeats // 2] for what in ("diagnose", "read"))
    rows = (
        Row("deeplimit.diagnose", ours, f"{peak:.0f} MiB at the peak", role=OURS),
        Row("floor: every number read once, as float64", floor, f"{least:.0f} MiB at the peak", role=FLOOR),
    )
    setting = f"a file of {parameters / 1e6:.0f} M parameters, {depth} layers of width {width}"
    targets = (
        Target("seconds of the diagnosis", ours, at_most=60.0),
        Target(f"MiB at the peak beyond the {size:.0f} of the weights", peak - size, at_most=2048.0),
    )
    return Workload("diagnose", setting, rows, {"width": width, "depth": depth}, targets)


def measured(path: Path, what: str) -> tuple[float, float]:
    """Return seconds and peak MiB of one run in a process of its own."""
    arguments = [sys.executable, "-c", PROGRAM, str(path), what]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, env=os.environ)
    seconds, peak = done.stdout.split()
    return float(seconds), float(peak)
