"""Time deeplimit against the alternatives, side by side in one run; print tables, targets and regressions;
write JSON.

python -m benchmarks                     # every workload at full size, but the longest
python -m benchmarks --quick w1 memory   # smaller, and only these
python -m benchmarks --record            # this run is the one that later ones are held against

Each run is written to benchmarks/results/latest/. The recorded runs in benchmarks/results/ change with
--record alone.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from benchmarks import report
from benchmarks.default_calls import default_calls
from benchmarks.depth_check import check, large
from benchmarks.doors import doors
from benchmarks.extensions import extensions
from benchmarks.generator_rate import pathwise
from benchmarks.initialisation import w2, w3, w4
from benchmarks.on_device import gpu
from benchmarks.parallel import parallel
from benchmarks.peaks import peaks
from benchmarks.scaling import memory, scaling
from benchmarks.startup import startup
from benchmarks.strong_error import theorem_4_4, w1
from benchmarks.trained_weights import diagnose
from benchmarks.training import w5
from benchmarks.training_check import check_train
from benchmarks.ways import ways

WORKLOADS = {
    "w1": w1,
    "theorem-4-4": theorem_4_4,
    "doors": doors,
    "ways": ways,
    "extensions": extensions,
    "defaults": default_calls,
    "parallel": parallel,
    "pathwise": pathwise,
    "scaling": scaling,
    "memory": memory,
    "peaks": peaks,
    "gpu": gpu,
    "w2": w2,
    "w3": w3,
    "w4": w4,
    "w5": w5,
    "check": check,
    "large": large,
    "check-train": check_train,
    "diagnose": diagnose,
    "startup": startup,
}
LONG = {"large"}
"""Those of more than ten minutes at full size, which run where they are named."""


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    lines = (__doc__ or "").splitlines()
    made = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=lines[0],
        epilog="\n".join(lines[2:]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "workloads",
        nargs="*",
        metavar="WORKLOAD",
        help=f"of {', '.join(WORKLOADS)}; all but {', '.join(LONG)} if left out",
    )
    made.add_argument("--quick", action="store_true", help="smaller sizes")
    made.add_argument(
        "--repeats",
        type=int,
        default=3,
        metavar="N",
        help="runs of what is short; medians are shown (default 3)",
    )
    made.add_argument(
        "--record",
        action="store_true",
        help=f"keep this run in {report.RECORDED} for later ones to be held against",
    )
    made.add_argument(
        "--out",
        type=Path,
        default=report.LATEST,
        metavar="FOLDER",
        help=f"for the JSON (default {report.LATEST})",
    )
    return made


def main() -> None:
    """Run every workload that was asked for, and report."""
    made = parser()
    arguments = made.parse_args()
    unknown = [name for name in arguments.workloads if name not in WORKLOADS]
    if unknown:
        made.error(f"no workload {', '.join(unknown)}; there are {', '.join(WORKLOADS)}")
    if arguments.repeats < 1:
        made.error("--repeats must be at least 1")
    start = time.perf_counter()
    summary = []
    if (warning := report.busy()) is not None:
        print(warning)
    for name in arguments.workloads or [name for name in WORKLOADS if arguments.quick or name not in LONG]:
        began = time.perf_counter()
        done = WORKLOADS[name](quick=arguments.quick, repeats=arguments.repeats)
        print(f"\n{report.table(done)}")
        file = f"{name}{'-quick' if arguments.quick else ''}.json"
        held = report.against_record(done, report.RECORDED / file)
        for line in held:
            print(line)
        summary += [f"{name}: {line}" for line in held if line.startswith("REGRESSED")]
        summary += [
            f"{name}: NOT met: {target.words}: {target.value:.3g}"
            for target in done.targets
            if not target.met
        ]
        if done.rows:
            report.save(done, arguments.out / file)
            if arguments.record:
                report.save(done, report.RECORDED / file)
        print(f"({time.perf_counter() - began:.0f} s)", flush=True)
    print(
        f"\n{time.perf_counter() - start:.0f} s in all; JSON in"
        f" {report.RECORDED if arguments.record else arguments.out}"
    )
    print("\n".join(summary) if summary else "every target met, nothing regressed")


if __name__ == "__main__":
    main()
