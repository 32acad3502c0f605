"""Axes to draw on, sized texts, picture files; matplotlib loads when drawing, and nothing is shown."""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from pathlib import Path
from textwrap import shorten, wrap
from typing import TYPE_CHECKING, Any, cast

from deeplimit.common import files as store, validation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".pdf", ".svg")
MEASURED, FITTED, PREDICTED = "#0072b2", "#d55e00", "#444444"
COLOURS = (MEASURED, FITTED, "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c564b", "#7f7f7f")
SIZE = (7.2, 5.0)
"""Inches of a new figure."""
COLUMN = (3.3, 2.5)
"""Inches of a compact figure: the width of a journal's column."""
FULL = 4.9
"""Width of axes, in inches, from which texts have their full size."""
PANEL, ROW = 1.6, 0.15
"""Inches of a panel, and of a named row, in a compact figure."""
LEAST = 6.0
"""Points of the smallest text that journals print."""
_compact: ContextVar[Figure | bool] = ContextVar("compact", default=False)
"""Whether what is drawn now is compact; or the new compact figure, which may grow by panels."""
Draw = Callable[["Axes"], None]


def new_figure(size: tuple[float, float] = SIZE) -> Figure:
    """Return a new figure that no window manager knows of."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def new_axes(size: tuple[float, float] = SIZE) -> Axes:
    """Return axes of a new figure."""
    return new_figure(size).add_subplot()


def figure_of(axes: Axes) -> Figure:
    """Return the figure that axes are in."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def to_file(draw: Draw, path: Path, size: tuple[float, float] = SIZE, compact: bool = False) -> Axes:
    """Draw on new axes and write the picture, whole or not at all."""
    from matplotlib import rc_context

    axes = _drawn(draw, None, size, compact)
    # Publishers refuse matplotlib's Type 3 fonts; these are TrueType.
    with store.whole_file(path) as temporary, rc_context({"pdf.fonttype": 42, "ps.fonttype": 42}):
        figure_of(axes).savefig(temporary, dpi=300 if compact else 150)
    return axes


def plot(draw: Draw, ax: object, size: tuple[float, float] = SIZE, compact: bool = False) -> Axes:
    """Draw on `ax` (axes, None for new ones, or a .png, .pdf or .svg path to write); return the axes.

    Compact pictures have the width of a column, few words, and panels one below another.

    Raises TypeError for anything else, ValueError, before anything is drawn, for a path that cannot be
    written to.
    """
    if not isinstance(compact, bool):
        raise TypeError(f"compact must be True or False, got {validation.named(compact)}.")
    if isinstance(ax, (str, os.PathLike)):
        return to_file(draw, validation.writable_file(ax, "ax", SUFFIXES), size, compact)
    if ax is not None and not hasattr(ax, "set_xscale"):
        raise TypeError(
            f"ax must be matplotlib Axes, a path to write to, or None; got {validation.named(ax)}."
        )
    return _drawn(draw, cast("Axes | None", ax), size, compact)


def _drawn(draw: Draw, axes: Axes | None, size: tuple[float, float], compact: bool = False) -> Axes:
    """Draw on axes, or new ones, whose ticks and names are written in the size of the axes."""
    drawn = new_axes(COLUMN if compact else size) if axes is None else axes
    within = compact or bool(_compact.get())  # a panel of a compact picture is compact, too
    token = _compact.set(figure_of(drawn) if compact and axes is None else within)
    try:
        _set_sizes(drawn)
        draw(drawn)
        if compact and not drawn.axison:
            drawn.set_title("")  # the caption says what all panels share
    finally:
        _compact.reset(token)
    return drawn


def _set_sizes(axes: Axes) -> None:
    """Write ticks and names of axes in their size."""
    small = is_small(axes)
    axes.tick_params(which="both", labelsize=points(axes, 10), pad=2 if small else 3.5)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set_fontsize(points(axes, 10))
        axis.labelpad = 1 if small else 4


def to_svg(draw: Draw, size: tuple[float, float] = SIZE) -> str:
    """Return a picture as SVG, without the declarations that only a separate file needs."""
    axes = _drawn(draw, None, size)
    buffer = io.StringIO()
    figure_of(axes).savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.DOTALL)


def scale(axes: Axes) -> float:
    """Return the factor for the size of texts: 1 on axes of full width, at least 0.62 on small ones."""
    return 0.7 if _compact.get() else min(1.0, max(0.62, width(axes) / FULL))


def width(axes: Axes) -> float:
    """Return the width of axes in inches."""
    return float(axes.get_window_extent().width / figure_of(axes).dpi)


def is_small(axes: Axes) -> bool:
    """Whether axes are too small for sentences: compact, or less than 3.4 inches wide."""
    return bool(_compact.get()) or width(axes) < 3.4


def points(axes: Axes, size: float) -> float:
    """Return a font size on these axes, in points, that is `size` on axes of full width."""
    return max(LEAST, size * scale(axes))


def plain(text: str) -> str:
    """Return a name that somebody else chose so that a picture shows it: "$" begins no formula in it."""
    return "".join(each if each.isprintable() else "?" for each in text).replace("$", r"\$")


def fitting(axes: Axes, text: str, size: float, lines: int = 3, inches: float | None = None) -> list[str]:
    """Return a text in lines that fit above the axes (or into `inches`), cut with "…" where too long."""
    width = _room(axes) if inches is None else inches
    letters = max(20, int(width * 72 / (0.56 * points(axes, size))))
    found = wrap(text, letters)
    if len(found) <= lines:
        return found
    return [*found[: lines - 1], shorten(" ".join(found[lines - 1 :]), letters, placeholder=" …")]


def _room(axes: Axes) -> float:
    """Return the inches that a text centred on the axes has within the figure, beside those of its panels."""
    box, figure = axes.get_window_extent(), figure_of(axes)
    centre = (box.x0 + box.x1) / 2 / figure.dpi
    beside = [
        abs((other.x0 + other.x1) / 2 / figure.dpi - centre)
        for other in (panel.get_window_extent() for panel in _panels_beside(axes))
        if other.y0 < box.y1 and box.y0 < other.y1
    ]
    return float(min(2 * centre, 2 * (figure.get_size_inches()[0] - centre), *beside))


def _panels_beside(axes: Axes) -> list[Axes]:
    """Return the other panels of the grid that the axes are in; a colour bar is none."""
    place = axes.get_subplotspec()
    if place is None:
        return []
    grid = place.get_gridspec()
    others = ((other, other.get_subplotspec()) for other in figure_of(axes).axes if other is not axes)
    return [other for other, its in others if its is not None and its.get_gridspec() is grid and its != place]


def label(axes: Axes, x: str, y: str, title: Sequence[str]) -> None:
    """Name both axes; write a title, one line per text, on small axes two lines, on compact ones one."""
    small = is_small(axes)
    most = 1 if _compact.get() else 2 if small else None
    lines = [line for text in title for line in fitting(axes, plain(text), 10.0, 1 if small else 3)]
    axes.set_title("\n".join(lines[:most]), fontsize=points(axes, 10), pad=4 if small else 6)
    _set_sizes(axes)
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def legend(axes: Axes, size: float = 9.0, **options: Any) -> None:
    """Draw a legend in the size of the axes, if anything has a label."""
    if axes.get_legend_handles_labels()[0]:
        told = points(axes, size)
        small = {"handlelength": 1.4, "labelspacing": 0.25, "borderpad": 0.3} if is_small(axes) else {}
        axes.legend(**{"fontsize": told, "title_fontsize": told, "framealpha": 0.85} | small | options)


def legend_above(axes: Axes, size: float = 8.0) -> None:
    """Draw a legend at the upper left, and raise a logarithmic vertical axis so that it covers nothing."""
    entries = len(axes.get_legend_handles_labels()[0])
    inches = float(axes.get_window_extent().height / figure_of(axes).dpi)
    covered = min(0.7, 0.06 + entries * 1.3 * points(axes, size) / 72 / inches)
    low, high = axes.get_ylim()
    axes.set_ylim(low, low * (high / low) ** (1 / (1 - covered)))
    legend(axes, size, loc="upper left")


def name_vertical(panels: Sequence[Axes], text: str) -> None:
    """Name the vertical axis of panels that share it: once on each line of panels, at the left."""
    left = min(panel.get_position().x0 for panel in panels)
    for panel in panels:
        if panel.get_position().x0 == left:
            panel.set_ylabel(text, fontsize=points(panel, 10), labelpad=1)


def depth_ticks(axes: Axes, depths: Sequence[int]) -> None:
    """Mark the depths, as many of them as there is room for."""
    room = max(2, int(width(axes) / (0.36 * scale(axes))))
    every = math.ceil(len(depths) / room)
    axes.set_xticks(depths, [str(depth) if place % every == 0 else "" for place, depth in enumerate(depths)])
    axes.minorticks_off()


def number_axis(axes: Axes) -> None:
    """Label a logarithmic vertical axis with plain numbers; a flat line looks flat."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axes.get_ylim()
    if high < 2.5 * low:
        axes.set_ylim(low / 1.6, high * 1.6)
    low, high = axes.get_ylim()
    digits = (1.0, 2.0, 3.0, 5.0, 7.0) if high < 15 * low else (1.0, 2.0, 5.0)
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=digits))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def names(axes: Axes, places: Sequence[float], texts: Sequence[str], most: int = 16) -> None:
    """Name rows on the vertical axis, or inside small axes above their places if they are few."""
    small = is_small(axes)
    _grow(0.7 + ROW * len(texts))
    axes.set_yticks(places, [""] * len(texts) if small else texts, fontsize=8)
    if small and (len(texts) <= most or not isinstance(_compact.get(), bool)):
        for place, text in zip(places, texts, strict=True):
            axes.annotate(
                shorten(text, 60, placeholder=" …"),
                (0.015, place),
                xycoords=("axes fraction", "data"),
                xytext=(0, 2.5),
                textcoords="offset points",
                fontsize=LEAST,
                va="bottom",
            )


def power_axis(axes: Axes) -> None:
    """Label a vertical axis of log10 values with numbers: some per decade, or whole powers of ten."""
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


def panels(axes: Axes, count: int, gap: float = 0.085, columns: int = 0, rows: int = 0) -> list[Axes]:
    """Return `count` axes side by side in the place of `axes`; `axes` itself if one is asked for.

    With `columns` they stand in a grid of two lines. In a new compact figure they stand one below another,
    and the figure grows; the first has room for `rows` lines with a name each.
    """
    if count == 1:
        return [axes]
    axes.set_axis_off()
    if not isinstance(_compact.get(), bool):
        return _stacked(axes, [max(PANEL, 0.4 + ROW * rows), *[PANEL] * (count - 1)])
    small = is_small(axes)
    if columns:
        across, down = (0.16, 0.28) if small else (0.08, 0.18)
        wide, high = (1.0 - across * (columns - 1)) / columns, (1.0 - down) / 2
        places = [(left * (wide + across), low) for low in (1.0 - high, 0.0) for left in range(columns)]
        return [axes.inset_axes((left, low, wide, high)) for left, low in places[:count]]
    left, high = (0.06, 0.86) if small else (0.03, 0.93)
    wide = (1.0 - left - gap * (count - 1)) / count
    return [axes.inset_axes((left + place * (wide + gap), 0.0, wide, high)) for place in range(count)]


def _stacked(axes: Axes, heights: Sequence[float]) -> list[Axes]:
    """Return axes one below another, of these inches with their names, in a figure that is made as tall."""
    tall, names_of_axes = sum(heights), 0.5
    _grow(tall + COLUMN[1] - PANEL)
    found, top = [], 1.0
    for inches in heights:
        high = (inches - names_of_axes * (1 - inches / tall)) / tall
        found.append(axes.inset_axes((0.0, top - high, 1.0, high)))
        top -= high + names_of_axes / tall
    return found


def _grow(tall: float) -> None:
    """Make a new compact figure at least `tall` inches high; any other figure stays as it is."""
    figure = _compact.get()
    if not isinstance(figure, bool):
        figure.set_size_inches(COLUMN[0], max(tall, float(figure.get_size_inches()[1])))


def colour_bar(axes: Axes, shown: ScalarMappable, text: str) -> None:
    """Draw a colour bar beside axes; inset axes, which cannot make room for it, have it at their edge."""
    place: dict[str, Any] = (
        {"ax": axes}
        if axes.get_subplotspec() is not None
        else {"cax": axes.inset_axes((1.04, 0.0, 0.045, 1.0))}
    )
    bar = figure_of(axes).colorbar(shown, extend="both", **place)
    small = is_small(axes)
    bar.set_label(text, fontsize=points(axes, 10), labelpad=1 if small else 4)
    bar.ax.tick_params(labelsize=points(axes, 10), pad=2)
