"""Disks that are full, read-only or gone: the error names the path, and what was there stays as it was."""

import errno
import os
import shutil
import sqlite3
import tempfile
from dataclasses import dataclass
from pathlib import Path

import killed
import pytest
from counted import Sum
from killed import timeless

import deeplimit as dl
from deeplimit.common import files, measurement, store as stores
from deeplimit.trained.training import checkpoint

FAILURES = {
    "full": (errno.ENOSPC, "No space left on device"),
    "read-only": (errno.EROFS, "Read-only file system"),
    "lost": (errno.ESTALE, "Stale file handle"),
    "broken": (errno.EIO, "Input/output error"),
}


@pytest.fixture(autouse=True)
def _written_at_once(monkeypatch):
    monkeypatch.setattr(measurement, "SECONDS_BETWEEN_WRITES", 0.0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / "runs.sqlite"


@dataclass(frozen=True)
class Losing(Sum):
    """In block 3 something happens to the store's file."""

    happens: object = None

    def key(self):
        return {"count": self.count}

    def run(self, block, tick=None):
        if block == 3 and self.happens is not None:
            self.happens()
        assert block < 6, "the call goes on long after its store is gone"
        return super().run(block, tick)


def removed(path):
    path.unlink()


def folder_removed(path):
    shutil.rmtree(path.parent)


def folder_renamed(path):
    path.parent.rename(path.parent.with_name("elsewhere"))


def replaced(path):
    other = path.with_name("other")
    other.write_bytes(b"somebody's file")
    other.replace(path)


@pytest.mark.parametrize("how", [removed, folder_removed, folder_renamed, replaced])
def test_a_store_that_vanishes_while_a_call_writes_ends_it_with_the_path(how, path):
    path.parent.mkdir()
    with pytest.raises(OSError, match=r"the store is gone|was replaced by another file") as caught:
        dl.measure(Losing(12, happens=lambda: how(path)), workers=1, store=path)
    assert str(path) in str(caught.value)
    if how is replaced:
        assert path.read_bytes() == b"somebody's file"


@pytest.mark.parametrize("words", ["disk I/O error", "attempt to write a readonly database"])
@pytest.mark.parametrize("statement", ["INSERT OR IGNORE INTO blocks", "SELECT number, label", "COMMIT"])
def test_a_store_whose_disk_fails_is_named_keeps_its_blocks_and_is_filled_later(
    statement, words, path, monkeypatch
):
    """SQLite's own words for EIO and ESTALE, a full disk and one that became read-only, from the fifth on."""
    path.parent.mkdir()
    seen = []

    class Failing(sqlite3.Connection):
        def _failed(self, text):
            if text.startswith(statement):
                seen.append(text)
                if len(seen) > 4:
                    raise sqlite3.OperationalError(words)

        def execute(self, text, *arguments):
            self._failed(text)
            return super().execute(text, *arguments)

        def executemany(self, text, *arguments):
            self._failed(text)
            return super().executemany(text, *arguments)

    connect = sqlite3.connect
    with monkeypatch.context() as patched:
        patched.setattr(
            stores.sqlite3, "connect", lambda *given, **options: connect(*given, **options, factory=Failing)
        )
        with pytest.raises(OSError, match=words) as caught:
            dl.measure(Sum(9), workers=1, store=path)
    assert str(caught.value).startswith(f"store {str(path)!r} could not be read or written")
    (run,) = dl.Store(path).runs()
    assert 2 <= run.done < 9
    assert dl.measure(Sum(9), workers=1, store=path) == dl.measure(Sum(9))


@pytest.fixture(scope="module")
def report():
    return dl.check_depth(killed.stack, [2, 3], batch=killed.BATCH)


WRITERS = {
    "save": ("r.json", lambda report, path: report.save(path)),
    "plot": ("r.png", lambda report, path: report.plot(path)),
    "page": ("r.html", lambda report, path: report.save_html(path)),
}
STAGES = {"begun": (tempfile, "mkstemp"), "closed": (os, "close"), "moved": (Path, "replace")}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_file_that_cannot_be_written_is_named_and_the_old_one_stays(
    writer, stage, failure, report, tmp_path, monkeypatch
):
    name, write = WRITERS[writer]
    path = tmp_path / name
    path.write_bytes(b"old")
    with monkeypatch.context() as patched:
        patched.setattr(*STAGES[stage], raising(*FAILURES[failure]))
        with pytest.raises(OSError, match="what was there is unchanged") as caught:
            write(report, path)
    assert (caught.value.errno, caught.value.filename) == (FAILURES[failure][0], str(path))
    assert path.read_bytes() == b"old"
    left = [each.name for each in tmp_path.iterdir() if each.name != name]
    assert left == [] or stage == "closed"  # which leaves an empty temporary file, removed a day later


def raising(number, words):
    def fail(*_, **__):
        raise OSError(number, words)

    return fail


def test_a_file_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    path.write_text("{}", encoding="utf-8")
    monkeypatch.setattr(Path, "read_text", raising(*FAILURES["lost"]))
    with pytest.raises(OSError, match=FAILURES["lost"][1]) as caught:
        dl.load_report(path)
    assert caught.value.filename == str(path)


def trained(folder):
    return dl.train(
        dl.inner(2, "tanh"), [2], dl.datasets.synthetic_system(width=2, count=20, test=5),
        epochs=4, workers=1, checkpoints=folder,
    )  # fmt: skip


def test_a_checkpoint_that_cannot_be_read_now_is_not_called_damaged(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN", 0.0)
    whole = timeless(trained(tmp_path).to_dict())
    (file,) = tmp_path.iterdir()
    before = file.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint.Path, "read_bytes", raising(*FAILURES["lost"]))
        with pytest.raises(OSError, match="Stale file handle") as caught:
            trained(tmp_path)
    assert str(file) in str(caught.value)
    assert "Delete" not in str(caught.value)
    assert file.read_bytes() == before
    assert timeless(trained(tmp_path).to_dict()) == whole


def test_a_checkpoint_that_cannot_be_written_is_named_and_the_last_one_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN", 0.0)
    whole, writes = timeless(trained(None).to_dict()), []
    save = checkpoint.save_file

    def full_after_two(*arguments):
        writes.append(arguments)
        if len(writes) > 2:
            raise OSError(*FAILURES["full"])
        save(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "save_file", full_after_two)
        with pytest.raises(OSError, match="No space left on device: nothing was written") as caught:
            trained(tmp_path)
    (file,) = tmp_path.iterdir()
    assert caught.value.filename == str(file)
    assert not file.name.startswith(files.LEFTOVER)
    assert timeless(trained(tmp_path).to_dict()) == whole
