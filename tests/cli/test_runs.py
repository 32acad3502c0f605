"""The options that all commands share: stores, workers, Dask; and `deeplimit runs`."""

import json
import re
import sys

import pytest
from clusters import two_workers
from typer.testing import CliRunner

import deeplimit as dl
from deeplimit.cli import app
from deeplimit.ground import measurement

SMALL = ["compare", "--width", "4", "--depths", "4,8,16", "--paths", "300", "--quiet"]
TIMED = ("compare", "validate", "stability", "phase", "check", "reproduce", "demo")


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.parametrize("command", TIMED)
def test_every_command_that_takes_time_has_the_same_options(command):
    shown = run(command, "--help").output
    for option in ("--workers", "--store", "--dask", "--device", "--seed"):
        assert option in shown


def test_a_store_is_listed_and_dropped(tmp_path):
    file = str(tmp_path / "runs.sqlite")
    first = run(*SMALL, "--store", file, "--workers", "1")
    again = run(*SMALL, "--store", file)
    assert re.sub(r"[\d.]+ s$", "", again.stdout, flags=re.M) == re.sub(
        r"[\d.]+ s$", "", first.stdout, flags=re.M
    )
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


def timeless(output):
    return re.sub(r"[\d.]+ s$", "", output, flags=re.M)


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
