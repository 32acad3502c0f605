"""Which tests run which lines, file of tests by file of tests, kept until the file changes."""

from __future__ import annotations

import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import coverage
import pytest

ALL = "*"
"""Stands for all tests of a file, where what they share runs a line."""

OPTIONS = ["-q", "-p", "no:cacheprovider", "-n", "0", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
"""Plugins of pytest are loaded before pytest is, so that processes of tests need not load them."""


class Recorder:
    """A plugin of pytest that tells coverage which test runs, and keeps what each costs."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self.measured, self.now = measured, ""
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.now = item.nodeid
        self.measured.switch_context(self.now)
        before = time.process_time()
        result = yield
        self.seconds[item.nodeid] = time.process_time() - before
        self.measured.switch_context("")
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        shared = fixturedef.scope != "function"
        self.measured.switch_context(ALL if shared else self.now)
        result = yield
        self.measured.switch_context(self.now)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.failed.add(report.nodeid)


def record(tests: Path, package: Path, kept: Path) -> None:
    """Run a file of tests and keep what its tests cost and which lines they run, by the lines' text.

    Text stays where numbers of lines move, so that changes elsewhere in a file of the library cost nothing.
    """
    measured = coverage.Coverage(data_file=None, source=[str(package)], config_file=False)
    measured.set_option("run:core", "ctrace")  # others do not tell tests apart
    recorder = Recorder(measured)
    measured.start()
    pytest.main([*OPTIONS, str(tests)], plugins=[recorder])
    measured.stop()
    data = measured.get_data()
    lines: dict[str, dict[str, list[str]]] = {}
    for name in data.measured_files():
        texts, ran = Path(name).read_text(encoding="utf-8").splitlines(), defaultdict(set)
        for line, contexts in data.contexts_by_lineno(name).items():
            if 0 < line <= len(texts):
                ran[texts[line - 1].strip()] |= set(contexts) - {""} - recorder.failed
        lines[Path(name).relative_to(package).as_posix()] = {
            text: sorted(by) for text, by in ran.items() if by
        }
    seconds = {test: cost for test, cost in recorder.seconds.items() if test not in recorder.failed}
    kept.write_text(
        json.dumps({"digest": digest(tests), "seconds": seconds, "lines": lines}), encoding="utf-8"
    )


def digest(path: Path) -> str:
    """Return what changes with a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Map:
    """The tests near a line.

    Args:
        files: what `record` has kept.
    """

    def __init__(self, files: list[Path]) -> None:
        self.kept = [json.loads(path.read_text(encoding="utf-8")) for path in files]

    def near(self, file: str, texts: Sequence[Sequence[str]], seconds: float, *, widely: bool) -> list[str]:
        """Return tests, fastest first, that together take at most these seconds.

        Args:
            file: path below the package.
            texts: lines that they should run, the best first; then any line of the file, then anything.
            seconds: at least one test is returned, if any, whatever it takes.
            widely: all tests of a file of tests that has such a test, rather than those alone.
        """
        found: dict[str, float] = {}
        for wanted in (*texts, None):
            for kept in self.kept:
                lines = kept["lines"].get(file, {})
                tests = {
                    test for text in (lines if wanted is None else wanted) for test in lines.get(text, ())
                }
                every = ALL in tests or (widely and tests)
                found |= {test: cost for test, cost in kept["seconds"].items() if every or test in tests}
            if found:
                break
        else:  # nothing seen to run the file: compiled, perhaps
            found = {test: cost for kept in self.kept for test, cost in kept["seconds"].items()}
        chosen: list[str] = []
        for test, cost in sorted(found.items(), key=lambda item: item[1]):
            seconds -= cost
            if chosen and seconds < 0:
                break
            chosen.append(test)
        return chosen
