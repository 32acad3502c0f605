"""The contract of a report, checked on one instance: whatever a subclass defines, the rest must follow."""

from __future__ import annotations

import csv
import dataclasses
import html
import io
import json
import math
import re
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deeplimit.common import axes as drawing, fields, files, validation
from deeplimit.common.global_state import __tracebackhide__, by_default  # noqa: F401
from deeplimit.common.report import KINDS, Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

SMALL = drawing.COLUMN
"""Inches of a column of a paper: axes of this size must hold every text of a picture."""
DAMAGE: list[Any] = ["damaged", {}]
"""What no field may be."""
VOID = {"br", "meta", "link", "img", "path", "use", "image", "rect", "hr"}


@by_default
def check_report(report: Report) -> None:
    """Check an instance of your `deeplimit.Report` against the contract of all reports.

    Checked: JSON is written and read back, and every damaged field is refused by its name. File and page
    say how the report was made: seed, versions, device, warnings. Printed parts come in order. CSV and
    LaTeX can be read back, and HTML is escaped. Pictures use the given axes, and their texts stay within
    3.3 x 2.5 inches, and within a compact picture, in 6 points or more. Citations are BibTeX. A path that
    was not measured is refused. Not checked: that the numbers are right.

    Raises TypeError for an argument that is not a report, AssertionError that names what is broken.

    Examples:
        >>> import deeplimit as dl
        >>> dl.testing.check_report(dl.compare(dl.res1(2, "tanh"), depths=[4, 8, 16], paths=64))
    """
    if not isinstance(report, Report):
        raise TypeError(f"report must be a deeplimit.Report, got {validation.named(report)}.")
    name = type(report).__name__
    for check in (_files, _damage, _made, _text, _csv, _latex, _html, _picture, _bibtex, _path):
        for problem in check(report):
            raise AssertionError(f"{name}: {problem}.")


def _files(report: Report) -> Iterator[str]:
    """JSON both ways, through a file."""
    kind = type(report)
    if not getattr(kind, "kind", ""):
        yield "the class needs a kind, the word that names it in files"
        return
    if KINDS.get(kind.kind) is not kind:
        yield f"kind {kind.kind!r} belongs to another class"
    if not dataclasses.is_dataclass(report):
        yield "the class must be a frozen dataclass"
        return
    content = report.to_dict()
    try:
        json.dumps(content, allow_nan=False)
    except (TypeError, ValueError) as error:
        yield f"to_dict() is not JSON: {error}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        report.save(path)
        stored, read = files.load(path)
    again = kind.from_dict(read)
    if stored != kind.kind or again.to_dict() != content:
        yield "from_dict(to_dict()) is another report"
    if str(again) != str(report):
        yield "the report that was read prints another text"


def _damage(report: Report) -> Iterator[str]:
    """Damaged fields are refused by their names."""
    content = report.to_dict()
    missing = {
        field.name: {key: value for key, value in content.items() if key != field.name}
        for field in dataclasses.fields(report)  # type: ignore[arg-type]
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    wrong = {
        name: content | {name: DAMAGE}
        for name, hint in fields.hints(type(report)).items()
        if "Any" not in repr(hint)
    }
    for what, damaged in (("missing", missing), ("damaged", wrong), ("unknown", {"x_": content | {"x_": 1}})):
        for name, changed in damaged.items():
            try:
                type(report).from_dict(changed)
            except (TypeError, ValueError) as error:
                if not re.search(rf"\b{name}\b", str(error)):
                    yield f"the refusal of the {what} field {name} does not name it: {error}"
            else:
                yield f"the {what} field {name} is not refused"


def _made(report: Report) -> Iterator[str]:
    """File and page say how the report was made, and the file that is read says the same."""
    with tempfile.TemporaryDirectory() as folder:
        path, page = Path(folder) / "report.json", Path(folder) / "report.html"
        report.save(path)
        report.save_html(page)
        stored, shown = files.loaded(path).get("provenance", {}), page.read_text(encoding="utf-8")
    again = type(report).from_dict(report.to_dict()).made_as(stored)
    if not stored or again.provenance != report.provenance:
        yield "its file does not hold the provenance"
        return
    seed = getattr(report, "seed", stored["seed"])
    if stored["seed"] != seed:
        yield f"its file says seed {stored['seed']}, the report {seed}"
    if stored["warnings"] != list(report._reservations()):
        yield "its file does not hold the reservations as warnings"
    for name, text in report.provenance.facts():
        if html.escape(text) not in shown:
            yield f"the page lacks the provenance's {name}: {text}"


def _text(report: Report) -> Iterator[str]:
    """Headline, table, reservations, in this order."""
    headline, text, table = report.headline, str(report), report._table()
    if "\n" in headline or not headline:
        yield "headline must be one line"
    if not text.startswith(headline):
        yield "the printed report does not begin with its headline"
    lines = table.lines()
    places = [text.find(line) for line in lines]
    if -1 in places:
        yield f"the printed report lacks a line of its table: {lines[places.index(-1)]!r}"
    for reservation in report._reservations():
        if text.find(reservation) < max(places):
            yield f"a reservation is not printed below the table: {reservation!r}"
    whole = set(report.full().splitlines())
    if missing := [line for line in text.splitlines() if line not in whole]:
        yield f"full() lacks a line of the printed report: {missing[0]!r}"


def _csv(report: Report) -> Iterator[str]:
    """CSV and frame hold the numbers in full precision."""
    series = report._table().series()
    heading, *rows = csv.reader(io.StringIO(report.to_csv()))
    if heading != list(series):
        yield f"the first line of the CSV is {heading}"
    for name, column in zip(heading, zip(*rows, strict=True), strict=True) if rows else ():
        for cell, value in zip(column, series[name], strict=True):
            same = cell == ("" if value is None else str(value)) or (
                isinstance(value, float) and (float(cell) == value or math.isnan(value))
            )
            if not same:
                yield f"the CSV has {cell!r} for {name} = {value!r}"
    try:
        frame = report.to_frame()
    except ImportError:
        return
    if list(frame.columns) != heading or len(frame) != len(rows):
        yield "to_frame() and to_csv() differ"


def _latex(report: Report) -> Iterator[str]:
    """Rows of LaTeX have a cell for each column, and nothing unescaped."""
    lines = report.to_latex().splitlines()
    columns = len(report._table().columns)
    for line in lines[2:-2]:
        bare = re.sub(r"\\[&%$#_{}]", "", line)
        if line != r"\midrule" and bare.count("&") != columns - 1:
            yield f"a row of LaTeX has {bare.count('&') + 1} cells of {columns}: {line}"
        if re.search(r"[#%~]", bare) or bare.count("$") % 2 or bare.count("{") != bare.count("}"):
            yield f"a row of LaTeX is not escaped: {line}"


class _Tags(HTMLParser):
    """Collects tags that are not closed, and the text between them."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text += data


def _html(report: Report) -> Iterator[str]:
    """The view in a notebook is well-formed, without scripts, with headline and picture."""
    found = _Tags()
    found.feed(report._repr_html_())
    if found.open:
        yield f"HTML leaves open: {', '.join(found.open)}"
    if "script" in found.seen or not {"table", "svg"} <= found.seen:
        yield "HTML must hold a table and a picture, and no script"
    table = _Tags()
    table.feed(report._table().to_html())
    for cell in (cell for row in report._table().cells() for cell in row):
        if cell not in table.text:
            yield f"HTML lacks, or does not escape, a cell of the table: {cell!r}"
    for text in (report.headline, *report._reservations()):
        if text not in found.text:
            yield f"HTML lacks, or does not escape: {text!r}"


def _picture(report: Report) -> Iterator[str]:
    """Drawn on given axes; on small ones no text runs off."""
    from matplotlib.text import Text

    axes = drawing.new_axes(SMALL)
    figure = drawing.figure_of(axes)
    figure.set_layout_engine("none")
    if report.plot(axes) is not axes:
        yield "plot(axes) must return these axes"
    yield from _runs_off(figure, f"on axes of {SMALL[0]} x {SMALL[1]} inches")
    compact = drawing.figure_of(report.plot(compact=True))
    yield from _runs_off(compact, "with compact=True")
    wide, tall = compact.get_size_inches()
    if wide != SMALL[0] or tall < SMALL[1]:
        yield f"with compact=True the figure must be {SMALL[0]} inches wide, got {wide:g} x {tall:g}"
    for text in compact.findobj(Text):
        if text.get_visible() and text.get_text().strip() and float(text.get_fontsize()) < drawing.LEAST:
            yield f"with compact=True this is smaller than {drawing.LEAST:g} points: {text.get_text()!r}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.png"
        report.plot(path)
        if not path.stat().st_size > 1000:
            yield "plot(path) wrote next to nothing"


def _runs_off(figure: Figure, where: str) -> Iterator[str]:
    """Texts and axes that are not wholly within the figure."""
    figure.canvas.draw()
    whole = figure.bbox.padded(1.0)
    for what, box in _drawn(figure):
        if not (whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0 and box.y1 <= whole.y1):
            yield f"{where} this runs off: {what!r}"


def _drawn(figure: Figure) -> Iterator[tuple[str, Bbox]]:
    """Yield texts and axes with their ticks, and the boxes that they fill."""
    from matplotlib.axes import Axes

    for axes in figure.findobj(Axes):
        assert isinstance(axes, Axes)
        legend = axes.get_legend()
        texts = [axes.title, *axes.texts, *([] if legend is None else legend.get_texts())]
        yield from ((text.get_text(), text.get_window_extent()) for text in texts if text.get_text().strip())
        for axis in (axes.xaxis, axes.yaxis) if axes.axison else ():
            box = axis.get_tightbbox(None)
            if box is not None:
                yield f"{axis.axis_name} axis, {axis.get_label_text()}", box


def _bibtex(report: Report) -> Iterator[str]:
    """BibTeX of this library first, then of what the report names; every brace is closed."""
    text = report.citation()
    keys = re.findall(r"^@\w+\{(\w+),$", text, re.MULTILINE)
    if keys[:1] != ["deeplimit"] or len(keys) != len(set(keys)) or text.count("{") != text.count("}"):
        yield f"citation() is not BibTeX: {text}"


def _path(report: Report) -> Iterator[str]:
    """No path has the number -1, whether the report has paths or not."""
    try:
        report.path(-1)
    except ValueError as error:
        if "path" not in str(error) and "index" not in str(error):
            yield f"the refusal of path(-1) says neither that there are no paths nor which there are: {error}"
    else:
        yield "path(-1) is not refused"
