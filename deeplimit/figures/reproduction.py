"""A reproduced figure: its numbers, checks against what the paper states, and a picture of the numbers."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deeplimit.ground import files as store, validation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KIND = "reproduction"
Progress = Callable[[float], None]
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
    """How a figure is made: `run(quick, seed, device, progress)` returns numbers, checks and findings."""

    name: str
    title: str
    run: Callable[[bool, int, str, Progress], tuple[Numbers, list[Check], list[str]]]


@dataclass(frozen=True, eq=False)
class Reproduction:
    """A figure of a paper, made again.

    Attributes:
        figure: Its name, such as "marion-fig7". title: What it shows. quick: Whether it was run at a reduced
            size.
        checks: The paper's statements, each passed or not. findings: What the numbers say beyond them, or
            against the paper.
        numbers: Everything that the picture shows.
    """

    figure: str
    title: str
    quick: bool
    checks: tuple[Check, ...]
    findings: tuple[str, ...]
    numbers: Numbers
    seed: int
    seconds: float
    versions: dict[str, str]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    def __str__(self) -> str:
        state = "reproduced" if self.passed else "NOT reproduced"
        lines = [
            f"{self.figure}: {state} ({self.title}; {'quick' if self.quick else 'full size'},"
            f" {self.seconds:.1f} s)"
        ]
        return "\n".join(
            [
                *lines,
                *(f"  {check}" for check in self.checks),
                *(f"  found: {text}" for text in self.findings),
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return every field as plain Python: lists, strings, numbers; NaN and infinities as strings."""
        content = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        content["checks"] = [dataclasses.asdict(check) for check in self.checks]
        return {name: store.plain(value) for name, value in content.items()}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Reproduction:
        """Return the reproduction whose `to_dict()` this is."""
        values = {field.name: content[field.name] for field in dataclasses.fields(cls)}
        values["checks"] = tuple(Check(**check) for check in values["checks"])
        values["findings"] = tuple(values["findings"])
        return cls(**values)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the numbers and the checks as JSON; `deeplimit.load_report` reads them back."""
        store.save(KIND, self.to_dict(), path)

    def plot(self, path: str | os.PathLike[str]) -> Figure:
        """Draw the figure into a picture (.png, .pdf or .svg) and return it. Nothing is shown."""
        from deeplimit.figures.recipe_plots import DRAWINGS
        from deeplimit.ground import plotting

        if self.figure not in DRAWINGS:
            raise ValueError(f"figure must be one of {', '.join(DRAWINGS)}, got {self.figure!r}.")
        drawing = DRAWINGS[self.figure]
        target = validation.writable_file(path, "path", plotting.SUFFIXES)
        figure = plotting.new_figure(drawing.size)
        drawing.draw(figure, self.numbers)
        figure.suptitle(
            f"{self.figure.replace('marion-fig', 'Marion et al. (2025), Figure ')}: {self.title}", fontsize=10
        )
        with store.whole_file(Path(target)) as temporary:
            figure.savefig(temporary, dpi=130)
        return figure
