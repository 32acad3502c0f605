"""The weights of Hypotheses 1 and 2 of Cohen et al. (2021): a trend that shrinks with the depth, plus Itô
noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from deeplimit.weights.base import DrawnLayers, Factors, FunctionProcess, Process
from deeplimit.weights.facts import Dependence, Facts
from deeplimit.weights.ito import Ito


@dataclass(frozen=True)
class TrendAndNoise(Process):
    """A_k = L^-exponent Ā(k/L) + W^A_{(k+1)/L} - W^A_{k/L}, and b_k likewise, for k = 0 … L - 1.

    `trend` alone is Hypothesis 1; with `noise` it is Hypothesis 2. Layers read the trend at their start.
    """

    trend: FunctionProcess | None
    noise: Ito | None
    exponent: float

    @property
    def facts(self) -> Facts:
        trend = None if self.trend is None else self.trend.facts
        return Facts(
            Dependence.SHRINKING,
            deterministic=self.noise is None and (trend is None or trend.deterministic),
            holder=None if trend is None else trend.holder,
            natural_exponent=self.critical_exponent,
            weight_exponent=self.exponent,
            noisy=self.noise is not None,
            additive_noise=self.noise is not None and self.noise.is_additive,
            biased=True,
        )

    @property
    def layer_exponent(self) -> float:
        return 0.0

    @property
    def critical_exponent(self) -> float:
        return 0.0 if self.trend is None else max(0.0, 1.0 - self.exponent)

    def entry_scale(self, width: int) -> float:
        return 1.0

    @property
    def functions(self) -> tuple[FunctionProcess, ...]:
        return () if self.trend is None else (self.trend,)

    def motions(self, width: int) -> int:
        return 0 if self.noise is None else self.noise.motions(width)

    def factors(self, width: int) -> Factors | None:
        return None if self.noise is None else self.noise.factors(width)

    def check(self, width: int) -> None:
        if self.trend is not None:
            self.trend.check(width)
        if self.noise is not None:
            self.noise.check(width)

    def draw_layers(
        self, depth: int, width: int, paths: int, generator: torch.Generator, dtype: torch.dtype
    ) -> DrawnLayers:
        matrices, biases = None, None
        if self.trend is not None:
            path = self.trend.sample(width, paths, generator, dtype, torch.device(generator.device))
            starts = torch.arange(depth, dtype=torch.float64, device=generator.device) / depth
            shrink = float(depth) ** -self.exponent
            matrices = path.at(starts) * (shrink * self.trend.entry_scale(width))
            bias = path.bias_at(starts)
            biases = None if bias is None else bias * shrink
        if self.noise is not None:
            along = self.noise.start(width, paths, generator, dtype)
            steps = [along.step(k / depth, 1.0 / depth) for k in range(depth)]
            matrices = _sum(matrices, [step.matrix for step in steps])
            biases = _sum(biases, [step.bias for step in steps])
        return DrawnLayers(matrices, biases, 1.0)

    def describe(self) -> str:
        trend = None if self.trend is None else f"L^-{self.exponent:g} times {self.trend.describe()}"
        noise = None if self.noise is None else self.noise.describe()
        return " plus ".join(part for part in (trend, noise) if part is not None)


def _sum(trend: Tensor | None, noise: list[Tensor | None]) -> Tensor | None:
    drawn = [part for part in noise if part is not None]  # all of them, or none
    if not drawn:
        return trend
    return torch.stack(drawn) if trend is None else trend + torch.stack(drawn)
