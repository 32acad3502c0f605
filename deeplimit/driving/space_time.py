"""Brownian motions with their space-time Lévy areas, which schemes of order 3/2 read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from deeplimit.driving.law import Channel, ChannelKind, Dependence, Facts, Shape, WeightLaw
from deeplimit.driving.path import Chunk, CoarseSums, Grid, Layer, Path


@final
@dataclass(frozen=True)
class SpaceTimeBrownian(WeightLaw):
    """Increments of m Brownian motions B, and those of ∫ s dB_s, side by side in a weight of shape (2 m,).

    Both add up over steps. The space-time Lévy area of a step [a, b] is U = ∫_a^b (B_s - B_a) ds = b ΔB -
    Δ∫ s dB. Over a step around its middle c, ∫ s dB is c ΔB + N(0, Δ³/12), independent of ΔB.
    """

    @property
    def facts(self) -> Facts:
        return Facts(Dependence.INDEPENDENT, gaussian=True, natural_exponent=0.5)

    @property
    def layer_exponent(self) -> float:
        return 0.5

    def entry_scale(self, shape: Shape) -> float:
        return 1.0

    def channels(self, shape: Shape) -> tuple[Channel, ...]:
        return (Channel("B", ChannelKind.BROWNIAN, (shape[0] // 2,), response=1.0, memory=0.0),)

    def path(
        self, shape: Shape, grid: Grid, paths: int, generator: torch.Generator, dtype: torch.dtype
    ) -> Path:
        return SpaceTimePath(grid.depths, shape[0] // 2, paths, generator, dtype)

    def describe(self) -> str:
        return "Brownian increments with space-time Lévy areas"


class SpaceTimePath(Path):
    """One block of these increments, drawn along a grid and summed into coarse layers."""

    def __init__(
        self,
        depths: tuple[int, ...],
        motions: int,
        paths: int,
        generator: torch.Generator,
        dtype: torch.dtype,
    ) -> None:
        self.depths, self.motions, self.generator = depths, motions, generator
        self.beginning = generator.get_state()
        self.drawn = torch.empty(paths, 2 * motions, dtype=dtype, device=generator.device)
        self.sums = CoarseSums(depths, self.drawn)

    @property
    def brownian(self) -> Tensor:
        return self.drawn[:, : self.motions]

    def begin(self, chunk: Chunk) -> None:
        self.chunk = chunk

    def advance(self, index: int) -> None:
        length, end = float(self.chunk.steps[index]), float(self.chunk.times[index])
        moved, integral = self.drawn[:, : self.motions], self.drawn[:, self.motions :]
        moved.normal_(0.0, math.sqrt(length), generator=self.generator)
        integral.normal_(0.0, length * math.sqrt(length / 12), generator=self.generator)
        integral.add_(moved, alpha=end - length / 2)
        self.sums.add(self.drawn)

    def layer(self, j: int) -> Layer:
        return Layer(self.sums.take(j), self.depths[j], 0.5, 1.0)

    def rewind(self) -> None:
        self.generator.set_state(self.beginning)
        self.sums.forget()
