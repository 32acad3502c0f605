"""What the site makes of its pages: formulas in MathML, tables that know their columns, pictures as links."""

import importlib.util
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

DOCS = Path(__file__).parents[2] / "docs"
SPECIFICATION = importlib.util.spec_from_file_location("hooks", DOCS / "hooks.py")
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
    assert {"concepts.md", "index.md", "stability.md", "statistics.md"} < {name for name, _ in FORMULAS}


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
        if re.match(
            r"theorems/|stat|stab|phase|index|comparing|concepts|first|tutorial|trust|projected|init", name
        )
    ],
)
def test_no_dollar_of_a_page_is_left_over(page):
    assert "$" not in INLINE.sub("", DISPLAYED.sub("", PAGES[page]))


@pytest.mark.parametrize("page", sorted(PAGES))
def test_an_item_of_a_list_after_a_paragraph_of_another_begins_anew(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    assert not re.findall(r"^ {4}\S.*\n\d+\. .*", text, re.MULTILINE)


def test_an_unknown_command_stops_the_build():
    with pytest.raises(ValueError, match=r"\\nosuchcommand"):
        hook.mathml(r"x + \nosuchcommand{y}")


def test_formulas_of_a_built_page_are_replaced_and_code_is_not():
    content = r'<p><span class="arithmatex">\(h \le c\)</span> <code>\(h \le c\)</code></p>'
    built = hook.on_page_content(content)
    assert "<math" in built
    assert "arithmatex" not in built
    assert r"<code>\(h \le c\)</code>" in built


def test_cells_of_a_wide_table_know_their_column_and_small_tables_stay():
    head = "<thead><tr><th>a</th><th>b <em>c</em></th><th>d</th></tr></thead>"
    cells = [f"<td>{word * 30}</td>" for word in ("x", "y", "z")]
    wide = f"<table>{head}<tbody><tr>{''.join(cells)}</tr></tbody></table>"
    built = hook.on_page_content(wide)
    assert re.findall(r'<td data-column="(.*?)">(.)', built) == [("a", "x"), ("b c", "y"), ("d", "z")]
    assert '<table class="wide">' in built
    small = wide.replace("x" * 30, "x").replace("y" * 30, "y")
    assert hook.on_page_content(small) == small


def test_a_cell_below_no_name_of_a_column_has_none_on_a_telephone():
    head = "<thead><tr><th></th><th>b</th><th>c</th></tr></thead>"
    cells = "".join(f"<td>{word * 30}</td>" for word in ("x", "y", "z"))
    built = hook.on_page_content(f"<table>{head}<tbody><tr>{cells}</tr></tbody></table>")
    assert re.findall(r"<td(.*?)>(.)", built) == [
        ("", "x"),
        (' data-column="b"', "y"),
        (' data-column="c"', "z"),
    ]


def test_a_cell_that_holds_one_short_word_of_code_does_not_break_it():
    cells = "<td><code>distributed</code></td><td><code>a b</code></td><td><code>word</code> and more</td>"
    table = f"<table><tbody><tr>{cells}</tr></tbody></table>"
    built = hook.on_page_content(table)
    assert '<td class="word"><code>distributed<' in built
    assert built.count('class="word"') == 1


def test_primes_and_bars_of_a_formula_keep_their_size():
    assert "<msup>" not in hook.mathml(r"\sigma''(0)")
    for bars in (r"\lvert h \rvert", r"|h|"):
        assert hook.mathml(bars).count('stretchy="false" lspace="0"') == 2


def test_prose_says_which_papers_the_letters_are_and_code_does_not():
    built = hook.on_page_content("<p>As [M] and [C] say</p> <code>x[M]</code> <a href='#[C]'>[C]</a>")
    assert re.findall(r'<abbr title="(\w+)[^>]*>\[(.)\]', built) == [("Marion", "M"), ("Cohen", "C")]
    assert "<code>x[M]</code> <a href='#[C]'>[C]</a>" in built


def test_a_long_formula_breaks_before_a_plus_that_no_bracket_holds():
    long = r"dH = a\,(b + c)\,dt + \frac{1}{2}\sigma''(0)\,Q(t, H)\,dt,\ Q = \sum_{jk} H_j H_k + \Sigma"
    pieces = hook.parts(long)
    assert len(pieces) == 4
    assert pieces[0].endswith("(b + c)\\,dt")
    assert [piece[:4] for piece in pieces[1:]] == ["{} +", "Q = ", "{} +"]
    assert "".join(pieces).replace("{} + ", " + ").replace(",Q = ", r",\ Q = ") == long
    assert hook.parts("a + b") == ["a + b"]


def test_a_picture_leads_to_itself_in_full_size():
    picture = '<img alt="a" src="images/a.png" />'
    linked = f'<a href="images/a.png">{picture}</a>'
    assert hook.on_page_content(f'<td data-column="picture">{picture}</td>').count(linked) == 1
    assert hook.on_page_content(linked) == linked


def test_a_picture_of_panels_scrolls_in_its_link():
    picture = '<img alt="a" class="panels" src="images/a.png" />'
    assert hook.on_page_content(picture) == f'<a class="panels" href="images/a.png">{picture}</a>'
