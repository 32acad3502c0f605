"""The scoreboard as a result: rows that agree or not, controls that are caught or not, as a table, a figure
and a file.
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deeplimit.convergence.report import VERDICTS
from deeplimit.ground import files as store, validation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KIND = "validate"
AGREES, DISAGREES, CANNOT_TELL = "agrees", "disagrees", "cannot tell"
CAUGHT, MISSED = "caught", "not caught"
_VERBS = {AGREES: "agree", DISAGREES: "disagree"}


@dataclass(frozen=True, eq=False)
class RowResult:
    """What one row of the scoreboard measured.

    Attributes:
        statement, setting: What was claimed, of which network; `key` also says how it was measured.
        theorem, network, limit: In full.
        predicted, rate, interval: The order by theory and as measured, with its interval.
        verdict, reason: Of comparing the network with its own limit.
        outcome: "agrees" (converges, and the interval holds the prediction), "disagrees" or "cannot tell".
        wrongly, control_verdict, control_reason: In what the control's limit is wrong, and what came of it.
        control: "caught" if the wrong limit is called "does not converge", else "not caught".
        depths, errors, control_errors: Against the right limit and against the wrong one.
        worst: The worst path's error against the right limit.
        seconds: Both comparisons together.
    """

    key: str
    statement: str
    setting: str
    theorem: str
    network: str
    limit: str
    predicted: float
    rate: float
    interval: tuple[float, float]
    verdict: str
    reason: str
    outcome: str
    wrongly: str
    control_verdict: str
    control_reason: str
    control: str
    depths: np.ndarray
    errors: np.ndarray
    control_errors: np.ndarray
    worst: np.ndarray
    seconds: float

    def __str__(self) -> str:
        low, high = self.interval
        order = f"{self.rate:.3f} [{low:.3f}, {high:.3f}]" if np.isfinite(self.rate) else "no order"
        return (
            f"{self.statement:<17}  {self.setting:<36}  {self.predicted:>9g}  {order:<21}  {self.outcome:<11}"
            f"  {self.wrongly:<31}  {self.control}"
        )


HEADER = (
    f"{'statement':<17}  {'setting':<36}  {'predicted':>9}  {'order, interval':<21}  {'outcome':<11} "
    f" {'control':<31}  "
)


@dataclass(frozen=True, eq=False)
class Scoreboard:
    """What `validate` measured: one `RowResult` a statement and setting.

    `verdict` is "agrees" if every row does and every control is caught; "disagrees" if a row disagrees or a
    control is missed with a verdict of "converges"; else "cannot tell".
    """

    rows: tuple[RowResult, ...]
    quick: bool
    seed: int
    confidence: float
    device: str
    version: str

    @property
    def verdict(self) -> str:
        if any(row.outcome == DISAGREES or row.control_verdict == "converges" for row in self.rows):
            return DISAGREES
        if self.rows and all(row.outcome == AGREES and row.control == CAUGHT for row in self.rows):
            return AGREES
        return CANNOT_TELL

    def __str__(self) -> str:
        return "\n".join(
            [
                self.summary(),
                "",
                HEADER,
                *map(str, self.rows),
                *([""] if self.troubles() else []),
                *self.troubles(),
            ]
        )

    def summary(self) -> str:
        """Return the verdict in a line."""
        outcomes = Counter(row.outcome for row in self.rows)
        caught = sum(row.control == CAUGHT for row in self.rows)
        told = ", ".join(
            f"{count} of {len(self.rows)} rows {_VERBS.get(name, name)}" for name, count in outcomes.items()
        )
        seconds = sum(row.seconds for row in self.rows)
        return (
            f"{self.verdict}: {told}; {caught} of {len(self.rows)} controls caught ({100 * self.confidence:g}"
            f" % intervals, {'quick' if self.quick else 'full'} run, seed {self.seed}, {self.device},"
            f" {seconds:.0f} s)"
        )

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

    def to_dict(self) -> dict[str, Any]:
        """Return every field as plain Python."""
        rows = [
            {field.name: store.plain(getattr(row, field.name)) for field in dataclasses.fields(row)}
            for row in self.rows
        ]
        own = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name != "rows"
        }
        return {**own, "rows": rows}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Scoreboard:
        """Return the scoreboard whose `to_dict()` this is; raise TypeError or ValueError where it is none."""
        values = store.fields_of(cls, content, "the scoreboard")
        if not isinstance(values["rows"], list):
            raise TypeError(f"its rows must be a list, got {validation.named(values['rows'])}")
        rows = tuple(_row(given, f"row {number}") for number, given in enumerate(values["rows"], 1))
        return cls(**{**values, "rows": rows})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the scoreboard as JSON; `deeplimit.load_report` reads it back, `validate(resume=path)` goes
        on from it.
        """
        store.save(KIND, self.to_dict(), path)

    def plot(self, ax: Axes | str | os.PathLike[str] | None = None) -> Axes:
        """Draw every row's interval beside its prediction, and whether its control was caught.

        `ax` is axes to draw on, None for new ones, or a path to write a picture to (.png, .pdf or .svg).
        Nothing is shown.
        """
        from deeplimit.ground import plotting

        size = (10.5, 1.6 + 0.27 * len(self.rows))
        return plotting.plot(lambda axes: plotting.draw_scoreboard(self, axes), ax, size)


_WORDS = {
    "verdict": VERDICTS,
    "control_verdict": VERDICTS,
    "outcome": (AGREES, DISAGREES, CANNOT_TELL),
    "control": (CAUGHT, MISSED),
}


def _row(content: Any, what: str) -> RowResult:
    values = store.fields_of(RowResult, content, what)
    for name, allowed in _WORDS.items():
        validation.choice(values[name], f"{name} of {what}", allowed)
    for name in ("depths", "errors", "control_errors", "worst"):
        if not isinstance(values[name], list) or len(values[name]) != len(content["depths"]):
            raise ValueError(f"{name} of {what} must have an entry for each of its depths")
        kind = np.int64 if name == "depths" else np.float64
        values[name] = np.array([store.number(item, f"{name} of {what}") for item in values[name]]).astype(
            kind
        )
    if not isinstance(values["interval"], list) or len(values["interval"]) != 2:
        raise ValueError(
            f"interval of {what} must be two numbers, got {validation.named(values['interval'])}"
        )
    low, high = (store.number(end, f"interval of {what}") for end in values["interval"])
    return RowResult(**{**values, "interval": (low, high)})
