"""The result of `check_solver`: differences per number of steps, the order, the distance to the solution."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, final

import numpy as np

from deeplimit.common import axes as drawing
from deeplimit.common.curve import Curve
from deeplimit.common.fields import Count, Interval, Level, Seconds, Seed, Shape
from deeplimit.common.report import Column, Report, Table
from deeplimit.common.verdict import SolverVerdict
from deeplimit.judge.solver import wording
from deeplimit.judge.solver.order_report import BetweenSteps, PerStep, Steps, draw_levels, of_steps
from deeplimit.judge.solver.verdict import SINGLE_STEPS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


PerChange = Annotated[np.ndarray, Shape("changes")]


@dataclass(frozen=True)
class FunctionOrder:
    """The weak order seen through one test function.

    Attributes:
        name: name of the function.
        differences, standard_errors: mean of f(h^2L) - f(h^L) per number of steps L (m - 1,), standard
            errors.
        rate, rate_interval: its order, and the interval at its share of the family-wise level.
        resolved: whether the differences are more than noise; else the interval says nothing.
        gap, allowed: |mean of f at infinitely many steps less the reference's|, and what sampling,
            extrapolation and the reference allow of it; NaN without a reference.
    """

    name: str
    differences: PerChange
    standard_errors: PerChange
    rate: float
    rate_interval: Interval
    resolved: bool
    gap: float
    allowed: float


@final
@dataclass(frozen=True, eq=False)
class SolverReport(Report):
    """What `check_solver` measured; arrays have one entry per number of steps (m,), or one less (m - 1,).

    Attributes:
        verdict: "documented order", "faster than documented", "measured" (no order is documented), "not the
            documented order", "not the limit" or "cannot tell".
        rule: name of the rule that decided.
        scheme, equation: what was judged.
        convergence: "strong" (path by path) or "weak" (means of test functions).
        documented: the documented order; None where there is none.
        steps: numbers of steps.
        differences, standard_errors: size of h^{2L} - h^L per number of steps L (m - 1,): root mean square
            over paths of the largest one over common times if strong, the largest mean over test functions if
            weak.
        rate, rate_interval: order and its interval; NaN where none could be fitted. If weak, those of the
            function that decides, the one with the lowest upper end among those that are resolved.
        confidence: level of the interval; over all test functions together if weak.
        source: what the order is of: "differences", "distances" to an exact solution that the solver tends
            to, "single steps" where they show a lower order than either, or "means" if weak.
        local_slopes, local_slope_errors: orders between neighbouring differences (m - 2,) or distances (m -
            1,), NaN where a difference was left out; empty for weak convergence.
        distances: root mean square distance to the reference (m,); NaN without one, and for weak convergence.
        reference, reference_error: what stands for the solution, and its own error with round-off.
        floor, floor_lower, floor_upper, floor_probability: share of the finest squared distance that would
            remain at infinitely many steps, its bounds at 95 % each, and the probability that it exceeds one
            half; NaN where it was not fitted.
        remaining: the most that further steps would still change; infinite where that is not known.
        resolvable: smallest mean difference (m - 1,) that these paths resolve, for the noisiest test
            function, from a pilot before the run; empty for strong convergence.
        functions: weak order per test function; empty for strong convergence.
        medians: whether the order is that of medians.
        paths, random, lost: number of paths, whether they differ by noise, and how many are not finite.
        seed, seconds, versions: how it was run.
        caveats: names of the rules of what to know before trusting the numbers.
        citations: keys or BibTeX entries of the methods that were used.
    """

    kind = "solver"

    verdict: SolverVerdict
    rule: str
    scheme: str
    equation: str
    convergence: str
    documented: float | None
    steps: Steps
    differences: BetweenSteps
    standard_errors: BetweenSteps
    rate: float
    rate_interval: Interval
    confidence: Level
    source: str
    local_slopes: tuple[float, ...]
    local_slope_errors: tuple[float, ...]
    distances: PerStep
    reference: str
    reference_error: float
    floor: float
    floor_lower: float
    floor_upper: float
    floor_probability: float
    remaining: float
    resolvable: tuple[float, ...]
    functions: tuple[FunctionOrder, ...]
    medians: bool
    paths: Count
    random: bool
    lost: int
    seed: Seed
    seconds: Seconds
    versions: dict[str, str]
    caveats: tuple[str, ...]
    citations: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """The rule that decided, in a sentence."""
        return wording.SOLVER[self.rule](self)

    @property
    def headline(self) -> str:
        """The verdict and its reason."""
        return f"{self.verdict}: {self.reason}."

    def _facts(self) -> list[tuple[str, str]]:
        return [
            *(("", text) for text in wording.order_line(self)),
            *(("", wording.function_line(each)) for each in self.functions),
            *(("resolves", text) for text in wording.resolvable_line(self)),
        ]

    def _setting(self) -> list[tuple[str, str]]:
        return [
            ("scheme", self.scheme),
            ("equation", self.equation),
            ("reference", self.reference),
            (
                "",
                f"{self.convergence} convergence, {self.paths} paths, seed {self.seed}, {self.seconds:.1f} s",
            ),
        ]

    def _reservations(self) -> list[str]:
        return [wording.SOLVER_CAVEATS[name](self) for name in self.caveats]

    def _table(self) -> Table:
        nothing = [None]  # the finest steps are doubled by none
        count = len(self.steps)
        slopes, errors = (
            [math.nan, *given, *[math.nan] * (count - 1 - len(given))]
            for given in (self.local_slopes, self.local_slope_errors)
        )
        columns = (
            Column("steps", self.steps),
            Column("change when doubled", [*self.differences, *nothing], ".4g"),
            Column("std. error", [*self.standard_errors, *nothing], ".2g"),
            Column("local slope", slopes, ".3f", error=errors),
            Column("distance to reference", self.distances, ".4g"),
        )
        return Table(columns if np.isfinite(self.distances).any() else columns[:-1])

    @property
    def _change(self) -> str:
        return "change when steps double" if self.convergence == "strong" else "change of means"

    def _curves(self) -> list[Curve]:
        sizes = np.abs(self.differences)
        curve = of_steps("change", self._change, self, self.steps[:-1], sizes, self.standard_errors)
        return [replace(curve, slope=math.nan) if self.source == SINGLE_STEPS else curve]

    def _draw(self, axes: Axes) -> None:
        sizes, errors = np.abs(self.differences), self.standard_errors
        # Single steps have another order than these changes, and no line through them.
        rate = math.nan if self.source == SINGLE_STEPS else self.rate
        draw_levels(axes, self.steps[:-1], sizes, errors, rate, self.rate_interval)
        if np.isfinite(self.distances).any():
            axes.plot(
                self.steps, self.distances, "s", ms=3.5, color="tab:gray", label="distance to reference"
            )
            drawing.depth_ticks(axes, self.steps.tolist())
            drawing.legend(axes)
        title = [self.verdict.capitalize(), self.scheme, self.equation]
        title += [f"order {self.rate:.2f}, of {SINGLE_STEPS}"] if self.source == SINGLE_STEPS else []
        drawing.label(axes, "steps", "size" if drawing.is_small(axes) else self._change, title)
