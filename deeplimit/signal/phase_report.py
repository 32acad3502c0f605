"""The map of output and gradient over Hurst index and residual exponent, with the critical boundary."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, final

import numpy as np

from deeplimit.common import axes as drawing, validation
from deeplimit.common.axes import FITTED, MEASURED, PREDICTED
from deeplimit.common.fields import Count, Level, Seconds, Seed, Shape
from deeplimit.common.report import REPEAT, Column, Report, Table
from deeplimit.signal.one_signal import OneSignal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PerHurst = Annotated[np.ndarray, Shape("hurst")]
Intervals = Annotated[np.ndarray, Shape("hurst 2")]
Map = Annotated[np.ndarray, Shape("hurst exponents")]
Draws = Annotated[np.ndarray, Shape("hurst exponents draws")]
DECADES = 3.0
"""How far up and down the curve of one Hurst index is shown: explosions go on to 10^300."""


@final
@dataclass(frozen=True, eq=False)
class PhaseDiagram(Report):
    """Mean log10 changes of signal and gradient, by Hurst index (m) and residual exponent (n).

    Attributes:
        network: its formula and weights.
        depth, shallow_depth: numbers of layers of the networks, and of those that they are compared with.
        width, draws, inputs: network width, weight draws per Hurst index, inputs per draw.
        hurst, exponents: the grid, (m,) and (n,), increasing.
        hidden, gradient: means over draws and inputs of log10 |h_L - h_0|/|h_0| and of log10 |p_0 -
            p_L|/|p_L| (m, n).
        hidden_draws, gradient_draws: the same for each weight draw, averaged over its inputs (m, n, draws).
        hidden_shallow_draws, gradient_shallow_draws: the same at `shallow_depth` (m, n, draws).
        boundary: exponent at which the signal's change is the same at both depths (m,). Below it the change
            grows with depth, above it the change vanishes. NaN where this is not within `exponents`.
        boundary_interval: Student intervals over the weight draws at `confidence` (m, 2); NaN for fewer than
            3 draws. They hold the sampling error, not the distance of either depth from infinity.
        gradient_boundary, gradient_boundary_interval: the same for the gradient.
        unit_exponent, gradient_unit_exponent: where the mean logarithm passes 0, so that the change is as
            large as the signal (m,). The colours of the map show this. It differs from the boundary by
            log(change there)/log L.
        critical: boundary by theory (m,): max(H, 1/2) for res-3, as Section 4.1 of Marion et al. (2025)
            finds; NaN where theory does not know it.
        overflowed: values that overflowed and were left out of the means (m, n).
        confidence: level of the boundary's intervals.
        seed, device, dtype, seconds, versions: how it was run.
        reservations: what to know before trusting the numbers.
    """

    kind = "phase-diagram"
    no_paths = REPEAT

    network: str
    depth: int
    shallow_depth: int
    width: int
    draws: Count
    inputs: int
    hurst: Annotated[np.ndarray, Shape("hurst", finite=True)]
    exponents: Annotated[np.ndarray, Shape("exponents", finite=True)]
    hidden: Map
    gradient: Map
    hidden_draws: Draws
    gradient_draws: Draws
    hidden_shallow_draws: Draws
    gradient_shallow_draws: Draws
    boundary: PerHurst
    boundary_interval: Intervals
    gradient_boundary: PerHurst
    gradient_boundary_interval: Intervals
    unit_exponent: PerHurst
    gradient_unit_exponent: PerHurst
    critical: PerHurst
    overflowed: Annotated[np.ndarray, Shape("hurst exponents", whole=True)]
    confidence: Level
    seed: Seed
    device: str
    dtype: str
    seconds: Seconds
    versions: dict[str, str]
    reservations: tuple[str, ...]

    def _setting(self) -> list[tuple[str, str]]:
        return [
            ("network", f"{self.network}, d = {self.width}"),
            (
                "",
                f"{self.draws} weight draws x {self.inputs} inputs per Hurst index, seed {self.seed},"
                f" {self.dtype} on {self.device}, {self.seconds:.1f} s",
            ),
        ]

    def _table(self) -> Table:
        return Table(
            (
                Column("H", self.hurst, ".3f"),
                Column("theory", self.critical, lambda at: f"{at:.3f}" if np.isfinite(at) else "not known"),
                _boundary_column("boundary (signal)", self.boundary, self.boundary_interval),
                _boundary_column(
                    "boundary (gradient)", self.gradient_boundary, self.gradient_boundary_interval
                ),
                Column("change is 1 at (signal)", self.unit_exponent, _known),
                Column("change is 1 at (gradient)", self.gradient_unit_exponent, _known),
            ),
            title=f"exponents at the boundary between identity and explosion, {100 * self.confidence:g} %"
            " intervals",
        )

    @property
    def headline(self) -> str:
        """How the signal's boundary compares with theory, in a sentence."""
        known = np.isfinite(self.boundary) & np.isfinite(self.critical)
        if not known.any():
            none = (
                "is not within these exponents"
                if not np.isfinite(self.boundary).any()
                else "is found; theory does not know it"
            )
            return f"boundary between identity and explosion of the signal: it {none}."
        farthest = float(np.abs(self.boundary - self.critical)[known].max())
        sure = known & np.isfinite(self.boundary_interval).all(axis=1)
        low, high = self.boundary_interval[sure].T
        agree = int(((low <= self.critical[sure]) & (self.critical[sure] <= high)).sum())
        share = (
            f", within the {100 * self.confidence:g} % interval at {agree} of {int(sure.sum())} Hurst indices"
            if sure.any()
            else ""
        )
        missing = int((~np.isfinite(self.boundary)).sum())
        rest = f"; not within these exponents at {missing}" if missing else ""
        return (
            f"boundary between identity and explosion of the signal: at most {farthest:.3f} from"
            f" theory{share}{rest}."
        )

    def path(self, index: int, hurst: int = 0, exponent: int = 0) -> OneSignal:
        """Draw one cell's networks again, and keep the sizes of signal and gradient after every layer.

        Args:
            index: Number of the weight draw, from 0.
            hurst: Number of the cell's Hurst index, from 0, in this report's `hurst`.
            exponent: Number of the cell's residual exponent, from 0, in this report's `exponents`.

        Returns:
            Logarithms by depth, layer and input, at `shallow_depth` and at `depth`. The mean of the last
            entries of `log_hidden_change` over the inputs, over log(10), is this draw's in `hidden_draws`.

        Raises:
            TypeError: For numbers of another kind.
            ValueError: For numbers that the map does not have, and for a loaded report of a user's own
                network, which a file cannot hold.

        Examples:
            >>> import deeplimit as dl
            >>> grid = {"hurst": [0.3, 0.9], "exponents": [0.2, 0.6, 1.0]}
            >>> map = dl.phase_diagram(dl.res3, width=8, depth=40, **grid, draws=2, inputs=3)
            >>> map.path(1, hurst=0, exponent=2).log_hidden_change[40].shape
            (41, 3)
        """
        row = validation.integer(hurst, "hurst", minimum=0, maximum=len(self.hurst) - 1)
        column = validation.integer(exponent, "exponent", minimum=0, maximum=len(self.exponents) - 1)
        draw: OneSignal = self._path(index, row, column)
        return draw

    def _sources(self) -> list[str]:
        return ["marion2025", "davies1987"]  # every diagram is of fractional weights

    def plot(
        self,
        ax: Axes | str | os.PathLike[str] | None = None,
        *,
        of: str = "hidden",
        compact: bool = False,
    ) -> Axes:
        """Draw the map of "hidden" or "gradient", with the theoretical and the measured boundary.

        `ax` is axes to draw on, None for new ones, or a path to write a picture to (.png, .pdf or .svg).
        `compact` makes a picture as wide as a journal's column. Nothing is shown. The map of one Hurst index
        is a curve over the residual exponents.
        """
        which = validation.choice(of, "of", ("hidden", "gradient"))
        return drawing.plot(partial(self._draw, of=which), ax, self._size, compact)

    def _draw(self, axes: Axes, of: str = "hidden") -> None:
        """Draw the map, or the curve where there is one Hurst index."""
        (self._draw_map if len(self.hurst) > 1 else self._draw_curve)(axes, of == "hidden")

    def _draw_curve(self, axes: Axes, hidden: bool) -> None:
        """Draw the change against the exponent at both depths: they cross at the boundary."""
        deep = self.hidden_draws if hidden else self.gradient_draws
        shallow = self.hidden_shallow_draws if hidden else self.gradient_shallow_draws
        at = float((self.boundary if hidden else self.gradient_boundary)[0])
        low, high = (self.boundary_interval if hidden else self.gradient_boundary_interval)[0]
        for draws, depth, style, colour in (
            (shallow, self.shallow_depth, "s--", PREDICTED),
            (deep, self.depth, "o-", MEASURED),
        ):
            values = np.where(np.isfinite(draws[0]), draws[0], np.nan)  # (exponents, draws)
            axes.plot(self.exponents, values, style[0], color=colour, ms=2, alpha=0.4)
            axes.plot(self.exponents, values.mean(axis=1), style, color=colour, ms=3.5, label=f"L = {depth}")
        if np.isfinite(at):
            axes.axvline(at, color=FITTED, lw=1.2, label=f"boundary: {at:.2f}")
        if np.isfinite((low, high)).all():
            told = f"its {100 * self.confidence:g} % interval"
            axes.axvspan(low, high, color=FITTED, alpha=0.15, lw=0, label=told)
        if np.isfinite(self.critical[0]):
            axes.axvline(self.critical[0], color="black", ls=":", label=f"theory: {self.critical[0]:.2f}")
        axes.grid(alpha=0.3)
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, -DECADES), min(high, DECADES))
        ratio = "$|h_L - h_0|/|h_0|$" if hidden else "$|p_0 - p_L|/|p_L|$"
        what = "Signal" if hidden else "Gradient"
        drawing.label(
            axes,
            "residual exponent β",
            f"mean $\\log_{{10}}$ of {ratio}",
            [f"{what}, H = {self.hurst[0]:g}, d = {self.width}", self.network],
        )
        drawing.legend(axes, 8)

    def _draw_map(self, axes: Axes, hidden: bool) -> None:
        """Draw the map of log10 changes, dark for identity and bright for explosion, with both boundaries."""
        from matplotlib import colormaps

        small = drawing.is_small(axes)
        values = self.hidden if hidden else self.gradient
        ends = (0.0, math.inf)
        # Brightness rises with the value, so that the map reads in grey; overflow is as bright as can be.
        mesh = axes.pcolormesh(
            _edges(self.hurst, 0.0, 1.0),
            _edges(self.exponents, *ends),
            np.clip(np.nan_to_num(values.T, nan=1.0), -1.0, 1.0),
            cmap=colormaps["cividis"],
            vmin=-1.0,
            vmax=1.0,
            rasterized=True,
        )
        ratio = "$|h_L - h_0|/|h_0|$" if hidden else "$|p_0 - p_L|/|p_L|$"
        told = f"$\\log_{{10}}$ {ratio}" if small else f"mean $\\log_{{10}}$ of {ratio} (clipped)"
        drawing.colour_bar(axes, mesh, told)
        self._draw_boundaries(axes, hidden, small)
        self._name_the_zones(axes, values, small)
        axes.set_ylim(*_edges(self.exponents, *ends)[[0, -1]])
        what = "Signal" if hidden else "Gradient"
        draws = f"{self.draws} weight draws × {self.inputs} inputs"
        drawing.label(
            axes,
            "Hurst index H of the weights",
            "residual exponent β",
            [f"{what}, L = {self.depth}, d = {self.width}" + ("" if small else f", {draws}"), self.network],
        )
        drawing.legend(axes, 8, loc="upper left" if self.exponents[-1] > 1.2 else "best")

    def _draw_boundaries(self, axes: Axes, hidden: bool, small: bool) -> None:
        """Draw the boundary of theory and the measured one."""
        at = self.boundary if hidden else self.gradient_boundary
        interval = self.boundary_interval if hidden else self.gradient_boundary_interval
        axes.plot(self.hurst, self.critical, "--", color="white", lw=2.2)
        told = "theory" if np.isfinite(self.critical).any() else "theory: not known"
        axes.plot(self.hurst, self.critical, "--", color="black", lw=1.0, label=told)
        known = np.isfinite(at)
        if known.any():
            percent = f"{100 * self.confidence:g} %"
            axes.errorbar(
                self.hurst[known],
                at[known],
                np.nan_to_num(np.abs(interval[known] - at[known, None]).T),
                fmt="o",
                ms=4,
                mfc="white",
                mec="black",
                ecolor="black",
                capsize=2,
                lw=1,
                label=f"measured ({percent})"
                if small
                else f"measured: same change at both depths ({percent})",
            )

    def _name_the_zones(self, axes: Axes, values: np.ndarray, small: bool) -> None:
        """Write "explosion" and "identity" into cells that are clearly so, where there is room."""
        for word, colour, zone in (
            ("explosion", "black", values > 0.9),
            ("identity", "white", values < -0.9),
        ):
            columns = zone.sum(axis=1)
            if columns.max(initial=0) < 3:
                continue
            wide = np.nonzero(2 * columns > columns.max())[0]
            i = int(wide[np.abs(wide - 0.65 * (len(columns) - 1)).argmin()])  # the legend is on the left
            places = self.exponents[zone[i]]
            least = 0.64 if small and word == "identity" else 0.2  # the legend is wide on small axes
            share = np.clip((i + 0.5) / len(columns), least, 0.8)
            axes.text(
                float(self.hurst[0] + (self.hurst[-1] - self.hurst[0]) * share),
                float(places[len(places) // 2]),
                word,
                color=colour,
                fontsize=drawing.points(axes, 12),
                ha="center",
                va="center",
                weight="bold",
            )


def _known(at: float) -> str:
    return f"{at:.3f}" if np.isfinite(at) else "-"


def _boundary_column(heading: str, at: np.ndarray, interval: np.ndarray) -> Column:
    low, high = interval.T

    def told(value: float) -> str:
        return f"{value:.3f}" if np.isfinite(value) else "not within these exponents"

    return Column(heading, at, told, interval=(low, high))


def _edges(centres: np.ndarray, least: float, most: float) -> np.ndarray:
    """Return the edges (n + 1,) of cells around `centres` (n,), within [least, most]."""
    if len(centres) == 1:
        alone: np.ndarray = np.clip(np.array([centres[0] - 0.05, centres[0] + 0.05]), least, most)
        return alone
    between = (centres[1:] + centres[:-1]) / 2
    ends = (2 * centres[0] - between[0], 2 * centres[-1] - between[-1])
    edges: np.ndarray = np.clip(np.concatenate([[ends[0]], between, [ends[1]]]), least, most)
    return edges
