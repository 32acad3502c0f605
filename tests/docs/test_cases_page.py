"""The page on known cases is the list of known cases."""

import importlib.util
from pathlib import Path

from deeplimit.cases import cases, law_cases

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_on_known_cases_is_what_the_list_says():
    spec = importlib.util.spec_from_file_location("cases_page", DOCS / "cases.py")
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    written = (DOCS / "cases.md").read_text(encoding="utf-8")
    assert written == writer.page(), "run python docs/cases.py"
    for case in (*cases(), *law_cases()):
        assert case.setting in written
        assert case.equation in written
        assert all(twin.reason in written for twin in case.wrong)
