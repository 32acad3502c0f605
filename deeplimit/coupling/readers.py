"""One driving path, read as the layers of every depth at once."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from deeplimit.coupling.grid import Chunk
from deeplimit.processes import FunctionPath, FunctionProcess, IncrementProcess, Process
from deeplimit.recursions import Layer

VALUES_AT_ONCE = 2**21
"""How many function values are held at once; the times of a chunk are evaluated in pieces of this size."""


class Reader(ABC):
    """Reads one weight process along the union grid; `layer(j)` is depth j's layer that ends now."""

    def begin(self, chunk: Chunk) -> None:
        """Prepare for the steps of `chunk`."""

    @abstractmethod
    def step(self, index: int) -> None:
        """Move over step `index` of the current chunk."""

    @abstractmethod
    def layer(self, j: int) -> Layer:
        """Return the layer of depth j that ends now; call once, deeper depths first."""


class IncrementReader(Reader):
    """Sums fine increments into coarse layers, each from the next finer depth that it divides, so that sums are shared."""

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
        self.sums = [torch.empty_like(self.increment) for _ in depths]
        self.started = [False] * len(depths)
        parents = [min((d for d in depths if d > own and d % own == 0), default=None) for own in depths]
        self.fed_by_steps = [j for j, parent in enumerate(parents) if parent is None]
        self.fed_by = [[j for j, parent in enumerate(parents) if parent == own] for own in depths]

    def begin(self, chunk: Chunk) -> None:
        self.steps = chunk.steps

    def _add(self, j: int, increment: Tensor) -> None:
        if self.started[j]:
            self.sums[j].add_(increment)
        else:
            self.sums[j].copy_(increment)
            self.started[j] = True

    def step(self, index: int) -> None:
        self.process.draw(float(self.steps[index]), self.increment, self.generator)
        for j in self.fed_by_steps:
            self._add(j, self.increment)

    def layer(self, j: int) -> Layer:
        for coarser in self.fed_by[j]:
            self._add(coarser, self.sums[j])
        self.started[j] = False
        return Layer(self.sums[j], self.depths[j], self.process.layer_exponent, self.scale)


class FunctionReader(Reader):
    """Evaluates the block's functions at the layer times; every depth reads the same value at the same time."""

    def __init__(
        self, process: FunctionProcess, depths: tuple[int, ...], path: FunctionPath, width: int, paths: int, device: torch.device
    ) -> None:
        self.process = process
        self.depths = depths
        self.path = path
        self.device = device
        self.scale = process.entry_scale(width)
        self.piece = max(1, VALUES_AT_ONCE // (paths * width * width))

    def begin(self, chunk: Chunk) -> None:
        self.times = torch.from_numpy(chunk.times).to(self.device)
        self.held = range(0)

    def step(self, index: int) -> None:
        if index not in self.held:
            self.held = range(index, min(index + self.piece, len(self.times)))
            times = self.times[self.held.start : self.held.stop]
            self.values, self.biases = self.path.at(times), self.path.bias_at(times)
        self.now = index - self.held.start

    def layer(self, j: int) -> Layer:
        bias = None if self.biases is None else self.biases[self.now]
        return Layer(self.values[self.now], self.depths[j], self.process.layer_exponent, self.scale, bias)


def make_reader(
    process: Process,
    depths: tuple[int, ...],
    width: int,
    paths: int,
    generator: torch.Generator,
    dtype: torch.dtype,
) -> Reader:
    """Return the reader for one block of `paths` paths of `process`, drawn from `generator`."""
    if isinstance(process, IncrementProcess):
        return IncrementReader(process, depths, (paths, width, width), generator, dtype)
    if isinstance(process, FunctionProcess):
        device = torch.device(generator.device)
        path = process.sample(width, paths, generator, dtype, device)
        return FunctionReader(process, depths, path, width, paths, device)
    raise TypeError(f"no reader for {type(process).__name__}; a process is an IncrementProcess or a FunctionProcess.")
