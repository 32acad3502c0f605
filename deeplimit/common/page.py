"""Reports as HTML: a fragment for notebooks, a whole page; no script, no network, everything escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from deeplimit.common.verdict import Verdict

STYLE = """
:root{--ink:#1f2328;--soft:#59636e;--line:#d1d9e0;--paper:#fff;--good:#1a7f37;--bad:#cf222e;--open:#9a6700}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9198a1;--line:#3d444d;--paper:#0d1117;
--good:#3fb950;--bad:#f85149;--open:#d29922}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);
max-width:62rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.3rem;border-left:.4rem solid var(--tone);padding-left:.7rem}
h2{font-size:1.05rem;margin-top:2rem}
p.what,footer{color:var(--soft)}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;padding:.35rem .7rem;border-bottom:1px solid var(--line);vertical-align:top}
td{font-variant-numeric:tabular-nums}
li{margin:.4rem 0}svg{max-width:100%;height:auto;background:#fff}
"""
Section = tuple[str, str]
"""A heading, and what stands under it as HTML."""


def tone(verdict: object) -> str:
    """Return the colour of a verdict: good, bad or open."""
    known = verdict.is_good if isinstance(verdict, Verdict) else None
    return {True: "good", False: "bad", None: "open"}[known]


def items(texts: Iterable[str]) -> str:
    """Return a list of texts, escaped; empty for none."""
    rows = "".join(f"<li>{html.escape(text)}</li>" for text in texts)
    return f"<ul>{rows}</ul>" if rows else ""


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Return names and what they stand for, one pair per line."""
    return "<br>".join(
        f"<b>{html.escape(name)}</b> {html.escape(text)}" if name else html.escape(text)
        for name, text in pairs
    )


def body(sections: Sequence[Section]) -> str:
    """Return sections under their headings; empty ones are left out."""
    return "".join(
        (f"<h2>{html.escape(heading)}</h2>" if heading else "")
        + f'<div style="overflow-x:auto">{inside}</div>'  # wide tables scroll, in a notebook, too
        for heading, inside in sections
        if inside
    )


def whole(title: str, sections: Sequence[Section], verdict: object, footer: str) -> str:
    """Return a page that needs nothing else."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport"'
        f' content="width=device-width, initial-scale=1"><title>{html.escape(title)}</title>'
        f'<style>{STYLE}</style></head><body style="--tone:var(--{tone(verdict)})">'
        f"<h1>{html.escape(title)}</h1>{body(sections)}"
        f"<footer><p>{html.escape(footer)}</p></footer></body></html>\n"
    )
