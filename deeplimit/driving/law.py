"""What a weight law is: the facts and channels that it states, and the paths that it gives.

Theory uses what a law states, and nothing that its type would suggest.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self, final

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.final import FinalWhereMarked
from deeplimit.common.global_state import by_default
from deeplimit.driving.path import FunctionPath, Grid, Path, SampledFunction


@final
@dataclass(frozen=True, eq=False)
class Factors:
    """Matrix noise with increments rows · dB · columns, dB (d, d) with independent entries of variance dt.

    A factor is a number, a diagonal (d,) or a symmetric matrix (d, d), in float64.
    """

    rows: Tensor
    columns: Tensor

    def to(self, dtype: torch.dtype, device: torch.device) -> Factors:
        return Factors(self.rows.to(device, dtype), self.columns.to(device, dtype))

    @staticmethod
    def apply(factor: Tensor, vectors: Tensor) -> Tensor:
        """Return a factor times `vectors` (P, d)."""
        return vectors @ factor if factor.ndim == 2 else vectors * factor


class Dependence(StrEnum):
    """How the layers of one weight depend on each other."""

    INDEPENDENT = "independent"
    """Layers are independent of each other and identically distributed."""
    SMOOTH = "smooth"
    """Layer k of depth L is the value near k/L of one function of time, the same at every depth."""
    FRACTIONAL = "fractional"
    """Layers are increments of fractional Brownian motion."""
    SHRINKING = "shrinking"
    """L^-β times a function of time, plus increments of an Itô process (Cohen et al. 2021, Hypotheses 1 and
    2).
    """
    STATIONARY = "stationary"
    """Layers are a stationary sequence, correlated as the weight law says."""
    RECORDED = "recorded"
    """Layers are given numbers, at recorded depths only."""
    UNKNOWN = "unknown"
    """Nothing is known of how layers depend on each other."""
    MIXED = "mixed"
    """Several weights whose layers depend on each other in different ways."""


@dataclass(frozen=True)
class Facts:
    """What is known of a weight law; where nothing is stated, the weaker assumption is the default.

    Attributes:
        dependence: How layers depend on each other.
        gaussian: Whether all entries of all layers are jointly Gaussian, so that a limit on the same path
            exists.
        independent_entries: Whether entries are independent of each other; None where that is not known.
        symmetric: Whether X and -X are known to have the same law.
        unit_variance: Whether an entry has mean 0 and variance 1/d, as (A1) of Marion et al. (2025) asks.
        sub_gaussian: Constant s of (A1) of Marion et al. (2025); None where it is not known.
        atoms: Whether a linear combination of entries may be 0 with positive probability.
        deterministic: Whether two draws are the same.
        hurst: Hurst index; None where layers are not increments of fractional Brownian motion.
        holder: Hölder exponent of the functions of time that layers read, at most 1; None where there are
            none.
        length_scale: Length scale of the covariance of Gaussian functions of time, as a share of the whole
            depth; None for other laws.
        depth_to_width: T, where a layer has L/T hidden units at depth L, and every unit is a row of
            independent standard normal numbers; None for other laws.
        natural_exponent: Residual exponent between explosion and identity; None where it is not known.
        weight_exponent: Power of 1/L by which the function of time is multiplied (Cohen et al.'s β); None for
            other laws.
        biased: Whether layers have biases.
        tested: What a test of draws looked for and did not find, in words; for instance of a user's sampler.
        found: What it found against the claims of the weight law, in words; theory then says nothing.
        not_known: What theory would need and nobody has stated, in words; for instance of a user's sampler.
        tested_at: Function from a width to the facts, where draws are tested at the network's width.
    """

    dependence: Dependence
    gaussian: bool = False
    independent_entries: bool | None = None
    symmetric: bool = False
    unit_variance: bool = False
    sub_gaussian: float | None = None
    atoms: bool = False
    deterministic: bool = False
    hurst: float | None = None
    holder: float | None = None
    length_scale: float | None = None
    depth_to_width: float | None = None
    natural_exponent: float | None = None
    weight_exponent: float | None = None
    biased: bool = False
    tested: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    not_known: tuple[str, ...] = ()
    tested_at: Callable[[int], Facts] | None = field(default=None, compare=False, repr=False)

    def at(self, width: int) -> Facts:
        """Return what theory may use at this width, at which a sampler is tested."""
        return self if self.tested_at is None else self.tested_at(width)

    @classmethod
    def of_normal_entries(cls, dependence: Dependence, **more: Any) -> Self:
        """Return the facts of independent entries of law N(0, 1/d), and what more is stated."""
        return cls(
            dependence,
            gaussian=True,
            independent_entries=True,
            symmetric=True,
            unit_variance=True,
            sub_gaussian=1.0,
            **more,
        )


def together(facts: tuple[Facts, ...]) -> Facts:
    """Return what holds of several weights at once: a fact that one of them lacks is lost."""
    first = facts[0]
    if all(fact == first for fact in facts):
        return first
    alike = all(fact.dependence == first.dependence for fact in facts)
    holders = [fact.holder for fact in facts if fact.holder is not None]
    exponents = [fact.natural_exponent for fact in facts]
    known = [value for value in exponents if value is not None]
    constants = [fact.sub_gaussian for fact in facts if fact.sub_gaussian is not None]
    return Facts(
        dependence=first.dependence if alike else Dependence.MIXED,
        gaussian=all(fact.gaussian for fact in facts),
        independent_entries=_all_known([fact.independent_entries for fact in facts]),
        symmetric=all(fact.symmetric for fact in facts),
        unit_variance=all(fact.unit_variance for fact in facts),
        sub_gaussian=max(constants) if len(constants) == len(facts) else None,
        atoms=any(fact.atoms for fact in facts),
        deterministic=all(fact.deterministic for fact in facts),
        hurst=first.hurst if len({fact.hurst for fact in facts}) == 1 else None,
        holder=min(holders) if len(holders) == len(facts) else None,
        length_scale=first.length_scale if len({fact.length_scale for fact in facts}) == 1 else None,
        depth_to_width=first.depth_to_width if len({fact.depth_to_width for fact in facts}) == 1 else None,
        natural_exponent=min(known) if len(known) == len(exponents) else None,
        biased=any(fact.biased for fact in facts),
        tested=tuple(dict.fromkeys(text for fact in facts for text in fact.tested)),
        found=tuple(dict.fromkeys(text for fact in facts for text in fact.found)),
        not_known=tuple(dict.fromkeys(text for fact in facts for text in fact.not_known)),
    )


def _all_known(values: list[bool | None]) -> bool | None:
    if any(value is False for value in values):
        return False
    return None if any(value is None for value in values) else True


Shape = tuple[int, ...]
"""The shape of one weight: (d, d) for a matrix, (d,) for a vector, () for a number, (c, c, k, k) for a
convolution's kernel."""

ROUND_OFF = 1e-9
"""Numbers that are given as closely as this are equal: sums such as 0.7 - 0.2 are off by some 1e-16."""
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

    @by_default
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
    All else is read from these: the functions below, and `deeplimit.driving.drawing`.
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


ONE = torch.ones((), dtype=torch.float64)


def units(depth: int, depth_to_width: float) -> int:
    """Return the number L/T of hidden units at a depth; raise ValueError where it is not whole."""
    found = depth / depth_to_width
    if round(found) < 1 or abs(found - round(found)) > 1e-6 * found:
        raise ValueError(
            f"depths must be multiples of depth_to_width={depth_to_width:g}; got {depth}, which has"
            f" {found:g} hidden units per layer."
        )
    return round(found)


def channels_of(laws: Iterable[WeightLaw], shapes: Iterable[Shape]) -> tuple[Channel, ...]:
    """Return the channels of several weights, in order."""
    return tuple(channel for law, shape in zip(laws, shapes, strict=True) for channel in law.channels(shape))


def functions_of(channels: Iterable[Channel]) -> tuple[FunctionLaw, ...]:
    """Return the laws of the functions of time that layers read, in order."""
    return tuple(channel.function for channel in channels if channel.function is not None)


def noise_of(channels: Iterable[Channel]) -> Any:
    """Return the `Ito` whose increments layers hold; None where there is none, or more than one."""
    driven = [channel for channel in channels if channel.ito is not None]
    processes, parts = {id(channel.ito) for channel in driven}, {channel.name for channel in driven}
    # One process has each of its parts once; two weights of one law have two paths of it.
    return driven[0].ito if len(processes) == 1 and len(parts) == len(driven) else None


def motions_of(channels: Iterable[Channel]) -> int:
    """Return the number of Brownian motions, or of sums of increments, that drive layers."""
    return sum(channel.motions for channel in channels)


def motions_in_words(channels: Iterable[Channel]) -> str:
    """Return what these motions are, in their order."""
    return ", then ".join(
        f"{channel.name}'s {' x '.join(map(str, channel.shape)) or '1'}"
        + ", row by row" * (len(channel.shape) > 1)
        for channel in channels
        if channel.motions
    )


def is_standard(law: WeightLaw, shape: Shape) -> bool:
    """Return whether layers are increments of Brownian motions, one per entry: facts and channels say so."""
    facts = law.facts
    normal = facts.gaussian and facts.unit_variance and facts.independent_entries is True
    return (normal and facts.dependence is Dependence.INDEPENDENT) and all(
        (channel.kind, channel.shape) == (ChannelKind.BROWNIAN, shape) for channel in law.channels(shape)
    )


def factors_of(law: WeightLaw, shape: Shape) -> Factors | None:
    """Return what surrounds the Brownian matrix in a layer's noise; None for noise of another kind."""
    driving = [channel for channel in law.channels(shape) if channel.motions]
    stated = [channel.factors for channel in driving if channel.factors is not None]
    if not stated:
        return Factors(ONE, ONE) if is_standard(law, shape) else None
    # Of other noise, passes on products draw that of an Itô process's biases alone.
    known = all(channel.factors is not None or channel.ito is not None for channel in driving)
    return stated[0] if known and len(stated) == 1 else None


def critical_exponent(law: WeightLaw, shape: Shape = (1, 1)) -> float:
    """Return the residual exponent between explosion and identity; ValueError where none is known.

    Increments add up to a path of one size at the exponent that undoes the layers' own, whatever was found
    out about a sampler.
    """
    if (stated := law.facts.natural_exponent) is not None:
        return stated
    if all(channel.motions for channel in law.channels(shape)):
        return law.layer_exponent
    raise ValueError(
        f"exponent must be given: {law.describe()} have no natural one; 0.5 suits independent layers, 1.0"
        " functions of time, 0 weights that hold their scale already, as trained ones do."
    )


def check_depths(law: WeightLaw, shape: Shape, depths: tuple[int, ...]) -> None:
    """Raise ValueError where a law has no layers of one of these depths."""
    for channel in law.channels(shape):
        if channel.depths and (missing := sorted(set(depths) - set(channel.depths))):
            raise ValueError(
                f"depths must be recorded ones, {[*channel.depths]}; got {missing}, where no weights are"
                " known."
            )
    if (ratio := law.facts.depth_to_width) is not None:
        for depth in depths:
            units(depth, ratio)
