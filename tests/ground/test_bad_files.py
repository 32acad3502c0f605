"""Reports are written whole or not at all; bad paths and damaged files are refused by name."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from refusals import assert_refused, row

import deeplimit as dl


@functools.cache
def cheap_report():
    return dl.compare(dl.res1(2, "tanh"), depths=[2, 4, 8], paths=64)


@pytest.fixture(scope="module")
def report():
    return cheap_report()


def saved(**changes):
    """The text of a saved report, with some of its fields changed or, where None, removed."""
    content = {
        name: value for name, value in (cheap_report().to_dict() | changes).items() if value is not None
    }
    return json.dumps({"format": "deeplimit-report", "version": 1, "kind": "compare", "report": content})


def load(text):
    Path("r.json").write_text(text, encoding="utf-8")
    return dl.load_report("r.json")


def folder(name):
    Path(name).mkdir()
    return name


FILES = [
    (
        "save, no folder",
        lambda: cheap_report().save("no/r.json"),
        ValueError,
        "path",
        "'no'",
        "make it first",
    ),
    ("save, folder", lambda: cheap_report().save(folder("f.json")), ValueError, "path", "folder", "'f.json'"),
    ("save, .txt", lambda: cheap_report().save("r.txt"), ValueError, "path", ".json", "'r.txt'"),
    ("save, number", lambda: cheap_report().save(3), TypeError, "path", "3"),
    (
        "save, long name",
        lambda: cheap_report().save("r" * 260 + ".json"),
        ValueError,
        "path",
        "265 bytes",
        "too long",
    ),
    ("plot, .jpg", lambda: cheap_report().plot("r.jpg"), ValueError, "path", ".png", "'r.jpg'"),
    ("plot, no folder", lambda: cheap_report().plot("no/r.png"), ValueError, "path", "'no'", "make it first"),
    ("plot, number", lambda: cheap_report().plot(3), TypeError, "ax", "3"),
    ("load, missing", lambda: dl.load_report("no.json"), FileNotFoundError, "path must", "'no.json'"),
    ("load, number", lambda: dl.load_report(3), TypeError, "path", "3"),
    ("load, not JSON", lambda: load("rate: 0.5"), ValueError, "'r.json'", "JSON"),
    ("load, other JSON", lambda: load("[1, 2]"), ValueError, "'r.json'", "'format'"),
    (
        "load, later",
        lambda: load(saved().replace('"version": 1', '"version": 2')),
        ValueError,
        "'r.json'",
        "version 2",
        "1",
    ),
    (
        "load, unknown kind",
        lambda: load(saved().replace('"compare"', '"other"')),
        ValueError,
        "'r.json'",
        "kind 'other'",
        "compare",
    ),
    (
        "load, kind a list",
        lambda: load(saved().replace('"compare"', "[1]")),
        ValueError,
        "'r.json'",
        "kind [1]",
        "compare",
    ),
    (
        "load, field missing",
        lambda: load(saved(rate=None)),
        ValueError,
        "'r.json'",
        "damaged compare report",
        "lacks rate",
    ),
    (
        "load, field unknown",
        lambda: load(saved(rte=1)),
        ValueError,
        "'r.json'",
        "damaged compare report",
        "unknown fields: rte",
    ),
    (
        "load, bad number",
        lambda: load(saved(rate="half")),
        ValueError,
        "'r.json'",
        "damaged compare report",
        "rate",
        "'half'",
    ),
    (
        "load, bad interval",
        lambda: load(saved(rate_interval=[1, 2, 3])),
        ValueError,
        "'r.json'",
        "damaged compare report",
        "rate_interval",
        "[1, 2, 3]",
    ),
    (
        "load, short array",
        lambda: load(saved(errors=[0.1])),
        ValueError,
        "'r.json'",
        "damaged compare report",
        "errors",
        "(1,)",
    ),
    (
        "load, bad verdict",
        lambda: load(saved(verdict="maybe")),
        ValueError,
        "'r.json'",
        "damaged compare report",
        "verdict",
        "'maybe'",
    ),
]


@pytest.mark.parametrize(("call", "error", "pins"), [row(name, call, *rest) for name, call, *rest in FILES])
def test_a_bad_path_or_file_is_refused_and_named(call, error, pins, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_refused(call, error, *pins)
    assert not list(tmp_path.glob(".*")), "a temporary file was left behind"


def test_a_report_can_be_loaded_by_a_process_that_has_not_compared_anything(report, tmp_path):
    report.save(tmp_path / "r.json")
    program = "import sys, deeplimit as dl; print(dl.load_report(sys.argv[1]).verdict)"
    run = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "r.json"], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout.strip()) == (0, report.verdict), run.stderr


def half_a_file(failure):
    """What stands in for a writer: it writes some bytes to its path, if it has one, then fails."""

    def write(*args, **knobs):
        for path in (argument for argument in args if isinstance(argument, Path)):
            path.write_bytes(b"half of a")
        raise failure

    return write


@pytest.mark.parametrize(
    "failure", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full disk", "Ctrl-C"]
)
@pytest.mark.parametrize("before", [b"old content", None], ids=["file there", "no file there"])
@pytest.mark.parametrize(
    ("owner", "writer", "name"),
    [
        (json, "dumps", "r.json"),
        (Path, "write_text", "r.json"),
        (Figure, "savefig", "r.png"),
        (Figure, "savefig", "r.svg"),
    ],
)
def test_a_failed_write_leaves_the_old_file_alone(
    report, tmp_path, monkeypatch, owner, writer, name, before, failure
):
    target = tmp_path / name
    if before is not None:
        target.write_bytes(before)
    write = report.save if name.endswith(".json") else report.plot
    monkeypatch.setattr(owner, writer, half_a_file(failure))
    with pytest.raises(type(failure)):
        write(target)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == (
        {} if before is None else {name: before}
    )
