"""The limits of Cohen et al. (2021), Section 4: a linear ODE, and an SDE with an extra drift ½σ''(0)Q."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, cast, final

import numpy as np
import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.driving import (
    CoarseSums,
    Factors,
    FunctionLaw,
    Ito,
    ItoStep,
    SampledFunction,
    Shape,
    WeightLaw,
    channels_of,
    functions_of,
    matvec,
    noise_of,
)
from deeplimit.driving.covariance_rate import Rate
from deeplimit.driving.path import Chunk, Values
from deeplimit.equations.base import (
    CompiledStep,
    FunctionValue,
    Motion,
    ODELimit,
    SDELimit,
    Stepper,
    VectorField,
)
from deeplimit.equations.drive import Drive, Sharing, places
from deeplimit.equations.neural import draw_one, layers_at
from deeplimit.equations.solvers import OnGrid, Solver


@dataclass(frozen=True)
class Passed:
    """What happened over some steps: their length, W's increments, and ½σ''(0)∫Q dt at a state that was kept.

    Of W^A either the increment is known, or only its product with the state that `ItoCorrectedSDE.multiplied`
    says.
    """

    step: float
    matrix: Tensor | None
    bias: Tensor | None
    curved: Tensor | None
    product: Tensor | None = None


def _affine(trend: tuple[Tensor, Tensor | None], h: Tensor) -> Tensor:
    matrix, bias = trend
    return matvec(matrix, h) if bias is None else matvec(matrix, h) + bias


@final
@dataclass(frozen=True)
class LinearODE(ODELimit):
    """The linear ODE dH = σ'(0)(Ā_t H + b̄_t) dt of Cohen et al. (2021), Theorems 4.3 and 4.4, which reads
    only σ'(0) of σ.

    A torchdiffeq function as it is, f(t, h) (P, d); for a random trend it reads the draw of `seed`, as
    `NeuralODE` does. Raises TypeError or ValueError for a trend that is no function of time or of another
    width, and for states of another width.

    Examples:
        >>> import torch, torchdiffeq, deeplimit as dl
        >>> turn = dl.Trend(lambda t: torch.tensor([[0.0, 1.0], [-1.0, 0.0]]))
        >>> ode = dl.inner(2, "tanh", trend=turn, alpha=0.5, beta=0.5).limit()
        >>> ode(0.0, torch.ones(1, 2))
        tensor([[ 1., -1.]])
    """

    trend: FunctionLaw
    width: int
    slope: float = 1.0
    seed: int = field(default=0, compare=False)

    @by_default
    def __post_init__(self) -> None:
        validation.plain_numbers(self)
        validation.integer(self.width, "width", minimum=1, hint="It is the number of hidden units d.")
        _check_trend(self.trend, self.width)
        validation.real(self.slope, "slope", hint="it is σ'(0).")
        validation.seed(self.seed)

    @property
    def equation(self) -> str:
        return f"dH = {_slope(self.slope)}(Ā_t H + b̄_t) dt, d = {self.width}"

    @property
    def functions(self) -> tuple[FunctionLaw, ...]:
        return (self.trend,)

    def bind(self, functions: tuple[SampledFunction, ...]) -> VectorField:
        def vector_field(t: Any, h: Tensor) -> Tensor:
            shapes = self.function_shapes(self.width)
            (layer,) = layers_at(t, functions, self.functions, shapes, h.device)
            inside = layer.apply(h)
            return self.slope * (inside if layer.bias is None else inside + layer.bias)

        return vector_field

    def __call__(self, t: Any, h: Tensor) -> Tensor:
        """Return dH/dt (P, d) at time `t` and state `h` (P, d)."""
        _check_columns("states h", h, self.width)
        return self.bind(
            draw_one(self.functions, self.function_shapes(self.width), self.seed, h.dtype, h.device)
        )(t, h)


@final
@dataclass(frozen=True)
class ItoCorrectedSDE(SDELimit):
    """The diffusive limit of Cohen et al. (2021), Theorem 4.4: linear noise, a drift ½σ''(0) Q, and a linear
    trend.

    dH = σ'(0)(dW^A H + dW^b) + ½σ''(0) Q(t, H) dt + σ'(0)(Ā_t H + b̄_t) dt. The drift ½σ''(0) Q is the Itô
    correction produced by the curvature of the activation.

    Q is the rate at which the weights' noise accumulates variance (`Ito.Q`). The trend is None at β > 1. W is
    driven by standard Brownian motions, B^A row by row, then B^b. A torchsde object that you pass to
    `compare` is given the same ones.

    A torchsde object as it is: f (P, d), g (P, d, motions), g_prod (P, d). Where the noise has an auxiliary
    diffusion v, states are (H, v), (P, d + m), since H alone is not Markov; `initial(h0)` makes them, and v's
    own Brownian motions come last. Raises TypeError or ValueError for noise or a trend of another kind or
    width, and for states or noise of another width.

    Examples:
        >>> import torch, torchsde, deeplimit as dl
        >>> sde = dl.inner(3, "scaled_silu", noise=dl.Ito(A=0.1, b=0.1)).limit()
        >>> ys = torchsde.sdeint(sde, torch.ones(5, 3), torch.tensor([0.0, 1.0]), dt=0.1, method="euler")
        >>> ys.shape
        torch.Size([2, 5, 3])
    """

    noise: Ito
    trend: FunctionLaw | None
    width: int
    slope: float = 1.0
    curvature: float = 0.0
    seed: int = field(default=0, compare=False)
    other_quadratic: Callable[[Rate, Tensor], Tensor] | None = None  # another Q, for limits wrong on purpose
    sde_type: ClassVar[str] = "ito"
    noise_type: ClassVar[str] = "general"

    @by_default
    def __post_init__(self) -> None:
        validation.plain_numbers(self)
        validation.integer(self.width, "width", minimum=1, hint="It is the number of hidden units d.")
        if not isinstance(self.noise, Ito):
            raise TypeError(
                "noise must be Itô processes, such as Ito(A=0.05, b=0.25); got"
                f" {validation.named(self.noise)}."
            )
        self.noise.check(self.width)
        if self.trend is not None:
            _check_trend(self.trend, self.width)
        validation.real(self.slope, "slope", hint="it is σ'(0).")
        validation.real(self.curvature, "curvature", hint="it is σ''(0).")
        validation.seed(self.seed)
        if self.other_quadratic is not None:
            validation.function(self.other_quadratic, "other_quadratic", "a function of (rate, states)")

    @property
    def equation(self) -> str:
        slope = _slope(self.slope)
        noise = " + ".join(
            part
            for part, given in ((f"{slope}dW^A H", self.noise.A), (f"{slope}dW^b", self.noise.b))
            if given is not None
        )
        trend = "" if self.trend is None else f" + {slope}(Ā_t H + b̄_t) dt"
        half = 0.5 * self.curvature
        q = "" if half == 0.0 else f" {'-' if half < 0 else '+'} {abs(half):.4g} Q(t, H) dt"
        return f"dH = {noise}{q}{trend}, d = {self.width}"

    @property
    def functions(self) -> tuple[FunctionLaw, ...]:
        return () if self.trend is None else (self.trend,)

    def noise_size(self, h: Tensor) -> int | None:
        return self.noise.motions(self.width)

    def sharing(self, laws: tuple[WeightLaw, ...], shapes: tuple[Shape, ...]) -> Sharing:
        increments = super().sharing(laws, shapes).increments
        channels = channels_of(laws, shapes)
        same, theirs = noise_of(channels) is self.noise, functions_of(channels)
        # Where there is no trend, the network's functions are not (None,): nothing is shared.
        functions = self.trend is not None and places(self.functions, theirs) is not None
        return Sharing(increments, increments and same, functions)

    def solver(self, drive: Drive) -> Solver:
        return ItoEuler(self, drive)

    def factors(self) -> Factors | None:
        return self.noise.factors(self.width)

    def stepper(self, state: Tensor) -> Stepper:
        return ItoStepper(state, self)

    @cached_property
    def _trend(self) -> LinearODE | None:
        """The trend's part of the drift."""
        return None if self.trend is None else LinearODE(self.trend, self.width, self.slope, self.seed)

    def initial(self, h0: Tensor) -> Tensor:
        """Return the state at time 0: h0 (P, d), or (P, d + m) where there is an auxiliary diffusion v."""
        _check_columns("states h0", h0, self.width)
        if self.noise.auxiliary is None:
            return h0
        return torch.cat([h0, self.noise.auxiliary.initial(len(h0)).to(h0)], dim=1)

    def quadratic(self, rate: Rate, h: Tensor) -> Tensor:
        """Return Q (P, d) for a covariance rate."""
        return rate.quadratic(h) if self.other_quadratic is None else self.other_quadratic(rate, h)

    def pass_over(self, along: ItoStep, h: Tensor) -> Passed:
        """Return what happens over one step of the weights, at a state h (P, d) that is kept."""
        return Passed(along.step, along.matrix, along.bias, self.curved(along.rate, along.step, h))

    def curved(self, rate: Rate, step: float, h: Tensor) -> Tensor | None:
        """Return ½σ''(0) Q times the length of a step; None where σ''(0) = 0."""
        return 0.5 * self.curvature * step * self.quadratic(rate, h) if self.curvature != 0.0 else None

    def multiplied(self, h: Tensor, step: float, before: FunctionValue) -> Tensor:
        """Return the state that W^A's increment multiplies in `advance`: half a step of the trend ahead."""
        return h if before is None else h + _affine(before, h) * (self.slope * step / 2)

    def advance(self, h: Tensor, passed: Passed, before: FunctionValue, after: FunctionValue) -> Tensor:
        """Return the state after a step: Euler-Maruyama for the noise and Q, Heun's rule for the trend.

        `before` and `after` are the trend's values at the step's ends. With Euler's rule the trend's error
        would have order 1 in the step and the noise's 1/2: such a sum cannot be extrapolated.
        """
        slope = None if before is None else _affine(before, h) * self.slope
        moved = h
        if passed.matrix is not None:
            moved = moved + self.slope * matvec(passed.matrix, self.multiplied(h, passed.step, before))
        elif passed.product is not None:
            moved = moved + self.slope * passed.product
        if passed.bias is not None:
            moved = moved + self.slope * passed.bias
        if passed.curved is not None:
            moved = moved + passed.curved
        if slope is None or after is None:
            return moved
        end = _affine(after, moved + slope * passed.step) * self.slope
        return moved + (slope + end) * (passed.step / 2)

    def increment(self, time: float, step: float, h: Tensor, noise: Tensor) -> Tensor:
        return self.f(time, h) * step + self.g_prod(time, h, noise)

    def f(self, t: Any, y: Tensor) -> Tensor:
        """Return the drift at states y, of their shape."""
        h, v, rate = self._read(t, y)
        drift = 0.5 * self.curvature * self.quadratic(rate, h)
        if (own := self.noise.drift_at_paths(float(t), v, h)) is not None:
            drift = drift + self.slope * _affine(own, h)
        if self._trend is not None:
            drift = drift + self._trend(t, h)
        if v is None or self.noise.auxiliary is None:
            return drift
        return torch.cat([drift, self.noise.auxiliary.coefficient("drift", float(t), v)], dim=1)

    def g_prod(self, t: Any, y: Tensor, v: Tensor) -> Tensor:
        """Return the diffusion at states y times Brownian increments `v` (P, motions), of y's shape."""
        h, state, rate = self._read(t, y)
        _check_columns("Brownian increments v", v, self.noise.motions(self.width))
        matrix, bias = rate.spread(v)
        moved = torch.zeros_like(h)
        if matrix is not None:
            moved = moved + self.slope * matvec(matrix, h)
        if bias is not None:
            moved = moved + self.slope * bias
        if state is None or self.noise.auxiliary is None:
            return moved
        return torch.cat([moved, self.noise.auxiliary.diffused(float(t), state, v)], dim=1)

    def g(self, t: Any, y: Tensor) -> Tensor:
        """Return the diffusion at states y as (P, their size, motions)."""
        units = torch.eye(self.noise.motions(self.width), dtype=y.dtype, device=y.device)
        return torch.stack([self.g_prod(t, y, unit.expand(len(y), -1)) for unit in units], dim=-1)

    def _read(self, t: Any, y: Tensor) -> tuple[Tensor, Tensor | None, Rate]:
        size = 0 if self.noise.auxiliary is None else self.noise.auxiliary.size
        _check_columns("states (H, v), which initial(h0) makes," if size else "states", y, self.width + size)
        h, v = (y, None) if self.noise.auxiliary is None else (y[:, : self.width], y[:, self.width :])
        return h, v, self.noise.rate(float(t), self.width, v).to(y.dtype, y.device)


class ItoEuler(OnGrid):
    """The diffusive limit of Theorem 4.4 on weights that its network drew, or that it draws itself.

    It reads W and its covariance as drawn, random volatility included, which a state-space equation in H
    alone cannot.
    """

    limit: ItoCorrectedSDE

    def __init__(self, limit: ItoCorrectedSDE, drive: Drive) -> None:
        state, shares = drive.state, drive.sharing
        own = None if shares.increments else drive.stream(0)
        super().__init__(limit, drive, own)
        shape = (limit.width, limit.width)
        functions = drive.functions_for(limit.functions, (shape,) * len(limit.functions))
        generator = own if own is not None else torch.Generator(device=state.device)
        self.path = (
            None if shares.noise else limit.noise.start(limit.width, len(state), generator, state.dtype)
        )
        self.values = Values(functions[0], shape, len(state), state.device) if limit.functions else None
        self.scale = limit.trend.entry_scale(shape) if limit.trend is not None else 1.0
        self.trend: FunctionValue = None
        self.trends: list[FunctionValue] = []
        self.passed = _Since(self.depths)
        self.curved: list[Tensor | None] = [None] * len(self.slower)

    def begin(self, chunk: Chunk) -> None:
        super().begin(chunk)
        if self.values is not None:
            self.values.begin(np.concatenate([[chunk.start], chunk.times]))
            self.trend = self._trend_at(0)
        self.trends = self.trends or [self.trend] * len(self.slower)

    def _trend_at(self, index: int) -> FunctionValue:
        if self.values is None:
            return None
        matrix, bias = self.values.at(index)
        return matrix * self.scale, bias

    def _along(self, time: float, step: float) -> ItoStep:
        if self.path is not None:
            return self.path.move(time, step, self._noise(step))
        return next(cast(ItoStep, path.ito) for path in self.paths if path.ito is not None)

    def step(self, index: int) -> Tensor:
        time = self.start if index == 0 else float(self.chunk.times[index - 1])
        along = self._along(time, float(self.chunk.steps[index]))
        before, self.trend = self.trend, self._trend_at(index + 1)
        self.state = self.limit.advance(
            self.state, self.limit.pass_over(along, self.state), before, self.trend
        )
        if self.slower:
            self._advance_slower(along, float(self.chunk.times[index]), self.ends[index])
        return self.state

    def _advance_slower(self, along: ItoStep, end: float, ends: list[bool]) -> None:
        """Move the scheme on coarser steps: Q is integrated along the path, at states that are kept."""
        self.passed.add(along)
        for j, state in enumerate(self.slower):
            now = self.limit.curved(along.rate, along.step, state)
            before = self.curved[j]
            self.curved[j] = now if before is None or now is None else before + now
        for j in reversed(range(len(self.slower))):
            if ends[j]:
                matrix, bias = self.passed.take(j)
                whole = Passed(end - self.since[j], matrix, bias, self.curved[j])
                self.slower[j] = self.limit.advance(self.slower[j], whole, self.trends[j], self.trend)
                self.since[j], self.trends[j], self.curved[j] = end, self.trend, None
        self._tell()


class _Since:
    """The increments of W over the coarser steps that are under way."""

    def __init__(self, depths: tuple[int, ...]) -> None:
        self.depths = depths
        self.sums: list[CoarseSums | None] = [None, None]

    def add(self, along: ItoStep) -> None:
        for part, increment in enumerate((along.matrix, along.bias)):
            if increment is not None:
                sums = self.sums[part] = self.sums[part] or CoarseSums(self.depths, increment)
                sums.add(increment)

    def take(self, j: int) -> list[Tensor | None]:
        """Return the increments of W^A and W^b over the step that ends, and start the next."""
        return [None if sums is None else sums.take(j) for sums in self.sums]


class ItoStepper(Stepper):
    """The diffusive limit of Theorem 4.4, on products of its noise."""

    def __init__(self, state: Tensor, limit: ItoCorrectedSDE) -> None:
        factors = limit.factors()
        assert factors is not None
        super().__init__(state, factors, limit.noise)
        self.limit = limit

    def operand(self, length: float) -> Tensor:
        return self.limit.multiplied(self.state, length, self.trend)

    def step(self, product: Tensor, bias: Tensor | None, length: float, trend: FunctionValue) -> Tensor:
        assert self.rate is not None
        curved = self.limit.curved(self.rate, length, self.state)
        return self.limit.advance(self.state, Passed(length, None, bias, curved, product), self.trend, trend)

    def compiled_step(self) -> CompiledStep | None:
        entries = self.bias_entries()
        if entries is None or self.limit.trend is not None or self.limit.other_quadratic is not None:
            return None
        slope, half = self.limit.slope, 0.5 * self.limit.curvature
        deviations, variances = entries
        return CompiledStep(
            Motion.ITO, None, slope * self.factor, slope * deviations, half, self.factor**2, variances
        )


def _check_trend(trend: object, width: int) -> None:
    if not isinstance(trend, FunctionLaw):
        raise TypeError(
            f"trend must be a function of time, such as Trend(A, b); got {validation.named(trend)}."
        )
    trend.check((width, width))


def _check_columns(name: str, value: Tensor, columns: int) -> None:
    validation.real_tensor(value, name)
    if value.ndim != 2 or value.shape[1] != columns:
        raise ValueError(f"{name} must have shape (P, {columns}), got {tuple(value.shape)}.")


def _slope(slope: float) -> str:
    return "" if slope == 1.0 else f"{slope:.4g} "
