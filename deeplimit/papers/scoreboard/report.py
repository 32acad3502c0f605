"""The scoreboard as a result: rows that agree or not, controls that are caught or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, final

import numpy as np

from deeplimit.common import axes as drawing
from deeplimit.common.axes import FITTED, MEASURED, PREDICTED
from deeplimit.common.fields import Depths, Interval, Level, OneOf, PerDepth, Seconds, Seed
from deeplimit.common.report import Column, Report, Table
from deeplimit.common.verdict import (
    AgreementVerdict,
    ControlVerdict,
    ConvergenceVerdict,
    LawVerdict,
    SolverVerdict,
    Verdict,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AGREES, DISAGREES, CANNOT_TELL = AgreementVerdict
CAUGHT, MISSED = ControlVerdict
Compared = Annotated[Verdict, OneOf((*ConvergenceVerdict, *LawVerdict, *SolverVerdict))]
RIGHT_AFTER_ALL = (
    ConvergenceVerdict.CONVERGES,
    LawVerdict.SAME_LAW,
    SolverVerdict.DOCUMENTED_ORDER,
    SolverVerdict.FASTER,
)
"""What the comparison with a wrong limit must never say."""
PAPERS = "[M] is Marion et al. (2025), [C] Cohen et al. (2021)"
"""What the marks in the names of rows mean."""
_VERBS = {AGREES: "agree", DISAGREES: "disagree"}


@final
@dataclass(frozen=True, eq=False)
class RowResult:
    """What one row of the scoreboard measured.

    A row of a solver has a scheme for the network, an equation for the limit, a documented order for the
    prediction, numbers of steps for depths, and a solver with a fault for the control.

    Attributes:
        key: name of the row, and how it was measured.
        statement, setting: what was claimed, of which network.
        theorem, network, limit: the same in full.
        predicted, rate, interval: order by theory, order measured, and its interval; NaN for laws, whose
            comparison has none.
        verdict, reason: result of comparing the network with its limit.
        outcome: "agrees" (it converges, and the interval holds the prediction; or it has the same law),
            "disagrees", "cannot tell".
        wrongly: how the control's limit is wrong.
        control_verdict, control_reason: result of comparing the network with that limit.
        control: "caught" if the wrong limit is told "does not converge", "another law", or, of a solver, "not
            the limit" or "not the documented order"; else "not caught".
        depths, errors, control_errors: errors against the right limit and against the wrong one (m,); of
            laws, the largest differences of the test functions.
        worst: error of the worst path against the right limit (m,); of laws, the largest distance of two
            distribution functions; NaN for solvers, which keep no single path.
        seconds: time of both comparisons.
    """

    key: str
    statement: str
    setting: str
    theorem: str
    network: str
    limit: str
    predicted: float
    rate: float
    interval: Interval
    verdict: Compared
    reason: str
    outcome: AgreementVerdict
    wrongly: str
    control_verdict: Compared
    control_reason: str
    control: ControlVerdict
    depths: Depths
    errors: PerDepth
    control_errors: PerDepth
    worst: PerDepth
    seconds: Seconds

    def __str__(self) -> str:
        return table_of((self,)).lines()[1]


def table_of(rows: Sequence[RowResult]) -> Table:
    """Return rows as a table, with widths that do not depend on which rows there are."""
    low, high = ([row.interval[end] for row in rows] for end in (0, 1))

    def predicted(rate: float) -> str:
        return f"{rate:g}" if np.isfinite(rate) else "in law"

    def order(rate: float) -> str:
        return f"{rate:.3f}" if np.isfinite(rate) else "no order"

    return Table(
        (
            Column("statement", [row.statement for row in rows], left=True, least=17),
            Column("setting", [row.setting for row in rows], left=True, least=36),
            Column("predicted", [row.predicted for row in rows], predicted, least=9),
            Column("order", [row.rate for row in rows], order, interval=(low, high), left=True, least=21),
            Column("outcome", [row.outcome for row in rows], left=True, least=11),
            Column("wrong limit", [row.wrongly for row in rows], left=True, least=31),
            Column("control", [row.control for row in rows], left=True),
        )
    )


@final
@dataclass(frozen=True, eq=False)
class Scoreboard(Report):
    """What `validate` measured: one `RowResult` per statement and setting.

    `verdict` is "agrees" if every row does and every control is caught. It is "disagrees" if a row disagrees
    or a control is missed with the verdict "converges" or "same law"; else "cannot tell".
    """

    kind = "validate"
    no_paths = (
        "a scoreboard keeps the numbers of many comparisons and none of their networks. compare(case.network,"
        " case.limit) measures one case of deeplimit.zoo.cases(), and its report draws paths"
    )

    rows: tuple[RowResult, ...]
    quick: bool
    seed: Seed
    confidence: Level
    device: str
    version: str
    citations: tuple[str, ...] = ()

    @property
    def verdict(self) -> AgreementVerdict:
        if any(row.outcome == DISAGREES or row.control_verdict in RIGHT_AFTER_ALL for row in self.rows):
            return DISAGREES
        if self.rows and all(row.outcome == AGREES and row.control == CAUGHT for row in self.rows):
            return AGREES
        return CANNOT_TELL

    @property
    def headline(self) -> str:
        """The verdict, how many rows agree, and how many controls are caught."""
        outcomes = Counter(row.outcome for row in self.rows)
        caught = sum(row.control == CAUGHT for row in self.rows)
        count = len(self.rows)
        told = ", ".join(
            f"{some} of {count} rows {_VERBS.get(name, name)}" for name, some in outcomes.items()
        )
        seconds = sum(row.seconds for row in self.rows)
        return (
            f"{self.verdict}: {told or 'no rows'}; {caught} of {count} controls caught"
            f" ({100 * self.confidence:g} % intervals, {'quick' if self.quick else 'full'} run, seed"
            f" {self.seed}, {self.device}, {seconds:.0f} s)"
        )

    def _setting(self) -> list[tuple[str, str]]:
        return [("", PAPERS)] if self.rows else []

    def _table(self) -> Table:
        return table_of(self.rows)

    def _reservations(self) -> list[str]:
        return [text.removeprefix("- ") for text in self.troubles()]

    def troubles(self) -> list[str]:
        """Return a line for each row that does not agree and each control that is missed."""
        lines = []
        for row in self.rows:
            if row.outcome != AGREES:
                lines.append(f"- {row.statement}, {row.setting}: {row.verdict}: {row.reason}.")
            if row.control != CAUGHT:
                lines.append(
                    f"- {row.statement}, {row.setting}, {row.wrongly}: {row.control_verdict}:"
                    f" {row.control_reason}."
                )
        return lines

    @property
    def _size(self) -> tuple[float, float]:
        return (10.5, 1.6 + 0.27 * len(self.rows))

    def _draw(self, axes: Axes) -> None:
        """Draw every row's interval beside its prediction, and whether its control was caught."""
        count = len(self.rows)
        small = drawing.is_small(axes)
        places = np.arange(count)[::-1]
        colours = {AGREES: MEASURED, DISAGREES: FITTED}
        predicted = [row.predicted for row in self.rows]
        tall, dot = (7, 3) if small else (11, 4)  # small axes name rows between them
        axes.plot(predicted, places, "|", color=PREDICTED, ms=tall, mew=2, label="predicted order")
        for place, row in zip(places, self.rows, strict=True):
            colour = colours.get(row.outcome, "#999999")
            if np.isfinite(row.rate):
                ends, height = list(row.interval), [place, place]
                axes.plot(ends, height, color=colour, lw=2.5, alpha=0.6, solid_capstyle="butt")
                axes.plot([row.rate], [place], "o", color=colour, ms=dot)
            if not small:
                good = row.control == CAUGHT and row.outcome == AGREES
                axes.annotate(
                    f"{row.outcome};  {row.wrongly}: {row.control}",
                    (1.015, place),
                    xycoords=("axes fraction", "data"),
                    va="center",
                    fontsize=8,
                    color="black" if good else FITTED,
                    annotation_clip=False,
                )
        words = "measured" if small else f"measured, {100 * self.confidence:g} % interval"
        axes.plot([], [], "o-", color=MEASURED, ms=dot, lw=2.5, label=words)
        drawing.label(axes, "order in 1/depth", "", [self.headline.split(" (")[0].capitalize()])
        names = [f"{row.statement}: {row.setting}" for row in self.rows]
        drawing.names(axes, places.tolist(), names)
        axes.set_ylim(-0.7, count if small else count - 0.3)
        axes.set_xlim(min(0.0, *axes.get_xlim()), max(1.1, axes.get_xlim()[1]))
        axes.grid(axis="x", alpha=0.3)
        drawing.legend(axes, 8, loc="upper right" if count < 3 else "lower right")
