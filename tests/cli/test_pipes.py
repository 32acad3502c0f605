"""`--json -`: the report's JSON goes down a pipe, and nothing else does."""

import json
import os
import threading

import pytest
from typer.testing import CliRunner

from deeplimit import load_report
from deeplimit.cli import app

SIZE = ["--width", "4", "--quiet"]
COMPARE = ["compare", *SIZE, "--depths", "2,4,8", "--paths", "64"]
COMMANDS = {
    "convergence": COMPARE,
    "stability": ["stability", *SIZE, "--depths", "4,8,16", "--draws", "16"],
    "scoreboard": ["validate", "--quick", "--only", "Thm 4.3: tanh, α = 0.5"],
}


@pytest.mark.parametrize("place", ["-", "/dev/stdout"])
@pytest.mark.parametrize("name", COMMANDS)
def test_standard_output_is_the_report_alone(name, place, tmp_path, monkeypatch):
    monkeypatch.setattr("deeplimit.papers.scoreboard.runs.QUICK_DEPTHS", (4, 8, 16))
    done = CliRunner().invoke(app, [*COMMANDS[name], "--json", place])
    assert done.exit_code in (0, 1, 3), done.stderr
    assert json.loads(done.stdout)["format"] == "deeplimit-report"
    assert done.stderr.strip()  # what a person reads
    (tmp_path / "kept.json").write_text(done.stdout)
    assert load_report(tmp_path / "kept.json").kind == json.loads(done.stdout)["kind"]


def test_a_named_pipe_gets_the_report_and_the_screen_the_text(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    done = CliRunner().invoke(app, [*COMPARE, "--json", str(pipe)])
    reader.join(10)
    assert json.loads(read[0])["format"] == "deeplimit-report"
    assert "order" in done.stdout


def test_a_folder_and_a_file_of_another_kind_are_refused(tmp_path):
    for place in (tmp_path, tmp_path / "r.txt"):
        assert CliRunner().invoke(app, [*COMPARE, "--json", str(place)]).exit_code == 2
