"""Findings where code is reviewed: SARIF, annotations and the action hold what was found, and no more."""

import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import deeplimit as dl
from deeplimit.cli import app, continuous_integration as ci
from deeplimit.modules.depth_check.findings import ABOUT

yaml = pytest.importorskip("yaml", reason="the action is YAML, which Dask brings")
ROOT = Path(dl.__file__).parents[1]

MODELS = """import torch
from torch import nn

import deeplimit as dl


class Block(nn.Module):
    def __init__(self, scale, bias):
        super().__init__()
        self.first, self.second, self.scale = nn.Linear(32, 32), nn.Linear(32, 32, bias=bias), scale

    def forward(self, x):
        return x + self.scale * self.second(torch.tanh(self.first(x)))


def wrong(depth):
    return nn.Sequential(*(Block(1.0, bias=False) for _ in range(depth)))


def right(depth):
    return nn.Sequential(*(Block(depth**-0.5, bias=True) for _ in range(depth)))


def same(depth):
    # Further draws are the same again, so that two depths next to each other decide nothing.
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return right(depth)


HOSTILE = "a\\n::error title=forged::forged\\r[link](http://evil) {0}%0A::add-mask::x\\x1b[31m"


def hostile(depth):
    model = nn.Module()
    model.add_module(HOSTILE, wrong(depth))
    model.forward = lambda x: getattr(model, HOSTILE)(x)
    return model


def made(config):
    return wrong(config["depth"])


swept = dl.sweep(made, {"depth": 1}, "depth")
"""
GIVEN = ["--batch", "normal:8x32", "--depths", "2:8:x2", "--expected", "0.5", "--quiet"]


@pytest.fixture
def checked(tmp_path, monkeypatch):
    """A function of a factory's name that returns exit code, output and the run of the SARIF file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "reviewed_models.py").write_text(MODELS, encoding="utf-8")
    monkeypatch.delitem(__import__("sys").modules, "reviewed_models", raising=False)

    def run(name, *more):
        arguments = ["check", f"reviewed_models:{name}", *GIVEN, "--sarif", "found.sarif", *more]
        result = CliRunner().invoke(app, arguments)
        return result.exit_code, result.output, json.loads(Path("found.sarif").read_text(encoding="utf-8"))

    return run


def the_run(log):
    """Return the only run of a SARIF log after the fields that the standard and GitHub ask for."""
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("deeplimit", dl.__version__)
    rules = [rule["id"] for rule in driver["rules"]]
    assert len(rules) == len(set(rules))
    assert all(rule["shortDescription"]["text"] for rule in driver["rules"])
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("error", "warning")
        assert set(result["message"]) == {"text"}
        assert result["partialFingerprints"]
        (location,) = result["locations"]
        assert location["physicalLocation"]["region"]["startLine"] >= 1
    return run


def test_a_finding_stands_in_sarif_with_its_code_its_parameter_and_the_factorys_line(checked):
    code, _, log = checked("wrong")
    assert code == 1
    (result,) = the_run(log)["results"]
    assert (result["ruleId"], result["level"]) == ("exponent", "error")
    (location,) = result["locations"]
    physical = location["physicalLocation"]
    assert physical["artifactLocation"] == {"uri": "reviewed_models.py", "uriBaseId": "%SRCROOT%"}
    assert MODELS.splitlines()[physical["region"]["startLine"] - 1].startswith("def wrong")
    assert location["logicalLocations"] == [{"fullyQualifiedName": "*.second.weight"}]


def test_what_is_right_has_no_results_and_what_cannot_be_told_is_a_warning(checked):
    code, output, log = checked("right", "--annotations")
    assert (code, the_run(log)["results"]) == (0, [])
    assert "::error" not in output
    code, output, log = checked("same", "--annotations", "--depths", "2,4")
    (result,) = the_run(log)["results"]
    assert (code, result["ruleId"], result["level"]) == (3, "undecided", "warning")
    assert commands(output)[-1].startswith("::warning file=reviewed_models.py,line=")


def test_a_factory_that_the_library_made_stands_where_its_module_does(checked):
    _, _, log = checked("swept")
    (result,) = the_run(log)["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "reviewed_models.py"


def commands(output):
    """Return the workflow commands that GitHub would obey, by its rule: what is stopped is no command."""
    found, word = [], None
    for line in re.split(r"\r\n|\r|\n", output):
        if word is not None:
            word = None if line == f"::{word}::" else word
        elif line.startswith("::stop-commands::"):
            word = line.removeprefix("::stop-commands::")
        elif line.lstrip().startswith("::") or "##[" in line:
            found.append(line)
    return found


def test_names_of_modules_break_out_of_neither_annotations_nor_sarif(checked):
    code, output, log = checked("hostile", "--annotations")
    assert code == 1
    (line,) = commands(output)
    place, _, text = line.removeprefix("::error ").partition("::")
    assert [pair.partition("=")[0] for pair in place.split(",")] == ["file", "line", "title"]
    assert "forged" in text
    assert "%250A" in text
    assert line.isprintable()
    (result,) = the_run(log)["results"]
    told = result["message"]["text"]
    assert told.isprintable()
    assert not re.search(r"(?<!\\)\[|(?<!\{)\{0\}(?!\})", told)


def test_texts_of_sarif_and_of_commands_come_back_as_they_were():
    text = "50 % of {a} [b](c) \\d, e: f\nnext"
    plain = ci._message(text)
    for plural, special in (("{{", "{"), ("}}", "}"), ("\\[", "["), ("\\]", "]"), ("\\\\", "\\")):
        plain = plain.replace(plural, special)
    assert plain == text
    told = ci._property(text)
    assert not set(told) & set("\n:,")
    for code, special in (("%2C", ","), ("%3A", ":"), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
        told = told.replace(code, special)
    assert told == text


def test_a_file_that_cannot_be_written_is_refused_before_any_work(checked, tmp_path):
    ran = CliRunner().invoke(app, ["check", "no.module:there", "--sarif", "absent/found.sarif"])
    assert ran.exit_code == 2
    assert "--sarif" in ran.output
    ran = CliRunner().invoke(app, ["check", "no.module:there", "--sarif", "found.txt"])
    assert (ran.exit_code, "--sarif" in ran.output) == (2, True)


@pytest.mark.parametrize("factory", [len, partial(len), "text", dl.sweep(dict, {"depth": 1}, "depth")])
def test_what_cannot_be_inspected_has_no_place(factory):
    assert ci.source_of(factory, "builtins:len") is None


def test_every_code_of_a_finding_is_explained():
    rooms = ROOT / "deeplimit" / "modules" / "depth_check"
    text = "".join(path.read_text(encoding="utf-8") for path in rooms.glob("*.py"))
    parts = {"weight", "multiplier", "skip", "gain", "gate"}
    used = {"layers", *parts, *re.findall(r'about="([\w ]+)"', text)}
    assert used == set(ABOUT)


ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = ACTION["runs"]["steps"]


def script(given, folder):
    """Return the action's check of these inputs: a command of bash and its environment."""
    (step,) = [step for step in STEPS if step.get("id") == "check"]
    inputs = {name: str(each.get("default", "")) for name, each in ACTION["inputs"].items()} | given
    named = {key: re.search(r"inputs\.([\w-]+)", value)[1] for key, value in step["env"].items()}
    environment = {**os.environ, **{key: inputs[name] for key, name in named.items()}}
    environment |= {"RUNNER_TEMP": str(folder), "GITHUB_OUTPUT": str(folder / "output")}
    return ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]], environment


def test_the_action_reads_every_input_and_no_expression_stands_in_a_script():
    assert ACTION["runs"]["using"] == "composite"
    text = yaml.safe_dump(STEPS)
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(ACTION["inputs"])
    scripts = [step for step in STEPS if "run" in step]
    assert all(step["shell"] == "bash" and "${{" not in step["run"] for step in scripts)
    assert "download.pytorch.org/whl/cpu" in scripts[0]["run"]
    assert any(step.get("uses", "").startswith("github/codeql-action/upload-sarif@") for step in STEPS)


@pytest.mark.parametrize("code", [0, 1, 3])
def test_the_action_calls_options_that_exist_and_ends_as_the_check_does(tmp_path, code):
    hostile = "models:make; touch broken-out $(touch broken-out)"
    given = {
        "factory": hostile,
        "depths": "4:8:x2",
        "expected": "0.5",
        "arguments": "--tolerance 0.2 --seed 1",
    }
    stub = tmp_path / "deeplimit"
    stub.write_text(
        '#!/bin/bash\nprintf "%s\\n" "$@" > told\nshift 1; while [ "$1" != --sarif ]; do shift; done\n'
        f'touch "$2"; exit {code}\n'
    )
    stub.chmod(0o755)
    bash, environment = script(given, tmp_path)
    environment["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
    ran = subprocess.run(bash, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == code, ran.stderr
    told = (tmp_path / "told").read_text().splitlines()
    assert told[:2] == ["check", hostile]
    assert not (tmp_path / "broken-out").exists()
    options = {name for each in get_command(app).commands["check"].params for name in each.opts}
    assert {word for word in told if word.startswith("--")} <= options
    assert told[told.index("--tolerance") + 1] == "0.2"
    assert (tmp_path / "output").read_text().startswith("sarif=")


WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8"))


def test_the_workflow_gives_the_action_inputs_that_it_has():
    *_, step = WORKFLOW["jobs"]["action"]["steps"]
    assert step["uses"] == "./"
    assert set(step["with"]) <= set(ACTION["inputs"])
    assert step["with"]["factory"].startswith("tests.helpers.reviewed:")


@pytest.mark.nightly
@pytest.mark.parametrize(("expected", "code"), [("gpt-2", 0), ("0.9", 1)])
def test_the_action_checks_a_model_of_a_real_library(tmp_path, expected, code):
    """What the workflow's job runs, by the command that is installed; twin: an exponent that is wrong."""
    pytest.importorskip("transformers")
    *_, step = WORKFLOW["jobs"]["action"]["steps"]
    bash, environment = script({**step["with"], "expected": expected}, tmp_path)
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    # Beside a torchvision that does not fit torch, transformers cannot be imported.
    mended = "from tests.helpers.families import mend_torchvision as mend\nmend()\n"
    (tmp_path / "sitecustomize.py").write_text(mended)
    environment["PYTHONPATH"] = f"{tmp_path}:{ROOT}"
    ran = subprocess.run(bash, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == code, ran.stdout + ran.stderr
    assert bool(the_run(json.loads((tmp_path / "deeplimit.sarif").read_text()))["results"]) == bool(code)
