"""W5: one step of gradient descent through a thousand layers and more, against a loop over layers in PyTorch.

The loop does what a user would write first, and what published code does: a list of parameters, one layer
after the other, gradients by autograd. The floor is three products of matrices per layer, of all layers at
once, as if no layer had to wait for the one before.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import cycle

import torch
from torch import nn

import deeplimit as dl
from benchmarks.timing import FLOOR, OURS, Row, Target, Workload
from deeplimit.common.measurement import threads_per_operation

WIDTH, BATCH, SEEDS = 10, 32, 8
DEPTHS, DEEP = (1000, 5000), 10_000
QUICK_DEPTHS, QUICK_DEEP = (100, 500), 1000
STEPS = 8
"""Steps per epoch of deeplimit, whose first epoch is not timed; and as many of the loop, after one."""
RATE = 0.01
PROGRAM = """
import re, resource, sys
from pathlib import Path
from benchmarks.training import seconds_of_train
seconds = seconds_of_train(int(sys.argv[1]), 1, sys.argv[2] == "True")
status = Path("/proc/self/status")
found = re.search(r"VmHWM:\\s*(\\d+)", status.read_text()) if status.exists() else None
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
print(seconds, int(found[1]) / 2**10 if found else peak)
"""
"""Trains at one depth in a process of its own; prints seconds per step and peak MiB."""


class LoopOverLayers(nn.Module):
    """x + |δ| tanh(x A_k + b_k) for each layer in turn, with one δ, initialised as in `SmallGaussian`."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        stream = torch.Generator().manual_seed(0)
        matrices = torch.randn(depth, width, width, generator=stream) * 0.01 / (depth * width)
        biases = torch.randn(depth, width, generator=stream) * 0.01 / (depth * width**0.5)
        self.matrices = nn.ParameterList(matrix.clone() for matrix in matrices)
        self.biases = nn.ParameterList(bias.clone() for bias in biases)
        self.delta = nn.Parameter(torch.full((1,), 1.0 / depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for matrix, bias in zip(self.matrices, self.biases, strict=True):
            x = x + self.delta.abs() * torch.tanh(x @ matrix + bias)
        return x


def steps_of_loop(
    model: LoopOverLayers, inputs: torch.Tensor, targets: torch.Tensor, rate: float = RATE
) -> Iterator[float]:
    """Yield the loss of each step of gradient descent, batch after batch, for ever."""
    descent = torch.optim.SGD(model.parameters(), rate)
    for x, y in cycle(zip(inputs.split(BATCH), targets.split(BATCH), strict=True)):
        descent.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        descent.step()
        yield loss.item()


def data() -> dl.datasets.Data:
    """Return the synthetic system of Cohen et al., as many inputs as an epoch of `STEPS` steps has."""
    return dl.datasets.synthetic_system(WIDTH, STEPS * BATCH, BATCH)


def seconds_of_loop(depth: int) -> float:
    """Return the seconds of one step of the loop over layers, the mean of several."""
    found = data()
    steps = steps_of_loop(LoopOverLayers(WIDTH, depth), found.inputs, found.targets)
    next(steps)
    started = time.perf_counter()
    for _ in range(STEPS):
        next(steps)
    return (time.perf_counter() - started) / STEPS


def seconds_of_train(depth: int, seeds: int, checkpointing: bool = False) -> float:
    """Return the seconds of one step of `train`, in which each of several networks takes one."""
    ends: list[float] = []
    dl.train(
        dl.fully_connected(WIDTH, "tanh", exponent=0.0),
        [depth],
        data(),
        optimizer=dl.SGD(RATE),
        batch=BATCH,
        epochs=3,
        repeats=seeds,
        initial=dl.SmallGaussian(),
        tied="delta",
        nonnegative="delta",
        checkpointing=checkpointing,
        progress=lambda _: ends.append(time.perf_counter()),
    )
    return (ends[-1] - ends[0]) / (2 * STEPS)


def seconds_of_products(depth: int, networks: int) -> float:
    """Return the seconds of a step's products alone: forward, backward, and the gradient of the weights."""
    count = depth * networks
    stream = torch.Generator().manual_seed(0)
    states = torch.randn(count, BATCH, WIDTH, generator=stream)
    matrices = torch.randn(count, WIDTH, WIDTH, generator=stream)
    after, gradient = torch.empty_like(states), torch.empty_like(matrices)

    def products() -> None:
        torch.bmm(states, matrices, out=after)
        torch.bmm(states, matrices.mT, out=after)
        torch.bmm(states.mT, after, out=gradient)

    products()
    started = time.perf_counter()
    for _ in range(STEPS):
        products()
    return (time.perf_counter() - started) / STEPS


def w5(*, quick: bool, repeats: int) -> Workload:
    """Time a step at two depths on one core, of one network and of eight; and memory at depth 10,000."""
    depths, deep = (QUICK_DEPTHS, QUICK_DEEP) if quick else (DEPTHS, DEEP)
    rows: list[Row] = []
    targets: list[Target] = []
    for depth in depths:
        one, many, loop, floor, floors = medians(
            [
                lambda depth=depth: seconds_of_train(depth, 1),
                lambda depth=depth: seconds_of_train(depth, SEEDS),
                lambda depth=depth: seconds_of_loop(depth),
                lambda depth=depth: seconds_of_products(depth, 1),
                lambda depth=depth: seconds_of_products(depth, SEEDS),
            ],
            repeats,
        )
        own, all_seeds = f"deeplimit.train, L = {depth}", f"the same, {SEEDS} networks at once"
        all_seeds = f"{all_seeds}, L = {depth}"
        rows += [
            Row(own, one, role=OURS),
            Row(all_seeds, many, f"{many / SEEDS:.3g} s per network", role=OURS, beside=own),
            Row(f"loop over layers in PyTorch, L = {depth}", loop, beside=own),
            Row(
                f"the same, {SEEDS} networks one after the other, L = {depth}", SEEDS * loop, beside=all_seeds
            ),
            Row(f"floor: the products alone, L = {depth}", floor, role=FLOOR, beside=own),
            Row(
                f"floor: the products of {SEEDS} networks alone, L = {depth}",
                floors,
                role=FLOOR,
                beside=all_seeds,
            ),
        ]
        if depth == depths[0]:
            targets.append(
                Target(f"L = {depth}: the loop takes as many times as long", loop / one, at_least=3)
            )
            words = f"L = {depth}: for {SEEDS} networks the loop takes as many times as long"
            targets.append(Target(words, SEEDS * loop / many, at_least=10))
    for checkpointing in (False, True):
        seconds, peak = measured(deep, checkpointing)
        kept = "the states of √L layers kept" if checkpointing else "all states kept"
        rows.append(
            Row(f"deeplimit.train, L = {deep}, {kept}", seconds, f"{peak:.0f} MiB at the peak", role=OURS)
        )
        targets.append(Target(f"L = {deep}, {kept}: MiB at the peak", peak, at_most=4096))
    setting = (
        f"one step of gradient descent, tanh, d = {WIDTH}, batch {BATCH}, one δ for all layers, one core"
    )
    return Workload("w5", setting, tuple(rows), {"width": WIDTH, "depths": depths}, tuple(targets))


def medians(works: list[Callable[[], float]], repeats: int) -> list[float]:
    """Return the median of the seconds that each returns on one core; in turn, as slow minutes slow all."""
    with threads_per_operation(1, torch.device("cpu")):
        rounds = [[work() for work in works] for _ in range(repeats)]
    return [statistics.median(seconds) for seconds in zip(*rounds, strict=True)]


def measured(depth: int, checkpointing: bool) -> tuple[float, float]:
    """Return seconds per step and peak MiB of training at one depth in a process of its own."""
    arguments = [sys.executable, "-c", PROGRAM, str(depth), str(checkpointing)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    seconds, peak = done.stdout.split()
    return float(seconds), float(peak)
