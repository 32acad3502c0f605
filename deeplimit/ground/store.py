"""A file (SQLite) that keeps the finished blocks of measurements, so that only missing ones are computed.

Each measurement is kept under the digest of its specification. A file's content is never written over. A
damaged file, one that is not a store, and blocks of another version of the library are refused.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import os
import random
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from deeplimit.ground import validation
from deeplimit.ground.specification import differences, digest, environment, text

APPLICATION = 0x646C696D  # "dlim", in the file's header
LAYOUT = 1
SECONDS_TO_WAIT = 60.0
"""How long a process waits for another one to finish writing."""
SHORT = 12
"""Digits of a key that lists show."""
MOST_DIFFERENCES = 8
_TABLES = (
    "CREATE TABLE measurements (digest TEXT PRIMARY KEY, what TEXT NOT NULL, specification TEXT NOT NULL,"
    " environment TEXT NOT NULL, total INTEGER NOT NULL, date TEXT NOT NULL)",
    "CREATE TABLE names (name TEXT PRIMARY KEY, digest TEXT NOT NULL REFERENCES measurements)",
    "CREATE TABLE blocks (number INTEGER PRIMARY KEY, digest TEXT NOT NULL REFERENCES measurements,"
    " block INTEGER NOT NULL, content BLOB NOT NULL, UNIQUE (digest, block))",
)


@dataclass(frozen=True)
class StoredRun:
    """One measurement in a store.

    Attributes:
        key: Digest of its specification. what: A few words. names: Names it was given (`Store(name=...)`).
        done, total: Number of blocks that are kept, and of all. version: Version of deeplimit that made them.
        date: When it was begun (UTC). specification: All that decides its numbers, as plain data.
    """

    key: str
    what: str
    names: tuple[str, ...]
    done: int
    total: int
    version: str
    date: str
    specification: dict[str, Any]

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

    Raises:
        TypeError: For an argument of the wrong kind.
        ValueError: For a file that is damaged or no store, which is left as it is.
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
        checked = validation.writable_file(path, "store")
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
                "SELECT digest, what, specification, environment, total, date,"
                " (SELECT COUNT(*) FROM blocks WHERE blocks.digest = measurements.digest)"
                " FROM measurements ORDER BY date, digest"
            ).fetchall()
            names = connection.execute("SELECT digest, name FROM names ORDER BY name").fetchall()
        return tuple(
            StoredRun(
                key, what, tuple(name for owner, name in names if owner == key), done, total,
                json.loads(made)["deeplimit"], date, json.loads(specification),
            )
            for key, what, specification, made, total, date, done in rows
        )  # fmt: skip

    def drop(self, key: str) -> StoredRun:
        """Remove the measurement whose key begins with `key`, or that has this name, and return what it was.

        Raises ValueError where no measurement, or more than one, fits.
        """
        found = [run for run in self.runs() if run.key.startswith(key) or key in run.names]
        if len(found) != 1 or not key:
            raise ValueError(
                f"key {key!r} fits {len(found)} of the measurements in {str(self.path)!r};"
                " `deeplimit runs` lists their keys."
            )
        with _connected(self.path) as connection, _writing(connection):
            for table in ("blocks", "names", "measurements"):
                connection.execute(f"DELETE FROM {table} WHERE digest = ?", (found[0].key,))
        return found[0]

    @contextlib.contextmanager
    def opened(self, what: str, specification: dict[str, Any], total: int) -> Iterator[Journal]:
        """Yield the journal of one measurement; raise ValueError where the store holds something else."""
        with _connected(self.path) as connection:
            key = digest({**specification, "blocks": total})
            plain = {**specification, "blocks": total}
            with _writing(connection):
                first = self._register(connection, key, what, plain, total)
            yield Journal(self.path, connection, key, first)

    def _register(
        self, connection: sqlite3.Connection, key: str, what: str, plain: dict[str, Any], total: int
    ) -> bool:
        """Enter the measurement, or find it there; return whether it is new."""
        if self.name is not None:
            named = connection.execute(
                "SELECT measurements.digest, specification FROM names JOIN measurements USING (digest)"
                " WHERE name = ?",
                (self.name,),
            ).fetchone()
            if named is not None and named[0] != key:
                raise ValueError(
                    f"store {str(self.path)!r} holds another measurement under the name {self.name!r}:"
                    f" {_listed(differences(json.loads(named[1]), json.loads(text(plain))))}. Give another"
                    " name, or none."
                )
        row = connection.execute("SELECT environment FROM measurements WHERE digest = ?", (key,)).fetchone()
        now = environment()
        if row is not None and json.loads(row[0]) != now:
            raise ValueError(
                f"store {str(self.path)!r} holds this measurement, made by other versions:"
                f" {_listed(differences(json.loads(row[0]), now))}. Their numbers are not mixed: give another"
                f" file, or drop it (deeplimit runs {str(self.path)!r} --drop {key[:SHORT]})."
            )
        if row is None:
            date = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
            connection.execute(
                "INSERT INTO measurements VALUES (?, ?, ?, ?, ?, ?)",
                (key, what, text(plain), text(now), total, date),
            )
        if self.name is not None:
            connection.execute("INSERT OR IGNORE INTO names VALUES (?, ?)", (self.name, key))
        return row is None


def as_store(store: object) -> Store | None:
    """Return `store=` as a `Store`; raise as `Store` says."""
    if store is None or isinstance(store, Store):
        return store
    if isinstance(store, (str, os.PathLike)):
        return Store(store)
    raise TypeError(f"store must be a path or a deeplimit.Store, got {validation.named(store)}.")


@dataclass
class Journal:
    """The blocks of one measurement in an open store."""

    path: Path
    connection: sqlite3.Connection
    digest: str
    is_first: bool
    kept: set[int] = dataclasses.field(default_factory=set)
    last: int = 0

    def news(self) -> set[int]:
        """Return the numbers of all kept blocks, those that other processes have kept since included."""
        rows = self.connection.execute(
            "SELECT number, block FROM blocks WHERE digest = ? AND number > ? ORDER BY number",
            (self.digest, self.last),
        ).fetchall()
        self.kept.update(block for _, block in rows)
        self.last = rows[-1][0] if rows else self.last
        return self.kept

    def keep(self, blocks: Sequence[tuple[int, bytes]]) -> None:
        """Add finished blocks; those that are there already stay."""
        if not blocks:
            return
        with _writing(self.connection):
            self.connection.executemany(
                "INSERT OR IGNORE INTO blocks (digest, block, content) VALUES (?, ?, ?)",
                [(self.digest, block, content) for block, content in blocks],
            )

    def load(self, block: int) -> bytes:
        """Return the content of a kept block."""
        row = self.connection.execute(
            "SELECT content FROM blocks WHERE digest = ? AND block = ?", (self.digest, block)
        ).fetchone()
        if row is None:
            raise KeyError("it was removed while this measurement ran")
        return bytes(row[0])

    def shuffled(self, blocks: Sequence[int]) -> list[int]:
        """Return blocks in an order that differs from process to process: two then share the work."""
        mixed = list(blocks)
        random.Random(os.getpid()).shuffle(mixed)
        return mixed


def _listed(found: Iterable[str]) -> str:
    lines = list(found)
    more = f"; and {len(lines) - MOST_DIFFERENCES} more" if len(lines) > MOST_DIFFERENCES else ""
    return "; ".join(lines[:MOST_DIFFERENCES]) + more


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as ours, with the file's name."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise OSError(f"store {str(path)!r} could not be read or written: {error}.") from error
    except sqlite3.DatabaseError as error:
        raise ValueError(
            f"store {str(path)!r} is no store of deeplimit, or it is damaged: {error}. It was left as it is;"
            " give another file."
        ) from error


@contextlib.contextmanager
def _writing(connection: sqlite3.Connection) -> Iterator[None]:
    """Write all inside or nothing; other processes wait."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


@contextlib.contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection to a store, which is made where the file is empty or missing."""
    with _told(path):
        connection = sqlite3.connect(path, timeout=SECONDS_TO_WAIT, isolation_level=None)
        try:
            _checked(connection, path)
            yield connection
        finally:
            connection.close()


def _checked(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables of an empty file; refuse a file that is no store, or one of another layout."""

    def pragma(name: str) -> int:
        return int(connection.execute(f"PRAGMA {name}").fetchone()[0])

    if pragma("application_id") == 0 and pragma("schema_version") == 0:
        _patiently(
            connection, "PRAGMA journal_mode = WAL"
        )  # reading and one writing process do not wait for each other
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
