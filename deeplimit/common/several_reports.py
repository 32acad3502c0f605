"""Several reports of one kind in one picture and in one table."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Sequence
from functools import partial
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from deeplimit.common import axes as drawing, files, validation
from deeplimit.common.curve import Curve
from deeplimit.common.global_state import by_default
from deeplimit.common.report import SYMBOLS, Column, Report, Table, latex

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""As many as no divisor of the number of colours, so that 56 reports differ in colour or marker."""
TEXT_SIZES: Final = ("font.size", "legend.fontsize", "axes.labelsize", "xtick.labelsize", "ytick.labelsize")
DECADES = 2.0
"""A vertical axis of at most this many decades has plain numbers, a longer one powers of ten."""
SUBJECTS = ("network", "limit", "scheme", "equation")
"""Fields that say what a report is of. Labels that nobody chose come from the first that tells them apart."""
ALONE = re.compile(r"(?<!\\)[%&]")
"""Signs that end a row or a cell of LaTeX, unless a backslash stands before them."""
OUTSIDE = re.compile(r"(?<!\\)[%&_#]")
"""Those and what is mathematics between dollar signs alone, or the number of an argument."""
LONGEST = 60
"""Letters of a label that nobody chose."""
TWO_LINES: Final = 34
"""Letters from which a legend on small axes writes the exponent on a second line; twice that on larger."""


@by_default
def plot(
    reports: Sequence[Report],
    labels: Sequence[str] | None = None,
    *,
    ax: Axes | str | os.PathLike[str] | None = None,
    of: str | None = None,
    compact: bool = False,
) -> Axes:
    """Draw several reports of one kind in one picture: values with error bars, fits, one legend.

    Every report has its colour and marker, and its fitted exponent with the interval in the legend.
    Colours, markers and text sizes that are set in matplotlib's rcParams are used. On axes of yours, the
    title and the names of the axes stay as they are.

    Args:
        reports: two or more reports of one class that have a value per depth or number of steps, such as
            those of `compare`, `compare_laws`, `stability`, `order`, `check_solver` and `check_depth`; one is
            allowed.
        labels: a text per report for the legend, with mathematics between dollar signs; if left out, what
            tells the reports apart in their networks, limits, schemes or equations, else their number.
        ax: axes to draw on, None for new ones, or a path to write a picture to (.png, .pdf or .svg).
        of: which of a report's quantities is drawn: "signal" (the default) or "gradient" for `stability`, a
            kind of branch (by default the first) for `check_depth`.
        compact: whether a new picture is as wide as a journal's column, 3.3 inches.

    Returns:
        The axes. Nothing is shown.

    Raises:
        TypeError: for something that is no report, labels that are no texts, and an `ax` of another kind.
        ValueError: for no reports, reports of several kinds or of a kind that has no value per depth, for
            fewer or more labels than reports, an unknown `of`, and a path that cannot be written to.

    Examples:
        >>> import deeplimit as dl
        >>> settings = {"depths": [8, 16, 32], "paths": 64}
        >>> reports = [dl.compare(dl.res1(3, name), **settings) for name in ("tanh", "relu")]
        >>> axes = dl.plot(reports, labels=["tanh", "ReLU"])
        >>> [text.get_text().split(", order")[0] for text in axes.get_legend().get_texts()]
        ['tanh', 'ReLU']
    """
    checked, curves, named = _read(reports, labels, of)
    validation.flag(compact, "compact")
    draw = partial(_draw, curves=curves, labels=named, chosen=labels is not None)
    if ax is not None and not isinstance(ax, (str, os.PathLike)) and hasattr(ax, "set_xscale"):
        draw(ax)  # as the user has made them
        return ax
    return drawing.plot(draw, ax, checked[0]._size, compact)


@by_default
def table(
    reports: Sequence[Report],
    labels: Sequence[str] | None = None,
    *,
    of: str | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Any:
    """Return several reports of one kind as a pandas.DataFrame: a row per report.

    Columns are "rate" (the fitted exponent), "low" and "high" (the ends of its interval), "confidence" (its
    level, which adaptive calls share among analyses), "verdict" and "seconds", then "network", "limit",
    "scheme" and "equation", where reports have them. What a report does not have is NaN, or None for texts.
    The index holds the labels.

    Args:
        reports: reports of one class, as for `plot`.
        labels: a text per report; if left out, what tells the reports apart.
        of: which of a report's quantities the rate belongs to, as for `plot`.
        path: file to write in addition: .csv, all columns in full precision, or .tex, a tabular of LaTeX's
            package booktabs with labels, rates with their intervals, and verdicts. Labels enter LaTeX as they
            are, but for % and &, and outside of mathematics _ and #, which get a backslash.

    Returns:
        The frame. `to_csv`, `to_string` and further methods of pandas work on it.

    Raises:
        TypeError: for something that is no report, labels that are no texts, a path of another kind.
        ValueError: as for `plot`.
        ImportError: where pandas is not installed.

    Examples:
        >>> import deeplimit as dl
        >>> settings = {"depths": [8, 16, 32], "paths": 64}
        >>> reports = [dl.compare(dl.res1(3, name), **settings) for name in ("tanh", "relu")]
        >>> frame = dl.table(reports, labels=["tanh", "ReLU"])
        >>> list(frame.columns), list(frame.index)
        (['rate', 'low', 'high', 'confidence', 'verdict', 'seconds', 'network', 'limit'], ['tanh', 'ReLU'])
    """
    checked, curves, named = _read(reports, labels, of)
    file = None if path is None else validation.writable_file(path, "path", (".csv", ".tex"))
    told = {name: [_said(report, name) for report in checked] for name in SUBJECTS}
    told = {name: values for name, values in told.items() if any(value is not None for value in values)}
    verdicts = [_said(report, "verdict") for report in checked]
    seconds, levels = (
        [getattr(report, name, math.nan) for report in checked] for name in ("seconds", "confidence")
    )
    flat = Table(
        (
            Column("label", named),
            Column("rate", [curve.rate for curve in curves]),
            Column("low", [curve.interval[0] for curve in curves]),
            Column("high", [curve.interval[1] for curve in curves]),
            Column("confidence", levels),
            Column("verdict", verdicts),
            Column("seconds", seconds),
            *(Column(name, values) for name, values in told.items()),
        )
    )
    frame = flat.to_frame().set_index("label")
    if file is not None:
        text = flat.to_csv()
        if file.suffix == ".tex":
            shown = named if labels is not None else [latex(name) for name in named]
            text = _latex(curves, shown, levels, verdicts)
        with files.whole_file(file) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return frame


def _read(reports: object, labels: object, of: str | None) -> tuple[list[Report], list[Curve], list[str]]:
    """Return the reports, a curve of each and their labels, or refuse them."""
    if isinstance(reports, Report):
        raise TypeError(
            f"reports must be a list of reports, got one {type(reports).__name__}; report.plot() draws one,"
            " or put it into brackets."
        )
    checked = validation.entries(reports, "reports", "a list of reports, such as [a, b]")
    if not checked:
        raise ValueError("reports must hold at least one report, got none.")
    for place, report in enumerate(checked):
        if not isinstance(report, Report):
            raise TypeError(
                f"reports[{place}] must be a report, such as compare returns, got {validation.named(report)};"
                " load_report reads one from its file."
            )
    kinds = [type(report).__name__ for report in checked]
    for place, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise ValueError(
                f"reports must be of one kind, got {kinds[0]} in reports[0] and {kind} in reports[{place}];"
                " draw each kind on axes of its own, and tabulate it by itself."
            )
    curves = [_chosen(report, place, of) for place, report in enumerate(checked)]
    return checked, curves, _labels(checked, labels)


def _chosen(report: Report, place: int, of: str | None) -> Curve:
    curves = {curve.name: curve for curve in report._curves()}
    if not curves:
        raise ValueError(
            f"reports[{place}] is of a kind without one value per depth, {type(report).__name__}; its own"
            " plot() and to_frame() show it. A class of yours returns a Curve from `_curves`."
        )
    return next(iter(curves.values())) if of is None else curves[validation.choice(of, "of", [*curves])]


def _labels(reports: Sequence[Report], labels: object) -> list[str]:
    if labels is not None:
        given = validation.entries(labels, "labels", "a list with one text per report")
        for place, label in enumerate(given):
            validation.text(label, f"labels[{place}]")
        if len(given) != len(reports):
            raise ValueError(
                f"labels must be as many as reports, got {len(given)} for {len(reports)}; each needs one."
            )
        return given
    for name in SUBJECTS:
        parts = [(_said(report, name) or "").split(", ") for report in reports]
        shared = set(parts[0]).intersection(*parts) if len(parts) > 1 else set()
        found = [", ".join(each for each in own if each not in shared) for own in parts]
        if all(found) and len({*found}) == len(reports):
            return [shorten(text, LONGEST, placeholder=" …") for text in found]
    return [str(place) for place in range(1, len(reports) + 1)]


def _said(report: Report, name: str) -> str | None:
    value = getattr(report, name, None)
    return str(value) if isinstance(value, str) else None


def _draw(axes: Axes, curves: Sequence[Curve], labels: Sequence[str], chosen: bool) -> None:
    """Draw curves on axes; labels that nobody chose are names, whose symbols become mathematics."""
    small = drawing.is_small(axes)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    entries = _entries(curves, labels if chosen else [*map(_mathematics, labels)], small)
    for curve, entry, (colour, marker) in zip(curves, entries, _styles(), strict=False):
        _draw_one(axes, curve, entry, colour, marker)
    depths = np.unique(np.concatenate([curve.depths for curve in curves]))
    drawing.depth_ticks(axes, depths.tolist())
    low, high = axes.get_ylim()
    if math.log10(high / low) < DECADES:
        drawing.number_axis(axes)
    scaled = _sizes_are_default()
    names = {curve.axis for curve in curves}
    vertical = next(iter(names)) if len(names) == 1 and not small else curves[0].name
    for axis, text in ((axes.xaxis, curves[0].across), (axes.yaxis, vertical)):
        if not axis.get_label_text():
            axis.set_label_text(text)
            if scaled:
                axis.label.set_fontsize(drawing.points(axes, 10))
    if scaled:
        axes.tick_params(which="both", labelsize=drawing.points(axes, 10))
    axes.grid(which="major", alpha=0.3)
    bars = {curve.bars for curve in curves}
    title = f"bars: {_mathematics(bars.pop())}" if len(bars) == 1 and not small else None
    sizes = {} if scaled else {"fontsize": None, "title_fontsize": None}  # None: as rcParams say
    _make_room(axes, title is not None)
    drawing.legend(axes, 9.0, title=title, loc="upper right", **sizes)


def _make_room(axes: Axes, titled: bool) -> None:
    """Raise the vertical axis so that the legend at its top covers nothing."""
    lines = titled + sum(text.count("\n") + 1 for text in axes.get_legend_handles_labels()[1])
    inches = float(axes.get_window_extent().height / drawing.figure_of(axes).dpi)
    covered = min(0.6, 0.06 + lines * 1.35 * drawing.points(axes, 9.0) / 72 / inches)
    low, high = axes.get_ylim()
    axes.set_ylim(low, low * (high / low) ** (1 / (1 - covered)))


def _draw_one(axes: Axes, curve: Curve, label: str, colour: str, marker: str) -> None:
    """Draw values with their bars, and the fitted power law through them."""
    good = np.isfinite(curve.values) & (curve.values > 0)
    depths, values = curve.depths[good].astype(float), curve.values[good]
    bars = np.stack([values - curve.low[good], curve.high[good] - values])
    # A bar that reaches 0 would end nowhere on a logarithmic axis; matplotlib cuts it off at the axes.
    axes.errorbar(
        depths,
        values,
        np.maximum(np.nan_to_num(bars, posinf=0.0), 0.0),
        fmt=marker,
        color=colour,
        markersize=4,
        capsize=2.5,
        label=label,
        zorder=3,
    )
    if math.isfinite(curve.slope) and len(depths):
        ends = np.array([depths[0], depths[-1]])
        height = np.exp(np.mean(np.log(values) - curve.slope * np.log(depths)))
        axes.plot(ends, height * ends**curve.slope, color=colour)


def _entries(curves: Sequence[Curve], labels: Sequence[str], small: bool) -> list[str]:
    """Return what a legend says: labels with orders, all in one line each, or all in two."""
    orders = [f"{curve.symbol} {curve.order}" if curve.order else "" for curve in curves]
    told = list(zip(labels, orders, strict=True))
    longest = max(len(_written(label)) + len(order) for label, order in told)
    between = "\n" if longest > (TWO_LINES if small else 2 * TWO_LINES) else ", "
    return [f"{label}{between}{order}" if order else label for label, order in told]


def _written(text: str) -> str:
    """Return about what a label with mathtext shows: no "$", no braces, names of symbols for symbols."""
    return re.sub(r"[${}\\]", "", re.sub(r"\\(mathrm|mathbf|mathit|text)\b", "", text))


def _styles() -> list[tuple[str, str]]:
    """Return colours and markers: those of rcParams, or the library's where rcParams are matplotlib's."""
    from matplotlib import rcParams, rcParamsDefault

    cycle = rcParams["axes.prop_cycle"]
    own = {} if cycle == rcParamsDefault["axes.prop_cycle"] else cycle.by_key()
    colours, markers = own.get("color", drawing.COLOURS), own.get("marker", MARKERS)
    return list(zip(itertools.islice(itertools.cycle(colours), 56), itertools.cycle(markers), strict=False))


def _sizes_are_default() -> bool:
    """Whether rcParams leave the sizes of texts as matplotlib has them, so that they may follow the axes'."""
    from matplotlib import rcParams, rcParamsDefault

    return all(rcParams[name] == rcParamsDefault[name] for name in TEXT_SIZES)


def _mathematics(text: str) -> str:
    """Return a name with its symbols as mathematics, so that fonts without them, and LaTeX, print it."""
    from matplotlib import rcParams

    special = dict.fromkeys("&%#_{}", "\\{}") if rcParams["text.usetex"] else {}
    known = SYMBOLS | {"√": r"\sqrt{\,}", "½": r"\frac{1}{2}"}  # which matplotlib's mathematics knows
    letters = (
        f"${known[each]}$" if each in known else special.get(each, "{}").format(each)
        for each in drawing.plain(text)
    )
    return "".join(letters)


def _escaped(label: str) -> str:
    """Return a label in which signs that LaTeX would take for its own stand behind a backslash.

    Between dollar signs an underscore is mathematics.
    """
    pieces = re.split(r"((?<!\\)\$.*?(?<!\\)\$)", label)
    return "".join(
        (ALONE if place % 2 else OUTSIDE).sub(r"\\\g<0>", piece) for place, piece in enumerate(pieces)
    )


def _latex(
    curves: Sequence[Curve], labels: Sequence[str], levels: Sequence[float], verdicts: Sequence[str | None]
) -> str:
    """Return a tabular of rates with their intervals, and verdicts; labels are LaTeX already."""
    told = [f"{100 * level:g} %" if math.isfinite(level) else "" for level in levels]
    shared = told[0] if len({*told}) == 1 else ""
    places = [f"@{place}@" for place in range(len(labels))]  # a table escapes what it holds
    columns = (
        Column("", places, left=True),
        Column(f"rate, {shared} interval" if shared else "rate", [curve.order for curve in curves]),
        *(() if shared else (Column("level", told),)),
        Column("verdict", verdicts, left=True),
    )
    text = Table(columns).to_latex()
    for place, label in zip(places, labels, strict=True):
        text = text.replace(place, _escaped(label), 1)
    return text
