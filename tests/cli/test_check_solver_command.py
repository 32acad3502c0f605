"""`deeplimit check-solver`: the exit code is the verdict, and a wrong solver ends with 1."""

import pytest
from typer.testing import CliRunner

from deeplimit.cli import app

SHORT = "--steps 8,16,32,64 --paths 256"
OWN = """
import itertools
def euler(equation, x, brownian, times):
    for s, t in itertools.pairwise(times.tolist()):
        x = x + equation.f(s, x) * (t - s) + equation.g_prod(s, x, brownian(s, t))
    return x
"""


def run(arguments):
    return CliRunner().invoke(app, ["check-solver", *arguments.split()])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (f"milstein {SHORT}", 0),
        ("euler-maruyama --order 1", 1),
        ("torchsde:milstein --problem circle --steps 8,16,32,64,128", 1),
        ("torchdiffeq:rk4 --problem oscillator", 0),
        ("rk4 --problem oscillator --order 5", 1),
        (f"own_solver:euler {SHORT}", 0),
        ("own_solver:euler --order 1", 1),
        ("milstein --steps 8,16,32 --paths 8", 3),
    ],
)
def test_the_exit_code_is_the_verdict(arguments, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_solver.py").write_text(OWN)
    result = run(arguments)
    assert result.exit_code == code, result.output


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("srk", "SCHEME"),
        ("torchsde:srk --problem oscillator", "torchsde:srk"),
        ("torchdiffeq:rk4", "torchdiffeq:rk4"),
        ("torchsde:word", "'word'"),
        ("heun --problem nothing", "--problem"),
        ("heun --problem json:dumps", "--problem"),
        ("heun --paths many", "--paths"),
    ],
)
def test_bad_usage_is_named_in_a_line(arguments, named):
    result = run(arguments)
    assert result.exit_code == 2
    assert named in result.stderr
    assert "Traceback" not in result.output


def test_the_picture_and_the_numbers_are_written(tmp_path):
    files = [tmp_path / name for name in ("o.png", "o.json", "o.html")]
    wanted = " ".join(f"--{kind} {file}" for kind, file in zip(("plot", "json", "html"), files, strict=True))
    assert run(f"milstein {SHORT} {wanted}").exit_code == 0
    assert all(file.stat().st_size for file in files)
