"""Weights that shrink with depth: a function of time plus Itô increments (Cohen et al. 2021, Hypotheses 1 and
2).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType
from typing import final

import numpy as np
import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.driving.ito import Ito, ItoPath, ItoStep
from deeplimit.driving.law import Channel, Dependence, Facts, FunctionLaw, Shape, WeightLaw
from deeplimit.driving.path import Chunk, CoarseSums, DrawnLayers, Grid, Layer, Path, Values


@final
@dataclass(frozen=True)
class TrendAndNoise(WeightLaw):
    """A_k = L^-exponent Ā(k/L) + W^A_{(k+1)/L} - W^A_{k/L}, and b_k likewise, for k = 0 … L - 1.

    `trend` alone is Hypothesis 1; with `ito` it is Hypothesis 2. Layers read the trend at their start.

    Raises TypeError for a trend that is no function of time and noise that is no `Ito`, ValueError for a
    negative or infinite exponent.
    """

    trend: FunctionLaw | None
    ito: Ito | None
    exponent: float

    @by_default
    def __post_init__(self) -> None:
        validation.plain_numbers(self)
        functions = "a function of time, such as Trend(A, b), or None"
        validation.instance(self.trend, "trend", (FunctionLaw, NoneType), functions)
        validation.instance(self.ito, "ito", (Ito, NoneType), "Itô noise, such as Ito(A=0.1), or None")
        validation.real(
            self.exponent, "exponent", minimum=0.0, hint="the trend is multiplied by L**-exponent."
        )

    @property
    def facts(self) -> Facts:
        trend = None if self.trend is None else self.trend.facts
        return Facts(
            Dependence.SHRINKING,
            deterministic=self.ito is None and (trend is None or trend.deterministic),
            holder=None if trend is None else trend.holder,
            natural_exponent=0.0 if self.trend is None else max(0.0, 1.0 - self.exponent),
            weight_exponent=self.exponent,
            biased=(trend is not None and trend.biased) or (self.ito is not None and self.ito.b is not None),
        )

    @property
    def layer_exponent(self) -> float:
        return 0.0

    def entry_scale(self, shape: Shape) -> float:
        return 1.0

    def channels(self, shape: Shape) -> tuple[Channel, ...]:
        trend = () if self.trend is None else self.trend.channels(shape)
        return (*trend, *(() if self.ito is None else self.ito.channels(shape[0])))

    def check(self, shape: Shape) -> None:
        if len(shape) != 2 or shape[0] != shape[1]:
            raise ValueError(f"weights of a trend and Itô noise must be square matrices, got shape {shape}.")
        if self.trend is not None:
            self.trend.check(shape)
        if self.ito is not None:
            self.ito.check(shape[0])

    def path(
        self, shape: Shape, grid: Grid, paths: int, generator: torch.Generator, dtype: torch.dtype
    ) -> Path:
        return ShrinkingPath(self, grid.depths, shape, paths, generator, dtype)

    def describe(self) -> str:
        trend = None if self.trend is None else f"L^-{self.exponent:g} times {self.trend.describe()}"
        noise = None if self.ito is None else self.ito.describe()
        return " plus ".join(part for part in (trend, noise) if part is not None) or "weights of 0"


def _with_noise(trend: Tensor | None, noise: list[Tensor | None]) -> Tensor | None:
    drawn = [part for part in noise if part is not None]  # all of them, or none
    if not drawn:
        return trend
    return torch.stack(drawn) if trend is None else trend + torch.stack(drawn)


class ShrinkingPath(Path):
    """Reads the trend at the layers' starts, sums the noise over them: A_k = L^-β Ā(k/L) + ΔW (Cohen et al.
    2021, (10)).
    """

    def __init__(
        self,
        law: TrendAndNoise,
        depths: tuple[int, ...],
        shape: Shape,
        paths: int,
        generator: torch.Generator,
        dtype: torch.dtype,
    ) -> None:
        self.law = law
        self.depths = depths
        self.shrink = [float(depth) ** -law.exponent for depth in depths]
        self.scale = 1.0 if law.trend is None else law.trend.entry_scale(shape)
        self.trend: tuple[Tensor, Tensor | None] | None = None
        self.values: Values | None = None
        self.at_start: list[tuple[Tensor, Tensor | None] | None] = [None] * len(depths)
        if law.trend is not None:
            device = torch.device(generator.device)
            function = law.trend.sample(shape, paths, generator, dtype, device)
            self.functions = (function,)
            self.values = Values(function, shape, paths, device)
        self.begun = (shape[0], paths, generator, dtype)
        self.beginning = generator.get_state()
        self.noise = self._noise()
        self.along: ItoStep | None = None
        self.matrices: CoarseSums | None = None
        self.biases: CoarseSums | None = None

    def _noise(self) -> ItoPath | None:
        return None if self.law.ito is None else self.law.ito.start(*self.begun)

    @property
    def brownian(self) -> Tensor | None:
        return None if self.along is None else self.along.brownian

    @property
    def ito(self) -> ItoStep | None:
        return self.along

    def begin(self, chunk: Chunk) -> None:
        self.starts = np.concatenate([[chunk.start], chunk.times[:-1]])
        self.steps = chunk.steps
        if self.values is not None:
            self.values.begin(self.starts)

    def advance(self, index: int) -> None:
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

    def rewind(self) -> None:
        self.begun[2].set_state(self.beginning)
        self.noise, self.along = self._noise(), None
        self.matrices = self.biases = None
        self.at_start = [None] * len(self.depths)

    def whole(self) -> DrawnLayers:
        (depth,), (shrink,) = self.depths, self.shrink
        matrices = biases = None
        if self.functions:
            (function,), device = self.functions, self.begun[2].device
            starts = torch.arange(depth, dtype=torch.float64, device=device) / depth
            matrices = function.at(starts) * (shrink * self.scale)
            bias = function.bias_at(starts)
            biases = None if bias is None else bias * shrink
        if self.noise is not None:
            steps = [self.noise.step(k / depth, 1.0 / depth) for k in range(depth)]
            matrices = _with_noise(matrices, [step.matrix for step in steps])
            biases = _with_noise(biases, [step.bias for step in steps])
        return DrawnLayers(matrices, biases, 1.0)


def _sum(a: Tensor | None, b: Tensor) -> Tensor:
    return b if a is None else a + b
