"""The page on depth scaling keeps its promises: the test it shows fails, its command exits with 1, the fixed
model passes.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from shown_output import same_but_for_time, shown_in_order
from typer.testing import CliRunner

import deeplimit as dl
from deeplimit.cli import app

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "depth-scaling.md").read_text(encoding="utf-8")


def fenced(language, text=PAGE):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with the files that the page has its reader save."""
    for block in fenced("python"):
        name = re.match(r"# (\w+\.py)", block)
        if name is not None:
            with (tmp_path / name[1]).open("a", encoding="utf-8") as file:
                file.write(block)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("models", None)


def test_the_command_fails_with_the_line_that_is_shown(project):
    (line,) = [line for block in fenced("console") for line in block.splitlines() if line.startswith("$ ")]
    result = CliRunner().invoke(app, [*line.removeprefix("$ deeplimit ").split(), "--quiet"])
    assert result.exit_code == 1, result.output
    same_but_for_time(fenced("text")[0], result.output.splitlines()[0])
    page = (project / "report.html").read_text(encoding="utf-8")
    assert "8 times too large" in page
    assert "<dt><b>alignment</b></dt>" in page
    assert "http" not in page.replace("http://www.w3.org/", "")  # names of namespaces, not addresses


@pytest.mark.nightly
def test_the_line_that_is_shown_mends_the_model(project, monkeypatch):
    monkeypatch.syspath_prepend(project)
    from models import GPT

    shown = fenced("text")[1].strip().removeprefix("fix: ")
    (finding,) = dl.check_depth(GPT, [4, 8, 16, 32], expected="gpt-2").findings
    same_but_for_time(shown, finding.fix)

    def mended(depth):
        model = GPT(depth)
        exec(shown, {"model": model, "torch": torch})
        return model

    assert dl.check_depth(mended, [4, 8, 16, 32], expected="gpt-2").ok


@pytest.mark.nightly
def test_the_test_that_is_shown_fails_and_passes_once_fixed(project):
    def run():
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
            capture_output=True,
            text=True,
            check=False,
        )

    failed = run()
    assert failed.returncode == 1
    assert "blocks.*.mlp.2.weight: std 0.0" in failed.stdout
    file = project / "test_depth.py"
    shown = file.read_text(encoding="utf-8").replace(
        "from models import GPT", "from fixed import FixedGPT as GPT"
    )
    file.write_text(shown, encoding="utf-8")
    assert run().returncode == 0


@pytest.mark.nightly
@pytest.mark.thirdparty
def test_the_table_of_gpt_2_is_the_one_that_is_printed():
    import families

    families.library("transformers")
    (block,) = [block for block in fenced("python") if "GPT2Config" in block]
    (shown,) = [block for block in fenced("text") if "GPT2LMHeadModel" in block]
    namespace = {"dl": dl, "print": lambda report: namespace.update(printed=str(report))}
    exec(block, namespace)
    same_but_for_time(shown, namespace["printed"])


@pytest.mark.nightly
def test_the_first_report_is_the_one_that_is_explained():
    page = (ROOT / "docs" / "first-comparison.md").read_text(encoding="utf-8")
    shown_in_order(fenced("text", page)[3], str(dl.compare(dl.res1(width=40, activation="tanh"))))
