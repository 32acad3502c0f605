"""Whatever is typed behind an option ends in a result, or in one line that names the option or the text.

All pairs run with `make trust`; a few, at random, are part of `make test`.
"""

import itertools
import math
import random
import re
import shlex
import signal

import pytest
import torch
import typer
from safetensors.torch import save_file
from typer.testing import CliRunner

import deeplimit as dl
from deeplimit.cli import app
from deeplimit.papers.figures import demo
from deeplimit.papers.scoreboard import runs

ORDINARY = 10
SECONDS = 120
BAD_USAGE = 2
TYPED = (
    "", " ", "nan", "inf", "-inf", "-1", "0", "0.5", "1e400", "-1e-400", "9" * 400, "word", "3,", ",", "2:",
    "1:0", "0:1:1000000000", "1:2:nan", "1e9:2e9", "Ünï☃", "\x1b[31mred", "$x_{", "[bold]x", "None", "true",
    "0x10", "1_0", "a,b", "--", ".", "/", "/dev/null", "no/such/folder/x.json", "x" * 300,
)  # fmt: skip
SLOW = {"--dask": ("", "word", "nan", "9" * 400)}
"""Options for which every text takes ten seconds of waiting for a machine that does not answer."""
OTHER_WORDS = {"files": "weights", "figures": "figure"}
COMMANDS = {
    "compare": "--width 2 --depths 2,4 --paths 64 --quiet",
    "compare-laws": "--width 2 --depths 2,4,8 --draws 200 --quiet",
    "validate": "--quick --only 'α = 1, β = 0'",
    "simulate": "--width 2 --depths 2,4 --paths 3 --quiet",
    "check-solver": "milstein --steps 2,4,8 --paths 16",
    "stability": "--width 2 --depths 2,4 --draws 8 --quiet",
    "phase": "--width 2 --depth 20 --hurst 0.5 --exponents 0,1 --draws 3 --inputs 1 --quiet",
    "check": "my_stack:stack --depths 2,3 --batch normal:2x5x8 --quiet",
    "check-training": "my_stack:stack --optimizer my_stack:adam --depths 2,3 --steps 1 --seeds 2"
    " --batch normal:2x5x8 --quiet",
    "train": "--width 2 --depths 2,3 --epochs 1 --batch 128 --quiet",
    "diagnose": "8=a.safetensors 16=b.safetensors",
    "reproduce": "marion-fig6 --quick --quiet --out figures",
    "demo": "--paths 20 --quiet --out demo",
    "runs": "runs.sqlite",
}
STACK = """
import torch
def stack(depth):
    return torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), depth)
def adam(model, depth):
    return torch.optim.Adam(model.parameters(), lr=1e-3)
"""


def parameters():
    """Every option with a value, and every argument, of every command."""
    for name, command in typer.main.get_command(app).commands.items():
        for each in command.params:
            if not getattr(each, "is_flag", False) and each.name != "help":
                yield name, each.opts[0]


PAIRS = [(name, option, typed) for name, option in parameters() for typed in SLOW.get(option, TYPED)]
CHOSEN = random.Random(0).sample(PAIRS, ORDINARY)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with what the commands read, and the long ones made short."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_stack.py").write_text(STACK)
    for depth, name in ((8, "a"), (16, "b")):
        stack = torch.linspace(-1.0, 1.0, depth * 4).reshape(depth, 2, 2)
        save_file({"A": stack / math.sqrt(depth)}, tmp_path / f"{name}.safetensors")
    dl.compare(dl.res1(2), depths=[2, 4], paths=8, store=tmp_path / "runs.sqlite").save(tmp_path / "r.json")
    monkeypatch.setattr(runs, "QUICK_DEPTHS", (4, 8, 16))
    # Some texts are in the names of all rows, which take minutes.
    compared = [case for case in runs.validated() if "α = 1, β = 0" in case.name][:1]
    monkeypatch.setattr(runs, "validated", lambda: compared)
    monkeypatch.setattr(runs, "solver_cases", tuple)
    monkeypatch.setattr(demo, "DEPTHS", (2, 4))
    small = demo.demo_networks(8)
    monkeypatch.setattr(demo, "demo_networks", lambda: small)


def ends_badly(pairs):
    found = (f"{name} {option} {typed[:40]!r}: {wrong}" for name, option, typed in pairs
             if (wrong := ending(name, option, typed)) is not None)  # fmt: skip
    return "\n".join(found)


def ending(name, option, typed):
    """Return what is wrong with how a call ends; None where it is right or refused in a line."""
    given = shlex.split(COMMANDS[name])
    if option.startswith("--"):
        arguments = [name, *given, f"{option}={typed}"]
    else:
        options = [text for text in given if text.startswith("--") or text in option_values(given)]
        arguments = [name, *options, typed]
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(SECONDS)
    try:
        result = CliRunner().invoke(app, arguments)
    finally:
        signal.alarm(0)
    said = " ".join(re.sub(r"[│╭╮╰╯─]", " ", result.stderr).split())
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return f"raised {result.exception!r}"
    if "Traceback" in result.output or "(--traceback shows" in said:
        return f"unexpected: {said[-300:]}"
    if "\x1b[31m" in result.output:
        return "sends what was typed to the terminal as it is"
    if result.exit_code == BAD_USAGE:
        word = option.strip("-")
        names = (word, word.replace("-", "_"), OTHER_WORDS.get(word, word))
        shown = (typed[:20] or "''", repr(typed)[1:-1])
        is_named = any(each.casefold() in said.casefold() for each in (*names, *shown))
        return None if is_named else f"does not name it: {said[:300]}"
    if result.exit_code not in (0, 1, 3):
        return f"exit code {result.exit_code}: {said[:300]}"
    unlike = result.stdout.replace(typed, "") if typed else result.stdout
    return f"nan in {result.stdout[:300]}" if re.search(r"\bnan\b", unlike) else None


def option_values(given):
    """Return the texts that follow an option."""
    return {after for before, after in itertools.pairwise(given) if before.startswith("--")}


def too_long(*_):
    raise TimeoutError(f"more than {SECONDS} s")


def test_every_command_is_in_the_table():
    assert set(COMMANDS) == set(typer.main.get_command(app).commands)


@pytest.mark.usefixtures("place", "one_thread")
@pytest.mark.filterwarnings("ignore")
def test_what_is_typed_ends_in_a_result_or_in_a_line_that_names_it():
    assert ends_badly(CHOSEN) == ""


@pytest.mark.nightly
@pytest.mark.usefixtures("place", "one_thread")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", COMMANDS)
def test_everything_typed_ends_in_a_result_or_in_a_line_that_names_it(name):
    assert ends_badly([pair for pair in PAIRS if pair[0] == name]) == ""
