"""Blocks are submitted a few at a time, tried twice where a machine fails, and given up at once."""

import threading
import time
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

import pytest

import deeplimit as dl
from deeplimit.common import measurement


@dataclass(frozen=True)
class Made(dl.Measurement):
    count: int
    work: object
    what = "made"

    @property
    def blocks(self):
        return self.count

    def run(self, block, tick=None):
        return self.work(block)

    def merge(self, parts):
        return sum(parts)


class Recording:
    """An executor that notes what it was given before it was asked for results."""

    def __init__(self):
        self.pool, self.open, self.most = ThreadPoolExecutor(2), 0, 0

    def submit(self, function, *arguments):
        self.open += 1
        self.most = max(self.most, self.open)
        future = self.pool.submit(function, *arguments)
        future.add_done_callback(lambda _: setattr(self, "open", self.open - 1))
        return future


@pytest.mark.parametrize("how", ["threads", "executor"])
def test_an_endless_measurement_can_be_given_up_at_once(how):
    """Ten to the fifteenth blocks: neither a list of them nor their futures may be made."""

    def work(block):
        if block == 5:
            raise ValueError("the fifth block says no")
        return block

    started = time.perf_counter()
    with ThreadPoolExecutor(2) as pool, pytest.raises(ValueError, match="fifth block"):
        dl.measure(Made(10**15, work), workers=2, executor=pool if how == "executor" else None)
    assert time.perf_counter() - started < 30


def test_an_executor_is_not_sent_more_blocks_than_memory_holds(monkeypatch):
    monkeypatch.setattr(measurement, "SENT", 16)
    monkeypatch.setattr("deeplimit.common.measurement.SENT", 16)
    recording = Recording()
    assert dl.measure(Made(300, lambda block: block), executor=recording) == sum(range(300))
    assert recording.most <= 16
    recording.pool.shutdown()


@pytest.mark.parametrize("error", [OSError("the network file system is gone"), MemoryError("too little")])
@pytest.mark.parametrize("store", [False, True])
def test_a_block_that_fails_for_want_of_a_machine_is_tried_again(error, store, tmp_path):
    tried, lock = [], threading.Lock()

    def work(block):
        with lock:
            tried.append(block)
            if block == 3 and tried.count(3) == 1:
                raise error
        return block

    found = dl.measure(
        Counted(12, work), workers=2, store=dl.Store(tmp_path / "s.sqlite", "x") if store else None
    )
    assert found == list(range(12))
    assert sorted(tried) == sorted([*range(12), 3])


@dataclass(frozen=True)
class Counted(Made):
    def key(self):
        return {"count": self.count}

    def merge(self, parts):
        return list(parts)


def test_a_block_that_fails_twice_is_named():
    def work(block):
        if block == 3:
            raise OSError("gone")
        return 1.0

    with pytest.raises(OSError, match="gone") as caught:
        dl.measure(Made(12, work), workers=2)
    assert caught.value.__notes__ == ["Block 3 failed twice; those before it are done."]


def test_an_executor_whose_workers_died_says_so_and_names_the_block():
    class Broken:
        def submit(self, function, *arguments):
            future = Future()
            future.set_exception(BrokenProcessPool("a process ended abruptly"))
            return future

    with pytest.raises(BrokenProcessPool) as caught:
        dl.measure(Made(4, float), executor=Broken())
    (note,) = caught.value.__notes__
    assert "workers died" in note
    assert "block 0" in note
    assert "call again with a new executor" in note


def test_what_a_users_progress_raises_comes_through_and_is_not_tried_again():
    told = []

    def progress(fraction):
        told.append(fraction)
        raise OSError("the display is gone")

    with pytest.raises(OSError, match="the display is gone") as caught:
        dl.compare(dl.res1(2, "tanh"), depths=[2, 4, 8], paths=16, workers=1, progress=progress)
    assert len(told) == 1
    assert caught.value.__notes__ == ["deeplimit called progress with the fraction done."]


def test_what_progress_raises_comes_through_though_blocks_that_it_ended_come_first():
    def progress(fraction):
        raise KeyboardInterrupt

    def submit(block):
        future = Future()
        future.set_exception(CancelledError())
        return future

    ticks = measurement.Ticks(progress, Made(2, None), [0, 1])
    with pytest.raises(KeyboardInterrupt):
        ticks(0.5)
    with pytest.raises(KeyboardInterrupt):
        list(measurement.flow(submit, [0, 1], ticks, 2, ordered=True))


class Growing(Made):
    """Blocks of which each takes twice as long as the one before."""

    def run(self, block, tick=None):
        if tick is not None:
            tick(1.0)
        return block

    def costs(self):
        return [2.0**block for block in range(self.count)]


@pytest.mark.parametrize("how", ["threads", "executor"])
def test_the_fraction_done_is_that_of_the_time_that_blocks_take(how):
    seen = []
    with ThreadPoolExecutor(1) as pool:
        dl.measure(
            Growing(3, None), workers=1, executor=pool if how == "executor" else None, progress=seen.append
        )
    assert seen[:3] == pytest.approx([1 / 7, 3 / 7, 1.0])


def test_laws_networks_and_trainings_say_that_deep_ones_take_long():
    seen = []
    size = {"depths": [2, 4, 14], "draws": 200, "workers": 1}
    dl.compare_laws(dl.res3(2), progress=seen.append, **size)
    assert seen[:4] == pytest.approx([1 / 21, 3 / 21, 7 / 21, 1.0])  # the limit is drawn in one step
    seen.clear()
    dl.stability(dl.res3(2), progress=seen.append, **size)
    assert {0.7, 0.9, 1.0} <= {round(fraction, 6) for fraction in seen}  # the deepest come first
