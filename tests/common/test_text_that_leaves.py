"""Names that reach a spreadsheet, LaTeX or a terminal: none is run, none is obeyed, numbers stay numbers."""

import csv
import io
import math

import pytest
from counted import Sum
from typer.testing import CliRunner

import deeplimit as dl
from deeplimit.cli import app
from deeplimit.common import export
from deeplimit.common.report import Column, Table, as_csv

LIVE = ["=HYPERLINK(1)", "+1+cmd|'/C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "-", "=1\n=2"]
CONTROL = ["a\x1b[31mb", "a\x07b", "a\x9bb", "a\u202eb", "a\x00b", "a\x7fb", "a\nb", "a\r\nb"]


def cells(text):
    return [*csv.reader(io.StringIO(text))]


@pytest.mark.parametrize("name", LIVE)
def test_no_cell_is_a_formula(name):
    table = Table((Column(name, [name, "plain"]), Column("number", [-0.5, -1])))
    rows = cells(table.to_csv())
    for cell in (rows[0][0], rows[1][0]):
        assert cell[0] not in "=+-@\t\r"
        assert cell.isprintable()
    assert [row[1] for row in rows] == ["number", "-0.5", "-1"]
    assert rows[2][0] == "plain"


@pytest.mark.parametrize("name", CONTROL)
def test_no_control_character_leaves(name):
    table = Table((Column("name", [name]), Column(name, [1.0])))
    for text in (table.to_csv(), table.to_latex()):
        assert all(line.isprintable() for line in text.split("\n"))
    assert len(cells(table.to_csv())) == 2
    assert len(table.to_latex().split("\n")) == len(Table((Column("a", ["b"]),)).to_latex().split("\n"))


def test_numbers_stay_numbers_also_as_texts():
    values = ["-0.5", "+1e-3", "-inf", "nan", -0.25, -3, math.inf, None, True]
    found = cells(as_csv([values]))[0]
    assert found == ["-0.5", "+1e-3", "-inf", "nan", "-0.25", "-3", "inf", "", "True"]


def test_names_of_a_store_are_not_obeyed(tmp_path):
    path = tmp_path / "runs.sqlite"
    dl.measure(Sum(2), store=dl.Store(path, "=1\x1b[31m"))
    export.export(dl.Store(path), None, tmp_path / "list.csv")
    (_, row) = cells((tmp_path / "list.csv").read_text(encoding="utf-8"))
    assert row[2].startswith("'=1")
    assert "\x1b" not in row[2]
    shown = CliRunner().invoke(app, ["runs", str(path)])
    assert shown.exit_code == 0
    assert "\x1b" not in shown.stdout
