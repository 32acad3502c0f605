"""How near the comparison with all d² increments comes to the generator's own rate: state normals a second,
for both.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import torch

import deeplimit as dl
from benchmarks.strong_error import W1, W1_QUICK, in_short, res1, settings_of
from benchmarks.timing import FLOOR, OURS, Row, Target, Workload, timed_in_turn
from deeplimit.judge.convergence import CompareReport

BLOCK = 64
"""Paths of normals drawn at once by the floor: its buffer stays in cache, where the generator is fastest."""


def pathwise(*, quick: bool, repeats: int) -> Workload:
    """Time W1 with all d² increments on one core and on all, beside torch's generator filling as many
    numbers.
    """
    setting = W1_QUICK if quick else W1
    network, steps, cores = res1(setting), 2 * setting.depths[-1], os.cpu_count() or 1
    numbers = steps * setting.paths * setting.width**2

    def ours(workers: int) -> CompareReport:
        return dl.compare(
            network, depths=setting.depths, paths=setting.paths, coupling="pathwise", workers=workers
        )

    def drawn(workers: int) -> None:
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            list(pool.map(_fill, range(workers), [numbers // workers] * workers, [setting.width] * workers))

    counts = [1] if cores == 1 else [1, cores]
    ours(1)  # caches are no part of the work
    works = [
        work
        for count in counts
        for work in (lambda count=count: ours(count), lambda count=count: drawn(count))
    ]
    timings = timed_in_turn(works, min(repeats, 2))
    rows, targets = [], []
    for index, count in enumerate(counts):
        (seconds, report), (floor, _) = timings[2 * index], timings[2 * index + 1]
        words = "one core" if count == 1 else f"{count} cores"
        own = f"deeplimit, all d² increments, {words}"
        rows.append(
            Row(
                own,
                seconds,
                f"{numbers / seconds / 1e6:.0f} M normals/s, {in_short(report)}",
                None,
                OURS,
                own,
            )
        )
        each = "" if count == 1 else ", a generator a core (torch.randn by itself uses one)"
        note = f"{numbers / floor / 1e6:.0f} M normals/s{each}"
        rows.append(Row(f"floor: torch's normals alone, {words}", floor, note, None, FLOOR, own))
    serial, fastest = timings[1][0], timings[-2][0]
    words = (
        "numbers that deeplimit goes through in the time torch.randn takes for one (its generator is serial)"
    )
    targets.append(Target(words, serial / fastest, at_least=0.8))
    words = (
        f"W1, all {numbers:.3g} normals of its reference: d = {setting.width}, {setting.paths} paths, depths"
        f" {setting.depths}"
    )
    return Workload("pathwise", words, tuple(rows), settings_of(setting), tuple(targets))


def _fill(seed: int, numbers: int, width: int) -> None:
    """Draw so many normals into the same memory."""
    generator = torch.Generator().manual_seed(seed)
    buffer = torch.empty(BLOCK, width, width)
    for _ in range(numbers // buffer.numel()):
        buffer.normal_(generator=generator)
