"""The options that all commands share: stores, workers, Dask; and `deeplimit runs`."""

import csv
import json
import re
import sqlite3
import sys

import numpy as np
import pytest
from clusters import two_workers
from typer.testing import CliRunner

import deeplimit as dl
from deeplimit.cli import app
from deeplimit.common import measurement
from deeplimit.version import versions

SMALL = ["compare", "--width", "4", "--depths", "4,8,16", "--paths", "300", "--quiet"]


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def timeless(output):
    return re.sub(r"[\d.]+ s$", "", output, flags=re.M)


def test_a_store_is_listed_and_dropped(tmp_path):
    file = str(tmp_path / "runs.sqlite")
    first = run(*SMALL, "--store", file, "--workers", "1")
    again = run(*SMALL, "--store", file)
    assert timeless(again.stdout) == timeless(first.stdout)
    (stored,) = dl.Store(file).runs()
    listed = run("runs", file)
    assert listed.exit_code == 0
    assert stored.key[:12] in listed.stdout
    assert f"{stored.done}/{stored.total}" in listed.stdout
    assert dl.__version__ in listed.stdout
    (read,) = json.loads(run("runs", file, "--json").stdout)
    assert read["specification"]["seed"] == 0
    assert run("runs", file, "--drop", "no such").exit_code == 2
    assert stored.key[:12] in run("runs", file, "--drop", stored.key[:10]).stdout
    assert dl.Store(file).runs() == ()


@pytest.mark.parametrize("content", [None, b"not a store"])
def test_runs_of_no_store_is_bad_usage(tmp_path, content):
    file = tmp_path / "runs.sqlite"
    if content is not None:
        file.write_bytes(content)
    result = run("runs", str(file))
    assert result.exit_code == 2
    assert result.output.startswith("Error: store ")
    assert str(file) in result.output
    assert not file.exists() or file.read_bytes() == content


def test_a_store_that_cannot_be_used_is_bad_usage(tmp_path):
    result = run(*SMALL, "--store", str(tmp_path))
    assert result.exit_code == 2
    assert "store names a folder" in result.output


def test_dask_that_is_not_installed_or_does_not_answer_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    result = run(*SMALL, "--dask", "tcp://127.0.0.1:1")
    assert result.exit_code == 2
    assert "deeplimit[distributed]" in result.output


@pytest.mark.nightly
def test_commands_on_a_dask_cluster_print_the_same(tmp_path, monkeypatch):
    commands = {
        "compare": SMALL,
        "stability": ["stability", "--network", "res3", "--width", "4", "--depths", "4,8", "--quiet"],
    }
    with two_workers(tmp_path / "dask") as cluster:
        for name, arguments in commands.items():
            file = tmp_path / f"{name}.sqlite"
            here = run(*arguments)
            with monkeypatch.context() as patched:
                patched.setattr(measurement, "ThreadPoolExecutor", None)  # no threads of the command's
                there = run(*arguments, "--dask", cluster.scheduler_address, "--store", str(file))
            assert there.exit_code == here.exit_code, there.output
            assert timeless(there.stdout) == timeless(here.stdout)
            assert len(here.stdout.splitlines()) > 5
            (stored,) = dl.Store(file).runs()
            assert stored.done == stored.total


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense:one", "http://127.0.0.1:8786"])
def test_a_dask_scheduler_that_does_not_answer_is_said(address, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="Dask comes with the extra [distributed]")
    client = distributed.Client
    monkeypatch.setattr(distributed, "Client", lambda address, timeout: client(address, timeout=0.5))
    result = run(*SMALL, "--dask", address)
    assert result.exit_code == 2
    assert result.output.startswith(f"Error: --dask {address!r} has no Dask scheduler that answers")
    assert "Traceback" not in result.output


def test_a_checked_factory_is_kept_under_its_own_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_stack.py").write_text(
        "import torch\n"
        "def stack(depth):\n"
        "    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)\n"
        "    return torch.nn.TransformerEncoder(layer, depth)\n"
    )
    arguments = ["check", "my_stack:stack", "--depths", "2,3", "--batch", "normal:2x5x8", "--quiet"]
    assert run(*arguments, "--store", "runs.sqlite").exit_code == 0
    (stored,) = dl.Store("runs.sqlite").runs()
    assert stored.names == ("check my_stack:stack",)
    assert run(*arguments, "--store", "runs.sqlite", "--seed", "1").exit_code == 2


@pytest.fixture
def half_done(tmp_path):
    """A store with a measurement of two blocks, of which one is missing, and a complete one with a name."""
    store = dl.Store(tmp_path / "runs.sqlite")
    dl.compare(dl.res1(4, "tanh"), lambda t, h: 0.1 * h, depths=[4, 8], paths=50, store=store)
    named = dl.Store(store.path, name="mine")
    dl.stability(dl.res3(4), [5, 9, 40], draws=20, seed=5, store=named)
    with sqlite3.connect(store.path) as connection:
        connection.execute("DELETE FROM blocks WHERE label LIKE 'error of the reference%'")
    connection.close()
    return store


def test_one_measurement_is_shown_with_what_decides_its_numbers(half_done):
    first, second = half_done.runs()
    shown = run("runs", str(half_done.path), "--show", first.key[:6])
    assert shown.exit_code == 0
    for said in (first.key, "1 of 2", "error of the reference, 50 paths", f"torch {versions()['torch']}"):
        assert said in shown.stdout
    assert {"  seed: 0", "    depths: [4, 8]", "    recursion: Res1"} <= set(shown.stdout.splitlines())
    named = run("runs", str(half_done.path), "--show", "mine").stdout
    assert "mine" in named
    assert "missing" not in named
    (read,) = json.loads(run("runs", str(half_done.path), "--show", "mine", "--json").stdout)
    assert read["key"] == second.key


def test_blocks_are_exported_as_they_are(half_done, tmp_path):
    first, second = half_done.runs()
    file, table = tmp_path / "blocks.json", tmp_path / "blocks.csv"
    for target in (file, table):
        assert run("runs", str(half_done.path), "--show", "mine", "--export", str(target)).exit_code == 0
    content = json.loads(file.read_text(encoding="utf-8"))
    assert (content["key"], content["done"], content["missing"]) == (second.key, 3, [])
    assert content["specification"]["seed"] == 5
    report = dl.stability(dl.res3(4), [5, 9, 40], draws=20, seed=5)
    block = content["blocks"]["depth 40, 0, 20 draws"]["part"]
    assert block["dtype"] == "float64"
    assert report.log_hidden_ratio[2].tolist() in block["values"]
    rows = [
        row
        for row in csv.reader(table.read_text(encoding="utf-8").splitlines())
        if row[0] == "depth 40, 0, 20 draws"
    ]
    assert [float(row[3]) for row in rows] == np.ravel(block["values"]).tolist()
    assert [row[1:3] for row in rows] == [["part", str(place)] for place in range(len(rows))]
    assert run("runs", str(half_done.path), "--show", first.key, "--export", str(file)).exit_code == 0
    content = json.loads(file.read_text(encoding="utf-8"))
    assert content["missing"] == ["error of the reference, 50 paths"]
    assert [*content["blocks"]] == ["0, 50 paths"]


def test_the_list_is_exported_where_none_is_shown(half_done, tmp_path):
    first, second = half_done.runs()
    file, table = tmp_path / "list.json", tmp_path / "list.csv"
    for target in (file, table):
        assert run("runs", str(half_done.path), "--export", str(target)).exit_code == 0
    assert [each["key"] for each in json.loads(file.read_text(encoding="utf-8"))] == [first.key, second.key]
    heading, one, two = csv.reader(table.read_text(encoding="utf-8").splitlines())
    assert dict(zip(heading, one, strict=True)) | {"what": ""} == {
        "key": first.key, "what": "", "names": "", "done": "1", "total": "2", "version": dl.__version__,
        "date": first.date,
    }  # fmt: skip
    assert two[:3] == [second.key, second.what, "mine"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--show", "no such"], "'no such'"),
        (["--show", ""], "''"),
        (["--show", "mine", "--export", "blocks.txt"], "blocks.txt"),
        (["--export", "."], "--export"),
        (["--drop", "mine", "--show", "mine"], "--drop"),
        (["--drop", "mine", "--export", "blocks.csv"], "--drop"),
    ],
)
def test_what_cannot_be_shown_is_bad_usage(half_done, arguments, named, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    result = run("runs", str(half_done.path), *arguments)
    assert result.exit_code == 2
    assert result.output.startswith("Error: ")
    assert named in result.output
    assert len(half_done.runs()) == 2


def test_a_damaged_block_is_named_and_not_exported(half_done, tmp_path):
    with sqlite3.connect(half_done.path) as connection:
        connection.execute("UPDATE blocks SET content = x'00' WHERE label = 'depth 9, 0, 20 draws'")
    connection.close()
    result = run("runs", str(half_done.path), "--show", "mine", "--export", str(tmp_path / "b.csv"))
    assert result.exit_code == 2
    assert "depth 9, 0, 20 draws" in result.output
    assert not (tmp_path / "b.csv").exists()
