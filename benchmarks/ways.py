"""What `coupling="auto"` takes beside the best of our own ways: whole matrices, or products in loops.

Where numba is missing there are products in torch instead; they are no way that anybody is to choose.
"""

from __future__ import annotations

from functools import partial

import deeplimit as dl
from benchmarks.optional import compiled_kernel, compiled_kernel_at_every_size
from benchmarks.strong_error import absent
from benchmarks.timing import OURS, Row, Target, Workload, processor_seconds

DEPTHS = (16, 32, 64, 128)
WIDTHS, PATHS = (1, 2, 4, 8, 10, 16, 40, 100, 256), (64, 512, 8192)
QUICK = (8,), (64,)
NUMBERS = 2**19
"""Paths times the square of the width above which whole matrices take many seconds."""
WIDE_WORK = 2**18
"""Paths times the width above which nothing is run: every way takes minutes on a slow core."""
MOST_REPEATS, ENOUGH = 12, 0.3
"""How often a short call is repeated at most, and for how many seconds. The least of three calls, each of a
hundredth of a second, still varies by a third."""
MOST, NARROW = 1.25, 8
"""How many times the best that `auto` may take, and the width below which it always draws matrices.

Compiled loops would save a narrow call a tenth of a second, and cost it .7 s in each process
and some ten once on a machine; without numba, products take three to fifty times as long there.
"""


def cases(width: int) -> dict[str, dl.ResidualNetwork]:
    """Return a network per theorem and activation."""
    noise = dl.Ito(A=0.05, b=0.25)
    return {
        "Proposition 11, tanh": dl.res1(width, "tanh"),
        "Proposition 11, ReLU": dl.res1(width, "relu"),
        "Proposition 11, GELU": dl.res1(width, "gelu"),
        "Theorem 4.3, tanh": dl.inner(width, "tanh", noise=noise),
        "Theorem 4.4, GELU": dl.inner(width, "gelu", noise=noise),
    }


def ways(*, quick: bool, repeats: int) -> Workload:
    """Time every width, number of paths and case; a row per width and number of paths, its worst case."""
    rows, worst = [], {"from": 0.0, "below": 0.0}
    least: dict[tuple[int, str], float] = {}
    slower = 0.0
    widths, counts = QUICK if quick else (WIDTHS, PATHS)
    compiled = compiled_kernel()[0] is not None
    for width in widths:
        for paths in counts:
            if paths * width > WIDE_WORK:
                continue
            found = {}
            for name, network in cases(width).items():
                call = partial(dl.compare, network, depths=DEPTHS, paths=paths, workers=1)
                call()  # loads
                auto, report = processor_seconds(call, repeats)
                more = max(repeats, min(MOST_REPEATS, int(ENOUGH / auto)))
                auto = min(auto, processor_seconds(call, more)[0])
                others = [auto]
                if paths * width**2 <= NUMBERS and not report.coupling.startswith("pathwise"):
                    others.append(processor_seconds(partial(call, coupling="pathwise"), more)[0])
                if compiled:
                    with compiled_kernel_at_every_size():
                        others.append(processor_seconds(partial(call, coupling="projected"), more)[0])
                found[auto / min(others)] = (auto, name, report.coupling.split(":")[0])
                if (fewer := least.get((width, name))) is not None:
                    slower = max(slower, fewer / auto)
                least[width, name] = auto
            ratio = max(found)
            auto, name, how = found[ratio]
            note = f"{ratio:.2f} times the best of our ways ({how})"
            rows.append(Row(f"d = {width}, {paths} paths: {name}", auto, note, None, OURS))
            side = "from" if width >= NARROW else "below"
            worst[side] = max(worst[side], ratio)
    targets = [
        Target(f"auto over the best of our ways, {side} width {NARROW}", ratio, at_most=MOST)
        for side, ratio in worst.items()
        if ratio
    ]
    if slower:
        targets.append(Target("fewer paths over more paths, at most", slower, at_most=1.1))
    setting = f"auto beside our own ways, depths {DEPTHS}, one thread, processor seconds, worst of five cases"
    return Workload("ways", setting, tuple(rows), {"quick": quick}, tuple(targets), tuple(absent()))
