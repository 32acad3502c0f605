"""Pages that are written from others, or from a list, are what these say."""

import importlib.util
from pathlib import Path

from deeplimit.papers.cases import cases, law_cases

DOCS = Path(__file__).parents[2] / "docs"


def writer(name):
    """The module of docs/ that writes a page."""
    spec = importlib.util.spec_from_file_location(f"{name}_page", DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_gallery_counts_what_the_pages_of_figures_say():
    gallery = writer("gallery").page()
    assert (DOCS / "gallery.md").read_text(encoding="utf-8") == gallery, "run python docs/gallery.py"
    pictures = {path.name for path in (DOCS / "images").glob("*-fig*.png")}
    assert all(f"(images/{name})" in gallery for name in pictures)
    assert "**14/16**" in gallery  # Figure 3 of Cohen et al.: two statements say no


def test_the_page_on_known_cases_is_what_the_list_says():
    written = (DOCS / "cases.md").read_text(encoding="utf-8")
    assert written == writer("cases").page(), "run python docs/cases.py"
    for case in (*cases(), *law_cases()):
        assert case.setting in written
        assert case.equation in written
        assert all(twin.reason in written for twin in case.wrong)
