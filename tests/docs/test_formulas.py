"""Formulas of the pages are LaTeX that becomes MathML when the site is built."""

import importlib.util
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

DOCS = Path(__file__).parents[2] / "docs"
SPECIFICATION = importlib.util.spec_from_file_location("mathml", DOCS / "mathml.py")
hook = importlib.util.module_from_spec(SPECIFICATION)
SPECIFICATION.loader.exec_module(hook)


def prose(page):
    """A page without its code."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


PAGES = {str(page.relative_to(DOCS)): prose(page) for page in sorted(DOCS.rglob("*.md"))}
DISPLAYED = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
INLINE = re.compile(r"\$([^$\n]+?)\$")
FORMULAS = [
    (name, latex)
    for name, text in PAGES.items()
    for latex in [*DISPLAYED.findall(text), *INLINE.findall(DISPLAYED.sub("", text))]
]


def test_pages_have_formulas():
    assert len(FORMULAS) > 200
    assert {"glossary.md", "index.md", "stability.md", "statistics.md"} < {name for name, _ in FORMULAS}


@pytest.mark.parametrize("page", sorted({name for name, _ in FORMULAS}))
def test_every_formula_of_a_page_becomes_mathml(page):
    for name, latex in FORMULAS:
        if name == page:
            root = ElementTree.fromstring(hook.mathml(latex))
            assert root.tag == "{http://www.w3.org/1998/Math/MathML}math"
            assert "\\" not in "".join(root.itertext())


@pytest.mark.parametrize(
    "page",
    [
        name
        for name in PAGES
        if re.match(r"theorems/|stat|stab|phase|index|comparing|projected|initialisers", name)
    ],
)
def test_no_dollar_of_a_page_is_left_over(page):
    assert "$" not in INLINE.sub("", DISPLAYED.sub("", PAGES[page]))


def test_an_unknown_command_stops_the_build():
    with pytest.raises(ValueError, match=r"\\nosuchcommand"):
        hook.mathml(r"x + \nosuchcommand{y}")


def test_formulas_of_a_built_page_are_replaced_and_code_is_not():
    content = r'<p><span class="arithmatex">\(h \le c\)</span> <code>\(h \le c\)</code></p>'
    built = hook.on_page_content(content)
    assert "<math" in built
    assert "arithmatex" not in built
    assert r"<code>\(h \le c\)</code>" in built
