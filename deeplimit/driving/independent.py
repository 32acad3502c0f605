"""Independent layers: Brownian motion, and sums of i.i.d. draws of any centred law of unit variance."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import final

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.driving.law import FINITE_VARIANCE, Channel, ChannelKind, Dependence, Facts, Shape, WeightLaw
from deeplimit.driving.path import Chunk, CoarseSums, DrawnLayers, Grid, Layer, Path
from deeplimit.driving.sampler_test import Sampler, test_sampler

TESTED_WIDTH = 32
"""Width at which a sampler is tested where no network says which."""


@dataclass(frozen=True)
class IndependentLaw(WeightLaw):
    """A law with independent increments, one unit of variance per entry and unit of time."""

    @property
    def layer_exponent(self) -> float:
        return 0.5

    def channels(self, shape: Shape) -> tuple[Channel, ...]:
        """Return Brownian motion for normal draws, else increments with the moments that facts vouch for."""
        facts = self.facts
        adds_up = (1.0, 0.0) if facts.dependence is Dependence.INDEPENDENT else (None, None)
        if facts.gaussian:
            return (Channel("weight", ChannelKind.BROWNIAN, shape, math.inf, *adds_up),)
        variance = FINITE_VARIANCE if facts.unit_variance else 0.0
        moments = math.inf if facts.sub_gaussian is not None else variance
        return (Channel("weight", ChannelKind.INCREMENTS, shape, moments, *adds_up),)

    @abstractmethod
    def draw(self, step: float, out: Tensor, generator: torch.Generator) -> None:
        """Fill `out` (..., *shape) with independent increments over times of length `step`."""

    def path(
        self, shape: Shape, grid: Grid, paths: int, generator: torch.Generator, dtype: torch.dtype
    ) -> Path:
        return IncrementPath(self, grid.depths, shape, paths, generator, dtype)


class IncrementPath(Path):
    """Draws fine increments and sums them into coarse layers."""

    def __init__(
        self,
        law: IndependentLaw,
        depths: tuple[int, ...],
        shape: Shape,
        paths: int,
        generator: torch.Generator,
        dtype: torch.dtype,
    ) -> None:
        self.law = law
        self.depths = depths
        self.scale = law.entry_scale(shape)
        self.generator = generator
        self.beginning = generator.get_state()
        self.drawn = torch.empty(paths, *shape, dtype=dtype, device=generator.device)
        self.sums = CoarseSums(depths, self.drawn)

    @property
    def brownian(self) -> Tensor:
        return self.drawn.reshape(len(self.drawn), -1)

    @property
    def increment(self) -> Tensor | None:
        return self.drawn

    def begin(self, chunk: Chunk) -> None:
        self.steps = chunk.steps

    def advance(self, index: int) -> None:
        self.law.draw(float(self.steps[index]), self.drawn, self.generator)
        self.sums.add(self.drawn)

    def layer(self, j: int) -> Layer:
        return Layer(self.sums.take(j), self.depths[j], self.law.layer_exponent, self.scale)

    def rewind(self) -> None:
        self.generator.set_state(self.beginning)
        self.sums.forget()

    def whole(self) -> DrawnLayers | None:
        """Return the layers drawn with unit variance, whose scale is then the entries' alone."""
        (depth,) = self.depths
        layers = self.drawn.new_empty(depth, *self.drawn.shape)
        self.law.draw(1.0, layers, self.generator)
        return DrawnLayers(layers, None, self.scale)


@final
@dataclass(frozen=True)
class Brownian(IndependentLaw):
    """I.i.d. Gaussian layers, N(0, 1/d) per entry: increments of a d × d Brownian motion (Marion et al. 2025,
    Prop. 11).

    Examples:
        >>> import deeplimit as dl
        >>> dl.res1(width=4, activation="tanh", weights=dl.Brownian()).regime().name
        'sde'
    """

    @property
    def facts(self) -> Facts:
        return Facts.of_normal_entries(Dependence.INDEPENDENT, natural_exponent=0.5)

    def draw(self, step: float, out: Tensor, generator: torch.Generator) -> None:
        out.normal_(0.0, math.sqrt(step), generator=generator)

    def describe(self) -> str:
        return "i.i.d. Gaussian weights"


@final
@dataclass(frozen=True)
class IID(IndependentLaw):
    """I.i.d. layers of a given law: "gaussian", "uniform", "rademacher", or a callable sampler.

    A sampler is called as `sampler(shape, generator)`. It returns a tensor of that shape of independent
    draws with mean 0 and variance 1; the network applies the factor 1/√d. Its first 65,536 draws are
    checked when it is given: finite, repeatable from the generator, mean and variance within six standard
    errors plus 1 %. At the network's width (`Facts.at`), entries, layers and their sizes are tested for
    correlation. If some is found, no theorem applies; the network can still be measured. NOT checked:
    independence beyond that, and tails (Marion et al. 2025, (A1) asks for sub-Gaussian ones).

    Sums of Gaussian layers are Gaussian. For any other law, a coarse layer is the normalised SUM of the
    finest network's draws, and so is not of the named law. The SDE is then a limit in law only (Marion et al.
    2025 after Prop. 11).

    Raises:
        TypeError: For a law that is neither a string nor a callable.
        ValueError: For an unknown name, or a sampler whose mean is not 0 or whose variance is not 1.

    Examples:
        >>> import torch, deeplimit as dl
        >>> dl.res1(width=4, activation="tanh", weights=dl.IID("uniform")).regime().convergence
        'in law'
        >>> def laplace(shape, generator):
        ...     signs = torch.randint(0, 2, shape, generator=generator) * 2.0 - 1.0
        ...     return signs * torch.empty(shape).exponential_(generator=generator) / 2**0.5
        >>> dl.IID(laplace).facts.gaussian
        False
    """

    law: str | Sampler = "gaussian"

    @by_default
    def __post_init__(self) -> None:
        if isinstance(self.law, str):
            validation.choice(self.law, "law", ("gaussian", "uniform", "rademacher"))
        elif callable(self.law):
            _check_sampler(self.law)
        else:
            raise TypeError(
                "law must be 'gaussian', 'uniform', 'rademacher' or a callable sampler(shape, generator);"
                f" got {validation.named(self.law)}."
            )

    @property
    def facts(self) -> Facts:
        """What theory may use; a sampler's draws are tested, once per width (some milliseconds)."""
        if callable(self.law):
            tested = partial(_facts_of_sampler, self.law)
            return dataclasses.replace(tested(TESTED_WIDTH), tested_at=tested)
        gaussian, atoms = self.law == "gaussian", self.law == "rademacher"
        return dataclasses.replace(Brownian().facts, gaussian=gaussian, atoms=atoms)

    def draw(self, step: float, out: Tensor, generator: torch.Generator) -> None:
        scale = math.sqrt(step)
        if self.law == "gaussian":
            out.normal_(0.0, scale, generator=generator)
        elif self.law == "uniform":
            out.uniform_(-math.sqrt(3.0) * scale, math.sqrt(3.0) * scale, generator=generator)
        elif self.law == "rademacher":
            out.bernoulli_(0.5, generator=generator).mul_(2.0 * scale).sub_(scale)
        else:
            assert callable(self.law)
            out.copy_(self.law(tuple(out.shape), generator)).mul_(scale)

    def describe(self) -> str:
        name = {"gaussian": "Gaussian", "rademacher": "Rademacher"}.get(str(self.law), self.law)
        return f"i.i.d. {name if isinstance(name, str) else getattr(name, '__name__', 'user-drawn')} weights"


def _facts_of_sampler(sampler: Sampler, width: int) -> Facts:
    """Return what is known of a sampler: its mean and variance, and what a test of its draws found."""
    tested = test_sampler(sampler, width)
    draws = f"{tested.count} draws at width {tested.width}"
    if tested.found:
        return Facts(
            Dependence.STATIONARY if tested.layers_depend else Dependence.INDEPENDENT,
            independent_entries=False,
            unit_variance=True,
            found=tuple(f"{sentence} in {draws}" for sentence in tested.found),
        )
    return Facts(
        Dependence.INDEPENDENT,
        unit_variance=True,
        natural_exponent=0.5,
        tested=(
            f"{draws} show no correlation of entries, of their sizes, or of layers, beyond chance (at the"
            " level 1e-6).",
        ),
        not_known=(
            "whether the sampler's entries are independent beyond what was tested",
            "whether its layers are independent beyond what was tested",
            f"its tails (the draws have kurtosis {tested.kurtosis:.3g}; a normal law has 3)",
            "whether its law is symmetric",
        ),
    )


def _check_sampler(sampler: Sampler) -> None:
    name = getattr(sampler, "__name__", type(sampler).__name__)
    shape = (64, 32, 32)
    try:
        draws, again = (sampler(shape, torch.Generator().manual_seed(0)) for _ in range(2))
    except Exception as error:
        raise TypeError(
            f"sampler {name!r} of a law must take (shape, generator); calling it so raised"
            f" {type(error).__name__}: {error}."
        ) from error
    if not isinstance(draws, Tensor) or tuple(draws.shape) != shape:
        got = f"shape {tuple(draws.shape)}" if isinstance(draws, Tensor) else type(draws).__name__
        raise TypeError(
            f"sampler {name!r} of a law must return a tensor of the shape asked for, {shape}; got {got}."
        )
    values = validation.real_tensor(draws, f"what sampler {name!r} of a law draws").double()
    if not bool(torch.isfinite(values).all()):
        raise ValueError(f"sampler {name!r} must draw finite numbers, but drew NaN or infinity.")
    if not torch.equal(draws, again):
        raise ValueError(
            f"sampler {name!r} must draw from the generator it is given, as in torch.randn(shape,"
            " generator=generator); two calls with the same seed differ."
        )
    count = values.numel()
    mean, variance = values.mean().item(), values.var().item()
    spread = 6.0 * (values.square().var().item() / count) ** 0.5 + 0.01
    spread = min(spread, 0.25)  # heavy tails must not excuse themselves
    if abs(mean) > 6.0 * (variance / count) ** 0.5 + 0.01 or abs(variance - 1.0) > spread:
        raise ValueError(
            f"sampler {name!r} must draw with mean 0 and variance 1; {count} draws have mean {mean:.3g} and"
            f" variance {variance:.3g}. Subtract the mean and divide by the standard deviation; the network"
            " applies 1/√d itself."
        )
