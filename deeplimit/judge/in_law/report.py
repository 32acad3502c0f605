"""The result of a comparison of laws: tests per depth, differences at infinite depth, table, picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, final

import numpy as np

from deeplimit.common import axes as drawing
from deeplimit.common.curve import Curve
from deeplimit.common.fields import Count, CountPerDepth, Depths, Level, PerDepth, Seconds, Seed, Shape
from deeplimit.common.report import REPEAT, Column, Report, Table
from deeplimit.common.verdict import LawVerdict
from deeplimit.judge.in_law.one_draw import OneDraw
from deeplimit.statistics.adaptive_sampling import InterimAnalysis, RequiredSampleSize, analyses, required

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PerTest = Annotated[np.ndarray, Shape("tests depths")]
PerEffect = Annotated[np.ndarray, Shape("effects depths")]
LINES = ((0, (5, 1, 1, 1, 1, 1)), (0, (1.2, 1.2)), (0, (3, 1.2, 1, 1.2)), (0, (6, 1.5)))


@final
@dataclass(frozen=True, eq=False)
class LawReport(Report):
    """What `compare_laws` measured: m depths, T tests, K test functions, G points of a grid.

    Attributes:
        verdict: "same law", "another law" or "cannot tell".
        reason: why, in one sentence.
        network, limit: both sides, as formulas.
        regime, theorem: what theory says of this network; theorem is None if it has none.
        depths: numbers of layers (m,).
        statistics: names of the tests (T,).
        p_values, adjusted: p-values before and after Holm's correction for all tests and depths (T, m).
        distances: distances that were tested: largest difference of distribution functions, or energy
            distance for the joint law (T, m).
        effects: names of the test functions (K,).
        differences, difference_errors: network minus limit, with standard errors (K, m). A location is in
            standard deviations of the limit, a spread is a relative change of it, shapes are differences of
            means of functions bounded by 1.
        floors, floor_margins: differences at infinite depth, and half the widths of their simultaneous
            intervals (K,).
        mean_squares, mean_square_errors: E |h_L|²/|h_0|² with standard errors (m,).
        grid: points at which distribution functions of ln(|h_L|/|h_0|) are given (G,).
        distributions, limit_distribution: those functions, of the network (m, G) and of the limit (G,).
        diverged: draws that were not finite (m,).
        level: error level of the simultaneous intervals, and of all tests together.
        tolerance: differences that "same law" calls negligible.
        draws, seed, device, dtype, seconds, versions: how it was run.
        inputs: where the networks start.
        sampling: how the limit was drawn.
        reservations: what to know before trusting the numbers.
        citations: keys or BibTeX entries of the theorems and methods that were used.
        rule: name of the rule that decided.
        looks: analyses of an adaptive call, the last of which this report is; empty for a call of fixed size.
        needs: what an adaptive call that cannot tell would measure next, and how long that would take.
    """

    kind = "laws"
    no_paths = REPEAT

    verdict: LawVerdict
    reason: str
    network: str
    limit: str
    regime: str
    theorem: str | None
    depths: Depths
    statistics: Annotated[tuple[str, ...], Shape("tests")]
    p_values: PerTest
    adjusted: PerTest
    distances: PerTest
    effects: Annotated[tuple[str, ...], Shape("effects")]
    differences: PerEffect
    difference_errors: PerEffect
    floors: Annotated[np.ndarray, Shape("effects")]
    floor_margins: Annotated[np.ndarray, Shape("effects")]
    mean_squares: PerDepth
    mean_square_errors: PerDepth
    grid: Annotated[np.ndarray, Shape("grid", finite=True)]
    distributions: Annotated[np.ndarray, Shape("depths grid")]
    limit_distribution: Annotated[np.ndarray, Shape("grid")]
    diverged: CountPerDepth
    level: Level
    tolerance: float
    draws: Count
    seed: Seed
    inputs: str
    sampling: str
    device: str
    dtype: str
    seconds: Seconds
    versions: dict[str, str]
    reservations: tuple[str, ...]
    citations: tuple[str, ...] = ()
    rule: str = ""
    looks: tuple[InterimAnalysis, ...] = ()
    needs: RequiredSampleSize | None = None

    @property
    def differs(self) -> np.ndarray:
        """Whether the tests tell the network from the limit, per depth (m,), at `level` over all tests."""
        return np.asarray((self.adjusted <= self.level).any(axis=0))

    @property
    def headline(self) -> str:
        """The verdict and its reason."""
        return f"{self.verdict}: {self.reason}."

    def _facts(self) -> list[tuple[str, str]]:
        return [("", self._where()), *required(self.needs, "draws")]

    def _setting(self) -> list[tuple[str, str]]:
        return [
            ("network", self.network),
            ("limit", f"{self.limit}; {self.sampling}"),
            ("theorem", self.theorem or "none in the papers"),
            ("inputs", self.inputs),
            (
                "",
                f"{self.draws} draws of each law, level {self.level:g}, tolerance {self.tolerance:g}, seed"
                f" {self.seed}, {self.dtype} on {self.device}, {self.seconds:.1f} s",
            ),
            *analyses(self.looks),
        ]

    def path(self, index: int) -> OneDraw:
        """Draw one draw of the network at every depth, and one of the limit, again.

        Args:
            index: Number of the draw, from 0.

        Returns:
            The states of the network at every depth, the limit at time 1, and the features that were tested.
            All of them are independent draws from one start, so they have no distance.

        Raises:
            TypeError: For an index of another kind.
            ValueError: For an index that was not drawn, and a report from a file of a user's own network or
                limit, which no file can hold.

        Examples:
            >>> import deeplimit as dl
            >>> report = dl.compare_laws(dl.res3(4), depths=[2, 4, 8], draws=200)
            >>> draw = report.path(7)
            >>> draw.states[8].shape, draw.limit_state.shape
            ((9, 4), (4,))
        """
        draw: OneDraw = self._path(index)
        return draw

    def _table(self) -> Table:
        least = self.adjusted.argmin(axis=0)
        return Table(
            (
                Column("depth", self.depths),
                Column("E|h_L|²/|h_0|²", self.mean_squares, ".4f", error=self.mean_square_errors),
                Column("log norm: location", self.differences[0], ".4f", error=self.difference_errors[0]),
                Column("spread", self.differences[1], ".4f", error=self.difference_errors[1]),
                Column("smallest p", self.adjusted.min(axis=0), ".2g"),
                Column("statistic", [self.statistics[row] for row in least], left=True),
                Column("differs", ["differs" if told else None for told in self.differs], left=True),
            ),
            notes=(
                "p-values are corrected for all tests and depths (Holm); ± is one standard error",
                self._at_infinite_depth(),
            ),
        )

    def _details(self) -> list[str]:
        floors = zip(self.effects, self.floors, self.floor_margins, strict=True)
        width = max(len(name) for name in self.effects)
        return [
            f"At infinite depth, simultaneous intervals at {100 * (1 - self.level):g} %:",
            *(
                f"  {name:<{width}}  {floor:>8.4f} ± {margin:.4f}{'' if abs(floor) <= margin else '  not 0'}"
                for name, floor, margin in floors
            ),
        ]

    def _at_infinite_depth(self) -> str:
        """Return how many differences are certain at infinite depth, and the one known least."""
        certain = int((np.abs(self.floors) > self.floor_margins).sum())
        widest = int(np.argmax(self.floor_margins))
        seen = f"{certain or 'none'} of {len(self.effects)} differences"
        return (
            f"at infinite depth: {seen} certain, simultaneously at {100 * (1 - self.level):g} %; least known:"
            f" {self.effects[widest]}, to ± {self.floor_margins[widest]:.2g}"
        )

    def _where(self) -> str:
        """Return at which depths the tests see a difference, in a sentence."""
        found = [
            str(depth) for depth, differs in zip(self.depths.tolist(), self.differs, strict=True) if differs
        ]
        if not found:
            return f"no test sees a difference at any depth, with {self.draws} draws of each law"
        rest = "" if len(found) == len(self.depths) else "; no test sees a difference at the other depths"
        return f"the tests see a difference at depth {', '.join(found)}{rest}"

    def _curves(self) -> list[Curve]:
        apart = np.abs(self.distributions - self.limit_distribution).max(axis=1)  # (m,)
        noise = self._noise
        axis = "largest difference of distribution functions"
        return [Curve("distribution", axis, self.depths, apart, apart - noise, apart + noise)]

    @property
    def _noise(self) -> float:
        """Distance of two distribution functions of n draws of one law, everywhere at once, at 95 %."""
        return float(1.358 * (2 / self.draws) ** 0.5)

    def _draw(self, axes: Axes) -> None:
        """Draw the distribution function of ln(|h_L|/|h_0|) at each depth over the limit's.

        Shallow networks are pale; an inset shows the differences.
        """
        from matplotlib import colormaps

        inset = axes.inset_axes((0.655, 0.12, 0.33, 0.62))
        last = max(1, len(self.depths) - 1)
        small = drawing.is_small(axes)
        for j, depth in enumerate(self.depths.tolist()):
            colour = colormaps["viridis_r"](0.15 + 0.75 * j / last)  # in grey the order stays
            style = LINES[j % len(LINES)]
            told = f"L = {depth}" if small else f"network, {depth} layers"
            axes.plot(self.grid, self.distributions[j], ls=style, color=colour, lw=1.8, label=told)
            apart = self.distributions[j] - self.limit_distribution
            inset.plot(self.grid, apart, ls=style, color=colour, lw=1.3)
        axes.plot(self.grid, self.limit_distribution, color="black", lw=1.4, label="limit", zorder=3)
        inset.axhspan(-self._noise, self._noise, color="#bbbbbb", alpha=0.5, lw=0)
        inset.axhline(0.0, color="black", lw=0.8)
        inset.set_title(
            "minus limit" if small else "minus the limit's (band: noise, 95 %)",
            fontsize=drawing.points(axes, 8),
        )
        inset.tick_params(labelsize=drawing.points(axes, 7))
        axes.set_ylim(-0.02, 1.02)
        left, right = float(self.grid[0]), float(self.grid[-1])
        room = 1.65 * (right - left)  # for the inset, below where the functions are 1
        axes.set_xlim(left, left + room)
        drawing.label(
            axes,
            "$\\ln(|h_L| / |h_0|)$",
            "distribution function",
            [self.verdict.capitalize(), self.network, f"limit: {self.limit}"],
        )
        axes.grid(alpha=0.3)
        drawing.legend(axes, loc="upper left")
