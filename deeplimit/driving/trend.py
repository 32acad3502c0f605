"""Deterministic weights: given functions of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.driving.law import Dependence, Facts, FunctionLaw, Shape
from deeplimit.driving.path import SampledFunction

TimeFunction = Callable[[float], Tensor]


@final
@dataclass(frozen=True)
class GivenFunction(SampledFunction):
    """The given functions, evaluated one time after the other and cast to the network's dtype and device."""

    trend: Trend
    shape: Shape
    dtype: torch.dtype
    device: torch.device

    def _values(self, name: str, times: Tensor) -> Tensor:
        values = [
            self.trend.value(name, float(t), self.shape).to(self.device, self.dtype) for t in times.tolist()
        ]
        return torch.stack(values).unsqueeze(1)

    def at(self, times: Tensor) -> Tensor:
        return self._values("A", times)

    def bias_at(self, times: Tensor) -> Tensor | None:
        return None if self.trend.b is None else self._values("b", times)


@final
@dataclass(frozen=True)
class Trend(FunctionLaw):
    """Deterministic weights A(t) (d, d) and, for the inner recursion, biases b(t) (d,), for t in [0, 1].

    The functions take a float and return a tensor; no 1/√d is applied. As `weights=`, layer k + 1 of depth L
    reads them at (k + 1)/L (Marion et al. 2025, (A5)). As `trend=` of `inner`, layer k reads them at k/L
    (Cohen et al. 2021, (10)). `holder` is the Hölder exponent of the functions in t, above 0 and at most 1: 1
    for Lipschitz ones (the default), 1/2 for paths as rough as Brownian motion. It enters the predicted order
    as the worst case. NOT checked: that the functions are that smooth.

    Raises:
        TypeError: If A or b is not a function of t, or does not return a tensor.
        ValueError: For a holder outside (0, 1], and for values of another shape or not finite. Values are
            checked at 0, 1/2 and 1 when the network is made, elsewhere when a layer reads them.

    Examples:
        >>> import torch, deeplimit as dl
        >>> spiral = dl.Trend(lambda t: torch.tensor([[0.0, 1.0], [-1.0, -t]]))
        >>> dl.res1(width=2, activation="tanh", weights=spiral).regime().theorem
        'Proposition 12 of Marion et al. (2025)'
    """

    A: TimeFunction
    b: TimeFunction | None = None
    holder: float = 1.0

    @by_default
    def __post_init__(self) -> None:
        validation.plain_numbers(self)
        validation.real(
            self.holder,
            "holder",
            above=0.0,
            maximum=1.0,
            hint="it is the Hölder exponent of A and b in time.",
        )
        for name, value in (("A", self.A), ("b", self.b)):
            if (isinstance(value, type) or not callable(value)) and not (name == "b" and value is None):
                raise TypeError(
                    f"{name} must be a function of time, such as lambda t: tensor; got"
                    f" {validation.named(value)}."
                )

    @property
    def facts(self) -> Facts:
        return Facts(
            Dependence.SMOOTH,
            deterministic=True,
            holder=float(self.holder),
            natural_exponent=1.0,
            biased=self.b is not None,
        )

    def entry_scale(self, shape: Shape) -> float:
        return 1.0

    def value(self, name: str, time: float, shape: Shape) -> Tensor:
        """Return A, of this shape, or b (d,) at `time`, checked."""
        function: TimeFunction = getattr(self, name)
        shape = shape if name == "A" else shape[:1]
        given = validation.evaluated(f"Trend's {name}", "t alone", function, time)
        return validation.finite_tensor(given, f"Trend's {name}({round(time, 6)})", shape)

    def check(self, shape: Shape) -> None:
        for name in ("A",) if self.b is None else ("A", "b"):
            for time in (0.0, 0.5, 1.0):
                self.value(name, time, shape)

    def sample(
        self,
        shape: Shape,
        paths: int,
        generator: torch.Generator,
        dtype: torch.dtype,
        device: torch.device,
    ) -> GivenFunction:
        return GivenFunction(self, shape, dtype, device)

    def describe(self) -> str:
        return "deterministic weights"
