"""The page on learning rates keeps its promise: its command fails with the report that is shown."""

import re
import sys
from pathlib import Path

import families
import pytest
import torch
from shown_output import shown_in_order
from test_depth_page import fenced
from typer.testing import CliRunner

import deeplimit as dl
from deeplimit.cli import app

pytestmark = pytest.mark.nightly
PAGE = (Path(__file__).parents[2] / "docs" / "learning-rate-transfer.md").read_text(encoding="utf-8")


def test_the_command_prints_the_report_that_is_shown_and_fails(tmp_path, monkeypatch):
    (models,) = (block for block in fenced("python", PAGE) if re.match("# models.py", block))
    (tmp_path / "models.py").write_text(models, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "models", raising=False)
    (line,) = (line for block in fenced("console", PAGE) for line in block.splitlines())
    try:
        result = CliRunner().invoke(app, [*line.removeprefix("$ deeplimit ").split(), "--quiet"])
    finally:
        sys.modules.pop("models", None)
    assert result.exit_code == 1, result.output
    shown_in_order(fenced("text", PAGE)[0], result.output)


@pytest.mark.thirdparty
def test_what_is_said_of_gpt_2_is_what_is_printed(tmp_path, monkeypatch):
    families.library("transformers")
    blocks = fenced("python", PAGE)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "models.py").write_text(blocks[0], encoding="utf-8")
    printed = []
    namespace = {
        "depths": [4, 8, 16],
        "dl": dl,
        "torch": torch,
        "print": lambda report: printed.append(str(report)),
    }
    try:
        exec("from models import BASE, adamw, batch, loss", namespace)
        with torch.random.fork_rng():
            for block in (each for each in blocks if "GPT2" in each):
                exec(block, namespace)
    finally:
        sys.modules.pop("models", None)
    (report,) = printed
    assert report.startswith("not as expected")
    assert "epsilon" in report
