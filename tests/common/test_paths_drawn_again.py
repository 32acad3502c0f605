"""`report.path` of every report: its numbers are those that entered the report, to the last bit."""

import dataclasses
import json
import math
from functools import partial

import matplotlib.figure
import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from refusals import assert_refused

import deeplimit as dl
from deeplimit.common import files, serialised
from deeplimit.common.global_state import seeded
from deeplimit.common.specification import describe
from deeplimit.judge.in_law import comparison
from deeplimit.judge.in_law.simulation import Sample
from deeplimit.papers.cases import cases
from deeplimit.simulation import Moments
from deeplimit.simulation.kernels import numba_pass

GRID = {"hurst": [0.3, 0.7], "exponents": [0.0, 0.5, 1.0]}
X = torch.linspace(-1.0, 1.0, 12).reshape(3, 4)


def sampler(shape, generator):
    return torch.rand(shape, generator=generator) * 12**0.5 - 3**0.5


class Block(torch.nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.linear, self.depth = torch.nn.Linear(4, 4), depth

    def forward(self, h):
        return h + torch.tanh(self.linear(h)) / self.depth**0.5


def blocks(depth):
    return [Block(depth) for _ in range(depth)]


COMPARISONS = {
    "pathwise": partial(dl.compare, dl.res1(4, "tanh"), depths=[4, 6, 12], paths=40),
    "in blocks": partial(dl.compare, dl.res1(40, "tanh"), depths=[4, 8], paths=150, coupling="pathwise"),
    "products": partial(dl.compare, dl.res1(9, "tanh"), depths=[4, 8], paths=300, coupling="projected"),
    "compiled": partial(dl.compare, dl.res1(40, "tanh"), depths=[4, 8], paths=150),
    "ODE": partial(dl.compare, dl.res1(3, "tanh", weights=dl.SmoothGaussian()), depths=[4, 8], paths=6),
    "Young": partial(
        dl.compare, dl.res1(2, "tanh", weights=dl.FractionalBrownian(0.7)), depths=[4, 8], paths=20
    ),
    "Itô": partial(dl.compare, dl.inner(4, "tanh", noise=dl.Ito(A=0.1, b=0.2)), x=X, depths=[4, 8], paths=20),
}
LAWS = {
    "Gaussian": partial(dl.compare_laws, dl.res3(4), depths=[2, 4, 8], draws=200),
    "in blocks": partial(dl.compare_laws, dl.res1(40, "tanh", weights=dl.IID("uniform")),
                         depths=[2, 3, 4], draws=250),
    "simulated": partial(dl.compare_laws, dl.res1(3, "tanh"), x=X[:, :3], depths=[2, 4, 8], draws=220),
}  # fmt: skip
STABILITIES = {
    "in law": partial(dl.stability, dl.res3(8), [5, 9, 40], draws=40),
    "whole": partial(
        dl.stability, dl.res1(4, "tanh", weights=dl.FractionalBrownian(0.7)), [5, 40], X, draws=30
    ),
    "general": partial(
        dl.stability, dl.modified_res1(4, "tanh", weights=dl.FractionalBrownian(0.7)), [3, 17], draws=10
    ),
    "modules": partial(dl.stability, blocks, [2, 9], X, draws=5),
}
PHASES = {"map": partial(dl.phase_diagram, dl.res3, 8, 40, **GRID, draws=3, inputs=2)}
FUNCTIONS = {f"{verb}, {name}": run for verb, runs in
         (("compare", COMPARISONS), ("laws", LAWS), ("stability", STABILITIES), ("phase", PHASES))
         for name, run in runs.items()}  # fmt: skip


def content_of(path):
    """All numbers of a redrawn path, as bytes that can be compared."""
    return {
        name: {key: item.tobytes() for key, item in value.items()} if isinstance(value, dict)
        else value.tobytes() if isinstance(value, np.ndarray) else value
        for name, value in vars(path).items()
    }  # fmt: skip


def slow_where_long(names, long):
    return [pytest.param(name, marks=pytest.mark.nightly if name in long else ()) for name in names]


@pytest.mark.parametrize("name", slow_where_long(COMPARISONS, ("in blocks", "products", "compiled")))
def test_errors_of_all_paths_give_the_reports_errors_to_the_last_bit(name, monkeypatch):
    if name == "compiled":  # as larger runs are
        monkeypatch.setattr(numba_pass, "WORTHWHILE", 0)
    report = COMPARISONS[name]()
    task = report._origin.measurement.task
    drawn = [report.path(i) for i in range(report.paths)]
    errors = np.stack([np.concatenate([path.errors, path.common_errors]) for path in drawn])
    size = task.block_size
    parts = [Moments.of(errors[first : first + size], task.p) for first in range(0, len(errors), size)]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.merge(part)
    m = len(report.depths)
    content = report.to_dict()
    assert np.exp(whole.log_errors())[:m].tolist() == content["raw_errors"]
    assert errors.max(axis=0)[:m].tolist() == content["worst"]


@pytest.mark.parametrize("name", slow_where_long(LAWS, ("in blocks", "simulated")))
def test_all_draws_of_a_comparison_of_laws_give_the_same_report(name):
    report = LAWS[name]()
    plan = report._origin.measurement
    drawn = [report.path(i) for i in range(report.draws)]
    h0 = [draw.states[plan.depths[0]][0].astype(float) for draw in drawn]
    sizes = [np.linalg.norm(start) for start in h0]

    def sample(features, states):
        scaled = [state.astype(float) / size for state, size in zip(states, sizes, strict=True)]
        return Sample(np.stack(features), np.stack(scaled[: plan.joint]), 0)

    networks = [
        sample([draw.features[j] for draw in drawn], [draw.states[depth][-1] for draw in drawn])
        for j, depth in enumerate(plan.depths)
    ]
    own = sample([draw.limit_features for draw in drawn], [draw.limit_state for draw in drawn])
    again = comparison._assess(plan, networks, own, report.level, report.tolerance, len(plan.h0), 0.0)
    said, now = report.to_dict(), again.to_dict()
    for key in ("differences", "floors", "mean_squares", "distributions", "limit_distribution", "verdict"):
        assert now[key] == said[key], key
    assert [row[:] for row in now["distances"][:-1]] == said["distances"][:-1]
    np.testing.assert_allclose(now["distances"][-1], said["distances"][-1], rtol=1e-5)


@pytest.mark.parametrize("name", STABILITIES)
def test_last_entries_of_all_draws_are_the_reports_ratios(name):
    report = STABILITIES[name]()
    drawn = [report.path(i) for i in range(report.draws)]
    content = report.to_dict()
    for key in ("log_hidden_ratio", "log_hidden_change", "log_gradient_ratio", "log_gradient_change"):
        ends = [[float(getattr(draw, key)[depth][-1]) for draw in drawn] for depth in report.depths.tolist()]
        assert ends == content[key], key
        for depth in report.depths.tolist():
            assert getattr(drawn[0], key)[depth].shape == (depth + 1,)
    assert all(draw.log_hidden_ratio[depth][0] == 0.0 for draw in drawn for depth in draw.depths)


def test_last_entries_of_every_cell_average_to_the_map():
    report = PHASES["map"]()
    content = report.to_dict()
    shallow, deep = report.shallow_depth, report.depth
    for i in range(2):
        for j in range(3):
            for draw in range(report.draws):
                path = report.path(draw, i, j)
                for key, depth, logs in (
                    ("hidden_draws", deep, path.log_hidden_change),
                    ("gradient_draws", deep, path.log_gradient_change),
                    ("hidden_shallow_draws", shallow, path.log_hidden_change),
                    ("gradient_shallow_draws", shallow, path.log_gradient_change),
                ):
                    ends = logs[depth][-1] / math.log(10.0)
                    assert ends.sum() / len(ends) == content[key][i][j][draw], key


@pytest.mark.parametrize("verb", FUNCTIONS)
def test_a_path_does_not_depend_on_who_drew_the_report_first(verb):
    one, two = (FUNCTIONS[verb](workers=workers) for workers in (1, 2))
    for index in (0, 2):
        assert content_of(one.path(index)) == content_of(two.path(index))
    assert content_of(one.path(0)) != content_of(one.path(2))


@pytest.mark.parametrize("verb", ["compare, pathwise", "laws, Gaussian", "stability, in law", "phase, map"])
@pytest.mark.parametrize("index", [-1, 10**7, 1.5, True])
def test_an_index_that_was_not_measured_is_refused(verb, index):
    report = reported(verb)
    kind = ValueError if type(index) is int else TypeError
    assert_refused(lambda: report.path(index), kind, "index", repr(index))


@pytest.mark.parametrize(("cell", "name"), [((2, 0), "hurst"), ((0, 3), "exponent"), ((-1, 0), "hurst")])
def test_a_cell_that_a_map_does_not_have_is_refused(cell, name):
    assert_refused(lambda: reported("phase, map").path(0, *cell), ValueError, name)


KEPT = {}


def reported(verb):
    if verb not in KEPT:
        KEPT[verb] = FUNCTIONS[verb]()
    return KEPT[verb]


@pytest.mark.parametrize("verb", [verb for verb in FUNCTIONS if verb != "stability, modules"])
def test_a_report_from_a_file_draws_the_same_path(verb, tmp_path):
    report, file = reported(verb), tmp_path / "r.json"
    report.save(file)
    again = dl.load_report(file)
    assert again.to_dict() == report.to_dict()
    assert content_of(again.path(2)) == content_of(report.path(2))
    again.save(file)
    assert content_of(dl.load_report(file).path(2)) == content_of(report.path(2))


USERS = {
    "an activation": lambda: (dl.compare(dl.res1(2, lambda h: h / 2), depths=[2, 4], paths=8), "<lambda>"),
    "a sampler": lambda: (dl.stability(dl.res3(2, weights=dl.IID(sampler)), [2, 4], draws=3), "sampler"),
    "modules": lambda: (dl.stability(blocks, [2, 4], X, draws=3), "blocks"),
    "many inputs": lambda: (dl.stability(dl.res3(4), [2, 4], x=torch.ones(2000, 4), draws=3), "8000"),
    "a limit": lambda: (dl.compare(dl.res1(2, "tanh", weights=dl.SmoothGaussian()),
                                   lambda t, h: 0 * h, depths=[2, 4], paths=8), "<lambda>"),
}  # fmt: skip


@pytest.mark.parametrize("name", USERS)
def test_what_no_file_can_hold_is_said_with_what_to_do(name, tmp_path):
    report, word = USERS[name]()
    assert report.path(1)
    report.save(tmp_path / "r.json")
    with pytest.raises(ValueError, match="again with the same arguments") as caught:
        dl.load_report(tmp_path / "r.json").path(1)
    assert word in str(caught.value)


DAMAGE = {
    "a foreign class": lambda m: m.update(of="subprocess:Popen"),
    "a function": lambda m: m.update(of="deeplimit.cli.options:imported"),
    "another value": lambda m: m.update({"is": "float", "value": "nan"}),
    "none, as in earlier versions": None,
    "a lost field": lambda m: m["fields"].pop("task"),
    "an unknown word": lambda m: m.update({"is": "what"}),
    "a class that is gone": lambda m: m.update(of="deeplimit.simulation.coupled_errors:Gone"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_measurement_is_refused_and_no_other_code_is_called(name, tmp_path):
    report, path = reported("compare, pathwise"), tmp_path / "r.json"
    report.save(path)
    document = json.loads(path.read_text())
    if DAMAGE[name] is None:
        del document["measurement"]
    else:
        DAMAGE[name](document["measurement"])
    path.write_text(files.sealed(document))
    again = dl.load_report(path)
    assert again.to_dict() == report.to_dict()
    with pytest.raises(ValueError, match="again with the same arguments"):
        again.path(0)


def test_functions_outside_the_known_cases_are_neither_written_nor_found():
    for function in (torch.tanh, print, serialised.written, sampler):
        with pytest.raises(serialised.Unwritable):
            serialised.written(function, "it")
    with pytest.raises(ValueError, match="_found"):
        serialised.rebuilt({"is": "name", "of": "deeplimit.common.serialised:_found"})


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_every_known_network_is_made_again_from_json(case):
    again = serialised.rebuilt(json.loads(json.dumps(serialised.written(case.network, "network"))))
    assert describe(again, "network") == describe(case.network, "network")


@settings(max_examples=15, deadline=None)
@given(st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner).map(tuple) | st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
))  # fmt: skip
def test_plain_values_come_back_as_they_were(value):
    again = serialised.rebuilt(json.loads(json.dumps(serialised.written(value, "it"))))
    assert repr(again) == repr(value)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool", "bfloat16"])
def test_tensors_come_back_bit_for_bit(dtype):
    with seeded(0):
        tensor = (torch.randn(3, 1, 5) * 3).to(getattr(torch, dtype))
    again = serialised.rebuilt(json.loads(json.dumps(serialised.written(tensor, "it"))))
    assert again.dtype == tensor.dtype
    assert torch.equal(again, tensor)


@pytest.mark.parametrize("verb", [next(verb for verb in FUNCTIONS if verb.startswith(word))
                                  for word in ("laws", "stability", "phase")])  # fmt: skip
def test_a_path_prints_its_numbers_and_draws_itself(verb):
    path = reported(verb).path(2)
    axes = matplotlib.figure.Figure().add_subplot()
    assert path.plot(axes) is axes
    assert axes.lines
    assert "draw 2" in str(path)
    assert dataclasses.is_dataclass(path)


def test_a_coordinate_that_a_draw_does_not_have_is_refused():
    draw = reported("laws, Gaussian").path(0)
    assert_refused(lambda: draw.plot(coordinate=4), ValueError, "coordinate", "4")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("depths", {"is": "tuple", "items": [4, 10**9]}),
        ("width", 10**7),
        ("depths", [4, 10**9]),
        ("paths", "x"),
    ],
)
def test_a_file_may_not_ask_for_what_takes_days_or_is_of_another_kind(key, value, tmp_path):
    dl.compare(dl.res1(4, "tanh"), depths=[4, 8], paths=20).save(tmp_path / "r.json")
    document = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))

    def change(content):
        for name, item in content.items() if isinstance(content, dict) else enumerate(content):
            if name == key:
                content[name] = value
            elif isinstance(item, (dict, list)):
                change(item)

    change(document["measurement"])
    (tmp_path / "r.json").write_text(files.sealed(document), encoding="utf-8")
    report = dl.load_report(tmp_path / "r.json")
    assert_refused(lambda: report.path(0), ValueError, "report", "file")
