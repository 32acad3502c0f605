"""Laws: what is refused and how, and the reports that come of the rest."""

import dataclasses
import functools
import json
import math

import matplotlib.figure
import numpy as np
import pytest
import torch
from refusals import assert_refused, row
from samplers import FAR, skewed

import deeplimit as dl
from deeplimit.in_law import simulation, two_sample

# Pairing and refusals


def test_res3_has_a_limit_in_law_and_compare_points_to_the_room_for_it():
    for network in (dl.res3(4), dl.res2(4, "relu"), dl.res3(4, weights=dl.IID("rademacher"))):
        assert network.limit() == dl.IsotropicSDE(4)
        assert network.regime().convergence == "in law"
        assert_refused(
            functools.partial(dl.compare, network, depths=[2, 4]),
            dl.NoTheoremError,
            f"cannot pair {type(network.recursion).__name__.lower()}",
            "in law only",
            "Closest",
            "res1",
            "compare_laws",
        )
    for given in (
        dl.IsotropicSDE(1),
        dl.Independent(dl.IsotropicSDE(1)),
    ):  # one unit: one Brownian motion on either side
        call = functools.partial(dl.compare, dl.res1(1, "tanh"), given, depths=[2, 4])
        assert_refused(call, ValueError, "in law only", "compare_laws")
    report = dl.compare(dl.res1(2, "tanh", weights=dl.IID("uniform")), depths=[4, 8], paths=50)
    assert any("compare_laws" in text for text in report.reservations)


@pytest.mark.parametrize(
    ("network", "pins"),
    [
        (lambda: dl.res2(4, "tanh"), ("res2", "in law only", "compare_laws")),
        (lambda: dl.res3(4, weights=dl.IID(skewed)), ("res3", "skewed weights", "LawLimit")),
        (lambda: dl.res3(4, exponent=0.25), ("res3", "exponent 0.25", "grow without bound")),
        (lambda: dl.inner(4), ("inner", "exponent 0.5")),
    ],
)
def test_networks_without_a_known_limit_are_refused_by_name(network, pins):
    assert_refused(lambda: dl.compare_laws(network()), dl.NoTheoremError, *pins)


def go(network=None, *args, **knobs):
    return dl.compare_laws(network or dl.res3(2), *args, **({"depths": [2, 4, 8], "draws": 200} | knobs))


@dataclasses.dataclass(frozen=True)
class Drawn(dl.LawLimit):
    value: object = None
    equation = "a law"

    def draw(self, h0, generator):
        return self.value


BAD = {
    "no network": (lambda: go(torch.nn.Identity()), TypeError, "resnet", "res1", "Identity()"),
    "functions of time": (
        lambda: go(dl.res1(2, weights=dl.SmoothGaussian())),
        ValueError,
        "resnet",
        "independent layers",
        "smooth",
        "compare",
    ),
    "Itô": (
        lambda: go(dl.inner(2, "tanh", noise=dl.Ito(A=0.1))),
        ValueError,
        "resnet",
        "independent layers",
        "inner",
        "path by path",
    ),
    "two depths": (lambda: go(depths=[2, 4]), ValueError, "depths", "[2, 4]"),
    "depths that fall": (lambda: go(depths=[8, 4, 2]), ValueError, "depths", "[8, 4, 2]"),
    "no depths": (lambda: go(depths=16), TypeError, "depths", "16"),
    "few draws": (lambda: go(draws=199), ValueError, "draws", "200", "199"),
    "draws a float": (lambda: go(draws=1e4), TypeError, "draws", "10000.0"),
    "level 0": (lambda: go(level=0), ValueError, "level", "0", "0"),
    "level 0.95": (lambda: go(level=0.95), ValueError, "level", "0.2", "0.95"),
    "tolerance 0": (lambda: go(tolerance=0.0), ValueError, "tolerance", "0", "0"),
    "seed": (lambda: go(seed=-1), ValueError, "seed", "0", "-1"),
    "few steps": (lambda: go(steps=4), ValueError, "steps", "8", "4"),
    "workers": (lambda: go(workers=0), ValueError, "workers", "1", "0"),
    "progress": (lambda: go(progress=1), TypeError, "progress", "function", "1"),
    "device": (lambda: go(device="tpu"), ValueError, "device", "'tpu'"),
    "dtype": (lambda: go(dtype=torch.float16), ValueError, "dtype", "torch.float16"),
    "x of zeros": (
        lambda: go(x=torch.tensor([[1.0, 1], [0, 0]])),
        ValueError,
        "x",
        "starting point 0",
        "row 1",
    ),
    "x of one dimension": (lambda: go(x=torch.ones(2)), ValueError, "x", "x.shape=(2,)"),
    "x too large": (
        lambda: go(x=torch.full((1, 2), 1e300, dtype=torch.float64)),
        ValueError,
        "x",
        "float32",
        "float64",
    ),
    "identity": (
        lambda: go(dl.res3(2, exponent=1.0)),
        ValueError,
        "limit",
        "noise",
        "dH = 0 (the identity)",
        "compare",
    ),
    "an ODE": (lambda: go(dl.res3(2), lambda t, h: h), ValueError, "limit", "noise", "user's ODE"),
    "another width": (lambda: go(dl.res3(2), dl.IsotropicSDE(3)), ValueError, "limit", "3", "2"),
    "a tensor": (lambda: go(dl.res3(2), torch.ones(2)), TypeError, "limit", "tensor of shape (2,)"),
    "a law of another shape": (
        lambda: go(dl.res3(2), Drawn(torch.ones(3))),
        ValueError,
        "limit.draw(h0, generator)",
        "(1, 2)",
        "(3,)",
    ),
    "a law of None": (
        lambda: go(dl.res3(2), Drawn()),
        ValueError,
        "limit.draw(h0, generator)",
        "(1, 2)",
        "NoneType",
    ),
    "a rate of 0": (lambda: dl.IsotropicSDE(2, 0.0), ValueError, "rate", "0.001", "0"),
    "a width of 0": (lambda: dl.IsotropicSDE(0), ValueError, "width", "1", "0"),
    "unknown": (lambda: go(paths=3), TypeError, "compare_laws()", "'paths'"),
}


@pytest.mark.parametrize(("call", "error", "pins"), [row(name, *rest) for name, rest in BAD.items()])
def test_a_bad_call_is_refused_and_its_argument_named(call, error, pins):
    assert_refused(call, error, *pins)


# Reports


@pytest.fixture(scope="module")
def report():
    return dl.compare_laws(dl.res3(3), depths=[2, 4, 8, 16], draws=3000, seed=1)


def same(first, second):
    mine, theirs = (dataclasses.replace(r, seconds=0.0).to_dict() for r in (first, second))
    return mine == theirs


def test_results_depend_on_the_seed_and_on_nothing_else():
    network = dl.res3(5, weights=dl.IID("uniform"))
    knobs = {"depths": [2, 4, 8], "draws": 12000, "seed": 3}
    alone = dl.compare_laws(network, workers=1, **knobs)
    assert same(alone, dl.compare_laws(network, workers=3, **knobs))
    other = dl.compare_laws(network, **knobs | {"seed": 4})
    assert alone.mean_squares.tolist() != other.mean_squares.tolist()
    more = dl.compare_laws(network, **knobs | {"depths": [4, 8, 16]})
    assert more.mean_squares[:2].tolist() == alone.mean_squares[1:].tolist()  # a depth's draws are its own


def test_starting_points_are_taken_in_turn_and_their_size_does_not_matter():
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    reports = [
        dl.compare_laws(dl.res3(2), x=size * x, depths=[2, 4, 8], draws=3000, dtype="float64")
        for size in (1.0, 8.0)
    ]
    assert reports[0].differences == pytest.approx(reports[1].differences, abs=1e-9)
    assert reports[0].inputs == "3 given, in turn"
    wide = dl.compare_laws(dl.res3(2), x=torch.ones(1, 7), depths=[2, 4, 8], draws=300)
    assert wide.verdict != "another law"


def test_the_verdict_comes_first_and_every_depth_has_a_line(report):
    lines = str(report).splitlines()
    assert lines[0].startswith(f"{report.verdict}: ")
    for depth in report.depths:
        assert sum(line.strip().startswith(f"{depth} ") for line in lines) == 1
    for text in ("level 0.001", "Reservations:", "neither paper states it", "spread along h_0"):
        assert text in str(report)
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.verdict = "same law"


def test_a_report_reads_back_as_it_was_and_damage_is_named(report, tmp_path):
    report.save(tmp_path / "r.json")
    loaded = dl.load_report(tmp_path / "r.json")
    assert isinstance(loaded, dl.LawReport)
    assert loaded.to_dict() == report.to_dict()
    assert str(loaded) == str(report)
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["kind"] == "laws"
    for field, value in (("p_values", [[0.5]]), ("verdict", "perhaps"), ("grid", None)):
        broken = json.loads(json.dumps(document))
        broken["report"][field] = value
        (tmp_path / "broken.json").write_text(json.dumps(broken))
        with pytest.raises(ValueError, match="damaged laws report"):
            dl.load_report(tmp_path / "broken.json")


def test_the_plot_shows_every_depth_the_limit_and_their_differences(report, tmp_path):
    axes = report.plot(matplotlib.figure.Figure().add_subplot())
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == [*(f"network, {depth} layers" for depth in (2, 4, 8, 16)), "limit"]
    for line, expected in zip(
        axes.get_lines(), [*report.distributions, report.limit_distribution], strict=True
    ):
        assert line.get_ydata().tolist() == expected.tolist()
        assert (np.diff(line.get_ydata()) >= 0).all()
    (inset,) = axes.child_axes
    assert (
        inset.get_lines()[0].get_ydata().tolist()
        == (report.distributions[0] - report.limit_distribution).tolist()
    )
    report.plot(tmp_path / "r.png")
    assert (tmp_path / "r.png").stat().st_size > 5000
    assert_refused(lambda: report.plot(3), TypeError, "ax", "matplotlib Axes", "3")


def test_progress_runs_to_one():
    seen = []
    dl.compare_laws(dl.res1(3, "tanh"), depths=[2, 4, 8], draws=300, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == pytest.approx(1.0)


@pytest.mark.statistical
def test_laws_are_drawn_on_every_device(device):
    report = dl.compare_laws(dl.res3(4), depths=[8, 16, 32], draws=4000, device=device)
    exact = (1 + 1 / (2 * report.depths)) ** report.depths
    assert (np.abs(report.mean_squares - exact) < FAR * report.mean_square_errors).all()
    assert report.verdict != "another law"


def test_reservations_say_what_an_agreement_is_worth():
    dead = dl.compare_laws(dl.res1(1, "relu"), x=-torch.ones(1, 1), depths=[8, 16, 32], draws=300)
    assert any("does not move" in text for text in dead.reservations)
    several = dl.compare_laws(
        dl.res1(2, "tanh"),
        x=torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
        depths=[8, 16, 32],
        draws=300,
    )
    assert any("average over the 3 starting points" in text for text in several.reservations)
    assert not any("does not move" in text or "on average" in text for text in go().reservations)


def test_a_family_wise_level_is_shared_by_every_test_at_every_depth(monkeypatch):
    """At width 2: the log norm, three components and the joint law, at three depths."""
    levels = []

    def energy_test(first, second, level, random):
        levels.append(level)
        return 0.0, 1.0

    monkeypatch.setattr(two_sample, "energy_test", energy_test)
    go(level=0.03)
    assert levels == pytest.approx([0.03 / 15] * 3)


def test_features_are_free_of_the_size_of_the_starting_point():
    h0 = torch.tensor([[3.0, 4.0], [0.6, 0.8]])
    h = torch.tensor([[5.0, 10.0], [1.0, 2.0]])  # in units of |h_0|: (1, 2) both
    found = simulation.features(h, h0, torch.eye(2, dtype=torch.float64))
    expected = [math.log(5.0**0.5), 0.6 + 2 * 0.8, 1.0, 2.0]
    np.testing.assert_allclose(found.numpy(), [expected, expected], rtol=1e-6)
