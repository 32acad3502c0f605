"""Measurements: blocks in their order, over threads and executors, given up at once, and shown."""

import gc
import signal
import sys
import threading
import time
import types
import weakref
from concurrent.futures import CancelledError, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
import pytest
from counted import Sum

import deeplimit as dl
from deeplimit.common.measurement import Running, Turns


class Result:
    def __init__(self, block):
        self.block = block


@dataclass(frozen=True)
class Made(dl.Measurement):
    """A measurement whose work is a function of the block and the tick."""

    count: int
    work: object
    folded: object = list

    @property
    def blocks(self):
        return self.count

    def run(self, block, tick=None):
        return self.work(block, tick)

    def merge(self, parts):
        return self.folded(parts)


def late_first(block, tick=None):
    """Finish the earlier blocks last."""
    time.sleep(0.02 * (4 - block))
    return block


@pytest.mark.parametrize("own", [True, False])
def test_results_come_in_the_order_of_the_blocks_whichever_ends_first(own):
    with ThreadPoolExecutor(4) as pool:
        assert dl.measure(Made(4, late_first), workers=4, executor=None if own else pool) == [0, 1, 2, 3]


def test_a_result_that_was_taken_is_not_held():
    def first_is_gone(parts):
        first = weakref.ref(next(parts))
        next(parts)
        gc.collect()
        return first() is None

    assert dl.measure(Made(3, lambda block, tick: Result(block), first_is_gone), workers=1)


def test_interrupted_blocks_end_at_their_next_tick():
    """Ctrl-C comes back long before the ten blocks of a minute each are done."""
    stopped = []

    def work(block, tick):
        try:
            for _ in range(6000):
                time.sleep(0.01)
                tick(1 / 6000)
        except CancelledError:
            stopped.append(block)
            raise

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    timer = threading.Timer(0.3, signal.pthread_kill, [threading.get_ident(), signal.SIGINT])
    timer.start()
    started = time.perf_counter()
    try:
        with pytest.raises(KeyboardInterrupt):
            dl.measure(Made(10, work), workers=2)
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.perf_counter() - started < 10
    while len(stopped) < 2 and time.perf_counter() - started < 20:  # the call does not wait for them
        time.sleep(0.01)
    assert sorted(stopped) == [0, 1]


@pytest.mark.parametrize(
    ("alone", "together", "allowed"),
    [(1.0, 1.0, 4), (1.0, 1.9, 4), (1.0, 2.0, 1), (1.0, 4.0, 1)],
)
def test_blocks_run_side_by_side_where_two_of_them_end_sooner_so(alone, together, allowed):
    turns = Turns(4, None)
    assert turns.allowed == 1
    turns.note(0.0, alone)
    assert turns.allowed == 2
    turns.note(5.0, 5.0 + together)
    turns.note(5.0, 5.5)
    assert turns.allowed == allowed
    turns.note(9.0, 99.0)
    assert turns.allowed == allowed


@pytest.mark.parametrize("asked", [2, None])
def test_blocks_in_which_threads_take_turns_run_one_after_the_other_unless_asked(asked, monkeypatch):
    lock, running, most = threading.Lock(), [], []

    def work(block, tick):
        running.append(block)
        most.append(len(running))
        with lock:
            time.sleep((0.02, 0.06, 0.06)[block] if block < 3 else 0.001)
        running.remove(block)
        return block

    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert dl.measure(Made(40, work), workers=asked) == list(range(40))
    assert most[0] == 1 or asked
    assert max(most[4:]) == (2 if asked else 1)


def test_blocks_that_share_global_state_run_one_by_one_in_the_calling_thread():
    @dataclass(frozen=True)
    class Serial(Made):
        side_by_side = False

    here = threading.get_ident()
    found = dl.measure(Serial(3, lambda block, tick: (block, threading.get_ident())), workers=4)
    assert found == [(0, here), (1, here), (2, here)]


@pytest.fixture(scope="module")
def processes():
    """One other process, which has imported the library."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(Sum(1).run, 0).result()
        yield pool


def test_other_processes_give_the_same_bits(processes):
    assert dl.measure(Sum(5), executor=processes) == dl.measure(Sum(5)) == dl.measure(Sum(5), workers=3)


def test_what_cannot_be_sent_to_other_processes_is_said(processes):
    with pytest.raises(TypeError, match="must be importable there"):
        dl.measure(Made(2, lambda block, tick: block), executor=processes)


def test_a_dask_client_stands_for_its_executor():
    with ThreadPoolExecutor(1) as pool:
        client = types.SimpleNamespace(submit=None, get_executor=lambda: pool)
        assert Running.checked(None, client, None, None).executor is pool
        assert dl.measure(Sum(3), executor=client) == dl.measure(Sum(3))


def test_progress_is_the_fraction_of_all_blocks_of_all_measurements():
    seen = []
    dl.measure(Sum(4), workers=1, progress=seen.append)
    several = []
    with Running.checked(1, None, None, several.append).shown("both") as running:
        for k in range(2):
            running.share(k / 2, (k + 1) / 2).measure(Sum(2))
    assert seen == several == [0.25, 0.5, 0.75, 1.0]


def test_a_bar_is_drawn_on_standard_error(capfd):
    dl.measure(Sum(3), progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "sum" in err
    assert "100 %" in err
    dl.measure(Sum(3), progress=False)
    assert capfd.readouterr().err == ""


def test_a_notebook_gets_a_bar_in_html(monkeypatch):
    shown = []
    handle = types.SimpleNamespace(update=lambda page: shown.append(page))
    display = types.ModuleType("IPython.display")
    display.HTML = str
    display.display = lambda page, display_id: shown.append(page) or handle
    shell = types.ModuleType("IPython")
    shell.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    dl.measure(Sum(3), progress=True)
    assert "value='0.0000'" in shown[0]
    assert "value='1.0000'" in shown[-1]
    assert "100%" in shown[-1]


def test_partial_results_are_kept_without_pickle():
    @dataclass(frozen=True)
    class Objects(Made):
        def write(self, part):
            return {"part": np.array([part], dtype=object)}

    store = dl.Store("objects.sqlite")
    with pytest.raises(TypeError, match=r"^part "):
        dl.measure(Objects(1, late_first), store=store)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
