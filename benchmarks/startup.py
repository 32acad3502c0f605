"""How long a user waits before anything is computed: imports and the command line's help, in fresh
interpreters.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import partial

import deeplimit as dl
from benchmarks.timing import OURS, Row, Target, Workload, processor_seconds, timed_in_turn

COMMANDS = {
    "import deeplimit, and its first use (deeplimit.compare)": ["-c", "import deeplimit; deeplimit.compare"],
    "import deeplimit": ["-c", "import deeplimit"],
    "import torch": ["-c", "import torch"],
    "deeplimit --help": ["-m", "deeplimit", "--help"],
    "a Python that does nothing": ["-c", "pass"],
}
FIRST_USE, PACKAGE, TORCH, HELP, _ = COMMANDS
COMPARED = "import deeplimit as dl; dl.compare(dl.res1(40, 'tanh'), depths=(16, 32, 64, 128, 256), paths=512)"
FIRST, NEW, SMALL = 4.0, 0.5, 0.010
"""Processor seconds beyond `import torch` of the first comparison on a machine and in a new process, and
those of a small call.
"""


def processor_seconds_of(program: str, environment: Mapping[str, str]) -> float:
    """Return the processor seconds of a fresh interpreter, its own start included."""
    # Where modules may not be written as bytecode, each process would compile them.
    whole = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, env={**whole, **environment}
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def first_comparison(repeats: int) -> tuple[float, float, float]:
    """Return the processor seconds of `import torch`, and beyond it of a first and of a second process."""
    torch, first, second = [], [], []
    one = {"OMP_NUM_THREADS": "1"}
    processor_seconds_of(COMPARED, one)  # writes bytecode
    for _ in range(repeats):
        torch.append(processor_seconds_of("import torch", one))
        with tempfile.TemporaryDirectory() as folder:
            empty = {**one, "NUMBA_CACHE_DIR": folder}
            first.append(processor_seconds_of(COMPARED, empty))
            second.append(processor_seconds_of(COMPARED, empty))
    return min(torch), min(first) - min(torch), min(second) - min(torch)


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
    alone, first, second = first_comparison(1 if quick else 2)
    call = partial(dl.compare, dl.res1(4, "tanh"), depths=(4, 8, 16), paths=16, workers=1)
    call()
    small = processor_seconds(call, 20)[0]
    rows += [
        Row("processor seconds: import torch", alone, "", None, OURS),
        Row("processor seconds: first comparison on a machine", first, "beyond import torch", None, OURS),
        Row("processor seconds: first comparison of a process", second, "beyond import torch", None, OURS),
        Row("processor seconds: a small comparison", small, "d = 4, depths to 16, 16 paths", None, OURS),
    ]
    targets = (
        Target("processor seconds of a machine's first comparison beyond import torch", first, at_most=FIRST),
        Target("processor seconds of a process's first comparison beyond import torch", second, at_most=NEW),
        Target("processor seconds of a small comparison", small, at_most=SMALL),
        Target("import deeplimit, in times of import torch", seconds[PACKAGE] / seconds[TORCH], at_most=1.5),
        Target("the same with its first use", seconds[FIRST_USE] / seconds[TORCH], at_most=1.5),
        Target("seconds of deeplimit --help", seconds[HELP], at_most=0.5),
    )
    return Workload("startup", "fresh interpreters", tuple(rows), {}, targets)
