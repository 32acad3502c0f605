"""One page of the reference per public name, made from the list in reference.md.

A bullet of that list is a group, whose pages name each other. mkdocs calls `on_config` and `on_files` (see
`hooks` in mkdocs.yml); the pages are nowhere on disk.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OVERVIEW = Path(__file__).parent / "reference.md"
SECTION = re.compile(r"^## (.*)$", re.MULTILINE)
GROUP = re.compile(r"^- ([^:\n]+):\s((?:.|\n(?!\n|- ))*)", re.MULTILINE)
NAME = re.compile(r"\[`[^`]*`\]\[deeplimit\.([\w.]+)\]")
log = logging.getLogger("mkdocs.hooks.reference_pages")
"""Its warnings stop a strict build."""


def groups() -> Iterator[tuple[str, str, list[str]]]:
    """Yield section, group and names, in the order of the list."""
    _, *parts = SECTION.split(OVERVIEW.read_text(encoding="utf-8"))
    for section, text in zip(parts[::2], parts[1::2], strict=True):
        for group, text_of_group in GROUP.findall(text):
            if names := NAME.findall(text_of_group):
                yield section, group, names


def address(name: str) -> str:
    """Return where the page of a name is."""
    return f"reference/{name}.md"


def content(name: str, section: str, group: str, names: list[str]) -> str:
    """Return the page of a name."""
    others = ", ".join(f"[`{each}`][deeplimit.{each}]" for each in names if each != name)
    also = f"See also, under {group.lower()}: {others}.\n\n" if others else ""
    anchor = section.lower().replace(" ", "-")
    return (
        f"::: deeplimit.{name}\n    options:\n      heading_level: 1\n\n"
        f"{also}[{section}](../reference.md#{anchor}) lists all of this section.\n"
    )


def on_config(config: Any, **_: Any) -> Any:
    """Put the pages into the navigation, by section."""
    (reference,) = (entry for entry in config["nav"] if "Reference" in entry)
    sections: dict[str, list[dict[str, str]]] = {}
    for section, _group, names in groups():
        sections.setdefault(section, []).extend({name: address(name)} for name in names)
    reference["Reference"] = [
        reference["Reference"][0],
        *({title: pages} for title, pages in sections.items()),
    ]
    return config


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Add the pages."""
    from mkdocs.structure.files import File  # the tests read the list without mkdocs

    for section, group, names in groups():
        for name in names:
            files.append(File.generated(config, address(name), content=content(name, section, group, names)))
    return files


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Warn of a page of a name that does not show its source."""
    if page.file.src_uri.startswith("reference/") and "mkdocstrings-source" not in html:
        log.warning("%s does not show the source", page.file.src_uri)
    return html
