"""How long a user waits before anything is computed: imports and the command line's help, in fresh
interpreters.
"""

from __future__ import annotations

import subprocess
import sys

from benchmarks.timing import OURS, Row, Target, Workload, timed_in_turn

COMMANDS = {
    "import deeplimit, and its first use (deeplimit.compare)": ["-c", "import deeplimit; deeplimit.compare"],
    "import deeplimit": ["-c", "import deeplimit"],
    "import torch": ["-c", "import torch"],
    "deeplimit --help": ["-m", "deeplimit", "--help"],
    "a Python that does nothing": ["-c", "pass"],
}
FIRST_USE, PACKAGE, TORCH, HELP, _ = COMMANDS


def startup(*, quick: bool, repeats: int) -> Workload:
    """Time fresh interpreters, one after the other in turn."""

    def fresh(arguments: list[str]) -> None:
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True)

    for (
        arguments
    ) in COMMANDS.values():  # files come into the disk's cache, and modules are compiled to bytecode
        fresh(arguments)
    works = [lambda arguments=arguments: fresh(arguments) for arguments in COMMANDS.values()]
    timings = timed_in_turn(works, 3 if quick else max(5, repeats))
    seconds = {who: time for who, (time, _) in zip(COMMANDS, timings, strict=True)}
    # Held against the record is deeplimit's first use beside torch alone; an interpreter's own start is no
    # alternative.
    rows = [Row(who, time, role=OURS if who != TORCH else "alternative") for who, time in seconds.items()]
    targets = (
        Target("import deeplimit, in times of import torch", seconds[PACKAGE] / seconds[TORCH], at_most=1.5),
        Target("the same with its first use", seconds[FIRST_USE] / seconds[TORCH], at_most=1.5),
        Target("seconds of deeplimit --help", seconds[HELP], at_most=0.5),
    )
    return Workload("startup", "fresh interpreters", tuple(rows), {}, targets)
