"""A store, a checkpoint and an executor know the machine whose kernels made their numbers."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import counted
import numpy as np
import pytest
import torch
from counted import Sum, ran
from refusals import assert_refused

import deeplimit as dl
from deeplimit.common import measurement
from deeplimit.common.arrays import ArrayLibrary
from deeplimit.common.machine import kernels, machine
from deeplimit.common.specification import environment
from deeplimit.trained.training import checkpoint


def test_a_store_filled_with_other_vector_units_is_refused_by_name_and_left(tmp_path, monkeypatch):
    path = tmp_path / "runs.sqlite"
    elsewhere = {**os.environ, "ATEN_CPU_CAPABILITY": "default"}
    program = [sys.executable, str(Path(counted.__file__)), str(path), "2"]
    subprocess.run(program, env=elsewhere, check=True, capture_output=True)
    monkeypatch.setenv("COUNTED", str(tmp_path / "ran"))
    content = path.read_bytes()
    with pytest.raises(ValueError, match="on another machine") as caught:
        dl.measure(Sum(2), store=path)
    for word in (str(path), "processor", "default", "--drop"):
        assert word.lower() in str(caught.value).lower()
    assert (ran(tmp_path / "ran"), path.read_bytes()) == ([], content)


@pytest.mark.parametrize("entry", ["processor", "BLAS of torch", "BLAS of numpy", "kernels"])
def test_a_worker_of_another_machine_is_refused(entry):
    assert entry in machine()
    there = {**environment(), entry: "another"}
    assert_refused(lambda: measurement._run(Sum(1), 0, 0, there, 1), ValueError, "executor", entry)


def test_a_checkpoint_of_another_machine_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN", 0.0)
    keeper = checkpoint.Checkpoint(tmp_path)
    progress = checkpoint.Progress({"A": np.ones((1, 1), "f4")}, {}, [0])
    assert keeper.found(Sum(2), 0, ArrayLibrary()) is None
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(checkpoint, "environment", lambda: {**environment(), "processor": "another"})
        keeper.keep(Sum(2), 0, progress, ArrayLibrary())
    (path,) = tmp_path.iterdir()
    assert_refused(lambda: keeper.found(Sum(2), 0, ArrayLibrary()), ValueError, str(path), "processor")


@dataclasses.dataclass(frozen=True)
class Threaded(Sum):
    """One whose operations use the caller's threads."""

    side_by_side = False

    def run(self, block, tick=None):
        return np.array([torch.get_num_threads()])


@pytest.fixture
def threads():
    """Sets the number of threads of an operation."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_blocks_of_another_number_of_threads_are_not_taken_where_it_decides_bits(threads, tmp_path):
    for count in (1, 3):
        threads(count)
        assert dl.measure(Threaded(1), store=tmp_path / "runs.sqlite") == count
        assert measurement._run(Threaded(1), 0, 0, environment(), 2).tolist() == [2]
        assert torch.get_num_threads() == count
    dl.measure(Sum(1), store=tmp_path / "runs.sqlite")
    threads(1)
    dl.measure(Sum(1), store=tmp_path / "runs.sqlite")
    assert len(dl.Store(tmp_path / "runs.sqlite").runs()) == 3


def test_the_probe_tells_the_same_whatever_the_callers_switches_are(threads):
    here = kernels()
    for count in (1, 2, 4):
        threads(count)
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode(), np.errstate(all="raise"):
            assert kernels() == here
