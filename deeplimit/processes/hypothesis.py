"""The weights of Hypotheses 1 and 2 of Cohen et al. (2021): a trend that shrinks with the depth, plus Itô noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from deeplimit.processes.base import FunctionProcess, Process
from deeplimit.processes.ito import Ito


@dataclass(frozen=True)
class TrendAndNoise(Process):
    """A_k = L^-exponent Ā(k/L) + W^A_{(k+1)/L} - W^A_{k/L}, and b_k likewise, for k = 0 … L - 1.

    `trend` alone is Hypothesis 1; with `noise` it is Hypothesis 2. Layers read the trend at their start.
    """

    layer_exponent: ClassVar[float] = 0.0
    trend: FunctionProcess | None
    noise: Ito | None
    exponent: float

    def entry_scale(self, width: int) -> float:
        return 1.0

    @property
    def functions(self) -> tuple[FunctionProcess, ...]:
        return () if self.trend is None else (self.trend,)

    def motions(self, width: int) -> int:
        return 0 if self.noise is None else self.noise.motions(width)

    def check(self, width: int) -> None:
        if self.trend is not None:
            self.trend.check(width)
        if self.noise is not None:
            self.noise.check(width)

    def describe(self) -> str:
        trend = None if self.trend is None else f"L^-{self.exponent:g} times {self.trend.describe()}"
        noise = None if self.noise is None else self.noise.describe()
        return " plus ".join(part for part in (trend, noise) if part is not None)
