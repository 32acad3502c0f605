"""Write what full-size figures found into their pages.

python docs/reproduced.py FOLDER, after `deeplimit reproduce ... --compact --out FOLDER`.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from pathlib import Path

import deeplimit as dl

DOCS = Path(__file__).parent
PAGES = ("reproducing.md", "reproducing-trained.md")
VERDICT_IN_WORDS = re.compile(r"(99\.9 % \[[^\]]*\]);.*")


def section(report: dl.Reproduction) -> str:
    """Return what a page says below a figure: the statements beside what was measured, and the findings."""
    rows = ["| stated | measured |", "|---|---|"]
    for check in report.checks:
        measured = VERDICT_IN_WORDS.sub(r"\1", check.measured)
        cells = (check.stated, measured if check.passed else f"**no**: {measured}")
        rows.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    if not report.findings:
        return "\n".join(rows) + "\n"
    found = [
        textwrap.fill(text, 110, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
        for text in report.findings
    ]
    return "\n".join([*rows, "", "Found:", "", *found]) + "\n"


def written(page: str, report: dl.Reproduction) -> str:
    """Return the page with the section of this figure; unchanged where the page does not have the figure."""
    figure = rf"(?m)(^!\[.*\]\(images/{report.figure}\.png\).*\n\n)(?s:.*?)(?=^## |\Z)"
    found = re.search(figure, page)
    if found is None:
        return page
    rest = page[found.end() :]
    return page[: found.end(1)] + section(report) + ("\n" if rest else "") + rest


def main(folder: Path) -> None:
    """Copy the pictures of a folder and write its reports into the pages."""
    for file in sorted(folder.glob("*.json")):
        report = dl.load_report(file)
        if report.quick:
            raise SystemExit(f"{file} is of reduced size; the pages show figures at full size.")
        shutil.copy(file.with_suffix(".png"), DOCS / "images")
        for name in PAGES:
            page = DOCS / name
            page.write_text(written(page.read_text(encoding="utf-8"), report), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
