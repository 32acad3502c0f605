"""The limit, advanced along the same grid and path as the networks."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
import torch
import torchdiffeq
from torch import Tensor

from deeplimit.coupling.grid import Chunk
from deeplimit.coupling.readers import FractionalReader, HypothesisReader, Reader, Values
from deeplimit.limits import ItoCorrectedSDE, NeuralYoung, SDELimit
from deeplimit.limits.equations import VectorField
from deeplimit.limits.linearised import Passed, TrendValue
from deeplimit.weights import FunctionPath, ItoStep


class Reference(ABC):
    """The limit's state along the grid; `coarse` is that of a coarser solution where the reference is solved
    twice.
    """

    coarse: Tensor | None = None

    def begin(self, chunk: Chunk) -> None:
        """Prepare for the steps of `chunk`."""

    @abstractmethod
    def step(self, index: int) -> Tensor:
        """Return the state (P, d) at the end of step `index` of the current chunk."""


class EulerMaruyama(Reference):
    """An SDE by Euler-Maruyama on the union grid, on increments that the network's readers hold, or on its
    own.

    With `twice`, a second solution of the same equation on the same path takes the grid's coarse steps only.
    How far the two lie apart measures the reference's own error.
    """

    def __init__(
        self, limit: SDELimit, state: Tensor, readers: list[Reader], own: torch.Generator | None, twice: bool
    ) -> None:
        self.limit = limit
        self.state = state
        self.coarse = state if twice else None
        self.pending: Tensor | None = None
        self.since = 0.0
        self.readers = readers
        self.own = own
        size = limit.noise_size(state[:1])
        self.size = size if size is not None else state.shape[1] ** 2

    def begin(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.start = chunk.start

    def _noise(self, step: float) -> Tensor:
        if self.own is None:
            flat = [reader.brownian for reader in self.readers if reader.brownian is not None]
            return flat[0] if len(flat) == 1 else torch.cat(flat, dim=1)
        noise = torch.empty(len(self.state), self.size, dtype=self.state.dtype, device=self.state.device)
        return noise.normal_(0.0, math.sqrt(step), generator=self.own)

    def step(self, index: int) -> Tensor:
        time = self.start if index == 0 else float(self.chunk.times[index - 1])
        step = float(self.chunk.steps[index])
        noise = self._noise(step)
        self.state = self.state + self.limit.increment(time, step, self.state, noise)
        if self.coarse is not None:
            self.pending = noise.clone() if self.pending is None else self.pending + noise
            if self.chunk.coarse[index]:
                end = float(self.chunk.times[index])
                self.coarse = self.coarse + self.limit.increment(
                    self.since, end - self.since, self.coarse, self.pending
                )
                self.since, self.pending = end, None
        return self.state


class ItoEuler(EulerMaruyama):
    """The diffusive limit of Theorem 4.4 on weights that its network drew, or that it draws itself.

    It reads W and its covariance as drawn, random volatility included, which a state-space equation in H
    alone cannot.
    """

    limit: ItoCorrectedSDE

    def __init__(
        self,
        limit: ItoCorrectedSDE,
        state: Tensor,
        readers: list[Reader],
        own: torch.Generator | None,
        twice: bool,
        same: HypothesisReader | None,
        trend: FunctionPath | None,
    ) -> None:
        super().__init__(limit, state, readers, own, twice)
        self.same = same
        generator = own if own is not None else torch.Generator(device=state.device)
        self.path = (
            limit.noise.start(limit.width, len(state), generator, state.dtype) if same is None else None
        )
        self.values = None if trend is None else Values(trend, limit.width, len(state), state.device)
        self.scale = 1.0 if limit.trend is None else limit.trend.entry_scale(limit.width)
        self.trend: TrendValue = None
        self.coarse_trend: TrendValue = None
        self.passed: Passed | None = None

    def begin(self, chunk: Chunk) -> None:
        super().begin(chunk)
        if self.values is not None:
            self.values.begin(np.concatenate([[chunk.start], chunk.times]))
            self.trend = self._trend_at(0)
            self.coarse_trend = self.coarse_trend if self.coarse_trend is not None else self.trend

    def _trend_at(self, index: int) -> TrendValue:
        if self.values is None:
            return None
        matrix, bias = self.values.at(index)
        return matrix * self.scale, bias

    def _along(self, time: float, step: float) -> ItoStep:
        if self.path is not None:
            return self.path.move(time, step, self._noise(step))
        along = None if self.same is None else self.same.along
        assert along is not None  # a reader with noise has moved before the reference does
        return along

    def step(self, index: int) -> Tensor:
        time = self.start if index == 0 else float(self.chunk.times[index - 1])
        along = self._along(time, float(self.chunk.steps[index]))
        before, self.trend = self.trend, self._trend_at(index + 1)
        self.state = self.limit.advance(
            self.state, self.limit.pass_over(along, self.state), before, self.trend
        )
        if self.coarse is not None:
            passed = self.limit.pass_over(along, self.coarse)
            self.passed = passed if self.passed is None else self.passed.then(passed)
            if self.chunk.coarse[index]:
                self.coarse = self.limit.advance(self.coarse, self.passed, self.coarse_trend, self.trend)
                self.passed, self.coarse_trend = None, self.trend
        return self.state


class ModifiedEuler(Reference):
    """A Young equation by the modified Euler scheme, on the path that the network's reader holds or on one of
    its own.

    With `twice`, a second solution on the same path takes steps twice as long.
    """

    def __init__(
        self, limit: NeuralYoung, state: Tensor, reader: FractionalReader, own: bool, twice: bool
    ) -> None:
        self.limit = limit
        self.state = state
        self.coarse = state if twice else None
        self.reader = reader
        self.own = own
        self.pending: Tensor | None = None

    def begin(self, chunk: Chunk) -> None:
        self.ends = chunk.coarse.tolist()

    def step(self, index: int) -> Tensor:
        if self.own:
            self.reader.step(index)
        increment = self.reader.increment
        self.state = self.limit.advance(self.state, increment, self.reader.count)
        if self.coarse is not None:
            self.pending = increment if self.pending is None else self.pending + increment
            if self.ends[index]:
                self.coarse = self.limit.advance(self.coarse, self.pending, self.reader.count // 2)
                self.pending = None
        return self.state


class AdaptiveODE(Reference):
    """An ODE by torchdiffeq's adaptive Dormand-Prince method at a tolerance far below the errors to be
    measured.
    """

    def __init__(self, field: VectorField, state: Tensor, tolerance: float) -> None:
        self.field = field
        self.state = state
        self.tolerance = tolerance

    def begin(self, chunk: Chunk) -> None:
        times = torch.tensor([chunk.start, *chunk.times], dtype=torch.float64, device=self.state.device)
        self.states = solve(self.field, self.state, times, self.tolerance)[1:]
        self.state = self.states[-1]

    def step(self, index: int) -> Tensor:
        return self.states[index]


def solve(field: VectorField, state: Tensor, times: Tensor, tolerance: float) -> Tensor:
    """Return the solution at `times` (K,) as (K, P, d); times are float64 whatever the states are.

    Raises RuntimeError where the solver gives up, with what to do.
    """
    if not bool(torch.isfinite(state).all()):
        return torch.full((len(times), *state.shape), math.nan, dtype=state.dtype, device=state.device)
    # step_t makes the solver land on the end: left alone it steps past it, where weights and users' functions
    # may not exist.
    options = {"dtype": torch.float64, "max_num_steps": 20_000, "step_t": times[-1:]}
    try:
        solution: Tensor = torchdiffeq.odeint(
            field, state, times, rtol=tolerance, atol=tolerance, method="dopri5", options=options
        )
    except AssertionError as error:
        raise RuntimeError(
            f"the reference ODE could not be solved to tolerance {tolerance:g} between t ="
            f" {times[0].item():.4g} and {times[-1].item():.4g} ({error}). Its right-hand side may be"
            " discontinuous in time, or the solution or an input so large that it overflows; a larger"
            " tolerance= may help."
        ) from error
    return solution
