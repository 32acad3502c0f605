"""Every door of `compare` beside the loop that a competent user writes: widths, theorems, weights.

Both run on one thread and are timed in processor seconds, so that a busy machine changes the ratios little.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

import deeplimit as dl
from benchmarks.students_loop import brownian, errors, on_a_grid, times
from benchmarks.timing import ALTERNATIVE, OURS, Row, Target, Workload, processor_seconds

DEPTHS, PATHS = (16, 32, 64, 128, 256), 512
W1_DEPTHS = (*DEPTHS, 512, 1024)
WIDE, FEWER = 100, 32
"""From this width on the loop is timed on a part of the paths, and its time multiplied: it takes minutes."""
QUICK_DEPTHS, QUICK_PATHS = (16, 32, 64), 64
HURST, LENGTH_SCALE = 0.7, 0.1


@dataclass(frozen=True)
class Door:
    """A network, what the user's loop is for it, and how many times as long the loop is to take at least."""

    name: str
    network: dl.ResidualNetwork
    loop: Callable[[tuple[int, ...], int], list[float]]
    at_least: float


def independent(width: int, at_least: float) -> Door:
    """Return Proposition 11 at this width."""

    def step(h: torch.Tensor, dB: tuple[torch.Tensor, ...], _: float) -> torch.Tensor:
        return h + times(dB[0], torch.tanh(h)) / math.sqrt(width)

    def loop(depths: tuple[int, ...], paths: int) -> list[float]:
        reference = 2 * depths[-1]
        return errors(step, step, brownian(reference, (width, width)), width, depths, reference, paths)

    return Door(f"Proposition 11, tanh, d = {width}", dl.res1(width, "tanh"), loop, at_least)


def corrected(width: int, at_least: float) -> Door:
    """Return Theorem 4.4 with σ''(0) ≠ 0."""
    variances = 0.05, 0.25

    def layer(h: torch.Tensor, dW: tuple[torch.Tensor, ...], _: float) -> torch.Tensor:
        inside = math.sqrt(variances[0]) * times(dW[0], h) + math.sqrt(variances[1]) * dW[1]
        return h + 2 * torch.nn.functional.silu(inside)

    def limit(h: torch.Tensor, dW: tuple[torch.Tensor, ...], dt: float) -> torch.Tensor:
        moved = math.sqrt(variances[0]) * times(dW[0], h) + math.sqrt(variances[1]) * dW[1]
        # 2 silu has the curvature 1 at 0, and Q is the same for all entries.
        drift = variances[0] * h.square().sum(dim=1, keepdim=True) + variances[1]
        return h + moved + 0.5 * drift * dt

    def loop(depths: tuple[int, ...], paths: int) -> list[float]:
        reference = 4 * depths[-1]
        draw = brownian(reference, (width, width), (width,))
        return errors(layer, limit, draw, width, depths, reference, paths)

    noise = dl.Ito(A=variances[0], b=variances[1])
    return Door(
        f"Theorem 4.4, 2 SiLU, d = {width}", dl.inner(width, "scaled_silu", noise=noise), loop, at_least
    )


def smooth(width: int, at_least: float) -> Door:
    """Return Proposition 12: layers read weights where they end, the limit takes steps 16 times as fine."""

    def step(h: torch.Tensor, V: tuple[torch.Tensor, ...], dt: float) -> torch.Tensor:
        return h + dt * times(V[0], torch.tanh(h)) / math.sqrt(width)

    def loop(depths: tuple[int, ...], paths: int) -> list[float]:
        reference = 16 * depths[-1]
        t = torch.arange(1, reference + 1, dtype=torch.float64) / reference
        kernel = torch.exp(-0.5 * ((t[:, None] - t) / LENGTH_SCALE) ** 2)
        draw = on_a_grid(kernel + 1e-7 * torch.eye(reference), width, width)
        return errors(step, step, draw, width, depths, reference, paths, adds=False)

    network = dl.res1(width, "tanh", weights=dl.SmoothGaussian(LENGTH_SCALE))
    return Door(f"Proposition 12, tanh, d = {width}", network, loop, at_least)


def fractional(width: int, at_least: float) -> Door:
    """Return the Young equation, the limit by the modified Euler scheme on steps eight times as fine."""

    def layer(h: torch.Tensor, dB: tuple[torch.Tensor, ...], _: float) -> torch.Tensor:
        return h + times(dB[0], torch.tanh(h)) / math.sqrt(width)

    def limit(h: torch.Tensor, dB: tuple[torch.Tensor, ...], dt: float) -> torch.Tensor:
        active = torch.tanh(h)
        return layer(h, dB, dt) + 0.5 * dt ** (2 * HURST) * (1 - active**2) * active / width

    def loop(depths: tuple[int, ...], paths: int) -> list[float]:
        reference = 8 * depths[-1]
        lag = torch.arange(reference, dtype=torch.float64)
        lag = (lag[:, None] - lag).abs()
        kernel = (lag + 1) ** (2 * HURST) + (lag - 1).abs() ** (2 * HURST) - 2 * lag ** (2 * HURST)
        draw = on_a_grid(0.5 * kernel / reference ** (2 * HURST), width, width)
        return errors(layer, limit, draw, width, depths, reference, paths)

    network = dl.res1(width, "tanh", weights=dl.FractionalBrownian(HURST))
    return Door(f"fractional weights, H = {HURST}, d = {width}", network, loop, at_least)


DOORS = (
    *((independent, *each) for each in ((4, 2.0), (8, 2.0), (40, 10.0), (100, 10.0), (256, 30.0))),
    (corrected, 10, 2.0),
    (smooth, 8, 2.0),
    (fractional, 8, 2.0),
)


def doors(quick: bool, repeats: int = 3) -> Workload:
    """Return the workload: a row of ours and one of the user's loop per door."""
    rows, targets = [], []
    for make, width, bound in DOORS[: 1 if quick else None]:
        door = make(width, bound)
        depths = DEPTHS if make is not independent else W1_DEPTHS
        depths, paths = (QUICK_DEPTHS, QUICK_PATHS) if quick else (depths, PATHS)
        ours = partial(dl.compare, door.network, depths=depths, paths=paths, workers=1)
        ours()  # compiles
        seconds, report = processor_seconds(ours, repeats)
        found = report.raw_errors.tolist()
        how = str(report.coupling.split(":")[0])
        rows.append(Row(door.name, seconds, how, found, OURS, door.name))
        part = min(paths, FEWER) if width >= WIDE else paths
        theirs, found = processor_seconds(partial(door.loop, depths, part), repeats)
        theirs *= paths / part
        rows.append(Row(f"{door.name}: a user's loop", theirs, "", found, ALTERNATIVE, door.name))
        targets.append(Target(f"{door.name}: a user's loop over ours", theirs / seconds, at_least=bound))
    setting = f"{PATHS} paths, one thread, processor seconds"
    return Workload("doors", setting, tuple(rows), {"quick": quick}, tuple(targets))
