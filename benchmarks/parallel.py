"""Two threads, processes and Dask workers beside one, in seconds by the wall: on an idle machine only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from typing import Any

import torch

import deeplimit as dl
from benchmarks.optional import optional
from benchmarks.timing import OURS, Row, Target, Workload, timed_in_turn
from benchmarks.training import RATE, data

THREADS, CLUSTER = 1.7, 1.5
"""How many times as fast two are to be as one."""


def works(quick: bool) -> dict[str, Callable[..., Any]]:
    """Return calls that take `workers` and `executor`, of some seconds each."""
    paths = 64 if quick else 8192
    depths = (8, 16, 32) if quick else (16, 32, 64, 128, 256)
    smooth = dl.res1(8, "tanh", weights=dl.SmoothGaussian(0.1))
    return {
        "compare, Proposition 11, d = 40": partial(
            dl.compare, dl.res1(40, "tanh"), depths=depths, paths=paths
        ),
        "compare, Proposition 12, d = 8": partial(dl.compare, smooth, depths=depths, paths=paths // 16),
        "phase_diagram, d = 20": partial(
            dl.phase_diagram,
            dl.res3,
            hurst=(0.3, 0.7),
            exponents=(0.25, 0.5, 0.75, 1.0),
            width=20,
            depth=50 if quick else 500,
            draws=2 if quick else 40,
        ),
        "train, tanh, d = 10, eight networks": partial(
            dl.train,
            dl.fully_connected(10, "tanh", exponent=0.0),
            [16, 32] if quick else [64, 128],
            data(),
            optimizer=dl.SGD(RATE),
            batch=32,
            epochs=2 if quick else 10,
            repeats=8,
            initial=dl.SmallGaussian(),
        ),
    }


@contextmanager
def processes() -> Iterator[Executor]:
    """Two processes that have imported the library."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(abs, range(4)))
        yield pool


def parallel(*, quick: bool, repeats: int) -> Workload:
    """Time each call with one and with two workers of each kind, in turn."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    rows: list[Row] = []
    targets: list[Target] = []
    distributed, missing = optional("dask.distributed", "pip install 'dask[distributed]'")
    try:
        with processes() as pool:
            client = distributed and distributed.Client(
                n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
            )
            for name, work in works(quick).items():
                ways = {
                    "one thread": (partial(work, workers=1), 0.0),
                    "two threads": (partial(work, workers=2), THREADS),
                    "two processes": (partial(work, executor=pool), THREADS),
                }
                if client:
                    ways["two Dask workers"] = partial(work, executor=client), CLUSTER
                calls = [call for call, _ in ways.values()]
                for call in calls:
                    call()  # compiles, and loads in the workers
                times = [seconds for seconds, _ in timed_in_turn(calls, repeats, min)]
                for (who, (_, bound)), seconds in zip(ways.items(), times, strict=True):
                    rows.append(
                        Row(f"{name}: {who}", seconds, f"{times[0] / seconds:.2f} times as fast", None, OURS)
                    )
                    if bound:
                        targets.append(
                            Target(f"{name}: {who}, times as fast", times[0] / seconds, at_least=bound)
                        )
            if client:
                client.close()
    finally:
        torch.set_num_threads(threads)
    setting = "two workers beside one, seconds by the wall"
    return Workload(
        "parallel", setting, tuple(rows), {"quick": quick}, tuple(targets), (missing,) if missing else ()
    )
