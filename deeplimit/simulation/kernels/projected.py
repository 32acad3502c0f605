"""The streaming pass with noise drawn through its products: the same law, about 2d normals per step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from deeplimit.common.randomness import Purpose, generator
from deeplimit.driving import SampledFunction, functions_of, noise_of
from deeplimit.driving.path import Chunk, Values
from deeplimit.equations import FunctionValue, Solver, Stepper
from deeplimit.simulation.kernels.products import Normals, Products
from deeplimit.simulation.moments import ErrorAccumulator, Moments, moments_of
from deeplimit.simulation.pathwise import Observer, Tick, drive
from deeplimit.simulation.task import NetworkStepper, Task


class _Trend:
    """A trend along the grid: its value, scaled, at the present time; None where there is none."""

    def __init__(self, path: SampledFunction | None, scale: float, h0: Tensor) -> None:
        self.values = None if path is None else Values(path, (h0.shape[1], h0.shape[1]), len(h0), h0.device)
        self.scale = scale
        self.now: FunctionValue = None

    def begin(self, chunk: Chunk) -> None:
        if self.values is not None:
            self.values.begin(np.concatenate([[chunk.start], chunk.times]))
            self.at(0)

    def at(self, index: int) -> None:
        """Move to the start of step `index` of the chunk."""
        if self.values is not None:
            matrix, bias = self.values.at(index)
            self.now = matrix * self.scale, bias


class Block:
    """All that runs along one path: networks and limit, for each input, and the products between them."""

    def __init__(self, task: Task, block: int) -> None:
        self.starts = [h0.T.contiguous().T for h0 in task.starts(block)]
        paths, width = self.starts[0].shape
        self.depths = task.grid.depths
        channels, shape, limit = task.network.channels, (width, width), task.limit
        functions: tuple[SampledFunction, ...] = ()
        if laws := functions_of(channels):
            stream = generator(task.seed, Purpose.NETWORK_WEIGHTS, block, 0, task.device)
            functions = (laws[0].sample(shape, paths, stream, task.dtype, task.device),)
        still = _Trend(None, 1.0, self.starts[0])
        self.trend = self.trend_of_limit = still
        if functions:
            self.trend = _Trend(functions[0], laws[0].entry_scale(shape), self.starts[0])
        # Columns: every depth's networks, one for each input, shallow depths first; then, where the error is
        # split, the limit's schemes on their layers in the same order.
        self.columns: list[Stepper] = [
            NetworkStepper(h0, task.network, depth) for depth in self.depths for h0 in self.starts
        ]
        self.fine: list[Stepper] = []
        self.outside: list[Solver] = []
        driven = [drive(task, block, h0, (), functions) for h0 in task.starts(block)]
        if task.sharing.increments:
            self.fine = [limit.stepper(h0) for h0 in self.starts]
            if limit.functions:
                (function,) = driven[0].functions_for(limit.functions, (shape,))
                scale = limit.functions[0].entry_scale(shape)
                self.trend_of_limit = _Trend(function, scale, self.starts[0])
        else:
            self.outside = [limit.solver(each) for each in driven]
        self.networks = len(self.columns)
        if task.splits:
            self.columns += [limit.stepper(h0) for _ in self.depths for h0 in self.starts]
        self.products = Products(len(self.columns), self.starts[0].T)
        sizes = (width, paths)
        self.step_normals = Normals(
            sizes, generator(task.seed, Purpose.STEP_PRODUCTS, block, 0, task.device), task.dtype
        )
        self.layer_normals = Normals(
            sizes, generator(task.seed, Purpose.LAYER_PRODUCTS, block, 0, task.device), task.dtype
        )
        self.bias_normals: Normals | None = None
        if (noise := noise_of(channels)) is not None and noise.b is not None:
            self.bias_normals = Normals(
                sizes, generator(task.seed, Purpose.STEP_BIASES, block, 0, task.device), task.dtype
            )
        # Brownian motions of the biases since the layer's start.
        self.biases: list[Tensor | None] = [None] * len(self.columns)
        self.starting = list(range(len(self.columns)))

    def trend_for(self, stepper: Stepper) -> FunctionValue:
        return self.trend_of_limit.now if stepper.reads_limit_trend else self.trend.now

    def begin(self, chunk: Chunk) -> None:
        """Prepare for the steps of `chunk`."""
        self.trend.begin(chunk)
        if self.trend_of_limit is not self.trend:
            self.trend_of_limit.begin(chunk)
        for reference in self.outside:
            reference.begin(chunk)

    def start(self) -> None:
        """Begin a layer of every column whose last one has ended."""
        for column in self.starting:
            stepper, length = self.columns[column], 1.0 / self.depth_of(column)
            self.products.hold(column, stepper.multiplied(self.trend_for(stepper), length).T)
        self.starting = []

    def depth_of(self, column: int) -> int:
        """Return the depth of a network, or of the layers that a scheme runs on."""
        return self.depths[column % self.networks // len(self.starts)]

    def pass_over(self, index: int, step: float) -> list[Tensor]:
        """Move the limit and what is known of all products over a fine step; return the limit's states."""
        vectors = [stepper.multiplied(self.trend_of_limit.now, step).T for stepper in self.fine]
        if not self.fine:  # any directions will do; the networks stay close to the deepest ones'
            last = self.networks
            vectors = list(self.products.held[last - len(self.starts) : last].clone())
        products = self.products.pass_over(vectors, [self.step_normals.next().clone() for _ in vectors], step)
        self.trend.at(index + 1)
        if self.trend_of_limit is not self.trend:
            self.trend_of_limit.at(index + 1)
        bias: Tensor | None = None
        if self.bias_normals is not None:
            bias = (self.bias_normals.next() * math.sqrt(step)).T
            self.biases = [bias if passed is None else passed + bias for passed in self.biases]
        for stepper, product in zip(self.fine, products, strict=False):
            stepper.move(product.T, bias, step, self.trend_of_limit.now)
        return [stepper.state for stepper in self.fine] or [
            reference.step(index) for reference in self.outside
        ]

    def end(self, column: int) -> Tensor:
        """End a layer of a column; return the state after it."""
        stepper, length = self.columns[column], 1.0 / self.depth_of(column)
        product = self.products.take(column, self.layer_normals.next())
        stepper.move(product.T, self.biases[column], length, self.trend_for(stepper))
        self.biases[column] = None
        self.starting.append(column)
        return stepper.state


@torch.no_grad()
def run_block(
    task: Task,
    block: int,
    tick: Tick | None = None,
    accumulator: Callable[[Task, Tensor], ErrorAccumulator] = ErrorAccumulator,
) -> Moments:
    """Advance one block with noise drawn through its products; result and `tick` as `pathwise.run_block`."""
    run = Block(task, block)
    accumulators = [accumulator(task, h0) for h0 in run.starts]
    for _ in steps(task, run, accumulators, tick):
        pass
    return moments_of(accumulators, task)


def steps(
    task: Task, run: Block, accumulators: Sequence[Observer], tick: Tick | None = None
) -> Iterator[None]:
    """Advance a block over the grid, and pause after every step."""
    inputs, depths = len(run.starts), len(run.depths)
    for chunk in task.grid.chunks():
        run.begin(chunk)
        ends, common = chunk.ends.tolist(), chunk.common.tolist()
        for index, step in enumerate(chunk.steps.tolist()):
            run.start()
            limits = run.pass_over(index, step)
            for limit, kept in zip(limits, accumulators, strict=True):
                kept.at(limit, None, common[index])
            ending = [
                j * inputs + i
                for j in reversed(range(depths))
                for i in reversed(range(inputs))
                if ends[index][j]
            ]
            schemes = {c: run.end(run.networks + c) for c in ending} if task.splits else {}
            for j in reversed(range(depths)):
                for i in reversed(range(inputs)):
                    column = j * inputs + i
                    accumulators[i].between(j, run.columns[column].state)
                    if ends[index][j]:
                        accumulators[i].layer(j, run.end(column), schemes.get(column))
            yield
        if tick is not None:
            tick(len(ends) / task.grid.size)
