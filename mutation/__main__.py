"""The command: `python -m mutation` breaks a sample of lines and counts what the tests notice."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from mutation.sample import ROOMS, sample
from mutation.summary import equivalent, table

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Break lines, one at a time, in a copy, and say for each room how many the tests notice."""
    parser = argparse.ArgumentParser(prog="python -m mutation", description=main.__doc__)
    parser.add_argument("rooms", nargs="*", default=ROOMS, metavar="ROOM", help=f"of {', '.join(ROOMS)}")
    parser.add_argument("--size", type=int, default=25, help="mutants per room; a larger number adds to them")
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument("--seconds", type=float, default=30.0, help="of tests per mutant")
    parser.add_argument(
        "--folder", type=Path, default=Path("out/mutation"), help="of what is kept in between"
    )
    parser.add_argument(
        "--again", action="store_true", help="only what survived, with all tests beside the nearest"
    )
    given = parser.parse_args()
    if unknown := set(given.rooms) - set(ROOMS):
        parser.error(f"{', '.join(sorted(unknown))}: no room that is sampled; choose of {', '.join(ROOMS)}")
    # Processes of tests read these when they load their libraries.
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ[f"{library}_NUM_THREADS"] = "1"
    os.environ.setdefault("TRITON_INTERPRET", "1")

    from mutation.runs import Bench

    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    bench, results = Bench(ROOT, folder), folder / "results.jsonl"
    results.touch()
    chosen = {room: sample(bench.package, room, given.size, given.seed) for room in given.rooms}
    last = {row["key"]: row for row in map(json.loads, results.read_text(encoding="utf-8").splitlines())}
    for room, mutants in chosen.items():
        alive = {m.key for m in mutants if m.key in last and not last[m.key]["killed"]} - set(equivalent())
        left = [m for m in mutants if m.key not in last or (given.again and m.key in alive)]
        near = bench.map(room, 600.0) if left else None
        for mutant in left if near else ():
            row = bench.judge(mutant, near, given.seconds, widely=given.again)
            print(
                "killed  " if row["killed"] else "SURVIVED", row["seconds"], mutant.key, row["by"], flush=True
            )
            with results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
    print(table(results, {room: [mutant.key for mutant in mutants] for room, mutants in chosen.items()}))


if __name__ == "__main__":
    main()
