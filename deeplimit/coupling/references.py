"""The limit, advanced along the same grid and path as the networks."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
import torchdiffeq
from torch import Tensor

from deeplimit.coupling.grid import Chunk
from deeplimit.coupling.readers import IncrementReader
from deeplimit.limits import SDELimit
from deeplimit.limits.equations import VectorField


class Reference(ABC):
    """The limit's state along the grid."""

    def begin(self, chunk: Chunk) -> None:
        """Prepare for the steps of `chunk`."""

    @abstractmethod
    def step(self, index: int) -> Tensor:
        """Return the state (P, d) at the end of step `index` of the current chunk."""


class EulerMaruyama(Reference):
    """An SDE by Euler-Maruyama on the union grid, on increments that the network's readers hold, or on its own."""

    def __init__(self, limit: SDELimit, state: Tensor, readers: list[IncrementReader], own: torch.Generator | None) -> None:
        self.limit = limit
        self.state = state
        self.readers = readers
        self.own = own
        size = limit.noise_size(state[:1])
        self.size = size if size is not None else state.shape[1] ** 2

    def begin(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.start = chunk.start

    def _noise(self, step: float) -> Tensor:
        if self.own is None:
            flat = [reader.increment.flatten(1) for reader in self.readers]
            return flat[0] if len(flat) == 1 else torch.cat(flat, dim=1)
        noise = torch.empty(len(self.state), self.size, dtype=self.state.dtype, device=self.state.device)
        return noise.normal_(0.0, math.sqrt(step), generator=self.own)

    def step(self, index: int) -> Tensor:
        step = float(self.chunk.steps[index])
        time = self.start if index == 0 else float(self.chunk.times[index - 1])
        self.state = self.limit.euler_step(time, step, self.state, self._noise(step))
        return self.state


class AdaptiveODE(Reference):
    """An ODE by torchdiffeq's adaptive Dormand-Prince method at a tolerance far below the errors to be measured."""

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
    # step_t makes the solver land on the end: left alone it steps past it, where weights and users' functions may not exist.
    options = {"dtype": torch.float64, "max_num_steps": 20_000, "step_t": times[-1:]}
    try:
        solution: Tensor = torchdiffeq.odeint(
            field, state, times, rtol=tolerance, atol=tolerance, method="dopri5", options=options
        )
    except AssertionError as error:
        raise RuntimeError(
            f"the reference ODE could not be solved to tolerance {tolerance:g} between t = {times[0].item():.4g} and "
            f"{times[-1].item():.4g} ({error}). Its right-hand side may be discontinuous in time, or the solution or an input "
            "so large that it overflows; a larger tolerance= may help."
        ) from error
    return solution
