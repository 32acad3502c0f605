"""A reproduced figure: numbers, checks against what the paper states, a picture of the numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, final

from deeplimit.figures.recipe_plots import PICTURES
from deeplimit.ground import axes as drawing
from deeplimit.ground.fields import OneOf
from deeplimit.ground.measurement import Running
from deeplimit.ground.report import Report
from deeplimit.ground.table import Column, Table
from deeplimit.ground.verdict import Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Numbers = dict[str, Any]


@dataclass(frozen=True)
class Check:
    """One statement of the paper beside what was measured."""

    stated: str
    measured: str
    passed: bool

    def __str__(self) -> str:
        return f"{'pass' if self.passed else 'FAIL'}  {self.stated}: {self.measured}"


@dataclass(frozen=True)
class Recipe:
    """How a figure is made: `run(quick, seed, device, running)` returns numbers, checks, findings."""

    name: str
    title: str
    run: Callable[[bool, int, str, Running], tuple[Numbers, list[Check], list[str]]]
    citations: tuple[str, ...] = ()  # in addition to the paper


@final
@dataclass(frozen=True, eq=False)
class Reproduction(Report):
    """A figure of a paper made again.

    Attributes:
        figure: Its name, such as "marion-fig7". title: What it shows. quick: Whether it was run at a reduced
            size.
        checks: The paper's statements, each passed or not. findings: What the numbers say beyond them, or
            against the paper.
        numbers: Everything that the picture shows.
        citations: Keys of the works that were used in addition to the paper.
    """

    kind = "reproduction"
    no_paths = "`numbers` holds all that the figure shows. compare and stability give reports that draw paths"

    figure: Annotated[str, OneOf(tuple(PICTURES))]
    title: str
    quick: bool
    checks: tuple[Check, ...]
    findings: tuple[str, ...]
    numbers: Numbers
    seed: int
    seconds: float
    versions: dict[str, str]
    citations: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    @property
    def verdict(self) -> Verdict:
        """Whether the figure was reproduced."""
        return Verdict.REPRODUCED if self.passed else Verdict.NOT_REPRODUCED

    @property
    def headline(self) -> str:
        """Whether every statement of the paper was found again."""
        size = "quick" if self.quick else "full size"
        return f"{self.figure}: {self.verdict} ({self.title}; {size}, {self.seconds:.1f} s)"

    def _table(self) -> Table:
        return Table(
            (
                Column("test", ["pass" if check.passed else "FAIL" for check in self.checks], left=True),
                Column("stated", [check.stated for check in self.checks], left=True),
                Column("measured", [check.measured for check in self.checks], left=True),
            )
        )

    def _tail(self) -> list[str]:
        return ["Findings:", *(f"- {text}" for text in self.findings)] if self.findings else []

    def _reservations(self) -> tuple[str, ...]:
        return self.findings

    def _sources(self) -> list[str]:
        return ["marion2025", *self.citations]

    @property
    def _size(self) -> tuple[float, float]:
        return PICTURES[self.figure].size

    def _draw(self, axes: Axes) -> None:
        """Draw the figure from its numbers, in panels side by side."""
        PICTURES[self.figure].draw(axes, self.numbers)
        paper = self.figure.replace("marion-fig", "Marion et al. (2025), Figure ")
        lines = drawing.fitting(axes, f"{paper}: {self.title}", 10, 2)
        axes.set_title("\n".join(lines), fontsize=drawing.points(axes, 10))
