"""Equations as users give them: `SDE` and `ODE` by their drift, diffusion, noise and solution.

torchsde's and torchdiffeq's objects, and functions, are checked once and read as one of the two.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, final

import numpy as np
import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.driving import SampledFunction
from deeplimit.driving.path import Chunk
from deeplimit.equations.base import Limit, ODELimit, SDELimit, VectorField
from deeplimit.equations.drive import Drive
from deeplimit.equations.schemes import (
    ITO,
    STRATONOVICH,
    EulerMaruyama,
    Milstein,
    Noise,
    Scheme,
    ito_correction,
)
from deeplimit.equations.solvers import OnGrid, Solver
from deeplimit.equations.trial import check_noise, check_start, checked_call, states_near

INTERPRETATIONS = (ITO, STRATONOVICH)
STRUCTURES = tuple(str(each) for each in Noise if each is not Noise.NONE)


@final
@dataclass(frozen=True)
class SDE(SDELimit):
    """A stochastic equation dH = drift dt + diffusion dB, as data.

    Attributes:
        drift: function of a time (a tensor without dimensions) and states (P, d) that returns (P, d).
        diffusion: function of time, states and Brownian increments (P, *brownian) that returns their product
            (P, d). Or, as torchsde has it, of time and states alone: (P, d) for diagonal noise, else (P, d,
            Brownian motions).
        noise: how noise enters: "additive", "diagonal", "scalar", "commutative" or "general" (nothing is
            known). Schemes have their order by this; what is stated is tried on a few states.
        solution: function of time, initial states and B_t (P, *brownian) that returns H_t; None where none is
            known. With it the reference is exact.
        interpretation: "ito" or "stratonovich". Of general noise the second takes a derivative per Brownian
            motion at each step: minutes for d² of them at width 40.
        brownian: shape of the Brownian motions of a path, or their number. Left out: (d,) for diagonal and
            additive noise, (1,) for scalar noise. For other noise it is found by trying (d,) and (d, d), or
            from what `diffusion(t, h)` returns.
        name: what reports call it; left out, the names of the functions.

    Raises:
        TypeError: For functions that are none.
        ValueError: For another noise or interpretation, and, once states are known, for functions that return
            other shapes and for noise that is not as stated.

    NOT checked: that coefficients are Lipschitz, and that `solution` solves the equation.

    Examples:
        >>> import deeplimit as dl
        >>> sde = dl.SDE(
        ...     drift=lambda t, h: 0.5 * h,
        ...     diffusion=lambda t, h, dB: 0.2 * h * dB,
        ...     noise="diagonal",
        ...     solution=lambda t, h0, B: h0 * ((0.5 - 0.02) * t + 0.2 * B).exp(),
        ... )
        >>> sde.noise_structure.commutes, dl.EulerMaruyama().strong_order(sde)
        (True, 0.5)
    """

    drift: Callable[..., Tensor]
    diffusion: Callable[..., Tensor]
    noise: str = "general"
    solution: Callable[..., Tensor] | None = None
    interpretation: str = ITO
    brownian: int | tuple[int, ...] | None = None
    name: str | None = None
    is_drawable: ClassVar[bool] = True

    @by_default
    def __post_init__(self) -> None:
        validation.function(
            self.drift, "drift", "a function of time and states, lambda t, h: 0.0 where there is none"
        )
        validation.function(self.diffusion, "diffusion", "a function of time, states and increments")
        if self.solution is not None:
            validation.function(self.solution, "solution", "a function of time, initial states and B_t")
        if self.name is not None:
            validation.text(self.name, "name")
        validation.choice(self.noise, "noise", STRUCTURES)
        validation.choice(self.interpretation, "interpretation", INTERPRETATIONS)
        if self.brownian is not None:
            given = self.brownian if isinstance(self.brownian, tuple) else (self.brownian,)
            sizes = tuple(validation.integer(size, "brownian", minimum=1) for size in given)
            object.__setattr__(self, "brownian", sizes)

    @property
    def equation(self) -> str:
        sense = "Itô" if self.interpretation == ITO else "Stratonovich"
        name = self.name or "dH = f(t, H) dt + g(t, H) dB"
        return f"{name} ({sense}, {self.noise} noise)"

    def try_on(self, h: Tensor) -> None:
        states = states_near(h)
        time, shape = torch.zeros((), dtype=h.dtype, device=h.device), tuple(states.shape)
        # A number stands for all coordinates.
        checked_call("drift(t, h)", lambda: _whole(self.drift(time, states), states), states, shape)
        checked_call("drift(t, h)", lambda: self.f(1.0, states), states, shape)
        motions = self.noise_size(states)
        noise = torch.ones(len(states), motions, dtype=h.dtype, device=h.device)
        name = "diffusion(t, h, dB)" if _arguments(self.diffusion) != 2 else "diffusion(t, h) times dB"
        checked_call(name, lambda: self.g_prod(time, states, noise), states, shape)
        check_noise(self, states, motions)
        if (solution := self.solution) is not None:
            path = torch.zeros(len(states), *self.brownian_shape(states), dtype=h.dtype, device=h.device)
            checked_call("solution(t, h0, B)", lambda: solution(time, states, path), states, shape)
            check_start(solution(time, states, path), states)

    @property
    def noise_structure(self) -> Noise:
        return Noise(self.noise)

    @property
    def sde_type(self) -> str:
        """Its interpretation, as torchsde calls it."""
        return self.interpretation

    @property
    def noise_type(self) -> str:
        """Its noise, as torchsde calls it."""
        return "general" if self.noise == Noise.COMMUTATIVE else self.noise

    @property
    def is_exact(self) -> bool:  # type: ignore[override]
        return self.solution is not None

    @property
    def reference_scheme(self) -> Scheme:
        """The scheme that a reference is solved with: the best one that its noise allows."""
        commutes = self.noise_structure.commutes and self.noise_structure is not Noise.ADDITIVE
        return Milstein() if commutes else EulerMaruyama()

    @property
    def scheme(self) -> str:  # type: ignore[override]
        return self.reference_scheme.name

    def f(self, t: Any, y: Tensor) -> Tensor:
        """Return the drift (P, d), in the equation's own sense."""
        return self.drift(torch.as_tensor(t, dtype=y.dtype, device=y.device), y) + torch.zeros_like(y)

    def g_prod(self, t: Any, y: Tensor, v: Tensor) -> Tensor:
        """Return the diffusion times `v` (P, Brownian motions) as (P, d)."""
        time = torch.as_tensor(t, dtype=y.dtype, device=y.device)
        if _arguments(self.diffusion) == 2:
            matrix = self.diffusion(time, y)
            if self.noise_structure is Noise.DIAGONAL:
                return matrix * v
            return torch.einsum("pdm,pm->pd", matrix, v)
        return self.diffusion(time, y, v.reshape(len(v), *self.brownian_shape(y)))

    def g(self, t: Any, y: Tensor) -> Tensor:
        """Return the diffusion: (P, d) for diagonal noise, else (P, d, Brownian motions)."""
        size = self.noise_size(y)
        if self.noise_structure is Noise.DIAGONAL:
            return self.g_prod(t, y, torch.ones(len(y), size, dtype=y.dtype, device=y.device))
        units = torch.eye(size, dtype=y.dtype, device=y.device)
        return torch.stack([self.g_prod(t, y, unit.expand(len(y), size)) for unit in units], dim=-1)

    def brownian_shape(self, h: Tensor) -> tuple[int, ...]:
        """Return the shape of the Brownian motions of a path with states like h (P, d)."""
        if isinstance(self.brownian, tuple):
            return self.brownian
        width = h.shape[1]
        if self.noise_structure is Noise.SCALAR:
            return (1,)
        if self.noise_structure in (Noise.DIAGONAL, Noise.ADDITIVE) and _arguments(self.diffusion) != 2:
            return (width,)
        return self._tried(h)

    def _tried(self, h: Tensor) -> tuple[int, ...]:
        width, time = h.shape[1], torch.zeros((), dtype=h.dtype, device=h.device)
        if _arguments(self.diffusion) == 2:
            got = self.diffusion(time, h)
            return (width,) if self.noise_structure is Noise.DIAGONAL else tuple(got.shape[2:])
        for shape in ((width,), (width, width)):
            # Three paths, so that a product over paths in place of coordinates has another shape.
            states = h[:1].expand(3, *h.shape[1:])
            try:
                got = self.diffusion(time, states, torch.ones(3, *shape, dtype=h.dtype, device=h.device))
            except (RuntimeError, ValueError, IndexError):
                continue
            if getattr(got, "shape", None) == states.shape:
                return shape
        raise ValueError(
            f"diffusion(t, h, dB) does not return (P, {width}) for dB of shape (P, {width}) or (P, {width},"
            f" {width}); say the shape of a path's Brownian motions: brownian=(…)."
        )

    def noise_size(self, h: Tensor) -> int:
        return math.prod(self.brownian_shape(h))

    def drift_of(self, time: float, h: Tensor, interpretation: str) -> Tensor:
        drift = self.f(time, h)
        if interpretation == self.interpretation:
            return drift
        size = self.noise_size(h)
        half = ito_correction(lambda at, v: self.g_prod(time, at, v), h, size, self.noise_structure)
        return drift + half if interpretation == ITO else drift - half

    def diffused(self, time: float, h: Tensor, noise: Tensor) -> Tensor:
        return self.g_prod(time, h, noise)

    def increment(self, time: float, step: float, h: Tensor, noise: Tensor) -> Tensor:
        return self.drift_of(time, h, ITO) * step + self.g_prod(time, h, noise)

    def advanced(self, time: float, step: float, h: Tensor, noise: Tensor) -> Tensor:
        return self.reference_scheme.step(self, time, step, h, noise)

    def solver(self, drive: Drive) -> Solver:
        own = None if drive.sharing.increments else drive.stream(0)
        if self.solution is not None:
            return AlongSolution(self, drive, own)
        return OnGrid(self, drive, own)

    def draw_end(self, h0: Tensor, generator: torch.Generator, steps: int) -> Tensor:
        noise = torch.empty(len(h0), self.noise_size(h0), dtype=h0.dtype, device=h0.device)
        h, scheme = h0, self.reference_scheme
        for start, end in pairwise(np.linspace(0.0, 1.0, steps + 1).tolist()):
            noise.normal_(0.0, (end - start) ** 0.5, generator=generator)
            h = scheme.step(self, start, end - start, h, noise)
        return h


class AlongSolution(OnGrid):
    """An exact solution along the Brownian motion that it reads: it keeps B_t, and has no schemes."""

    def __init__(self, equation: SDE, drive: Drive, own: torch.Generator | None) -> None:
        super().__init__(equation, drive, own)
        assert equation.solution is not None
        self.solution, self.start_state = equation.solution, drive.state
        self.shape = equation.brownian_shape(drive.state[:1])
        self.path: Tensor | None = None

    def step(self, index: int) -> Tensor:
        noise = self._noise(float(self.chunk.steps[index]))
        self.path = noise.clone() if self.path is None else self.path + noise
        time = torch.as_tensor(float(self.chunk.times[index]), dtype=noise.dtype, device=noise.device)
        self.state = self.solution(time, self.start_state, self.path.reshape(len(noise), *self.shape))
        return self.state


@final
@dataclass(frozen=True)
class ODE(ODELimit):
    """An ordinary equation dH = field(t, H) dt, as data.

    Attributes:
        field: function of a time and states (P, d) that returns (P, d), as torchdiffeq takes it.
        solution: function of a time and initial states that returns H_t; None where none is known. With it
            the reference is exact.
        name: what reports call it; left out, the function's name.

    Raises TypeError for functions that are none. NOT checked: that `solution` solves the equation.

    Examples:
        >>> import deeplimit as dl
        >>> dl.RK4().strong_order(dl.ODE(lambda t, h: -h))
        4.0
    """

    field: Callable[..., Tensor]
    solution: Callable[..., Tensor] | None = None
    name: str | None = None

    @by_default
    def __post_init__(self) -> None:
        validation.function(self.field, "field", "a function of time and states")
        if self.solution is not None:
            validation.function(self.solution, "solution", "a function of time and initial states")
        if self.name is not None:
            validation.text(self.name, "name")

    @property
    def equation(self) -> str:
        name = self.name or getattr(self.field, "__name__", type(self.field).__name__)
        return f"the user's ODE dH = {name}(t, H) dt"

    def try_on(self, h: Tensor) -> None:
        states = states_near(h)
        time, shape = torch.zeros((), dtype=h.dtype, device=h.device), tuple(states.shape)
        checked_call("field(t, h)", lambda: self.field(time, states), states, shape)
        if (solution := self.solution) is not None:
            checked_call("solution(t, h0)", lambda: solution(time, states), states, shape)
            check_start(solution(time, states), states)

    @property
    def is_exact(self) -> bool:  # type: ignore[override]
        return self.solution is not None

    def __call__(self, t: Any, h: Tensor) -> Tensor:
        """Return dH/dt (P, d) at time `t` and states `h` (P, d)."""
        return self.field(t, h)

    def bind(self, functions: tuple[SampledFunction, ...]) -> VectorField:
        return self.field

    def solver(self, drive: Drive) -> Solver:
        return super().solver(drive) if self.solution is None else ExactODE(self.solution, drive.state)

    def reference_in_words(
        self, steps: int, tolerance: float, error: float, measured: float | None, corrected: bool
    ) -> str:
        if self.is_exact:
            return "the exact solution"
        return super().reference_in_words(steps, tolerance, error, measured, corrected)


class ExactODE(Solver):
    """An exact solution at the times of the grid."""

    def __init__(self, solution: Callable[..., Tensor], state: Tensor) -> None:
        self.solution, self.start = solution, state

    def begin(self, chunk: Chunk) -> None:
        self.times = torch.from_numpy(chunk.times).to(self.start)

    def step(self, index: int) -> Tensor:
        return self.solution(self.times[index], self.start)


def _whole(drift: Any, h: Tensor) -> Any:
    """Return a number as states like h (P, d); anything else as it is."""
    return torch.full_like(h, float(drift)) if isinstance(drift, (int, float)) else drift


def _arguments(function: Callable[..., Any]) -> int:
    try:
        return _counted(function)
    except TypeError:  # what cannot be hashed is read each time
        return int(_counted.__wrapped__(function))


@lru_cache(maxsize=256)
def _counted(function: Callable[..., Any]) -> int:
    """Return how many positional arguments a function takes; 3 where it does not say."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 3
    positional = [
        each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return 3
    return len([each for each in positional if each.default is each.empty])


_SDE_METHODS = ("g", "g_prod", "f_and_g", "f_and_g_prod")


@dataclass(frozen=True)
class TorchsdeParts:
    """Drift and product of a torchsde object, however it gives them: f and g, f_and_g, or products."""

    sde: Any

    def drift(self, t: Tensor, h: Tensor) -> Tensor:
        """Return the drift (P, d)."""
        if hasattr(self.sde, "f"):
            value: Tensor = self.sde.f(t, h)
            return value
        if hasattr(self.sde, "f_and_g"):
            return self.sde.f_and_g(t, h)[0]  # type: ignore[no-any-return]
        return self.sde.f_and_g_prod(t, h, h.new_zeros(len(h), self.motions(h)))[0]  # type: ignore[no-any-return]

    def product(self, t: Tensor, h: Tensor, noise: Tensor) -> Tensor:
        """Return the diffusion times increments (P, Brownian motions), as (P, d)."""
        if hasattr(self.sde, "f_and_g_prod"):
            return self.sde.f_and_g_prod(t, h, noise)[1]  # type: ignore[no-any-return]
        if hasattr(self.sde, "g_prod"):
            return self.sde.g_prod(t, h, noise)  # type: ignore[no-any-return]
        diffusion = self.sde.g(t, h) if hasattr(self.sde, "g") else self.sde.f_and_g(t, h)[1]
        if self.sde.noise_type == Noise.DIAGONAL:
            return diffusion * noise  # type: ignore[no-any-return]
        return torch.bmm(diffusion, noise.unsqueeze(-1)).squeeze(-1)

    def motions(self, h: Tensor) -> int:
        """Return the number of Brownian motions: its columns, or d² where only a product is known."""
        if self.sde.noise_type == Noise.DIAGONAL:
            return h.shape[1]
        if self.sde.noise_type == Noise.SCALAR:
            return 1
        time = torch.zeros((), dtype=h.dtype, device=h.device)
        for method, place in (("g", None), ("f_and_g", 1)):
            if hasattr(self.sde, method):
                got = getattr(self.sde, method)(time, h)
                return int((got if place is None else got[place]).shape[-1])
        return h.shape[1] ** 2


def read_limit(limit: object, h: Tensor, driven: int | None) -> Limit:
    """Return `limit` as a Limit, tried once on the states `h` (P, d).

    `driven` is the number of Brownian motions that the network is driven by; None where the limit brings
    its own.

    Raises TypeError if it is neither kind, takes other arguments or returns no tensors; ValueError for
    Stratonovich equations, wrong shapes or dtypes, or values that are not finite.
    """
    if isinstance(limit, Limit):
        limit.try_on(h)
        return limit
    if isinstance(limit, type):
        raise TypeError(f"limit {limit.__name__} is a class; make an object: {limit.__name__}(...).")
    if any(hasattr(limit, name) for name in ("sde_type", "noise_type", *_SDE_METHODS)):
        return _read_sde(limit, h, driven)
    if callable(limit):
        name = getattr(limit, "__name__", type(limit).__name__)
        time = torch.zeros((), dtype=h.dtype, device=h.device)
        checked_call(f"limit {name}(t, h)", lambda: limit(time, h), h, tuple(h.shape))
        return ODE(limit)
    got = (
        f"a tensor of shape {tuple(limit.shape)}; inputs go in x="
        if isinstance(limit, Tensor)
        else validation.named(limit)
    )
    raise TypeError(
        "limit must be a torchsde-style object (f, g or g_prod, sde_type, noise_type), a torchdiffeq-style"
        f" function f(t, h), or one of the library's own limits, such as network.limit(); got {got}."
    )


def _read_sde(sde: Any, h: Tensor, driven: int | None) -> SDE:
    name = type(sde).__name__
    for attribute, allowed in (
        ("sde_type", ("ito", "stratonovich")),
        ("noise_type", ("general", "diagonal", "scalar", "additive")),
    ):
        value = getattr(sde, attribute, None)
        if value not in allowed:
            raise ValueError(f"limit {name}.{attribute} must be one of {', '.join(allowed)}; got {value!r}.")
    if not any(hasattr(sde, method) for method in ("f", "f_and_g", "f_and_g_prod")):
        raise TypeError(f"limit {name} is a torchsde-style object without a drift (f); add that method.")
    if not any(hasattr(sde, method) for method in _SDE_METHODS):
        raise TypeError(
            f"limit {name} is a torchsde-style object without a diffusion (g or g_prod); add that method."
        )
    _try_sde(sde, sde.noise_type, h, driven)
    parts = TorchsdeParts(sde)
    motions = parts.motions(h)
    if driven is not None and not any(hasattr(sde, method) for method in ("g", "f_and_g")):
        motions = driven if sde.noise_type == Noise.GENERAL else motions
    equation = SDE(
        parts.drift, parts.product, sde.noise_type, None, sde.sde_type, motions, f"the user's SDE {name}"
    )
    check_noise(equation, states_near(h), motions)
    return equation


def _try_sde(sde: Any, noise_type: str, h: Tensor, driven: int | None) -> None:
    """Call every method that a step uses, and check each result by itself, since sums would broadcast."""
    name = type(sde).__name__
    if h.ndim > 2:
        raise ValueError(
            f"limit {name} is a torchsde object, which takes states (paths, width), but the network's are"
            f" {tuple(h.shape)}; write it as a deeplimit.SDE, whose product takes states of any shape."
        )
    paths, width = h.shape
    time = torch.zeros((), dtype=h.dtype, device=h.device)
    motions = {"diagonal": width, "scalar": 1}.get(noise_type, driven if driven is not None else width**2)
    noise = torch.zeros(paths, motions, dtype=h.dtype, device=h.device)
    columns: int | None = motions if noise_type == "scalar" else None
    expected = (paths, width) if noise_type == "diagonal" else (paths, width, columns)

    def part(value: Any, index: int) -> Any:
        return value[index] if isinstance(value, tuple) and len(value) == 2 else None

    def check(method: str, call: Callable[[], Any], shape: tuple[int | None, ...]) -> None:
        checked_call(
            f"limit {name}: {method}", call, h, shape, hint=(paths, width, motions) if None in shape else None
        )

    if hasattr(sde, "f_and_g_prod"):
        check(
            "the drift of f_and_g_prod(t, h, v)",
            lambda: part(sde.f_and_g_prod(time, h, noise), 0),
            (paths, width),
        )
        check(
            "the product of f_and_g_prod(t, h, v)",
            lambda: part(sde.f_and_g_prod(time, h, noise), 1),
            (paths, width),
        )
        return
    if hasattr(sde, "f"):
        check("f(t, h)", lambda: sde.f(time, h), (paths, width))
    if hasattr(sde, "f") and hasattr(sde, "g"):
        check("g(t, h)", lambda: sde.g(time, h), expected)
    elif hasattr(sde, "f_and_g"):
        check("the drift of f_and_g(t, h)", lambda: part(sde.f_and_g(time, h), 0), (paths, width))
        check("the diffusion g of f_and_g(t, h)", lambda: part(sde.f_and_g(time, h), 1), expected)
    if hasattr(sde, "f") and hasattr(sde, "g_prod"):
        if hasattr(sde, "g") and noise_type != "diagonal":
            noise = torch.zeros(paths, sde.g(time, h).shape[-1], dtype=h.dtype, device=h.device)
        check("g_prod(t, h, v)", lambda: sde.g_prod(time, h, noise), (paths, width))
