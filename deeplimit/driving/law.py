"""What a weight law is: it states facts, says how large a layer's weights are, and gives paths."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from deeplimit.common.final import FinalWhereMarked
from deeplimit.common.grid import Grid
from deeplimit.driving.channel import Channel, ChannelKind
from deeplimit.driving.factors import Factors
from deeplimit.driving.facts import Dependence, Facts
from deeplimit.driving.path import FunctionPath, Layer, Path, SampledFunction

Shape = tuple[int, ...]
"""The shape of one weight: (d, d) for a matrix, (d,) for a vector, () for a number, (c, c, k, k) for a
convolution's kernel."""


@dataclass(frozen=True)
class WeightLaw(FinalWhereMarked, ABC):
    """The distribution of one weight of a network over its depth.

    A layer of a depth-L network is `L**layer_exponent * entry_scale(shape) * X`. X is what a `Path` gives
    for the layer: its increment over the layer, or the value of a function of time at it.

    A user's law is a frozen dataclass with `facts`, `layer_exponent`, `path` and `describe`;
    `deeplimit.testing.check_law` holds it to the contract.
    """

    @property
    @abstractmethod
    def facts(self) -> Facts:
        """What theory may use of this law; nothing else is assumed."""

    def facts_at(self, width: int) -> Facts:
        """Return what theory may use of this law at this width, at which a sampler is tested."""
        return self.facts

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

    def entry_scale(self, shape: Shape) -> float:
        """Return the factor that turns unit variance per entry into the variance 1/fan-in of Marion et al.
        (2025), (A1).
        """
        return 1.0 / math.sqrt(math.prod(shape[1:]))

    @property
    def critical_exponent(self) -> float:
        """The residual exponent between explosion and identity; ValueError where the law states none."""
        exponent = self.facts.natural_exponent
        if exponent is None:
            raise ValueError(
                f"exponent must be given: {self.describe()} have no natural one; 0.5 suits independent"
                " layers, 1.0 functions of time."
            )
        return exponent

    @property
    def letters(self) -> dict[str, str]:
        """The letters that the law's paper has in a recursion's formula, where they differ from Marion et
        al.'s.
        """
        return {}

    def exponents_in_words(self, exponent: float) -> str:
        """Return the residual exponent and, if it has one, the law's, with their letters."""
        return f"β = {exponent:g}"

    @property
    def has_bias(self) -> bool:
        """Whether a recursion that reads no bias would ignore a part of what was given."""
        return False

    @property
    def citations(self) -> tuple[str, ...]:
        """Keys or BibTeX entries of the works that its paths rest on, for `citation()` of a report."""
        return ()

    @property
    def joins_depths(self) -> bool:
        """Whether one path gives the layers of all depths; else each depth has separate weights."""
        return True

    @property
    def functions(self) -> tuple[FunctionLaw, ...]:
        """The functions of time that a layer reads; empty where there are none."""
        return ()

    @property
    def noise(self) -> object | None:
        """The Itô process, an `Ito`, whose increments a layer holds; None for other laws."""
        return None

    @property
    def needs_equal_steps(self) -> bool:
        """Whether a path can be drawn on a grid of equal steps only."""
        return False

    def channels(self, shape: Shape) -> tuple[Channel, ...]:
        """Return what a path of this shape is made of: functions of time, and the noise that drives a layer.

        By default they follow from what the law states: its functions, the number of `motions`, whether
        increments are normal (`facts.gaussian`), and whether they have a variance (`facts.unit_variance`).
        """
        facts, name = self.facts, "weight"
        found = [Channel(name, ChannelKind.FUNCTION, shape) for _ in self.functions]
        if motions := self.motions(shape):
            independent = facts.dependence is Dependence.INDEPENDENT
            drawn = independent and not facts.gaussian
            known = facts.gaussian or facts.sub_gaussian is not None or not drawn
            moments = math.inf if known else 2.0 if facts.unit_variance else 0.0
            kind = ChannelKind.INCREMENTS if drawn else ChannelKind.BROWNIAN
            adds_up = (1.0, 0.0) if independent else (None, None)
            found.append(Channel(name, kind, (motions,), moments, *adds_up))
        elif not found:
            kinds = {Dependence.FRACTIONAL: ChannelKind.FRACTIONAL, Dependence.RECORDED: ChannelKind.RECORDED}
            found.append(Channel(name, kinds.get(facts.dependence, ChannelKind.SEPARATE), shape))
        return tuple(found)

    def motions(self, shape: Shape) -> int:
        """Return the number of Brownian motions that drive a layer; 0 where none does."""
        return 0

    def motions_in_words(self, shape: Shape) -> str:
        """Return what these motions are, in their order."""
        return f"a weight of shape {shape}, entry by entry"

    def held_per_path(self, shape: Shape) -> int:
        """Return the numbers in memory per path, whatever the grid; they size the blocks."""
        return 0

    def held_per_step(self, shape: Shape) -> int:
        """Return the numbers in memory per path and step of its grid; they size the blocks."""
        return 0

    def reduced(self) -> WeightLaw:
        """Return the same law in its simplest form, which a network keeps."""
        return self

    def factors(self, width: int) -> Factors | None:
        """Return what surrounds the Brownian motion in a layer's noise; None for noise of another kind."""
        return None

    def check(self, shape: Shape) -> None:
        """Raise where this law cannot be drawn in this shape; called once, when the network is made."""

    def check_depths(self, depths: tuple[int, ...]) -> None:
        """Raise ValueError where this law has no layers of one of these depths."""

    def layers_in_law(
        self, depth: int, shape: Shape, paths: int, generator: torch.Generator, dtype: torch.dtype
    ) -> Iterator[Layer]:
        """Yield the layers of `paths` networks of one depth, one after the other, from `generator`.

        For simulations that couple nothing: a law may yield layers that draw their product with a state
        when they are asked for it, once each.
        """
        grid = Grid((depth,))
        path = self.path(shape, grid, paths, generator, dtype)
        for chunk in grid.chunks():
            path.begin(chunk)
            for index in range(len(chunk.steps)):
                path.advance(index)
                yield path.layer(0)

    def draw_layers(
        self, depth: int, shape: Shape, paths: int, generator: torch.Generator, dtype: torch.dtype
    ) -> DrawnLayers:
        """Return all the layers of `paths` networks of one depth, on the generator's device."""
        layers = self.layers(depth, shape, paths, generator, dtype)
        values, biases = [layer.values for layer in layers], [layer.bias for layer in layers]
        return DrawnLayers(_stacked(values), _stacked(biases), layers[-1].scale())

    def layers(
        self, depth: int, shape: Shape, paths: int, generator: torch.Generator, dtype: torch.dtype
    ) -> list[Layer]:
        """Return the layers of `paths` networks of one depth, all of them at once."""
        along = WeightLaw.layers_in_law(self, depth, shape, paths, generator, dtype)
        return [_kept(layer) for layer in along]  # whole ones, whatever a law yields where only laws count


def _kept(layer: Layer) -> Layer:
    """Return a layer that the next one does not overwrite."""
    values, bias = (None if held is None else held.clone() for held in (layer.values, layer.bias))
    return dataclasses.replace(layer, values=values, bias=bias)


def _stacked(layers: list[Tensor | None]) -> Tensor | None:
    given = [layer for layer in layers if layer is not None]  # all of them, or none
    return torch.stack(given) if given else None


@dataclass(frozen=True)
class DrawnLayers:
    """All layers of a block of networks of depth L; a recursion multiplies by `scale` times these."""

    matrices: Tensor | None  # (L, P, *shape), or (L, 1, *shape) for all paths; None for 0
    biases: Tensor | None  # (L, P, d) or (L, 1, d), unscaled; None for 0
    scale: float


@dataclass(frozen=True)
class FunctionLaw(WeightLaw):
    """A law whose layers are values of one function of time at their ends (Marion et al. 2025, (A5))."""

    @property
    def facts(self) -> Facts:
        return Facts(Dependence.SMOOTH, holder=self.smoothness, natural_exponent=1.0)

    @property
    def layer_exponent(self) -> float:
        return 0.0

    @property
    def functions(self) -> tuple[FunctionLaw, ...]:
        return (self,)

    @property
    def smoothness(self) -> float:
        """The Hölder exponent of the functions in time, at most 1 (Lipschitz); it bounds every order."""
        return 1.0

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

    @abstractmethod
    def held_per_path(self, shape: Shape) -> int:
        """Return the numbers in memory per sampled function; they size the blocks."""

    def path(
        self, shape: Shape, grid: Grid, paths: int, generator: torch.Generator, dtype: torch.dtype
    ) -> Path:
        device = torch.device(generator.device)
        function = self.sample(shape, paths, generator, dtype, device)
        return FunctionPath(grid.depths, function, shape, self.entry_scale(shape), paths, device)

    def draw_layers(
        self, depth: int, shape: Shape, paths: int, generator: torch.Generator, dtype: torch.dtype
    ) -> DrawnLayers:
        device = torch.device(generator.device)
        function = self.sample(shape, paths, generator, dtype, device)
        ends = torch.arange(1, depth + 1, dtype=torch.float64, device=device) / depth
        return DrawnLayers(function.at(ends), function.bias_at(ends), self.entry_scale(shape))
