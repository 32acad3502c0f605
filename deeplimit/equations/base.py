"""What a limit is: an equation, what it reads of a network's path, how it is solved, and its wording.

A `Stepper` solves one along a path of which it needs only the matrix noise times one vector per step. States
are (P, d), held in memory with paths innermost, which elementwise operations keep.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.final import FinalWhereMarked
from deeplimit.driving import (
    Factors,
    FunctionLaw,
    Ito,
    SampledFunction,
    Shape,
    WeightLaw,
    channels_of,
    functions_of,
)
from deeplimit.driving.covariance_rate import Rate
from deeplimit.equations.drive import Drive, Sharing, places
from deeplimit.equations.schemes import ITO, Noise, ito_correction
from deeplimit.equations.solvers import AdaptiveODE, OnGrid, Solver, solve
from deeplimit.layers.activations import Activation

FunctionValue = tuple[Tensor, Tensor | None] | None
"""Ā (1 or P, d, d) and b̄ (1 or P, d) at one time; None where there is no trend."""


class Motion(IntEnum):
    """The forms of a step that compiled loops know; the numbers enter compiled code."""

    LINEAR = 0
    """h + product · (M σ(h))."""
    BRANCH = 1
    """h + outer · σ(product · (M h) + bias)."""
    ITO = 2
    """h + product · (M h) + bias + outer · step · (energy |h|² + spread)."""


@dataclass(frozen=True)
class CompiledStep:
    """One trajectory's step as the numbers that compiled loops need.

    Attributes:
        motion: The form of the step.
        activation: σ of a LINEAR or BRANCH step; None where it has none.
        product: Factor of the matrix noise's product.
        bias: Standard deviations of the bias noise (d,) in float32 or float64; zeros where there is none.
        outer: Factor of σ (BRANCH), or ½σ''(0) (ITO).
        energy: Variance of a matrix entry, which Q multiplies |h|² by (ITO).
        spread: Variances of the bias noise (d,).
    """

    motion: Motion
    activation: Activation | None
    product: float
    bias: Tensor
    outer: float
    energy: float
    spread: Tensor


class Stepper(ABC):
    """One trajectory: at a step's start it names the vector for the Brownian matrix, at its end it moves."""

    reads_limit_trend = True
    """Whether the trend that it reads is the limit's; a network reads its own."""

    def __init__(self, state: Tensor, factors: Factors, noise: Ito | None) -> None:
        self.state = state
        self.factors = factors.to(state.dtype, state.device)
        self.rate: Rate | None = None
        if noise is not None:
            self.rate = noise.rate(0.0, state.shape[1]).to(state.dtype, state.device)
        self.trend: FunctionValue = None

    @abstractmethod
    def operand(self, length: float) -> Tensor:
        """Return the vector (P, d) that the matrix noise multiplies over a step of this length."""

    @abstractmethod
    def step(self, product: Tensor, bias: Tensor | None, length: float, trend: FunctionValue) -> Tensor:
        """Return the next state, from the matrix noise's product, the bias noise and the trend at its end."""

    @abstractmethod
    def compiled_step(self) -> CompiledStep | None:
        """Return this step for compiled loops; None where they do not know it."""

    def multiplied(self, trend: FunctionValue, length: float) -> Tensor:
        """Begin a step, at whose start the trend is `trend`."""
        self.trend = trend
        return Factors.apply(self.factors.columns, self.operand(length))

    def move(self, product: Tensor, bias: Tensor | None, length: float, trend: FunctionValue) -> None:
        """End a step, given the Brownian matrix's product and the biases' Brownian motion, both (P, d)."""
        if bias is not None and self.rate is not None:
            bias = self.rate.spread_bias(bias)
        self.state = self.step(Factors.apply(self.factors.rows, product), bias, length, trend)

    @property
    def factor(self) -> float:
        """The product of row and column factor, where both are numbers."""
        return float(self.factors.rows) * float(self.factors.columns)

    def bias_entries(self) -> tuple[Tensor, Tensor] | None:
        """Return standard deviations and variances (d,) of the bias noise; None where its entries covary.

        Zeros where there is no bias noise.
        """
        width = self.state.shape[1]
        if self.rate is None:
            return torch.zeros(width), torch.zeros(width)
        entries = self.rate.bias_entries()
        return None if entries is None else (entries[0].expand(width), entries[1].expand(width))


VectorField = Callable[[Any, Tensor], Tensor]


class Limit(FinalWhereMarked, ABC):
    """The limit of a network as its depth goes to infinity.

    A user's limit is a subclass of `SDELimit`, `ODELimit` or `LawLimit`, or simply a torchsde object or a
    function f(t, h). `deeplimit.testing.check_limit` checks it against the contract.
    """

    kind: ClassVar[str] = "an equation"
    """What it is, in two words."""
    setting: ClassVar[str] = "reference"
    """The argument of `compare` that says how finely it is solved: "reference" for a grid, "tolerance" for
    an ODE.
    """
    scheme: ClassVar[str] = "Euler-Maruyama"
    """What it is solved with, in words."""
    is_exact: ClassVar[bool] = False
    """Whether its solver gives the solution itself on the path that it reads, without an error to correct."""
    is_drawable: ClassVar[bool] = False
    """Whether its law at time 1 can be drawn, with noise independent of the network's."""
    is_drawn_by_steps: ClassVar[bool] = True
    """Whether such a draw is a scheme's, with a bias of order 1/steps; else it has the law exactly."""
    in_law_only: ClassVar[bool] = False
    """Whether no scheme follows a network's noise, so that only laws can be compared."""
    needs_equal_steps: ClassVar[bool] = False
    """Whether it can be solved on a grid of equal steps only."""
    driven_by_brownian_motion: ClassVar[bool] = False
    has_schemes: ClassVar[bool] = False
    """Whether its solver also gives its scheme on each depth's own layers (`Drive.schemes`)."""
    is_rough: ClassVar[bool] = False
    """Whether the sup over all times is ruled by its own modulus of continuity, √(log L / L)."""
    remark: ClassVar[str] = ""
    """What a report must say of where the equation comes from."""
    citations: ClassVar[tuple[str, ...]] = ()
    """Keys or BibTeX entries of the works that its scheme or its law rests on, for `citation()`."""
    width: int | None = None
    """The width of its states; None where it takes any."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__repr__" not in vars(cls):  # `dataclass` leaves one that is there
            cls.__repr__ = Limit.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        return self.equation

    @property
    @abstractmethod
    def equation(self) -> str:
        """The equation in a line of text."""

    def state_shape(self, width: int) -> Shape:
        """Return the shape of its states at this width."""
        return (width,)

    def try_on(self, h: Tensor) -> None:
        """Raise TypeError or ValueError where a user's functions cannot be used on states like h (P, d)."""

    @property
    def functions(self) -> tuple[FunctionLaw, ...]:
        """The laws of the functions of time that it reads; empty where it reads none."""
        return ()

    @property
    def is_steep(self) -> bool:
        """Whether its scheme may have an order above 1/2; networks of that order need a finer grid."""
        return False

    @property
    def is_random(self) -> bool:
        """Whether it has noise, which another draw would change."""
        return not all(law.facts.deterministic for law in self.functions)

    def sharing(self, laws: tuple[WeightLaw, ...], shapes: tuple[Shape, ...]) -> Sharing:
        """Return what this limit can read of the path that drives a network with these weight laws."""
        return Sharing()

    @abstractmethod
    def solver(self, drive: Drive) -> Solver:
        """Return this limit's state along the grid."""

    def sensitivity(self, drive: Drive, times: Tensor) -> Tensor:
        """Return the change of the solution at `times` (K,) at a tolerance ten times looser (K, P, …).

        Only where `setting` is "tolerance".
        """
        raise NotImplementedError(f"{self.equation} is solved on a grid, not to a tolerance.")

    def bound(self, drive: Drive) -> VectorField:
        """Return f(t, h) of dH = f dt on one block of paths, only where `setting` is "tolerance"."""
        raise NotImplementedError(f"{self.equation} is no ODE.")

    def noise_size(self, h: Tensor) -> int | None:
        """Return the number of Brownian motions; None where any number will do."""
        return None

    def diffused(self, time: float, h: Tensor, noise: Tensor) -> Tensor:
        """Return what Brownian increments `noise` (P, motions) add to states h (P, *state_shape)."""
        raise NotImplementedError(f"{self.equation} reads no Brownian motions.")

    def is_scheme(self, recursion: object) -> bool:
        """Return whether this recursion is its scheme; of Euler schemes `is_euler` says so."""
        return False

    def held_per_step(self, sharing: Sharing) -> int:
        """Return the numbers in memory per path and step of the grid, where the limit draws its path."""
        return 0

    @property
    def extrapolation_surplus(self) -> float:
        """The multiple of two solutions' squared distance that extrapolation adds; Euler-Maruyama: 0."""
        return 0.0

    def factors(self) -> Factors | None:
        """Return the factors of its noise; None where it needs more than products of noise and state."""
        return None

    def stepper(self, state: Tensor) -> Stepper:
        """Return the trajectory that needs products alone; only for limits that have `factors`."""
        raise NotImplementedError(f"{type(self).__name__} has no factors, and so no stepper.")

    def order_over_all_times(self, rate: float | None) -> float | None:
        """Return the order in the sup over all times, for a network that has order `rate` at the layers."""
        return rate

    def reference_in_words(
        self, steps: int, tolerance: float, error: float, measured: float | None, corrected: bool
    ) -> str:
        """Return, for a report, how it was solved and how large the error is; `measured` if solved twice."""
        if self.is_exact:
            return "the exact solution on the path that it reads"
        scheme = f"{self.scheme} on {steps} steps, own error"
        if measured is None:
            return f"{scheme} {'' if corrected else 'not '}corrected for"
        taken = "taken out" if corrected else "not taken out"
        return f"{scheme} about {measured:.1e}, measured against {steps // 2} steps, and {taken}"

    def has_the_law_of(self, other: Limit) -> bool:
        """Return whether another limit is known to have the same law."""
        return self.key_in_law == other.key_in_law

    @property
    def key_in_law(self) -> object:
        """What limits of the same law have in common."""
        return self

    def fewest_steps(self) -> int:
        """Return the fewest steps on which `draw_end` follows its own equation; 1 where nothing is known.

        Raises ValueError where these are too many to take.
        """
        return 1

    def draw_end(self, h0: Tensor, generator: torch.Generator, steps: int) -> Tensor:
        """Return an independent draw of H_1 (P, d) for each row of `h0` (P, d), where `is_drawable`.

        `steps` is the number of equal steps for limits that are drawn by a scheme.
        """
        raise NotImplementedError(f"the law of {self.equation} cannot be drawn.")


def check_one_law(weights: object, kind: type, example: str) -> None:
    """Raise TypeError for anything but a tuple of one weight law of this kind, such as the example."""
    if not isinstance(weights, tuple) or len(weights) != 1 or not isinstance(weights[0], kind):
        raise TypeError(
            f"weights must be a tuple of one {kind.__name__}, such as {example}; got"
            f" {validation.named(weights)}."
        )


class SDELimit(Limit):
    """An Itô equation advanced by Euler-Maruyama on given Brownian increments."""

    kind: ClassVar[str] = "an SDE"
    citations: ClassVar[tuple[str, ...]] = ("kloeden1992",)
    driven_by_brownian_motion: ClassVar[bool] = True
    has_schemes: ClassVar[bool] = True
    is_rough: ClassVar[bool] = True

    @abstractmethod
    def noise_size(self, h: Tensor) -> int | None:
        """Return the number of Brownian motions; None where any number will do (only a product is known)."""

    @abstractmethod
    def increment(self, time: float, step: float, h: Tensor, noise: Tensor) -> Tensor:
        """Return what one step adds to the state h (P, d), for increments `noise` (P, Brownian motions)."""

    def advanced(self, time: float, step: float, h: Tensor, noise: Tensor) -> Tensor:
        """Return the states after one step of the scheme that a reference is solved with."""
        return h + self.increment(time, step, h, noise)

    @property
    def is_steep(self) -> bool:
        return self.noise_structure.commutes

    @property
    def noise_structure(self) -> Noise:
        """How its noise enters, by torchsde's `noise_type` where it has one; by default nothing is known."""
        return Noise(getattr(self, "noise_type", Noise.GENERAL))

    def drift_of(self, time: float, h: Tensor, interpretation: str) -> Tensor:
        """Return the drift at states h, of their shape, in Itô's or Stratonovich's sense."""
        size = self.noise_size(h)
        motions = size if size is not None else h.shape[1] ** 2
        drift = self.increment(time, 1.0, h, h.new_zeros(len(h), motions))
        if interpretation == ITO:
            return drift
        return drift - ito_correction(partial(self.diffused, time), h, motions, self.noise_structure)

    def diffused(self, time: float, h: Tensor, noise: Tensor) -> Tensor:
        """Return the diffusion times increments `noise` (P, Brownian motions), of the shape of h."""
        return self.increment(time, 0.0, h, noise)

    @property
    def is_random(self) -> bool:
        return True

    def sharing(self, laws: tuple[WeightLaw, ...], shapes: tuple[Shape, ...]) -> Sharing:
        channels = channels_of(laws, shapes)
        drives = any(channel.drives_brownian_motion for channel in channels)
        # What only the network reads must be a function of time, or the two have different noise.
        others = all(channel.drives_brownian_motion or channel.is_function for channel in channels)
        return Sharing(increments=drives and others)

    def solver(self, drive: Drive) -> Solver:
        own = None if drive.sharing.increments else drive.stream(0)
        return OnGrid(self, drive, own)


class ODELimit(Limit):
    """An equation dH = f(t, H) dt, solved by torchdiffeq."""

    kind: ClassVar[str] = "an ODE"
    setting: ClassVar[str] = "tolerance"
    scheme: ClassVar[str] = "torchdiffeq dopri5"
    citations: ClassVar[tuple[str, ...]] = ("torchdiffeq",)

    @abstractmethod
    def bind(self, functions: tuple[SampledFunction, ...]) -> VectorField:
        """Return f(t, h) for one block of sampled functions, one for each of `functions`."""

    @property
    def noise_structure(self) -> Noise:
        """It has no noise."""
        return Noise.NONE

    def drift_of(self, time: float, h: Tensor, interpretation: str) -> Tensor:
        """Return dH/dt at states h, of their shape; only where no functions of a network are read."""
        return self.bind(())(torch.as_tensor(time, dtype=h.dtype, device=h.device), h)

    def diffused(self, time: float, h: Tensor, noise: Tensor) -> Tensor:
        """Return zeros of the shape of h: there is no noise."""
        return torch.zeros_like(h)

    def sharing(self, laws: tuple[WeightLaw, ...], shapes: tuple[Shape, ...]) -> Sharing:
        theirs = functions_of(channels_of(laws, shapes))
        return Sharing(functions=places(self.functions, theirs) is not None)

    def bound(self, drive: Drive) -> VectorField:
        """Return f(t, h) on one block of paths."""
        shapes = self.function_shapes(self.width or drive.state.shape[1])
        return self.bind(drive.functions_for(self.functions, shapes))

    def function_shapes(self, width: int) -> tuple[Shape, ...]:
        """Return the shape of each of the functions that it reads, at this width."""
        return ((width, width),) * len(self.functions)

    def solver(self, drive: Drive) -> Solver:
        return AdaptiveODE(self.bound(drive), drive.state, drive.tolerance)

    def reference_in_words(
        self, steps: int, tolerance: float, error: float, measured: float | None, corrected: bool
    ) -> str:
        return f"{self.scheme}, tolerance {tolerance:g}, own error about {error:.1e}"

    def sensitivity(self, drive: Drive, times: Tensor) -> Tensor:
        field = self.bound(drive)
        fine, coarse = (solve(field, drive.state, times, drive.tolerance * factor) for factor in (1.0, 10.0))
        return fine - coarse


@dataclass(frozen=True)
class Independent:
    """A limit driven by independent noise instead of the network's: equal in law, not the same path.

    The control that must come out "does not converge": `compare(resnet, Independent(resnet.limit()))`
    measures the distance between two independent draws, whatever the depth. For an ODE limit the random
    weights are drawn again.

    What `limit` is, is checked where it is compared.
    """

    limit: Any

    @staticmethod
    def unmarked(limit: object) -> tuple[object, bool]:
        """Return the limit that an argument holds, and whether independent noise was asked for."""
        return (limit.limit, True) if isinstance(limit, Independent) else (limit, False)
