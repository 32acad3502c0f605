"""Write what full-size figures found into docs/statements.csv, and how many statements hold into their pages.

python docs/reproduced.py FOLDER, after `deeplimit reproduce ... --compact --out FOLDER`.
"""

from __future__ import annotations

import csv
import re
import shutil
import sys
from pathlib import Path

import deeplimit as dl

DOCS = Path(__file__).parent
PAGES = ("reproducing.md", "reproducing-trained.md")
STATEMENTS = DOCS / "statements.csv"
COLUMNS = ("figure", "stated", "measured", "holds")
VERDICT_IN_WORDS = re.compile(r"(99\.9 % \[[^\]]*\]);.*")


def rows(report: dl.Reproduction) -> list[dict[str, str]]:
    """Return the rows of a figure: its statements beside what was measured, and what else was found."""
    found = [(text, "found", "") for text in report.findings]
    stated = [
        (VERDICT_IN_WORDS.sub(r"\1", check.measured), check.stated, "yes" if check.passed else "no")
        for check in report.checks
    ]
    return [
        {"figure": report.figure, "stated": statement, "measured": measured, "holds": holds}
        for measured, statement, holds in (*stated, *found)
    ]


def kept() -> list[dict[str, str]]:
    """Return all rows of the file."""
    with STATEMENTS.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def section(figure: list[dict[str, str]]) -> str:
    """Return what a page says below a figure: how many statements hold, and those that do not."""
    stated = [row for row in figure if row["holds"]]
    failed = [f"- {row['stated']}: {row['measured']}\n" for row in stated if row["holds"] == "no"]
    held = f"{len(stated) - len(failed)} of {len(stated)} statements hold"
    return f"{held}, except:\n\n{''.join(failed)}" if failed else f"{held}.\n"


def written(page: str, name: str, figure: list[dict[str, str]]) -> str:
    """Return the page with the section of this figure below its caption; unchanged without the figure."""
    above = rf"(?m)(^!\[.*\]\(images/{name}\.png\).*\n\n\*.*(?:\n.+)*\*\n\n)(?s:.*?)(?=^## |\Z)"
    found = re.search(above, page)
    if found is None:
        return page
    rest = page[found.end() :]
    return page[: found.end(1)] + section(figure) + ("\n" if rest else "") + rest


def main(folder: Path) -> None:
    """Copy the pictures of a folder, write its reports into the file, and all of the file into the pages."""
    statements = kept()
    for file in sorted(folder.glob("*.json")):
        report = dl.load_report(file)
        if report.quick:
            raise SystemExit(f"{file} is of reduced size; the pages show figures at full size.")
        shutil.copy(file.with_suffix(".png"), DOCS / "images")
        statements = [row for row in statements if row["figure"] != report.figure] + rows(report)
    with STATEMENTS.open("w", encoding="utf-8", newline="") as table:
        writer = csv.DictWriter(table, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(statements)
    for name in PAGES:
        page = (DOCS / name).read_text(encoding="utf-8")
        for figure in dict.fromkeys(row["figure"] for row in statements):
            page = written(page, figure, [row for row in statements if row["figure"] == figure])
        (DOCS / name).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
