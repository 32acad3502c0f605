"""Scoreboards that cannot be run or read are refused before any work."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from refusals import assert_names, assert_refused, go
from typer.testing import CliRunner

import deeplimit as dl
from deeplimit import cli
from deeplimit.common import files
from deeplimit.papers.scoreboard import RowResult, runs


def stored(file="board.json", **changes):
    """A small scoreboard as a file; `changes` to its row, or to the whole where they name a field of it (None
    removes).
    """
    numbers = np.array([0.2, 0.1])
    result = RowResult(
        **dict.fromkeys(
            (
                "key",
                "statement",
                "setting",
                "theorem",
                "network",
                "limit",
                "reason",
                "wrongly",
                "control_reason",
            ),
            "?",
        ),
        **{
            "predicted": 0.5,
            "rate": 0.5,
            "interval": (0.4, 0.6),
            "seconds": 1.0,
            "outcome": "agrees",
            "verdict": "converges",
        },
        **{"control": "caught", "control_verdict": "does not converge", "depths": np.array([16, 32])},
        **dict.fromkeys(("errors", "control_errors", "worst"), numbers),
    )
    board = dl.Scoreboard((result,), True, 0, 0.999, "cpu", dl.__version__)
    board.save(file)
    document = json.loads(Path(file).read_text(encoding="utf-8"))
    for name, value in changes.items():
        place = document["report"] if name in document["report"] else document["report"]["rows"][0]
        if value is None:
            del place[name]
        else:
            place[name] = value
    Path(file).write_text(files.sealed(document), encoding="utf-8")
    return file


def written(name, text):
    Path(name).write_text(text, encoding="utf-8")
    return name


def compared(name):
    go(dl.res1(2, "tanh")).save(name)
    return name


def folder(name):
    Path(name).mkdir()
    return name


STATEMENTS = ("[M] Prop. 11", "[C] Thm 4.4, SDE")  # a text that names no row is told which there are
ASKED = [
    ("only nonsense", {"only": "nonsense"}, ValueError, ("only", "'nonsense'", *STATEMENTS)),
    (
        "only one of two known",
        {"only": ["Thm 4.3", "Thm 4.33"]},
        ValueError,
        ("only", "'Thm 4.33'", *STATEMENTS),
    ),
    ("only nothing", {"only": []}, ValueError, ("only", "[]", *STATEMENTS)),
    ("only a blank", {"only": [" "]}, ValueError, ("only", "' '", *STATEMENTS)),
    ("only 3", {"only": 3}, TypeError, ("only", "3")),
    ("quick 1", {"quick": 1}, TypeError, ("quick", "1")),
    ("seed -1", {"seed": -1}, ValueError, ("seed", "-1")),
    ("device tpu", {"device": "tpu"}, ValueError, ("device", "'tpu'", "'cpu'", "'cuda'")),
    ("workers 0", {"workers": 0}, ValueError, ("workers", "0")),
    ("on_row 3", {"on_row": 3}, TypeError, ("on_row", "RowResult", "3")),
    ("resume 3", {"resume": 3}, TypeError, ("resume", "3")),
    ("resume .txt", {"resume": "board.txt"}, ValueError, ("resume", ".json", "'board.txt'")),
    ("resume no folder", {"resume": "no/board.json"}, ValueError, ("resume", "'no'", "folder")),
    ("resume a folder", {"resume": lambda: folder("b.json")}, ValueError, ("resume", "folder", "'b.json'")),
    ("resume a long name", {"resume": "b" * 260 + ".json"}, ValueError, ("resume", "265 bytes")),
    (
        "resume a CompareReport",
        {"resume": lambda: compared("r.json")},
        ValueError,
        ("r.json", "'compare'", "scoreboard"),
    ),
    ("resume text", {"resume": lambda: written("b.json", "agrees")}, ValueError, ("b.json", "not JSON")),
]


@pytest.mark.parametrize(("asked", "error", "pins"), [pytest.param(*rest, id=name) for name, *rest in ASKED])
def test_a_scoreboard_that_cannot_be_run_is_refused_before_any_work(
    asked, error, pins, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runs, "_measure", lambda *args: pytest.fail("measured before it checked"))
    given = {
        name: value() if name == "resume" and callable(value) else value for name, value in asked.items()
    }
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert_refused(lambda: dl.validate(**given), error, *pins)
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


DAMAGED = [
    ("no rows", {"rows": None}, ("the report", "rows")),
    ("rows of numbers", {"rows": [3]}, ("rows[0]", "3")),
    ("quick a text", {"quick": "yes"}, ("quick", "bool", "'yes'")),
    ("confidence a text", {"confidence": "high"}, ("confidence", "'high'")),
    ("row without rate", {"rate": None}, ("rows[0]", "rate")),
    ("row without key, control", {"key": None, "control": None}, ("rows[0]", "control", "key")),
    ("row with more", {"rte": 1}, ("rows[0]", "rte")),
    ("key a list", {"key": [1]}, ("rows[0].key", "str", "[1]")),
    ("outcome", {"outcome": "maybe"}, ("rows[0].outcome", "agrees", "disagrees", "cannot tell", "'maybe'")),
    ("control", {"control": "converges"}, ("rows[0].control", "caught", "not caught", "'converges'")),
    ("interval of three", {"interval": [1, 2, 3]}, ("rows[0].interval", "[1, 2, 3]")),
    ("errors too short", {"errors": [0.1]}, ("rows[0].errors", "(1,)")),
    ("errors of texts", {"errors": ["a", "b"]}, ("rows[0].errors", "['a', 'b']")),
]


@pytest.mark.parametrize(("changes", "pins"), [pytest.param(*rest, id=name) for name, *rest in DAMAGED])
def test_a_damaged_scoreboard_is_neither_loaded_nor_resumed_nor_written_over(
    changes, pins, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runs, "_measure", lambda *args: pytest.fail("measured before it checked"))
    file = Path(stored(**changes))
    before = file.read_bytes()
    assert_refused(lambda: dl.load_report(file), ValueError, "'board.json'", "damaged", *pins)
    again = {"quick": True, "only": "Thm 4.3", "resume": file}
    assert_refused(lambda: dl.validate(**again), ValueError, "'board.json'", "damaged", *pins, "delete it")
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["board.json"]


def test_the_undamaged_twin_is_loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    board = dl.load_report(stored())
    assert board.verdict == "agrees"
    board.save("again.json")
    assert dl.load_report("again.json").to_dict() == board.to_dict()


def test_a_scoreboard_without_rows_agrees_with_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert dl.load_report(stored(rows=[])).verdict == "cannot tell"


USAGE = [
    (["--only", "nonsense"], ("only", "'nonsense'", *STATEMENTS)),
    (["--json", "x.txt"], ("--json", ".json", "'x.txt'")),
    (["--json", "folder.json"], ("--json", "folder", "'folder.json'")),
    (["--json", "compare.json"], ("compare.json", "'compare'", "scoreboard")),
    (["--json", "text.json"], ("text.json", "not JSON")),
    (["--json", "damaged.json"], ("damaged.json", "rows[0]", "rate", "delete it")),
    (["--plot", "x.gif"], ("--plot", ".png", ".pdf", ".svg", "'x.gif'")),
    (["--seed", "-1"], ("seed", "-1")),
    (["--device", "tpu"], ("device", "'tpu'", "'cpu'", "'cuda'")),
]


@pytest.mark.parametrize(("arguments", "pins"), USAGE, ids=[" ".join(arguments) for arguments, _ in USAGE])
def test_the_command_exits_with_2_and_one_line_before_any_work(arguments, pins, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder("folder.json")
    compared("compare.json")
    written("text.json", "agrees")
    stored("damaged.json", rate=None)
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    monkeypatch.setattr(runs, "_measure", lambda *args: pytest.fail("measured before it checked"))
    result = CliRunner().invoke(cli.app, ["validate", "--quick", *arguments])
    assert result.exit_code == 2, f"exit code {result.exit_code}, {result.exception!r}\n{result.output}"
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    assert_names(line, *pins)
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
