"""Bad calls of `stability` and `phase_diagram`, and their damaged files, are refused in one line that says
what to do.
"""

import functools
import json
import math

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
    ("confidence", 0, ValueError, "confidence", "0", "0"),
    ("draws", 0, ValueError, "draws", "1", "0"),
    ("draws", 10**12, ValueError, "draws", "10000000", "1000000000000"),
    ("x", torch.tensor([[NAN, 1.0, 1.0]]), ValueError, "x", "1 of its 1 rows"),
    ("x", torch.tensor([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]), ValueError, "x", "(row 1)"),
    ("x", torch.zeros(9, 3), ValueError, "x", "(rows 0, 1, 2, 3, 4, ...)"),
]
OF_STABILITY = [
    ("depths", [4, 4], ValueError, "depths", "[4, 4]", "[4]"),
    ("depths", 10, TypeError, "depths", "10"),
    ("depths", [2**25], ValueError, "depths", "2**24", "33554432"),
    ("delta", 0, ValueError, "delta", "0", "0"),
    ("delta", 1, ValueError, "delta", "1", "1"),
]
OF_CHARTS = [
    ("width", 0, ValueError, "width", "1", "0"),
    ("depth", 19, ValueError, "depth", "20", "19", "10"),
    ("depth", 2**25, ValueError, "depth", "16777216", "33554432"),
    ("hurst", [0.5, 0.0], ValueError, "hurst", "0"),
    ("hurst", [1.0], ValueError, "hurst", "1"),
    ("hurst", [NAN], ValueError, "hurst", "nan"),
    ("hurst", [], ValueError, "hurst", "empty", "[0.2, 0.5, 0.8]"),
    ("hurst", 0.5, TypeError, "hurst", "0.5"),
    ("hurst", ["0.5"], TypeError, "hurst", "'0.5'"),
    ("exponents", [-0.1, 1.0], ValueError, "exponent", "0", "-0.1"),
    ("exponents", [0.5], ValueError, "exponents", "[0.5]"),
    ("exponents", [1.0, 0.5], ValueError, "exponents", "[1.0, 0.5]", "[0.5, 1.0]"),
    ("exponents", [0.0, 101.0], ValueError, "exponent", "100", "101"),
    ("exponents", [0.0, INF], ValueError, "exponents", "inf"),
    ("inputs", 0, ValueError, "inputs", "1", "0"),
]


LARGE = dl.res3(64, weights=dl.IID("uniform"))


def shallow_factory(width):
    return dl.res3(width)


def wide_factory(width, **more):
    return dl.res3(7, **more)


def uniform_factory(width, **_):
    return dl.res3(width, weights=dl.IID("uniform"))


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
    row("a network as factory", lambda: dl.phase_diagram(NET), TypeError, "network", "ResidualNetwork"),
    row("a factory of None", lambda: chart(network=lambda **_: None), TypeError, "network", "None"),
    row("fewer arguments", lambda: chart(network=shallow_factory), TypeError, "network", "'weights'"),
    row(
        "own width",
        lambda: chart(network=lambda width, **k: dl.res3(7, **k)),
        ValueError,
        "network",
        "3",
        "7",
    ),
    row(
        "own weights", lambda: chart(network=uniform_factory), ValueError, "network", "i.i.d. uniform weights"
    ),
    row("no memory", lambda: go(net=LARGE, depths=[2**22]), ValueError, "4194304", "3.5e+10", "1.1e+09"),
    row("many columns", lambda: chart(depth=2**20, inputs=10**4), ValueError, "6.3e+10", "1.1e+09"),
]


@pytest.mark.parametrize(("call", "error", "pins"), CALLS)
def test_a_bad_call_is_refused_in_a_line_that_says_why(call, error, pins):
    assert "\n" not in assert_refused(call, error, *pins)


def test_one_depth_or_few_draws_give_numbers_and_no_verdict():
    for knobs in ({"depths": [5]}, {"depths": [5, 50]}, {"draws": 1}, {"draws": 9}):
        report = go(**knobs)
        assert report.verdict == "cannot tell"
        assert np.isfinite(report.log_hidden_ratio).all()
        assert np.isnan(report.hidden_growth.exponent)


@pytest.mark.parametrize(("width", "dtype"), [(1, "float32"), (2, "float32"), (1, "float64")])
@pytest.mark.parametrize("exponent", [0.0, 0.5, 3.0, 100.0])
def test_extreme_networks_are_measured_without_complaint(width, exponent, dtype):
    """All ReLUs off, changes that underflow, one layer, one unit."""
    report = go(net=dl.res3(width, exponent=exponent), depths=[1, 4, 30], draws=30, dtype=dtype)
    assert not report.overflowed.any()
    assert not np.isnan(report.log_hidden_change).any()
    assert report.broken == ()


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
    ("stability", lambda: {"verdict": "fine"}, "verdict", "stable", "'fine'"),
    ("stability", lambda: {"draws": 21}, "log_hidden_ratio", "(3, 21)", "(3, 20)"),
    ("stability", lambda: {"depths": [2, 8, 4]}, "depths", "increasing", "[2, 8, 4]"),
    ("stability", lambda: {"overflowed": [0, "nan", 0]}, "overflowed", "integers", "[0, 'nan', 0]"),
    ("stability", lambda: {"log_normal": [[0, 1]]}, "log_normal", "(3, 2)", "(1, 2)"),
    ("stability", lambda: growth(verdict="maybe"), "hidden_growth.verdict", "'maybe'"),
    ("stability", lambda: growth(interval=[1]), "hidden_growth.interval", "2", "[1]"),
    ("stability", lambda: bound(holds="yes"), "bounds[0].holds", "'yes'"),
    ("phase-diagram", lambda: {"hurst": ["nan"]}, "hurst", "finite", "['nan']"),
    ("phase-diagram", lambda: {"hurst": [0.5, 0.6]}, "hidden", "(2, 2)", "(1, 2)"),
    ("phase-diagram", lambda: {"boundary": ["left"]}, "boundary", "list", "['left']"),
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


def test_a_diagram_draws_signal_or_gradient_alone():
    assert_refused(lambda: chart().plot(of="both"), ValueError, "of", "hidden, gradient", "'both'")
