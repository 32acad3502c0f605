"""Bad calls of `stability` and `phase_diagram`, and their damaged files, are refused in one line that says
what to do.
"""

import functools
import json
import math
import re

import numpy as np
import pytest
import torch
from refusals import assert_refused, row

import deeplimit as dl

NET = dl.res3(3)
NAN, INF = math.nan, math.inf


def go(*args, net=NET, **knobs):
    return dl.stability(net, *args, **({"depths": [2, 4, 8], "draws": 20} | knobs))


def chart(*args, network=dl.res3, **knobs):
    small = {"width": 3, "depth": 20, "hurst": [0.5], "exponents": [0.2, 1.0], "draws": 3, "inputs": 1}
    return dl.phase_diagram(network, *args, **(small | knobs))


RUNNING = [
    ("seed", -1, ValueError, "seed", "0", "-1"),
    ("seed", 1.5, TypeError, "seed", "1.5"),
    ("confidence", 95, ValueError, "confidence", "1", "95"),
    ("confidence", 0, ValueError, "confidence", "0", "0"),
    ("device", "tpu", ValueError, "device", "'tpu'", "'cpu'", "'cuda'"),
    ("dtype", "float16", ValueError, "dtype", "torch.float32", "torch.float64", "'float16'"),
    ("workers", 0, ValueError, "workers", "1", "0"),
    ("workers", "two", TypeError, "workers", "'two'"),
    ("executor", 4, TypeError, "executor", "submit()", "4"),
    ("progress", 3, TypeError, "progress", "3"),
    ("draws", 0, ValueError, "draws", "1", "0"),
    ("draws", 2.0, TypeError, "draws", "2.0"),
    ("draws", 10**12, ValueError, "draws", "10000000", "1000000000000"),
    ("x", torch.tensor([[NAN, 1.0, 1.0]]), ValueError, "x", "1 of its 1 rows"),
    ("x", torch.tensor([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]), ValueError, "x", "(row 1)"),
    ("x", torch.zeros(9, 3), ValueError, "x", "(rows 0, 1, 2, 3, 4, ...)"),
    ("x", torch.full((1, 3), 1e200, dtype=torch.float64), ValueError, "x", "float32", "float64"),
    ("x", torch.ones(3), ValueError, "x", "x.shape=(3,)"),
    ("x", torch.ones(0, 3), ValueError, "x", "x.shape=(0, 3)"),
    ("x", [[1.0, 2.0, 3.0]], TypeError, "x", "list"),
    ("x", torch.ones(2, 3, dtype=torch.int64), TypeError, "x", "torch.int64"),
    ("draw", 3, TypeError, "keyword argument", "'draw'"),
]
OF_STABILITY = [
    ("depths", [0, 4], ValueError, "depth", "1", "0"),
    ("depths", [4, 4], ValueError, "depths", "[4, 4]", "[4]"),
    ("depths", [], ValueError, "depths", "[]"),
    ("depths", 10, TypeError, "depths", "10"),
    ("depths", [4, 8.5], TypeError, "depth", "8.5"),
    ("depths", [2**25], ValueError, "depths", "2**24", "33554432"),
    ("delta", 0, ValueError, "delta", "0", "0"),
    ("delta", 1, ValueError, "delta", "1", "1"),
    ("delta", "small", TypeError, "delta", "'small'"),
]
OF_CHARTS = [
    ("width", 0, ValueError, "width", "1", "0"),
    ("depth", 19, ValueError, "depth", "20", "19", "10"),
    ("depth", 2**25, ValueError, "depth", "16777216", "33554432"),
    ("depth", "1000", TypeError, "depth", "'1000'"),
    ("hurst", [0.5, 0.0], ValueError, "hurst", "0"),
    ("hurst", [1.0], ValueError, "hurst", "1"),
    ("hurst", [-0.2], ValueError, "hurst", "-0.2"),
    ("hurst", [NAN], ValueError, "hurst", "nan"),
    ("hurst", [], ValueError, "hurst", "empty", "[0.2, 0.5, 0.8]"),
    ("hurst", 0.5, TypeError, "hurst", "0.5"),
    ("hurst", "0.5", TypeError, "hurst", "'0.5'"),
    ("hurst", ["0.5"], TypeError, "hurst", "'0.5'"),
    ("exponents", [-0.1, 1.0], ValueError, "exponent", "0", "-0.1"),
    ("exponents", [0.5], ValueError, "exponents", "[0.5]"),
    ("exponents", [1.0, 0.5], ValueError, "exponents", "[1.0, 0.5]", "[0.5, 1.0]"),
    ("exponents", [0.0, 101.0], ValueError, "exponent", "100", "101"),
    ("exponents", [0.0, INF], ValueError, "exponents", "inf"),
    ("inputs", 0, ValueError, "inputs", "1", "0"),
]


def shallow_factory(width):
    return dl.res3(width)


CALLS = [
    *(
        row(f"stability {k}={v!r:.25}", functools.partial(go, **{k: v}), *rest)
        for k, v, *rest in RUNNING + OF_STABILITY
    ),
    *(
        row(f"phase {k}={v!r:.25}", functools.partial(chart, **{k: v}), *rest)
        for k, v, *rest in RUNNING + OF_CHARTS
    ),
    row("a depth as network", lambda: dl.stability(12), TypeError, "resnet", "res1", "12"),
    row("a factory as network", lambda: dl.stability(dl.res3), TypeError, "resnet", "res1", "res3"),
    row(
        "a network as factory",
        lambda: dl.phase_diagram(NET),
        TypeError,
        "network",
        "deeplimit.res3",
        "ResidualNetwork",
    ),
    row("a factory of None", lambda: chart(network=lambda **_: None), TypeError, "network", "None"),
    row("a factory of text", lambda: chart(network=lambda **_: "res3"), TypeError, "network", "'res3'"),
    row(
        "a factory of fewer arguments",
        lambda: chart(network=shallow_factory),
        TypeError,
        "network",
        "width=, weights= and exponent=",
        "'weights'",
    ),
    row(
        "a factory that keeps its own width",
        lambda: chart(network=lambda width, **more: dl.res3(7, **more)),
        ValueError,
        "network",
        "width",
        "3",
        "7",
    ),
    row(
        "a factory that keeps its own weights",
        lambda: chart(network=lambda width, **_: dl.res3(width, weights=dl.IID("uniform"))),
        ValueError,
        "network",
        "FractionalBrownian",
        "i.i.d. uniform weights",
        "weights=",
    ),
    row(
        "too large for memory",
        lambda: go(net=dl.res3(64, weights=dl.IID("uniform")), depths=[2**22]),
        ValueError,
        "depth 4194304",
        "width 64",
        "3.5e+10",
        "1.1e+09",
        "smaller depth",
    ),
    row(
        "too many columns",
        lambda: chart(depth=2**20, inputs=10**4),
        ValueError,
        "6.3e+10",
        "1.1e+09",
        "exponents or inputs",
    ),
]


@pytest.mark.parametrize(("call", "error", "pins"), CALLS)
def test_a_bad_call_is_refused_in_a_line_that_says_why(call, error, pins):
    assert "\n" not in assert_refused(call, error, *pins)


def test_one_depth_or_few_draws_give_numbers_and_no_verdict():
    for knobs, reason in (
        ({"depths": [5]}, "growth with depth needs at least three depths"),
        ({"depths": [5, 50]}, "growth with depth needs at least three depths"),
        ({"draws": 1}, "1 draw is too few for an interval; take 10 or more"),
        ({"draws": 9}, "9 draws are too few for an interval; take 10 or more"),
    ):
        report = go(**knobs)
        assert report.verdict == "cannot tell"
        assert reason in str(report)
        assert np.isfinite(report.log_hidden_ratio).all()
        assert np.isnan(report.hidden_growth.exponent)
    assert "One draw says nothing of the spread" in str(go(draws=1))
    assert "span less than a factor of 4" in str(go(depths=[5, 6, 7]))


def test_overflow_is_counted_and_named():
    network = dl.inner(3, lambda x: 9 * x + x.sin(), weights=dl.Brownian(), exponent=0.0)
    report = go(net=network, depths=[5, 40, 160], draws=12)
    assert report.overflowed.tolist() == [0, 0, 12] or report.overflowed[-1] == 12
    assert report.verdict == "explosion"
    assert "networks overflowed float32" in str(report)


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("exponent", [0.0, 0.5, 3.0, 100.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extreme_networks_are_measured_without_complaint(width, exponent, dtype):
    """All ReLUs off, changes that underflow, one layer, one unit."""
    report = go(net=dl.res3(width, exponent=exponent), depths=[1, 4, 30], draws=30, dtype=dtype)
    assert not report.overflowed.any()
    assert not np.isnan(report.log_hidden_change).any()
    assert report.broken == ()
    assert len(str(report)) > 100
    report.plot()


@functools.cache
def contents():
    return {"stability": go().to_dict(), "phase-diagram": chart(draws=2).to_dict()}


def load(tmp_path, kind, changes):
    content = {name: value for name, value in (contents()[kind] | changes).items() if value != "REMOVED"}
    file = tmp_path / "r.json"
    file.write_text(
        json.dumps({"format": "deeplimit-report", "version": 1, "kind": kind, "report": content}),
        encoding="utf-8",
    )
    return dl.load_report(file)


def growth(**changes):
    return {"hidden_growth": contents()["stability"]["hidden_growth"] | changes}


def bound(**changes):
    return {"bounds": [contents()["stability"]["bounds"][0] | changes]}


DAMAGE = [
    (
        "stability",
        lambda: {"verdict": "fine"},
        "verdict",
        "identity, stable, explosion, cannot tell",
        "'fine'",
    ),
    ("stability", lambda: {"verdict": 3}, "verdict", "str", "3"),
    ("stability", lambda: {"draws": "REMOVED"}, "lacks", "draws"),
    ("stability", lambda: {"drawn": 3}, "unknown fields", "drawn"),
    ("stability", lambda: {"draws": 21}, "log_hidden_ratio", "(3, 21)", "(3, 20)"),
    ("stability", lambda: {"draws": "20"}, "draws", "int", "'20'"),
    ("stability", lambda: {"depths": 7}, "depths", "list", "7"),
    ("stability", lambda: {"depths": [2, 4]}, "log_hidden_ratio", "(2, 20)", "(3, 20)"),
    ("stability", lambda: {"depths": [2, 8, 4]}, "depths", "increasing", "[2, 8, 4]"),
    ("stability", lambda: {"depths": [2, 4, 8.5]}, "depths", "integers", "[2, 4, 8.5]"),
    ("stability", lambda: {"overflowed": [0, "nan", 0]}, "overflowed", "integers", "[0, 'nan', 0]"),
    ("stability", lambda: {"log_hidden_change": [[1, 2], [3]]}, "log_hidden_change", "list", "[[1, 2], [3]]"),
    ("stability", lambda: {"log_hidden_change": None}, "log_hidden_change", "None"),
    ("stability", lambda: {"log_normal": [[0, 1]]}, "log_normal", "(3, 2)", "(1, 2)"),
    ("stability", lambda: {"exponent": "half"}, "exponent", "number", "'half'"),
    ("stability", lambda: {"predicted_growth": []}, "predicted_growth", "[]"),
    ("stability", lambda: {"reservations": "none"}, "reservations", "list", "'none'"),
    ("stability", lambda: {"versions": []}, "versions", "named fields", "[]"),
    ("stability", lambda: {"hidden_growth": 1}, "hidden_growth", "named fields", "1"),
    ("stability", lambda: growth(verdict="maybe"), "hidden_growth.verdict", "'maybe'"),
    ("stability", lambda: growth(interval=[1]), "hidden_growth.interval", "2", "[1]"),
    ("stability", lambda: growth(exponent=None), "hidden_growth.exponent", "None"),
    ("stability", lambda: {"bounds": {}}, "bounds", "list", "{}"),
    ("stability", lambda: {"bounds": [3]}, "bounds[0]", "named fields", "3"),
    ("stability", lambda: bound(holds="yes"), "bounds[0].holds", "'yes'"),
    ("phase-diagram", lambda: {"hidden": "REMOVED"}, "lacks", "hidden"),
    ("phase-diagram", lambda: {"verdict": "stable"}, "unknown fields", "verdict"),
    ("phase-diagram", lambda: {"hurst": 0.5}, "hurst", "list", "0.5"),
    ("phase-diagram", lambda: {"hurst": ["nan"]}, "hurst", "finite", "['nan']"),
    ("phase-diagram", lambda: {"hurst": [0.5, 0.6]}, "hidden", "(2, 2)", "(1, 2)"),
    ("phase-diagram", lambda: {"hidden": [[1.0]]}, "hidden", "(1, 2)", "(1, 1)"),
    ("phase-diagram", lambda: {"boundary": ["left"]}, "boundary", "list", "['left']"),
    ("phase-diagram", lambda: {"draws": True}, "draws", "int", "True"),
    ("phase-diagram", lambda: {"overflowed": [[0.5, 0]]}, "overflowed", "integers", "[[0.5, 0]]"),
]


@pytest.mark.parametrize(
    ("kind", "changes", "pins"), [(kind, changes, pins) for kind, changes, *pins in DAMAGE]
)
def test_damaged_reports_are_refused_field_by_field(kind, changes, pins, tmp_path):
    message = assert_refused(
        lambda: load(tmp_path, kind, changes()), ValueError, f"damaged {kind} report", *pins
    )
    assert "\n" not in message


@pytest.mark.parametrize("kind", ["stability", "phase-diagram"])
@pytest.mark.parametrize(
    "name",
    [
        "depths",
        "hurst",
        "reservations",
        "verdict",
        "draws",
        "versions",
        "seconds",
        "hidden_growth",
        "overflowed",
    ],
)
@pytest.mark.parametrize("value", [None, 3, -1, "x", [], {}, [["x"]], True, 1e400], ids=repr)
def test_no_damage_of_one_field_raises_anything_but_a_value_error(kind, name, value, tmp_path):
    try:
        loaded = load(tmp_path, kind, {name: value})
    except ValueError as error:
        assert re.search(f"damaged {kind} report: ", str(error))  # noqa: PT017
    else:
        assert len(str(loaded)) > 50


@pytest.mark.parametrize("make", [go, chart], ids=["stability", "phase"])
def test_files_and_pictures_go_only_where_they_can(make, tmp_path):
    report = make()
    for act, path, error, *pins in (
        (report.save, tmp_path / "r.txt", ValueError, "path", ".json", "r.txt'"),
        (report.save, tmp_path, ValueError, "path", str(tmp_path)),
        (report.save, tmp_path / "none" / "r.json", ValueError, "path", "none'", "make it first"),
        (report.save, 3, TypeError, "path", "3"),
        (report.plot, tmp_path / "r.jpeg", ValueError, "path", ".png or .pdf or .svg", "r.jpeg'"),
        (report.plot, tmp_path / "none" / "r.png", ValueError, "path", "none'", "make it first"),
        (report.plot, 3, TypeError, "ax", "3"),
    ):
        message = assert_refused(functools.partial(act, path), error, *pins)
        assert "\n" not in message
    assert list(tmp_path.iterdir()) == []


def test_a_diagram_draws_signal_or_gradient_alone():
    assert_refused(lambda: chart().plot(of="both"), ValueError, "of", "hidden, gradient", "'both'")
