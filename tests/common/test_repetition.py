"""A saved report can be made again by the call that its file keeps, and says which numbers differ."""

import functools
import importlib.metadata
import inspect
import json
from functools import partial

import numpy as np
import pytest
import torch
from refusals import assert_refused
from stacks import Transformer, tokens
from typer.testing import CliRunner

import deeplimit as dl
from deeplimit.cli import app
from deeplimit.common.measurement import _run as run_block
from deeplimit.common.provenance import device_name
from deeplimit.common.randomness import seeded
from deeplimit.common.report import KINDS
from deeplimit.common.specification import environment
from deeplimit.statistics.interim import Replay, Size
from deeplimit.statistics.repetition import VERBS, Difference, _same, compared

SYSTEM = dl.datasets.synthetic_system(width=4, count=40, test=9)
X = torch.linspace(-1.0, 1.0, 12).reshape(3, 4)
SMALL = {"depths": [4, 8, 16], "paths": 64}
NOISE = torch.randn(12, 4, 4, generator=torch.Generator().manual_seed(0))


def stack(depth):
    with seeded(0):
        return Transformer(depth)


def sgd(model, depth):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def largest(stacks):
    return stacks["A"].abs().max()


CALLS = {
    "compare": lambda: dl.compare(dl.res1(4, "tanh"), depths=range(4, 13, 4), paths=np.int64(64), seed=3),
    "compare, ODE": lambda: dl.compare(dl.res1(4, "tanh", weights=dl.SmoothGaussian(0.3)), x=X, **SMALL),
    "compare, limit": lambda: dl.compare(dl.res1(4, "tanh"), dl.Identity(), **SMALL, dtype=torch.float64),
    "compare, auto": lambda: dl.compare(dl.res1(4, "tanh"), depths="auto", paths="auto", budget=2),
    "compare_laws": lambda: dl.compare_laws(dl.res3(4), depths=[2, 4, 8], draws=200),
    "compare_laws, auto": lambda: dl.compare_laws(dl.res3(4), depths="auto", draws="auto", budget=2),
    "stability": lambda: dl.stability(dl.res3(4), [5, 9, 40], draws=20),
    "stability, auto": lambda: dl.stability(dl.res3(4), depths="auto", draws="auto", budget=2),
    "phase_diagram": lambda: dl.phase_diagram(
        partial(dl.res1, activation="tanh"), 4, 40, hurst=np.array([0.3, 0.7]), exponents=(0.0, 1.0), draws=3
    ),
    "train": lambda: dl.train(dl.inner(4, "tanh"), [2, 4], SYSTEM, repeats=2, epochs=2, seed=1),
    "diagnose": lambda: dl.diagnose({"A": NOISE}),
    "validate": lambda: dl.validate(quick=True, only="α = 1, β = 0"),
    "reproduce": lambda: dl.reproduce("marion-fig6", quick=True),
}
USERS = {
    "check_depth": (lambda **own: dl.check_depth(depths=[2, 3], batch=tokens(), **own), {"factory": stack}),
    "check_training": (
        lambda **own: dl.check_training(depths=[2, 3], batch=tokens(), steps=(1,), seeds=2, **own),
        {"factory": stack, "optimizer": sgd},
    ),
    "probe": (lambda **own: dl.probe(batch=tokens(), **own), {"model": stack(3)}),
    "depth_controls": (lambda **own: dl.depth_controls({"A": NOISE}, **own), {"evaluate": largest}),
    "compare": (
        lambda **own: dl.compare(dl.res1(4, "tanh"), x=X, **SMALL, **own),
        {"limit": lambda t, h: 0.1 * h},
    ),
}  # fmt: skip


@functools.cache
def made(name):
    return CALLS[name]()


@pytest.fixture
def saved(tmp_path):
    """A small comparison in a file, and a function that changes what the file says."""
    file = tmp_path / "r.json"
    made("compare").save(file)

    def changed(change):
        document = json.loads(file.read_text(encoding="utf-8"))
        change(document)
        file.write_text(json.dumps(document), encoding="utf-8")
        return file

    return changed


def test_every_public_function_that_returns_a_report_can_be_made_again():
    functions = {name: getattr(dl, name) for name in dl.__all__ if inspect.isfunction(getattr(dl, name))}
    reports = {kind.__name__ for kind in KINDS.values() if kind.__module__.startswith("deeplimit.")}
    verbs = {
        name
        for name, function in functions.items()
        if set(str(function.__annotations__.get("return")).split(" | ")) & reports
    }
    assert set(VERBS) == verbs
    assert {name.partition(",")[0] for name in CALLS} | set(USERS) == verbs


SLOW = ("stability, auto",)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.nightly] * (n in SLOW)) for n in CALLS])
def test_a_file_is_enough_to_make_a_report_again_bit_for_bit(name, tmp_path):
    made(name).save(tmp_path / "r.json")
    assert dl.load_report(tmp_path / "r.json").provenance == made(name).provenance
    again = dl.rerun(tmp_path / "r.json")
    assert again.agrees, str(again)
    assert again.compared > 20
    assert again.reworded == again.surroundings == ()
    assert again.report.provenance.arguments.keys() == made(name).provenance.arguments.keys()


@pytest.mark.parametrize("name", USERS)
def test_what_only_the_user_has_is_named_and_can_be_given(name, tmp_path):
    call, own = USERS[name]
    report = call(**own)
    report.save(tmp_path / "r.json")
    assert set(report.provenance.left_out) == set(own)
    for argument in own:
        assert_refused(lambda: dl.rerun(tmp_path / "r.json"), ValueError, argument, "given")
    again = dl.rerun(tmp_path / "r.json", given=own)
    assert again.agrees, str(again)
    assert again.compared > 5


def test_an_adaptive_call_takes_the_same_looks_again_whatever_they_cost(tmp_path):
    sizes = tuple(Size((4, 8, 16), paths) for paths in (64, 128, 256))
    first = dl.compare(dl.res1(4, "tanh"), depths=[4, 8, 16], paths="auto", budget=Replay(sizes))
    assert [look.paths for look in first.looks] == [64, 128, 256]
    assert first.confidence == 1 - 0.05 / 8  # the third look spends an eighth of the level
    first.save(tmp_path / "r.json")
    again = dl.rerun(tmp_path / "r.json")
    assert again.report.looks == first.looks
    assert again.agrees, str(again)
    # A call of the last size alone has the numbers, but not the interval of the third look.
    alone = compared(first, dl.compare(dl.res1(4, "tanh"), depths=[4, 8, 16], paths=256))
    names = {each.name for each in alone.differences}
    assert {"confidence", "rate_interval[0]", "looks[0].paths"} <= names
    assert not names & {"rate", "errors[0]"}


def test_versions_are_of_all_that_computes_and_a_store_asks_for_the_same(tmp_path):
    known = {"deeplimit", "numpy", "python", "torch"}
    numba = {"numba"} & {each.metadata["Name"] for each in importlib.metadata.distributions()}
    assert made("compare").provenance.versions.keys() == known | numba
    dl.compare(dl.res1(4, "tanh"), **SMALL, store=tmp_path / "s.sqlite")
    (run,) = dl.Store(tmp_path / "s.sqlite").runs()
    assert run.environment.keys() == known | numba | {"streams"}
    # A machine without numba would take another pass, whose last bits differ.
    assert_refused(
        lambda: run_block(None, 0, 0, {**environment(), "numba": "0.0.1"}), ValueError, "executor", "numba"
    )


def test_a_number_that_differs_is_named_with_both_values_and_its_size(saved):
    def change(document):
        document["report"]["errors"][1] *= 1.5
        document["report"]["verdict"] = "converges"

    again = dl.rerun(saved(change))
    assert {each.name for each in again.differences} == {"errors[1]", "verdict"}
    (number,) = [each for each in again.differences if each.name == "errors[1]"]
    assert number.now == made("compare").errors[1]
    assert number.was == 1.5 * number.now
    assert number.size == pytest.approx(1 / 3)
    assert not again.agrees


def test_a_list_of_another_length_differs(saved):
    def change(document):
        document["provenance"]["arguments"]["depths"] = [4, 8]

    named = {each.name: each for each in dl.rerun(saved(change)).differences}
    assert named["errors[2]"].now == "nothing"


def test_texts_that_read_otherwise_do_not_count(saved):
    def change(document):
        document["report"]["reason"] = "another sentence"

    again = dl.rerun(saved(change))
    assert again.agrees
    assert [each.name for each in again.reworded] == ["reason"]


def test_versions_and_the_device_are_named_where_they_differ(saved):
    def change(document):
        document["provenance"]["versions"]["torch"] = "1.0"
        del document["provenance"]["versions"]["numpy"]
        document["provenance"]["device"] = "another processor"

    again = dl.rerun(saved(change))
    assert f"torch was 1.0, is {importlib.metadata.version('torch')}" in again.surroundings
    assert f"numpy was not there, is {np.__version__}" in again.surroundings
    assert "another processor" in again.surroundings[-1]
    assert again.agrees


@pytest.mark.parametrize(
    ("was", "now", "size"),
    [(1.0, 1.0 + 2**-52, 2**-52), (0.0, -0.0, 0.0), (1.0, float("nan"), np.inf), (1, 2, 0.5)],
)
def test_any_bit_counts(was, now, size):
    assert not _same(was, now)
    assert _same(was, was)
    assert _same(now, now)
    difference = Difference("x", was, now)
    assert difference.size == pytest.approx(size)
    assert str(difference).startswith(f"x: was {was!r}, is {now!r}")


def says(**changes):
    return lambda document: document["provenance"].update(changes)


def argument(**changes):
    return lambda document: document["provenance"]["arguments"].update(changes)


HUGE = {"is": "tensor", "dtype": "float32", "numbers": [10**400], "shape": [1]}
STORE = {"is": "partial", "of": "deeplimit.common.store:Store", "arguments": [], "keywords": {}}
REFUSED = {
    "no call": (lambda document: document.pop("provenance"), "report", "which call"),
    "another function": (says(verb="res1", arguments={"width": 4}), "report", "res1"),
    "a class": (says(verb="Store"), "report", "Store"),
    "unknown argument": (argument(folder="/"), "report", "folder"),
    "a store": (argument(store="s.sqlite"), "report", "store"),
    "foreign code": (argument(resnet={"is": "name", "of": "os:system"}), "report", "os:system"),
    "a class to call": (argument(resnet=STORE), "report", "Store"),
    "damaged": (argument(resnet={"is": "object"}), "report", "damaged"),
    "too large": (argument(x=HUGE), "report", "damaged"),
    "an initialiser": (says(verb="init.iid_"), "report", "init.iid_"),
    "damaged provenance": (says(versions=["torch"]), "provenance.versions", "torch"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_made_again_is_refused_in_words(case, saved):
    change, argument, value = REFUSED[case]
    file = saved(change)
    assert_refused(lambda: dl.rerun(file), ValueError, argument, value)
    result = CliRunner().invoke(app, ["rerun", str(file)])
    assert result.exit_code == 2
    assert result.output.startswith("Error: ")
    assert len(result.output.splitlines()) == 1


def test_a_page_shows_what_a_file_says_of_its_call_and_runs_nothing(saved, tmp_path):
    def change(document):
        hostile = {"<b>": {"is": "object"}, "x": [[]] * 3, "y": {"is": "name", "of": "<i>:<i>"}, "z": HUGE}
        document["provenance"].update(verb="<script>", arguments=hostile, left_out={"w": "<u>"}, device="<s>")

    dl.load_report(saved(change)).save_html(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert not any(tag in page for tag in ("<script>", "<b><b>", "<i>", "<u>", "<s>"))
    assert "&lt;script&gt;" in page
    assert "damaged" in page
    assert "tensor of shape [1], float32" in page


def test_an_initialisation_says_by_which_call_the_weights_were_filled():
    done = dl.init.iid_([torch.empty(4, 4), torch.empty(4, 4)], law="uniform", seed=7)
    assert (done.provenance.verb, done.provenance.seed) == ("init.sample_", 7)
    assert "weights" not in {**done.provenance.arguments, **done.provenance.left_out}
    drawn = dl.init.iid_([torch.empty(4, 4), torch.empty(4, 4)], seed=torch.Generator())
    assert drawn.provenance.seed is None
    assert drawn.provenance.left_out.keys() == {"seed"}
    whole = dl.init.residual_(stack(3), batch=tokens(), seed=5)
    assert (whole.provenance.verb, whole.provenance.seed) == ("init.residual_", 5)
    assert "model" in whole.provenance.left_out


def test_an_argument_that_cannot_be_written_costs_no_result():
    swapped = np.array([0.3, 0.7]).astype(">f8")  # which torch does not read
    report = dl.phase_diagram(dl.res3, 4, 40, hurst=[*swapped], exponents=swapped, draws=3)
    assert report.provenance.left_out.keys() == {"exponents"}
    assert dl.rerun(report, given={"exponents": [0.3, 0.7]}).agrees


def test_modules_may_have_been_on_a_gpu_where_there_is_one(monkeypatch):
    processor = device_name("cpu")
    assert device_name(None) == processor
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert device_name(None) == f"{processor}, or the GPU of the caller's modules"
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda place: f"card {place.index}")
    assert device_name("cuda:1") == "card 1"


def test_wrong_arguments_are_refused(saved):
    file = saved(lambda document: None)
    assert_refused(lambda: dl.rerun(3), TypeError, "report", "3")
    assert_refused(lambda: dl.rerun(file, given=3), TypeError, "given", "3")
    assert_refused(lambda: dl.rerun(file, given={"seed": 4}), ValueError, "given", "seed")
    assert_refused(lambda: dl.rerun(file, workers=0), ValueError, "workers", "0")
    assert_refused(lambda: dl.rerun(made("diagnose"), workers=2), ValueError, "workers", "2")


def test_the_command_says_by_its_exit_code_whether_numbers_agree(saved, tmp_path):
    file = saved(lambda document: None)
    new = tmp_path / "new.json"
    result = CliRunner().invoke(app, ["rerun", str(file), "--quiet", "--workers", "1", "--json", str(new)])
    assert (result.exit_code, result.output[:7]) == (0, "Agrees:")
    assert dl.load_report(new).errors.tolist() == made("compare").errors.tolist()

    def change(document):
        document["report"]["rate"] = 0.25

    result = CliRunner().invoke(app, ["rerun", str(saved(change)), "--quiet"])
    assert result.exit_code == 1
    assert "- rate: was 0.25, is" in result.output


def test_the_command_takes_a_users_code_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_limit.py").write_text("def field(t, h):\n    return 0.1 * h\n")
    command = ["compare", "--width", "4", "--depths", "4,8,16", "--paths", "64", "--quiet"]
    CliRunner().invoke(app, [*command, "--limit", "my_limit:field", "--json", "r.json"])
    assert CliRunner().invoke(app, ["rerun", "r.json", "--quiet"]).exit_code == 2
    given = ["rerun", "r.json", "--quiet", "--given"]
    assert CliRunner().invoke(app, [*given, "limit=my_limit:field"]).exit_code == 0
    assert CliRunner().invoke(app, [*given, "limit"]).exit_code == 2
