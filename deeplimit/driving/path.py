"""The grid of all layer times, and one block of sampled weights, read along it as the layers of every depth.

The grid is the union of the times k/L of several depths, in exact integers, never held whole in memory.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from deeplimit.common import validation

CHUNK = 512


def uniform_size(depths: tuple[int, ...], at_least: int) -> int:
    """Return the smallest number of equal steps, `at_least` or more, that holds all layers of `depths`."""
    together = math.lcm(*depths)
    return together * max(1, -(-at_least // together))


@dataclass(frozen=True)
class Chunk:
    """Consecutive steps of the grid: end times (K,), lengths (K,), and which depths have a layer ending."""

    times: np.ndarray  # (K,) float64
    steps: np.ndarray  # (K,) float64
    start: float
    ends: np.ndarray  # (K, number of depths) bool
    common: np.ndarray  # (K,) bool: a layer of every depth ends there
    coarse: np.ndarray  # (K,) bool: a step of the coarser reference ends there


@dataclass(frozen=True)
class Grid:
    """The union of the grids of `depths` and, to refine it, of `extra` depths that nobody reads.

    If it is `halved`, every step of that union is cut in two. A second, coarser reference uses the union
    itself, and the finer one has half its step everywhere, wherever in time the noise may be.
    """

    depths: tuple[int, ...]
    extra: tuple[int, ...] = ()
    halved: bool = False

    @cached_property
    def _generating(self) -> tuple[int, ...]:
        """The depths that no other depth is a multiple of: their grids contain all others."""
        every = sorted(set(self.depths + self.extra))
        return tuple(d for d in every if not any(other % d == 0 for other in every if other > d))

    @cached_property
    def common(self) -> int:
        """The number of steps of the finest grid that all depths contain: their greatest common divisor."""
        return math.gcd(*self.depths)

    def chunks(self) -> Iterator[Chunk]:
        """Yield the steps in order of time, at most CHUNK or so at once."""
        windows = max(1, math.ceil(sum(self._generating) / CHUNK))
        last_numerator, last_denominator = 0, 1
        for window in range(windows):
            numerators, denominators = [], []
            for depth in self._generating:
                k = np.arange(
                    window * depth // windows + 1, (window + 1) * depth // windows + 1, dtype=np.int64
                )
                divisor = np.gcd(k, depth)
                numerators.append(k // divisor)
                denominators.append(depth // divisor)
            fractions = np.unique(
                np.stack([np.concatenate(numerators), np.concatenate(denominators)], axis=1), axis=0
            )
            if len(fractions) == 0:
                continue
            fractions = fractions[np.argsort(fractions[:, 0] / fractions[:, 1])]
            numerator, denominator = fractions[:, 0], fractions[:, 1]
            before = np.concatenate([[last_numerator], numerator[:-1]])
            before_denominator = np.concatenate([[last_denominator], denominator[:-1]])
            steps = (numerator * before_denominator - before * denominator) / (
                denominator * before_denominator
            )
            chunk = Chunk(
                numerator / denominator,
                steps,
                last_numerator / last_denominator,
                np.stack([depth % denominator == 0 for depth in self.depths], axis=1),
                self.common % denominator == 0,
                np.ones(len(steps), dtype=bool),
            )
            yield _halve(chunk) if self.halved else chunk
            last_numerator, last_denominator = int(numerator[-1]), int(denominator[-1])

    @cached_property
    def size(self) -> int:
        """The number of steps."""
        return sum(len(chunk.steps) for chunk in self.chunks())

    def sum_of_powers(self, power: float) -> float:
        """Return Σ Δ_i^power; of power 2 it is 1/L for the uniform grid of depth L."""
        return float(sum((chunk.steps**power).sum() for chunk in self.chunks()))


def _halve(chunk: Chunk) -> Chunk:
    """Return the chunk with every step cut in two."""

    def at_ends(flags: np.ndarray) -> np.ndarray:
        spread = np.zeros((2 * len(flags), *flags.shape[1:]), dtype=bool)
        spread[1::2] = flags
        return spread

    times = np.repeat(chunk.times, 2)
    times[::2] -= chunk.steps / 2
    steps = np.repeat(chunk.steps / 2, 2)
    return Chunk(times, steps, chunk.start, at_ends(chunk.ends), at_ends(chunk.common), at_ends(chunk.coarse))


VALUES_AT_ONCE = 2**21
"""How many function values are held at once; the times of a chunk are evaluated in pieces of this size."""


def matvec(matrix: Tensor, vector: Tensor) -> Tensor:
    """Return a matrix, (1, d, d) for all paths or (P, d, d), times `vector` (P, d) or vectors (P, n, d)."""
    if matrix.shape[0] == 1:
        return vector @ matrix[0].T
    if vector.ndim > 2:
        return torch.bmm(vector.flatten(1, -2), matrix.mT).reshape(*vector.shape[:-1], -1)
    # On a CPU rows times matrices are several times faster than matrices times columns, and never slower.
    return torch.bmm(vector.unsqueeze(1), matrix.mT).squeeze(1)


def _entrywise(weight: Tensor, state: Tensor) -> Tensor:
    return weight.reshape(*weight.shape, *[1] * (state.ndim - weight.ndim)) * state


def convolve(kernel: Tensor, state: Tensor) -> Tensor:
    """Return a kernel (1 or P, c', c, k, k) convolved with `state` (P, c, height, width), size kept."""
    size = kernel.shape[-1]
    if kernel.shape[0] == 1:
        return conv2d(state, kernel[0], padding=size // 2)
    paths, channels, *plane = state.shape
    one = state.reshape(1, paths * channels, *plane)
    each = conv2d(one, kernel.flatten(0, 1), padding=size // 2, groups=paths)
    return each.reshape(paths, -1, *plane)


_PRODUCTS = {0: _entrywise, 1: _entrywise, 2: matvec, 4: convolve}
"""What a weight does to a state, by the number of the weight's dimensions: numbers and vectors multiply
entry by entry, matrices and kernels as a linear map; matrices of a state's last dimension.
"""


@final
@dataclass(frozen=True)
class Layer:
    """One weight of one layer, unscaled: scaling products is cheaper than scaling weights.

    A path that does not know `values` gives `product_of`, a function that returns the product with a state.
    It knows that of the vector announced when the layer began, for example, or draws it from its law.
    """

    values: Tensor | None  # (P, *shape), or (1, *shape) for all paths; None for 0
    depth: int
    layer_exponent: float
    entry_scale: float
    bias: Tensor | None = None  # (P, d) or (1, d)
    product_of: Callable[[Tensor], Tensor] | None = None
    blocks: Sequence[nn.Module] | None = None  # one per path, where layers are a user's own

    def apply(self, state: Tensor, residual_exponent: float = 0.0) -> Tensor:
        """Return depth**-residual_exponent times this weight times `state`.

        The exponents of both powers of the depth are added first. At the critical exponent the factor is
        then exactly 1, and the network is the Euler-Maruyama scheme bit for bit.
        """
        return self.product(state) * self.scale(residual_exponent)

    def product(self, state: Tensor) -> Tensor:
        """Return this weight, unscaled, times `state`."""
        if self.product_of is not None:
            return self.product_of(state)
        if self.values is None:
            return torch.zeros_like(state)
        return _PRODUCTS[self.values.ndim - 1](self.values, state)

    def scale(self, residual_exponent: float = 0.0) -> float:
        """Return what `apply` multiplies the unscaled product by."""
        return math.pow(self.depth, self.layer_exponent - residual_exponent) * self.entry_scale


@dataclass(frozen=True)
class DrawnLayers:
    """All layers of a block of networks of depth L; a recursion multiplies by `scale` times these."""

    matrices: Tensor | None  # (L, P, *shape), or (L, 1, *shape) for all paths; None for 0
    biases: Tensor | None  # (L, P, d) or (L, 1, d), unscaled; None for 0
    scale: float


class SampledFunction(ABC):
    """One block of sampled functions of time; deterministic ones have P = 1 and broadcast."""

    @abstractmethod
    def at(self, times: Tensor) -> Tensor:
        """Return the values at `times` (K,) as (K, P, *shape)."""

    def bias_at(self, times: Tensor) -> Tensor | None:
        """Return the biases at `times` (K,) as (K, P, d), or None where there is none."""
        return None


def values_of(
    function: SampledFunction, times: Tensor, shape: tuple[int, ...], paths: int | None = None
) -> tuple[Tensor, Tensor | None]:
    """Return values and biases at `times`; raise where `at` or `bias_at` returns anything else.

    Any number of paths will do where it is left out.
    """
    values, biases = function.at(times), function.bias_at(times)
    _check_values(function, "at", values, (len(times), paths, *shape))
    if biases is not None:
        _check_values(function, "bias_at", biases, (len(times), paths, *shape[:1]))
    return values, biases


def _check_values(function: SampledFunction, method: str, values: Any, shape: tuple[int | None, ...]) -> None:
    name = f"{type(function).__name__}.{method}"
    if not isinstance(values, Tensor) or not values.is_floating_point():
        raise TypeError(
            f"{name} must return a tensor of floating-point numbers; got {validation.named(values)}."
        )
    got, paths = tuple(values.shape), shape[1]
    fits = len(got) == len(shape) and (got[0], *got[2:]) == (shape[0], *shape[2:])
    if not fits or (paths is not None and got[1] not in (1, paths)):
        raise ValueError(
            f"{name} must return (times, paths, *shape), here {shape[0]} times, {paths or 'any number of'}"
            f" paths, or one for all, and shape {shape[2:]}; got {got}."
        )


class Path(ABC):
    """One block of sampled weights along a grid: the same path for every depth and for the limit.

    The caller calls `begin` for each chunk of the grid, then `advance` for each step. It calls `layer` for
    each depth that has a layer ending there, deeper depths first.
    """

    functions: tuple[SampledFunction, ...] = ()
    """The sampled functions of time that layers read, for a limit that reads them too."""

    @property
    def brownian(self) -> Tensor | None:
        """The Brownian increments (P, motions) of the current step; None where there are none."""
        return None

    @property
    def ito(self) -> object | None:
        """What an Itô process did over the current step, an `ItoStep`; None where there is none."""
        return None

    @property
    def increment(self) -> Tensor | None:
        """The path's increment (P, *shape) over the current step; None where it has none."""
        return None

    def begin(self, chunk: Chunk) -> None:
        """Prepare for the steps of `chunk`."""

    @abstractmethod
    def advance(self, index: int) -> None:
        """Move over step `index` of the current chunk."""

    @abstractmethod
    def layer(self, j: int) -> Layer:
        """Return the layer of depth j that ends now; call once for each layer, deeper depths first.

        What it returns may be overwritten by the next call.
        """

    @abstractmethod
    def rewind(self) -> None:
        """Go back to time 0; what follows is the same again, to the last bit."""

    def whole(self) -> DrawnLayers | None:
        """Return all layers of the only depth, drawn at once in place of step by step; None where it cannot.

        Called in place of `begin`. A subclass with other layers than its base must return its own, or None.
        """
        return None


class CoarseSums:
    """Sums fine increments into coarse ones, each from the next finer depth that it divides."""

    def __init__(self, depths: tuple[int, ...], like: Tensor) -> None:
        self.sums = [torch.empty_like(like) for _ in depths]
        self.started = [False] * len(depths)
        parents = [min((d for d in depths if d > depth and d % depth == 0), default=None) for depth in depths]
        self.fed_by_steps = [j for j, parent in enumerate(parents) if parent is None]
        self.fed_by = [[j for j, parent in enumerate(parents) if parent == depth] for depth in depths]

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
        """Return the sum over depth j's last layer; start the next. Once per layer, deeper depths first."""
        for coarser in self.fed_by[j]:
            self._add(coarser, self.sums[j])
        self.started[j] = False
        # A graph keeps what it is given, and the next layer overwrites it.
        return self.sums[j].clone() if torch.is_grad_enabled() else self.sums[j]

    def forget(self) -> None:
        """Begin again with empty sums."""
        self.started = [False] * len(self.started)


class Values:
    """A function's values along given times, evaluated in pieces that fit in memory."""

    def __init__(
        self, function: SampledFunction, shape: tuple[int, ...], paths: int, device: torch.device
    ) -> None:
        self.function, self.shape, self.paths = function, shape, paths
        self.device = device
        self.piece = max(1, VALUES_AT_ONCE // (paths * math.prod(shape)))

    def begin(self, times: np.ndarray) -> None:
        self.times = torch.from_numpy(times).to(self.device)
        self.held = range(0)

    def at(self, index: int) -> tuple[Tensor, Tensor | None]:
        """Return value (1 or P, *shape) and bias (1 or P, d) at this index; indices must not decrease."""
        if index not in self.held:
            self.held = range(index, min(index + self.piece, len(self.times)))
            times = self.times[self.held.start : self.held.stop]
            self.values, self.biases = values_of(self.function, times, self.shape, self.paths)
        now = index - self.held.start
        return self.values[now], None if self.biases is None else self.biases[now]


class FunctionPath(Path):
    """Evaluates the block's functions at the layers' ends: one value per time, for all depths."""

    def __init__(
        self,
        depths: tuple[int, ...],
        function: SampledFunction,
        shape: tuple[int, ...],
        scale: float,
        paths: int,
        device: torch.device,
    ) -> None:
        self.depths = depths
        self.functions = (function,)
        self.values = Values(function, shape, paths, device)
        self.scale = scale

    def begin(self, chunk: Chunk) -> None:
        self.values.begin(chunk.times)

    def advance(self, index: int) -> None:
        self.now = self.values.at(index)

    def layer(self, j: int) -> Layer:
        value, bias = self.now
        return Layer(value, self.depths[j], 0.0, self.scale, bias)

    def rewind(self) -> None:
        """Nothing to do: a function of time has no state."""

    def whole(self) -> DrawnLayers:
        (depth,), (function,) = self.depths, self.functions
        ends = torch.arange(1, depth + 1, dtype=torch.float64, device=self.values.device) / depth
        return DrawnLayers(*values_of(function, ends, self.values.shape, self.values.paths), self.scale)
