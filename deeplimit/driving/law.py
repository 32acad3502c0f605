"""What a weight law is: it states its facts and its channels, and gives paths."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import torch

from deeplimit.common import validation
from deeplimit.common.final import FinalWhereMarked
from deeplimit.common.grid import Grid
from deeplimit.driving.factors import Factors
from deeplimit.driving.facts import Dependence, Facts
from deeplimit.driving.path import FunctionPath, Path, SampledFunction

Shape = tuple[int, ...]
"""The shape of one weight: (d, d) for a matrix, (d,) for a vector, () for a number, (c, c, k, k) for a
convolution's kernel."""

FINITE_VARIANCE = 2.0
"""Moments that sums of independent increments need to tend to Brownian motion (Donsker)."""


class ChannelKind(StrEnum):
    """What a channel is; an equation can share it only if it reads this kind."""

    BROWNIAN = "Brownian motion"
    """Increments of Brownian motion, or what drives an Itô process."""
    INCREMENTS = "independent increments"
    """Sums of independent draws of another law; Brownian motion at infinite depth if they have a variance."""
    FRACTIONAL = "fractional Brownian motion"
    """A path that is drawn whole, on a grid of equal steps."""
    FUNCTION = "a function of time"
    RECORDED = "recorded weights"
    SEPARATE = "weights of its own at every depth"
    """Every depth draws its weights anew, as torch blocks do: two depths share no noise."""
    UNSTATED = "weights of which no channel is stated"


@dataclass(frozen=True)
class Channel:
    """One part of what a weight's path is made of.

    Attributes:
        name: The weight, or the part of it, in a word.
        kind: What it is.
        shape: Shape of its value at one time, without the paths. A channel of Brownian motions, or of
            increments, has one per entry, row by row; `Path.brownian` holds those of all such channels in
            their order.
        moments: Increments have all moments up to this order: infinity for normal ones, 0 where not even a
            variance is known.
        response: What the layers add up to, as a multiple of the Brownian motion that drives them; 1 for
            independent layers, None where layers depend on each other in a way that is not stated.
        memory: Σ_{k ≥ 1} of the correlations of layers k apart; 0 for independent ones.
        factors: Constant row and column factors around a Brownian matrix, whose products a pass may then
            draw in place of the matrix; None for other noise.
        function: The law of the function of time that it is; None for other kinds.
        ito: The Itô process, an `Ito`, that it drives; None for other noise.
        held: Numbers in memory per path, for a function, or per path and step of the grid; they size blocks.
        depths: The recorded depths; empty where there are layers at any depth.
        citations: Keys or BibTeX entries of the works that its draws rest on, for `citation()` of a report.

    Raises TypeError for a name that is no text and a kind that is no `ChannelKind`. NOT checked: that a path
    has these channels, which `deeplimit.testing.check_law` tests.
    """

    name: str
    kind: ChannelKind
    shape: Shape
    moments: float = math.inf
    response: float | None = None
    memory: float | None = None
    factors: Factors | None = field(default=None, compare=False)
    function: FunctionLaw | None = None
    ito: Any = None
    held: int = 0
    depths: tuple[int, ...] = ()
    citations: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        validation.text(self.name, "name")
        validation.instance(self.kind, "kind", ChannelKind, "a ChannelKind, such as ChannelKind.BROWNIAN")

    @property
    def motions(self) -> int:
        """The number of Brownian motions, or of sums of increments, that it consists of."""
        return math.prod(self.shape) if self.kind in (ChannelKind.BROWNIAN, ChannelKind.INCREMENTS) else 0

    @property
    def drives_brownian_motion(self) -> bool:
        """Whether its increments are those of a Brownian motion, or sum up to one at infinite depth."""
        finite = self.kind is ChannelKind.INCREMENTS and self.moments >= FINITE_VARIANCE
        return finite or self.kind is ChannelKind.BROWNIAN

    @property
    def is_function(self) -> bool:
        """Whether it is a function of time, the same at every depth, which the network alone may read."""
        return self.kind in (ChannelKind.FUNCTION, ChannelKind.RECORDED)

    @property
    def is_separate(self) -> bool:
        """Whether each depth has separate weights, which no path joins to those of another depth."""
        return self.kind in (ChannelKind.SEPARATE, ChannelKind.RECORDED)

    def __str__(self) -> str:
        unknown = self.kind is ChannelKind.INCREMENTS and self.moments < FINITE_VARIANCE
        return f"{self.name}: {self.kind.value}" + ", of which no finite variance is stated" * unknown


@dataclass(frozen=True)
class WeightLaw(FinalWhereMarked, ABC):
    """The distribution of one weight of a network over its depth.

    A layer of a depth-L network is `L**layer_exponent * entry_scale(shape) * X`. X is what a `Path` gives
    for the layer: its increment over the layer, or the value of a function of time at it.

    A user's law is a frozen dataclass with `facts`, `layer_exponent`, `path`, `describe` and `channels`, and
    `check` where it cannot be drawn in every shape; `deeplimit.testing.check_law` holds it to the contract.
    All else is read from these: `deeplimit.driving.reading`, `deeplimit.driving.drawing`.
    """

    @property
    @abstractmethod
    def facts(self) -> Facts:
        """What theory may use of this law; nothing else is assumed."""

    @property
    @abstractmethod
    def layer_exponent(self) -> float:
        """The power of the depth that gives weights one size at every depth."""

    @abstractmethod
    def path(
        self, shape: Shape, grid: Grid, paths: int, generator: torch.Generator, dtype: torch.dtype
    ) -> Path:
        """Return one block of `paths` sampled weights of this shape, to be read along `grid`.

        Everything random comes from `generator`, whose device the path is on.
        """

    @abstractmethod
    def describe(self) -> str:
        """Return a few words for a report."""

    def channels(self, shape: Shape) -> tuple[Channel, ...]:
        """Return what a path of this shape is made of: functions of time, and the noise that drives a layer.

        What is not stated is not assumed: by default a limit shares nothing with the path.
        """
        return (Channel("weight", ChannelKind.UNSTATED, shape),)

    def check(self, shape: Shape) -> None:
        """Raise where this law cannot be drawn in this shape; called once, when the network is made."""

    def entry_scale(self, shape: Shape) -> float:
        """Return the factor that turns unit variance per entry into the variance 1/fan-in of Marion et al.
        (2025), (A1).
        """
        return 1.0 / math.sqrt(math.prod(shape[1:]))


@dataclass(frozen=True)
class FunctionLaw(WeightLaw):
    """A law whose layers are values of one function of time at their ends (Marion et al. 2025, (A5))."""

    @property
    def facts(self) -> Facts:
        return Facts(Dependence.SMOOTH, holder=1.0, natural_exponent=1.0)

    @property
    def layer_exponent(self) -> float:
        return 0.0

    def channels(self, shape: Shape) -> tuple[Channel, ...]:
        held = self.held_per_path(shape)
        return (Channel("weight", ChannelKind.FUNCTION, shape, function=self, held=held),)

    @abstractmethod
    def sample(
        self,
        shape: Shape,
        paths: int,
        generator: torch.Generator,
        dtype: torch.dtype,
        device: torch.device,
    ) -> SampledFunction:
        """Draw the functions of one block of `paths` paths."""

    def held_per_path(self, shape: Shape) -> int:
        """Return the numbers in memory per sampled function; they size the blocks."""
        return math.prod(shape)

    def path(
        self, shape: Shape, grid: Grid, paths: int, generator: torch.Generator, dtype: torch.dtype
    ) -> Path:
        device = torch.device(generator.device)
        function = self.sample(shape, paths, generator, dtype, device)
        return FunctionPath(grid.depths, function, shape, self.entry_scale(shape), paths, device)
