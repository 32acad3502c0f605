"""Executors that fail: workers that die, blocks that fail twice, schedulers that go, versions that differ."""

import logging
import os
import signal
import threading
import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context

import pytest
import torch
from clusters import two_workers
from counted import Sum, ran

import deeplimit as dl
from deeplimit import version
from deeplimit.common import measurement
from deeplimit.common.specification import environment


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with two_workers(tmp_path_factory.mktemp("dask")) as cluster, cluster.get_client() as found:
        yield found


def spawned():
    return ProcessPoolExecutor(2, mp_context=get_context("spawn"))


def reusable():
    joblib = pytest.importorskip("joblib", reason="joblib comes with scikit-learn, of the extra [data]")
    return joblib.externals.loky.get_reusable_executor(max_workers=2)


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """The file in which every block that is run is noted, by processes that are started in the test."""
    monkeypatch.setenv("COUNTED", str(tmp_path / "ran"))
    monkeypatch.setenv("SECONDS_PER_BLOCK", "0.05")
    return tmp_path / "ran"


@pytest.mark.nightly
@pytest.mark.parametrize("pool", [spawned, reusable])
def test_a_pool_whose_worker_is_killed_ends_the_call_and_what_is_done_is_kept(pool, tmp_path, notes):
    path = tmp_path / "runs.sqlite"
    with pool() as executor:

        def kill():
            while len(ran(notes)) < 12:
                time.sleep(0.01)
            os.kill(next(iter(executor._processes)), signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(BrokenProcessPool) as caught:
            dl.measure(Sum(40), executor=executor, store=path)
        killer.join()
    assert "call again with a new executor" in caught.value.__notes__[-1]
    (run,) = dl.Store(path).runs()
    assert 4 <= run.done < 40
    notes.unlink()
    with pool() as executor:
        assert dl.measure(Sum(40), executor=executor, store=path) == dl.measure(Sum(40))
    assert len(ran(notes)) == 40 - run.done + 40  # the second forty: this process, without a store


@dataclass(frozen=True)
class Deadly(Sum):
    """Block 1 kills the process that runs it."""

    def run(self, block, tick=None):
        if block == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().run(block, tick)


@pytest.mark.nightly
def test_a_block_that_kills_every_dask_worker_is_named(client):
    distributed = pytest.importorskip("distributed")
    scheduler = client.cluster.scheduler
    before, scheduler.allowed_failures = scheduler.allowed_failures, 0
    try:
        with pytest.raises(distributed.KilledWorker) as caught:
            dl.measure(Deadly(2), executor=client)
    finally:
        scheduler.allowed_failures = before
    assert "block 1" in caught.value.__notes__[-1]


def test_a_scheduler_that_is_lost_is_said():
    class Lost:
        def submit(self, function, *arguments):
            future = Future()
            if arguments[1] == 3:
                future.cancel()
                future.set_running_or_notify_cancel()
            else:
                future.set_result(function(*arguments))
            return future

    with pytest.raises(RuntimeError, match=r"^the executor gave up block 3: .* lost its scheduler"):
        dl.measure(Sum(5), executor=Lost())


def aged():
    version.__version__ = "0.0.9"


@pytest.mark.nightly
def test_workers_of_another_version_are_refused_before_they_compute(notes):
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=aged) as pool,
        pytest.raises(ValueError, match=f'^executor .*deeplimit: "0.0.9" there, "{dl.__version__}" here'),
    ):
        dl.measure(Sum(3), executor=pool)
    assert ran(notes) == []


@dataclass(frozen=True)
class Threads(Sum):
    def run(self, block, tick=None):
        return [torch.get_num_threads()]

    def merge(self, parts):
        return [*parts]


def test_every_block_has_one_thread_in_other_processes_too():
    torch.set_num_threads(before := torch.get_num_threads())
    with ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(3,)) as pool:
        assert dl.measure(Threads(2), executor=pool) == [[1], [1]]
        assert pool.submit(torch.get_num_threads).result() == 3  # as it was
    torch.set_num_threads(before)
    assert measurement._run(Threads(1), 0, 0, environment(), 3) == [1]


def test_a_call_on_an_executor_ends_without_a_word_but_its_error(caplog):
    def say_no(fraction):
        raise OSError("the display is gone")

    started = time.perf_counter()
    with caplog.at_level(logging.DEBUG, "concurrent.futures"), ThreadPoolExecutor(2) as pool:
        with pytest.raises(OSError, match="the display is gone"):
            dl.measure(Slow(400), executor=pool, progress=say_no)
        with pytest.raises(ValueError, match="block 3"):
            dl.measure(Slow(400, fails=3), executor=pool, progress=lambda fraction: None)
    assert caplog.records == []
    assert time.perf_counter() - started < 5


@dataclass(frozen=True)
class Slow(Sum):
    fails: int = -1

    def run(self, block, tick=None):
        if block == self.fails:
            raise ValueError(f"block {block}")
        time.sleep(0.02)
        return super().run(block, tick)
