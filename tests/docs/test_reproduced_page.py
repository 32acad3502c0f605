"""Pages of figures are written from reports: what fails is marked."""

import dataclasses
import importlib.util
from pathlib import Path

import pytest

import deeplimit as dl

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def pages():
    spec = importlib.util.spec_from_file_location("reproduced_pages", DOCS / "reproduced.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def report():
    return dl.reproduce("marion-fig6", quick=True, progress=False)


def test_a_statement_that_fails_says_no(pages, report):
    failed = dataclasses.replace(report.checks[0], passed=False, measured="|x| = 2, 99.9 % [1, 3]; it grows")
    changed = dataclasses.replace(report, checks=(failed,), findings=("one thing", "another " * 30))
    section = pages.section(changed)
    assert "**no**: &#124;x&#124; = 2, 99.9 % [1, 3] |" in section
    assert "Found:\n\n- one thing\n- another another" in section
    assert max(map(len, section.splitlines()[2:])) <= 110


def test_pages_of_figures_are_as_their_writer_leaves_them(pages):
    for name in pages.PAGES:
        page = (DOCS / name).read_text(encoding="utf-8")
        assert page.count("images/") == page.count("| stated | measured |")
