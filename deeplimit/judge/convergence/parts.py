"""Errors that are judged on their own: the whole error, or two parts of it, each with what theory knows."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from deeplimit.judge.convergence import verdict
from deeplimit.judge.convergence.estimates import (
    SCHEME,
    common_estimates,
    gap_estimates,
    half_estimates,
    rounding,
    scheme_estimates,
)
from deeplimit.judge.convergence.pairing import Pairing
from deeplimit.simulation import Coupled, Task
from deeplimit.statistics.differences import Remainder, fit_order, remainder
from deeplimit.statistics.floors import Floor, fit_floor
from deeplimit.statistics.power_law import STEEPEST, ErrorEstimates, Fit, fit_rate
from deeplimit.theory import Regime

ROUNDED_PRODUCTS = 8.0
"""In products of nearly equal vectors this many roots of a unit in the last place are noise."""
LARGE = 0.5
"""A floor of this share of the deepest square is one that "converges" must be sure not to overlook."""
VISIBLE = 3.0
"""A part that has less than a third of the whole error's square counts for less in proportion.

A floor of it is then large from a sixth of the whole square on. With 2 instead of 3, "converges" was said of
slopes 3 % too small, whose floor is a quarter of the whole square. With 4, most right limits at width 8 are
"cannot tell" at default depths.
"""


@final
@dataclass(frozen=True)
class Part:
    """Errors that are judged on their own.

    Attributes:
        judged: what the verdict rests on, in the norm of half the power.
        shown: the same in the task's norm, from which its order is taken.
        regime: what theory says of its order.
        coherent: whether its errors do not fluctuate about either limit.
        resolution: what round-off and the reference's own error allow.
        what: its name in a sentence, in the plural. name: the same as a heading.
        products: those of the differences at two depths (m, m), where differences keep their direction.
        directed: whether these differences fluctuate with nothing finer than a layer.
        exact: whether another run would give the same numbers.
        is_gap: whether this is the network's distance to its limit's scheme.
        part_of_square: the deepest square's part of that of the whole error.
        paired_floor: its floor, held against consecutive differences of the same paths, where there are such.
        measured: interval of the order where it was measured, and is not a theorem's.
    """

    judged: ErrorEstimates
    shown: ErrorEstimates
    regime: Regime
    coherent: bool
    resolution: float
    what: str = "the errors"
    name: str = ""
    products: np.ndarray | None = None
    directed: bool = False
    exact: bool = False
    is_gap: bool = False
    part_of_square: float = 1.0
    measured: tuple[float, float] | None = None
    paired_floor: Floor | None = None

    @property
    def remainder(self) -> Remainder | None:
        """What differences tend to; None where their directions are unknown.

        Where no theorem says how they expand, the leading exponent is the fitted order.
        """
        if self.products is None or len(self.products) < 3:
            return None
        rate, known = self.regime.rate, not self.regime.rate_is_bound and self.measured is None
        if rate is None or self.regime.rate_is_bound:
            if not self.exact:
                return None
            rate, known = self.fit(self.judged).rate, False
        powers = rate + np.array([0.0, *self.judged.powers])
        further = powers[-1] + np.arange(1, len(self.products) + 1)
        found = remainder(self.judged.depths, self.products, np.concatenate([powers, further]))
        return dataclasses.replace(found, known=known)

    @property
    def weight(self) -> float:
        """How much a share of it counts: less where it is little of the whole error."""
        return min(1.0, VISIBLE * self.part_of_square)

    def floor(self) -> Floor:
        """Return what would remain at infinite depth, as a share of its own deepest square."""
        paired = self.paired_floor
        if paired is not None and paired.probability <= verdict.DOUBTFUL:
            return paired
        fitted = self._fitted_floor()
        # Each sees some floors that the other does not; a right limit has none by either.
        return fitted if paired is None or fitted.probability > paired.probability else paired

    def _fitted_floor(self) -> Floor:
        remains = self.remainder
        if remains is not None and (self.directed or (self.exact and remains.is_small)):
            return remains.floor()
        return fit_floor(
            self.judged,
            self.regime.rate,
            is_bound=self.regime.rate_is_bound,
            coherent=self.coherent,
            large=LARGE / self.weight,
            measured=self.measured,
        )

    def fit(self, estimates: ErrorEstimates) -> Fit:
        """Fit the order of errors like its own."""
        if self.exact and self.products is not None and len(self.products) >= 3:
            return fit_order(estimates, self.products, STEEPEST + (self.regime.rate or 0.0))
        return fit_rate(estimates)

    @property
    def fitted(self) -> ErrorEstimates:
        """What its order is taken from: half the power tames the tails of what comes from saturation."""
        return self.judged if self.is_gap else self.shown

    def evidence(
        self, lifted: ErrorEstimates, floor: Floor, pairing: Pairing, levels: verdict.Levels
    ) -> verdict.Evidence:
        """Return what its fits say; `lifted` are the judged errors above the floor, if there is one."""
        # Of a measured order, what it surely has.
        order, remains = self.regime.rate if self.measured is None else self.measured[0], self.remainder
        return dataclasses.replace(
            verdict.Evidence.of(lifted, self.fit(lifted), floor, order, levels),
            # A coherent floor was fitted with what may hide it.
            interfere=lifted.interfere and (remains is not None or not self.coherent),
            deepest=float(np.exp(self.shown.log_errors[-1] - self.shown.log_bias[-1])),
            resolution=self.resolution,
            on_its_own_grid=pairing.is_on_its_own_grid,
            what=self.what,
            flat=verdict.FLAT_GAP if self.is_gap and pairing.is_scheme else verdict.FLAT,
            negligible=verdict.NEGLIGIBLE / self.weight,
            remainder=remains,
            part_of_square=self.part_of_square,
        )


def parts_of(task: Task, pairing: Pairing, coupled: Coupled, resolution: float) -> tuple[Part, ...]:
    """Return the whole error as its only part, or its two where a network is not its limit's scheme."""
    if task.splits:
        return _two_parts(task, pairing, coupled)
    common = common_estimates(task, pairing, coupled)
    half = common if pairing.exact else half_estimates(task, pairing, coupled)
    products = coupled.moments.products / coupled.moments.count if task.keeps_products else None
    whole = Part(
        half,
        common,
        pairing.regime,
        pairing.exact,
        resolution,
        products=products,
        directed=pairing.directed,
        exact=pairing.exact,
        measured=pairing.measured_interval,
        paired_floor=pairing.paired_floor,
    )
    return (whole,)


def _two_parts(task: Task, pairing: Pairing, coupled: Coupled) -> tuple[Part, ...]:
    """Return what the limit's own scheme leaves, and the network's distance to it where there is one.

    Whether the limit is the network's shows in the distance alone: any equation's scheme approaches its own
    solution.
    """
    schemes = [scheme_estimates(task, pairing, coupled, half=half) for half in (True, False)]
    gaps = [gap_estimates(task, pairing, coupled, half=half) for half in (True, False)]
    # Where both multiply nearly the same vector, what tells their products apart is round-off.
    blurred = ROUNDED_PRODUCTS * math.sqrt(torch.finfo(task.dtype).eps) if task.coupling == "projected" else 0
    resolution = max(rounding(task), blurred * float(np.exp(schemes[1].log_errors[-1])))
    scheme = Part(
        schemes[0],
        schemes[1],
        dataclasses.replace(SCHEME, rate=pairing.scheme_rate),
        False,
        rounding(task),
        "the errors of the limit's own scheme",
        "scheme to limit",
    )
    gap = Part(
        gaps[0],
        gaps[1],
        pairing.gap,
        # What falls like the scheme's own errors fluctuates as they do; anything faster keeps its direction.
        not pairing.is_measured and pairing.gap.rate not in (None, pairing.scheme_rate),
        resolution,
        "the distances of the network and its limit's scheme",
        "network to scheme",
        is_gap=True,
        measured=pairing.gap_interval,
        paired_floor=pairing.paired_floor,
        part_of_square=_part_of_square(gaps[0].log_errors[-1], schemes[0].log_errors[-1]),
    )
    least = np.maximum(gap.resolution, blurred * np.exp(scheme.shown.log_errors))
    seen = [
        part
        for part, resolved in ((gap, least), (scheme, scheme.resolution))
        if (np.exp(part.shown.log_errors) > resolved).any()
    ]
    return tuple(seen) or (scheme,)


def _part_of_square(part: float, rest: float) -> float:
    """Return the part that a square has of two squares' sum, given the logs; 1 where paths were lost."""
    if not (math.isfinite(part) and math.isfinite(rest)):
        return 1.0
    return 1.0 / (1.0 + math.exp(min(2 * (rest - part), 700.0)))
