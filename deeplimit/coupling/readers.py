"""One driving path, read as the layers of every depth at once."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor

from deeplimit.coupling.grid import Chunk
from deeplimit.recursions import Layer
from deeplimit.weights import (
    FractionalBrownian,
    FunctionPath,
    FunctionProcess,
    IncrementProcess,
    ItoStep,
    Process,
    TrendAndNoise,
)

VALUES_AT_ONCE = 2**21
"""How many function values are held at once; the times of a chunk are evaluated in pieces of this size."""


class Reader(ABC):
    """Reads one weight process along the union grid; `layer(j)` is depth j's layer that ends now."""

    paths: tuple[FunctionPath, ...] = ()
    """The functions of time that layers read, for a limit that reads them too."""

    @property
    def brownian(self) -> Tensor | None:
        """The Brownian increments (P, motions) of the current step; None where there are none."""
        return None

    def begin(self, chunk: Chunk) -> None:
        """Prepare for the steps of `chunk`."""

    @abstractmethod
    def step(self, index: int) -> None:
        """Move over step `index` of the current chunk."""

    @abstractmethod
    def layer(self, j: int) -> Layer:
        """Return the layer of depth j that ends now; call once, deeper depths first."""


class CoarseSums:
    """Sums fine increments into coarse ones, each from the next finer depth that it divides, so that sums
    are shared.
    """

    def __init__(self, depths: tuple[int, ...], like: Tensor) -> None:
        self.sums = [torch.empty_like(like) for _ in depths]
        self.started = [False] * len(depths)
        parents = [min((d for d in depths if d > own and d % own == 0), default=None) for own in depths]
        self.fed_by_steps = [j for j, parent in enumerate(parents) if parent is None]
        self.fed_by = [[j for j, parent in enumerate(parents) if parent == own] for own in depths]

    def _add(self, j: int, increment: Tensor) -> None:
        if self.started[j]:
            self.sums[j].add_(increment)
        else:
            self.sums[j].copy_(increment)
            self.started[j] = True

    def add(self, increment: Tensor) -> None:
        """Take in the increment of one fine step."""
        for j in self.fed_by_steps:
            self._add(j, increment)

    def take(self, j: int) -> Tensor:
        """Return the sum since depth j's last layer, and start the next; call once a layer, deeper depths
        first.
        """
        for coarser in self.fed_by[j]:
            self._add(coarser, self.sums[j])
        self.started[j] = False
        return self.sums[j]


class IncrementReader(Reader):
    """Draws fine increments and sums them into coarse layers."""

    def __init__(
        self,
        process: IncrementProcess,
        depths: tuple[int, ...],
        shape: tuple[int, int, int],
        generator: torch.Generator,
        dtype: torch.dtype,
    ) -> None:
        self.process = process
        self.depths = depths
        self.scale = process.entry_scale(shape[-1])
        self.generator = generator
        self.increment = torch.empty(shape, dtype=dtype, device=generator.device)
        self.sums = CoarseSums(depths, self.increment)

    @property
    def brownian(self) -> Tensor:
        return self.increment.flatten(1)

    def begin(self, chunk: Chunk) -> None:
        self.steps = chunk.steps

    def step(self, index: int) -> None:
        self.process.draw(float(self.steps[index]), self.increment, self.generator)
        self.sums.add(self.increment)

    def layer(self, j: int) -> Layer:
        return Layer(self.sums.take(j), self.depths[j], self.process.layer_exponent, self.scale)


class FractionalReader(Reader):
    """Holds a whole path on a grid of `count` equal steps, since increments remember each other; sums them
    into coarse layers.
    """

    def __init__(
        self,
        process: FractionalBrownian,
        depths: tuple[int, ...],
        width: int,
        paths: int,
        generator: torch.Generator,
        dtype: torch.dtype,
        count: int,
    ) -> None:
        self.process = process
        self.depths = depths
        self.count = count
        self.scale = process.entry_scale(width)
        self.increments = process.draw_increments(count, width, paths, generator, dtype)  # (N, P, d, d)
        self.sums = CoarseSums(self.depths, self.increments[0])
        self.next = 0

    @property
    def increment(self) -> Tensor:
        """The path's increment (P, d, d) over the current step."""
        return self.increments[self.next - 1]

    def step(self, index: int) -> None:
        self.next += 1
        self.sums.add(self.increment)

    def layer(self, j: int) -> Layer:
        return Layer(self.sums.take(j), self.depths[j], self.process.layer_exponent, self.scale)


class Values:
    """A function's values along given times, evaluated in pieces that fit in memory."""

    def __init__(self, path: FunctionPath, width: int, paths: int, device: torch.device) -> None:
        self.path = path
        self.device = device
        self.piece = max(1, VALUES_AT_ONCE // (paths * width * width))

    def begin(self, times: np.ndarray) -> None:
        self.times = torch.from_numpy(times).to(self.device)
        self.held = range(0)

    def at(self, index: int) -> tuple[Tensor, Tensor | None]:
        """Return matrix (1 or P, d, d) and bias (1 or P, d) at the time of this index; indices must not
        decrease.
        """
        if index not in self.held:
            self.held = range(index, min(index + self.piece, len(self.times)))
            times = self.times[self.held.start : self.held.stop]
            self.matrices, self.biases = self.path.at(times), self.path.bias_at(times)
        now = index - self.held.start
        return self.matrices[now], None if self.biases is None else self.biases[now]


class FunctionReader(Reader):
    """Evaluates the block's functions at the layers' ends; every depth reads the same value at the same
    time.
    """

    def __init__(
        self,
        process: FunctionProcess,
        depths: tuple[int, ...],
        path: FunctionPath,
        width: int,
        paths: int,
        device: torch.device,
    ) -> None:
        self.process = process
        self.depths = depths
        self.paths = (path,)
        self.values = Values(path, width, paths, device)
        self.scale = process.entry_scale(width)

    def begin(self, chunk: Chunk) -> None:
        self.values.begin(chunk.times)

    def step(self, index: int) -> None:
        self.now = self.values.at(index)

    def layer(self, j: int) -> Layer:
        matrix, bias = self.now
        return Layer(matrix, self.depths[j], self.process.layer_exponent, self.scale, bias)


class HypothesisReader(Reader):
    """Reads the trend at the layers' starts and sums the noise over them: A_k = L^-β Ā(k/L) + ΔW ([C]
    (10)).
    """

    def __init__(
        self,
        process: TrendAndNoise,
        depths: tuple[int, ...],
        width: int,
        paths: int,
        generator: torch.Generator,
        dtype: torch.dtype,
    ) -> None:
        self.depths = depths
        self.shrink = [float(depth) ** -process.exponent for depth in depths]
        self.scale = 1.0 if process.trend is None else process.trend.entry_scale(width)
        device = torch.device(generator.device)
        self.trend: tuple[Tensor, Tensor | None] | None = None
        self.values: Values | None = None
        if process.trend is not None:
            path = process.trend.sample(width, paths, generator, dtype, device)
            self.paths = (path,)
            self.values = Values(path, width, paths, device)
            self.at_start: list[tuple[Tensor, Tensor | None] | None] = [None] * len(depths)
        self.noise = None if process.noise is None else process.noise.start(width, paths, generator, dtype)
        self.along: ItoStep | None = None
        self.matrices: CoarseSums | None = None
        self.biases: CoarseSums | None = None

    @property
    def brownian(self) -> Tensor | None:
        return None if self.along is None else self.along.brownian

    def begin(self, chunk: Chunk) -> None:
        self.starts = np.concatenate([[chunk.start], chunk.times[:-1]])
        self.steps = chunk.steps
        if self.values is not None:
            self.values.begin(self.starts)

    def step(self, index: int) -> None:
        if self.values is not None:
            matrix, bias = self.values.at(index)
            self.trend = (matrix * self.scale, bias)
            self.at_start = [self.trend if held is None else held for held in self.at_start]
        if self.noise is None:
            return
        self.along = self.noise.step(float(self.starts[index]), float(self.steps[index]))
        if self.along.matrix is not None:
            self.matrices = self.matrices or CoarseSums(self.depths, self.along.matrix)
            self.matrices.add(self.along.matrix)
        if self.along.bias is not None:
            self.biases = self.biases or CoarseSums(self.depths, self.along.bias)
            self.biases.add(self.along.bias)

    def layer(self, j: int) -> Layer:
        matrix = None if self.matrices is None else self.matrices.take(j)
        bias = None if self.biases is None else self.biases.take(j)
        if self.values is not None and (start := self.at_start[j]) is not None:
            self.at_start[j] = None  # the next step begins the next layer
            matrix = _sum(matrix, start[0] * self.shrink[j])
            bias = bias if start[1] is None else _sum(bias, start[1] * self.shrink[j])
        return Layer(matrix, self.depths[j], 0.0, 1.0, bias)


def _sum(a: Tensor | None, b: Tensor) -> Tensor:
    return b if a is None else a + b


def make_reader(
    process: Process,
    depths: tuple[int, ...],
    width: int,
    paths: int,
    generator: torch.Generator,
    dtype: torch.dtype,
    count: int = 0,
) -> Reader:
    """Return the reader for one block of `paths` paths of `process`, drawn from `generator`.

    Fractional Brownian motion needs a uniform grid, as `task` makes it, of `count` steps; other laws do
    not look at it.
    """
    if isinstance(process, FractionalBrownian):
        return FractionalReader(process, depths, width, paths, generator, dtype, count)
    if isinstance(process, IncrementProcess):
        return IncrementReader(process, depths, (paths, width, width), generator, dtype)
    if isinstance(process, TrendAndNoise):
        return HypothesisReader(process, depths, width, paths, generator, dtype)
    if isinstance(process, FunctionProcess):
        device = torch.device(generator.device)
        path = process.sample(width, paths, generator, dtype, device)
        return FunctionReader(process, depths, path, width, paths, device)
    raise TypeError(
        f"no reader for {type(process).__name__}; processes/__init__.py names the kinds there are."
    )
