"""10^5 networks of width 64 at depths up to 8192 on a GPU, where the whole loop over layers is one kernel."""

from __future__ import annotations

import torch

import deeplimit as dl
from benchmarks.optional import optional
from benchmarks.strong_error import in_short
from benchmarks.timing import FLOOR, OURS, Row, Target, Workload, timed_in_turn
from deeplimit.driving.path import Grid
from deeplimit.judge.convergence import CompareReport

WIDTH, PATHS = 64, 10**5
DEPTHS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
KERNEL = "deeplimit.simulation.kernels.triton_kernel"


def gpu(*, quick: bool, repeats: int) -> Workload:
    """Time the comparison on the device beside the device's own rate of drawing the d normals of each
    reference step.
    """
    depths = DEPTHS[:4] if quick else DEPTHS
    paths = PATHS // 10 if quick else PATHS
    steps = 2 * depths[-1]
    words = f"res-1, tanh, d = {WIDTH}, {paths} paths, depths {depths[0]} to {depths[-1]}, on a GPU"
    settings: dict[str, object] = {"width": WIDTH, "paths": paths, "depths": depths}
    if not torch.cuda.is_available():
        return Workload(
            "gpu", words, (), settings, (), ("no CUDA device: skipped; its speed has not been measured",)
        )
    network, device = dl.res1(WIDTH, "tanh"), torch.device("cuda")
    settings["device"] = torch.cuda.get_device_name()

    def ours() -> CompareReport:
        # `compare` chooses by itself between the fused kernel and torch's operations on the device.
        report = dl.compare(network, depths=depths, paths=paths, device=device)
        torch.cuda.synchronize()
        return report

    def floor() -> None:
        generator = torch.Generator(device).manual_seed(0)
        buffer = torch.empty(paths, WIDTH, device=device)
        for _ in range(steps):
            buffer.normal_(generator=generator)
        torch.cuda.synchronize()

    works = {"deeplimit": ours, f"floor: the d normals of each of {steps} reference steps": floor}
    kernel, missing = optional(KERNEL, "the row of the kernel alone needs it, and Triton: pip install triton")
    if kernel is not None:
        start = torch.randn(paths, WIDTH, device=device, generator=torch.Generator(device).manual_seed(0))

        def alone() -> None:
            kernel.run_kernel(start, Grid(depths, (steps,)), "tanh", [WIDTH**-0.5] * len(depths), seed=0)
            torch.cuda.synchronize()

        works["deeplimit, its fused kernel alone"] = alone
    for work in works.values():  # compilation is no part of the work
        work()
    timings = timed_in_turn(list(works.values()), min(repeats, 3))
    rows = [
        Row(who, seconds, in_short(result) if result else "", role=FLOOR if who.startswith("floor") else OURS)
        for who, (seconds, result) in zip(works, timings, strict=True)
    ]
    needed = (steps + sum(depths)) / steps  # the networks' own layers need normals too
    share = rows[1].seconds * needed / rows[0].seconds
    targets = (
        Target("rate of normals that are needed, as a share of the card's own rate", share, at_least=0.5),
    )
    return Workload("gpu", words, tuple(rows), settings, targets, (missing,) if missing else ())
