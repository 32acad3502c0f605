"""Reports are written whole or not at all; bad paths and damaged files are refused by name."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from refusals import assert_refused, row
from safetensors import SafetensorError

import deeplimit as dl
from deeplimit.simulation import trajectories


@functools.cache
def cheap_report():
    return dl.compare(dl.res1(2, "tanh"), depths=[2, 4, 8], paths=64)


def saved(**changes):
    """The text of a saved report, with some of its fields changed or, where None, removed."""
    whole = cheap_report().to_dict() | changes
    content = {name: value for name, value in whole.items() if value is not None}
    return json.dumps({"format": "deeplimit-report", "version": 1, "kind": "compare", "report": content})


def load(text):
    Path("r.json").write_text(text, encoding="utf-8")
    return dl.load_report("r.json")


def later():
    return load(saved().replace('"version": 1', '"version": 3'))


def unknown():
    return load(saved().replace('"compare"', '"other"'))


FILES = [
    ("save, no folder", lambda: cheap_report().save("no/r.json"), ValueError, "path", "'no'"),
    ("save, .txt", lambda: cheap_report().save("r.txt"), ValueError, "path", ".json", "'r.txt'"),
    ("save, number", lambda: cheap_report().save(3), TypeError, "path", "3"),
    ("plot, .jpg", lambda: cheap_report().plot("r.jpg"), ValueError, "ax", ".png", "'r.jpg'"),
    ("load, missing", lambda: dl.load_report("no.json"), FileNotFoundError, "path must", "'no.json'"),
    ("load, not JSON", lambda: load("rate: 0.5"), ValueError, "'r.json'", "JSON"),
    ("load, later", later, ValueError, "'r.json'", "version 3", "2"),
    ("load, unknown kind", unknown, ValueError, "'r.json'", "kind 'other'"),
    ("load, field missing", lambda: load(saved(rate=None)), ValueError, "'r.json'", "compare"),
    ("load, bad verdict", lambda: load(saved(verdict="maybe")), ValueError, "'r.json'", "'maybe'"),
]


@pytest.mark.parametrize(("call", "error", "pins"), [row(name, call, *rest) for name, call, *rest in FILES])
def test_a_bad_path_or_file_is_refused_and_named(call, error, pins, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_refused(call, error, *pins)
    assert not list(tmp_path.glob(".*")), "a temporary file was left behind"


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
@pytest.mark.parametrize(
    ("owner", "writer", "name"), [(Path, "write_text", "r.json"), (Figure, "savefig", "r.png")]
)
def test_a_failed_write_leaves_the_old_file_alone(tmp_path, monkeypatch, owner, writer, name, failure):
    target = tmp_path / name
    target.write_bytes(b"old content")
    write = cheap_report().save if name.endswith(".json") else cheap_report().plot
    monkeypatch.setattr(owner, writer, half_a_file(failure))
    with pytest.raises(type(failure)):
        write(target)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {name: b"old content"}


def test_a_writer_that_names_no_path_is_given_one(tmp_path, monkeypatch):
    """safetensors writes files itself, and says of a full disk what went wrong alone."""
    target = tmp_path / "t.safetensors"
    target.write_bytes(b"old content")
    drawn = dl.simulate(dl.res1(2, "tanh"), depths=[4], paths=2)
    monkeypatch.setattr(trajectories, "save_file", half_a_file(SafetensorError("I/O error: File too large")))
    with pytest.raises(OSError, match=str(target)):
        drawn.save(target)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {target.name: b"old content"}
