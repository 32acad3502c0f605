"""An auxiliary diffusion that makes Itô weights random: stochastic volatility, leverage, non-Markovian W."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.driving.covariance import as_tensor

Coefficient = Callable[[float, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class AuxiliaryDiffusion:
    """A diffusion dv = drift(t, v) dt + diffusion(t, v) dZ in m dimensions, for an `Ito`'s random rates.

    Z has m independent components, Z_i = leverage·B_i + √(1 - leverage²)·B'_i, where B_i is the i-th Brownian
    motion behind the weights and B' is independent. It is advanced by Euler-Maruyama on the simulation's
    grid.

    Args:
        drift: A function of (t, v), v (P, m), that returns (P, m).
        diffusion: A function of (t, v) that returns (P, m).
        start: v at time 0: a number, or (m,).
        leverage: Between -1 and 1; 0 makes v independent of the weights' own noise.

    Raises TypeError or ValueError for values of another kind or shape, or not finite; that solutions exist
    is NOT checked.

    Examples:
        >>> import torch, deeplimit as dl
        >>> back, ones = (lambda t, v: -v), (lambda t, v: torch.ones_like(v))
        >>> v = dl.AuxiliaryDiffusion(drift=back, diffusion=ones, leverage=-0.5)
        >>> noise = dl.Ito(A=lambda t, v: 0.05 * torch.sigmoid(v[:, 0]), auxiliary=v)
        >>> noise.Q(0.0, torch.ones(1, 4), v=torch.zeros(1, 1))
        tensor([[0.1000, 0.1000, 0.1000, 0.1000]], dtype=torch.float64)
    """

    drift: Coefficient
    diffusion: Coefficient
    start: Any = 0.0
    leverage: float = 0.0

    @by_default
    def __post_init__(self) -> None:
        validation.plain_numbers(self)
        for name in ("drift", "diffusion"):
            value = getattr(self, name)
            if isinstance(value, type) or not callable(value):
                raise TypeError(
                    f"the auxiliary {name} must be a function of (t, v); got {validation.named(value)}."
                )
        start = as_tensor(self.start, "the auxiliary start")
        if start.ndim > 1 or start.numel() == 0:
            raise ValueError(
                f"the auxiliary start must be a number or of shape (m,), got {tuple(start.shape)}."
            )
        object.__setattr__(self, "start", start.reshape(-1))
        validation.real(self.leverage, "leverage", minimum=-1.0, maximum=1.0, hint="it is a correlation.")

    @property
    def size(self) -> int:
        """The dimension m."""
        return int(self.start.numel())

    def initial(self, paths: int) -> Tensor:
        """Return v at time 0 (P, m)."""
        start: Tensor = self.start.expand(paths, -1).clone()
        return start

    def check(self, motions: int, width: int) -> Tensor:
        """Raise unless both functions return (P, m) and motions suffice; return a v (P, m) to try."""
        if self.leverage != 0.0 and self.size > motions:
            raise ValueError(
                f"leverage needs a Brownian motion of the weights for each of v's {self.size} dimensions;"
                f" there are {motions}. Use leverage=0, or fewer dimensions."
            )
        # As many paths as neither units nor dimensions, so that a function that mixes them up is caught
        # here.
        v = self.initial(next(paths for paths in (3, 4, 5) if paths not in (width, self.size)))
        for time in (0.0, 0.5, 1.0):
            self.coefficient("drift", time, v)
            self.coefficient("diffusion", time, v)
        return v

    def coefficient(self, name: str, time: float, v: Tensor) -> Tensor:
        """Return the drift or the diffusion (P, m) at `time` and `v`, checked."""
        function: Coefficient = getattr(self, name)
        value = validation.evaluated(f"the auxiliary {name}", "(t, v), v (P, m)", function, time, v)
        return validation.finite_tensor(value, f"the auxiliary {name} at t = {time:.6g}", tuple(v.shape))

    def diffused(self, time: float, v: Tensor, brownian: Tensor) -> Tensor:
        """Return diffusion(t, v) dZ (P, m) from increments (P, motions) of all Brownian motions, v's last."""
        motion = math.sqrt(1.0 - self.leverage**2) * brownian[:, -self.size :]
        if self.leverage != 0.0:
            motion = motion + self.leverage * brownian[:, : self.size]
        return self.coefficient("diffusion", time, v) * motion

    def advance(self, time: float, step: float, v: Tensor, brownian: Tensor) -> Tensor:
        """Return v one step later."""
        return v + self.coefficient("drift", time, v) * step + self.diffused(time, v, brownian)
