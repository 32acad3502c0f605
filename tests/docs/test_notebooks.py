"""Tutorials are notebooks, too: what their pages run is what they run, and reports show themselves."""

import importlib.util
import json
import os
import re
import sys
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient", reason="notebooks are run by nbclient, of the extra [dev]")
nbformat = pytest.importorskip("nbformat", reason="notebooks are read by nbformat, of the extra [dev]")

DOCS = Path(__file__).parents[2] / "docs"
SPECIFICATION = importlib.util.spec_from_file_location("notebooks", DOCS / "notebooks.py")
notebooks = importlib.util.module_from_spec(SPECIFICATION)
SPECIFICATION.loader.exec_module(notebooks)
PROGRESS = "import deeplimit as dl\ndl.compare(dl.res1(2), depths=[2, 4], paths=8, progress=True)"


def test_there_is_a_notebook_of_every_tutorial_of_the_menu():
    menu = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    (part,) = re.findall(r"- Tutorials:\n((?: {6}.*\n)+)", menu)
    assert [*notebooks.tutorials()] == re.findall(r"(\S+\.md)$", part, re.MULTILINE)


@pytest.mark.parametrize("page", notebooks.tutorials())
def test_a_notebook_is_valid_and_runs_every_line_of_its_page(page):
    made = json.loads(notebooks._text(page))
    nbformat.validate(made)
    shown = [cell["source"] for cell in made["cells"] if cell["cell_type"] == "code"]
    shown = [source for source in shown if not source.startswith("%run")]
    shown = [re.sub(r"^%%writefile .*\n", "", source).replace("display(", "print(") for source in shown]
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), re.M | re.S)
    assert shown == [block.strip() for block in blocks]
    assert not any("](" in cell["source"].replace("](http", "") for cell in made["cells"])


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")  # of Jupyter
def test_a_notebook_runs_and_shows_reports_and_progress_as_html(tmp_path, monkeypatch):
    """A tutorial that prints two reports: what the others run is run by the tests of their pages."""
    made = nbformat.from_dict(notebooks.notebook("tutorial-neural-sde.md", "the library"))
    made.cells.append(nbformat.v4.new_code_cell(PROGRESS))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(DOCS.parent), *filter(None, sys.path)]))
    where = {"metadata": {"path": tmp_path}}
    nbclient.NotebookClient(made, timeout=300, startup_timeout=300, resources=where).execute()
    shown = [output for cell in made.cells if cell.cell_type == "code" for output in cell.outputs]
    pages = [output.data["text/html"] for output in shown if "text/html" in output.get("data", {})]
    assert sum("<svg" in page and "converges" in page for page in pages) == 2
    assert sum("<progress" in page and "100%" in page for page in pages) == 1
    assert sum("<svg" in page for page in pages) == 3
