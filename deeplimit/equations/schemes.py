"""Schemes: how an equation is advanced over a step, and at which order, given its noise.

An equation says its drift and what its diffusion does to increments of Brownian motion; a scheme makes a step
of these. Orders are those of the literature, in the step, on one path ("strong") and of expectations
("weak"). They hold for smooth coefficients, which is NOT checked; `compare` measures them (`scheme_network`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, ClassVar, Protocol, final

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.final import FinalWhereMarked
from deeplimit.common.global_state import by_default

ITO, STRATONOVICH = "ito", "stratonovich"


class Noise(StrEnum):
    """How noise enters an equation dH = f dt + Σ_j g_j dB_j, which decides the order of most schemes."""

    NONE = "none"
    """An ordinary equation."""
    ADDITIVE = "additive"
    """No g_j depends on H."""
    DIAGONAL = "diagonal"
    """B_j moves coordinate j alone, by an amount that depends on that coordinate alone."""
    SCALAR = "scalar"
    """One Brownian motion."""
    COMMUTATIVE = "commutative"
    """(∂g_j) g_k = (∂g_k) g_j for all j and k."""
    GENERAL = "general"
    """None of these is known."""

    @property
    def commutes(self) -> bool:
        """Whether a scheme needs no Lévy areas for strong order 1."""
        return self is not Noise.GENERAL


class Equation(Protocol):
    """What a scheme needs of an equation; times are numbers, states (P, *state_shape)."""

    @property
    def noise_structure(self) -> Noise: ...
    def drift_of(self, time: float, h: Tensor, interpretation: str) -> Tensor: ...
    def diffused(self, time: float, h: Tensor, noise: Tensor) -> Tensor: ...


def structure_of(equation: Any) -> Noise:
    """Return how noise enters an equation of the library, a torchsde object, or a function f(t, h).

    Raises TypeError for anything else.
    """
    found = getattr(equation, "noise_structure", None)
    if found is not None:
        return Noise(found)
    if hasattr(equation, "noise_type"):
        return Noise(equation.noise_type)
    validation.function(equation, "equation", "an SDE, an ODE, a torchsde object or a function f(t, h)")
    return Noise.NONE


class Scheme(FinalWhereMarked, ABC):
    """How an equation is advanced; a user's is a frozen dataclass with `name` and the three methods."""

    name: ClassVar[str]
    """What it is called in reports."""
    reads_areas: ClassVar[bool] = False
    """Whether `noise` also holds space-time Lévy areas ∫ (B_s - B_a) ds, after the increments."""

    @abstractmethod
    def strong_order(self, equation: Equation) -> float:
        """Return the order in the step of E sup |error|, for the equation's noise structure."""

    @abstractmethod
    def weak_order(self, equation: Equation) -> float:
        """Return the order in the step of the error of expectations of smooth functions."""

    @abstractmethod
    def step(self, equation: Equation, time: float, length: float, h: Tensor, noise: Tensor) -> Tensor:
        """Return the states after a step.

        Args:
            equation: what is solved.
            time, length: where the step begins, and how long it is.
            h: states (P, *state_shape) at its beginning.
            noise: increments of the Brownian motions over it (P, Brownian motions), none for an ODE; with
                `reads_areas` (P, 2 · Brownian motions).
        """


def derivative_along(function: Callable[[Tensor], Tensor], h: Tensor, direction: Tensor) -> Tensor:
    """Return the derivative of a function at h along a direction, of the function's shape.

    It is taken backward twice: forward differentiation makes torch script decompositions when it is first
    called, which takes seconds and warns.
    """
    graph = torch.is_grad_enabled() and h.requires_grad
    with torch.enable_grad():
        at = h if graph else h.detach().requires_grad_()
        value = function(at)
        weight = torch.zeros_like(value, requires_grad=True)
        if not value.requires_grad:
            return torch.zeros_like(value)
        (pulled,) = torch.autograd.grad(value, at, weight, create_graph=True, allow_unused=True)
        if pulled is None or not pulled.requires_grad:  # as of a sign, whose derivative is 0 everywhere
            return torch.zeros_like(value)
        (slope,) = torch.autograd.grad(pulled, weight, direction, create_graph=graph)
    return slope


def _with_noise(diffused: Callable[[Tensor, Tensor], Tensor], noise: Tensor, h: Tensor) -> Tensor:
    return diffused(h, noise)


def ito_correction(
    diffused: Callable[[Tensor, Tensor], Tensor], h: Tensor, motions: int, structure: Noise
) -> Tensor:
    """Return ½ Σ_j (∂g_j) g_j: what an Itô drift has more than the Stratonovich one.

    `diffused(h, noise)` is Σ_j g_j(h) noise_j. Diagonal noise takes one derivative, other noise one per
    Brownian motion, additive noise none.
    """
    if structure in (Noise.NONE, Noise.ADDITIVE):
        return torch.zeros_like(h)
    total = torch.zeros_like(h)
    units = [torch.ones(motions)] if structure is Noise.DIAGONAL else torch.eye(motions).unbind()
    for unit in units:
        noise = unit.to(h).expand(len(h), motions)
        total = total + derivative_along(partial(_with_noise, diffused, noise), h, diffused(h, noise))
    return 0.5 * total


@final
@dataclass(frozen=True)
class EulerMaruyama(Scheme):
    """h + f Δt + g ΔB in Itô's sense; Euler's method for an ODE (Kloeden & Platen 1992, 10.2, 14.1).

    Examples:
        >>> import deeplimit as dl
        >>> ou = dl.SDE(lambda t, h: -h, lambda t, h, dB: 0.5 * dB, noise="additive")
        >>> gbm = dl.SDE(lambda t, h: h, lambda t, h, dB: 0.2 * h * dB, noise="diagonal")
        >>> dl.EulerMaruyama().strong_order(ou), dl.EulerMaruyama().strong_order(gbm)
        (1.0, 0.5)
    """

    name: ClassVar[str] = "Euler-Maruyama"

    def strong_order(self, equation: Equation) -> float:
        return 1.0 if structure_of(equation) in (Noise.NONE, Noise.ADDITIVE) else 0.5

    def weak_order(self, equation: Equation) -> float:
        return 1.0

    def step(self, equation: Equation, time: float, length: float, h: Tensor, noise: Tensor) -> Tensor:
        return h + equation.drift_of(time, h, ITO) * length + equation.diffused(time, h, noise)


@final
@dataclass(frozen=True)
class Milstein(Scheme):
    """h + f_S Δt + v + ½ (∂_h v) v, v = g ΔB, f_S the Stratonovich drift (Kloeden & Platen 1992, 10.3).

    For commuting noise that is Milstein's scheme. For general noise it leaves Lévy areas out, and its strong
    order is 1/2.

    Examples:
        >>> import deeplimit as dl
        >>> gbm = dl.SDE(lambda t, h: h, lambda t, h, dB: 0.2 * h * dB, noise="diagonal")
        >>> dl.Milstein().strong_order(gbm), dl.Milstein().weak_order(gbm)
        (1.0, 1.0)
    """

    name: ClassVar[str] = "Milstein"

    def strong_order(self, equation: Equation) -> float:
        return 1.0 if structure_of(equation).commutes else 0.5

    def weak_order(self, equation: Equation) -> float:
        return 1.0

    def step(self, equation: Equation, time: float, length: float, h: Tensor, noise: Tensor) -> Tensor:
        structure = equation.noise_structure
        first = equation.diffused(time, h, noise)
        if structure in (Noise.NONE, Noise.ADDITIVE):
            return h + equation.drift_of(time, h, ITO) * length + first
        if structure in (Noise.DIAGONAL, Noise.SCALAR):  # g'g (ΔB² - Δt)/2 takes one derivative
            unit = torch.ones_like(noise)
            along = partial(_with_noise, partial(equation.diffused, time), unit)
            second = derivative_along(along, h, equation.diffused(time, h, unit)) * (noise.square() - length)
            return h + equation.drift_of(time, h, ITO) * length + first + 0.5 * second
        moved = h + equation.drift_of(time, h, STRATONOVICH) * length
        second = derivative_along(lambda at: equation.diffused(time, at, noise), h, first)
        return moved + first + 0.5 * second


class RungeKutta(Scheme):
    """An explicit Runge-Kutta method; for an SDE its stages read f_S Δt + g ΔB, in Stratonovich's sense.

    On one path noise bounds the order by 1 if it commutes, by 1/2 otherwise (Rümelin 1982).
    """

    nodes: ClassVar[tuple[float, ...]]
    """Times of the stages, as parts of the step."""
    stages: ClassVar[tuple[tuple[float, ...], ...]]
    """Weights of the earlier stages in each stage."""
    weights: ClassVar[tuple[float, ...]]
    """Weights of the stages in the step."""
    order: ClassVar[float]
    """Order for an ODE."""

    def strong_order(self, equation: Equation) -> float:
        if structure_of(equation) is Noise.NONE:
            return self.order
        return 1.0 if structure_of(equation).commutes else 0.5

    def weak_order(self, equation: Equation) -> float:
        return self.order if structure_of(equation) is Noise.NONE else 1.0

    def step(self, equation: Equation, time: float, length: float, h: Tensor, noise: Tensor) -> Tensor:
        slopes: list[Tensor] = []
        for node, row in zip(self.nodes, self.stages, strict=True):
            at = h
            for weight, slope in zip(row, slopes, strict=True):
                at = at + weight * slope if weight else at
            when = time + node * length
            drift = equation.drift_of(when, at, STRATONOVICH) * length
            slopes.append(drift + equation.diffused(when, at, noise))
        for weight, slope in zip(self.weights, slopes, strict=True):
            h = h + weight * slope
        return h


@final
@dataclass(frozen=True)
class Heun(RungeKutta):
    """Heun's predictor and corrector: order 2 for an ODE, Stratonovich for an SDE (Rümelin 1982).

    Examples:
        >>> import deeplimit as dl
        >>> circle = dl.SDE(lambda t, h: 0 * h, lambda t, h, dB: dB * h.flip(1), noise="scalar",
        ...                 interpretation="stratonovich")
        >>> dl.Heun().strong_order(circle), dl.Heun().strong_order(dl.ODE(lambda t, h: -h))
        (1.0, 2.0)
    """

    name: ClassVar[str] = "Heun"
    nodes: ClassVar[tuple[float, ...]] = (0.0, 1.0)
    stages: ClassVar[tuple[tuple[float, ...], ...]] = ((), (1.0,))
    weights: ClassVar[tuple[float, ...]] = (0.5, 0.5)
    order: ClassVar[float] = 2.0


@final
@dataclass(frozen=True)
class RK4(RungeKutta):
    """The classical method of Runge and Kutta, of order 4 for an ODE.

    Examples:
        >>> import deeplimit as dl
        >>> dl.RK4().strong_order(dl.ODE(lambda t, h: -h))
        4.0
    """

    name: ClassVar[str] = "RK4"
    nodes: ClassVar[tuple[float, ...]] = (0.0, 0.5, 0.5, 1.0)
    stages: ClassVar[tuple[tuple[float, ...], ...]] = ((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0))
    weights: ClassVar[tuple[float, ...]] = (1 / 6, 1 / 3, 1 / 3, 1 / 6)
    order: ClassVar[float] = 4.0


_ITO_METHODS: dict[str, tuple[float, float, float]] = {
    "euler": (1.0, 0.5, 0.5),
    "milstein": (1.0, 1.0, float("nan")),
    "srk": (1.5, 1.5, float("nan")),
}
_STRATONOVICH_METHODS: dict[str, tuple[float, float, float]] = {
    "midpoint": (1.0, 1.0, 0.5),
    "heun": (1.0, 1.0, 0.5),
    "euler_heun": (1.0, 1.0, 0.5),
    "milstein": (1.0, 1.0, float("nan")),
    "log_ode": (1.0, 1.0, 0.5),
    "reversible_heun": (1.0, 0.5, 0.5),
}
"""Strong orders of torchsde's methods for additive, diagonal or scalar, and general noise, as torchsde 0.2.6
states them (`strong_order` of each solver); NaN where a method does not take that noise."""
TORCHSDE = tuple(dict.fromkeys([*_ITO_METHODS, *_STRATONOVICH_METHODS]))
"""Names of torchsde's methods."""


@final
@dataclass(frozen=True)
class TorchSDE(Scheme):
    """A method of torchsde by its name, for an SDE, one step at a time on given increments.

    Attributes:
        method: "euler", "milstein" or "srk" in Itô's sense; "midpoint", "heun", "euler_heun", "milstein",
            "log_ode" or "reversible_heun" in Stratonovich's.

    Raises ValueError for another name, for noise that the method does not take, and for a step of "log_ode"
    or "reversible_heun", which read more of a path than one step's increments and areas.

    Examples:
        >>> import deeplimit as dl
        >>> gbm = dl.SDE(lambda t, h: h, lambda t, h, dB: 0.2 * h * dB, noise="diagonal")
        >>> dl.TorchSDE("srk").strong_order(gbm)
        1.5
    """

    method: str
    reads_areas: ClassVar[bool] = True

    @property
    def name(self) -> str:  # type: ignore[override]
        """The method's name."""
        return f"torchsde's {self.method}"

    @by_default
    def __post_init__(self) -> None:
        validation.choice(self.method, "method", TORCHSDE)

    def strong_order(self, equation: Equation) -> float:
        interpretation = getattr(equation, "interpretation", getattr(equation, "sde_type", ITO))
        methods = _ITO_METHODS if interpretation == ITO else _STRATONOVICH_METHODS
        structure = structure_of(equation)
        if structure is Noise.NONE:
            raise ValueError(
                f"method {self.method!r} of torchsde solves SDEs, and this equation has no noise; take Heun()"
                " or RK4()."
            )
        place = 0 if structure is Noise.ADDITIVE else 1 if structure in (Noise.DIAGONAL, Noise.SCALAR) else 2
        order = methods.get(self.method, (float("nan"),) * 3)[place]
        if order != order:  # noqa: PLR0124 (NaN)
            raise ValueError(
                f"method {self.method!r} of torchsde takes no {interpretation} equation with {structure}"
                f" noise; for these it has {', '.join(name for name in methods if methods[name][place] > 0)}."
            )
        return order

    def weak_order(self, equation: Equation) -> float:
        return max(1.0, self.strong_order(equation))

    def step(self, equation: Equation, time: float, length: float, h: Tensor, noise: Tensor) -> Tensor:
        if self.method in ("log_ode", "reversible_heun"):
            raise ValueError(
                f"torchsde's {self.method!r} reads more of a path than the increments and areas of one step,"
                " so it makes no single steps; take 'midpoint' or 'heun'."
            )
        self.strong_order(equation)  # raises for noise that it does not take
        from deeplimit.equations.torchsde_step import torchsde_step  # here: it loads torchsde

        moved, area = noise.chunk(2, dim=1)
        return torchsde_step(equation, self.method, time, length, h, moved, area)


@final
@dataclass(frozen=True)
class Exact(Scheme):
    """The equation's solution, where it states one (`solution=`): it has no error.

    Examples:
        >>> import deeplimit as dl
        >>> dl.Exact().strong_order(dl.ODE(lambda t, h: -h, solution=lambda t, h0: h0 * (-t).exp()))
        inf
    """

    name: ClassVar[str] = "the exact solution"

    def strong_order(self, equation: Equation) -> float:
        if getattr(equation, "solution", None) is None:
            raise ValueError(
                "this equation states no solution, so nothing solves it exactly; give solution=."
            )
        return float("inf")

    def weak_order(self, equation: Equation) -> float:
        return self.strong_order(equation)

    def step(self, equation: Equation, time: float, length: float, h: Tensor, noise: Tensor) -> Tensor:
        raise ValueError(
            "an exact solution is a function of time and of the path so far, and makes no steps."
        )
