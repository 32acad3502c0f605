"""Layers that are a moving average: each is a fixed combination of the last few innovations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.driving.independent import Brownian, IncrementPath
from deeplimit.driving.law import Channel, ChannelKind, Dependence, Facts, Shape, WeightLaw
from deeplimit.driving.path import Grid, Layer, Path


@final
@dataclass(frozen=True)
class MovingAverage(WeightLaw):
    """Gaussian layers A_k = Σ_i a_i ε_{k-i} / √(Σ_i a_i²), N(0, 1/d) per entry, with independent entries.

    The innovation ε_k of depth L is √L times the increment of one Brownian motion B over layer k. So all
    depths share their noise. The innovations before the first layer are drawn for each depth separately, so
    that the layers are stationary. The sum of the layers over √L tends to Σ_i a_i / √(Σ_i a_i²) B. The limit
    of res-1 has a drift in addition (`ColouredSDE`).

    Args:
        coefficients: (a_0, ..., a_q), the newest innovation first; only their ratios matter.

    Raises:
        TypeError: For coefficients that are no sequence, or hold something that is no number.
        ValueError: For coefficients that are not finite, and where each of them is 0.

    Examples:
        >>> import deeplimit as dl
        >>> limit = dl.res1(width=4, activation="tanh", weights=dl.MovingAverage((1, 1))).limit()
        >>> round(limit.response**2, 9), round(limit.memory, 9)
        (2.0, 0.5)
    """

    coefficients: tuple[float, ...]

    @by_default
    def __post_init__(self) -> None:
        entries = validation.entries(self.coefficients, "coefficients", "numbers such as (1, 0.6)")
        plain = tuple(validation.real(each, f"coefficients[{i}]") for i, each in enumerate(entries))
        if not any(plain):
            raise ValueError(f"coefficients must hold a number other than 0, got {plain}.")
        while plain[-1] == 0.0:  # innovations that no layer reads
            plain = plain[:-1]
        if len(plain) == 1:
            plain = (math.copysign(1.0, plain[0]),)
        object.__setattr__(self, "coefficients", plain)

    @property
    def filter(self) -> tuple[float, ...]:
        """The coefficients divided by their Euclidean norm: layers then have variance 1."""
        size = math.hypot(*self.coefficients)
        return tuple(each / size for each in self.coefficients)

    @property
    def facts(self) -> Facts:
        return Facts.of_normal_entries(Dependence.STATIONARY, natural_exponent=0.5)

    @property
    def layer_exponent(self) -> float:
        return 0.5

    def channels(self, shape: Shape) -> tuple[Channel, ...]:
        # The sum of all correlations, 1 + 2 memory, is (Σ a_i)² / Σ a_i².
        response = sum(self.filter)
        memory = (response**2 - 1.0) / 2.0
        return (Channel("weight", ChannelKind.BROWNIAN, shape, math.inf, response, memory),)

    def path(
        self, shape: Shape, grid: Grid, paths: int, generator: torch.Generator, dtype: torch.dtype
    ) -> Path:
        return FilteredPath(self, grid.depths, shape, paths, generator, dtype)

    def describe(self) -> str:
        return f"moving-average weights ({', '.join(f'{each:g}' for each in self.coefficients)})"


class FilteredPath(IncrementPath):
    """Sums increments of the driving motion over layers; the sums are the innovations of each depth."""

    def __init__(
        self,
        law: MovingAverage,
        depths: tuple[int, ...],
        shape: Shape,
        paths: int,
        generator: torch.Generator,
        dtype: torch.dtype,
    ) -> None:
        super().__init__(Brownian(), depths, shape, paths, generator, dtype)
        self.filter = law.filter
        self.earlier: list[list[Tensor] | None] = [None] * len(depths)

    @property
    def increment(self) -> None:
        """None: what drives the layers is no increment of theirs."""

    def layer(self, j: int) -> Layer:
        innovations = [self.sums.take(j).clone(), *(self.earlier[j] or self._before_the_first(j))]
        self.earlier[j] = innovations[:-1]
        weighted = (weight * each for weight, each in zip(self.filter, innovations, strict=True))
        values = sum(weighted, torch.zeros_like(self.drawn))
        return Layer(values, self.depths[j], self.law.layer_exponent, self.scale)

    def _before_the_first(self, j: int) -> list[Tensor]:
        earlier = self.drawn.new_empty(len(self.filter) - 1, *self.drawn.shape)
        self.law.draw(1.0 / self.depths[j], earlier, self.generator)
        return list(earlier)

    def rewind(self) -> None:
        super().rewind()
        self.earlier = [None] * len(self.depths)

    def whole(self) -> None:
        """None: a layer needs those before."""
