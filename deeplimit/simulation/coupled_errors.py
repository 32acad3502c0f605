"""A run of `compare`: from checked arguments to a task, and from its blocks to what the statistics need."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from deeplimit.common.initial_layer import initial_layer
from deeplimit.common.measurement import Arrays, Measurement, Tick
from deeplimit.common.specification import describe
from deeplimit.driving import (
    ChannelKind,
    channels_of,
    check_depths,
    functions_of,
    motions_in_words,
)
from deeplimit.driving.path import Grid, uniform_size
from deeplimit.equations import Independent, Limit, Sharing, read_limit
from deeplimit.networks.residual_network import ResidualNetwork
from deeplimit.simulation import gradients, pathwise
from deeplimit.simulation.kernels import numba_pass, projected, triton_pass
from deeplimit.simulation.moments import Moments
from deeplimit.simulation.one_path import OnePath, draw_again
from deeplimit.simulation.task import (
    GRADIENT,
    STATE,
    Statistic,
    Task,
    compiled_steps,
    failed_precondition,
    read_statistic,
    sharing,
    splits,
    try_statistic,
)
from deeplimit.theory import in_law_only

COUPLINGS = ("auto", "projected", "pathwise")
LEAST_WIDTH = {"cpu": 8, "cuda": 1}
LEAST_WIDTH_IN_TORCH = {"cpu": 32, "cuda": 256}
"""Narrower networks take whole matrices, which then cost no more than their products do. The first width is
for tasks with a compiled pass, or on a GPU with the kernel's, the second for those that torch steps through.
With n inputs through one network the products cost like n². The choice depends only on the arguments, never
on installed packages, so results are the same on every machine. Seconds on an H200, 2,048 paths: res-1 with
GELU at width 16 takes 0.39 by products and 0.15 by matrices, at width 128 0.68 and 0.35.
"""
NUMBERS_PER_BLOCK = {"cpu": 2**17, "cuda": 2**24}
PROJECTED_NUMBERS_PER_BLOCK = {"cpu": 2**16, "cuda": 2**27}
"""Columns times width times paths of a projected block; a few tensors of that size should fit in a core's
cache.
"""
PROJECTED_PATHS_PER_BLOCK = {"cpu": 2**7, "cuda": 2**17}
FUNCTION_NUMBERS_PER_BLOCK = {"cpu": 2**21, "cuda": 2**26}
WHOLE_PATH_NUMBERS_PER_BLOCK = {"cpu": 2**23, "cuda": 2**28}
"""Increments per block where a path is held whole, as a fractional one is; a block has at least one path.
"""
GRADIENT_NUMBERS_PER_BLOCK = {"cpu": 2**25, "cuda": 2**30}
"""Numbers that the graphs of a block's layers keep."""
MOST_WHOLE_PATH_NUMBERS = 2**26
"""The most increments of one path that is held whole; more are refused."""


def make_task(
    network: ResidualNetwork,
    limit: object,
    x: Tensor | None,
    *,
    depths: tuple[int, ...],
    reference: int | None,
    norm: str | Statistic,
    p: float,
    paths: int,
    seed: int,
    device: torch.device,
    dtype: torch.dtype | None,
    tolerance: float | None,
    coupling: str = "auto",
    same_network: bool = False,
    quantity: str = STATE,
) -> Task:
    """Return the task for checked arguments; the limit is tried once on a few states.

    Raises TypeError or ValueError where the limit is not usable or its noise cannot be the network's.
    """
    for law, shape in network.laws_and_shapes:
        check_depths(law, shape, depths)
    statistic = read_statistic(norm)
    dense = statistic.looks_between_layers
    given, independent = Independent.unmarked(limit)
    wide = _natural_dtype(network, None)
    narrowed = dtype is None and wide == torch.float64 and _natural_dtype(network, given) == torch.float32
    if dtype is None:
        # A gradient is multiplied by every layer's Jacobian, and rounded each time.
        dtype = torch.float64 if quantity == GRADIENT else _natural_dtype(network, given)
    h0 = None if x is None else initial_layer(x, network.state_shape, seed, dtype)
    probe = torch.zeros(2, *network.state_shape) if h0 is None else h0[:2]
    drives = sum(channel.motions for channel in network.channels) or None
    probe = probe.to(device, dtype)
    try_statistic(statistic, probe)
    equation = read_limit(given, probe, None if independent else drives)
    _check_limit(network, equation, independent, reference, tolerance)
    shared = sharing(network, equation, independent)
    # Three differences are the fewest that can bend a line.
    keeps = quantity == STATE and not independent and not dense and len(depths) > 3
    measures = keeps and network.regime().rate is None
    fine = dense or (measures and equation.is_steep)
    grid = _grid(network, equation, shared, depths, reference, dense, fine)
    inputs, segments = len(h0) if same_network and h0 is not None else 1, 1
    if quantity == GRADIENT:
        used = "pathwise"
        block_size, segments = _gradient_blocks(network, equation, shared, device, grid)
    elif (used := _coupling(coupling, network, equation, independent, inputs, device)) == "projected":
        block_size = _projected_block_size(network, equation, device, grid, inputs)
    else:
        block_size = _block_size(network, equation, shared, device, grid)
    if shared.increments and (motions := equation.noise_size(probe)) not in (None, drives):
        raise ValueError(_of_other_motions(network, equation, drives, motions))
    if equation.width is not None and equation.width != network.width:
        raise ValueError(
            f"limit has width {equation.width}, but the network has width {network.width}; make them"
            " the same."
        )
    if equation.width is not None and equation.state_shape(network.width) != network.state_shape:
        raise ValueError(
            f"limit has states of shape {equation.state_shape(network.width)}, but those of the network have"
            f" shape {network.state_shape}; take network.limit(), or a limit of the same shape."
        )
    if not independent and (lacking := _not_shared(equation, shared)) is not None:
        read = "; ".join(dict.fromkeys(map(str, network.channels)))
        laws = "" if functions_of(network.channels) else "compare_laws(resnet, limit) compares their laws; "
        raise ValueError(
            f"limit {equation.equation} reads {lacking}, which is not the network's (it reads {read}): with"
            f" noise of their own the two differ path by path even if the limit is right. {laws}"
            "Independent(limit) measures, on purpose, how far independent draws are apart."
        )
    if tolerance is None:  # where nobody says the order, errors may be far smaller
        tolerance = (1e-11 if measures else 1e-9) if dtype == torch.float64 else 1e-6
    return Task(
        network=network,
        limit=equation,
        independent=independent,
        grid=grid,
        statistic=statistic,
        p=p,
        paths=paths,
        seed=seed,
        h0=h0,
        device=device,
        dtype=dtype,
        tolerance=tolerance,
        block_size=block_size,
        coupling=used,
        same_network=same_network,
        input_size=None if x is None else x[0].numel(),
        narrowed=narrowed,
        # How the gradients' distance to a scheme on a shared path falls, no theorem says.
        splits=splits(network, equation, shared) and not (shared.path and quantity == GRADIENT),
        quantity=quantity,
        segments=segments,
        keeps_differences=keeps,
    )


def _check_limit(
    network: ResidualNetwork,
    limit: Limit,
    independent: bool,
    reference: int | None,
    tolerance: float | None,
) -> None:
    """Raise ValueError where a limit cannot be compared on one path, or is given another kind's setting."""
    if limit.in_law_only:
        if network.regime().convergence == "in law":
            raise in_law_only(network)
        raise ValueError(
            f"limit is known in law only ({limit.equation}), so it shares no noise with a network;"
            " compare_laws takes it."
        )
    if independent and not limit.is_random:
        why = ", since its weights are deterministic" if limit.functions else ""
        raise ValueError(
            f"Independent needs a limit with noise to redraw; got {limit.equation}, which has none{why}."
        )
    if reference is not None and limit.setting != "reference":
        raise ValueError(
            f"reference= is the grid of an SDE limit, but {limit.equation} is {limit.kind}; use"
            f" {limit.setting}= instead."
        )
    if tolerance is not None and limit.setting != "tolerance":
        raise ValueError(
            f"tolerance= is for an ODE limit, but {limit.equation} is {limit.kind}; use {limit.setting}="
            " instead."
        )


def _not_shared(limit: Limit, shared: Sharing) -> str | None:
    """Return what a limit reads that is random and not the network's; None where there is nothing."""
    if limit.driven_by_brownian_motion and not shared.increments:
        return "Brownian motion"
    if limit.needs_equal_steps and not shared.path:
        return "a fractional path"
    random = any(not law.facts.deterministic for law in limit.functions)
    return "random functions of time" if random and not shared.functions else None


def _of_other_motions(network: ResidualNetwork, limit: Limit, drives: int | None, motions: int | None) -> str:
    advice = (
        f"the limit is of width {limit.width}, the network of width {network.width}: take network.limit()"
        if limit.width is not None
        else f"make g return (paths, {network.width}, {drives})"
    )
    return (
        f"limit has {motions} Brownian motions, but the network is driven by {drives}"
        f" ({motions_in_words(network.channels)}), so they cannot share their noise; {advice}."
    )


def _grid(
    network: ResidualNetwork,
    limit: Limit,
    shared: Sharing,
    depths: tuple[int, ...],
    reference: int | None,
    dense: bool,
    fine: bool,
) -> Grid:
    """Return the times of all layers and of the reference.

    Where a path is held whole, steps are equal; ValueError if that takes too many.
    """
    whole = any(channel.kind is ChannelKind.FRACTIONAL for channel in network.channels)
    if not whole and not limit.needs_equal_steps:
        solved = limit.setting == "reference" or dense
        steps = reference if reference is not None else (4 if fine else 2) * depths[-1]
        return Grid(depths, (steps,) if solved else ())
    twice = shared.path
    factor = 8 if twice else 4 if dense else 2
    least = reference if reference is not None else factor * depths[-1]
    if limit.setting == "tolerance" and not dense:
        least = depths[-1]
    halvings = 2 if twice else 1
    size = halvings * uniform_size(depths, -(-least // halvings))
    held = _held_per_step(network, limit, shared)
    if size * held > MOST_WHOLE_PATH_NUMBERS:
        doubling = [depths[0]]
        while 2 * doubling[-1] <= depths[-1] and 16 * doubling[-1] <= MOST_WHOLE_PATH_NUMBERS // held:
            doubling.append(2 * doubling[-1])
        fits = MOST_WHOLE_PATH_NUMBERS // held
        advice = (
            f"Doubling depths need fewer, such as {doubling}."
            if len(doubling) > 1 and 8 * doubling[-1] <= fits
            else f"At width {network.width} about {fits} steps fit: take shallower or narrower networks."
        )
        raise ValueError(
            f"depths {list(depths)} need one grid of {size} equal steps, a multiple of their least common"
            f" multiple {math.lcm(*depths)}, on which a fractional path of {held} numbers per step is drawn"
            f" whole; that is more than {MOST_WHOLE_PATH_NUMBERS} numbers per path. {advice}"
        )
    return Grid(depths, (size // halvings,), halved=twice)


def _held_per_step(network: ResidualNetwork, limit: Limit, shared: Sharing) -> int:
    """Return the numbers in memory per path and step of the grid: the weights' and the limit's."""
    held = sum(each.held for each in network.channels if each.kind is not ChannelKind.FUNCTION)
    return held + limit.held_per_step(shared)


def _natural_dtype(network: ResidualNetwork, limit: object) -> torch.dtype:
    """Return the dtype of a module's parameters and buffers, else one that suits how errors fall.

    That is float64 where errors may fall like 1/L, float32 for layers driven by Brownian motion.
    """
    if isinstance(limit, torch.nn.Module):
        for held in (*limit.parameters(), *limit.buffers()):
            if held.dtype in (torch.float32, torch.float64):
                return held.dtype
    smooth = not all(channel.motions for channel in network.channels)
    return torch.float64 if smooth and network.regime().name != "sde" else torch.float32


def _coupling(
    asked: str, network: ResidualNetwork, limit: Limit, independent: bool, inputs: int, device: torch.device
) -> str:
    """Return the coupling to use; raise ValueError where the one asked for cannot be had."""
    shares = limit.driven_by_brownian_motion and not independent
    why = failed_precondition(network, limit, shares)
    if asked == "projected" and why is not None:
        raise ValueError(
            f"coupling='projected' draws products in place of matrices, but {why}; use 'pathwise', or 'auto'."
        )
    if asked != "auto":
        return asked
    compiled = inputs == 1 and shares and why is None and compiled_steps(network, limit) is not None
    if device.type == "cuda":
        compiled = compiled and triton_pass.knows(network, limit)
    least = (LEAST_WIDTH if compiled else LEAST_WIDTH_IN_TORCH)[device.type]
    return "projected" if why is None and network.width >= least * inputs**2 else "pathwise"


def _projected_block_size(
    network: ResidualNetwork, limit: Limit, device: torch.device, grid: Grid, inputs: int
) -> int:
    columns = (len(grid.depths) + 1) * inputs
    fits = PROJECTED_NUMBERS_PER_BLOCK[device.type] // (columns * max(network.width, columns))
    by_functions = FUNCTION_NUMBERS_PER_BLOCK[device.type] // _numbers_of_functions(network, limit)
    most = min(fits, by_functions, PROJECTED_PATHS_PER_BLOCK[device.type])
    # A power of two: whole vector registers, and blocks that share out evenly.
    return 1 << (max(1, most).bit_length() - 1)


def _numbers_of_functions(network: ResidualNetwork, limit: Limit) -> int:
    """Return the most numbers that one path of a function of time holds, at least 1."""
    channels = network.channels
    if limit.functions != functions_of(channels):
        square = (network.width, network.width)
        channels += channels_of(limit.functions, [square] * len(limit.functions))
    held = [channel.held for channel in channels if channel.kind is ChannelKind.FUNCTION]
    return max([1, *held])


def _block_size(
    network: ResidualNetwork, limit: Limit, shared: Sharing, device: torch.device, grid: Grid
) -> int:
    """Return how many paths fit in cache at once, by the specification alone."""
    largest = max([math.prod(network.state_shape), *map(math.prod, network.weight_shapes)])
    by_increments = NUMBERS_PER_BLOCK[device.type] // largest
    by_functions = FUNCTION_NUMBERS_PER_BLOCK[device.type] // _numbers_of_functions(network, limit)
    if (held := _held_per_step(network, limit, shared)) > 0:
        by_paths = WHOLE_PATH_NUMBERS_PER_BLOCK[device.type] // (grid.size * held)
        return max(1, min(by_paths, by_increments, by_functions))
    return max(4, min(by_increments, by_functions, 4096 if device.type == "cpu" else 2**17))


def _gradient_blocks(
    network: ResidualNetwork, limit: Limit, shared: Sharing, device: torch.device, grid: Grid
) -> tuple[int, int]:
    """Return how many paths fit at once, and in how many segments their graphs must be kept.

    ValueError where one path's gradients or the shortest segment's graph do not fit.
    """
    entries = math.prod(network.state_shape)
    per_layer = 16 * entries + sum(map(math.prod, network.weight_shapes))
    layers = sum(grid.depths) if limit.setting == "tolerance" else grid.size + 2 * sum(grid.depths)
    segments = -(-layers * per_layer // MOST_WHOLE_PATH_NUMBERS)
    if segments > grid.common or layers * entries > MOST_WHOLE_PATH_NUMBERS:
        raise ValueError(
            f"quantity='gradient' keeps graphs of {layers} layers and steps with their weights, some"
            f" {layers * per_layer:.1e} numbers per path; {MOST_WHOLE_PATH_NUMBERS:.1e} fit at once. Graphs"
            f" are cut at times that all depths share, into at most {grid.common} equal part"
            f"{'s' * (grid.common > 1)}. Take shallower or narrower networks, or depths with a larger common"
            " divisor."
        )
    fits = GRADIENT_NUMBERS_PER_BLOCK[device.type] // (layers * per_layer)
    return max(1, min(_block_size(network, limit, shared, device, grid), fits)), segments


@dataclass(frozen=True)
class Coupled:
    """What a run measured: moments of the per-path errors, and the reference's error."""

    moments: Moments
    reference_error: float


@dataclass(frozen=True)
class Part:
    """What a block measured: moments of its paths, or the reference's error."""

    moments: Moments | None = None
    reference_error: float = 0.0


@final
@dataclass(frozen=True)
class CoupledErrors(Measurement[Part, Coupled]):
    """Per-path errors of a task; the last block of an ODE limit measures the reference's error."""

    task: Task

    what = "compare"

    @property
    def blocks(self) -> int:
        return self.task.blocks + self.task.is_ode

    def run(self, block: int, tick: Tick | None = None) -> Part:
        if block < self.task.blocks:
            return Part(self.work(self.task, block, tick))
        if self.task.quantity == GRADIENT:
            error = gradients.reference_error(self.task)
        else:
            error = pathwise.reference_error(self.task)
        if tick is not None:
            tick(1.0)
        return Part(reference_error=error)

    @property
    def work(self) -> Callable[[Task, int, Tick | None], Moments]:
        """The pass that runs a block: the fastest one that supports the task."""
        if self.task.quantity == GRADIENT:
            return gradients.run_block
        if self.task.coupling != "projected":
            return pathwise.run_block
        if triton_pass.applies(self.task):
            return triton_pass.run_block
        return numba_pass.run_block if numba_pass.applies(self.task) else projected.run_block

    def merge(self, parts: Iterator[Part]) -> Coupled:
        whole, error = None, 0.0
        for part in parts:
            error = max(error, part.reference_error)
            if part.moments is not None:
                whole = part.moments if whole is None else whole.merge(part.moments)
        assert whole is not None  # every task has a path
        return Coupled(whole, error)

    def key(self) -> dict[str, Any]:
        """Return all but the number of paths, which `label` has of each block."""
        described = describe(self.task, "task")
        return {**described, "computed by": self.work.__module__, "paths": "as many as a block says"}

    def label(self, block: int) -> str:
        if block < self.task.blocks:
            return f"{block}, {self.task.held(block)} paths"
        return f"error of the reference, {self.task.held(0)} paths"

    def path(self, index: int, *which: int) -> OnePath:
        compiled = self.work is numba_pass.run_block
        errors_of = numba_pass.errors_again if compiled else None
        return draw_again(self.task, index, which[0] if which else 0, errors_of)

    def name(self) -> str:
        task = self.task
        return f"compare: {task.network}; depths {[*task.grid.depths]}, {task.paths} paths, seed {task.seed}"

    def write(self, part: Part) -> Arrays:
        if part.moments is None:
            return {"reference_error": np.array(part.reference_error)}
        return part.moments.arrays()

    def read(self, arrays: Arrays) -> Part:
        if "reference_error" in arrays:
            return Part(reference_error=float(arrays["reference_error"]))
        return Part(Moments.from_arrays(arrays))
