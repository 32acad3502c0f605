"""A file (SQLite) that keeps the finished blocks of measurements, so that only missing ones are computed.

Blocks are kept under the digest of the specification that decides them. Measurements that differ only in how
many paths they have share it, and their common blocks. A file's content is never written over. Each block
has a digest over its specification, its label and its content, which is checked when it is read. A damaged
file, one that is not a store, and blocks of another version of the library are refused.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import hashlib
import json
import os
import random
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np

from deeplimit.common import validation
from deeplimit.common.contents import DAMAGED, unpacked
from deeplimit.common.specification import differences, digest, environment, text

APPLICATION = 0x646C696D  # "dlim", in the file's header
LAYOUT = 3
SECONDS_TO_WAIT = 60.0
"""How long a process waits for another one to finish writing."""
SHORT = 12
"""Digits of a key that lists show."""
MOST_DIFFERENCES = 8
_TABLES = (
    "CREATE TABLE specifications (digest TEXT PRIMARY KEY, specification TEXT NOT NULL,"
    " environment TEXT NOT NULL)",
    "CREATE TABLE measurements (digest TEXT PRIMARY KEY, what TEXT NOT NULL,"
    " specification TEXT NOT NULL REFERENCES specifications, total INTEGER NOT NULL, date TEXT NOT NULL)",
    "CREATE TABLE members (measurement TEXT NOT NULL REFERENCES measurements, label TEXT NOT NULL,"
    " PRIMARY KEY (measurement, label)) WITHOUT ROWID",
    "CREATE TABLE names (name TEXT PRIMARY KEY, specification TEXT NOT NULL REFERENCES specifications)",
    "CREATE TABLE blocks (number INTEGER PRIMARY KEY,"
    " specification TEXT NOT NULL REFERENCES specifications, label TEXT NOT NULL, content BLOB NOT NULL,"
    " seal TEXT NOT NULL, UNIQUE (specification, label))",
)
"""A specification decides blocks; a measurement has some of them as members, told apart by their labels."""


@dataclass(frozen=True)
class StoredRun:
    """One measurement in a store.

    Attributes:
        key: Digest of its specification and its blocks.
        what: A few words.
        names: Names that its specification was given (`Store(name=...)`).
        done, total: Number of blocks that are kept, and of all.
        version: Version of deeplimit that made them.
        date: When it was begun (UTC).
        specification: All that decides the numbers of a block, as plain data.
        environment: Versions that made the blocks.
    """

    key: str
    what: str
    names: tuple[str, ...]
    done: int
    total: int
    version: str
    date: str
    specification: dict[str, Any]
    environment: dict[str, str]

    def __str__(self) -> str:
        names = f" ({', '.join(self.names)})" if self.names else ""
        return (
            f"{self.key[:SHORT]}  {self.done:>5}/{self.total:<5}  {self.version:<8}  {self.date[:16]}"
            f"  {self.what}{names}"
        )


@final
@dataclass(frozen=True)
class Store:
    """A file that keeps finished blocks; give it, or its path alone, as `store=` to anything that takes time.

    Args:
        path: The file; it is made where there is none. Several processes may use it at the same time.
        name: Name under which to keep a measurement. A second one with another specification is then
            refused, and the message says what differs. Left out: measurements are told apart by their
            specifications, so that one file holds any number of them.

    A file that cannot be written to, or lies on a read-only disk, can be listed and exported; it refuses a
    measurement before any work.

    Raises:
        TypeError: For an argument of the wrong kind.
        ValueError: For a file that is damaged or not a store; the file is not changed.
        OSError: Where the file cannot be read or written.

    Examples:
        >>> import tempfile, deeplimit as dl
        >>> folder = tempfile.TemporaryDirectory()
        >>> store = dl.Store(folder.name + "/runs.sqlite")
        >>> report = dl.compare(dl.res1(4), depths=[2, 4], paths=16, store=store)
        >>> again = dl.compare(dl.res1(4), depths=[2, 4], paths=16, store=store)  # computes nothing
        >>> bool((report.errors == again.errors).all()), [(run.done, run.total) for run in store.runs()]
        (True, [(1, 1)])
        >>> folder.cleanup()
    """

    path: Path
    name: str | None = None

    def __init__(self, path: str | os.PathLike[str], name: str | None = None) -> None:
        given = validation.as_path(path, "store")
        checked = given if _is_read_only(given) else validation.writable_file(path, "store")
        if name is not None and (not isinstance(name, str) or not name.strip()):
            raise TypeError(f"name must be a text that is not empty, got {validation.named(name)}.")
        object.__setattr__(self, "path", checked.absolute())
        object.__setattr__(self, "name", name)
        if checked.exists():
            with _connected(self.path):
                pass

    def part(self, label: str) -> Store:
        """Return the same store for one of several measurements of a call."""
        return self if self.name is None else Store(self.path, f"{self.name}: {label}")

    def runs(self) -> tuple[StoredRun, ...]:
        """Return what the store holds, the oldest first."""
        if not self.path.exists():
            raise FileNotFoundError(f"store {str(self.path)!r} does not exist.")
        with _connected(self.path) as connection:
            rows = connection.execute(
                "SELECT measurements.digest, what, specifications.digest, specifications.specification,"
                " environment, total, date, (SELECT COUNT(*) FROM members JOIN blocks USING (label)"
                " WHERE measurement = measurements.digest"
                " AND blocks.specification = measurements.specification)"
                " FROM measurements JOIN specifications"
                " ON specifications.digest = measurements.specification ORDER BY date, measurements.digest"
            ).fetchall()
            names = connection.execute("SELECT specification, name FROM names ORDER BY name").fetchall()
        runs = []
        for key, what, owner, specification, made, total, date, done in rows:
            versions = _plain(self.path, made)
            told = (key, what, versions.get("deeplimit"), date)
            if not all(isinstance(each, str) for each in told) or not isinstance(total, int):
                raise _damaged(self.path, "a measurement in it has no name, version or date")
            own = tuple(str(name) for named, name in names if named == owner)
            content = _plain(self.path, specification, owner)
            runs.append(StoredRun(key, what, own, done, total, str(told[2]), date, content, versions))
        return tuple(runs)

    def run(self, key: str) -> StoredRun:
        """Return the measurement whose key begins with `key`, or that has this name.

        Raises ValueError where no measurement, or more than one, fits.
        """
        found = [run for run in self.runs() if run.key.startswith(key) or key in run.names]
        if len(found) != 1 or not key:
            raise ValueError(
                f"key {key!r} fits {len(found)} of the measurements in {str(self.path)!r};"
                " `deeplimit runs` lists their keys."
            )
        return found[0]

    def drop(self, key: str) -> StoredRun:
        """Remove the measurement that `run` finds, and return what it was.

        Blocks that it shares with another one stay. Raises as `run` does.
        """
        found = self.run(key)
        with _connected(self.path) as connection, _writing(connection):
            for statement in _DROP:
                connection.execute(statement, {"key": found.key})
        return found

    def blocks(self, key: str) -> Iterator[tuple[str, dict[str, np.ndarray] | None]]:
        """Yield the label of each block of the measurement that `run` finds, and its arrays; None if missing.

        Raises as `run` does, and ValueError for a block that is damaged.
        """
        found = self.run(key)
        found_in = digest(found.specification)
        with _connected(self.path) as connection:
            rows = connection.execute(
                "SELECT members.label, content, seal FROM measurements JOIN members ON measurement = digest"
                " LEFT JOIN blocks ON blocks.label = members.label"
                " AND blocks.specification = measurements.specification WHERE digest = ?"
                " ORDER BY blocks.number IS NULL, members.label",
                (found.key,),
            )
            for label, content, seal in rows:
                try:
                    yield (
                        label,
                        None if content is None else unpacked(_intact(found_in, label, content, seal)),
                    )
                except DAMAGED as error:
                    raise ValueError(
                        f"store {str(self.path)!r} is damaged: block {label!r} of {found.what} cannot be read"
                        f" ({str(error).rstrip('.')})."
                    ) from error

    @contextlib.contextmanager
    def opened(self, what: str, specification: dict[str, Any], labels: Sequence[str]) -> Iterator[Journal]:
        """Yield the journal of one measurement; raise ValueError where the store holds something else.

        `labels` tell the blocks of one specification apart, in the order of the measurement's blocks.
        """
        with _connected(self.path) as connection:
            owner = digest(specification)
            key = digest({"specification": owner, "blocks": [*labels]})
            with _writing(connection):
                self._specify(connection, owner, specification)
                first = _enter(connection, key, what, owner, labels)
            yield Journal(self.path, connection, owner, key, tuple(labels), first, _identity(self.path))

    def holds(self, specification: dict[str, Any], labels: Sequence[str]) -> set[int]:
        """Return the numbers of the blocks with these labels that are kept; nothing is entered."""
        if not self.path.exists():
            return set()
        with _connected(self.path) as connection:
            rows = connection.execute(
                "SELECT label FROM blocks WHERE specification = ?", (digest(specification),)
            )
            kept = {label for (label,) in rows}
        return {number for number, label in enumerate(labels) if label in kept}

    def _specify(self, connection: sqlite3.Connection, owner: str, specification: dict[str, Any]) -> None:
        """Enter the specification, or find it there, made by these versions and under this name."""
        if self.name is not None:
            named = connection.execute(
                "SELECT digest, specifications.specification FROM names JOIN specifications"
                " ON digest = names.specification WHERE name = ?",
                (self.name,),
            ).fetchone()
            if named is not None and named[0] != owner:
                found = differences(_plain(self.path, *named[::-1]), json.loads(text(specification)))
                raise ValueError(
                    f"store {str(self.path)!r} holds another measurement under the name {self.name!r}:"
                    f" {_listed(found)}. Give another name, or none."
                )
        row = connection.execute(
            "SELECT environment FROM specifications WHERE digest = ?", (owner,)
        ).fetchone()
        now = environment()
        made = now if row is None else _plain(self.path, row[0])
        if made != now:
            keys = connection.execute("SELECT digest FROM measurements WHERE specification = ?", (owner,))
            drops = ", then ".join(f"--drop {key[:SHORT]}" for (key,) in keys)
            raise ValueError(
                f"store {str(self.path)!r} holds this measurement, made by other versions or on another"
                f" machine: {_listed(differences(made, now))}. Their numbers are not mixed: go on there,"
                f" give another file, or drop it (deeplimit runs {str(self.path)!r} {drops})."
            )
        if row is None:
            row = (owner, text(specification), text(now))
            connection.execute("INSERT INTO specifications VALUES (?, ?, ?)", row)
        if self.name is not None:
            connection.execute("INSERT OR IGNORE INTO names VALUES (?, ?)", (self.name, owner))


def as_store(store: object) -> Store | None:
    """Return `store=` as a `Store`; raise as `Store` says."""
    if store is None or isinstance(store, Store):
        return store
    if isinstance(store, (str, os.PathLike)):
        return Store(store)
    raise TypeError(f"store must be a path or a deeplimit.Store, got {validation.named(store)}.")


def _enter(connection: sqlite3.Connection, key: str, what: str, owner: str, labels: Sequence[str]) -> bool:
    """Enter the measurement and its blocks' labels, or find it there; return whether it is new."""
    if connection.execute("SELECT 1 FROM measurements WHERE digest = ?", (key,)).fetchone() is not None:
        return False
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
    row = (key, what, owner, len(labels), date)
    connection.execute("INSERT INTO measurements VALUES (?, ?, ?, ?, ?)", row)
    connection.executemany("INSERT INTO members VALUES (?, ?)", ((key, label) for label in labels))
    return True


_DROP = (
    "DELETE FROM members WHERE measurement = :key",
    "DELETE FROM measurements WHERE digest = :key",
    "DELETE FROM blocks WHERE NOT EXISTS (SELECT 1 FROM measurements JOIN members"
    " ON measurement = measurements.digest WHERE measurements.specification = blocks.specification"
    " AND members.label = blocks.label)",
    "DELETE FROM names WHERE specification NOT IN (SELECT specification FROM measurements)",
    "DELETE FROM specifications WHERE digest NOT IN (SELECT specification FROM measurements)",
)
"""A measurement is removed with its own blocks; those of another one with the same specification stay."""


@dataclass
class Journal:
    """The blocks of one measurement in an open store."""

    path: Path
    connection: sqlite3.Connection
    specification: str
    digest: str
    labels: tuple[str, ...]
    is_first: bool
    identity: tuple[int, int]
    kept: set[int] = dataclasses.field(default_factory=set)
    last: int = 0

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """The number of each block by its label."""
        return {label: number for number, label in enumerate(self.labels)}

    def news(self) -> set[int]:
        """Return the numbers of all kept blocks, those that other processes have kept since included."""
        rows = self.connection.execute(
            "SELECT number, label FROM blocks WHERE specification = ? AND number > ? ORDER BY number",
            (self.specification, self.last),
        ).fetchall()
        self.kept.update(self._numbers[label] for _, label in rows if label in self._numbers)
        self.last = rows[-1][0] if rows else self.last
        return self.kept

    def keep(self, blocks: Sequence[tuple[int, bytes]]) -> None:
        """Add finished blocks; those that are there already stay.

        Raises OSError where the file has gone: SQLite would write on into a file without a name.
        """
        if _identity(self.path) != self.identity:
            raise OSError(
                f"store {str(self.path)!r} was replaced by another file while this measurement ran. Call"
                " again; what the first file held is computed again."
            )
        if not blocks:
            return
        with _writing(self.connection):
            self.connection.executemany(
                "INSERT OR IGNORE INTO blocks (specification, label, content, seal) VALUES (?, ?, ?, ?)",
                [
                    (self.specification, label, content, _seal(self.specification, label, content))
                    for label, content in ((self.labels[block], content) for block, content in blocks)
                ],
            )

    def load(self, block: int) -> bytes:
        """Return the content of a kept block; raise ValueError where it is not what was kept."""
        row = self.connection.execute(
            "SELECT content, seal FROM blocks WHERE specification = ? AND label = ?",
            (self.specification, self.labels[block]),
        ).fetchone()
        if row is None:
            raise KeyError("it was removed while this measurement ran")
        return _intact(self.specification, self.labels[block], *row)

    def shuffled(self, blocks: Sequence[int]) -> list[int]:
        """Return blocks in an order that differs from process to process: two then share the work."""
        mixed = list(blocks)
        random.Random(os.getpid()).shuffle(mixed)
        return mixed


def _seal(specification: str, label: str, content: bytes) -> str:
    """Return the digest of a block: its numbers, and whose they are."""
    return digest(
        {"specification": specification, "label": label, "sha256": hashlib.sha256(content).hexdigest()}
    )


def _intact(specification: str, label: str, content: object, seal: object) -> bytes:
    """Return a block's content; raise ValueError where it is not what was kept under this label."""
    if not isinstance(content, bytes) or _seal(specification, label, content) != seal:
        raise ValueError("its bytes are not those that were kept for it")
    return content


def _plain(path: Path, written: object, owner: str | None = None) -> dict[str, Any]:
    """Return the plain data that a store holds as a text, whose digest is `owner` where one is given."""
    try:
        found = json.loads(written) if isinstance(written, str) else None
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"a specification in it cannot be read ({error})") from error
    if not isinstance(found, dict) or (owner is not None and digest(found) != owner):
        raise _damaged(path, "a specification in it is not the one that was kept")
    return found


def _damaged(path: Path, why: object) -> ValueError:
    return ValueError(
        f"store {str(path)!r} is not a store of deeplimit, or it is damaged: {why}. It was not changed;"
        " give another file."
    )


def _identity(path: Path) -> tuple[int, int]:
    """Return what tells a file from another one of the same name."""
    try:
        found = path.stat()
    except OSError as error:
        raise OSError(
            error.errno,
            f"{error.strerror}: the store is gone; call again when its folder is there",
            str(path),
        ) from error
    return found.st_dev, found.st_ino


def _listed(found: Iterable[str]) -> str:
    lines = list(found)
    more = f"; and {len(lines) - MOST_DIFFERENCES} more" if len(lines) > MOST_DIFFERENCES else ""
    return "; ".join(lines[:MOST_DIFFERENCES]) + more


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as ours, with the file's name."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        without_tables = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR
        if not isinstance(error, sqlite3.OperationalError) or without_tables:
            raise _damaged(path, error) from error
        raise OSError(
            f"store {str(path)!r} could not be read or written: {error}. What it held before is kept: call"
            " again when it can be used."
        ) from error


@contextlib.contextmanager
def _writing(connection: sqlite3.Connection) -> Iterator[None]:
    """Write all inside or nothing; other processes wait."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:  # on a full disk of COMMIT itself
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection to a store, which is made where the file is empty or missing."""
    with _told(path):
        where: str | Path = path
        if is_read_only := _is_read_only(path):
            # SQLite makes files beside the store, unless it is told that nobody writes to it.
            written = path.with_name(f"{path.name}-wal")
            alone = "" if written.exists() and written.stat().st_size else "&immutable=1"
            where = f"{path.absolute().as_uri()}?mode=ro{alone}"
        connection = sqlite3.connect(where, timeout=SECONDS_TO_WAIT, isolation_level=None, uri=is_read_only)
        # A damaged text is told by its digest.
        connection.text_factory = lambda content: content.decode("utf-8", "replace")
        try:
            try:
                _checked(connection, path)
            except UnicodeDecodeError as error:  # what SQLite says of tables whose names are damaged
                raise _damaged(path, error) from error
            yield connection
        finally:
            connection.close()


def _is_read_only(path: Path) -> bool:
    """Return whether there is a file that this process may read and not write, or not beside."""
    return path.is_file() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def _checked(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables of an empty file; refuse a file that is no store, or one of another layout."""

    def pragma(name: str) -> int:
        return int(connection.execute(f"PRAGMA {name}").fetchone()[0])

    if pragma("application_id") == 0 and pragma("schema_version") == 0:
        # Reading and one writing process do not wait for each other.
        _patiently(connection, "PRAGMA journal_mode = WAL")
        with _writing(connection):
            if pragma("application_id") == 0:  # or another process was faster
                for statement in (
                    *_TABLES, f"PRAGMA application_id = {APPLICATION}", f"PRAGMA user_version = {LAYOUT}"
                ):  # fmt: skip
                    connection.execute(statement)
    if pragma("application_id") != APPLICATION:
        raise ValueError(
            f"store {str(path)!r} is a database of another program. It was left as it is; give another file."
        )
    if (layout := pragma("user_version")) != LAYOUT:
        raise ValueError(
            f"store {str(path)!r} has layout {layout}, made by another version of deeplimit; this one reads"
            f" layout {LAYOUT}. Give another file."
        )
    connection.execute("PRAGMA synchronous = NORMAL")  # a killed process loses nothing, a power cut seconds


def _patiently(connection: sqlite3.Connection, statement: str) -> None:
    """Execute what SQLite does not wait with by itself, such as changing the journal's mode."""
    end = time.monotonic() + SECONDS_TO_WAIT
    while True:
        try:
            connection.execute(statement)
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.01)
