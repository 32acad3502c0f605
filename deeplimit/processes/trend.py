"""Deterministic weights: given functions of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from deeplimit import validation
from deeplimit.processes.base import FunctionPath, FunctionProcess

TimeFunction = Callable[[float], Tensor]


@dataclass(frozen=True)
class TrendPath(FunctionPath):
    """The given functions, evaluated one time after the other and cast to the network's dtype and device."""

    matrix: TimeFunction
    bias: TimeFunction | None
    dtype: torch.dtype
    device: torch.device

    def _values(self, function: TimeFunction, times: Tensor) -> Tensor:
        values = [function(float(t)).to(self.device, self.dtype) for t in times.tolist()]
        return torch.stack(values).unsqueeze(1)

    def at(self, times: Tensor) -> Tensor:
        return self._values(self.matrix, times)

    def bias_at(self, times: Tensor) -> Tensor | None:
        return None if self.bias is None else self._values(self.bias, times)


@dataclass(frozen=True)
class Trend(FunctionProcess):
    """Deterministic weights A(t) (d, d) and, for the inner recursion, biases b(t) (d,), for t in [0, 1].

    The functions take a float and return a tensor, and no 1/√d is applied. As `weights=`, layer k + 1 of depth L reads them at
    (k + 1)/L ([M] (A5)); as `trend=` of `inner`, layer k at k/L ([C] (10)). `holder` is the Hölder exponent of the functions in
    t, above 0 and at most 1: 1 for Lipschitz ones (the default), 1/2 for paths as rough as Brownian motion. It enters the order
    that is predicted, as the worst case; that the functions are that smooth is NOT checked. Only values at 0, 1/2 and 1 are
    checked for shape and finiteness, when the network is made.

    Raises TypeError if A or b is not callable or returns no tensor, ValueError for a holder outside (0, 1].

    Example:
        >>> import torch, deeplimit as dl
        >>> spiral = dl.Trend(lambda t: torch.tensor([[0.0, 1.0], [-1.0, -t]]))
        >>> dl.res1(width=2, activation="tanh", weights=spiral).regime().theorem
        'Proposition 12 of Marion et al. (2025)'
    """

    A: TimeFunction
    b: TimeFunction | None = None
    holder: float = 1.0

    def __post_init__(self) -> None:
        validation.real(self.holder, "holder", above=0.0, maximum=1.0, hint="it is the Hölder exponent of A and b in time.")
        for name, value in (("A", self.A), ("b", self.b)):
            if not callable(value) and not (name == "b" and value is None):
                raise TypeError(f"{name} must be a function of time, such as lambda t: tensor; got {type(value).__name__}.")

    @property
    def smoothness(self) -> float:
        return float(self.holder)

    def entry_scale(self, width: int) -> float:
        return 1.0

    def check(self, width: int) -> None:
        for name, function, shape in (("A", self.A, (width, width)), ("b", self.b, (width,))):
            if function is None:
                continue
            for time in (0.0, 0.5, 1.0):
                value = function(time)
                if not isinstance(value, Tensor):
                    raise TypeError(f"Trend's {name}({time}) must be a tensor of shape {shape}, got {type(value).__name__}.")
                if tuple(value.shape) != shape:
                    raise ValueError(f"Trend's {name}({time}) must have shape {shape}, got {tuple(value.shape)}.")
                if not bool(torch.isfinite(value).all()):
                    raise ValueError(f"Trend's {name}({time}) must be finite, but holds NaN or infinity.")

    def sample(self, width: int, paths: int, generator: torch.Generator, dtype: torch.dtype, device: torch.device) -> TrendPath:
        return TrendPath(self.A, self.b, dtype, device)

    def numbers_per_path(self, width: int) -> int:
        return width * width

    def describe(self) -> str:
        return "deterministic weights"
