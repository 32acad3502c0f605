"""The page on learning rates keeps its promise: its command fails with the report that is shown."""

import re
import sys
from pathlib import Path

from test_depth_page import fenced, same_but_for_time
from typer.testing import CliRunner

from deeplimit.cli import app

PAGE = (Path(__file__).parents[2] / "docs" / "learning-rate-transfer.md").read_text(encoding="utf-8")


def test_the_command_prints_the_report_that_is_shown_and_fails(tmp_path, monkeypatch):
    (models,) = (block for block in fenced("python", PAGE) if re.match("# models.py", block))
    (tmp_path / "models.py").write_text(models, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (line,) = (line for block in fenced("console", PAGE) for line in block.splitlines())
    try:
        result = CliRunner().invoke(app, [*line.removeprefix("$ deeplimit ").split(), "--quiet"])
    finally:
        sys.modules.pop("models", None)
    assert result.exit_code == 1, result.output
    same_but_for_time(fenced("text", PAGE)[0], result.output)
