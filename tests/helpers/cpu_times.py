"""CPU seconds of each test, with its processes and without what it shares; and the limit of the fast tier.

`make test-times` prints them by room and by function. A plugin of pytest, loaded by `conftest.py`.
"""

import argparse
import json
import os
import resource
import sys
import time
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

LIMIT = float(os.environ.get("TEST_LIMIT", "2"))
"""CPU seconds that a test of the fast tier may take, from the project's rules: nine thousand tests of more
could not end within six minutes on two cores."""

JUDGED = "TEST_TIMES" not in os.environ
"""A run that measures does not judge. `python -m mutation`, which traces lines, sets no limit."""


_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds():
    """Return CPU seconds of this process, of its ended children, and of those that still run."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime + _of_running_children("self")


def _of_running_children(process):
    """Linux lists the children of each thread; elsewhere they count when they have ended."""
    seconds = 0.0
    for listed in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            children = listed.read_text().split()
        except OSError:  # the thread has ended
            continue
        for child in children:
            try:
                fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            # Fields 14 to 17 of proc_pid_stat(5): user and system time, its own and of its ended children.
            seconds += sum(map(int, fields[11:15])) / _TICKS + _of_running_children(child)
    return seconds


class Times:
    """The clock of one process of tests.

    Args:
        kept: file to which a line per test and per shared fixture is written, or None.
    """

    def __init__(self, kept):
        self.kept, self.shared, self.began = kept, 0.0, 0.0
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text("")

    def write(self, kind, name, seconds):
        if self.kept is not None:
            with self.kept.open("a") as file:
                file.write(json.dumps([kind, name, round(seconds, 4)]) + "\n")

    def own(self):
        """Return CPU seconds of this test so far, without fixtures that others share."""
        return cpu_seconds() - self.began - self.shared

    def pytest_collection_finish(self):
        self.write("collection", "", cpu_seconds())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item, nextitem):
        self.began, self.shared = cpu_seconds(), 0.0
        result = yield
        took = self.own()
        self.write("test", item.nodeid, took)
        if JUDGED and took > LIMIT and not item.get_closest_marker("nightly"):
            self.judge(item, nextitem, took)
        return result

    def judge(self, item, nextitem, took):
        """Run a slow test again: the first of a process pays for imports and for compiled loops."""
        item._initrequest()
        self.began, self.shared = cpu_seconds(), 0.0
        runtestprotocol(item, nextitem=nextitem, log=False)
        took = min(took, self.own())
        if took > LIMIT:
            said = (
                f"{item.nodeid} took {took:.1f} CPU seconds; a test of the fast tier may take {LIMIT:g}. "
                "Use fewer paths or depths, share what it measures in a fixture of the module, or mark it "
                "`nightly`."
            )
            failed = pytest.TestReport(item.nodeid, item.location, {}, "failed", said, "teardown")
            item.ihook.pytest_runtest_logreport(report=failed)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        if fixturedef.scope == "function":
            return (yield)
        began, before = cpu_seconds(), self.shared
        try:
            return (yield)
        finally:
            took = cpu_seconds() - began
            inner = self.shared - before  # fixtures that this one asked for count once
            self.shared = before + took
            self.write("fixture", f"{fixturedef.baseid}::{fixturedef.argname}", took - inner)


def pytest_configure(config):
    folder, worker = os.environ.get("TEST_TIMES"), os.environ.get("PYTEST_XDIST_WORKER", "main")
    kept = None if folder is None else Path(folder).resolve() / f"{worker}.jsonl"
    config.pluginmanager.register(Times(kept), "times")


def rows(folder, rooms=()):
    """Yield room, function, CPU seconds, and whether it is a test, of each line that was written."""
    for file in sorted(Path(folder).glob("*.jsonl")):
        for line in file.read_text().splitlines():
            kind, name, seconds = json.loads(line)
            path, _, rest = name.partition("::")
            room = path.split("/")[1] if path.count("/") > 1 else kind
            function = f"{Path(path).name}::{rest.partition('[')[0]}" + " (fixture)" * (kind == "fixture")
            if not rooms or room in rooms:
                yield room, function, seconds, kind == "test"


def table(folder, rooms=(), longest=40):
    """Return lines: rooms, then the functions that take most, with CPU seconds."""
    by_room, by_function, count, worst = {}, {}, {}, {}
    for room, function, seconds, is_test in rows(folder, rooms):
        by_room[room] = by_room.get(room, 0.0) + seconds
        key = (room, function)
        by_function[key] = by_function.get(key, 0.0) + seconds
        worst[key] = max(worst.get(key, 0.0), seconds)
        for each in (room, key):
            count[each] = count.get(each, 0) + is_test
    yield f"{'CPU s':>8} {'tests':>6}  room"
    for room, seconds in sorted(by_room.items(), key=lambda item: -item[1]):
        yield f"{seconds:8.1f} {count[room]:6}  {room}"
    yield f"{sum(by_room.values()):8.1f} {sum(count[room] for room in by_room):6}  all"
    yield f"\n{'CPU s':>8} {'tests':>6} {'worst':>6}  function"
    for key, seconds in sorted(by_function.items(), key=lambda item: -item[1])[:longest]:
        yield f"{seconds:8.1f} {count[key]:6} {worst[key]:6.1f}  {key[0]}/{key[1]}"


def main():
    """Print where the seconds of a run of tests went."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", help="what TEST_TIMES named when the tests ran")
    parser.add_argument("--rooms", nargs="*", default=(), help="folders of tests/")
    parser.add_argument("--longest", type=int, default=40, help="number of functions")
    given = parser.parse_args()
    sys.stdout.writelines(f"{line}\n" for line in table(given.folder, given.rooms, given.longest))


if __name__ == "__main__":
    main()
