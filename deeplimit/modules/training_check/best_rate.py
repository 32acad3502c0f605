"""The learning rates with the smallest loss after a few steps, at each depth: a dearer second opinion."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from deeplimit.common import measurement as running
from deeplimit.common.measurement import Arrays, Tick
from deeplimit.modules.training_check.findings import TrainingFinding, many, power, times
from deeplimit.modules.training_check.one_network import losses_after
from deeplimit.modules.training_check.runs import TrainedNetworks
from deeplimit.modules.training_check.scaling import Power, power_of


@dataclass(frozen=True)
class RateDrift:
    """How the best factor of all learning rates goes with depth: D depths, F factors.

    Attributes:
        steps: number of steps after which losses are compared.
        factors: factors of all learning rates, increasing (F,).
        losses: median loss over seeds (D, F); infinite where most seeds diverge.
        best: factor with the smallest loss, between factors by a parabola, as a power of the depth. nan at
            depths where a seed has it at an end of the factors.
        ends: which end that is, at each depth: "smallest", "largest", or "" (D,).
    """

    steps: int
    factors: tuple[float, ...]
    losses: tuple[tuple[float, ...], ...]
    best: Power
    ends: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """ "carries over", "drifts like depth^p", or "cannot tell"."""
        if self.best.agrees is None or self.best.exponent is None:
            return "cannot tell"
        return "carries over" if self.best.agrees else f"drifts like {power(self.best.exponent)}"

    def in_words(self, depths: Sequence[int]) -> str:
        """Return the verdict, the best factors and what is at an end of the grid, in one line."""
        beyond = {"smallest": f"below {self.factors[0]:g}", "largest": f"above {self.factors[-1]:g}"}
        found = ", ".join(
            f"{beyond[end] if end else f'{value:.3g}'} (L={depth})"
            for depth, value, end in zip(depths, self.best.values, self.ends, strict=True)
        )
        line = (
            f"best learning rate after {many(self.steps, 'step')}: {self.verdict}; factors {found}, exponent"
            f" {self.best.in_words}"
        )
        wider = [
            f"{word} ones"
            for end, word in (("smallest", "smaller"), ("largest", "larger"))
            if end in self.ends
        ]
        return f"{line}; add {' and '.join(wider)} to rate_factors" if wider else line


@final
@dataclass(frozen=True)
class SweptRates(running.Measurement[tuple[float, ...], list[tuple[float, ...]]]):
    """Losses of networks after their last step, with learning rates multiplied by each of `factors`."""

    networks: TrainedNetworks
    factors: tuple[float, ...]

    what = "sweep learning rates"
    carries = TrainedNetworks.carries
    side_by_side = False

    @property
    def blocks(self) -> int:
        return self.networks.blocks

    def run(self, block: int, tick: Tick | None = None) -> tuple[float, ...]:
        own = self.networks
        found = own.with_network(
            block,
            lambda model, optimizers, batch: losses_after(
                model, optimizers, batch, own.loss, own.steps[-1], self.factors, seed=own.seed
            ),
        )
        if tick is not None:
            tick(1.0)
        return found

    def merge(self, parts: Iterator[tuple[float, ...]]) -> list[tuple[float, ...]]:
        return [*parts]

    def key(self) -> dict[str, Any]:
        """Return what the losses depend on."""
        return {**self.networks.key(), "factors": self.factors}

    def name(self) -> str:
        return f"{self.networks.name()}, {len(self.factors)} learning rates"

    def write(self, part: tuple[float, ...]) -> Arrays:
        return {"losses": np.array(part)}

    def read(self, arrays: Arrays) -> tuple[float, ...]:
        return tuple(arrays["losses"].tolist())


def rate_drift(
    depths: Sequence[int],
    factors: Sequence[float],
    losses: Sequence[Sequence[Sequence[float]]],
    steps: int,
    confidence: float,
    tolerance: float,
) -> RateDrift:
    """Return how the best factor goes with depth, from losses by depth, seed and factor (D, seeds, F)."""
    places = [[_best(factors, one) for one in group] for group in losses]
    ends = tuple(next((end for _, end in group if end), "") for group in places)
    values = [
        [math.nan if end else value for value, _ in group] for group, end in zip(places, ends, strict=True)
    ]
    return RateDrift(
        steps,
        tuple(factors),
        tuple(tuple(map(statistics.median, zip(*group, strict=True))) for group in losses),
        power_of(depths, values, confidence).judged(0.0, tolerance),
        ends,
    )


def _best(factors: Sequence[float], losses: Sequence[float]) -> tuple[float, str]:
    """Return the best factor, and which end of the factors it is at, or "".

    It is the bottom of a parabola in log factor through the smallest loss and those beside it.
    """
    at = int(np.argmin(losses))
    if at in (0, len(losses) - 1):
        return factors[at], "largest" if at else "smallest"
    x, y = np.log(factors[at - 1 : at + 2]), np.asarray(losses[at - 1 : at + 2])
    if not np.all(np.isfinite(y)):
        return factors[at], ""
    left, right = (y[0] - y[1]) / (x[1] - x[0]), (y[2] - y[1]) / (x[2] - x[1])
    if left + right <= 0:
        return factors[at], ""
    middle_left, middle_right = (x[0] + x[1]) / 2, (x[1] + x[2]) / 2
    return float(np.exp((middle_left * right + middle_right * left) / (left + right))), ""


def drift_findings(depths: Sequence[int], drift: RateDrift) -> Iterator[TrainingFinding]:
    """Yield a finding if the best learning rate drifts."""
    best = drift.best
    if best.agrees is False and best.exponent is not None:
        factor = (depths[-1] / depths[0]) ** -best.exponent
        yield TrainingFinding(
            "best learning rate",
            (),
            factor,
            f"the learning rates with the smallest loss after {many(drift.steps, 'step')} go like"
            f" {power(best.exponent)}: what is best at depth {depths[0]} is {times(factor)} at depth"
            f" {depths[-1]}.",
        )
