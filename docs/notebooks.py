"""The tutorials as notebooks: made of their pages, so that nothing is written twice.

The site has each beside its page (see `hooks` in mkdocs.yml). `make notebooks` writes all into out/notebooks.
No output is kept: every cell runs, and reports and progress show themselves as HTML.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ROW = re.compile(r"^\| \[[^]]*\]\((?P<page>[\w-]+\.md)\) \|.*\| (?P<needs>[^|]*) \|$", re.MULTILINE)
CODE = re.compile(r"^```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
SAVED = re.compile(r"# (\w+\.py)\n")
"""How a block begins that the reader saves as a file."""


def tutorials() -> dict[str, str]:
    """Return what each tutorial needs, by the name of its page, in the order of the overview."""
    overview = (DOCS / "choosing.md").read_text(encoding="utf-8")
    return {row["page"]: row["needs"] for row in ROW.finditer(overview)}


def notebook(page: str, needs: str) -> dict[str, Any]:
    """Return a page as a notebook: what mkdocs shows as code are cells, all else is text between them."""
    text = (DOCS / page).read_text(encoding="utf-8")
    cells = []
    for place, part in enumerate(CODE.split(text)):
        if place % 2:
            cells += [("code", code) for code in _cells_of(part)]
        elif part.strip():
            cells.append(("markdown", _without_links(part).strip()))
    made = f"Made of `docs/{page}`. To run it, install: {_without_links(needs)}."
    cells[0] = ("markdown", cells[0][1].replace("\n", f"\n\n{made}\n", 1))  # below the title
    return {
        "cells": [_cell(kind, source, number) for number, (kind, source) in enumerate(cells)],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _cells_of(code: str) -> list[str]:
    """Return the cells of a block: a printed object shows itself, and a file is written, then read."""
    code = re.sub(r"^print\((\w+)\)", r"display(\1)", code.strip(), flags=re.MULTILINE)
    saved = SAVED.match(code + "\n")
    return [code] if saved is None else [f"%%writefile {saved[1]}\n{code}", f"%run -n {saved[1]}"]


def _without_links(text: str) -> str:
    """Return text without links and pictures, which lead nowhere from a notebook that was downloaded."""
    text = re.sub(r"!\[([^]]*)\]\([^)]*\)", r"*(On the page: \1.)*", text)
    return re.sub(r"\[([^]]*)\]\((?!https?:)[^)]*\)", r"\1", text)


def _cell(kind: str, source: str, number: int) -> dict[str, Any]:
    cell = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": source}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def _text(page: str) -> str:
    return json.dumps(notebook(page, tutorials()[page]), ensure_ascii=False, indent=1) + "\n"


def _place(page: str) -> str:
    return f"notebooks/{Path(page).stem}.ipynb"


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Add the notebooks to the files of the site."""
    from mkdocs.structure.files import File

    for page in tutorials():
        files.append(File.generated(config, _place(page), content=_text(page)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return a tutorial with a link to its notebook under its title."""
    name = page.file.src_uri
    if name not in tutorials():
        return markdown
    title, rest = markdown.split("\n", 1)
    return f"{title}\n\n[This page as a notebook]({_place(name)}){{: download }}\n{rest}"


def main(folder: Path) -> None:
    """Write all notebooks into a folder."""
    for page in tutorials():
        path = folder / Path(_place(page)).name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_text(page), encoding="utf-8")


if __name__ == "__main__":
    main(Path(*sys.argv[1:]))
