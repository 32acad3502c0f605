"""Limits that hold in law only: no scheme follows a network's noise, but H_1's law can be drawn."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.equations.base import Limit
from deeplimit.equations.drive import Drive
from deeplimit.equations.solvers import Solver

NUMBERS_AT_ONCE = 2**20
"""How many waiting times are held at once while directions are drawn."""


class LawLimit(Limit):
    """A limit known by its law at time 1, which `draw` draws; `compare_laws` takes it, `compare` cannot.

    A user's limit in law is a subclass with `equation`, a line of text for the report, and `draw`.
    """

    kind: ClassVar[str] = "a limit in law"
    is_drawable: ClassVar[bool] = True
    is_drawn_by_steps: ClassVar[bool] = False
    in_law_only: ClassVar[bool] = True

    @property
    def is_random(self) -> bool:
        return True

    @abstractmethod
    def draw(self, h0: Tensor, generator: torch.Generator) -> Tensor:
        """Return an independent draw of H_1 (P, d) for each row of `h0` (P, d), from `generator` alone."""

    def draw_end(self, h0: Tensor, generator: torch.Generator, steps: int) -> Tensor:
        return self.draw(h0, generator)

    def solver(self, drive: Drive) -> Solver:
        raise NotImplementedError(
            f"{self.equation} is known in law only: no scheme follows a network's noise."
        )


@final
@dataclass(frozen=True)
class IsotropicSDE(LawLimit):
    """dH = (rate/d)^1/2 |H| dβ, β a d-dimensional Brownian motion (Itô); rate 1/2 is res-3's limit in law.

    Norm and direction are independent: ln(|H_1|/|h_0|) ~ N(rate/2 · (1 - 2/d), rate/d). The direction is a
    Brownian motion on the sphere at time rate/d, drawn through its Wright-Fisher form (Jenkins & Spanò 2017;
    Mijatović, Mramor & Uribe Bravo 2020). A torchsde object as it is: f (P, d), g (P, d, d). It holds for
    weights of symmetric laws, and no paper states it; its derivation is on the page "Limits in law" of the
    documentation.

    Raises TypeError or ValueError for a width below 1 or a rate outside [0.001, 100].

    Examples:
        >>> import torch, deeplimit as dl
        >>> limit = dl.res3(width=4).limit()
        >>> limit.equation
        'dH = (0.5/d)^1/2 |H| dβ, in law, d = 4'
        >>> limit.draw(torch.ones(5, 4), torch.Generator().manual_seed(0)).shape
        torch.Size([5, 4])
    """

    width: int
    rate: float = 0.5
    remark: ClassVar[str] = (
        "the limit is this library's own derivation from the branch's covariance; neither paper states it."
    )
    sde_type: ClassVar[str] = "ito"
    # Not "diagonal", which in torchsde promises that g_i depends on y_i alone.
    noise_type: ClassVar[str] = "general"

    @by_default
    def __post_init__(self) -> None:
        validation.plain_numbers(self)
        validation.integer(self.width, "width", minimum=1, hint="It is the number of hidden units d.")
        validation.real(self.rate, "rate", minimum=0.001, maximum=100.0, hint="res-3 has rate 1/2.")

    @property
    def equation(self) -> str:
        return f"dH = ({self.rate:g}/d)^1/2 |H| dβ, in law, d = {self.width}"

    @property
    def log_norm_mean(self) -> float:
        """The mean of ln(|H_1|/|h_0|)."""
        return self.rate / 2 * (1 - 2 / self.width)

    @property
    def log_norm_variance(self) -> float:
        """The variance of ln(|H_1|/|h_0|)."""
        return self.rate / self.width

    def f(self, t: Any, y: Tensor) -> Tensor:
        """Return the drift, which is zero, as (P, d)."""
        return torch.zeros_like(y)

    def g(self, t: Any, y: Tensor) -> Tensor:
        """Return the diffusion (rate/d)^1/2 |y| I as (P, d, d)."""
        size = math.sqrt(self.rate / self.width) * y.norm(dim=1)
        diffusion: Tensor = size[:, None, None] * torch.eye(self.width, dtype=y.dtype, device=y.device)
        return diffusion

    def draw(self, h0: Tensor, generator: torch.Generator) -> Tensor:
        paths = len(h0)
        start = h0.double()
        standard = torch.empty(paths, 1, dtype=torch.float64, device=h0.device).normal_(generator=generator)
        ratio = torch.exp(self.log_norm_mean + math.sqrt(self.log_norm_variance) * standard)
        if self.width == 1:  # a line has no directions, and a state never crosses 0
            return (start * ratio).to(h0.dtype)
        first = start / start.norm(dim=1, keepdim=True)
        cosine = 1 - 2 * _fallen(self.width, self.rate / self.width, paths, generator)
        aside = torch.empty_like(start).normal_(generator=generator)
        aside -= (aside * first).sum(dim=1, keepdim=True) * first
        aside /= aside.norm(dim=1, keepdim=True)
        direction = cosine * first + (1 - cosine.square()).clamp(min=0.0).sqrt() * aside
        end: Tensor = start.norm(dim=1, keepdim=True) * ratio * direction
        return end.to(h0.dtype)


def _fallen(width: int, time: float, paths: int, generator: torch.Generator) -> Tensor:
    """Return draws (P, 1) of (1 - cos)/2 for the ends of a spherical Brownian motion of length `time`.

    This is a Wright-Fisher diffusion from 0 with both mutation rates (d - 1)/2: given the number M of
    lineages of its coalescent at `time`, it is Beta((d - 1)/2, (d - 1)/2 + M).
    """
    lineages = _lineages(width, time, paths, generator)
    half = (width - 1) / 2
    with_few = _gamma(torch.full_like(lineages, half), generator)
    with_many = _gamma(half + lineages, generator)
    return (with_few / (with_few + with_many)).unsqueeze(1)


def _lineages(width: int, time: float, paths: int, generator: torch.Generator) -> Tensor:
    """Return draws (P,) of the number of lineages of the coalescent at `time`.

    This is a pure death process from infinity, from k to k - 1 at the rate k(k + d - 2)/2.

    Every death below `top` is drawn. The infinitely many above it take about a quarter of `time`, a Gamma
    variable of the right mean and variance. Its third cumulant alone is off, by less than 1e-3 of that of M.
    """
    top = math.ceil(8 / time) + 16
    mean, variance = _descent(width, top)
    rates = torch.arange(top, 0, -1, dtype=torch.float64, device=generator.device)
    rates = rates * (rates + width - 2) / 2
    drawn: list[Tensor] = []
    piece = max(1, NUMBERS_AT_ONCE // top)
    for first in range(0, paths, piece):
        count = min(piece, paths - first)
        shape = torch.full((count,), mean**2 / variance, dtype=torch.float64, device=generator.device)
        waits = (
            torch.empty(count, top, dtype=torch.float64, device=generator.device).exponential_(
                generator=generator
            )
            / rates
        )
        times = waits.cumsum_(dim=1) + (_gamma(shape, generator) * (variance / mean)).unsqueeze(1)
        drawn.append((top - (times <= time).sum(dim=1)).double())
    return torch.cat(drawn)


@lru_cache(maxsize=64)
def _descent(width: int, top: int) -> tuple[float, float]:
    """Return mean and variance of the time that a death process takes from infinity down to `top`."""
    from scipy.integrate import quad  # here: comparisons without this law need not wait for it

    # Sums over k > top, by the midpoint rule backwards: integrals from top + 1/2.
    mean, variance = (
        quad(lambda k, p=p: (2 / (k * (k + width - 2))) ** p, top + 0.5, math.inf)[0] for p in (1, 2)
    )
    return mean, variance


def _gamma(shape: Tensor, generator: torch.Generator) -> Tensor:
    """Return Gamma draws (P,) of unit scale."""
    drawn: Tensor = torch._standard_gamma(shape, generator=generator)
    return drawn
