"""A function of the user's that deeplimit calls may use threads that call deeplimit: none waits for ever."""

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import deeplimit as dl
from deeplimit.common import global_state


@pytest.fixture(autouse=True)
def own_lock(monkeypatch):
    """A lock of the test's own: one that nobody gives back stops no other test."""
    monkeypatch.setattr(global_state._Here, "lock", threading.RLock())


def test_a_factory_that_waits_for_threads_in_deeplimit_is_refused(monkeypatch):
    monkeypatch.setattr(global_state, "PATIENCE", 0.3)

    model = torch.nn.ReLU()

    def factory(depth):
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(dl.find_branches, model, torch.ones(1, depth)).result()

    with pytest.raises(RuntimeError, match="without threads"), global_state.alone():
        factory(2)


def test_a_thread_waits_for_as_long_as_something_happens(monkeypatch):
    """The owner takes many times as long as a thread waits where nothing happens."""
    monkeypatch.setattr(global_state, "PATIENCE", 0.05)
    monkeypatch.setattr(global_state, "BETWEEN_CHECKS", 0.01)
    monkeypatch.setattr(global_state.time, "process_time", itertools.count().__next__)
    begun, order = threading.Event(), []

    def owner():
        with global_state.alone():
            begun.set()
            time.sleep(0.5)
            order.append("owner")

    thread = threading.Thread(target=owner)
    thread.start()
    begun.wait(20.0)
    with global_state.alone():
        order.append("other")
    thread.join()
    assert order == ["owner", "other"]
