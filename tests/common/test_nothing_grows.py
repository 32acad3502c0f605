"""Called again and again, no function keeps memory, open files or threads."""

import ctypes
import gc
import mmap
import os
import threading

import pytest
import torch
from test_every_function import CALLS, SLOW, X, stack

import deeplimit as dl
from deeplimit.common.global_state import seeded

WARM, COUNTED = 40, 160
GROWTH = 4 * 2**20
"""Bytes by which the least resident set may grow from 80 calls to the next 80: 50 KiB per call.

Without garbage and the heap's free pages, which are given back first, the least of 20 calls of `reproduce`
stays within 0.02 MiB, and with them within 16. The control below keeps 1 MiB per call.
"""
EVERY_SO_MANY = 4
"""Memory is measured after every fourth call: garbage collection takes as long as a short call."""
BATCH = torch.ones(2, 5, 8)
WIDE = torch.randn(12, 8, 8, generator=torch.Generator().manual_seed(0)) / 8
DEEPER = {depth: {"A": WIDE[:depth] / depth} for depth in (6, 9, 12)}
PROBLEM = dl.testing.PROBLEMS["geometric Brownian motion"]
GIVEN = {"depths": [2, 3, 8], "paths": 200, "seed": 3}


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inside = torch.nn.Linear(4, 4)

    def forward(self, x):
        return x + torch.tanh(self.inside(x))


def blocks(depth):
    return torch.nn.Sequential(*(Block() for _ in range(depth)))


def probed():
    with seeded(0):  # the global generators are left as they were
        return stack(3)


ONCE = {
    "check_solver": lambda: dl.check_solver("euler", PROBLEM.equation, PROBLEM.x, paths=50),
    "depth_controls": lambda: dl.depth_controls({"A": WIDE}, lambda w: float(w["A"].sum(0).norm())),
    "diagnose": lambda: dl.diagnose({"A": WIDE}),
    "fitted_limit": lambda: dl.fitted_limit({n: {"A": WIDE[:n] / n} for n in (6, 9, 12)}).compare(
        WIDE[:3, 0]
    ),
    "identify": lambda: dl.identify(blocks, x=X, depths=[2, 4, 8], draws=16),
    "recommend": lambda: dl.recommend(blocks, depth=17, depths=[4, 8, 16], batch=X),
    "order": lambda: dl.order(torch.rand(50, 3, generator=torch.Generator().manual_seed(1)) + 1, [4, 8, 16]),
    "probe": lambda: dl.probe(probed(), BATCH),
    "simulate": lambda: dl.simulate(dl.res1(4, "tanh"), X, depths=[4, 8], paths=20),
    "compare, drawn": lambda: dl.compare(dl.res1(4, "tanh"), **GIVEN).to_json(),
    "compare, inner": lambda: dl.compare(dl.inner(4, "tanh", noise=dl.Ito(A=0.1, b=0.2)), **GIVEN),
}
EVERY = {**{name: call for name, call in CALLS.items() if name not in SLOW}, **ONCE}


def resident():
    """Return the bytes of the resident set of this process, garbage and free pages of the heap given back."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def held():
    """Return the open files and the threads of this process."""
    gc.collect()
    return len(os.listdir("/proc/self/fd")), threading.active_count()


def grown(call, warm, counted):
    """Return by how much memory, files and threads grow; of memory, the least after either half.

    What a large array leaves comes and goes; what is kept is there after every call.
    """
    for _ in range(warm):
        call()
    before, sizes = held(), []
    for index in range(counted):
        call()
        if index % EVERY_SO_MANY == 0 or counted < 2 * EVERY_SO_MANY:
            sizes.append(resident())
    half = len(sizes) // 2
    memory = min(sizes[half:]) - min(sizes[:half])
    return [memory, *(after - first for first, after in zip(before, held(), strict=True))]


@pytest.mark.nightly
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="counts in /proc")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", EVERY)
def test_two_hundred_calls_keep_no_memory_files_or_threads(name):
    memory, files, threads = grown(EVERY[name], WARM, COUNTED)
    assert memory < GROWTH
    assert files <= 0
    assert threads <= 0


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="counts in /proc")
@pytest.mark.parametrize("name", ["compare, drawn", "order", "simulate", "stability"])
def test_a_few_calls_keep_no_files_or_threads(name):
    _, files, threads = grown(EVERY[name], 1, 2)
    assert files <= 0
    assert threads <= 0


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="counts in /proc")
def test_what_a_call_keeps_is_counted():
    kept = []

    def leaking():
        pages = mmap.mmap(-1, 2**20)  # bytes of the heap may be ones that earlier tests left free
        pages.write(b"x" * 2**20)
        kept.append((pages, open(os.devnull, "rb")))  # noqa: SIM115

    memory, files, _ = grown(leaking, 2, 16)
    for _, file in kept:
        file.close()
    assert memory >= GROWTH
    assert files == 16
