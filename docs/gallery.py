"""Write the gallery, docs/gallery.md, from the pages of figures and of theorems: python docs/gallery.py."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

DOCS = Path(__file__).parent
INTRODUCTION = """# Gallery

Every limit with a picture, and every figure of two papers drawn again, with the number of the paper's
statements that hold (bold where not all do). `deeplimit reproduce marion-fig1` draws Figure 1 of Marion et
al. and checks it; `deeplimit validate --quick --only "ROWS"` measures a limit.

More: [every limit with its wrong twin](cases.md), and [four experiments on
training](reproducing-trained.md#four-experiments-on-training).
"""
LIMITS = {
    "proposition-11": "Prop. 11",
    "proposition-12": "Prop. 12",
    "theorem-4-3": "Thm 4.3",
    "theorem-4-4": "Thm 4.4",
    "in-law": "in law",
    "gradients": "gradients",
    "prenorm": "pre-norm",
    "attention": "Fedorov",
    "shaped": "Li et al.",
}
"""Pages of limits with a picture, and the rows of the scoreboard that they are about."""
PAPERS = (
    ("Marion et al. (2025), at initialisation", "reproducing.md", "marion"),
    ("Cohen et al. (2021), trained networks", "reproducing-trained.md", "cohen"),
    ("Marion et al. (2025), trained networks", "reproducing-trained.md", "marion"),
)


def anchor(heading: str) -> str:
    """Return the name that the site gives to a heading."""
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def row(page: str, heading: str, section: str) -> str:
    """Return the line of one figure: picture, link, how many statements hold."""
    found = re.search(r"!\[.*?\]\((images/([\w-]+)\.png)\)", section)
    if found is None:
        raise ValueError(f"{page}: the section {heading!r} has no picture.")
    image, name = found.groups()
    counted = re.search(r"^(\d+) of (\d+) statements hold", section, re.MULTILINE)
    if counted is None:
        raise ValueError(f"{page}: the section {heading!r} does not say how many statements hold.")
    holds = "/".join(counted.groups()) if counted[1] == counted[2] else f"**{counted[1]}/{counted[2]}**"
    title = heading.split(", ", 1)[1] if heading.startswith(("Cohen", "Marion")) else heading
    link = f"[{title}]({page}#{anchor(heading)})".replace("|", "&#124;")
    return f"| ![{name}]({image}){{width=280}} | {link} | {holds} |"


def limit_row(name: str, rows: str) -> str:
    """Return the line of one limit: picture, link to its page, rows of the scoreboard."""
    text = (DOCS / "theorems" / f"{name}.md").read_text(encoding="utf-8")
    heading = re.match(r"# (.*)", text)
    found = re.search(r"!\[(.*?)\]\(\.\./(images/[\w-]+\.png)\)", text)
    if heading is None or found is None:
        raise ValueError(f"theorems/{name}.md must have a heading and a picture.")
    title = heading[1].replace(" of Marion et al. (2025)", "").replace(" of Cohen et al. (2021)", "")
    picture = Path(found[2]).stem
    return f"| ![{picture}]({found[2]}){{width=280}} | [{title}](theorems/{name}.md) | `{rows}` |"


def page() -> str:
    """Return the page, with a table of the limits and one per paper."""
    limits = [limit_row(name, rows) for name, rows in LIMITS.items()]
    head = "| picture | limit | rows |\n|---|---|---|"
    parts = [INTRODUCTION, "\n".join(["## Limits\n", head, *limits]) + "\n"]
    for title, source, author in PAPERS:
        text = (DOCS / source).read_text(encoding="utf-8")
        sections = [section.split("\n", 1) for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]]
        rows = [row(source, heading, body) for heading, body in sections if f"](images/{author}-fig" in body]
        head = "| picture | figure | hold |\n|---|---|---|"
        parts.append("\n".join([f"## {title}\n", head, *rows]) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    (DOCS / "gallery.md").write_text(page(), encoding="utf-8")
