"""What is kept is read as it was written, or refused by name: bits flip, blocks swap, values change."""

import contextlib
import io
import json
import sqlite3

import numpy as np
import pytest
import torch
from counted import Sum
from refusals import assert_refused
from safetensors.torch import load_file, save_file

import deeplimit as dl
from deeplimit.common.arrays import ArrayLibrary
from deeplimit.trained.training import checkpoint
from deeplimit.trained.training.stop import Ending

FLIPS = [40, pytest.param(1000, marks=pytest.mark.nightly)]


def flipped(content, generator):
    """Return bytes in which one random bit is another."""
    changed = bytearray(content)
    changed[generator.integers(len(changed))] ^= 1 << generator.integers(8)
    return bytes(changed)


def refused(path, content, read, right, flips):
    """Flip bits of a file, and return how many reads were refused; the others must give what is right."""
    generator = np.random.default_rng(flips)
    count = 0
    for _ in range(flips):
        for beside in path.parent.glob(f"{path.name}-*"):  # SQLite's own
            beside.unlink()
        path.write_bytes(flipped(content, generator))
        try:
            assert read() == right
        except (ValueError, OSError) as error:
            assert str(path) in str(error)  # noqa: PT017
            count += 1
    return count


def executed(path, statement, *values):
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(statement, values).fetchall()


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "runs.sqlite"
    dl.measure(Sum(4), store=path)
    dl.measure(Sum(4, seed=1), store=path)
    return path


@pytest.mark.parametrize("flips", FLIPS)
def test_a_store_with_a_flipped_bit_gives_the_right_numbers_or_is_refused(flips, store):
    def read():
        for run in dl.Store(store).runs():
            dict(dl.Store(store).blocks(run.key))
            str(run)
        return dl.measure(Sum(4), workers=1, store=store), dl.measure(Sum(4, seed=1), workers=1, store=store)

    right = dl.measure(Sum(4)), dl.measure(Sum(4, seed=1))
    assert refused(store, store.read_bytes(), read, right, flips) > 0.1 * flips


def _arrays(change):
    """Return what changes the numbers of a block and writes them as numpy does."""

    def made(content):
        with np.load(io.BytesIO(content)) as arrays:
            changed = {name: change(arrays[name]) for name in arrays.files}
        file = io.BytesIO()
        np.savez(file, **changed)
        return file.getvalue()

    return made


@pytest.mark.parametrize("columns", ["content", "content, seal"])
@pytest.mark.parametrize("which", ["block", "seed"])
def test_blocks_that_changed_places_are_not_used(which, columns, store):
    """Blocks 1 and 2 of each seed, or block 1 of both seeds."""
    owners = [owner for (owner,) in executed(store, "SELECT digest FROM specifications")]
    rows = {
        (owner, label): executed(
            store, f"SELECT {columns} FROM blocks WHERE specification = ? AND label = ?", owner, label
        )[0]
        for owner in owners
        for label in "12"
    }
    for (owner, label), _ in rows.items():
        other = (owner, "21"[int(label) - 1]) if which == "block" else (owners[owner == owners[0]], label)
        places = ", ".join("?" * len(columns.split(", ")))
        statement = f"UPDATE blocks SET ({columns}) = ({places}) WHERE specification = ? AND label = ?"
        executed(store, statement, *rows[other], owner, label)
    for seed in (0, 1):
        assert_refused(lambda seed=seed: dl.measure(Sum(4, seed=seed), store=store), ValueError, str(store))
    for run in dl.Store(store).runs():
        assert_refused(lambda run=run: [*dl.Store(store).blocks(run.key)], ValueError, str(store), "'1'")


CHANGES = {
    "doubled": lambda array: 2 * array,
    "NaN": lambda array: array * np.nan,
    "float32": lambda array: array.astype("f4"),
    "longer": lambda array: np.append(array, 0.0),
}


@pytest.mark.parametrize("change", CHANGES)
def test_other_numbers_than_were_kept_are_not_used(change, store):
    for owner, content in executed(store, "SELECT specification, content FROM blocks WHERE label = '3'"):
        changed = _arrays(CHANGES[change])(content)
        executed(
            store, "UPDATE blocks SET content = ? WHERE specification = ? AND label = '3'", changed, owner
        )
    assert_refused(lambda: dl.measure(Sum(4), store=store), ValueError, str(store), "block 3")


def _progress():
    arrays = {"A": np.arange(24, dtype="f4").reshape(2, 3, 4), "B": np.ones((2, 3), "f4")}
    ended = {7: ({"A": np.ones((2, 1, 4), "f4")}, Ending.EPOCHS)}
    return checkpoint.Progress(
        arrays, {"A": np.zeros((2, 3, 4), "f4")}, [0, 3, 5], 4, 40, {0: [0.5, 0.25]}, ended
    )


def _content(progress):
    arrays = [progress.parameters, progress.memory, *(held for held, _ in progress.ended.values())]
    bytes_ = [[(name, held[name].dtype, held[name].tobytes()) for name in sorted(held)] for held in arrays]
    return (bytes_, progress.live, progress.epoch, progress.steps, progress.losses, [*progress.ended])


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A checkpoint's file, and what reads it."""
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN", 0.0)
    library = ArrayLibrary()
    keeper = checkpoint.Checkpoint(tmp_path)
    assert keeper.found(Sum(4), 1, library) is None
    keeper.keep(Sum(4), 1, _progress(), library)
    (path,) = tmp_path.iterdir()
    return path, lambda: _content(checkpoint.Checkpoint(tmp_path).found(Sum(4), 1, library) or _progress())


@pytest.mark.parametrize("flips", FLIPS)
def test_a_checkpoint_with_a_flipped_bit_is_refused(flips, kept):
    path, read = kept
    assert read() == _content(_progress())
    assert refused(path, path.read_bytes(), read, _content(_progress()), flips) > 0.9 * flips


def _rewritten(path, change):
    """Write a file of tensors anew, with its words, as safetensors does."""
    tensors = load_file(path)
    content = path.read_bytes()
    words = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    save_file({name: change(value) for name, value in tensors.items()}, path, words)


TENSORS = {
    "doubled": lambda value: 2 * value,
    "NaN": lambda value: value * torch.nan,
    "float16": lambda value: value.half(),
    "turned": lambda value: value.flip(-1),
}


@pytest.mark.parametrize("change", ["doubled", "NaN", "float16"])
def test_a_checkpoint_with_other_numbers_is_refused(change, kept):
    path, read = kept
    _rewritten(path, TENSORS[change])
    assert_refused(read, ValueError, str(path))


def test_a_checkpoint_under_another_ones_name_is_refused(kept, tmp_path):
    path, _ = kept
    library = ArrayLibrary()
    other = checkpoint.Checkpoint(tmp_path)
    for of, block in ((Sum(4), 2), (Sum(4, seed=1), 1)):
        there = other._file(of, block)
        there.write_bytes(path.read_bytes())
        assert_refused(lambda of=of, block=block: other.found(of, block, library), ValueError, str(there))


@pytest.fixture(scope="module")
def trajectories():
    return dl.simulate(dl.res1(2, "tanh"), depths=[2], paths=3, keep_weights=True)


def _states(found):
    held = [*found.states.values(), found.limit_states, found.limit_times, *found.weights[2].values()]
    return [each.numpy().tobytes() for each in held], str(found), found.seed, found.versions


@pytest.mark.parametrize("flips", FLIPS)
def test_saved_trajectories_with_a_flipped_bit_are_refused(flips, trajectories, tmp_path):
    path = tmp_path / "t.safetensors"
    trajectories.save(path)
    right = _states(trajectories)
    count = refused(path, path.read_bytes(), lambda: _states(dl.Trajectories.load(path)), right, flips)
    assert count > 0.9 * flips


@pytest.mark.parametrize("change", TENSORS)
def test_saved_trajectories_with_other_numbers_are_refused(change, trajectories, tmp_path):
    path = tmp_path / "t.safetensors"
    trajectories.save(path)
    _rewritten(path, TENSORS[change])
    assert_refused(lambda: dl.Trajectories.load(path), ValueError, str(path), "damaged")


@pytest.mark.parametrize("flips", FLIPS)
def test_a_report_with_a_flipped_bit_is_the_right_one_or_refused(flips, tmp_path):
    path, report = tmp_path / "r.json", dl.compare(dl.res1(2, "tanh"), depths=[4, 8, 16], paths=64)
    report.save(path)
    assert refused(path, path.read_bytes(), lambda: dl.load_report(path), report, flips) > 0.8 * flips


def test_a_report_whose_number_another_number_replaces_is_refused(tmp_path):
    path = tmp_path / "r.json"
    dl.compare(dl.res1(2, "tanh"), depths=[4, 8, 16], paths=64).save(path)
    document = json.loads(path.read_text())
    document["report"]["rate"] *= 1.5
    path.write_text(json.dumps(document))
    assert_refused(lambda: dl.load_report(path), ValueError, str(path))
