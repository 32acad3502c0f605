"""The base of every result: how it was made, a table in five forms, typed JSON, a picture, a page."""

from __future__ import annotations

import csv
import dataclasses
import html
import io
import math
import os
import platform
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, final

import numpy as np
import torch

from deeplimit.common import axes as drawing, citations, fields, files, page, validation
from deeplimit.common.curve import Curve
from deeplimit.common.global_state import by_default
from deeplimit.common.measurement import Measurement, threads_per_operation
from deeplimit.common.serialised import FAILURES, Origin, Unwritable, told, written
from deeplimit.version import versions

if TYPE_CHECKING:
    from matplotlib.axes import Axes


RUNNING = frozenset({"workers", "executor", "store", "progress", "resume", "on_row", "checkpoints"})
"""Arguments that say how and where blocks run and are kept; they change no number."""


@final
@dataclass(frozen=True)
class Provenance:
    """How a report was made, as its file says it beside the numbers.

    Attributes:
        verb: public function that made the report; empty where it is not known.
        arguments: its arguments by name, as JSON, those left out with their defaults.
        left_out: arguments that no file can hold, such as a user's function, and why.
        seed: what everything random derives from; None where nothing is random.
        versions: of deeplimit, of Python, and of the packages that compute.
        device: name of the processor or the GPU.
        warnings: the report's reservations.
    """

    verb: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    seed: int | None = None
    versions: dict[str, str] = field(default_factory=dict)
    device: str = ""
    warnings: tuple[str, ...] = ()

    @staticmethod
    def of(verb: str, given: Mapping[str, Any]) -> Provenance:
        """Return that of a call which has just been made, on this machine."""
        arguments, left_out = {}, {}
        for name, value in given.items():
            if name in RUNNING:
                continue
            try:
                arguments[name] = written(value, name)
            except Unwritable as why:
                left_out[name] = str(why)
            except FAILURES as error:  # no result is lost for want of its provenance
                left_out[name] = f"{name} cannot be written ({type(error).__name__}: {error})"
        seed, device = given.get("seed"), given.get("device")
        number = int(seed) if isinstance(seed, (int, np.integer)) else None
        return Provenance(verb, arguments, left_out, number, versions(), device_name(device))

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield names and texts, the call first, without warnings and arguments that are None."""
        if self.verb:
            yield "call", self.verb
        stated = {name: serialised for name, serialised in self.arguments.items() if serialised is not None}
        yield from ((name, told(serialised)) for name, serialised in stated.items() if name != "seed")
        yield from ((name, f"not in the file: {why}") for name, why in self.left_out.items())
        if self.seed is not None:
            yield "seed", str(self.seed)
        if self.device:
            yield "computed on", self.device
        if self.versions:
            yield "versions", ", ".join(f"{name} {version}" for name, version in self.versions.items())


def device_name(device: Any) -> str:
    """Return the name of a GPU, or that of this machine's processor with the vector units that torch uses.

    Without a device, modules compute where the caller has put them, which may be a GPU.
    """
    if device is None:
        return _processor() + ", or the GPU of the caller's modules" * torch.cuda.is_available()
    try:
        place = torch.device(device)
        return torch.cuda.get_device_name(place) if place.type == "cuda" else _processor()
    except (AssertionError, RuntimeError):  # a report that was put together by hand may name any
        return str(device)


@cache
def _processor() -> str:
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # other systems than Linux
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{next(iter(models), name)} ({torch.backends.cpu.get_cpu_capability()})"


Values = Sequence[Any] | np.ndarray


@final
@dataclass(frozen=True)
class Column:
    """One column: a heading, one value per row, and how a value reads.

    Attributes:
        heading: what stands above it.
        values: numbers or texts, one per row; None leaves a cell empty.
        form: format specification, such as ".4g", or a function value -> text.
        error: standard errors, one per row: cells read "value ± error".
        interval: lower and upper ends, one per row each: cells read "value [low, high]".
        number: what CSV and frames hold in place of a value, such as math.exp for a logarithm.
        left: whether cells are flush left.
        least: the least width in text.
    """

    heading: str
    values: Values
    form: str | Callable[[Any], str] = ""
    error: Values | None = None
    interval: tuple[Values, Values] | None = None
    number: Callable[[Any], Any] | None = None
    left: bool = False
    least: int = 0

    def _one(self, value: Any) -> str:
        return self.form(value) if callable(self.form) else format(value, self.form)

    def cell(self, row: int) -> str:
        """Return a cell as text; empty where there is no value, or no number beside an error."""
        value = self.values[row]
        if value is None:
            return ""
        if self.error is not None:
            return "" if _is_nan(value) else f"{self._one(value)} ± {self._one(self.error[row])}"
        if self.interval is not None:
            low, high = (end[row] for end in self.interval)
            if _is_nan(value):
                return self._one(value)
            known = "(no interval)" if _is_nan(low) else f"[{self._one(low)}, {self._one(high)}]"
            return f"{self._one(value)} {known}"
        return self._one(value)

    def series(self) -> dict[str, list[Any]]:
        """Return the numbers by heading: the values, then columns of errors or of ends of intervals."""
        found: dict[str, Values] = {self.heading: self.values}
        if self.error is not None:
            found[f"{self.heading}: std. error"] = self.error
        if self.interval is not None:
            found[f"{self.heading}: low"], found[f"{self.heading}: high"] = self.interval
        change = self.number or (lambda value: value)
        return {
            name: [None if value is None else _item(change(value)) for value in values]
            for name, values in found.items()
        }


@final
@dataclass(frozen=True)
class Table:
    """Columns of equal length, with a title above and notes below.

    Examples:
        >>> from deeplimit.common.report import Column, Table
        >>> table = Table((Column("depth", [8, 16]), Column("error", [0.25, 0.125], ".3g")))
        >>> print(table)
        depth  error
            8   0.25
           16  0.125
        >>> table.to_csv()
        'depth,error\\n8,0.25\\n16,0.125\\n'
    """

    columns: tuple[Column, ...]
    title: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        lengths = {column.heading: len(column.values) for column in self.columns}
        if len(set(lengths.values())) > 1 or len(lengths) < len(self.columns):
            raise ValueError(f"columns must have different headings and equal lengths, got {lengths}.")

    def __len__(self) -> int:
        return len(self.columns[0].values) if self.columns else 0

    def cells(self) -> list[list[str]]:
        """Return the cells as texts, row by row."""
        return [[column.cell(row) for column in self.columns] for row in range(len(self))]

    def lines(self) -> list[str]:
        """Return the header and one line per row, in columns."""
        rows = [[column.heading for column in self.columns], *self.cells()]
        widths = [
            max(column.least, *(len(row[place]) for row in rows)) for place, column in enumerate(self.columns)
        ]
        return [
            "  ".join(
                cell.ljust(width) if column.left else cell.rjust(width)
                for cell, width, column in zip(row, widths, self.columns, strict=True)
            ).rstrip()
            for row in rows
        ]

    def __str__(self) -> str:
        return "\n".join([*([self.title] if self.title else []), *self.lines(), *self.notes])

    def series(self) -> dict[str, list[Any]]:
        """Return the numbers and texts by heading; errors and ends of intervals are separate columns."""
        found: dict[str, list[Any]] = {}
        for column in self.columns:
            found |= column.series()
        return found

    def to_csv(self) -> str:
        """Return the numbers in full precision as CSV, with headings in the first line."""
        series = self.series()
        return as_csv([[*series], *zip(*series.values(), strict=True)])

    def to_latex(self) -> str:
        """Return a tabular of the package booktabs, with everything escaped."""
        rows = [" & ".join(MINUS.sub("$-$", latex(cell)) for cell in row) + r" \\" for row in self.cells()]
        # Without braces \\ takes these for its option.
        rows = ["{}" + row if row[:1] in ("[", "*") else row for row in rows]
        head = " & ".join(latex(column.heading) for column in self.columns)
        places = "".join("l" if column.left else "r" for column in self.columns)
        lines = [rf"\begin{{tabular}}{{{places}}}", r"\toprule", head + r" \\", r"\midrule", *rows]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"

    def to_html(self) -> str:
        """Return a table of HTML, with everything escaped."""
        sides = ["left" if column.left else "right" for column in self.columns]

        def row(cells: Sequence[str], tag: str) -> str:
            return "".join(
                f'<{tag} style="text-align:{side}">{html.escape(cell)}</{tag}>'
                for cell, side in zip(cells, sides, strict=True)
            )

        head = row([column.heading for column in self.columns], "th")
        body = "".join(f"<tr>{row(cells, 'td')}</tr>" for cells in self.cells())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def to_frame(self) -> Any:
        """Return a pandas.DataFrame; raise ImportError where pandas is not installed."""
        try:
            import pandas
        except ImportError as error:
            cure = "pip install 'deeplimit[frames]'; to_csv needs nothing"
            raise ImportError(f"to_frame needs pandas: {cure}.") from error
        return pandas.DataFrame(self.series())


def _is_nan(value: Any) -> bool:
    return isinstance(value, (float, np.floating)) and math.isnan(value)


def _item(value: Any) -> Any:
    """Return a number of numpy as one of Python, and a word of an enumeration as a text."""
    if isinstance(value, np.generic):
        return value.item()
    return str(value) if isinstance(value, str) else value


MINUS = re.compile(r"(?<![\w.])-(?=\d)")
"""The sign of a number, which text mode sets as a hyphen."""
_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{",
    "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}",
}  # fmt: skip
SYMBOLS = {
    "±": r"\pm", "×": r"\times", "·": r"\cdot", "²": "^2", "½": r"\tfrac12", "√": r"\surd", "≤": r"\le",
    "≥": r"\ge", "∞": r"\infty", "∘": r"\circ", "∗": r"\ast", "→": r"\to", "∈": r"\in", "≈": r"\approx",
    "α": r"\alpha", "β": r"\beta", "γ": r"\gamma", "δ": r"\delta", "κ": r"\kappa", "ρ": r"\rho",
    "σ": r"\sigma", "Δ": r"\Delta", "Σ": r"\Sigma",
}  # fmt: skip


def printable(text: str) -> str:
    """Return a text without characters that a terminal would obey; a module's name may hold any."""
    return "".join(each if each == "\n" or each.isprintable() else ascii(each)[1:-1] for each in text)


def one_line(text: str) -> str:
    """Return a text without any control character, ends of lines included.

    Examples:
        >>> one_line("a\\x1b[31m\\nb")
        'a\\\\x1b[31m\\\\nb'
    """
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet takes a cell that begins with one of these for a formula, and runs it."""


def as_csv(rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as CSV: texts on one line each, and none that a spreadsheet runs; numbers stay numbers.

    Examples:
        >>> as_csv([["=HYPERLINK(1)", "-0.5", -0.5, None]])
        "'=HYPERLINK(1),-0.5,-0.5,\\n"
    """
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([*map(_harmless, row)] for row in rows)
    return buffer.getvalue()


def _harmless(cell: Any) -> Any:
    """Return a text behind an apostrophe where a spreadsheet would run it."""
    if not isinstance(cell, str):
        return cell
    try:
        float(cell)
    except ValueError:
        return ("'" if cell.startswith(FORMULAS) else "") + one_line(cell)
    return cell.strip()


def latex(text: str) -> str:
    """Return a text as LaTeX prints it: special characters escaped, mathematical symbols in $…$."""
    return "".join(
        f"${SYMBOLS[letter]}$" if letter in SYMBOLS else _SPECIAL.get(letter, letter)
        for letter in one_line(text)
    )


REPEAT = (
    "it was read without its measurement. Call the verb again with the same arguments; the same seed gives"
    " the same paths"
)
"""What a report says that had a measurement, and comes from `from_dict` or from a file that holds none."""
KINDS: dict[str, type[Report]] = {}
"""Every report class that has been imported, by the word that names it in files."""


def _paragraph(facts: Sequence[tuple[str, str]]) -> str:
    """Return pairs of a name and a text as HTML; empty where there are none."""
    return f"<p>{page.facts(facts)}</p>" if facts else ""


def lines(facts: Sequence[tuple[str, str]]) -> list[str]:
    """Return pairs of a name and a text as lines."""
    return [f"{name:<9}  {text}" if name else text for name, text in facts]


def _without_clock(content: object) -> object:
    """Return a report's content without what a clock read: entries `seconds` that are numbers."""
    if isinstance(content, dict):
        return {
            name: _without_clock(value)
            for name, value in content.items()
            if name != "seconds" or not isinstance(value, (int, float))
        }
    return [_without_clock(value) for value in content] if isinstance(content, (list, tuple)) else content


class Report(ABC):
    """A result: plain numbers with a headline, a table, a picture, and reservations.

    A subclass is a frozen dataclass with a `kind`, a `headline`, a `_table` and a `_draw`. Its fields are
    texts, truth values, integers, floats, arrays (`deeplimit.common.fields` says how to name their
    dimensions), tuples, dictionaries, further frozen dataclasses, or None. Everything else follows:
    `to_dict` and `from_dict`, `save`, `deeplimit.load_report`, `print`, `plot`, the view in a notebook,
    `to_csv`, `to_latex`, `to_frame`, `save_html`, `citation`. `deeplimit.testing.check_report` puts an
    instance to the test.

    Examples:
        >>> import dataclasses, deeplimit as dl
        >>> from deeplimit.common.report import Column, Table
        >>> @dataclasses.dataclass(frozen=True, eq=False)
        ... class Counts(dl.Report):
        ...     kind = "counts"
        ...     words: tuple[str, ...]
        ...     @property
        ...     def headline(self):
        ...         return f"{len(self.words)} words"
        ...     def _table(self):
        ...         return Table((Column("word", self.words), Column("letters", [*map(len, self.words)])))
        ...     def _draw(self, axes):
        ...         axes.bar(self.words, [*map(len, self.words)])
        >>> print(Counts(("path", "depth")))
        2 words
        <BLANKLINE>
         word  letters
         path        4
        depth        5
    """

    kind: ClassVar[str]
    """The word that names the class in files; no two classes share one."""
    no_paths: ClassVar[str] = (
        "nothing says what measured it. A report that is `measured_by` a measurement draws its paths"
    )
    """Why `path` has nothing to draw, and what to do instead, for reports without a measurement."""
    _origin: ClassVar[Origin | None] = None
    _provenance: ClassVar[Provenance | None] = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__repr__" not in vars(cls):  # `dataclass` leaves one that is there
            cls.__repr__ = Report.__repr__  # type: ignore[method-assign]
        kind = cls.__dict__.get("kind")
        if kind is None:
            return
        other = KINDS.get(kind)
        if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(
                f"kind {kind!r} of {cls.__qualname__} is taken by {other.__module__}.{other.__qualname__};"
                " choose another word."
            )
        KINDS[kind] = cls

    # What a report says of itself.

    @property
    @abstractmethod
    def headline(self) -> str:
        """The conclusion in one line."""

    @abstractmethod
    def _table(self) -> Table:
        """Return the numbers, described once for text, CSV, LaTeX, HTML and data frames."""

    @abstractmethod
    def _draw(self, axes: Axes) -> None:
        """Draw on axes, whatever their size; matplotlib is imported here and not before."""

    def _curves(self) -> Sequence[Curve]:
        """Return what `deeplimit.plot` and `deeplimit.table` show beside other reports; () if nothing.

        The first curve is the one that is shown unless another is asked for by its name.
        """
        return ()

    def _facts(self) -> Sequence[tuple[str, str]]:
        """Return what was found beside the table: pairs of a name (or "") and a text."""
        return ()

    def _details(self) -> Sequence[str]:
        """Return lines that `full()` alone prints, behind the table."""
        return ()

    def _setting(self) -> Sequence[tuple[str, str]]:
        """Return what was measured and how, which comes last: pairs of a name (or "") and a text."""
        return ()

    def _reservations(self) -> Sequence[str]:
        """Return what to know before trusting the numbers."""
        told: Sequence[str] = getattr(self, "reservations", ())
        return told

    def _sources(self) -> Sequence[str]:
        """Return what to cite: keys in `deeplimit.common.citations`, BibTeX entries, or lines of text.

        By default the field `citations` of the report. Files that earlier versions wrote have none.
        """
        told: Sequence[str] = getattr(self, "citations", ())
        return told

    @property
    def _title(self) -> str:
        """The title of a page of HTML."""
        return self.headline

    @property
    def _size(self) -> tuple[float, float]:
        """The size of a new picture, in inches."""
        return drawing.SIZE

    # What follows from it.

    def __eq__(self, other: object) -> bool:
        """Whether two reports are of one class and hold the same content; NaN equals NaN.

        What a clock read, `seconds`, is not compared: the same call made again, or taken from a store, takes
        another time.
        """
        if type(other) is not type(self):
            return NotImplemented
        return self is other or _without_clock(self.to_dict()) == _without_clock(other.to_dict())

    def __hash__(self) -> int:
        return hash((type(self), str(getattr(self, "verdict", ""))))  # headlines may have the time

    def __str__(self) -> str:
        return self._text(())

    def __repr__(self) -> str:
        return str(self)

    def full(self) -> str:
        """Return all that the report says; `print(report)` leaves out what few readers need."""
        return self._text(self._details())

    def _text(self, details: Sequence[str]) -> str:
        told = self._reservations()
        parts = [
            [self.headline, *lines(self._facts())],
            str(self._table()).splitlines(),
            details,
            ["Caveats:", *(f"- {text}" for text in told)] if told else [],
            lines(self._setting()),
        ]
        return printable("\n\n".join("\n".join(part) for part in parts if part))

    def measured_by(self, measurement: Measurement[Any, Any]) -> Self:
        """Return this report, which from now on can draw the paths of its measurement again."""
        object.__setattr__(self, "_origin", Origin(measurement))
        return self

    def measured_as(self, content: object) -> Self:
        """Return this report with what its file says of its measurement; None where the file says nothing."""
        if content is not None:
            object.__setattr__(self, "_origin", Origin.read(content))
        return self

    @property
    def provenance(self) -> Provenance:
        """How it was made: the call with its arguments, seed, versions, device, warnings."""
        made = self._provenance
        if made is None:
            known = {name: getattr(self, name, None) for name in ("seed", "device")}
            made = dataclasses.replace(Provenance.of("", known), arguments={}, left_out={})
        return dataclasses.replace(made, warnings=tuple(self._reservations()))

    def called_by(self, verb: str, given: Mapping[str, Any]) -> Self:
        """Return this report, which from now on says by which call it was made: `given` are the arguments."""
        object.__setattr__(self, "_provenance", Provenance.of(verb, given))
        return self

    def made_as(self, content: object) -> Self:
        """Return this report with what its file says of how it was made; None where the file says nothing.

        Raises TypeError or ValueError that name what is damaged.
        """
        made = (
            Provenance(seed=getattr(self, "seed", None), versions=getattr(self, "versions", {}))
            if content is None
            else fields.read(Provenance, content, "provenance")
        )
        object.__setattr__(self, "_provenance", made)
        return self

    def path(self, index: int) -> Any:
        """Draw one path again, to the last bit: what the network did at every depth, and its numbers.

        Raises:
            TypeError: for an index that is not an integer.
            ValueError: for an index that was not measured, a report that has no paths, and one from a file
                whose measurement a file cannot hold; the message says what to do.
        """
        return self._path(index)

    @by_default
    def _path(self, index: int, *which: int) -> Any:
        if self._origin is None:
            raise ValueError(f"{type(self).__name__} has no paths to draw again: {self.no_paths}.")
        measurement = self._origin.again()
        with threads_per_operation(1, measurement.device):
            try:
                return measurement.path(index, *which)
            except FAILURES as error:
                fit = isinstance(error, ValueError) or not isinstance(index, int)
                if fit or self._origin.measurement is not None:
                    raise
                raise ValueError(
                    f"report cannot draw a path again: the measurement in its file is damaged"
                    f" ({error}). Call the verb again with the same arguments."
                ) from error

    def to_dict(self) -> dict[str, Any]:
        """Return every field as plain Python: lists, texts, numbers; NaN and infinities as texts."""
        return dict(fields.plain(self))

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """Return the report whose `to_dict()` this is; raise TypeError or ValueError that name the field."""
        report: Self = fields.read(cls, content, "")
        return report.made_as(None)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report as JSON, whole or not at all; `deeplimit.load_report` reads it back.

        Raises TypeError or ValueError, before anything is written, where `path` cannot be written to (.json).
        """
        self._written(self.to_json(), path, ".json")

    def to_json(self) -> str:
        """Return the text that `save` writes, which other tools can read from a pipe."""
        measurement = None if self._origin is None else self._origin.written()
        provenance = fields.plain(self.provenance)
        return files.as_text(self.kind, self.to_dict(), measurement=measurement, provenance=provenance)

    def plot(self, ax: Axes | str | os.PathLike[str] | None = None, *, compact: bool = False) -> Axes:
        """Draw the report and return the axes; nothing is shown.

        `ax` is axes to draw on, None for new ones, or a path to write a picture to (.png, .pdf or .svg).
        Texts shrink and shorten on small axes. `compact` makes a picture as wide as a journal's column, 3.3
        inches, and 2.5 inches high: few words, which the caption says instead, and none below 6 points.
        Panels of such a picture stand one below another, 1.6 inches each.

        Raises TypeError for anything else, ValueError for a path that cannot be written to.
        """
        return drawing.plot(self._draw, ax, self._size, compact)

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the table as CSV, in full precision; write it to `path` (.csv) if one is given."""
        return self._written(self._table().to_csv(), path, ".csv")

    def to_latex(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the table as a tabular of LaTeX's package booktabs; write it to `path` (.tex) if given."""
        return self._written(self._table().to_latex(), path, ".tex")

    def to_frame(self) -> Any:
        """Return the table as a pandas.DataFrame, in full precision; raise ImportError without pandas."""
        return self._table().to_frame()

    def citation(self) -> str:
        """Return BibTeX entries of this library, and of the theorems and methods that this report used."""
        return citations.bibtex(("deeplimit", *self._sources()))

    def _sections(self) -> list[page.Section]:
        """Return the sections of the report as HTML, from the top down."""
        table = self._table()
        notes = "".join(f"<br>{html.escape(note)}" for note in table.notes)
        return [
            ("", _paragraph(self._facts())),
            ("", (f"<p>{html.escape(table.title)}</p>" if table.title else "") + table.to_html() + notes),
            ("", drawing.to_svg(self._draw, self._size)),
            ("", page.items(self._details())),
            ("Caveats", page.items(self._reservations())),
            ("Setting", _paragraph(self._setting())),
        ]

    def _repr_html_(self) -> str:
        told = f"<div><p><b>{html.escape(self.headline)}</b></p>{page.body(self._sections())}</div>"
        return printable(told)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write the report as one HTML page that needs nothing else: text, picture and provenance.

        Raises TypeError or ValueError, before anything is written, where `path` cannot be written to
        (.html).
        """
        text = page.whole(
            title=self._title,
            sections=[*self._sections(), ("Provenance", page.facts(self.provenance.facts()))],
            verdict=getattr(self, "verdict", None),
            footer=f"deeplimit {self.provenance.versions.get('deeplimit', '')}",
        )
        self._written(printable(text), path, ".html")

    @staticmethod
    def _written(text: str, path: object, suffix: str) -> str:
        """Return the text; write it, whole or not at all, if there is a path."""
        if path is not None:
            checked = validation.writable_file(path, "path", (suffix,))
            with files.whole_file(checked) as temporary:
                temporary.write_text(text, encoding="utf-8")
        return text
