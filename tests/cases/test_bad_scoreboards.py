"""Scoreboards that cannot be run, read or written, and bad weights given to the command, are refused before
any work.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from refusals import assert_refused, go
from typer.testing import CliRunner

import deeplimit as dl
from deeplimit import cli
from deeplimit.scoreboard import RowResult, runs


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
    Path(file).write_text(json.dumps(document), encoding="utf-8")
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


NAMES_NO_ROW = r"^only={} names no row; the statements are \[M\] Prop\. 11, .*\[C\] Thm 4\.4, SDE\.$"
ASKED = [
    ("only nonsense", {"only": "nonsense"}, ValueError, NAMES_NO_ROW.format("'nonsense'")),
    (
        "only one of two known",
        {"only": ["Thm 4.3", "Thm 4.33"]},
        ValueError,
        NAMES_NO_ROW.format(r"'Thm 4\.33'"),
    ),
    ("only nothing", {"only": []}, ValueError, NAMES_NO_ROW.format(r"\[\]")),
    ("only an empty text", {"only": ""}, ValueError, NAMES_NO_ROW.format("''")),
    ("only a blank", {"only": [" "]}, ValueError, NAMES_NO_ROW.format("' '")),
    ("only 3", {"only": 3}, TypeError, r"^only must be a text or several, got 3"),
    ("only [3]", {"only": [3]}, TypeError, r"^only must be a text or several, got \[3\]"),
    ("only bytes", {"only": b"Thm"}, TypeError, r"^only must be a text or several, got b'Thm'"),
    ("only True", {"only": True}, TypeError, r"^only must be a text or several, got True"),
    ("only a set", {"only": {"Thm 4.3"}}, TypeError, r"^only must be a text or several, got \{'Thm 4\.3'\}"),
    ("quick 1", {"quick": 1}, TypeError, r"^quick must be True or False, got 1"),
    ("quick None", {"quick": None}, TypeError, r"^quick must be True or False, got None"),
    ("quick 'yes'", {"quick": "yes"}, TypeError, r"^quick must be True or False, got 'yes'"),
    ("seed -1", {"seed": -1}, ValueError, r"^seed must be at least 0, got -1"),
    ("seed 0.5", {"seed": 0.5}, TypeError, r"^seed must be an integer, got 0\.5 of type float"),
    ("seed None", {"seed": None}, TypeError, r"^seed must be an integer, got None"),
    (
        "device tpu",
        {"device": "tpu"},
        ValueError,
        r"^device 'tpu' is not known to torch; use 'cpu' or 'cuda'",
    ),
    ("device 0", {"device": 0}, TypeError, r"^device must be a string such as 'cpu'.*got 0"),
    ("workers 0", {"workers": 0}, ValueError, r"^workers must be at least 1, got 0"),
    ("workers True", {"workers": True}, TypeError, r"^workers must be an integer, got True"),
    ("on_row 3", {"on_row": 3}, TypeError, r"^on_row must be a function of a RowResult, got 3 of type int"),
    (
        "on_row a string",
        {"on_row": "print"},
        TypeError,
        r"^on_row must be a function of a RowResult, got 'print'",
    ),
    ("onyl", {"onyl": "Thm 4.3"}, TypeError, r"unexpected keyword argument 'onyl'"),
    ("resume 3", {"resume": 3}, TypeError, r"^resume must be a path, got 3 of type int"),
    ("resume True", {"resume": True}, TypeError, r"^resume must be a path, got True of type bool"),
    ("resume .txt", {"resume": "board.txt"}, ValueError, r"^resume must end in \.json, got 'board\.txt'"),
    (
        "resume no folder",
        {"resume": "no/board.json"},
        ValueError,
        r"^resume lies in 'no', which is not a folder; make it first",
    ),
    (
        "resume a folder",
        {"resume": lambda: folder("b.json")},
        ValueError,
        r"^resume names a folder, got 'b\.json'; give a file's name",
    ),
    (
        "resume a long name",
        {"resume": "b" * 260 + ".json"},
        ValueError,
        r"^resume has a name of 265 bytes, too long",
    ),
    (
        "resume a CompareReport",
        {"resume": lambda: compared("r.json")},
        ValueError,
        r"^'r\.json' holds a report of kind 'compare', no scoreboard to resume from; give another file",
    ),
    (
        "resume text",
        {"resume": lambda: written("b.json", "agrees")},
        ValueError,
        r"^'b\.json' is not a deeplimit report: it is not JSON",
    ),
    (
        "resume other JSON",
        {"resume": lambda: written("b.json", "{}")},
        ValueError,
        r"^'b\.json' is not .*its 'format' is not",
    ),
    (
        "resume nothing",
        {"resume": lambda: written("b.json", "")},
        ValueError,
        r"^'b\.json' is not a deeplimit report: it is not JSON",
    ),
]


@pytest.mark.parametrize(
    ("asked", "error", "message"), [pytest.param(*rest, id=name) for name, *rest in ASKED]
)
def test_a_scoreboard_that_cannot_be_run_is_refused_before_any_work_and_leaves_files_alone(
    asked, error, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runs, "_measure", lambda *args: pytest.fail("measured before it checked"))
    given = {
        name: value() if name == "resume" and callable(value) else value for name, value in asked.items()
    }
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert_refused(lambda: dl.validate(**given), error, message)
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


DAMAGED = [
    ("no rows", {"rows": None}, r"the report lacks rows"),
    ("no seed", {"seed": None}, r"the report lacks seed"),
    (
        "no confidence, no version",
        {"confidence": None, "version": None},
        r"the report lacks confidence, version",
    ),
    ("rows a number", {"rows": 3}, r"rows must be a list, got 3 of type int"),
    ("rows of numbers", {"rows": [3]}, r"rows\[0\] must have named fields, got 3 of type int"),
    (
        "quick a text",
        {"quick": "yes"},
        r"quick must be of type bool, got 'yes' of type str",
    ),
    ("seed a text", {"seed": "0"}, r"seed must be of type int, got '0' of type str"),
    (
        "confidence a text",
        {"confidence": "high"},
        r"confidence must be a number, got 'high' of type str",
    ),
    ("row without rate", {"rate": None}, r"rows\[0\] lacks rate"),
    ("row without key, control", {"key": None, "control": None}, r"rows\[0\] lacks control, key"),
    ("row without errors", {"errors": None}, r"rows\[0\] lacks errors"),
    ("row without depths", {"depths": None}, r"rows\[0\] lacks depths"),
    ("row with more", {"rte": 1}, r"rows\[0\] has unknown fields: rte"),
    ("key a list", {"key": [1]}, r"rows\[0\]\.key must be of type str, got \[1\] of type list"),
    ("statement a number", {"statement": 3}, r"rows\[0\]\.statement must be of type str, got 3 of type int"),
    (
        "outcome",
        {"outcome": "maybe"},
        r"rows\[0\]\.outcome must be one of agrees, disagrees, cannot tell; got 'maybe'",
    ),
    (
        "verdict",
        {"verdict": "agrees"},
        r"rows\[0\]\.verdict must be one of converges, does not converge, cannot tell; got 'agrees'",
    ),
    (
        "control",
        {"control": "converges"},
        r"rows\[0\]\.control must be one of caught, not caught; got 'converges'",
    ),
    (
        "control_verdict",
        {"control_verdict": "no"},
        r"rows\[0\]\.control_verdict must be one of converges, .*got 'no'",
    ),
    ("rate a text", {"rate": "half"}, r"rows\[0\]\.rate must be a number, got 'half' of type str"),
    (
        "interval of three",
        {"interval": [1, 2, 3]},
        r"rows\[0\]\.interval must have 2 entries, got \[1, 2, 3\] of type list",
    ),
    (
        "interval a number",
        {"interval": 0.5},
        r"rows\[0\]\.interval must be a list, got 0\.5 of type float",
    ),
    ("errors too short", {"errors": [0.1]}, r"rows\[0\]\.errors must have shape \(2,\), got \(1,\)"),
    ("worst a number", {"worst": 0.1}, r"rows\[0\]\.worst must be a list of numbers, got 0\.1 of type float"),
    ("depths a number", {"depths": 16}, r"rows\[0\]\.depths must be a list of numbers, got 16 of type int"),
    (
        "errors of texts",
        {"errors": ["a", "b"]},
        r"rows\[0\]\.errors must be a list of numbers, got \['a', 'b'\] of type list",
    ),
]


@pytest.mark.parametrize(("changes", "message"), [pytest.param(*rest, id=name) for name, *rest in DAMAGED])
def test_a_damaged_scoreboard_is_neither_loaded_nor_resumed_nor_written_over(
    changes, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runs, "_measure", lambda *args: pytest.fail("measured before it checked"))
    file = Path(stored(**changes))
    before = file.read_bytes()
    assert_refused(
        lambda: dl.load_report(file),
        ValueError,
        rf"^'board\.json' is a damaged validate report: {message}\.$",
    )
    resumed = rf"^'board\.json' is a damaged scoreboard: {message}; delete it to start anew\.$"
    assert_refused(lambda: dl.validate(quick=True, only="Thm 4.3", resume=file), ValueError, resumed)
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


BOARD_FILES = [
    ("save .txt", lambda board: board.save("b.txt"), ValueError, r"^path must end in \.json, got 'b\.txt'"),
    (
        "save, no folder",
        lambda board: board.save("no/b.json"),
        ValueError,
        r"^path lies in 'no', which is not a folder",
    ),
    ("save 3", lambda board: board.save(3), TypeError, r"^path must be a path, got 3 of type int"),
    (
        "plot .jpg",
        lambda board: board.plot("b.jpg"),
        ValueError,
        r"^path must end in \.png or .*got 'b\.jpg'",
    ),
    ("plot 3", lambda board: board.plot(3), TypeError, r"^ax must be matplotlib Axes.*got 3 of type int"),
]


@pytest.mark.parametrize(
    ("call", "error", "message"), [pytest.param(*rest, id=name) for name, *rest in BOARD_FILES]
)
def test_a_scoreboard_says_where_it_cannot_be_written(call, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    board = dl.load_report(stored())
    assert_refused(lambda: call(board), error, message)
    assert [path.name for path in tmp_path.iterdir()] == ["board.json"]


USAGE = [
    (
        ["--only", "nonsense"],
        r"^Error: only='nonsense' names no row; the statements are \[M\] Prop\. 11, .*SDE\.$",
    ),
    (["--only", "Thm 4.3", "--only", "nonsense"], r"^Error: only='nonsense' names no row"),
    (["--only", ""], r"^Error: only='' names no row"),
    (["--json", "x.txt"], r"^Error: --json must end in \.json, got 'x\.txt'\.$"),
    (["--json", "no/x.json"], r"^Error: --json lies in 'no', which is not a folder; make it first\.$"),
    (["--json", "folder.json"], r"^Error: --json names a folder, got 'folder\.json'; give a file's name\.$"),
    (
        ["--json", "compare.json"],
        r"^Error: 'compare\.json' holds a report of kind 'compare', no scoreboard to resume from",
    ),
    (["--json", "text.json"], r"^Error: 'text\.json' is not a deeplimit report: it is not JSON"),
    (
        ["--json", "damaged.json"],
        r"^Error: 'damaged\.json' is a damaged scoreboard: rows\[0\] lacks rate; delete it to start anew\.$",
    ),
    (["--plot", "x.gif"], r"^Error: --plot must end in \.png or \.pdf or \.svg, got 'x\.gif'\.$"),
    (["--plot", "no/x.png"], r"^Error: --plot lies in 'no', which is not a folder; make it first\.$"),
    (["--seed", "-1"], r"^Error: seed must be at least 0, got -1\.$"),
    (["--device", "tpu"], r"^Error: device 'tpu' is not known to torch; use 'cpu' or 'cuda'\.$"),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE, ids=[" ".join(arguments) for arguments, _ in USAGE])
def test_the_command_exits_with_2_and_one_line_before_any_work(arguments, message, tmp_path, monkeypatch):
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
    assert re.search(message, line), line
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_an_option_that_does_not_exist_is_bad_usage_too():
    result = CliRunner().invoke(cli.app, ["validate", "--onyl", "Thm 4.3"])
    assert result.exit_code == 2
    assert "--onyl" in result.stderr
    assert "Traceback" not in result.stderr


WEIGHTS_OF_THE_COMMAND = [
    (["--noise", "-1"], r"^Error: Ito's A is a variance a unit of time and must not be negative, got -1\.$"),
    (["--noise", "nan"], r"^Error: Ito's A must be finite, got nan\.$"),
    (["--bias-noise", "inf"], r"^Error: Ito's b must be finite, got inf\.$"),
    (["--noise", "0.1", "--alpha", "-1"], r"^Error: alpha must be at least 0, got -1\. Cohen et al\."),
    (["--noise", "0.1", "--beta", "nan"], r"^Error: beta must be finite, got nan\. Cohen et al\."),
    (["--alpha", "0.5"], r"^Error: alpha is the exponent of weights given by trend= or noise="),
    (
        ["--noise", "0.1", "--activation", "relu"],
        r"^Error: cannot pair inner \(σ = relu, .*Assumption 4\.2 .*Closest: ",
    ),
    (
        ["--trend", "torch:nn"],
        r"^Error: trend must be a function of time, such as Trend\(A, b\); got <module 'torch\.nn'|an object",
    ),
    (["--trend", "deeplimit:Trend"], r"^Error: trend must be .*got the class Trend, not an object"),
]


@pytest.mark.parametrize(
    ("arguments", "message"), WEIGHTS_OF_THE_COMMAND, ids=[" ".join(a) for a, _ in WEIGHTS_OF_THE_COMMAND]
)
def test_bad_weights_on_the_command_line_are_one_line_too(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(
        cli.app, ["compare", "--network", "inner", "--width", "2", "--quiet", *arguments]
    )
    assert result.exit_code == 2, f"exit code {result.exit_code}, {result.exception!r}\n{result.output}"
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert re.search(message, line), line
