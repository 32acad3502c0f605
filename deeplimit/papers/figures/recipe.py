"""What makes a figure: its paper, how its numbers are computed and checked, how they are drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from deeplimit.common.measurement import Running

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Numbers = dict[str, Any]
LEVEL = 1e-5
"""How unlikely a number must be under what a paper states before its check fails."""


@final
@dataclass(frozen=True)
class Check:
    """One statement of the paper beside what was measured."""

    stated: str
    measured: str
    passed: bool

    def __str__(self) -> str:
        return f"{'pass' if self.passed else 'FAIL'}  {self.stated}: {self.measured}"


Found = tuple[Numbers, list[Check], list[str]]
"""Numbers, checks and findings of a figure."""


@final
@dataclass(frozen=True)
class Picture:
    """How a figure's numbers are drawn on axes, and the size of a new picture in inches."""

    draw: Callable[[Axes, Numbers], None]
    size: tuple[float, float]


@final
@dataclass(frozen=True)
class Paper:
    """Where a figure was published.

    Attributes:
        name: as titles call it.
        citation: its key in the library's citations.
        prefix: beginning of the names of its figures.
    """

    name: str
    citation: str
    prefix: str


MARION = Paper("Marion et al. (2025)", "marion2025", "marion")
COHEN = Paper("Cohen et al. (2021)", "cohen2021", "cohen")


@final
@dataclass(frozen=True)
class Recipe:
    """How a figure is made.

    Attributes:
        paper, number: where it was published; no number for an experiment of ours on what a paper states.
        title: what it shows.
        run: function of (quick, seed, device, running) that returns numbers, checks and findings.
        picture: how its numbers are drawn.
        citations: works that it uses in addition to the paper.
    """

    paper: Paper
    number: int | None
    title: str
    run: Callable[[bool, int, str, Running], Found]
    picture: Picture
    citations: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the figure, such as "marion-fig7"; the paper's prefix alone for an experiment of ours."""
        return self.paper.prefix if self.number is None else f"{self.paper.prefix}-fig{self.number}"

    @property
    def heading(self) -> str:
        """What stands above the picture."""
        if self.number is None:
            return f"{self.title[0].upper()}{self.title[1:]}, after {self.paper.name}"
        return f"{self.paper.name}, Figure {self.number}: {self.title}"
