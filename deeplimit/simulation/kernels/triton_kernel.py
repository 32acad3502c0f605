"""The projected coupling on a GPU: the whole path of all depths in one kernel.

For res-1 with independent Gaussian layers, h_{k+1} = h_k + scale ΔB σ(h_k), against Euler's scheme on the
union grid. No d × d matrix is ever drawn: about 2 d normals per step serve all depths, and memory does
not grow with depth. The kernel itself is `triton_source`, imported with Triton when it is first called.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deeplimit.driving.path import Grid

ACTIVATIONS = ("identity", "relu", "tanh")
MOST_DEPTHS = 30
"""The bits of a step's flags that are left beside the one for common times."""
COMMON = 30
RELATIVE_FLOOR = (8 * torch.finfo(torch.float32).eps) ** 2
"""A residual variance below this share of the product's own is rounding, on which nothing may be regressed.
"""
NUMBERS_PER_THREAD = 210
"""What one thread keeps from step to step, of the 255 registers it can have; the others are for what a step
computes. On an H200 a kernel that keeps 209 spills none, and one that keeps 269 spills 110.
"""
CHUNKS_PER_THREAD = 5
"""More are slower than twice the lanes within a warp. Milliseconds on an H200, 65,536 paths, depths 16 to
256: at width 16 with 8 chunks 4.98, with 4 4.40; width 40, 10 and 5: 13.9 and 12.9; width 64, 8 and 4: 19.9
and 16.9; width 128: 39.7 and 34.2. Fewer than these are slower again.
"""
LANES_OF_A_WARP = 32
"""More lanes wait for other warps: at width 256, 81 ms with 32 and 106 with 64."""
INTERPRETED_PATHS = 4096


@dataclass(frozen=True)
class Schedule:
    """The steps of a grid as the kernel reads them: square roots of lengths (K,) float32, flags (K,) int32.

    Bit j of a step's flags says that a layer of depth j ends with it, bit 30 that the time is common to all
    depths. Ends are counted in the order in which they are processed: by time, and the deepest network first.
    `open_pairs` has bit j·(number of depths) + i where a layer of depth i can be running or waiting when one
    of depth j ends.
    """

    roots: Tensor
    flags: Tensor
    ends: int
    open_pairs: int


@dataclass(frozen=True)
class Launch:
    """How paths lie on the device: `lanes` threads per path; per program `paths` paths and `warps` warps."""

    lanes: int
    paths: int
    warps: int


@dataclass(frozen=True)
class KernelErrors:
    """Distances ‖h_j − h‖ of every depth and path, (J, P) float32: over all layers' ends or common times.

    `differences` (3 J - 4, P) are of neighbouring depths at common times: J - 1 sizes, then at the last time
    their squares and the products of neighbours; None unless asked for. `finite` (P,) says whether the
    reference stayed finite; a path that did not has errors that are not finite or mean nothing.
    """

    errors: Tensor
    common: Tensor
    differences: Tensor | None
    finite: Tensor


def make_schedule(grid: Grid, device: torch.device | str = "cpu") -> Schedule:
    """Return the schedule of a grid; raise ValueError unless its depths ascend and are at most 30."""
    return _schedule(grid, torch.device(device))


@lru_cache(maxsize=4)
def _schedule(grid: Grid, device: torch.device) -> Schedule:
    depths = grid.depths
    if not depths or list(depths) != sorted(set(depths)):
        raise ValueError(f"depths must ascend without repetition, got {list(depths)}.")
    if len(depths) > MOST_DEPTHS:
        raise ValueError(f"depths must be at most {MOST_DEPTHS} for the kernel, got {len(depths)}.")
    bits = 1 << np.arange(len(depths), dtype=np.int64)
    lengths, flags = [], []
    for chunk in grid.chunks():
        lengths.append(chunk.steps)
        flags.append(chunk.ends @ bits + (chunk.common.astype(np.int64) << COMMON))
    steps = np.concatenate(lengths)
    pairs = [
        (j, i) for j in range(len(depths)) for i in range(len(depths)) if i < j or depths[i] % depths[j] != 0
    ]
    return Schedule(
        torch.tensor(np.sqrt(steps), dtype=torch.float32, device=device),
        torch.tensor(np.concatenate(flags), dtype=torch.int32, device=device),
        sum(depths),
        sum(1 << (j * len(depths) + i) for j, i in pairs),
    )


def group_size(width: int) -> int:
    """Return how many counters draw one path's numbers at one event: a power of two, at least width/4."""
    return 1 << (math.ceil(width / 4) - 1).bit_length()


def choose_launch(width: int, depths: int, paths: int, interpreted: bool = False) -> Launch:
    """Return the launch for a size: the fewest lanes per path that keep few chunks, in registers.

    Every lane costs exchanges. A chunk keeps three numbers per depth (state, operand, mean) and one of the
    reference. In addition there are a covariance per pair of depths and three sizes per depth. A program is
    one warp, which never waits, unless a path needs more lanes.
    """
    if interpreted:  # one chunk, whose operations are numpy's
        return Launch(4 * group_size(width), min(INTERPRETED_PATHS, 1 << (paths - 1).bit_length()), 1)
    lanes = 1
    while lanes < width and (
        _kept(width, depths, lanes) > NUMBERS_PER_THREAD
        or (lanes < LANES_OF_A_WARP and math.ceil(width / lanes) > CHUNKS_PER_THREAD)
    ):
        lanes *= 2
    warps = max(1, lanes // LANES_OF_A_WARP)
    return Launch(lanes, LANES_OF_A_WARP * warps // lanes, warps)


def _kept(width: int, depths: int, lanes: int) -> int:
    return (3 * depths + 1) * math.ceil(width / lanes) + depths * (depths + 1) // 2 + 3 * depths


def run_kernel(
    h0: Tensor,
    grid: Grid,
    activation: str,
    scales: Sequence[float],
    *,
    reference_scale: float | None = None,
    noise: tuple[Tensor, Tensor] | None = None,
    seed: int | None = None,
    first_path: int = 0,
    final: bool = False,
    consecutive: bool = False,
    launch: Launch | None = None,
) -> KernelErrors:
    """Return the errors of the paths that start in h0 (P, d) float32, on h0's device.

    A layer of depth j adds scales[j] ΔB σ(h), a step of the reference `reference_scale` ΔB σ(h), 1/√d unless
    given. The noise is given, as (steps, P, d) and (ends, P, d) standard normals, or drawn from `seed`. There
    is a counter per event, path (numbered from `first_path`) and coordinate, so a path's numbers depend on
    nothing else. `final` keeps the last error instead of the largest one; `consecutive`, for two depths or
    more, the differences of neighbouring depths too.

    Raises ImportError without Triton, TypeError or ValueError for arguments that do not fit together. Norms
    are squared in float32: paths whose norm leaves 1e-15 … 1e15 lose accuracy, and are lost beyond 1e19.
    """
    source = _source()
    plan = make_schedule(grid, h0.device)
    _check(h0, grid, plan, activation, scales, noise, seed, first_path, consecutive)
    interpreted = source.is_interpreted()
    if h0.device.type != "cuda" and not interpreted:
        raise ValueError(
            f"h0 lies on {h0.device}, but the kernel runs on a CUDA device (or interpreted, with"
            " TRITON_INTERPRET=1)."
        )
    paths, width = h0.shape
    depths = len(grid.depths)
    if launch is None:
        launch = choose_launch(width, depths, paths, interpreted)
    h0 = h0.contiguous()
    step_noise, end_noise = (h0, h0) if noise is None else (part.contiguous() for part in noise)
    squares = torch.empty(2, depths, paths, dtype=torch.float32, device=h0.device)
    rows = 3 * depths - 4 if consecutive else 0
    differences = torch.empty(rows, paths, dtype=torch.float32, device=h0.device)
    finite = torch.empty(paths, dtype=torch.int32, device=h0.device)
    key = 0 if seed is None else seed
    source.coupled_errors[(-(-paths // launch.paths),)](
        h0,
        plan.roots,
        plan.flags,
        torch.tensor(scales, dtype=torch.float32, device=h0.device),
        torch.tensor(
            [RELATIVE_FLOOR / depth for depth in grid.depths], dtype=torch.float32, device=h0.device
        ),
        step_noise,
        end_noise,
        squares,
        differences if consecutive else squares,
        finite,
        len(plan.roots),
        paths,
        width,
        first_path,
        _signed(key),
        _signed(key >> 32),
        width**-0.5 if reference_scale is None else reference_scale,
        DEPTHS=depths,
        OPEN=plan.open_pairs,
        ACTIVATION=activation,
        FINAL=final,
        CONSECUTIVE=consecutive,
        DRAWN=noise is None,
        GROUP=group_size(width),
        LANES=launch.lanes,
        CHUNKS=-(-width // launch.lanes),
        PATHS=launch.paths,
        num_warps=launch.warps,
        enable_fp_fusion=True,  # the default differs between releases
    )
    errors, common = squares.sqrt_().unbind()
    differences[: depths - 1].sqrt_()
    return KernelErrors(errors, common, differences if consecutive else None, finite.bool())


def _signed(word: int) -> int:
    """Return the low 32 bits as a signed number, which a kernel takes without being compiled again."""
    word &= 0xFFFFFFFF
    return word - (1 << 32) if word >> 31 else word


def _source() -> Any:
    try:
        import triton  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "the kernel needs Triton, which is not installed: pip install 'deeplimit[gpu]'."
        ) from error
    from deeplimit.simulation.kernels import triton_source

    return triton_source


def _check(
    h0: Tensor,
    grid: Grid,
    plan: Schedule,
    activation: str,
    scales: Sequence[float],
    noise: tuple[Tensor, Tensor] | None,
    seed: int | None,
    first_path: int,
    consecutive: bool,
) -> None:
    if h0.ndim != 2 or h0.numel() == 0 or h0.dtype != torch.float32:
        raise TypeError(
            f"h0 must be float32 of shape (paths, width), got {h0.dtype} of shape {tuple(h0.shape)}."
        )
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation {activation!r} is not one of the kernel's: {', '.join(ACTIVATIONS)}.")
    if len(scales) != len(grid.depths):
        raise ValueError(f"scales must be one for each of the {len(grid.depths)} depths, got {len(scales)}.")
    if consecutive and len(grid.depths) < 2:
        raise ValueError(f"consecutive differences need two depths or more, got {len(grid.depths)}.")
    if first_path < 0 or first_path + len(h0) > 2**31 - 1:
        raise ValueError(f"paths must be numbered from 0 to 2^31 - 2, got {len(h0)} from {first_path} on.")
    if (noise is None) == (seed is None):
        raise ValueError("exactly one of noise and seed must be given.")
    if seed is not None and not 0 <= seed < 2**64:
        raise ValueError(f"seed must be from 0 to 2^64 - 1, got {seed}.")
    if noise is not None:
        for part, events in zip(noise, (len(plan.roots), plan.ends), strict=True):
            if part.shape != (events, *h0.shape) or part.dtype != h0.dtype or part.device != h0.device:
                raise ValueError(
                    f"noise must be float32 of shapes {(len(plan.roots), *h0.shape)} and"
                    f" {(plan.ends, *h0.shape)} on h0's {h0.device}, got {part.dtype} of shape"
                    f" {tuple(part.shape)} on {part.device}."
                )
