"""An auxiliary diffusion that makes Itô weights random: stochastic volatility, leverage, anything that is not Markov in W."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from deeplimit import validation
from deeplimit.processes.covariance import as_tensor

Coefficient = Callable[[float, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class AuxiliaryDiffusion:
    """A diffusion dv = drift(t, v) dt + diffusion(t, v) dZ in m dimensions that covariances of an `Ito` may depend on.

    Z has m independent components, Z_i = leverage·B_i + √(1 - leverage²)·B'_i, with B_i the i-th Brownian motion behind the
    weights and B' motions of its own. It is advanced by Euler-Maruyama on the simulation's grid.

    Args:
        drift, diffusion: Functions of (t, v), v (P, m), that return (P, m).
        start: v at time 0: a number, or (m,).
        leverage: Between -1 and 1; 0 makes v independent of the weights' own noise.

    Raises TypeError or ValueError for values of another kind or shape; that solutions exist is NOT checked.

    Example:
        >>> import torch, deeplimit as dl
        >>> v = dl.AuxiliaryDiffusion(drift=lambda t, v: -v, diffusion=lambda t, v: torch.ones_like(v), leverage=-0.5)
        >>> noise = dl.Ito(A=lambda t, v: 0.05 * torch.sigmoid(v[:, 0]), auxiliary=v)
        >>> noise.Q(0.0, torch.ones(1, 4), v=torch.zeros(1, 1))
        tensor([[0.1000, 0.1000, 0.1000, 0.1000]], dtype=torch.float64)
    """

    drift: Coefficient
    diffusion: Coefficient
    start: Any = 0.0
    leverage: float = 0.0

    def __post_init__(self) -> None:
        for name in ("drift", "diffusion"):
            if not callable(getattr(self, name)):
                raise TypeError(f"the auxiliary {name} must be a function of (t, v); got {type(getattr(self, name)).__name__}.")
        start = as_tensor(self.start, "the auxiliary start")
        if start.ndim > 1 or start.numel() == 0:
            raise ValueError(f"the auxiliary start must be a number or of shape (m,), got {tuple(start.shape)}.")
        object.__setattr__(self, "start", start.reshape(-1))
        validation.real(self.leverage, "leverage", minimum=-1.0, maximum=1.0, hint="It is a correlation.")

    @property
    def size(self) -> int:
        """The dimension m."""
        return int(self.start.numel())

    def initial(self, paths: int) -> Tensor:
        """Return v at time 0 (P, m)."""
        start: Tensor = self.start.expand(paths, -1).clone()
        return start

    def check(self, motions: int) -> Tensor:
        """Raise unless both functions return (P, m) and there is noise to lean on; return a probe of v (3, m)."""
        if self.leverage != 0.0 and self.size > motions:
            raise ValueError(
                f"leverage needs a Brownian motion of the weights for each of v's {self.size} dimensions; there are {motions}."
            )
        v = self.initial(3)
        for name in ("drift", "diffusion"):
            value = getattr(self, name)(0.0, v)
            if not isinstance(value, Tensor) or value.shape != v.shape:
                got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
                raise ValueError(f"the auxiliary {name} must return v's shape (P, m) = {tuple(v.shape)}, got {got}.")
        return v

    def diffused(self, time: float, v: Tensor, brownian: Tensor) -> Tensor:
        """Return diffusion(t, v) dZ (P, m) for the increments (P, motions) of all Brownian motions, v's own last."""
        motion = math.sqrt(1.0 - self.leverage**2) * brownian[:, -self.size :]
        if self.leverage != 0.0:
            motion = motion + self.leverage * brownian[:, : self.size]
        return self.diffusion(time, v) * motion

    def advance(self, time: float, step: float, v: Tensor, brownian: Tensor) -> Tensor:
        """Return v one step later."""
        return v + self.drift(time, v) * step + self.diffused(time, v, brownian)
