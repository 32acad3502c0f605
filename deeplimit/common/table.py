"""A table described once, written in five ways: text, CSV, LaTeX, HTML, a data frame."""

from __future__ import annotations

import csv
import html
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

Values = Sequence[Any] | np.ndarray


@final
@dataclass(frozen=True)
class Column:
    """One column: a heading, one value per row, and how a value reads.

    Attributes:
        heading: what stands above it. values: numbers or texts, one per row; None leaves a cell empty.
        form: format specification, such as ".4g", or a function value -> text.
        error: standard errors, one per row: cells read "value ± error".
        interval: lower and upper ends, one per row each: cells read "value [low, high]".
        number: what CSV and frames hold in place of a value, such as math.exp for a logarithm.
        left: whether cells are flush left. least: the least width in text.
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
        >>> from deeplimit.common.table import Column, Table
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
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(series)
        writer.writerows(zip(*series.values(), strict=True))
        return buffer.getvalue()

    def to_latex(self) -> str:
        """Return a tabular of the package booktabs, with everything escaped."""
        rows = [" & ".join(map(latex, row)) + r" \\" for row in self.cells()]
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


_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{",
    "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}",
}  # fmt: skip
_SYMBOLS = {
    "±": r"\pm", "×": r"\times", "·": r"\cdot", "²": "^2", "½": r"\tfrac12", "√": r"\surd", "≤": r"\le",
    "≥": r"\ge", "∞": r"\infty", "∘": r"\circ", "∗": r"\ast", "→": r"\to", "∈": r"\in", "≈": r"\approx",
    "α": r"\alpha", "β": r"\beta", "γ": r"\gamma", "δ": r"\delta", "κ": r"\kappa", "ρ": r"\rho",
    "σ": r"\sigma", "Δ": r"\Delta", "Σ": r"\Sigma",
}  # fmt: skip


def printable(text: str) -> str:
    """Return a text without characters that a terminal would obey; a module's name may hold any."""
    return "".join(each if each == "\n" or each.isprintable() else ascii(each)[1:-1] for each in text)


def latex(text: str) -> str:
    """Return a text as LaTeX prints it: special characters escaped, mathematical symbols in $…$."""
    return "".join(
        f"${_SYMBOLS[letter]}$" if letter in _SYMBOLS else _SPECIAL.get(letter, letter) for letter in text
    )
