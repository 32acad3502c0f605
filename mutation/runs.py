"""Mutants, one by one, in a copy of the sources, each against the tests near it in a process of its own."""

from __future__ import annotations

import compileall
import json
import multiprocessing
import os
import re
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from cosmic_ray.mutating import use_mutation
from cosmic_ray.plugins import get_operator

from mutation import lines as ran
from mutation.sample import Mutant

LOADED = [
    "numba",
    "numpy",
    "pytest",
    "hypothesis",
    "scipy.integrate",
    "scipy.optimize",
    "scipy.stats",
    "torch",
]
"""Loaded once; each process of tests is a fork of the one that has."""
BESIDE = {
    "layers": ("theory/test_corrections.py",),
    "equations": ("judge/test_laws.py", "simulation/test_loops_in_plain_python.py"),
    "driving": ("theory/test_no_false_theorem.py",),
    "theory": ("signal/test_stability_bounds.py", "signal/test_stability_laws.py"),
}
"""Files of tests in other folders that are about a room."""
BESIDE_ALL = ("guard/test_frozen_reports.py",)
OF_DEFINITIONS = ("tests/house/test_plain_data.py",)
"""Tests of what a file defines as it is imported, where no test can be seen to run a line."""
COMPILED = ("simulation/kernels/numba_loops.py",)
"""Files whose lines run as machine code, so that nobody sees which tests run them: all of the room do."""
SLOWER = 10.0
"""A mutant that takes as many times as long as its tests, and LEAST seconds, is noticed: it does not end."""
LEAST = 30.0


class Bench:
    """A copy of the sources in which one line at a time is broken.

    Args:
        root: checkout to copy.
        folder: where the copy and what tests run are kept.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder, self.tree = root, folder, folder / "tree"
        self.package = self.tree / "deeplimit"
        shutil.rmtree(self.tree, ignore_errors=True)
        for part in ("deeplimit", "tests", "docs", "calibration", "benchmarks", "mutation"):
            shutil.copytree(root / part, self.tree / part, ignore=shutil.ignore_patterns("__pycache__"))
        for part in root.iterdir():
            if part.is_file():
                shutil.copy(part, self.tree)
        # Compiled files are taken by the time of the source in seconds; a mutant written in the same second
        # as the source would not be seen.
        for path in self.tree.rglob("*.py"):
            os.utime(path, (10**9, 10**9))
        compileall.compile_dir(self.tree, quiet=2)
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(LOADED)

    def run(self, what: Callable[..., None], *given: object, seconds: float) -> tuple[int, str]:
        """Call `what` in a process of its own; return its exit code and the end of what it printed."""
        log = self.folder / "log.txt"
        process = self.context.Process(target=_inside, args=(self.tree, log, seconds, what, *given))
        process.start()
        process.join(60.0 + 20.0 * seconds)
        with suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)  # what it has left, too
        process.join()
        return process.exitcode or 0, log.read_text(encoding="utf-8", errors="replace")[-20000:]

    def map(self, room: str, seconds: float) -> ran.Map:
        """Return which tests of a room run which lines; what is known already is not run again."""
        files, folder = [], self.tree / "tests"
        named = [
            *sorted((folder / room).glob("test_*.py")),
            *map(folder.joinpath, (*BESIDE.get(room, ()), *BESIDE_ALL)),
        ]
        for tests in named:
            kept = self.folder / "lines" / f"{tests.stem}.json"
            kept.parent.mkdir(parents=True, exist_ok=True)
            if not kept.exists() or json.loads(kept.read_text())["digest"] != ran.digest(tests):
                print(f"which lines {tests.relative_to(self.tree)} runs", flush=True)
                code, said = self.run(ran.record, tests, self.package, kept, seconds=seconds)
                if code:
                    raise RuntimeError(f"{tests} did not run to its end: {said}")
            files.append(kept)
        return ran.Map(files)

    def judge(
        self, mutant: Mutant, near: ran.Map, seconds: float, *, widely: bool = False
    ) -> dict[str, object]:
        """Break the line, run the tests near it, mend the line, and return what happened."""
        path = self.package / mutant.file
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        first, last = mutant.statement
        around = [line for line in lines[first - 1 : last] if re.search(r"\w{3}", line)]
        texts = (lines[mutant.line - 1 : mutant.line], around) if first else ()
        seen = "" if mutant.file in COMPILED else mutant.file
        tests = near.near(seen, texts, seconds, widely=widely)
        tests += OF_DEFINITIONS if not first else ()
        began = time.monotonic()
        with use_mutation(path, get_operator(mutant.operator)(), mutant.occurrence):
            code, said = self.run(_test, tests, seconds=LEAST + SLOWER * seconds)
        by = re.findall(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", said, re.M)
        if code > 0 and not by:
            raise RuntimeError(f"the tests of {mutant.key} could not be run: {said}")
        return {
            "key": mutant.key,
            "room": mutant.room,
            "line": mutant.line,
            "killed": code != 0,
            "by": by[0] if by else "time" if code else "",
            "tests": len(tests),
            "seconds": round(time.monotonic() - began, 1),
        }


def _inside(tree: Path, log: Path, seconds: float, what: Callable[..., None], *given: object) -> None:
    os.setsid()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))
    os.chdir(tree)
    sys.dont_write_bytecode = True
    os.environ["PYTHONPATH"] = str(tree)
    os.environ["TEST_LIMIT"] = "inf"  # lines that are traced take longer
    sys.path.insert(0, str(tree))
    what(*given)


def _test(tests: list[str]) -> None:
    import pytest

    sys.exit(pytest.main([*ran.OPTIONS, "-x", *tests]))
