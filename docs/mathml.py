"""Formulas of the pages, turned from LaTeX into MathML when the site is built.

Browsers render MathML themselves, so that formulas need neither a network nor a script.
`pymdownx.arithmatex` finds the formulas; mkdocs calls `on_page_content` (see `hooks` in mkdocs.yml).
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\(?P<open>[(\[])(?P<latex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)


def mathml(latex: str, *, display: bool = False) -> str:
    """Return a formula as MathML; raise ValueError where a command of it is not known."""
    found = convert(latex, display="block" if display else "inline")
    unknown = re.search(r"\\[A-Za-z]+", found)
    if unknown is not None:
        raise ValueError(f"{unknown[0]} in the formula {latex!r} is not known to latex2mathml.")
    return found


def on_page_content(content: str, **_: Any) -> str:
    """Return a page's HTML with every formula as MathML."""
    return FORMULA.sub(
        lambda found: mathml(html.unescape(found["latex"]).strip(), display=found["open"] == "["), content
    )
