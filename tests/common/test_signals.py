"""What a signal raises in the waiting thread ends a call at once; only what a block raised is tried again."""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import torch

import deeplimit as dl
from deeplimit.common import files, measurement

SECONDS = 2.0
"""Within this time an exception of the caller's comes through."""


class Mine(Exception):
    """What a user's own handler of a signal raises."""


RAISED = {
    "alarm": TimeoutError("time is up"),
    "handler": Mine("enough"),
    "exit": SystemExit(3),
    "system": OSError("the handler's own"),
    "memory": MemoryError("the handler's own"),
}


@contextlib.contextmanager
def alarmed(error, after):
    """Raise an error in the main thread after some seconds; yields a list with the time when it did."""
    when = []

    def handler(*_):
        when.append(time.perf_counter())
        raise error

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, after)
    try:
        yield when
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@dataclasses.dataclass(frozen=True)
class Sleeping(dl.Measurement):
    """Blocks that wait, in small steps, for a minute."""

    what = "sleeping"

    @property
    def blocks(self):
        return 40

    def run(self, block, tick=None):
        for _ in range(600):
            time.sleep(0.1)
            if tick is not None:
                tick(1 / 600)
        return np.zeros(1)

    def merge(self, parts):
        return [*parts]


def came_through(call, error, after=0.2):
    """Assert that the very object came through in time."""
    with alarmed(error, after) as when, pytest.raises(type(error)) as caught:
        call()
    assert caught.value is error
    assert time.perf_counter() - when[0] < SECONDS


@pytest.mark.parametrize("raised", RAISED)
@pytest.mark.parametrize("store", [False, True], ids=["no store", "store"])
@pytest.mark.parametrize("how", ["threads", "executor"])
def test_what_a_handler_raises_comes_through_at_once(how, store, raised, tmp_path):
    where = {"store": tmp_path / "runs.sqlite"} if store else {}
    pool = ThreadPoolExecutor(2)
    where |= {"executor": pool} if how == "executor" else {"workers": 2}
    with alarmed(RAISED[raised], 60.0):
        pass
    try:
        came_through(lambda: dl.measure(Sleeping(), **where), RAISED[raised])
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@pytest.mark.parametrize("store", [False, True], ids=["no store", "store"])
@pytest.mark.nightly
def test_it_comes_through_while_processes_work(store, tmp_path):
    where = {"store": tmp_path / "runs.sqlite"} if store else {}
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        came_through(lambda: dl.measure(Sleeping(), executor=pool, **where), TimeoutError("time is up"), 3.0)
        for process in [*pool._processes.values()]:
            process.kill()


class Parent:
    """A caller that is gone after a moment."""

    def __init__(self, pid):
        self.pid, self.gone = pid, threading.Event()

    def join(self):
        assert self.gone.wait(SECONDS)


def test_a_worker_of_the_callers_own_pool_ends_with_the_caller(monkeypatch):
    parent, ended = Parent(7), threading.Event()
    monkeypatch.setattr(measurement.multiprocessing, "parent_process", lambda: parent)
    monkeypatch.setattr(measurement.os, "_exit", lambda code: ended.set())
    monkeypatch.setattr(measurement, "_watched", set())
    before = threading.active_count()
    measurement._end_with(8)  # a caller elsewhere, such as Dask's client
    assert threading.active_count() == before
    measurement._end_with(7)
    measurement._end_with(7)
    assert threading.active_count() == before + 1
    assert not ended.is_set()
    parent.gone.set()
    assert ended.wait(SECONDS)


PROGRAM = """
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
import deeplimit as dl
from test_signals import Noting
if __name__ == "__main__":
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        dl.measure(Noting(sys.argv[1]), executor=pool)
"""


@dataclasses.dataclass(frozen=True)
class Noting(Sleeping):
    """Blocks that note their process in a folder, and wait."""

    folder: str

    def run(self, block, tick=None):
        Path(self.folder, str(os.getpid())).touch()
        return super().run(block, tick)


@pytest.mark.nightly
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=lambda end: end.name)
def test_a_process_that_is_ended_leaves_no_workers_of_its_pool(end, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "workers").mkdir()
    where = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    arguments = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "workers")]
    process = subprocess.Popen(arguments, env=os.environ | {"PYTHONPATH": where})
    try:
        assert within(60.0, lambda: len([*(tmp_path / "workers").iterdir()]) == 2)
        process.send_signal(end)
        assert process.wait(10.0) != 0
        pids = [int(each.name) for each in (tmp_path / "workers").iterdir()]
        assert within(10.0, lambda: not any(map(is_alive, pids)))
    finally:
        process.kill()


def within(seconds, true):
    """Whether something becomes true in this time."""
    last = time.monotonic() + seconds
    while not (found := true()) and time.monotonic() < last:
        time.sleep(0.05)
    return found


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_block_that_raises_the_same_kind_is_tried_again_and_named():
    tried = []

    @dataclasses.dataclass(frozen=True)
    class Late(Sleeping):
        def run(self, block, tick=None):
            tried.append(block)
            if block == 3:
                raise TimeoutError("of the network")
            return np.zeros(1)

    with pytest.raises(TimeoutError, match="of the network") as caught:
        dl.measure(Late(), workers=2)
    assert tried.count(3) == 2
    assert caught.value.__notes__ == ["Block 3 failed twice; those before it are done."]


def test_no_thread_is_left_of_a_call_that_was_ended():
    before = threading.active_count()
    came_through(lambda: dl.measure(Sleeping(), workers=4), TimeoutError("time is up"))
    end = time.perf_counter() + SECONDS
    while threading.active_count() > before and time.perf_counter() < end:
        time.sleep(0.05)
    assert threading.active_count() == before


def test_an_alarm_while_a_file_is_written_is_not_taken_for_a_disks(tmp_path):
    error = TimeoutError("time is up")
    with pytest.raises(TimeoutError) as caught, files.whole_file(tmp_path / "a.txt"):
        raise error
    assert caught.value is error
    assert [*tmp_path.iterdir()] == []


def stack(depth):
    layer = torch.nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
    return torch.nn.TransformerEncoder(layer, depth)


DATA = dl.datasets.synthetic_system(width=10, count=500, test=9)
LONG = {
    "compare": lambda **how: dl.compare(dl.res1(64, "tanh"), depths=[64, 128, 256], paths=10**6, **how),
    "compare_laws": lambda **how: dl.compare_laws(dl.res3(16), depths=[64, 128, 256], draws=10**6, **how),
    "stability": lambda **how: dl.stability(dl.res3(64), [64, 512], draws=10**5, **how),
    "phase_diagram": lambda **how: dl.phase_diagram(dl.res3, 64, 2000, draws=100, **how),
    "simulate": lambda **how: dl.simulate(
        dl.res1(64, "tanh"), depths=[512], paths=10**6, keep="summaries", **how
    ),
    "train": lambda **how: dl.train(
        dl.inner(10, "tanh", weights=dl.SmoothGaussian()), [64, 128], DATA, epochs=10**5, **how
    ),
    "validate": lambda **how: dl.validate(**how),
    "reproduce": lambda **how: dl.reproduce("marion-fig7", **how),
    "check_depth": lambda **how: dl.check_depth(stack, [256, 384, 512], batch=torch.ones(4, 32, 64)),
    "check_training": lambda **how: dl.check_training(
        stack, [64, 96, 128], batch=torch.ones(4, 32, 64), seeds=9,
        optimizer=lambda model, depth: torch.optim.Adam(model.parameters()),
    ),
}  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize("store", [False, True], ids=["no store", "store"])
@pytest.mark.parametrize("verb", LONG)
def test_an_alarm_ends_every_function(verb, store, tmp_path):
    where = {"store": dl.Store(tmp_path / "runs.sqlite")} if store else {}
    came_through(lambda: LONG[verb](progress=False, **where), TimeoutError("time is up"), 2.0)
