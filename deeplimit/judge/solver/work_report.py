"""The result of `work_precision`: errors and evaluations per tolerance, and whether the error follows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, final

import numpy as np

from deeplimit.common import axes as drawing, verdict
from deeplimit.common.axes import FITTED, MEASURED
from deeplimit.common.curve import Curve
from deeplimit.common.fields import Count, Interval, Level, Seconds, Seed, Shape
from deeplimit.common.report import Column, Report, Table
from deeplimit.common.verdict import ToleranceVerdict
from deeplimit.judge.solver import wording

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PerTolerance = Annotated[np.ndarray, Shape("tolerances")]
PROPORTIONAL = 0.75
"""Exponent of the tolerance above which the error follows it: solvers that control the error per step with a
method one order lower reach 1 or order/(order + 1), which is 0.8 at order 4."""
FLAT = 0.25
"""Exponent below which the tolerance hardly moves the error: a hundred times finer, three times better."""
SURELY = 3.0
"""Standard errors that are granted to a fall before an error is said to stay."""
LEAST = 3
"""Two tolerances cannot tell a power law from an error that stays."""


_V = ToleranceVerdict


def of_tolerances(report: Any, stays: bool = False) -> verdict.RuleByRule[ToleranceVerdict]:
    """Yield the rules on errors at several tolerances; `stays` is what `levels_off` says of those read."""
    # Averages over the other runs would mislead.
    yield _V.CANNOT_TELL, "runs_are_lost", bool(report.lost > 0)
    # The reference resolves the error at fewer than three tolerances.
    yield _V.CANNOT_TELL, "tolerances_are_few", bool(report.levels < LEAST)
    fitted = slice(0, report.levels)
    slow = bool(report.exponent_interval[1] < PROPORTIONAL)
    # Every error is as small as was asked, so that none shows how the solver takes a finer one.
    met = bool((report.errors[fitted] <= np.asarray(report.tolerances)[fitted]).all())
    yield _V.CANNOT_TELL, "tolerances_are_met", met and (slow or stays)
    # The whole interval of the exponent is near 0.
    yield _V.DOES_NOT_FOLLOW, "hardly_moves", bool(report.exponent_interval[1] < FLAT)
    # The finest tolerances change nothing, far above the reference's own error.
    yield _V.DOES_NOT_FOLLOW, "levels_off", stays
    # The whole interval lies below what a controlled error has.
    yield _V.LAGS, "lags_behind", slow
    # The interval holds exponents of either kind.
    yield _V.CANNOT_TELL, "exponent_is_open", not report.exponent_interval[0] > PROPORTIONAL
    # What remains: the error falls with the tolerance, in proportion or nearly so.
    yield _V.FOLLOWS, "follows", True


def levels_off(tolerances: Sequence[float], logs: np.ndarray, moved: np.ndarray) -> bool:
    """Whether the last three errors do not fall with the tolerance, and neither do the last two.

    Args:
        tolerances: tolerances (m,).
        logs: logarithms of errors (m,).
        moved: by how much each run (P, m) moves them, as `log_means` says.
    """
    found = []
    for before in (-3, -2):
        fall, each = logs[before] - logs[-1], moved[:, before] - moved[:, -1]
        sampling = each.std(ddof=1) / math.sqrt(len(each)) if len(each) > 1 else 0.0
        found.append((fall + SURELY * sampling) / math.log(tolerances[before] / tolerances[-1]))
    return bool(max(found) < FLAT)


@final
@dataclass(frozen=True, eq=False)
class WorkReport(Report):
    """Error of an adaptive solver against its tolerance and its work; arrays: one entry per tolerance (m,).

    Attributes:
        verdict: "follows the tolerance", "lags behind the tolerance", "does not follow the tolerance" or
            "cannot tell".
        rule: name of the rule that decided.
        scheme, equation: what was judged.
        tolerances: absolute and relative tolerances, falling.
        errors, standard_errors: root mean square error at time 1 over the runs, with standard errors.
        evaluations, evaluation_errors: mean number of evaluations of the equation's functions per run, with
            standard errors.
        exponent, exponent_interval: power of the tolerance that the error falls with; NaN where not fitted.
        work_order, work_order_interval: order r of error ~ constant · evaluations**-r; NaN where not fitted.
        documented: order of the method; None where none is known.
        confidence: level of each interval.
        levels: tolerances that were fitted, from the loosest on; the reference's error hides the others.
        reference, reference_error: what stands for the solution, and its own error with round-off.
        paths, lost: number of runs, and how many are not finite.
        seed, seconds, versions: how it was run.
        citations: keys or BibTeX entries of the methods that were used.
    """

    kind = "work-precision"

    verdict: ToleranceVerdict
    rule: str
    scheme: str
    equation: str
    tolerances: PerTolerance
    errors: PerTolerance
    standard_errors: PerTolerance
    evaluations: PerTolerance
    evaluation_errors: PerTolerance
    exponent: float
    exponent_interval: Interval
    work_order: float
    work_order_interval: Interval
    documented: float | None
    confidence: Level
    levels: int
    reference: str
    reference_error: float
    paths: Count
    lost: int
    seed: Seed
    seconds: Seconds
    versions: dict[str, str]
    citations: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """The rule that decided, in a sentence."""
        return wording.WORK[self.rule](self)

    @property
    def headline(self) -> str:
        """The verdict and its reason."""
        return f"{self.verdict}: {self.reason}."

    def _facts(self) -> list[tuple[str, str]]:
        return [("", text) for text in wording.work_lines(self)]

    def _setting(self) -> list[tuple[str, str]]:
        return [
            ("scheme", self.scheme),
            ("equation", self.equation),
            ("reference", self.reference),
            ("", f"{self.paths} runs, seed {self.seed}, {self.seconds:.1f} s"),
        ]

    def _table(self) -> Table:
        return Table(
            (
                Column("tolerance", self.tolerances, ".1e"),
                Column("error", self.errors, ".4g"),
                Column("std. error", self.standard_errors, ".2g"),
                Column("evaluations", self.evaluations, ".1f"),
                Column("their std. error", self.evaluation_errors, ".2g"),
            )
        )

    def _curves(self) -> list[Curve]:
        half = 1.96 * np.nan_to_num(self.standard_errors)
        return [
            Curve(
                "error",
                "root mean square error",
                self.evaluations,
                self.errors,
                self.errors - half,
                self.errors + half,
                rate=self.work_order,
                interval=self.work_order_interval,
                slope=-self.work_order,
                across="evaluations",
            )
        ]

    def _draw(self, axes: Axes) -> None:
        axes.set_xscale("log")
        axes.set_yscale("log")
        good = np.isfinite(self.errors) & (self.errors > 0)
        at, shown = self.evaluations[good], self.errors[good]
        bars = np.minimum(1.96 * np.nan_to_num(self.standard_errors[good]), 0.9 * shown)
        across = 1.96 * np.nan_to_num(self.evaluation_errors[good])
        axes.errorbar(
            at, shown, bars, across, fmt="o", color=MEASURED, ms=4, capsize=3, label="measured (95 %)"
        )
        fitted = at[: self.levels]
        if math.isfinite(self.work_order) and len(fitted):
            height = np.exp(np.mean(np.log(shown[: self.levels]) + self.work_order * np.log(fitted)))
            low, high = self.work_order_interval
            told = f"order {self.work_order:.2f} [{low:.2f}, {high:.2f}]"
            axes.plot(fitted[[0, -1]], height * fitted[[0, -1]] ** -self.work_order, color=FITTED, label=told)
        if not drawing.is_small(axes):
            for tolerance, x, y in zip(self.tolerances[good], at, shown, strict=True):
                axes.annotate(
                    f"{tolerance:.0e}", (x, y), (6, 4), textcoords="offset points", fontsize=8, color="gray"
                )
        axes.margins(x=0.12)
        axes.grid(which="major", alpha=0.3)
        drawing.label(axes, "evaluations", "error", [self.verdict.capitalize(), self.scheme, self.equation])
        drawing.legend(axes, loc="lower left")
