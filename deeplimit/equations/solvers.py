"""Solvers: a limit's state, advanced along the same grid and path as the networks."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from deeplimit.driving import CoarseSums
from deeplimit.driving.path import Chunk
from deeplimit.equations.drive import Drive


class Steppable(Protocol):
    """What a solver on a grid needs to know: how many Brownian motions, and where a step leads."""

    def noise_size(self, h: Tensor) -> int | None: ...
    def advanced(self, time: float, step: float, h: Tensor, noise: Tensor) -> Tensor: ...


class Solver(ABC):
    """The limit's state along the grid.

    `coarse` is the coarser solution where it is solved twice. `schemes` are the same scheme's states on the
    layers of each depth, where they are wanted.
    """

    coarse: Tensor | None = None
    schemes: Sequence[Tensor] = ()

    def begin(self, chunk: Chunk) -> None:
        """Prepare for the steps of `chunk`."""

    @abstractmethod
    def step(self, index: int) -> Tensor:
        """Return the state (P, d) at the end of step `index` of the current chunk."""


class OnGrid(Solver):
    """An SDE by the steps of a scheme on the union grid, on the network's increments or on independent ones.

    The same scheme may also run on coarser steps of the same path. With `Drive.twice` it takes the grid's
    coarse steps: how far the two lie apart measures the reference's own error. With `Drive.schemes` it takes
    the layers of each depth.
    """

    def __init__(self, limit: Steppable, drive: Drive, own: torch.Generator | None) -> None:
        self.limit = limit
        self.state = state = drive.state
        self.twice, depths = drive.twice, drive.grid.depths if drive.schemes else ()
        self.slower = [state] * (len(depths) or drive.twice)
        self.since = [0.0] * len(self.slower)
        self.pending: CoarseSums | None = None
        self.depths = depths or (1,)
        self.paths = drive.paths
        self.own = own
        size = limit.noise_size(state[:1])
        self.size = size if size is not None else state.shape[1] ** 2
        self._tell()

    def _tell(self) -> None:
        if self.twice:
            (self.coarse,) = self.slower
        else:
            self.schemes = self.slower

    def begin(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.start = chunk.start
        self.ends = (chunk.coarse[:, None] if self.twice else chunk.ends).tolist()

    def _noise(self, step: float) -> Tensor:
        if self.own is None:
            flat = [path.brownian for path in self.paths if path.brownian is not None]
            return flat[0] if len(flat) == 1 else torch.cat(flat, dim=1)
        noise = torch.empty(len(self.state), self.size, dtype=self.state.dtype, device=self.state.device)
        return noise.normal_(0.0, math.sqrt(step), generator=self.own)

    def step(self, index: int) -> Tensor:
        time = self.start if index == 0 else float(self.chunk.times[index - 1])
        noise = self._noise(float(self.chunk.steps[index]))
        self.state = self.limit.advanced(time, float(self.chunk.steps[index]), self.state, noise)
        if self.slower:
            self.pending = self.pending or CoarseSums(self.depths, noise)
            self.pending.add(noise)
            end = float(self.chunk.times[index])
            for j in reversed(range(len(self.slower))):
                if self.ends[index][j]:
                    since, self.since[j] = self.since[j], end
                    self.slower[j] = self.limit.advanced(
                        since, end - since, self.slower[j], self.pending.take(j)
                    )
            self._tell()
        return self.state


class Still(Solver):
    """A state that stays where it is."""

    def __init__(self, state: Tensor) -> None:
        self.state = state

    def step(self, index: int) -> Tensor:
        return self.state


class AdaptiveODE(Solver):
    """An ODE by torchdiffeq's adaptive Dormand-Prince method, at a tolerance far below measured errors."""

    def __init__(self, field: Callable[[Any, Tensor], Tensor], state: Tensor, tolerance: float) -> None:
        self.field = field
        self.state = state
        self.tolerance = tolerance

    def begin(self, chunk: Chunk) -> None:
        times = torch.tensor([chunk.start, *chunk.times], dtype=torch.float64, device=self.state.device)
        self.states = solve(self.field, self.state, times, self.tolerance)[1:]
        self.state = self.states[-1]

    def step(self, index: int) -> Tensor:
        return self.states[index]


def solve(
    field: Callable[[Any, Tensor], Tensor],
    state: Tensor,
    times: Tensor,
    tolerance: float,
    cure: str = "a larger tolerance= may help",
) -> Tensor:
    """Return the solution at `times` (K,) as (K, P, d); times are float64 whatever the states are.

    Raises RuntimeError where the solver gives up, with what to do, which ends with `cure`.
    """
    import torchdiffeq  # here: it brings scipy.integrate, which an SDE's first comparison needs not wait for

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
            f" discontinuous, or the solution or an input so large that it overflows; {cure}."
        ) from error
    return solution
