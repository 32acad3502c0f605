"""Layers of hidden units whose number grows with the depth, as seen by the inputs of one network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.driving.law import Channel, ChannelKind, Dependence, Facts, Shape, WeightLaw, units
from deeplimit.driving.path import Grid, Layer, Path


@final
@dataclass(frozen=True)
class HiddenUnits(WeightLaw):
    """n = L/T Gaussian hidden units in every layer of a network of depth L, T the ratio of depth to width.

    A row of a Gaussian weight matrix acts on the span of m hidden vectors as m independent standard normal
    numbers, whatever the width. So a layer is (P, n, m) of these, and one draw has the law of the whole
    (n, n) matrix at the cost of m of its columns. Depths draw separate layers.

    Attributes:
        depth_to_width: T, from 0.001 to 1000. Depths must be multiples of T, so that n is a whole number.

    Raises:
        TypeError, ValueError: For a ratio that is not a number from 0.001 to 1000.

    Examples:
        >>> import deeplimit as dl
        >>> dl.HiddenUnits(0.5).describe()
        'L/0.5 hidden units in every layer'
    """

    depth_to_width: float = 1.0

    @by_default
    def __post_init__(self) -> None:
        validation.plain_numbers(self)
        validation.real(
            self.depth_to_width,
            "depth_to_width",
            minimum=1e-3,
            maximum=1e3,
            hint="It is depth over width, T = L/n.",
        )

    @property
    def facts(self) -> Facts:
        return Facts(
            Dependence.INDEPENDENT,
            gaussian=True,
            independent_entries=True,
            symmetric=True,
            depth_to_width=float(self.depth_to_width),
            natural_exponent=0.5,
        )

    @property
    def layer_exponent(self) -> float:
        return 0.0

    def channels(self, shape: Shape) -> tuple[Channel, ...]:
        return (Channel("hidden units", ChannelKind.SEPARATE, shape),)

    def entry_scale(self, shape: Shape) -> float:
        return 1.0

    def path(
        self, shape: Shape, grid: Grid, paths: int, generator: torch.Generator, dtype: torch.dtype
    ) -> Path:
        return _UnitsPath(self, grid.depths, shape, paths, generator, dtype)

    def describe(self) -> str:
        return f"L/{self.depth_to_width:g} hidden units in every layer"


class _UnitsPath(Path):
    """Draws every layer of every depth when it is asked for."""

    def __init__(
        self,
        law: HiddenUnits,
        depths: tuple[int, ...],
        shape: Shape,
        paths: int,
        generator: torch.Generator,
        dtype: torch.dtype,
    ) -> None:
        self.depths = depths
        self.sizes = [(paths, units(depth, law.depth_to_width), *shape) for depth in depths]
        self.generator, self.dtype = generator, dtype
        self.beginning = generator.get_state()

    def advance(self, index: int) -> None:
        """Nothing to do: layers of different depths have nothing in common."""

    def layer(self, j: int) -> Layer:
        values = torch.empty(self.sizes[j], dtype=self.dtype, device=self.generator.device)
        return Layer(values.normal_(generator=self.generator), self.depths[j], 0.0, 1.0)

    def rewind(self) -> None:
        self.generator.set_state(self.beginning)
