"""`deeplimit train`: what is trained, what is written, and how it ends."""

import pytest
from refusals import assert_names
from safetensors import safe_open
from typer.testing import CliRunner

from deeplimit.cli import app

MINE = """
import deeplimit as dl
network = dl.res1(3)
step = dl.SGD(1e30)
def data():
    return dl.datasets.synthetic_system(3, count=64, test=8)
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A call in a folder that has a module of the user's."""
    (tmp_path / "mine_to_train.py").write_text(MINE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    settings = ("--width", "3", "--depths", "6,8", "--epochs", "1", "--batch", "0", "--quiet")
    return lambda *options: CliRunner().invoke(app, ["train", *settings, *options])


def test_what_the_options_say_is_trained_and_diagnose_reads_the_weights(run, tmp_path):
    result = run("--exponent", "0", "--initial", "small", "--tied", "delta", "--save", "weights")
    assert result.exit_code == 0, result.output
    files = sorted(map(str, (tmp_path / "weights").iterdir()))
    with safe_open(files[0], framework="pt") as opened:
        assert opened.metadata()["depth"] == "6"
        assert opened.get_tensor("A").shape == (6, 3, 3)
        assert opened.get_tensor("delta").shape == ()
    found = CliRunner().invoke(app, ["diagnose", *files])
    assert "2 networks, depths 6, 8" in found.output


def test_objects_of_the_users_are_trained_and_divergence_ends_with_one(run):
    names = {"network": "network", "data": "data", "optimizer": "step"}
    result = run(*(f"--{option}=mine_to_train:{name}" for option, name in names.items()))
    assert result.exit_code == 1, result.output
    assert "res1: " in result.stdout
    assert "64 inputs" in result.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--network", "res9"], ("--network", "res9")),
        (["--optimizer", "mine_to_train:step", "--learning-rate", "1"], ("--learning-rate",)),
        (["--data", "moons"], ("--data", "moons")),
        (["--initial", "zero"], ("--initial", "zero")),
        (["--save", "mine_to_train.py"], ("mine_to_train.py",)),
    ],
)
def test_what_cannot_be_trained_is_refused_by_the_options_name(run, options, words):
    result = run(*options)
    assert result.exit_code == 2
    assert_names(result.stderr, *words)
