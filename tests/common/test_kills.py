"""Calls that are killed (SIGKILL) at random moments: the same bits, nothing lost, nothing counted twice.

These run by `make nightly`; `test_store.py` kills one process in `make test`.
"""

import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import killed
import pytest
from clusters import two_workers

import deeplimit as dl

pytestmark = pytest.mark.nightly
PROGRAM = [sys.executable, "-W", "ignore", str(Path(killed.__file__))]
KILLS = 30
DASK_KILLS = 6
"""Of workers, for each function."""


@pytest.mark.parametrize("verb", killed.FUNCTIONS)
@pytest.mark.parametrize("writers", [1, 2])
def test_processes_killed_at_random_moments_lose_and_change_nothing(verb, writers, tmp_path):
    arguments = [verb, str(writers), str(KILLS), "0", str(tmp_path)]
    process = subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, timeout=550, check=False)
    assert process.returncode == 0, process.stderr
    found = json.loads(process.stdout)
    blocks = sorted(found["labels"])
    assert len(set(blocks)) == len(blocks) >= 3
    assert sum(each["kills"] for each in found["rounds"]) == KILLS
    for each in found["rounds"]:
        assert each["results"] == [found["alone"]] * writers
        assert sorted(each["labels"]) == blocks
        assert each["runs"] == [[len(blocks), len(blocks)]]
        assert each["sound"] == "ok"
        for sitting in each["sittings"]:
            assert set(sitting["computed"]).isdisjoint(sitting["before"]), "a kept block was computed again"
            assert len(set(sitting["computed"])) == len(sitting["computed"])
        if writers == 1:
            _nothing_is_lost(each["sittings"], blocks)


def _nothing_is_lost(sittings, blocks):
    """Of one process: what it kept is there when the next begins, and the last computes the rest alone."""
    for one, following in itertools.pairwise(sittings):
        assert set(one["before"]) | set(one["kept"]) <= set(following["before"])
        assert set(following["before"]) <= set(one["before"]) | set(one["computed"])
    assert [each["ended"] for each in sittings] == [False] * (len(sittings) - 1) + [True]
    assert sorted(sittings[-1]["before"] + sittings[-1]["computed"]) == blocks


@contextlib.contextmanager
def killed_at(moment, cluster, chance):
    """Kill a worker of a cluster so many seconds from now; yield the list of those that were killed."""
    done = []

    def kill():
        pids = [worker.pid for worker in cluster.workers.values() if worker.pid]
        if pids:
            done.append(chance.choice(pids))
            os.kill(done[-1], signal.SIGKILL)

    timer = threading.Timer(moment, kill)
    timer.start()
    try:
        yield done
    finally:
        timer.cancel()
        timer.join()


def test_blocks_of_a_dask_worker_that_is_killed_run_elsewhere(tmp_path):
    chance = random.Random(0)
    with two_workers(tmp_path / "dask") as cluster, cluster.get_client() as client:
        for verb, run in killed.FUNCTIONS.items():
            if verb.endswith(", command"):  # its executor is an address
                continue
            alone = killed.content(run())
            run(executor=client)  # workers import and compile
            started = time.monotonic()
            assert killed.content(run(executor=client)) == alone
            seconds = time.monotonic() - started
            made = calls = 0
            while made < DASK_KILLS:
                client.wait_for_workers(2, timeout=60)
                calls += 1
                store = tmp_path / f"{verb} {calls}.sqlite"
                with killed_at(seconds * chance.random(), cluster, chance) as done:
                    found = run(executor=client, store=store)
                made += len(done)
                assert killed.content(found) == alone
                (kept,) = dl.Store(store).runs()
                assert kept.done == kept.total == len(set(killed.labels(store))) == len(killed.labels(store))
