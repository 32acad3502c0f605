"""Processes that fill a store and are killed (SIGKILL) at seeded moments until they are done; a program.

    python killed.py VERB WRITERS KILLS SEED FOLDER

prints, as JSON, what the uninterrupted call gave and what every round of killed ones gave. A moment is a
time, or the n-th statement to the store, before which the process kills itself. So kills meet what takes
microseconds, too.
"""

import contextlib
import io
import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from pathlib import Path

if __name__ == "__main__":
    for _library in ("OMP", "OPENBLAS", "MKL"):  # threads of a library do not come along into a copy
        os.environ[f"{_library}_NUM_THREADS"] = "1"

import torch

import deeplimit as dl
from deeplimit.cli import app
from deeplimit.common import measurement, store as stores
from deeplimit.trained.training import checkpoint

UNIFORM = dl.IID("uniform")
BATCH = torch.ones(2, 5, 8)


def stack(depth):
    """Build a module to check."""
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return torch.nn.TransformerEncoder(layer, depth)


def _adam(model, depth):
    return torch.optim.Adam(model.parameters(), lr=1e-3)


class _Layers(torch.nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(depth))

    def forward(self, h):
        for block in self.blocks:
            h = h + block(h) / len(self.blocks)
        return h


def _shaken(model, depth, seed):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))
    return model


def _commanded(command, workers=1, store=None):
    """Run a command in this process; return the report that it wrote."""
    kept = () if store is None else ("--store", str(store))
    given = [*command.split(), "--quiet", "--workers", str(workers), *kept]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        file = Path(folder) / "report.json"
        app([*given, "--json", str(file)], standalone_mode=False)
        return dl.load_report(file)


def _named(how):
    """Return the arguments with a name for the store, which functions of modules ask for."""
    return how | {"store": dl.Store(how["store"], "stack")} if "store" in how else how


def _trained(checkpoints=None, **how):
    data = dl.datasets.synthetic_system(width=4, count=70, test=9)
    network = dl.inner(4, "tanh", weights=dl.SmoothGaussian())
    folder = (
        how["store"].parent / f"{how['store'].stem}-checkpoints" if checkpoints and "store" in how else None
    )
    return dl.train(network, [2, 3, 4, 5], data, repeats=16, epochs=5, checkpoints=folder, **how)


FUNCTIONS = {
    "compare": lambda **how: dl.compare(
        dl.res1(40, "tanh"), depths=[2, 4], paths=1200, coupling="pathwise", **how
    ),
    "compare_laws": lambda **how: dl.compare_laws(
        dl.res1(40, "tanh", weights=UNIFORM), depths=[2, 3, 4], draws=500, **how
    ),
    "stability": lambda **how: dl.stability(dl.res3(40, weights=UNIFORM), [5, 9], draws=800, **how),
    "compare, adaptive": lambda **how: dl.compare(
        dl.res1(40, "relu"), depths=[4, 8, 16], coupling="pathwise", **how
    ),
    "phase_diagram": lambda **how: dl.phase_diagram(
        dl.res3, 16, 40, hurst=[0.7], exponents=[0.0, 1.0], draws=8, **how
    ),
    "check_depth": lambda **how: dl.check_depth(
        stack, [2, 3, 5, 8], batch=BATCH, expected=0.5, **_named(how)
    ),
    "check_training": lambda **how: dl.check_training(
        stack, [2, 3], optimizer=_adam, batch=BATCH, steps=(1,), seeds=2, **_named(how)
    ),
    "simulate": lambda **how: dl.simulate(
        dl.res1(40, "tanh", weights=UNIFORM), depths=[2, 4], paths=600, keep="summaries", **how
    ),
    "study": lambda **how: dl.study(_Layers, _shaken, [6, 7], 3, batch=torch.ones(2, 3), **_named(how)),
    "reproduce": lambda **how: dl.reproduce("marion-fig6", quick=True, **how),
    "compare, command": lambda **how: _commanded(
        "compare --network res1 --width 40 --depths 2:4:x2 --paths 1200 --coupling pathwise", **how
    ),
    "stability, command": lambda **how: _commanded(
        "stability --network res3 --width 40 --weights uniform --depths 5,9 --draws 800", **how
    ),
    "train": _trained,
    "train, checkpoints": lambda **how: _trained(True, **how),
}  # fmt: skip


def content(report):
    """Return what a call gave without the time it took."""
    if isinstance(report, dl.Trajectories):
        summaries = [report.summary(depth) for depth in report.depths]
        return [[each.mean.tolist(), each.covariance.tolist()] for each in summaries]
    return timeless(report.to_dict())


def timeless(content):
    """Return a report's content without the time it took."""
    if isinstance(content, dict):
        return {key: timeless(value) for key, value in content.items() if key != "seconds"}
    return [timeless(value) for value in content] if isinstance(content, (list, tuple)) else content


class Sitting:
    """One process at work on a store: what it computed, and what it knew to be kept, in a file."""

    def __init__(self, verb, store, moment):
        self.verb, self.store, self.moment = verb, store, moment
        self.before = labels(store)
        self.notes = store.with_name(f"{store.stem}-{os.urandom(4).hex()}.notes")
        self.result = self.notes.with_suffix(".json")
        kind, self.at = moment or (None, None)
        self.due = time.monotonic() + self.at if kind == "time" else float("inf")
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self._work(self.at if kind == "statement" else None)
                os._exit(0)
            finally:  # not the parent's: neither its stack nor what it does at exit
                if (error := sys.exc_info())[0] is not None:
                    sys.excepthook(*error)
                os._exit(1)

    def _work(self, statements):
        with self.notes.open("a") as file:
            noted(file)
            if statements is not None:
                suicidal(statements)
            report = FUNCTIONS[self.verb](workers=1, store=self.store)
        self.result.write_text(json.dumps(content(report)))

    def told(self, word):
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        return [line.partition(" ")[2] for line in lines if line.startswith(word)]


def noted(file):
    """Write down every block that this process computes, and every one that it knows to be in the store."""
    parts, keep = measurement.Running._parts, stores.Journal.keep

    def note(word, label):
        file.write(f"{word} {label}\n")
        file.flush()

    def computed(self, measured, *arguments):
        with contextlib.closing(parts(self, measured, *arguments)) as found:
            for block, part in found:
                note("computed", measured.label(block))
                yield block, part

    def kept(self, blocks):
        keep(self, blocks)
        for block, _ in blocks:
            note("kept", self.labels[block])

    measurement.Running._parts, stores.Journal.keep = computed, kept


def suicidal(most):
    """Kill this process before its store's n-th statement."""
    connect, seen = sqlite3.connect, iter(range(1, most + 1))

    def count(_):
        if next(seen, most) == most:
            os.kill(os.getpid(), signal.SIGKILL)

    def connected(*arguments, **options):
        connection = connect(*arguments, **options)
        connection.set_trace_callback(count)
        return connection

    sqlite3.connect = connected


def labels(store):
    """Return the labels of the blocks that a store holds, read by sqlite alone."""
    if not store.exists():
        return []
    with contextlib.closing(sqlite3.connect(store, timeout=60)) as connection:
        if connection.execute("SELECT COUNT(*) FROM sqlite_master WHERE name = 'blocks'").fetchone()[0] == 0:
            return []
        return [label for (label,) in connection.execute("SELECT label FROM blocks ORDER BY number")]


def sound(store):
    """Return what SQLite says about its file."""
    with contextlib.closing(sqlite3.connect(store, timeout=60)) as connection:
        return connection.execute("PRAGMA integrity_check").fetchone()[0]


def filled(verb, writers, kills, moment, store):
    """Fill a store with processes that are killed until so many kills are made; return what happened."""
    sittings, running, done, made = [], [], [], 0

    def start():
        planned = sum(each.moment is not None for each in running)
        running.append(Sitting(verb, store, moment() if made + planned < kills else None))
        sittings.append(running[-1])

    for _ in range(writers):
        start()
    while running:
        for each in running:
            if time.monotonic() > each.due:
                os.kill(each.pid, signal.SIGKILL)
                each.due = float("inf")
        for each in list(running):
            pid, status = os.waitpid(each.pid, os.WNOHANG)
            if pid == 0:
                continue
            running.remove(each)
            if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
                made += 1
                start()
            elif status:
                raise SystemExit(f"a process ended with {os.waitstatus_to_exitcode(status)}")
            else:
                done.append(each)
        time.sleep(0.002)
    return {
        "kills": made,
        "results": [json.loads(each.result.read_text()) for each in done],
        "labels": labels(store),
        "runs": [(run.done, run.total) for run in dl.Store(store).runs()],
        "sound": sound(store),
        "sittings": [
            {
                "before": each.before,
                "computed": each.told("computed"),
                "kept": each.told("kept"),
                "ended": each in done,
            }
            for each in sittings
        ],
    }


def main(verb, writers, kills, seed, folder):
    measurement.SECONDS_BETWEEN_WRITES = 0.03  # calls last half a second here
    checkpoint.SECONDS_BETWEEN = 0.0
    folder, chance = Path(folder), random.Random(f"{verb}, {writers}, {seed}")
    alone = content(FUNCTIONS[verb](workers=1))  # in this process: numba compiles once
    statements = []
    connect = sqlite3.connect

    def watched(*arguments, **options):
        connection = connect(*arguments, **options)
        connection.set_trace_callback(statements.append)
        return connection

    sqlite3.connect, started = watched, time.monotonic()
    FUNCTIONS[verb](workers=1, store=folder / "whole.sqlite")
    seconds, sqlite3.connect = time.monotonic() - started, connect

    def moment():
        if chance.random() < 0.5:
            return "time", seconds * chance.random()
        return "statement", chance.randint(1, len(statements))

    assert threading.active_count() == 1  # of a process with threads a copy may hang
    rounds, made = [], 0
    while made < kills:
        rounds.append(filled(verb, writers, min(kills - made, 10), moment, folder / f"{len(rounds)}.sqlite"))
        made += rounds[-1]["kills"]
    found = {"alone": alone, "labels": labels(folder / "whole.sqlite"), "seconds": seconds}
    sys.stdout.write(json.dumps(found | {"statements": len(statements), "rounds": rounds}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
