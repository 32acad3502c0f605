"""Equations to try a solver on, as data: the equation, what is known of it, orders that are documented,
faults.

Faults are solvers that are wrong in one way that has been seen in the wild. A check of solvers that does not
name them proves nothing.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from deeplimit.equations import ODE, SDE

Run = Callable[[Any, Tensor, Any, Tensor], Tensor]


@dataclass(frozen=True)
class Fault:
    """A solver that is wrong in one way.

    Attributes:
        solver: function solver(equation, x, brownian, times), or the name of a method.
        documented: strong order of the solver that it pretends to be.
    """

    solver: Run | str
    documented: float


@dataclass(frozen=True)
class Problem:
    """An equation with what is known of it.

    Attributes:
        equation: the equation, with its exact solution where that is a function of time and B_t.
        x: initial states (1, d).
        strong, weak: documented orders by the name of a scheme: of torchsde or torchdiffeq, or of `solvers`.
        citation: where the equation or its solution is from.
        moments: exact means of functions of the state at time 1, as pairs of a function of states (P, d) and
            its mean.
        solvers: right solvers that torchsde does not have, by name.
        faults: wrong ones, by name.
        scaled: function of two factors that returns the equation with its drift and its noise times them.
    """

    equation: SDE | ODE
    x: Tensor
    strong: Mapping[str, float]
    citation: str
    weak: Mapping[str, float] = field(default_factory=dict)
    moments: tuple[tuple[Callable[[Tensor], Tensor], float], ...] = ()
    solvers: Mapping[str, Run] = field(default_factory=dict)
    faults: Mapping[str, Fault] = field(default_factory=dict)
    scaled: Callable[[float, float], SDE | ODE] | None = None


def _steps(brownian: Any, times: Tensor) -> Iterator[tuple[float, float, Tensor]]:
    """Yield the beginning and length of every step, and the increment over it."""
    for start, end in itertools.pairwise(times.tolist()):
        yield start, end - start, brownian(start, end)


def _euler(equation: Any, x: Tensor, brownian: Any, times: Tensor) -> Tensor:
    """Itô's sum, whatever the equation's sense is: a fault for a Stratonovich equation."""
    for start, length, noise in _steps(brownian, times):
        x = x + equation.f(start, x) * length + equation.g_prod(start, x, noise)
    return x


def _short(equation: Any, x: Tensor, brownian: Any, times: Tensor) -> Tensor:
    """The last step is left out."""
    return _euler(equation, x, brownian, times[:-1])


def _redrawn(equation: Any, x: Tensor, brownian: Any, times: Tensor) -> Tensor:
    """Every number of steps draws noise of its own."""
    stream = torch.Generator().manual_seed(len(times))
    size = equation.noise_size(x)

    def own(start: float, end: float) -> Tensor:
        noise = torch.randn(len(x), size, generator=stream, dtype=x.dtype)
        return noise * math.sqrt(end - start)

    return _euler(equation, x, own, times)


def _reused(equation: Any, x: Tensor, brownian: Any, times: Tensor) -> Tensor:
    """Each step is made as two half steps, which both read half of its increment."""
    for start, length, noise in _steps(brownian, times):
        for at in (start, start + length / 2):
            x = x + equation.f(at, x) * length / 2 + equation.g_prod(at, x, noise / 2)
    return x


def _root(equation: Any, x: Tensor, brownian: Any, times: Tensor) -> Tensor:
    """The noise has a variance of (Δt)², not Δt."""
    for start, length, noise in _steps(brownian, times):
        x = x + equation.f(start, x) * length + equation.g_prod(start, x, noise * math.sqrt(length))
    return x


def _whole(equation: Any, x: Tensor, brownian: Any, times: Tensor) -> Tensor:
    """The midpoint rule, whose slope is read a whole step on, not half a step."""
    for start, end in itertools.pairwise(times.tolist()):
        length = end - start
        x = x + length * equation.field(start, x + length * equation.field(start, x))
    return x


def _without_correction(equation: Any, x: Tensor, brownian: Any, times: Tensor) -> Tensor:
    """Milstein's scheme of geometric Brownian motion without -Δt: that of the Stratonovich equation."""
    for start, length, noise in _steps(brownian, times):
        moved = equation.g_prod(start, x, noise)
        x = x + equation.f(start, x) * length + moved + moved.square() / (2 * x)
    return x


def _linear(drift: float, volatility: float, name: str) -> SDE:
    return SDE(
        drift=lambda t, h: drift * h,
        diffusion=lambda t, h, dB: volatility * h * dB,
        noise="diagonal",
        solution=lambda t, h0, B: h0 * ((drift - volatility**2 / 2) * t + volatility * B).exp(),
        name=name,
    )


def _geometric(drift: float = 1.0, noise: float = 1.0) -> SDE:
    return _linear(0.5 * drift, 0.5 * noise, "geometric Brownian motion")


GEOMETRIC = Problem(
    _geometric(),
    torch.ones(1, 1),
    strong={"euler": 0.5, "milstein": 1.0, "srk": 1.5},
    weak={"euler": 1.0, "milstein": 1.0},
    citation="Kloeden & Platen (1992), Numerical Solution of Stochastic Differential Equations, 4.4",
    moments=((lambda h: h[:, 0], math.exp(0.5)), (lambda h: h[:, 0].square(), math.exp(1.25))),
    faults={
        "Milstein without -dt": Fault(_without_correction, 1.0),
        "noise redrawn": Fault(_redrawn, 0.5),
        "noise reused": Fault(_reused, 0.5),
        "noise of variance dt²": Fault(_root, 0.5),
    },
    scaled=_geometric,
)


def _reverting(drift: float = 1.0, noise: float = 1.0) -> SDE:
    return SDE(
        drift=lambda t, h: -drift * h,
        diffusion=lambda t, h, dB: 0.5 * noise * dB,
        noise="additive",
        name="Ornstein-Uhlenbeck process",
    )


ORNSTEIN_UHLENBECK = Problem(
    _reverting(),
    torch.ones(1, 1),
    strong={"euler": 1.0, "milstein": 1.0, "srk": 1.5},
    weak={"euler": 1.0},
    citation="Uhlenbeck & Ornstein (1930), On the Theory of the Brownian Motion",
    moments=(
        (lambda h: h[:, 0], math.exp(-1)),
        (lambda h: h[:, 0].square(), math.exp(-2) + 0.125 * (1 - math.exp(-2))),
    ),
    faults={"final time one step short": Fault(_short, 1.0), "noise redrawn": Fault(_redrawn, 1.0)},
    scaled=_reverting,
)


def _area_diffusion(t: Tensor, h: Tensor, dB: Tensor) -> Tensor:
    third = 0.5 * (h[:, 0] * dB[:, 1] - h[:, 1] * dB[:, 0])
    return torch.cat([dB, third[:, None]], dim=1)


def _area_drift(t: Tensor, h: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(h[:, :2]), -h[:, 2:]], dim=1)


def _area(drift: float = 1.0, noise: float = 1.0, interpretation: str = "ito") -> SDE:
    return SDE(
        drift=lambda t, h: drift * _area_drift(t, h),
        diffusion=lambda t, h, dB: noise * _area_diffusion(t, h, dB),
        noise="general",
        brownian=2,
        interpretation=interpretation,
        name="damped Lévy area",
    )


def _area_stratonovich(drift: float = 1.0, noise: float = 1.0) -> SDE:
    # The same equation, since ½ Σ (∂g_j) g_j vanishes.
    return _area(drift, noise, "stratonovich")


def _with_areas(equation: Any, x: Tensor, brownian: Any, times: Tensor) -> Tensor:
    """Milstein's scheme with Lévy areas, of order 1."""
    for start, end in itertools.pairwise(times.tolist()):
        noise, areas = brownian(start, end, return_A=True)
        moved = equation.f(start, x) * (end - start) + equation.g_prod(start, x, noise)
        size = equation.g_prod(start, x, torch.ones_like(noise))[:, :1]
        x = x + moved + torch.nn.functional.pad(size.square() * areas[:, :1, 1], (2, 0))
    return x


LEVY_AREA = Problem(
    _area(),
    torch.tensor([[0.0, 0.0, 1.0]]),
    strong={"euler": 0.5, "Milstein with Lévy areas": 1.0},
    weak={},
    citation="Clark & Cameron (1980), The maximum rate of convergence of discrete approximations",
    moments=(
        (lambda h: h[:, 2], math.exp(-1)),
        # Var X_3 = ∫ e^{-2(1-t)} E|B_t|²/4 dt, E|B_t|² = 2 t
        (lambda h: h[:, 2].square(), math.exp(-2) + (1 + math.exp(-2)) / 8),
    ),
    solvers={"Milstein with Lévy areas": _with_areas},
    faults={"Lévy area left out": Fault(_euler, 1.0)},
    scaled=_area,
)
LEVY_AREA_STRATONOVICH = dataclasses.replace(
    LEVY_AREA,
    equation=_area_stratonovich(),
    strong={"heun": 0.5, "midpoint": 0.5, "log_ode": 0.5},
    solvers={},
    faults={"noise redrawn": Fault(_redrawn, 0.5)},
    scaled=_area_stratonovich,
)


def _turned(h: Tensor, angle: Tensor) -> Tensor:
    x, y, cos, sin = h[:, :1], h[:, 1:], angle.cos(), angle.sin()
    return torch.cat([x * cos - y * sin, x * sin + y * cos], dim=1)


def _circle(drift: float = 1.0, noise: float = 1.0) -> SDE:
    return SDE(
        drift=lambda t, h: 0 * h,
        diffusion=lambda t, h, dB: noise * torch.stack([-h[:, 1], h[:, 0]], dim=1) * dB,
        noise="scalar",
        interpretation="stratonovich",
        solution=lambda t, h0, B: _turned(h0, noise * B),
        name="Brownian motion on a circle",
    )


CIRCLE = Problem(
    _circle(),
    torch.tensor([[1.0, 0.0]]),
    strong={"heun": 1.0, "midpoint": 1.0, "euler_heun": 1.0, "log_ode": 1.0},
    weak={"heun": 1.0, "midpoint": 1.0},
    citation="Kloeden & Platen (1992), Numerical Solution of Stochastic Differential Equations, 4.4",
    moments=((lambda h: h[:, 0], math.exp(-0.5)), (lambda h: h[:, 0].square(), (1 + math.exp(-2)) / 2)),
    faults={
        "Itô for Stratonovich": Fault(_euler, 0.5),
        "final time one step short": Fault(_short, 0.5),
        # Of torchsde 0.2.6: for scalar noise it multiplies by the transposed Jacobian of the diffusion.
        "torchsde's Milstein": Fault("milstein", 1.0),
    },
    scaled=_circle,
)


def _volatile(drift: float = 1.0, noise: float = 1.0) -> SDE:
    return SDE(
        drift=lambda t, h: drift * torch.stack([0.1 * h[:, 0], -h[:, 1]], dim=1),
        diffusion=lambda t, h, dB: (
            0.5 * noise * torch.stack([h[:, 1].exp() * h[:, 0] * dB[:, 0], dB[:, 1]], dim=1)
        ),
        noise="general",
        brownian=2,
        name="stochastic volatility",
    )


STOCHASTIC_VOLATILITY = Problem(
    _volatile(),
    torch.tensor([[1.0, 0.0]]),
    strong={"euler": 0.5},
    weak={"euler": 1.0},
    citation="Scott (1987), Option Pricing when the Variance Changes Randomly",
    moments=((lambda h: h[:, 0], math.exp(0.1)), (lambda h: h[:, 1].square(), 0.125 * (1 - math.exp(-2)))),
    faults={"noise redrawn": Fault(_redrawn, 0.5)},
    scaled=_volatile,
)


def _two_wells(drift: float = 1.0, noise: float = 1.0) -> SDE:
    return SDE(
        drift=lambda t, h: drift * (h - h**3),
        diffusion=lambda t, h, dB: 0.7 * noise * dB,
        noise="additive",
        name="double well",
    )


DOUBLE_WELL = Problem(
    _two_wells(),
    torch.tensor([[0.2]]),
    strong={"euler": 1.0, "srk": 1.5},
    weak={"euler": 1.0},
    citation="Kramers (1940), Brownian motion in a field of force and the diffusion model of chemical"
    " reactions",
    faults={"final time one step short": Fault(_short, 1.0), "noise of variance dt²": Fault(_root, 1.0)},
    scaled=_two_wells,
)


def _stiff(drift: float = 1.0, noise: float = 1.0) -> SDE:
    return _linear(-8.0 * drift, 0.5 * noise, "stiff linear equation")


STIFF = Problem(
    _stiff(),
    torch.ones(1, 1),
    strong={"milstein": 1.0},
    citation="Saito & Mitsui (1996), Stability Analysis of Numerical Schemes for SDEs",
    moments=((lambda h: h[:, 0], math.exp(-8.0)),),
    faults={"noise redrawn": Fault(_redrawn, 0.5)},
    scaled=_stiff,
)


def _oscillator(drift: float = 1.0, noise: float = 1.0) -> ODE:
    return ODE(
        lambda t, h: drift * torch.stack([h[:, 1], -h[:, 0]], dim=1),
        solution=lambda t, h0: _turned(h0, -drift * t),
        name="harmonic oscillator",
    )


OSCILLATOR = Problem(
    _oscillator(),
    torch.tensor([[1.0, 0.0], [0.3, -1.2]]),
    strong={"euler": 1.0, "midpoint": 2.0, "heun2": 2.0, "heun3": 3.0, "rk4": 4.0},
    citation="Hairer, Nørsett & Wanner (1993), Solving Ordinary Differential Equations I",
    faults={"half a step taken whole": Fault(_whole, 2.0)},
    scaled=_oscillator,
)
PROBLEMS: dict[str, Problem] = {
    "geometric Brownian motion": GEOMETRIC,
    "Ornstein-Uhlenbeck": ORNSTEIN_UHLENBECK,
    "Lévy area": LEVY_AREA,
    "Lévy area, Stratonovich": LEVY_AREA_STRATONOVICH,
    "circle": CIRCLE,
    "stochastic volatility": STOCHASTIC_VOLATILITY,
    "double well": DOUBLE_WELL,
    "stiff": STIFF,
    "oscillator": OSCILLATOR,
}
"""All problems by name."""
