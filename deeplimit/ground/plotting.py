"""Reports drawn on axes. matplotlib is imported when something is drawn, never at import; nothing is ever
shown.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, cast

import numpy as np

from deeplimit.ground import files as store, validation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from deeplimit.convergence.report import CompareReport
    from deeplimit.in_law.report import LawReport
    from deeplimit.scoreboard.report import Scoreboard
    from deeplimit.signal.phase_report import PhaseDiagram
    from deeplimit.signal.report import StabilityReport

WRAP = 84
SUFFIXES = (".png", ".pdf", ".svg")
MEASURED, FITTED, PREDICTED = "#0072b2", "#d55e00", "#444444"


def new_figure(size: tuple[float, float]) -> Figure:
    """Return a new figure that no window manager knows of."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def new_axes(size: tuple[float, float] = (7.2, 5.0)) -> Axes:
    """Return axes of a new figure."""
    return new_figure(size).add_subplot()


def to_file(draw: Callable[[Axes], Axes], path: Path, size: tuple[float, float] = (7.2, 5.0)) -> Axes:
    """Draw on new axes and write the picture, whole or not at all."""
    axes = new_axes(size)
    figure = axes.get_figure(root=True)
    assert figure is not None
    draw(axes)
    with store.whole_file(path) as temporary:
        figure.savefig(temporary, dpi=150)
    return axes


def plot(draw: Callable[[Axes], Axes], ax: object, size: tuple[float, float] = (7.2, 5.0)) -> Axes:
    """Draw on `ax`: axes, None for new ones, or a path to write a picture to (.png, .pdf or .svg); return
    the axes.

    Raises TypeError for what is none of these, ValueError, before anything is drawn, for a path that
    cannot be written to.
    """
    if isinstance(ax, (str, os.PathLike)):
        return to_file(draw, validation.writable_file(ax, "path", SUFFIXES), size)
    if ax is not None and not hasattr(ax, "set_xscale"):
        raise TypeError(
            f"ax must be matplotlib Axes, a path to write to, or None; got {ax!r} of type"
            f" {type(ax).__name__}."
        )
    return draw(cast("Axes", ax) if ax is not None else new_axes(size))


def draw_compare(report: CompareReport, axes: Axes) -> Axes:
    """Draw a comparison: errors with error bars, the fitted power law, the predicted slope."""
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    good = np.isfinite(report.errors) & (report.errors > 0)
    depths, errors = report.depths[good].astype(float), report.errors[good]
    percent = f"{100 * report.confidence:g} %"
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    if len(depths):
        axes.errorbar(
            depths,
            errors,
            yerr=1.96 * report.standard_errors[good],
            fmt="o",
            color=MEASURED,
            markersize=4,
            capsize=4,
            label=f"measured error, {report.paths} paths (bars: 95 %)",
            zorder=3,
        )
    if np.isfinite(report.rate) and len(depths):
        ends = np.array([depths[0], depths[-1]])
        low, high = report.rate_interval
        digits = min(4, report.digits)
        shown = np.exp(np.mean(np.log(errors) + report.rate * np.log(depths)))
        axes.plot(
            ends,
            shown * ends**-report.rate,
            color=FITTED,
            label=(
                f"fitted: error ∝ depth$^{{{-report.rate:.{digits}f}}}$  ({percent}: {low:.{digits}f} to"
                f" {high:.{digits}f})"
            ),
        )
        if report.predicted_rate is not None:
            anchor = shown * depths[0] ** -report.rate * 1.3
            axes.plot(
                ends,
                anchor * (ends / depths[0]) ** -report.predicted_rate,
                "--",
                color=PREDICTED,
                label=f"predicted slope: depth$^{{-{report.predicted_rate:g}}}$ (shifted up)",
            )
    if report.floor_probability > 0.95 and len(depths):
        axes.axhline(
            errors[-1] * report.floor**0.5,
            ls=":",
            color=FITTED,
            label="error left at infinite depth",
        )
    lost = report.depths[~np.isfinite(report.errors)]
    if len(lost):
        axes.plot(
            lost,
            np.full(len(lost), 0.97),
            "x",
            color=FITTED,
            transform=axes.get_xaxis_transform(),
            label="paths diverged",
        )
    axes.set_xticks(report.depths, [str(depth) for depth in report.depths.tolist()])
    axes.minorticks_off()
    low_end, high_end = axes.get_ylim()
    if high_end < 2.5 * low_end:  # a flat line should look flat
        axes.set_ylim(low_end / 1.6, high_end * 1.6)
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 3.0, 5.0, 7.0)))
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("depth L (number of residual layers)")
    axes.set_ylabel(_error_words(report))
    lines = [
        f"{report.verdict.capitalize()}",
        *wrap(report.network, WRAP),
        *wrap(f"limit: {report.limit}", WRAP),
    ]
    axes.set_title("\n".join(lines), fontsize=10)
    axes.grid(which="major", alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=9)
    return axes


def _error_words(report: CompareReport) -> str:
    mean = "root mean square" if report.p == 2 else "mean" if report.p == 1 else f"$L^{{{report.p:g}}}$ mean"
    over = {
        "sup": "largest distance over layers",
        "sup-continuous": "largest distance over time",
        "final": "final distance",
    }
    return f"{mean} {over[report.norm]}"


def draw_laws(report: LawReport, axes: Axes) -> Axes:
    """Draw distribution functions of the log norm, pale for shallow networks, and how far each is from the
    limit's.
    """
    from matplotlib import colormaps

    inset = axes.inset_axes((0.655, 0.12, 0.33, 0.62))
    count = len(report.depths)
    styles = ((0, (5, 1, 1, 1, 1, 1)), (0, (1.2, 1.2)), (0, (3, 1.2, 1, 1.2)), (0, (6, 1.5)))
    for j, depth in enumerate(report.depths.tolist()):
        colour = colormaps["viridis_r"](
            0.15 + 0.75 * j / max(1, count - 1)
        )  # pale to dark, so that grey keeps the order
        style = styles[j % len(styles)]
        axes.plot(
            report.grid,
            report.distributions[j],
            ls=style,
            color=colour,
            lw=1.8,
            label=f"network, {depth} layers",
        )
        inset.plot(
            report.grid, report.distributions[j] - report.limit_distribution, ls=style, color=colour, lw=1.3
        )
    axes.plot(report.grid, report.limit_distribution, color="black", lw=1.4, label="limit", zorder=3)
    # Two distribution functions of n draws each differ by less than this at 95 %, everywhere at once.
    noise = 1.358 * (2 / report.draws) ** 0.5
    inset.axhspan(-noise, noise, color="#bbbbbb", alpha=0.5, lw=0)
    inset.axhline(0.0, color="black", lw=0.8)
    inset.set_title("minus the limit's (band: noise, 95 %)", fontsize=9)
    inset.tick_params(labelsize=7)
    axes.set_xlabel("$\\ln(|h_L| / |h_0|)$")
    axes.set_ylabel("distribution function")
    axes.set_ylim(-0.02, 1.02)
    left, right = float(report.grid[0]), float(report.grid[-1])
    axes.set_xlim(left, left + 1.65 * (right - left))  # room for the inset, below where the functions are 1
    lines = [report.verdict.capitalize(), *wrap(report.network, WRAP), *wrap(f"limit: {report.limit}", WRAP)]
    axes.set_title("\n".join(lines), fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=9, loc="upper left")
    return axes


def draw_scoreboard(board: Scoreboard, axes: Axes) -> Axes:
    """Draw each row's interval and its predicted order, with its outcome and its control beside it."""
    count = len(board.rows)
    places = np.arange(count)[::-1]
    colours = {"agrees": MEASURED, "disagrees": FITTED}
    axes.plot(
        [row.predicted for row in board.rows],
        places,
        "|",
        color=PREDICTED,
        ms=11,
        mew=2,
        label="predicted order",
    )
    for place, row in zip(places, board.rows, strict=True):
        colour = colours.get(row.outcome, "#999999")
        if np.isfinite(row.rate):
            low, high = row.interval
            axes.plot([low, high], [place, place], color=colour, lw=2.5, alpha=0.6, solid_capstyle="butt")
            axes.plot([row.rate], [place], "o", color=colour, ms=4)
        caught = row.control == "caught"
        told = f"{row.outcome};  {row.wrongly}: {row.control}"
        colour = "black" if caught and row.outcome == "agrees" else FITTED
        axes.annotate(
            told,
            (1.015, place),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=8,
            color=colour,
            annotation_clip=False,
        )
    axes.plot(
        [], [], "o-", color=MEASURED, ms=4, lw=2.5, label=f"measured, {100 * board.confidence:g} % interval"
    )
    axes.set_yticks(places, [f"{row.statement}: {row.setting}" for row in board.rows], fontsize=8)
    axes.set_ylim(-0.7, count - 0.3)
    axes.set_xlim(min(0.0, *axes.get_xlim()), max(1.1, axes.get_xlim()[1]))
    axes.set_xlabel("order in 1/depth")
    axes.set_title(board.summary().split(" (")[0].capitalize(), fontsize=10)
    axes.grid(axis="x", alpha=0.3)
    axes.legend(fontsize=8, loc="upper right" if count < 3 else "lower right")
    return axes


def draw_stability(report: StabilityReport, axes: Axes) -> Axes:
    """Draw medians and quartiles of the changes of signal and gradient against depth, on a scale of powers
    of ten.
    """
    depths = report.depths.astype(float)
    shapes = {
        "hidden_change": ("o-", MEASURED, "full", "signal"),
        "gradient_change": ("s--", FITTED, "none", "gradient"),
    }
    names = {"signal": "$|h_L - h_0|\\,/\\,|h_0|$", "gradient": "$|p_0 - p_L|\\,/\\,|p_L|$"}
    growths = {"signal": report.hidden_growth, "gradient": report.gradient_growth}
    axes.set_xscale("log")
    apart = 1.02 if len(depths) > 1 else 1.0
    for shift, (name, (style, colour, fill, word)) in zip((1 / apart, apart), shapes.items(), strict=True):
        tens = report.quantiles(name, 0.25, 0.5, 0.75) / np.log(10.0)
        good = np.isfinite(tens).all(axis=1)
        low, middle, high = tens[good].T
        lost = "" if good.all() else " (missing: overflowed, or no change at all)"
        told = f"{word}: {names[word]}, {growths[word].verdict}{lost}"
        bars = np.stack([middle - low, high - middle])
        axes.errorbar(
            depths[good] * shift,
            middle,
            bars,
            fmt=style,
            color=colour,
            fillstyle=fill,
            capsize=3,
            ms=5,
            lw=1.2,
            label=told,
        )
    power_axis(axes)
    axes.set_xticks(report.depths, [str(depth) for depth in report.depths.tolist()])
    axes.minorticks_off()
    axes.set_xlabel("depth L (number of residual layers)")
    axes.set_ylabel("relative change")
    title = f"{report.verdict.capitalize()}: exponent {report.exponent:g}, {report.critical_words}"
    axes.set_title("\n".join([title, *wrap(report.network, WRAP)]), fontsize=10)
    axes.grid(alpha=0.3)
    axes.set_xlim(depths[0] / 1.3, depths[-1] * 1.3)
    axes.legend(fontsize=9, title=f"median and quartiles, draws a depth: {report.draws}", title_fontsize=9)
    return axes


def power_axis(axes: Axes) -> None:
    """Label a vertical axis of log10 values with the numbers they stand for: some a decade, or whole
    powers of ten.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

    low, high = axes.get_ylim()
    if high - low < 1.0:  # a flat line should look flat
        low, high = (low + high) / 2 - 0.5, (low + high) / 2 + 0.5
        axes.set_ylim(low, high)
    digits = (1, 2, 3, 5, 7) if high - low < 1.2 else (1, 2, 5)
    if high - low < 3.0:
        decades = range(math.floor(low), math.ceil(high) + 1)
        ticks = [decade + math.log10(digit) for decade in decades for digit in digits]
        axes.yaxis.set_major_locator(FixedLocator([tick for tick in ticks if low <= tick <= high]))
    else:
        axes.yaxis.set_major_locator(MaxNLocator(nbins=7, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda tens, _: _power_label(tens)))
    axes.yaxis.set_minor_locator(NullLocator())


def _power_label(tens: float) -> str:
    if -3.1 < tens < 3.9:
        return f"{10**tens:.4g}"
    whole = math.floor(tens + 1e-9)
    digit = round(10 ** (tens - whole))
    return f"$10^{{{whole}}}$" if digit == 1 else f"${digit}\\cdot 10^{{{whole}}}$"


def draw_phase_diagram(diagram: PhaseDiagram, axes: Axes, of: str) -> Axes:
    """Draw the map of log10 changes, dark for identity and bright for explosion, with both boundaries on
    it.
    """
    from matplotlib import colormaps

    values = diagram.hidden if of == "hidden" else diagram.gradient
    at, interval = (
        (diagram.boundary, diagram.boundary_interval)
        if of == "hidden"
        else (diagram.gradient_boundary, diagram.gradient_boundary_interval)
    )
    # Brightness rises with the value, so that the map reads in grey; what overflowed is as bright as can
    # be.
    mesh = axes.pcolormesh(
        _edges(diagram.hurst, 0.0, 1.0),
        _edges(diagram.exponents, 0.0, math.inf),
        np.clip(np.nan_to_num(values.T, nan=1.0), -1.0, 1.0),
        cmap=colormaps["cividis"],
        vmin=-1.0,
        vmax=1.0,
        rasterized=True,
    )
    figure = axes.get_figure(root=True)
    assert figure is not None
    ratio = "$|h_L - h_0|/|h_0|$" if of == "hidden" else "$|p_0 - p_L|/|p_L|$"
    figure.colorbar(mesh, ax=axes, extend="both", label=f"mean $\\log_{{10}}$ of {ratio} (clipped)")
    sides = _edges(diagram.hurst, 0.0, 1.0)
    line = np.linspace(sides[0], sides[-1], 200) if len(diagram.hurst) == 1 else diagram.hurst
    theory = np.interp(line, diagram.hurst, diagram.critical)
    axes.plot(line, theory, "--", color="white", lw=2.2)
    axes.plot(
        line,
        theory,
        "--",
        color="black",
        lw=1.0,
        label="theory" if np.isfinite(theory).any() else "theory: not known",
    )
    known = np.isfinite(at)
    if known.any():
        bars = np.nan_to_num(np.abs(interval[known] - at[known, None]).T)
        label = f"measured: same change at both depths ({100 * diagram.confidence:g} %)"
        axes.errorbar(
            diagram.hurst[known],
            at[known],
            bars,
            fmt="o",
            ms=4,
            mfc="white",
            mec="black",
            ecolor="black",
            capsize=2,
            lw=1,
            label=label,
        )
    _name_the_zones(diagram, values, axes)
    axes.set_ylim(*_edges(diagram.exponents, 0.0, math.inf)[[0, -1]])
    axes.set_xlabel("Hurst index H of the weights")
    axes.set_ylabel("residual exponent β")
    what = "Signal" if of == "hidden" else "Gradient"
    sizes = (
        f"L = {diagram.depth}, d = {diagram.width}, {diagram.draws} weight draws × {diagram.inputs} inputs"
    )
    axes.set_title(f"{what}, {sizes}\n{diagram.network}", fontsize=9)
    axes.legend(fontsize=8, loc="upper left" if diagram.exponents[-1] > 1.2 else "best", framealpha=0.9)
    return axes


def _edges(centres: np.ndarray, least: float, most: float) -> np.ndarray:
    """Return the edges (n + 1,) of cells around `centres` (n,), within [least, most]."""
    if len(centres) == 1:
        alone: np.ndarray = np.clip(np.array([centres[0] - 0.05, centres[0] + 0.05]), least, most)
        return alone
    between = (centres[1:] + centres[:-1]) / 2
    ends = (2 * centres[0] - between[0], 2 * centres[-1] - between[-1])
    edges: np.ndarray = np.clip(np.concatenate([[ends[0]], between, [ends[1]]]), least, most)
    return edges


def _name_the_zones(diagram: PhaseDiagram, values: np.ndarray, axes: Axes) -> None:
    """Write "explosion" and "identity" where there is room for them: in the middle of cells that are
    clearly so.
    """
    for word, colour, zone in (("explosion", "black", values > 0.9), ("identity", "white", values < -0.9)):
        columns = zone.sum(axis=1)
        if columns.max(initial=0) >= 3:
            i = int(np.median(np.nonzero(columns == columns.max())[0]))
            places = diagram.exponents[zone[i]]
            height = float(places[len(places) // 2])
            centre = float(
                diagram.hurst[0]
                + (diagram.hurst[-1] - diagram.hurst[0]) * np.clip((i + 0.5) / len(columns), 0.2, 0.8)
            )
            axes.text(
                centre, height, word, color=colour, fontsize=12, ha="center", va="center", weight="bold"
            )
