"""What `compare` takes at its defaults, theorem by theorem, and which share of it goes to the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import deeplimit as dl
from benchmarks.timing import OURS, Row, Target, Workload, processor_seconds
from deeplimit.judge.convergence import comparison

SHARE = 0.15
"""Share of a call at the defaults that the verdict may take."""


def cases(quick: bool) -> dict[str, tuple[dl.ResidualNetwork, float | None]]:
    """Return networks, and within how many seconds each is to be compared."""
    noise = dl.Ito(A=0.05, b=0.25)
    found: dict[str, tuple[dl.ResidualNetwork, float | None]] = {
        "Proposition 11, tanh, d = 40": (dl.res1(40, "tanh"), None),
    }
    if not quick:
        found |= {
            "Theorem 4.3, tanh, d = 10": (dl.inner(10, "tanh", noise=noise), None),
            "Theorem 4.4, 2 SiLU, d = 10": (dl.inner(10, "scaled_silu", noise=noise), None),
            "Proposition 12, tanh, d = 8": (dl.res1(8, "tanh", weights=dl.SmoothGaussian(0.1)), 3.0),
            "fractional weights, H = 0.3, exponent 1, d = 8": (
                dl.res1(8, "tanh", weights=dl.FractionalBrownian(0.3), exponent=1.0),
                5.0,
            ),
            "fractional weights, H = 0.7, d = 8": (
                dl.res1(8, "tanh", weights=dl.FractionalBrownian(0.7)),
                5.0,
            ),
        }
    return found


@contextmanager
def verdicts_timed() -> Iterator[Callable[[], float]]:
    """Give a function that says how many processor seconds verdicts have taken since."""
    assess, taken = comparison.assess, [0.0]

    def timed(*given: Any, **named: Any) -> Any:
        begun = time.process_time()
        try:
            return assess(*given, **named)
        finally:
            taken[0] += time.process_time() - begun

    comparison.assess = timed
    try:
        yield lambda: taken[0]
    finally:
        comparison.assess = assess


def default_calls(*, quick: bool, repeats: int) -> Workload:
    """Time one call after the other, on one thread."""
    rows, targets = [], []
    for name, (network, most) in cases(quick).items():
        call = partial(dl.compare, network, workers=1)
        call()  # compiles
        seconds, report = processor_seconds(call, repeats)
        with verdicts_timed() as taken:
            whole, _ = processor_seconds(call, 1)
            share = taken() / whole
        note = f"{report.verdict}, {len(report.depths)} depths, {report.paths} paths, verdict {share:.0%}"
        rows.append(Row(name, seconds, note, None, OURS))
        targets.append(Target(f"{name}: share of the verdict", share, at_most=SHARE))
        if most is not None:
            targets.append(Target(f"{name}: processor seconds", seconds, at_most=most))
    setting = "compare(network) as it comes, one thread, processor seconds"
    return Workload("defaults", setting, tuple(rows), {"quick": quick}, tuple(targets))
