"""Time deeplimit against the alternatives, side by side in one run, print a table and write JSON.

python -m benchmarks                # every workload at full size, some minutes
python -m benchmarks --quick w2 w4  # smaller, and only these
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import time
from pathlib import Path

import torch

import deeplimit
from benchmarks.initialisation import w2, w3, w4
from benchmarks.w1 import w1


def machine() -> dict[str, object]:
    """Return what a reader needs to place the numbers."""
    return {
        "cores": os.cpu_count(),
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "deeplimit": deeplimit.__version__,
        "date": time.strftime("%Y-%m-%d"),
    }


WORKLOADS = {"w1": w1, "w2": w2, "w3": w3, "w4": w4}


def main() -> None:
    """Run every workload that was asked for, and report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", choices=[[], *WORKLOADS], default=[], help="which ones; all if left out")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, a minute or two")
    parser.add_argument("--repeats", type=int, default=3, help="runs of what is short; medians are shown")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="folder for the JSON")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.workloads or WORKLOADS:
        done = WORKLOADS[name](quick=arguments.quick, repeats=arguments.repeats)
        print(f"\n{name.upper()}: {done.setting}")
        print(f"{'who':<68} {'seconds':>9} {'× deeplimit':>12}")
        ours = done.rows[0].seconds
        for row in done.rows:
            print(f"{row.who:<68} {row.seconds:>9.3g} {row.seconds / ours:>12.3g}  {row.note}")
        path = arguments.out / f"{name}{'-quick' if arguments.quick else ''}.json"
        document = {"machine": machine(), **dataclasses.asdict(done)}
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
