"""`deeplimit diagnose`: depths come from the files' metadata or are given, never from names."""

import json

import pytest
import torch
from refusals import assert_names
from safetensors.torch import save_file
from typer.testing import CliRunner

from calibration import depth_sweeps
from deeplimit.cli import app

_, SWEEP = depth_sweeps.seven(width=4)["Hypothesis 2, much noise"]


def run(*arguments):
    return CliRunner().invoke(app, ["diagnose", *map(str, arguments)])


@pytest.fixture
def files(tmp_path):
    """Files that say their depth, under names that say another one."""
    paths = {}
    for depth in (8, 16, 32, 64, 128, 512):
        paths[depth] = tmp_path / f"depth-{depth + 1}.safetensors"
        save_file({"A": torch.as_tensor(SWEEP[depth]["A"])}, paths[depth], {"depth": str(depth)})
    return paths


@pytest.mark.nightly
def test_depths_are_read_from_metadata_and_every_file_is_written(files, tmp_path):
    outputs = [tmp_path / f"report{suffix}" for suffix in (".png", ".json", ".html")]
    options = [text for pair in zip(("--plot", "--json", "--html"), outputs, strict=True) for text in pair]
    result = run(*files.values(), *options)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("sde: ")
    assert json.loads(outputs[1].read_text())["report"]["depths"] == [8, 16, 32, 64, 128, 512]
    assert outputs[0].stat().st_size > 5000
    assert "<svg" in outputs[2].read_text()


def test_a_depth_that_is_given_goes_before_the_metadata(files):
    result = run(f"9={files[8]}")
    assert result.exit_code == 2
    assert_names(result.stderr, "weights[9]", "9 layers")


def test_files_of_one_depth_are_networks_of_several_seeds(files, tmp_path):
    other = tmp_path / "other.safetensors"
    save_file({"A": torch.as_tensor(SWEEP[8]["A"]).flip(0).contiguous()}, other, {"depth": "8"})
    result = run(files[8], other, files[32], files[128], "--confidence", "0.9")
    assert "4 networks, depths 8, 32, 128" in result.stdout
    assert "90 % intervals" in result.stdout


def test_what_cannot_be_told_has_an_exit_code_of_its_own(files):
    assert run(files[8], files[32]).exit_code == 3


def test_a_depth_is_never_guessed_from_a_name(tmp_path):
    path = tmp_path / "depth-8.safetensors"
    save_file({"A": torch.as_tensor(SWEEP[8]["A"])}, path)
    result = run(path, path)
    assert result.exit_code == 2
    assert_names(" ".join(result.stderr.split()), "FILES", "depth-8.safetensors", "give 32=")


def test_one_file_without_a_number_is_one_network(files, tmp_path):
    noise = torch.randn(12, 8, 8, generator=torch.Generator().manual_seed(0))
    save_file({"A": noise}, tmp_path / "noise.safetensors")
    result = run(tmp_path / "noise.safetensors", "--json", tmp_path / "r.json", "--html", tmp_path / "r.html")
    assert result.exit_code == 0, result.output
    assert "noise.safetensors'" in result.stdout
    assert "independent (1)" in result.stdout
    assert json.loads((tmp_path / "r.json").read_text())["kind"] == "network-diagnosis"
    assert run(f"64={files[64]}").exit_code == 3
    grouped = run(files[8], "--groups", "0,0,0,0,1,1,1,1")
    assert "1 object" in grouped.stdout
    assert grouped.stdout != run(files[8]).stdout


@pytest.mark.parametrize(
    ("arguments", "pins"),
    [
        (["gone.safetensors"], ("weights", "'gone.safetensors'")),
        (["gone.safetensors", "gone.safetensors"], ("FILES", "'gone.safetensors'")),
        (["8=gone.safetensors"], ("weights[8]", "gone.safetensors")),
        (["8=a.safetensors", "--spatial", "8"], ("--spatial", "'8'")),
        (["a.safetensors", "--groups", "0,x"], ("--groups", "'0,x'")),
        (["8=a.safetensors", "--html", "r.txt"], (".html", "r.txt'")),
    ],
)
def test_bad_usage_is_told_in_a_line(arguments, pins):
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert_names(" ".join(result.stderr.split()), *pins)
