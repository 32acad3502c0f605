"""A function of the user's that deeplimit calls may use threads that call deeplimit: none waits for ever."""

import itertools
import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

import pytest
import torch

import deeplimit as dl
from deeplimit.common import global_state
from deeplimit.driving.blocks import FreshBlocks

BATCH = torch.ones(2, 4)
ENOUGH = 20.0
"""Seconds after which a call that takes less than one is one that never ends."""


@pytest.fixture(autouse=True)
def own_turn(monkeypatch):
    """A turn of the test's own: one that nobody gives back stops no other test."""
    monkeypatch.setattr(global_state._Here, "turn", turn := global_state.Turn())
    return turn


def ended(call):
    """Return what a call in a thread of its own returns or raises; fail where it does not end."""
    box = queue.SimpleQueue()

    def run():
        try:
            box.put((call(), None))
        except Exception as error:  # noqa: BLE001  # it is raised below
            box.put((None, error))

    threading.Thread(target=run, daemon=True, name="Owner").start()
    try:
        found, error = box.get(timeout=ENOUGH)
    except queue.Empty:
        pytest.fail("the call never ends")
    if error is not None:
        raise error
    return found


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inside = torch.nn.Linear(4, 4)

    def forward(self, x):
        return x + torch.tanh(self.inside(x))


def initialised(depth=2):
    model = torch.nn.Sequential(*(Block() for _ in range(depth)))
    dl.init.residual_(model, batch=BATCH)
    return model


def in_turn(call):
    with global_state.alone():
        return call()


def in_pool(call, threads=2):
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda _: call(), range(3)))[-1]


def in_threads(call):
    done = []
    threads = [threading.Thread(target=lambda: done.append(call())) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return done[0]


def as_they_come(call):
    with ThreadPoolExecutor(2) as pool:
        return [each.result() for each in as_completed(pool.submit(call) for _ in range(2))]


def through_a_queue(call):
    box = queue.SimpleQueue()

    def run():
        try:
            box.put((call(), None))
        except RuntimeError as error:
            box.put((None, error))

    threading.Thread(target=run).start()
    found, error = box.get()
    if error is not None:
        raise error
    return found


def test_threads_of_a_factory_initialise_the_blocks_that_it_builds():
    """The weights are those of a factory that calls the same function itself."""

    def weights(factory):
        stack = FreshBlocks(factory).stack(2, 1, torch.device("cpu"), torch.float32)
        return [block.inside.weight.tolist() for block in stack]

    expected = weights(initialised)
    assert expected[0] != expected[1]
    assert ended(lambda: weights(lambda depth: in_pool(lambda: initialised(depth)))) == expected


@pytest.mark.parametrize(
    "waiting",
    [
        in_pool,
        in_threads,
        lambda call: in_pool(lambda: in_threads(call)),
        lambda call: in_threads(lambda: in_turn(lambda: in_pool(call))),
    ],
    ids=["pool", "threads", "threads of a pool", "a pool of an owner's thread"],
)
def test_threads_that_the_owner_waits_for_have_their_turn(waiting, own_turn):
    assert ended(lambda: in_turn(lambda: waiting(lambda: in_turn(lambda: 1)))) == 1
    assert not own_turn.inside


@pytest.mark.parametrize("waiting", [as_they_come, through_a_queue])
def test_a_thread_that_waits_while_nothing_happens_is_refused(waiting, own_turn, monkeypatch):
    monkeypatch.setattr(global_state, "PATIENCE", 0.5)
    with pytest.raises(RuntimeError, match=r"Owner.*result\(\)"):
        ended(lambda: in_turn(lambda: waiting(lambda: in_turn(lambda: 1))))
    assert not own_turn.inside


def test_a_thread_waits_for_as_long_as_something_happens(monkeypatch):
    """The owner takes many times as long as a thread waits where nothing happens."""
    monkeypatch.setattr(global_state, "PATIENCE", 0.05)
    monkeypatch.setattr(global_state, "LOOK", 0.01)
    monkeypatch.setattr(global_state.time, "process_time", itertools.count().__next__)
    begun, order = threading.Event(), []

    def work():
        begun.set()
        time.sleep(0.5)
        order.append("owner")

    owner = threading.Thread(target=in_turn, args=(work,))
    owner.start()
    begun.wait(ENOUGH)
    ended(lambda: in_turn(lambda: order.append("other")))
    owner.join()
    assert order == ["owner", "other"]


def test_a_wait_that_ends_by_itself_hands_no_turn_on(monkeypatch):
    """An owner that waits at most so long may go on at any time, beside the thread."""
    monkeypatch.setattr(global_state, "PATIENCE", 30.0)
    order = []

    def owner():
        other = threading.Thread(target=in_turn, args=(lambda: order.append("other"),))
        other.start()
        other.join(0.5)
        order.append("owner")
        return other

    ended(lambda: in_turn(owner)).join(ENOUGH)
    assert order == ["owner", "other"]
