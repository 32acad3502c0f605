"""What the site does with the HTML of its pages: formulas, wide tables and papers' names.

Formulas become MathML, which browsers render themselves: they need neither a network nor a script.
`pymdownx.arithmatex` finds them. Tables fit a telephone, pictures lead to themselves in full size, and
[M] and [C] say which papers they are.
Pages that teach come first in the search. mkdocs calls the functions `on_…` (see `hooks` in mkdocs.yml).
"""

from __future__ import annotations

import html
import itertools
import re
import tomllib
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\(?P<open>[(\[])(?P<latex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)

TIGHT = re.compile('<mo(?: stretchy="false")?>(/|\\||&#x0002F;|&#x0007C;|&#x02016;)</mo>')
"""Slashes and bars, around which MathML leaves the space of a relation; bars would also grow at will."""

PRIME = re.compile("<msup>(<mi>[^<]*</mi>)<mi>(&#x0203[234];)</mi></msup>")
"""Primes, whose glyphs are small and raised, and need not become so twice."""

PAPERS = {
    "M": "Marion, Fermanian, Biau, Vert: Scaling ResNets in the large-depth regime, JMLR 26 (2025)",
    "C": "Cohen, Cont, Rossier, Xu: Scaling properties of deep residual networks, ICML 2021",
}
PAPER = re.compile(r"\[([MC])\](?![^<]*(?:>|</code>|</a>|</h1>))")
"""The two papers where prose names them, but not in tags, code, links and titles."""

PICTURE = re.compile(r'(?P<link><a [^>]*>)?<img [^>]*src="(?P<source>[^"]*)"[^>]*>')
"""Pictures of a page, and whether they are a link already."""

LONG = 60
"""Characters of a formula that no column of a table holds."""

WORD = re.compile(r"<td(?P<rest>[^>]*)>(?P<code><code>[^<\s]{1,14}</code>)</td>")
"""Cells that hold one short piece of code, which is not to be broken."""

TABLE = re.compile(r"<table>\s*<thead>.*?</table>", re.DOTALL)
CELL = re.compile(r"<td(?P<rest>[^>]*)>(?P<content>.*?)</td>", re.DOTALL)
WIDE = 60
"""Characters of a row, on the average, that no telephone shows side by side."""


def mathml(latex: str, *, display: bool = False) -> str:
    """Return a formula as MathML; raise ValueError where a command of it is not known."""
    found = convert(latex, display="block" if display else "inline")
    unknown = re.search(r"\\[A-Za-z]+", found)
    if unknown is not None:
        raise ValueError(f"{unknown[0]} in the formula {latex!r} is not known to latex2mathml.")
    found = TIGHT.sub(r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>', found)
    return PRIME.sub(r'<mrow>\1<mo lspace="0" rspace="0">\2</mo></mrow>', found)


def parts(latex: str) -> list[str]:
    """Return the pieces of a long formula between which a line may break: after commas, before signs."""
    if len(latex) <= LONG or r"\left" in latex:
        return [latex]
    pieces, depth = [""], 0
    for token in re.split(r"( [+-] |,\\ |[(){}\[\]])", latex):
        depth += (token in ("(", "{", "[")) - (token in (")", "}", "]"))
        if depth == 0 and token in (" + ", " - "):
            pieces.append("{}" + token)
        elif depth == 0 and token == r",\ ":
            pieces[-1] += ","
            pieces.append("")
        else:
            pieces[-1] += token
    return pieces


def plain(fragment: str) -> str:
    """Return the text of a piece of HTML, as the value of an attribute."""
    return html.escape(html.unescape(re.sub(r"<[^>]*>", "", fragment)), quote=True)


def labelled(table: str) -> str:
    """Return a table; where it is wide, each cell has the name of its column, which site.css shows."""
    columns = [plain(name) for name in re.findall(r"<th\b[^>]*>(.*?)</th>", table, re.DOTALL)]
    cells = CELL.findall(table)
    rows = len(cells) / max(len(columns), 1)
    if not 3 <= len(columns) <= 7 or sum(len(plain(content)) for _, content in cells) < WIDE * rows:
        return table
    names = itertools.cycle(f' data-column="{name}"' if name else "" for name in columns)
    named = CELL.sub(lambda cell: f"<td{cell['rest']}{next(names)}>{cell['content']}</td>", table)
    return named.replace("<table>", '<table class="wide">', 1)


def in_full_size(picture: re.Match[str]) -> str:
    """Return a picture as a link to itself; site.css has one of the class "panels" scroll on a telephone."""
    if picture["link"]:
        return picture[0]
    scrolls = ' class="panels"' if 'class="panels"' in picture[0] else ""
    return f'<a{scrolls} href="{picture["source"]}">{picture[0]}</a>'


BOOST = {"Start": 3, "Tutorials": 2, "How-to": 2, "Gallery": 0.5, "Under the hood": 0.5}
"""How much pages of a part of the site count in the search: pages that teach come before internals."""


def on_page_markdown(_markdown: str, page: Any, **_: Any) -> None:
    """Say how much a page counts in the search; what it says itself holds."""
    part = page.ancestors[-1].title if page.ancestors else ""
    if part in BOOST:
        page.meta.setdefault("search", {"boost": BOOST[part]})


def on_config(config: Any) -> Any:
    """Return the settings, with links to the repository that pyproject.toml names, if it names one."""
    project = Path(config["config_file_path"]).with_name("pyproject.toml").read_text(encoding="utf-8")
    repository = tomllib.loads(project)["tool"]["deeplimit"]["repository"].rstrip("/")
    if repository:
        config["repo_url"], config["repo_name"] = repository, "/".join(repository.split("/")[-2:])
        config["edit_uri"] = "edit/main/docs/"
    return config


def on_page_content(content: str, **_: Any) -> str:
    """Return a page's HTML with formulas as MathML and tables that fit a telephone.

    Formulas on lines of their own scroll where they are wider than the page.
    """

    def written(found: re.Match[str]) -> str:
        display = found["open"] == "["
        latex = html.unescape(found["latex"]).strip()
        if display:
            return f'<div class="formula">{mathml(latex, display=True)}</div>'
        return " ".join(mathml(part) for part in parts(latex))

    content = TABLE.sub(lambda table: labelled(table[0]), FORMULA.sub(written, content))
    content = WORD.sub(r'<td\g<rest> class="word">\g<code></td>', content)
    content = PICTURE.sub(in_full_size, content)
    return PAPER.sub(lambda paper: f'<abbr title="{PAPERS[paper[1]]}">{paper[0]}</abbr>', content)
