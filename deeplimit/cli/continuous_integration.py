"""A check's findings where code is reviewed: SARIF for code scanning, and annotations of GitHub Actions."""

from __future__ import annotations

import hashlib
import inspect
import json
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final
from urllib.parse import quote

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
UNDECIDED = "undecided"
SENTENCES = {UNDECIDED: "The check cannot tell whether the module scales with depth as expected."}
"""What a rule means that belongs to no finding; `findings.ABOUT` has those of a depth check."""


@final
@dataclass(frozen=True)
class Source:
    """Where a factory stands: a file, as a path from here if it lies below, and the number of its line."""

    path: Path
    line: int

    @property
    def inside(self) -> bool:
        return not self.path.is_absolute()

    @property
    def uri(self) -> str:
        """The path as SARIF takes it."""
        return quote(self.path.as_posix()) if self.inside else self.path.as_uri()


def source_of(factory: Any, text: str) -> Source | None:
    """Return where the object that `package.module:object` names is written; None where nobody can tell.

    A function that deeplimit has made, by `sweep`, stands where its module does.
    """
    while isinstance(factory, partial):
        factory = factory.func
    here = Path(__file__).resolve().parents[1]
    for candidate in (inspect.unwrap(factory), type(factory), sys.modules.get(text.partition(":")[0])):
        try:
            file = inspect.getsourcefile(candidate)  # type: ignore[arg-type]
            line = inspect.getsourcelines(candidate)[1]  # type: ignore[arg-type]
        except (TypeError, OSError):  # written in C, or typed into a session
            continue
        path = Path(file or "").resolve()
        if file is not None and not path.is_relative_to(here):
            place = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
            return Source(place, max(1, line))
    return None


@final
@dataclass(frozen=True)
class Result:
    """One thing to say about a module: a code, how grave it is, whom it is about, and a text in one line."""

    code: str
    level: str
    names: tuple[str, ...]
    text: str


def results_of(report: Any) -> Iterator[Result]:
    """Yield what a report of `check_depth` or `check_training` finds, and that it cannot tell if so."""
    from deeplimit.common.report import one_line

    if report.verdict == "cannot tell":
        text = "; ".join([report.headline, *report.reservations])
        yield Result(UNDECIDED, "warning", (), one_line(text))
        return
    for finding in report.findings:
        fix = getattr(finding, "fix", "")
        text = one_line(f"{finding} Fix: {fix}" if fix else str(finding))
        names = tuple(map(one_line, finding.parameters))
        yield Result(finding.about.replace(" ", "-"), "error", names, text)


def sarif(report: Any, source: Source | None) -> str:
    """Return a report's results as SARIF 2.1.0: rules are the codes of findings."""
    from deeplimit.modules.depth_check.findings import ABOUT
    from deeplimit.version import __version__

    results = list(results_of(report))
    codes = sorted({result.code for result in results})
    sentences = {about.replace(" ", "-"): sentence for about, sentence in ABOUT.items()} | SENTENCES
    rules = [
        {
            "id": code,
            "shortDescription": {"text": _message(sentences.get(code, f"About: {code.replace('-', ' ')}."))},
            "defaultConfiguration": {"level": "warning" if code == UNDECIDED else "error"},
        }
        for code in codes
    ]
    driver = {"name": "deeplimit", "version": __version__, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_as_sarif(result, codes.index(result.code), source) for result in results],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _as_sarif(result: Result, index: int, source: Source | None) -> dict[str, Any]:
    location: dict[str, Any] = {}
    if source is not None:
        artifact = {"uri": source.uri} | ({"uriBaseId": "%SRCROOT%"} if source.inside else {})
        location["physicalLocation"] = {"artifactLocation": artifact, "region": {"startLine": source.line}}
    if result.names:
        location["logicalLocations"] = [{"fullyQualifiedName": name} for name in result.names]
    # The numbers in a text differ from one machine to the next, what it is about does not.
    print_of = hashlib.sha256("\n".join((result.code, *result.names)).encode()).hexdigest()
    return {
        "ruleId": result.code,
        "ruleIndex": index,
        "level": result.level,
        "message": {"text": _message(result.text)},
        "locations": [location] if location else [],
        "partialFingerprints": {"finding/v1": print_of},
    }


def _message(text: str) -> str:
    """Return a text as SARIF takes it as it is: no placeholder, and no link, whatever a module's name is.

    Brackets are escaped only where they could be read as a link, since some readers show the escapes.
    """
    if "](" in text:
        for special in "\\[]":
            text = text.replace(special, f"\\{special}")
    return text.replace("{", "{{").replace("}", "}}")


def workflow_commands(report: Any, source: Source | None) -> Iterator[str]:
    """Yield a workflow command of GitHub Actions for each result of a report."""
    for result in results_of(report):
        place = f"file={_property(str(source.path))},line={source.line}," if source is not None else ""
        yield f"::{result.level} {place}title={_property(f'deeplimit: {result.code}')}::{_data(result.text)}"


def _data(text: str) -> str:
    """Return the text of a workflow command, which has no ends of lines left."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


@contextmanager
def without_commands(say: Callable[[str], None]) -> Iterator[None]:
    """Have GitHub obey no line that is printed inside: it may hold the name of a module."""
    word = secrets.token_hex(16)  # nobody can write it into a name in advance
    say(f"::stop-commands::{word}")
    try:
        yield
    finally:
        say(f"::{word}::")
