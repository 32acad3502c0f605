"""Time deeplimit against the alternatives, side by side in one run, print a table and write JSON.

python -m benchmarks            # full sizes
python -m benchmarks --quick    # smaller, under a minute
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from pathlib import Path

import numpy as np
import torch

import deeplimit
from benchmarks import w1


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


def main() -> None:
    """Run every workload and report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes, under a minute")
    parser.add_argument("--repeats", type=int, default=3, help="runs of deeplimit and of the floor; medians are shown")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="folder for the JSON")
    arguments = parser.parse_args()
    setting = w1.QUICK if arguments.quick else w1.FULL
    print(f"W1: {setting}")
    results = w1.run(setting, arguments.repeats)
    ours = next(row["seconds"] for row in results if row["who"].startswith("deeplimit, same reference"))
    print(f"\n{'who':<68} {'seconds':>9} {'× deeplimit':>12}")
    for row in results:
        seconds = row["seconds"]
        shown = "-" if seconds is None else f"{seconds:9.2f}"
        ratio = "-" if seconds is None else f"{seconds / ours:12.2f}"
        print(f"{row['who']:<68} {shown:>9} {ratio:>12}  {row['note']}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / f"w1{'-quick' if arguments.quick else ''}.json"
    document = {"workload": "W1", "setting": setting.to_dict(), "machine": machine(), "numpy": np.__version__, "results": results}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"\nWritten: {path}")


if __name__ == "__main__":
    main()
