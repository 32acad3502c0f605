"""Independent layers: Brownian motion, and sums of i.i.d. draws of any other centred law with unit
variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from deeplimit.ground import validation
from deeplimit.weights.base import Factors, IncrementProcess
from deeplimit.weights.facts import Dependence, Facts
from deeplimit.weights.sampler_test import Sampler, Tested, test_sampler

_ONE = torch.ones((), dtype=torch.float64)

TESTED_WIDTH = 32
"""Width at which a sampler is tested where no network says which."""


@dataclass(frozen=True)
class Brownian(IncrementProcess):
    """I.i.d. Gaussian layers, N(0, 1/d) per entry: the increments of a d × d Brownian motion ([M] Prop.
    11).

    Examples:
        >>> import deeplimit as dl
        >>> dl.res1(width=4, activation="tanh", weights=dl.Brownian()).regime().name
        'sde'
    """

    @property
    def facts(self) -> Facts:
        return Facts(
            Dependence.INDEPENDENT,
            gaussian=True,
            independent_entries=True,
            symmetric=True,
            unit_variance=True,
            sub_gaussian=1.0,
            natural_exponent=0.5,
        )

    @property
    def is_gaussian(self) -> bool:
        return True

    def factors(self, width: int) -> Factors | None:
        """Return those of a Brownian motion; None where a user's subclass draws in a way of its own."""
        return Factors(_ONE, _ONE) if type(self).draw is Brownian.draw else None

    def draw(self, step: float, out: Tensor, generator: torch.Generator) -> None:
        out.normal_(0.0, math.sqrt(step), generator=generator)

    def describe(self) -> str:
        return "i.i.d. Gaussian weights"


@dataclass(frozen=True)
class IID(IncrementProcess):
    """I.i.d. layers of a given law: "gaussian", "uniform", "rademacher", or a callable sampler.

    A sampler is called as `sampler(shape, generator)` and returns a tensor of that shape of independent
    draws with mean 0 and variance 1; the width's 1/√d is applied by the network. Its first 65,536 draws
    are checked when it is given (finite, repeatable from the generator, mean and variance within six
    standard errors plus 1 %). Entries and layers are tested for correlation, of their sizes too, at the
    network's width (`facts_at`); where some is found, no theorem applies, and the network can still be
    measured. Independence beyond that, and tails ([M] (A1) asks for sub-Gaussian ones), are NOT checked.

    Only the Gaussian law is infinitely divisible into itself: for any other, a coarse layer is the
    normalised SUM of the reference's draws, no longer of the named law, and the SDE is a limit in law only
    ([M] after Prop. 11).

    Raises TypeError for a law that is neither a string nor a callable, ValueError for an unknown name or a
    sampler that is not centred with unit variance.

    Examples:
        >>> import torch, deeplimit as dl
        >>> dl.res1(width=4, activation="tanh", weights=dl.IID("uniform")).regime().convergence
        'in law'
        >>> def laplace(shape, generator):
        ...     signs = torch.randint(0, 2, shape, generator=generator) * 2.0 - 1.0
        ...     return signs * torch.empty(shape).exponential_(generator=generator) / 2**0.5
        >>> dl.IID(laplace).is_gaussian
        False
    """

    law: str | Sampler = "gaussian"

    def __post_init__(self) -> None:
        if isinstance(self.law, str):
            validation.choice(self.law, "law", ("gaussian", "uniform", "rademacher"))
        elif callable(self.law):
            _check_sampler(self.law)
        else:
            raise TypeError(
                "law must be 'gaussian', 'uniform', 'rademacher' or a callable sampler(shape, generator);"
                f" got {self.law!r} of type {type(self.law).__name__}."
            )

    @property
    def facts(self) -> Facts:
        return self.facts_at(TESTED_WIDTH)

    def facts_at(self, width: int) -> Facts:
        """Return what theory may use; a sampler's draws are tested once at this width (some milliseconds)."""
        if callable(self.law):
            return _facts_of_sampler(test_sampler(self.law, width))
        return Facts(
            Dependence.INDEPENDENT,
            gaussian=self.law == "gaussian",
            independent_entries=True,
            symmetric=True,
            unit_variance=True,
            sub_gaussian=1.0,
            atoms=self.law == "rademacher",
            natural_exponent=0.5,
        )

    @property
    def is_gaussian(self) -> bool:
        return self.law == "gaussian"

    def factors(self, width: int) -> Factors | None:
        """Return those of a Brownian motion where this is one; None where a user's subclass draws in a way
        of its own.
        """
        return Factors(_ONE, _ONE) if self.is_gaussian and type(self).draw is IID.draw else None

    @property
    def is_symmetric(self) -> bool:
        return isinstance(self.law, str)  # of a sampler's draws nothing is known beyond mean and variance

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


def _facts_of_sampler(tested: Tested) -> Facts:
    """Return what is known of a sampler: its mean and variance, and what a test of its draws found."""
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
    except TypeError as error:
        raise TypeError(
            f"sampler {name!r} must take (shape, generator); calling it so raised: {error}."
        ) from error
    if not isinstance(draws, Tensor) or tuple(draws.shape) != shape:
        got = f"shape {tuple(draws.shape)}" if isinstance(draws, Tensor) else type(draws).__name__
        raise TypeError(f"sampler {name!r} must return a tensor of the shape asked for, {shape}; got {got}.")
    values = draws.double()
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
