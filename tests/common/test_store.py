"""Stores: killed runs go on, processes share a file, and nothing is mixed up or written over."""

import contextlib
import dataclasses
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import counted
import pytest
from counted import Sum, ran
from refusals import assert_refused

import deeplimit as dl
from deeplimit.common import measurement, specification, store as stores

PROGRAM = [sys.executable, str(Path(counted.__file__))]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.sqlite"


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """The file in which every block that is run is noted."""
    monkeypatch.setenv("COUNTED", str(tmp_path / "ran"))
    return tmp_path / "ran"


def begun(path, count, seconds=0.05):
    """Start a process that measures `count` blocks into the store."""
    environment = {**os.environ, "SECONDS_PER_BLOCK": str(seconds)}
    return subprocess.Popen([*PROGRAM, str(path), str(count)], env=environment, stdout=subprocess.PIPE)


def executed(path, *statement):
    """Execute a statement on a store's file, by sqlite alone, and return the rows it gives."""
    with contextlib.closing(sqlite3.connect(path, timeout=30)) as connection, connection:
        return connection.execute(*statement).fetchall()


def kept(path):
    """Return how many blocks a store holds."""
    if not path.exists():
        return 0
    try:
        return executed(path, "SELECT COUNT(*) FROM blocks")[0][0]
    except sqlite3.OperationalError:  # its tables are not there yet
        return 0


def test_a_killed_run_goes_on_where_it_was_and_gives_the_same_bits(path, notes):
    process = begun(path, 40)
    while kept(path) < 8:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    before, there = ran(notes), kept(path)
    notes.unlink()
    resumed = dl.measure(Sum(40), store=path)
    again = ran(notes)
    assert len(again) == 40 - there
    assert set(again) | set(before) == set(range(40))
    assert len(set(again) & set(before)) <= len(before) - there  # computed, and not yet kept
    assert resumed == dl.measure(Sum(40))


def test_only_missing_blocks_are_computed(path, notes):
    first = dl.measure(Sum(6), store=path)
    executed(path, "DELETE FROM blocks WHERE label IN ('1', '4')")
    notes.unlink()
    seen = []
    assert dl.measure(Sum(6), workers=1, store=path, progress=seen.append) == first
    assert sorted(ran(notes)) == [1, 4]
    assert seen[0] == pytest.approx(4 / 6)
    assert seen[-1] == 1.0


def test_what_is_missing_is_told_before_a_run_and_nothing_is_entered(path):
    running = measurement.Running.checked(1, None, path, None)
    assert running.missing(Sum(3)) == (0, 1, 2)
    assert not path.exists()
    running.measure(Sum(2))
    assert running.missing(Sum(2)) == ()
    assert running.missing(Sum(2, seed=1)) == (0, 1)
    assert len(dl.Store(path).runs()) == 1


def test_blocks_in_memory_are_run_once(notes):
    cached = measurement.CachedBlocks()
    running = dataclasses.replace(measurement.Running(workers=1), cached=cached)
    assert running.missing(Sum(2)) == (0, 1)
    running.measure(Sum(2))
    total = running.measure(Sum(3))
    assert (cached.ran, ran(notes)) == ((2,), [0, 1, 2])
    assert total == dl.measure(Sum(3))


def test_an_interrupted_run_keeps_what_is_done(path):
    class Late(Sum):
        def run(self, block, tick=None):
            if block == 5:
                raise KeyboardInterrupt
            return super().run(block, tick)

    with pytest.raises(KeyboardInterrupt) as stopped:
        dl.measure(Late(9), workers=1, store=path)
    (run,) = dl.Store(path).runs()
    held = {int(label) for label, arrays in dl.Store(path).blocks(run.key) if arrays is not None}
    assert held >= {0, 1, 2, 3, 4}  # and perhaps some that ended before the interrupt was seen
    assert 5 not in held
    (note,) = stopped.value.__notes__
    assert note.startswith(f"{len(held)} of 9 ")
    assert str(path) in note
    with pytest.raises(KeyboardInterrupt) as stopped:
        dl.measure(Late(9), workers=1)
    (note,) = stopped.value.__notes__
    assert "store=" in note


@pytest.mark.nightly
def test_two_processes_share_one_store_and_the_work(path, notes):
    processes = [begun(path, 60, 0.04) for _ in range(2)]
    results = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert results[0] == results[1] == f"{dl.measure(Sum(60))!r}\n".encode()
    assert kept(path) == 60
    assert len(ran(notes)) < 60 + 60 + 40  # the third sixty are those of this process, without a store


def test_a_run_waits_while_another_process_writes(path):
    dl.measure(Sum(2), store=path)
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    other.execute("DELETE FROM blocks WHERE label = '0'")
    timer = threading.Timer(0.3, other.execute, ["COMMIT"])
    timer.start()
    assert dl.measure(Sum(3), store=path) == dl.measure(Sum(3))
    timer.join()
    other.close()
    assert [run.done for run in dl.Store(path).runs()] == [1, 3]


def test_one_file_holds_several_measurements(path, notes):
    dl.measure(Sum(3), store=path)
    dl.measure(Sum(3, seed=1), store=path)
    dl.measure(Sum(4), store=dl.Store(path))
    assert sorted((run.what, run.done, run.total) for run in dl.Store(path).runs()) == [
        ("sum", 3, 3), ("sum", 3, 3), ("sum", 4, 4)
    ]  # fmt: skip
    assert len({run.key for run in dl.Store(path).runs()}) == 3


def test_another_specification_under_one_name_is_refused_with_what_differs(path):
    store = dl.Store(path, name="mine")
    dl.measure(Sum(3), store=store)
    dl.measure(Sum(3), store=store)
    with pytest.raises(ValueError, match=r"'mine'.*seed: 0 there, 7 here") as caught:
        dl.measure(Sum(3, seed=7), store=store)
    assert str(path) in str(caught.value)
    assert "count" not in str(caught.value)
    assert dl.measure(Sum(3, seed=7), store=dl.Store(path, name="other")) == dl.measure(Sum(3, seed=7))


@pytest.mark.parametrize("name", [None, "mine"])
def test_another_version_is_refused_with_what_differs(path, monkeypatch, name):
    store = dl.Store(path, name)
    now = stores.environment()
    monkeypatch.setattr(stores, "environment", lambda: {**now, "deeplimit": "0.0.9"})
    dl.measure(Sum(3), store=store)
    monkeypatch.undo()
    message = f'deeplimit: "0.0.9" there, "{dl.__version__}" here'
    with pytest.raises(ValueError, match=message) as caught:
        dl.measure(Sum(3), store=store)
    assert str(path) in str(caught.value)
    assert "torch" not in str(caught.value)
    (run,) = store.runs()
    assert run.version == "0.0.9"
    store.drop(run.key[:8])
    assert dl.measure(Sum(3), store=store) == dl.measure(Sum(3))


def test_blocks_of_other_random_streams_are_refused(path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(specification, "STREAMS", "another way")
        dl.measure(Sum(3), store=path)
    with pytest.raises(ValueError, match=f'streams: "another way" there, "{specification.STREAMS}" here'):
        dl.measure(Sum(3), store=path)


def cut(path):
    dl.measure(Sum(50), store=path)
    path.write_bytes(path.read_bytes()[:9000])


def of_another_layout(path):
    dl.measure(Sum(1), store=path)
    executed(path, "PRAGMA user_version = 9")


FOREIGN = [
    (lambda path: path.write_bytes(b"depth,error\n16,0.1\n" * 400), "not a store"),
    (cut, "damaged"),
    (lambda path: executed(path, "CREATE TABLE mine (x)"), "another program"),
    (of_another_layout, "9"),
]


@pytest.mark.parametrize(("make", "said"), FOREIGN)
def test_a_file_that_is_no_store_is_refused_and_left_as_it_is(make, said, path):
    make(path)
    content = path.read_bytes()
    assert_refused(lambda: dl.measure(Sum(50), store=path), ValueError, "store", str(path), said)
    assert path.read_bytes() == content


def test_a_damaged_block_is_named(path):
    dl.measure(Sum(3), store=path)
    content = bytearray(executed(path, "SELECT content FROM blocks WHERE label = '1'")[0][0])
    content[len(content) // 2] ^= 1
    executed(path, "UPDATE blocks SET content = ? WHERE label = '1'", (bytes(content),))
    with pytest.raises(ValueError, match="block 1 of sum") as caught:
        dl.measure(Sum(3), store=path)
    assert str(path) in str(caught.value)


def test_an_empty_file_becomes_a_store(path):
    path.touch()
    dl.measure(Sum(2), store=path)
    assert kept(path) == 2


def test_places_that_cannot_be_written_are_refused_before_any_work(tmp_path, notes, monkeypatch):
    with pytest.raises(ValueError, match="not a folder"):
        dl.measure(Sum(2), store=tmp_path / "no" / "runs.sqlite")
    with pytest.raises(ValueError, match="names a folder"):
        dl.measure(Sum(2), store=tmp_path)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ValueError, match="cannot be written to"):
        dl.measure(Sum(2), store=tmp_path / "runs.sqlite")
    assert ran(notes) == []


def test_a_name_of_a_whole_call_tells_its_measurements_apart(path):
    store = dl.Store(path, "board")
    assert store.part("row 1") == dl.Store(path, "board: row 1")
    assert dl.Store(path).part("row 1") == dl.Store(path)
    for name in ("", " ", 3):
        with pytest.raises(TypeError, match=r"^name "):
            dl.Store(path, name)


def test_blocks_are_those_of_the_measurement_though_another_has_the_same_labels(path):
    for seed in (0, 1):
        dl.measure(Sum(3, seed=seed), store=path)
    store = dl.Store(path)
    for run in store.runs():
        blocks = [*store.blocks(run.key)]
        assert [label for label, _ in blocks] == ["0", "1", "2"]
        wanted = Sum(3, seed=run.specification["seed"])
        assert all((arrays["part"] == wanted.run(int(label))).all() for label, arrays in blocks)


def test_what_a_store_holds_is_listed_and_dropped(path):
    store = dl.Store(path, "mine")
    dl.measure(Sum(3), store=store)
    dl.measure(Sum(2), store=path)
    first, second = store.runs()
    assert (first.names, second.names) == (("mine",), ())
    assert (first.specification["seed"], first.specification["count"]) == (0, 3)
    assert first.key[:12] in str(first)
    assert "3/3" in str(first)
    for wrong in ("", "no such"):
        with pytest.raises(ValueError, match=r"^key "):
            store.drop(wrong)
    assert store.drop("mine").key == first.key
    assert [run.key for run in store.runs()] == [second.key]
    assert dataclasses.asdict(second)["done"] == 2
    with pytest.raises(FileNotFoundError, match=r"none\.sqlite"):
        dl.Store(path.with_name("none.sqlite")).runs()


# More paths than before


GRID = {"hurst": [0.3, 0.7], "exponents": [0.0, 0.5, 1.0], "inputs": 2}
GROWING = {
    # A verb, the sizes of a smaller and a larger run, and how many blocks the two share.
    "compare, pathwise": (
        lambda n, **how: dl.compare(dl.res1(40, "tanh"), depths=[4, 8], paths=n, coupling="pathwise", **how),
        (200, 500), 2,  # of 81 paths each; the third has 38
    ),
    "compare, ODE": (
        lambda n, **how: dl.compare(
            dl.res1(40, "tanh", weights=dl.SmoothGaussian()), depths=[2, 4], paths=n, tolerance=1e-3, **how
        ),
        (60, 100), 2,  # the first block of 40 paths, and the error of the reference on it
    ),
    "compare_laws": (
        lambda n, **how: dl.compare_laws(dl.res1(40, "tanh", weights=dl.IID("uniform")),
                                         depths=[2, 3, 4], draws=n, **how),
        (250, 500), 12,  # of 81 draws each: 3 of each law
    ),
    "stability": (
        lambda n, **how: dl.stability(dl.res3(40, weights=dl.IID("uniform")), [5, 9], draws=n, **how),
        (100, 200), 4,  # of 40 draws each
    ),
    "phase_diagram": (lambda n, **how: dl.phase_diagram(dl.res3, 8, 40, **GRID, draws=n, **how), (2, 3), 8),
}  # fmt: skip


@pytest.fixture
def run_blocks(monkeypatch):
    """The labels of all blocks that were run, with the random numbers of the library unchanged."""
    labels, measure = [], measurement.Running._parts

    def noted(self, measured, blocks, ticks, ordered):
        labels.extend(measured.label(block) for block in blocks)
        return measure(self, measured, blocks, ticks, ordered)

    monkeypatch.setattr(measurement.Running, "_parts", noted)
    return labels


def numbers(report):
    return {key: value for key, value in report.to_dict().items() if key != "seconds"}


@pytest.mark.parametrize("verb", GROWING)
def test_a_run_with_more_paths_takes_the_full_blocks_of_a_smaller_one(verb, path, run_blocks):
    run, (few, many), shared = GROWING[verb]
    alone = {n: numbers(run(n)) for n in (few, many)}
    run_blocks.clear()
    store = dl.Store(path, "named")
    assert numbers(run(few, store=store)) == alone[few]
    first = set(run_blocks)
    run_blocks.clear()
    assert numbers(run(many, store=store)) == alone[many]
    assert first.isdisjoint(run_blocks)
    smaller, larger = store.runs()
    assert len(run_blocks) == larger.total - shared
    assert (smaller.done, larger.done) == (smaller.total, larger.total)
    run_blocks.clear()
    for n in (many, few):  # nothing is left to do, for either
        assert numbers(run(n, store=store)) == alone[n]
    assert run_blocks == []


def test_dropping_one_of_two_runs_leaves_the_blocks_that_the_other_has(path, run_blocks):
    run, (few, many), shared = GROWING["compare, pathwise"]
    run(few, store=path)
    run(many, store=path)
    smaller, larger = dl.Store(path).runs()
    dl.Store(path).drop(larger.key)
    (left,) = dl.Store(path).runs()
    assert (left.key, left.done) == (smaller.key, smaller.total)
    assert kept(path) == smaller.total
    run_blocks.clear()
    run(many, store=path)
    assert len(run_blocks) == larger.total - shared
    for each in dl.Store(path).runs():
        dl.Store(path).drop(each.key)
    assert kept(path) == 0


def test_a_store_that_cannot_be_written_to_is_read_and_refuses_new_work_first(path, notes, monkeypatch):
    right = dl.measure(Sum(3), store=path)
    content = path.read_bytes()
    notes.unlink()
    connected = []
    connect = sqlite3.connect
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(
        stores.sqlite3,
        "connect",
        lambda where, **options: connected.append(where) or connect(where, **options),
    )
    store = dl.Store(path)
    (run,) = store.runs()
    assert (run.done, len(dict(store.blocks(run.key)))) == (3, 3)
    assert all("mode=ro" in str(where) for where in connected)
    with pytest.raises(OSError, match="readonly") as caught:
        dl.measure(Sum(4), store=path)
    assert str(path) in str(caught.value)
    assert (ran(notes), path.read_bytes()) == ([], content)
    monkeypatch.undo()
    assert dl.measure(Sum(3), store=path) == right
