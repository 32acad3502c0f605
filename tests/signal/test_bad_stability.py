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

import deeplimit as dl

NET = dl.res3(3)
NAN, INF = math.nan, math.inf


def bad(name, call, error, message):
    return pytest.param(call, error, message, id=name)


def go(*args, net=NET, **knobs):
    return dl.stability(net, *args, **({"depths": [2, 4, 8], "draws": 20} | knobs))


def chart(*args, network=dl.res3, **knobs):
    small = {"width": 3, "depth": 20, "hurst": [0.5], "exponents": [0.2, 1.0], "draws": 3, "inputs": 1}
    return dl.phase_diagram(network, *args, **(small | knobs))


RUNNING = [
    ("seed", -1, ValueError, r"seed must be at least 0, got -1"),
    ("seed", 1.5, TypeError, r"seed must be an integer, got 1\.5"),
    ("confidence", 95, ValueError, r"confidence must be below 1, got 95"),
    ("confidence", 0, ValueError, r"confidence must be more than 0, got 0"),
    ("device", "tpu", ValueError, r"device 'tpu' is not known.*use 'cpu' or 'cuda'"),
    ("dtype", "float16", ValueError, r"dtype must be torch\.float32 or torch\.float64.*got 'float16'"),
    ("workers", 0, ValueError, r"workers must be at least 1, got 0"),
    ("workers", "two", TypeError, r"workers must be an integer, got 'two'"),
    ("executor", 4, TypeError, r"executor must have submit\(\).*got 4 of type int"),
    ("progress", 3, TypeError, r"^progress must be .*got 3"),
    ("draws", 0, ValueError, r"draws must be at least 1, got 0"),
    ("draws", 2.0, TypeError, r"draws must be an integer, got 2\.0"),
    ("draws", 10**12, ValueError, r"draws must be at most 10000000, got 1000000000000"),
    ("x", torch.tensor([[NAN, 1.0, 1.0]]), ValueError, r"x must be finite; 1 of its 1 rows"),
    (
        "x",
        torch.tensor([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]),
        ValueError,
        r"inputs of zeros.*\(row 1\); leave them out",
    ),
    ("x", torch.zeros(9, 3), ValueError, r"inputs of zeros.*\(rows 0, 1, 2, 3, 4, \.\.\.\); leave them out"),
    (
        "x",
        torch.full((1, 3), 1e200, dtype=torch.float64),
        ValueError,
        r"x holds numbers too large for float32; scale x.*float64",
    ),
    ("x", torch.ones(3), ValueError, r"x must have two dimensions.*got x\.shape=\(3,\)"),
    ("x", torch.ones(0, 3), ValueError, r"x must hold at least one input"),
    ("x", [[1.0, 2.0, 3.0]], TypeError, r"x must be a torch tensor.*got list"),
    ("x", torch.ones(2, 3, dtype=torch.int64), TypeError, r"x must be floating point, got torch\.int64"),
    ("draw", 3, TypeError, r"got an unexpected keyword argument 'draw'"),
]
OF_STABILITY = [
    ("depths", [0, 4], ValueError, r"depth must be at least 1, got 0"),
    ("depths", [4, 4], ValueError, r"strictly increasing.*got \[4, 4\]; try \[4\]"),
    ("depths", [], ValueError, r"depths must name at least one depth, got \[\]"),
    ("depths", 10, TypeError, r"depths must be a list of integers.*got 10"),
    ("depths", [4, 8.5], TypeError, r"depth must be an integer, got 8\.5"),
    ("depths", [2**25], ValueError, r"depths beyond 2\*\*24.*got 33554432"),
    ("delta", 0, ValueError, r"delta must be more than 0, got 0"),
    ("delta", 1, ValueError, r"delta must be below 1, got 1"),
    ("delta", "small", TypeError, r"delta must be a number, got 'small'"),
]
OF_CHARTS = [
    ("width", 0, ValueError, r"width must be at least 1, got 0\. It is the number of hidden units"),
    ("depth", 19, ValueError, r"depth must be at least 20, got 19\. .*10 times smaller"),
    ("depth", 2**25, ValueError, r"depth must be at most 16777216, got 33554432"),
    ("depth", "1000", TypeError, r"depth must be an integer, got '1000'"),
    ("hurst", [0.5, 0.0], ValueError, r"hurst must be .*got 0"),
    ("hurst", [1.0], ValueError, r"hurst must be .*got 1"),
    ("hurst", [-0.2], ValueError, r"hurst must be .*got -0\.2"),
    ("hurst", [NAN], ValueError, r"hurst must be finite, got nan"),
    ("hurst", [], ValueError, r"hurst must not be empty; give numbers such as \[0\.2"),
    ("hurst", 0.5, TypeError, r"hurst must be a list of numbers such as \[0\.2.*got 0\.5"),
    ("hurst", "0.5", TypeError, r"hurst must be a list of numbers.*got '0\.5'"),
    ("hurst", ["0.5"], TypeError, r"every entry of hurst must be a number, got '0\.5'"),
    ("exponents", [-0.1, 1.0], ValueError, r"every exponent must be at least 0, got -0\.1"),
    (
        "exponents",
        [0.5],
        ValueError,
        r"exponents must be at least two numbers, strictly increasing, got \[0\.5\]",
    ),
    ("exponents", [1.0, 0.5], ValueError, r"strictly increasing, got \[1\.0, 0\.5\]; try \[0\.5, 1\.0\]"),
    ("exponents", [0.0, 101.0], ValueError, r"every exponent must be at most 100, got 101"),
    ("exponents", [0.0, INF], ValueError, r"every entry of exponents must be finite, got inf"),
    ("inputs", 0, ValueError, r"inputs must be at least 1, got 0"),
]


def shallow_factory(width):
    return dl.res3(width)


CALLS = [
    *(
        bad(f"stability {k}={v!r:.25}", functools.partial(go, **{k: v}), e, m)
        for k, v, e, m in RUNNING + OF_STABILITY
    ),
    *(
        bad(f"phase {k}={v!r:.25}", functools.partial(chart, **{k: v}), e, m)
        for k, v, e, m in RUNNING + OF_CHARTS
    ),
    bad("a depth as network", lambda: dl.stability(12), TypeError, r"resnet must come from res1.*got 12"),
    bad("a factory as network", lambda: dl.stability(dl.res3), TypeError, r"resnet must come from res1"),
    bad(
        "a network as factory",
        lambda: dl.phase_diagram(NET),
        TypeError,
        r"network must be a factory such as deeplimit\.res3, got",
    ),
    bad(
        "a factory of None",
        lambda: chart(network=lambda **_: None),
        TypeError,
        r"must make a residual network.*returned None",
    ),
    bad(
        "a factory of text",
        lambda: chart(network=lambda **_: "res3"),
        TypeError,
        r"must make a residual network.*returned 'res3'",
    ),
    bad(
        "a factory of fewer arguments",
        lambda: chart(network=shallow_factory),
        TypeError,
        r"network must be a factory.*width=, weights= and exponent=; that raised: .*'weights'",
    ),
    bad(
        "a factory that keeps its own width",
        lambda: chart(network=lambda width, **more: dl.res3(7, **more)),
        ValueError,
        r"networks of the width asked for; asked for 3, it returned one of 7",
    ),
    bad(
        "a factory that keeps its own weights",
        lambda: chart(network=lambda width, **_: dl.res3(width, weights=dl.IID("uniform"))),
        ValueError,
        r"must use the weights it is given, FractionalBrownian.*returned one with i\.i\.d\. uniform weights;"
        r" pass weights= on",
    ),
    bad(
        "too large for memory",
        lambda: go(net=dl.res3(64, weights=dl.IID("uniform")), depths=[2**22]),
        ValueError,
        r"smaller depth",
    ),
    bad(
        "too many columns",
        lambda: chart(depth=2**20, inputs=10**4),
        ValueError,
        r"more than 1\.1e\+09: take fewer exponents or inputs",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), CALLS)
def test_a_bad_call_is_refused_in_a_line_that_says_why(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_one_depth_or_few_draws_give_numbers_and_no_verdict():
    for knobs, reason in (
        ({"depths": [5]}, "growth with depth needs at least three depths"),
        ({"depths": [5, 50]}, "growth with depth needs at least three depths"),
        ({"draws": 1}, "1 draws are too few for an interval; take 10 or more"),
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
        r"verdict must be one of identity, stable, explosion, cannot tell; got 'fine'",
    ),
    ("stability", lambda: {"verdict": 3}, r"verdict must be of type str, got 3"),
    ("stability", lambda: {"draws": "REMOVED"}, r"the report lacks draws"),
    ("stability", lambda: {"drawn": 3}, r"has unknown fields: drawn"),
    (
        "stability",
        lambda: {"draws": 21},
        r"log_hidden_ratio must have shape \(3, 21\), got \(3, 20\)",
    ),
    ("stability", lambda: {"draws": "20"}, r"draws must be of type int, got '20'"),
    ("stability", lambda: {"depths": 7}, r"depths must be a list of numbers, got 7"),
    ("stability", lambda: {"depths": [2, 4]}, r"must have shape \(2, 20\), got \(3, 20\)"),
    (
        "stability",
        lambda: {"depths": [2, 8, 4]},
        r"depths must be positive and strictly increasing, got \[2, 8, 4\]",
    ),
    ("stability", lambda: {"depths": [2, 4, 8.5]}, r"depths must hold integers"),
    ("stability", lambda: {"overflowed": [0, "nan", 0]}, r"overflowed must hold integers"),
    (
        "stability",
        lambda: {"log_hidden_change": [[1, 2], [3]]},
        r"log_hidden_change must be a list of numbers, got \[\[1, 2\], \[3\]\]",
    ),
    (
        "stability",
        lambda: {"log_hidden_change": None},
        r"log_hidden_change must be a list of numbers, got None",
    ),
    (
        "stability",
        lambda: {"log_normal": [[0, 1]]},
        r"log_normal must have shape \(3, 2\), got \(1, 2\)",
    ),
    ("stability", lambda: {"exponent": "half"}, r"exponent must be a number, got 'half'"),
    ("stability", lambda: {"predicted_growth": []}, r"predicted_growth must be a number, null; got \[\]"),
    ("stability", lambda: {"reservations": "none"}, r"reservations must be a list, got 'none'"),
    ("stability", lambda: {"versions": []}, r"versions must have named fields"),
    ("stability", lambda: {"hidden_growth": 1}, r"hidden_growth must have named fields, got 1"),
    ("stability", lambda: growth(verdict="maybe"), r"hidden_growth.verdict must be one of"),
    (
        "stability",
        lambda: growth(interval=[1]),
        r"hidden_growth.interval must have 2 entries, got \[1\]",
    ),
    (
        "stability",
        lambda: growth(exponent=None),
        r"hidden_growth.exponent must be a number, got None",
    ),
    ("stability", lambda: {"bounds": {}}, r"bounds must be a list"),
    ("stability", lambda: {"bounds": [3]}, r"bounds\[0\] must have named fields, got 3"),
    (
        "stability",
        lambda: bound(holds="yes"),
        r"bounds\[0\].holds must be true or false, null; got 'yes'",
    ),
    ("phase-diagram", lambda: {"hidden": "REMOVED"}, r"the report lacks hidden"),
    ("phase-diagram", lambda: {"verdict": "stable"}, r"the report has unknown fields: verdict"),
    ("phase-diagram", lambda: {"hurst": 0.5}, r"hurst must be a list of numbers, got 0\.5"),
    (
        "phase-diagram",
        lambda: {"hurst": ["nan"]},
        r"hurst must hold finite numbers, at least one, got \['nan'\]",
    ),
    (
        "phase-diagram",
        lambda: {"hurst": [0.5, 0.6]},
        r" must have shape \(2, 2\), got \(1, 2\)",
    ),
    (
        "phase-diagram",
        lambda: {"hidden": [[1.0]]},
        r"hidden must have shape \(1, 2\), got \(1, 1\)",
    ),
    (
        "phase-diagram",
        lambda: {"boundary": ["left"]},
        r"boundary must be a list of numbers, got \['left'\]",
    ),
    ("phase-diagram", lambda: {"draws": True}, r"draws must be of type int, got True"),
    ("phase-diagram", lambda: {"overflowed": [[0.5, 0]]}, r"overflowed must hold integers"),
]


@pytest.mark.parametrize(("kind", "changes", "message"), DAMAGE)
def test_damaged_reports_are_refused_field_by_field(kind, changes, message, tmp_path):
    with pytest.raises(ValueError, match=rf"damaged {kind} report: .*{message}") as caught:
        load(tmp_path, kind, changes())
    assert "\n" not in str(caught.value)


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
    for act, path, error, message in (
        (report.save, tmp_path / "r.txt", ValueError, r"path must end in \.json"),
        (report.save, tmp_path, ValueError, r"path must end in \.json|names a folder"),
        (report.save, tmp_path / "none" / "r.json", ValueError, r"is not a folder; make it first"),
        (report.save, 3, TypeError, r"path must be a path, got 3"),
        (report.plot, tmp_path / "r.jpeg", ValueError, r"path must end in \.png or \.pdf or \.svg"),
        (report.plot, tmp_path / "none" / "r.png", ValueError, r"is not a folder; make it first"),
        (report.plot, 3, TypeError, r"ax must be matplotlib Axes, a path to write to, or None; got 3"),
    ):
        with pytest.raises(error, match=message) as caught:
            act(path)
        assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_diagram_draws_signal_or_gradient_alone():
    with pytest.raises(ValueError, match=r"of must be one of hidden, gradient; got 'both'"):
        chart().plot(of="both")
