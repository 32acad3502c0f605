"""The base of every result: typed JSON both ways, a table, a picture, a page, and what to cite."""

from __future__ import annotations

import dataclasses
import html
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from deeplimit.common import axes as drawing, citations, fields, files, page, validation
from deeplimit.common.measurement import Measurement, one_thread_per_operation
from deeplimit.common.provenance import Provenance
from deeplimit.common.serialised import Origin
from deeplimit.common.table import Table, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

REPEAT = (
    "it was read without its measurement. Call the verb again with the same arguments; the same seed gives"
    " the same paths"
)
"""What a report says that had a measurement, and comes from `from_dict` or from a file that holds none."""
KINDS: dict[str, type[Report]] = {}
"""Every report class that has been imported, by the word that names it in files."""


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
        >>> from deeplimit.common.table import Column, Table
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

    def _facts(self) -> Sequence[tuple[str, str]]:
        """Return what was measured and how: pairs of a name (or "") and a text."""
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

    def __str__(self) -> str:
        parts = [self._head(), str(self._table()).splitlines(), self._tail()]
        return printable("\n\n".join("\n".join(part) for part in parts if part))

    def _head(self) -> list[str]:
        return [self.headline, *(f"{name:<9}  {text}" if name else text for name, text in self._facts())]

    def _tail(self) -> list[str]:
        told = self._reservations()
        return ["Reservations:", *(f"- {text}" for text in told)] if told else []

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
            made = Provenance.here(getattr(self, "seed", None), getattr(self, "device", None))
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

    def _path(self, index: int, *which: int) -> Any:
        if self._origin is None:
            raise ValueError(f"{type(self).__name__} has no paths to draw again: {self.no_paths}.")
        measurement = self._origin.again()
        with one_thread_per_operation(measurement.device):
            return measurement.path(index, *which)

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
        measurement = None if self._origin is None else self._origin.written()
        provenance = fields.plain(self.provenance)
        files.save(self.kind, self.to_dict(), path, measurement=measurement, provenance=provenance)

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
            ("", f"<p>{page.facts(self._facts())}</p>"),
            ("", (f"<p>{html.escape(table.title)}</p>" if table.title else "") + table.to_html() + notes),
            ("", drawing.to_svg(self._draw, self._size)),
            ("Reservations", page.items(self._reservations())),
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
