"""Layers that are an autoregressive chain: each remembers a share ρ of the one before."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.driving.independent import Brownian, IncrementPath
from deeplimit.driving.law import (
    ROUND_OFF,
    Channel,
    ChannelKind,
    Dependence,
    Facts,
    Shape,
    WeightLaw,
)
from deeplimit.driving.path import Grid, Layer, Path


@final
@dataclass(frozen=True)
class AR1(WeightLaw):
    """Gaussian layers A_{k+1} = ρ A_k + √(1 - ρ²) ε_{k+1}, N(0, 1/d) per entry, with independent entries.

    The innovation ε_k of depth L is √L times the increment of one Brownian motion B over layer k. So all
    depths share their noise. The chain starts at A_1 = ε_1 and is stationary. The sum of the layers over √L
    tends to √((1 + ρ)/(1 - ρ)) B. `rho` = 0 is `Brownian()`. The limit of res-1 has a drift in addition
    (`ColouredSDE`).

    Raises TypeError for a rho that is no number, ValueError for one that is not between -1 and 1.

    Examples:
        >>> import deeplimit as dl
        >>> network = dl.res1(width=4, activation="tanh", weights=dl.AR1(0.5))
        >>> network.exponent, network.regime().name
        (0.5, 'sde')
    """

    rho: float

    @by_default
    def __post_init__(self) -> None:
        validation.plain_numbers(self)
        hint = "It is the correlation of neighbouring layers: above -1 and below 1."
        if validation.real(self.rho, "rho", above=-1.0, hint=hint) >= 1.0:
            raise ValueError(f"rho must be below 1, got {self.rho:g}. {hint}")
        if abs(self.rho) <= ROUND_OFF:
            object.__setattr__(self, "rho", 0.0)

    @property
    def facts(self) -> Facts:
        return Facts.of_normal_entries(Dependence.STATIONARY, natural_exponent=0.5)

    @property
    def layer_exponent(self) -> float:
        return 0.5

    def channels(self, shape: Shape) -> tuple[Channel, ...]:
        response, memory = math.sqrt((1.0 + self.rho) / (1.0 - self.rho)), self.rho / (1.0 - self.rho)
        return (Channel("weight", ChannelKind.BROWNIAN, shape, math.inf, response, memory),)

    def path(
        self, shape: Shape, grid: Grid, paths: int, generator: torch.Generator, dtype: torch.dtype
    ) -> Path:
        return ChainPath(self, grid.depths, shape, paths, generator, dtype)

    def describe(self) -> str:
        return f"autoregressive weights (ρ = {self.rho:g})"


class ChainPath(IncrementPath):
    """Sums increments of the driving motion over layers; the sums feed one chain per depth."""

    def __init__(
        self,
        law: AR1,
        depths: tuple[int, ...],
        shape: Shape,
        paths: int,
        generator: torch.Generator,
        dtype: torch.dtype,
    ) -> None:
        super().__init__(Brownian(), depths, shape, paths, generator, dtype)
        self.rho, self.innovation = law.rho, math.sqrt(1.0 - law.rho**2)
        self.chains: list[Tensor | None] = [None] * len(depths)

    @property
    def increment(self) -> None:
        """None: what drives the chain is no increment of it."""

    def layer(self, j: int) -> Layer:
        increment, chain = self.sums.take(j), self.chains[j]
        if chain is None:
            chain = self.chains[j] = increment.clone()
        else:
            chain.mul_(self.rho).add_(increment, alpha=self.innovation)
        return Layer(chain, self.depths[j], self.law.layer_exponent, self.scale)

    def rewind(self) -> None:
        super().rewind()
        self.chains = [None] * len(self.depths)

    def whole(self) -> None:
        """None: a layer needs the one before."""
