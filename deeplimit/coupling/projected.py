"""The streaming pass with the noise drawn through its products: the same joint law, about 2d normals a step."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from deeplimit.coupling.account import Account
from deeplimit.coupling.followers import Follower, NetworkFollower, limit_follower
from deeplimit.coupling.grid import Chunk
from deeplimit.coupling.moments import Moments
from deeplimit.coupling.pathwise import Tick, functions_of_limit, make_reference
from deeplimit.coupling.products import Normals, Products
from deeplimit.coupling.readers import Values
from deeplimit.coupling.references import Reference
from deeplimit.coupling.task import Task
from deeplimit.limits import ItoCorrectedSDE
from deeplimit.limits.cohen import TrendValue
from deeplimit.processes import FunctionPath, TrendAndNoise
from deeplimit.randomness import Purpose, generator


class _Trend:
    """A trend along the grid: its value, scaled, at the present time; None where there is none."""

    def __init__(self, path: FunctionPath | None, scale: float, h0: Tensor) -> None:
        self.values = None if path is None else Values(path, h0.shape[1], len(h0), h0.device)
        self.scale = scale
        self.now: TrendValue = None

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
    """Everything that runs along one path: networks, the limit, the products that couple them."""

    def __init__(self, task: Task, block: int) -> None:
        h0 = task.initial_states(block)
        self.h0 = h0.T.contiguous().T
        paths, width = h0.shape
        (law,) = task.network.weights
        own: tuple[FunctionPath, ...] = ()
        if law.functions:
            stream = generator(task.seed, Purpose.NETWORK_WEIGHTS, block, 0, task.device)
            own = (law.functions[0].sample(width, paths, stream, task.dtype, task.device),)
        self.trend = _Trend(own[0], law.functions[0].entry_scale(width), h0) if own else _Trend(None, 1.0, h0)
        self.networks = [NetworkFollower(self.h0, task.network, depth) for depth in task.grid.depths]
        self.columns: list[Follower] = list(self.networks)
        self.fine: Follower | None = None
        self.coarse: Follower | None = None
        self.outside: Reference | None = None
        self.trend_of_limit = _Trend(None, 1.0, h0)
        if task.shares_increments:
            self.fine = limit_follower(task.limit, self.h0)
            if isinstance(task.limit, ItoCorrectedSDE) and task.limit.trend is not None:
                (path,) = functions_of_limit(task, (task.limit.trend,), block, own, paths)
                self.trend_of_limit = _Trend(path, task.limit.trend.entry_scale(width), h0)
            if task.measures_reference:
                self.coarse = limit_follower(task.limit, self.h0)
                self.columns.append(self.coarse)
        else:
            self.outside = make_reference(task, block, h0, [], own)
        self.products = Products(len(self.columns), self.h0.T)
        shape = (width, paths)
        self.step_normals = Normals(shape, generator(task.seed, Purpose.STEP_PRODUCTS, block, 0, task.device), task.dtype)
        self.layer_normals = Normals(shape, generator(task.seed, Purpose.LAYER_PRODUCTS, block, 0, task.device), task.dtype)
        noise = law.noise if isinstance(law, TrendAndNoise) else None
        self.bias_normals: Normals | None = None
        if noise is not None and noise.b is not None:
            self.bias_normals = Normals(shape, generator(task.seed, Purpose.STEP_BIASES, block, 0, task.device), task.dtype)
        self.biases: list[Tensor | None] = [None] * len(self.columns)  # Brownian motions of the biases since the layer's start
        self.starting = list(range(len(self.columns)))

    def trend_for(self, follower: Follower) -> TrendValue:
        return self.trend.now if isinstance(follower, NetworkFollower) else self.trend_of_limit.now

    def start(self, step: float) -> None:
        """Begin a layer of every column whose last one has ended; the coarse limit's are two fine steps long."""
        for column in self.starting:
            follower = self.columns[column]
            self.products.hold(column, follower.multiplied(self.trend_for(follower), 2 * step).T)
        self.starting = []
        self.before = self.trend_of_limit.now

    def pass_over(self, index: int, step: float) -> Tensor:
        """Move the limit and what is known of all products over a fine step; return the limit's state."""
        normals = self.step_normals.next()
        deepest = self.products.held[len(self.networks) - 1]  # any direction will do, and deep networks' are close to each other
        vector = deepest if self.fine is None else self.fine.multiplied(self.before, step).T
        product = self.products.pass_over(vector, normals, step)
        self.trend.at(index + 1)
        self.trend_of_limit.at(index + 1)
        bias: Tensor | None = None
        if self.bias_normals is not None:
            bias = (self.bias_normals.next() * math.sqrt(step)).T
            self.biases = [bias if sum_ is None else sum_ + bias for sum_ in self.biases]
        if self.fine is None:
            assert self.outside is not None
            return self.outside.step(index)
        self.fine.move(product.T, bias, step, self.trend_of_limit.now)
        return self.fine.state

    def end(self, column: int, length: float) -> None:
        """End a layer of a column."""
        follower = self.columns[column]
        product = self.products.take(column, self.layer_normals.next())
        follower.move(product.T, self.biases[column], length, self.trend_for(follower))
        self.biases[column] = None
        self.starting.append(column)


@torch.no_grad()
def run_block(task: Task, block: int, tick: Tick | None = None) -> Moments:
    """Advance one block with the noise drawn through its products; returns and `tick` as in `pathwise.run_block`."""
    run = Block(task, block)
    account = Account(task, run.h0)
    depths = task.grid.depths
    deepest_first = range(len(depths) - 1, -1, -1)
    for chunk in task.grid.chunks():
        run.trend.begin(chunk)
        run.trend_of_limit.begin(chunk)
        if run.outside is not None:
            run.outside.begin(chunk)
        ends = chunk.ends.tolist()
        coarse_ends, common = chunk.coarse.tolist(), chunk.common.tolist()
        for index, step in enumerate(chunk.steps.tolist()):
            run.start(step)
            limit = run.pass_over(index, step)
            coarse = run.coarse if coarse_ends[index] else None
            if coarse is not None:
                run.end(len(depths), 2 * step)
            account.at(limit, None if coarse is None else coarse.state, common[index])
            for j in deepest_first:
                account.between(j, run.networks[j].state)
                if ends[index][j]:
                    run.end(j, 1.0 / depths[j])
                    account.layer(j, run.networks[j].state)
        if tick is not None:
            tick(len(ends) / task.grid.size)
    return account.moments()
