"""Bad options stop a command before it computes, with exit code 2 and words on standard error."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from refusals import assert_names
from typer.testing import CliRunner

import deeplimit as dl
from deeplimit import cli


def command_line(*arguments):
    result = CliRunner().invoke(cli.app, ["compare", "--width", "2", "--paths", "64", "--quiet", *arguments])
    assert result.exit_code == 2, f"exit code {result.exit_code}, {result.exception!r}\n{result.output}"
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", result.stderr).split())


@pytest.mark.parametrize(
    ("option", "file", "pins"),
    [
        ("--json", "no/r.json", ("no'", "make it first")),
        ("--json", "folder.json", ("folder", "folder.json'")),
        ("--json", "r.txt", (".json", "r.txt'")),
        ("--json", "locked/r.json", ("locked'", "written")),
        pytest.param("--json", "r" * 260 + ".json", ("265 bytes", "too long"), id="long name"),
        ("--plot", "no/r.png", ("no'", "make it first")),
        ("--plot", "folder.png", ("folder", "folder.png'")),
        ("--plot", "r.gif", (".png or .pdf or .svg", "r.gif'")),
        ("--plot", "locked/r.png", ("locked'", "written")),
    ],
)
def test_an_unwritable_file_stops_the_command_before_any_computation(
    tmp_path, monkeypatch, option, file, pins
):
    for name in ("folder.json", "folder.png", "locked"):
        (tmp_path / name).mkdir()
    there = sorted(tmp_path.rglob("*"))
    access = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode, **more: Path(path).name != "locked" and access(path, mode, **more)
    )
    monkeypatch.setattr(
        "deeplimit.judge.convergence.compare", lambda *args, **knobs: pytest.fail("computed too early")
    )
    other = (
        ("--plot", str(tmp_path / "good.png"))
        if option == "--json"
        else ("--json", str(tmp_path / "good.json"))
    )
    assert_names(command_line(option, str(tmp_path / file), *other), option, *pins)
    assert sorted(tmp_path.rglob("*")) == there


USAGE = [
    (["--network", "res9"], "--network", "res1, res2, res3, inner", "'res9'"),
    (["--weights", "levy"], "--weights", "'levy'"),
    (["--pahts", "64"], "No such option", "--pahts"),
    (["--paths", "many"], "'--paths'", "integer"),
    (["--exponent=zwei"], "'--exponent'", "number", "'zwei'"),
    (["--width"], "'--width'", "argument"),
    (["--budget", "5"], "budget", "5.0", "paths='auto'"),
    (["--paths", "auto", "--budget", "0"], "budget", "0"),
    (["--depths", "a"], "--depths", "16:1024:x2", "'a'"),
    (["--depths", "16:1024"], "--depths", "16:1024:x2", "'16:1024'"),
    (["--depths", "1.5,2"], "--depths", "16:1024:x2", "'1.5,2'"),
    (["--depths", "0:4:x2"], "--depths", "'0:4:x2'", "first:last:xFACTOR", "1"),
    (["--depths", "16:8:x2"], "--depths", "'16:8:x2'", "first:last:xFACTOR", "first < last"),
    (["--depths", "16:1024:x1"], "--depths", "'16:1024:x1'", "xFACTOR", "2"),
    (["--network", "res3", "--activation", "tanh"], "--activation", "'tanh'", "res3", "ReLU", "res2"),
    (["--limit", "nocolon"], "--limit", "package.module:object", "'nocolon'"),
    (["--limit", "no_such_module:x"], "--limit", "'no_such_module:x'", "'no_such_module'"),
    (["--limit", "math:no_such_name"], "--limit", "'math:no_such_name'", "no_such_name"),
    (["--limit", "broken_limit:x"], "--limit", "'broken_limit:x'", "division by zero"),
    (["--limit", "failing_limit:f"], "limit f(t, h)", "division by zero"),
    (["--network", "res3"], "res3", "Closest", "res1"),
    (["--device", "tpu"], "device", "'tpu'", "'cpu'", "'cuda'"),
    (["--network", "attention", "--activation", "tanh"], "--activation", "'tanh'"),
    (["--network", "inner", "--noise", "0.1", "--tokens", "2"], "attention", "inner"),
    (["--network", "attention", "--inverse-temperature", "-1"], "inverse_temperature"),
    (["--network", "prenorm", "--width", "1"], "width", "1", "norm", "'rms'"),
    (["--network", "res1", "--noise", "0.05"], "--network inner"),
    (["--network", "inner", "--noise", "-1"], "A", "-1"),
    (["--network", "inner", "--noise", "0.1", "--activation", "relu"], "relu", "Assumption 4.2"),
    (["--network", "inner", "--trend", "broken_limit:none"], "--trend", "'broken_limit:none'"),
    (["--network", "inner", "--trend", "nowhere:trend"], "--trend", "'nowhere:trend'"),
]


@pytest.mark.parametrize(("arguments", "pins"), [pytest.param(a, pins, id=" ".join(a)) for a, *pins in USAGE])
def test_bad_usage_exits_with_2_and_says_why_on_standard_error(tmp_path, monkeypatch, arguments, pins):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken_limit.py").write_text("x = 1 / 0\n")
    (tmp_path / "failing_limit.py").write_text("def f(t, h):\n    return h * (1 / 0)\n")
    assert_names(command_line("--depths", "2:8:x2", *arguments), *pins)


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "--exponent", "zwei"],
        ["compare", "--pahts", "3"],
        ["compare", "--depths"],
        ["no-such"],
        ["runs"],
    ],
)
def test_what_cannot_be_parsed_is_told_in_one_line(arguments):
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1


def test_a_coordinate_that_states_do_not_have_is_refused_before_anything_runs(monkeypatch):
    monkeypatch.setattr(dl, "simulate", None)  # what calls it raises TypeError
    result = CliRunner().invoke(cli.app, ["simulate", "--width", "3", "--depths", "2,4", "--coordinate", "3"])
    assert result.exit_code == 2
    assert "--coordinate" in result.stderr
