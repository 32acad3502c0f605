"""The command: `python -m calibration` measures, `python -m calibration page` writes the page."""

from __future__ import annotations

import argparse
import math
import os
from fnmatch import fnmatchcase
from pathlib import Path

from calibration import results, runs
from calibration.cells import cells
from calibration.figures import draw
from calibration.page import PAGE, page


def main() -> None:
    """Read the arguments and measure, or write the page, or list the cells."""
    parser = argparse.ArgumentParser(prog="python -m calibration", description=main.__doc__)
    parser.add_argument("command", nargs="?", choices=("measure", "page", "list"), default="measure")
    parser.add_argument("--calls", type=int, help="calls per cell; 400 where they decide, else 100")
    parser.add_argument("--workers", type=int, default=2, help="processes, one thread each")
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no call after this time")
    parser.add_argument("--only", default="*", metavar="GROUP/NAME", help="begin of a key; * and ? as usual")
    parser.add_argument("--file", type=Path, default=Path("out/calibration/replications.jsonl"))
    parser.add_argument("--results", type=Path, default=results.RESULTS, help="file of results")
    parser.add_argument("--page", type=Path, default=PAGE, help="page to write")
    given = parser.parse_args()
    # The processes that measure read this when they load their libraries.
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ[f"{library}_NUM_THREADS"] = "1"

    chosen = [cell for cell in cells() if fnmatchcase(cell.key, f"{given.only}*")]
    if not chosen:
        parser.error(f"--only {given.only!r} names no cell; `python -m calibration list` shows them")
    if given.command == "list":
        print("\n".join(cell.key for cell in chosen))
        return
    if given.command == "measure":
        runs.measure(
            chosen,
            given.file,
            calls=given.calls,
            workers=given.workers,
            seconds=given.seconds,
        )
        results.update(cells(), given.file, given.results)
    found = results.load(given.results)
    given.page.write_text(page(cells(), found), encoding="utf-8")
    pictures = given.page.parent / "images"
    pictures.mkdir(exist_ok=True)
    draw(cells(), found, pictures)
    print(f"wrote {given.page}: {len(found)} of {len(cells())} cells measured")


if __name__ == "__main__":
    main()
