"""Run on this machine's CUDA card all tests that take a device, the law of the fused kernel against the CPU's
among them, and the `gpu` workload; print the numbers and write one JSON.

python -m benchmarks.card                    # some minutes, writes out/gpu.json
python -m benchmarks.card --quick --out gpu.json

Without a card it says so and leaves with code 2; where a test fails, with code 1.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import torch

from benchmarks import report
from benchmarks.on_device import gpu

NO_CARD = "no CUDA device: this needs a card, and a CUDA build of torch (torch.cuda.is_available() is False)"
TESTS = (sys.executable, "-m", "pytest", "-q", "-m", "card", "-n", "auto", "-p", "no:cacheprovider")


def card() -> dict[str, Any]:
    """Return what a reader needs to know of the card."""
    shown = torch.cuda.get_device_properties(0)
    return {
        "name": shown.name,
        "memory": shown.total_memory,
        "multiprocessors": shown.multi_processor_count,
        "capability": f"{shown.major}.{shown.minor}",
        "cuda": torch.version.cuda,
    }


def tests(*selection: str) -> dict[str, Any]:
    """Run the tests marked `card` in a process of their own; return how many ran, and which failed."""
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "tests.xml"
        began = time.perf_counter()
        # A kernel is compiled in some ten seconds, and the limit of two CPU seconds is for tests without one.
        limits = {**os.environ, "TEST_LIMIT": "120"}
        ended = subprocess.run([*TESTS, f"--junitxml={written}", *selection], check=False, env=limits)
        seconds = time.perf_counter() - began
        if not written.exists():
            raise RuntimeError(f"pytest ended with code {ended.returncode} and wrote no results")
        return {**counted(written), "seconds": round(seconds, 1)}


def counted(results: Path) -> dict[str, Any]:
    """Return the counts of a file in JUnit's format, and the names of what did not pass."""
    # The file is pytest's own, written a moment ago.
    cases = list(ElementTree.parse(results).getroot().iter("testcase"))
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = [case for case in cases if case.find("skipped") is not None]
    return {
        "passed": len(cases) - len(failed) - len(skipped),
        "failed": [f"{case.get('classname')}::{case.get('name')}" for case in failed],
        "skipped": len(skipped),
        "on the card": sum("cuda" in (case.get("name") or "") for case in cases),
    }


def main(arguments: list[str] | None = None) -> int:
    """Run tests and benchmark on the card; return the exit code."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.card", description=(__doc__ or "").split("\n\n")[0]
    )
    made.add_argument("--quick", action="store_true", help="the benchmark in small")
    made.add_argument(
        "--out", type=Path, default=Path("out/gpu.json"), metavar="FILE", help="default out/gpu.json"
    )
    asked = made.parse_args(arguments)
    if not torch.cuda.is_available():
        print(NO_CARD, file=sys.stderr)
        return 2
    ran = tests()
    done = gpu(quick=asked.quick, repeats=3)
    document = {
        "machine": report.machine(),
        "card": card(),
        "tests": ran,
        "benchmark": dataclasses.asdict(done),
    }
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(report.table(done))
    counts = f"{ran['passed']} tests passed, {len(ran['failed'])} failed, {ran['skipped']} skipped"
    print(f"{counts}; JSON in {asked.out}")
    for name in ran["failed"]:
        print(f"failed: {name}")
    return 1 if ran["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
