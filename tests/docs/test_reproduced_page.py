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


def test_a_statement_that_fails_is_named_and_others_are_counted(pages, report):
    failed = dataclasses.replace(report.checks[0], passed=False, measured="|x| = 2, 99.9 % [1, 3]; it grows")
    changed = dataclasses.replace(report, checks=(failed, *report.checks[1:]), findings=("one thing",))
    rows = pages.rows(changed)
    assert [row["holds"] for row in rows] == ["no"] + ["yes"] * (len(report.checks) - 1) + [""]
    section = pages.section(rows)
    assert section.startswith(f"{len(report.checks) - 1} of {len(report.checks)} ")
    assert section.endswith(f"\n- {failed.stated}: |x| = 2, 99.9 % [1, 3]\n")
    assert "one thing" not in section
    every = pages.section(pages.rows(report))
    assert "- " not in every
    assert f"{len(report.checks)} of {len(report.checks)} " in every


def test_pages_of_figures_are_as_their_writer_leaves_them(pages):
    statements = pages.kept()
    figures = dict.fromkeys(row["figure"] for row in statements)
    shown = 0
    for name in pages.PAGES:
        page = (DOCS / name).read_text(encoding="utf-8")
        shown += page.partition("\n## Four experiments")[0].count(
            "(images/"
        )  # those state nothing of a paper
        for figure in figures:
            rows = [row for row in statements if row["figure"] == figure]
            assert pages.written(page, figure, rows) == page
            if f"(images/{figure}.png)" in page:
                assert pages.section(rows) in page
    assert shown == len(figures)
