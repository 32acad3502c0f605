"""Pages of figures are written from reports: what fails is marked, and only the figure's section changes."""

import dataclasses
import importlib.util
from pathlib import Path

import pytest

import deeplimit as dl

DOCS = Path(__file__).parents[2] / "docs"
PAGE = """# Figures

![one](images/marion-fig5.png){width=495}

| old | table |

## Figure 6

![two](images/marion-fig6.png){width=495}

| old | table |

## Figure 7

![three](images/marion-fig7.png){width=495}

| old | table |
"""


@pytest.fixture(scope="module")
def pages():
    spec = importlib.util.spec_from_file_location("reproduced_pages", DOCS / "reproduced.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def report():
    return dl.reproduce("marion-fig6", quick=True, progress=False)


def test_only_the_section_of_the_figure_is_written(pages, report):
    before, after = PAGE.split("## Figure 7"), pages.written(PAGE, report).split("## Figure 7")
    assert after[1] == before[1]
    head, section = after[0].split("## Figure 6")
    assert head == before[0].split("## Figure 6")[0]
    assert "old" not in section
    for check in report.checks:
        assert f"| {check.stated} | {check.measured} |" in section
    assert pages.written(pages.written(PAGE, report), report) == pages.written(PAGE, report)


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
