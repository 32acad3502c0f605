"""The page on theorems names a test for every row of the table, and every test that it names exists."""

import re
from pathlib import Path

import pytest

from deeplimit.theory.table import ROWS

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "theorems").glob("*.md"))
PAGE = (ROOT / "docs" / "theorems" / "index.md").read_text(encoding="utf-8")
NAMED = re.findall(r"^\|[^|]+\| `?(\w+)`? \| `(tests/[^`:]+)::(\w+)` \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("row", "file", "test"), NAMED, ids=[row for row, _, _ in NAMED])
def test_every_test_that_the_page_names_exists(row, file, test):
    assert re.search(rf"^def {test}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_on_a_theorem_names_tests_that_exist(page):
    named = re.findall(r"`(tests/[^`:]+)::(\w+)`", page.read_text(encoding="utf-8"))
    assert named
    for file, test in named:
        assert re.search(rf"^def {test}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), test


def test_every_row_of_the_table_has_a_test():
    assert {type(row).__name__ for row in ROWS} == {row for row, _, _ in NAMED} - {"none", "all"}
