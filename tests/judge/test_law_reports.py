"""Laws: what is refused and how, and the reports that come of the rest."""

import dataclasses
import functools
import math

import matplotlib.figure
import numpy as np
import pytest
import torch
from refusals import assert_refused, row
from samplers import skewed

import deeplimit as dl
from deeplimit.judge.in_law import simulation, two_sample

# Pairing and refusals


@pytest.mark.parametrize(
    "network", [dl.res3(4), dl.res2(4, "relu"), dl.res3(4, weights=dl.IID("rademacher"))], ids=str
)
def test_res3_has_a_limit_in_law_and_compare_points_to_the_function_for_it(network):
    assert network.limit() == dl.IsotropicSDE(4)
    assert network.regime().convergence == "in law"
    call, name = (
        functools.partial(dl.compare, network, depths=[2, 4]),
        type(network.recursion).__name__.lower(),
    )
    assert_refused(call, dl.NoTheoremError, name, "in law only", "compare_laws")


@pytest.mark.parametrize("limit", [dl.IsotropicSDE(1), dl.Independent(dl.IsotropicSDE(1))])
def test_a_limit_in_law_is_refused_path_by_path_even_at_width_1(limit):
    call = functools.partial(dl.compare, dl.res1(1, "tanh"), limit, depths=[2, 4])
    assert_refused(call, ValueError, "in law only", "compare_laws")


@pytest.mark.parametrize(
    ("network", "pins"),
    [
        (lambda: dl.res2(4, "tanh", weights=dl.IID("uniform")), ("res2", "in law only", "compare_laws")),
        (lambda: dl.res3(4, weights=dl.IID(skewed)), ("res3", "skewed weights", "LawLimit")),
        (lambda: dl.res3(4, exponent=0.25), ("res3", "exponent 0.25", "grow without bound")),
        (lambda: dl.inner(4, "relu"), ("inner", "exponent 0.5", "not odd")),
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


SMOOTH, ITO = dl.res1(2, weights=dl.SmoothGaussian()), dl.inner(2, "tanh", noise=dl.Ito(A=0.1))
BAD = [
    ("no network", lambda: go(torch.nn.Identity()), TypeError, "resnet", "Identity()"),
    ("functions of time", lambda: go(SMOOTH), ValueError, "resnet", "independent layers", "smooth"),
    ("Itô", lambda: go(ITO), ValueError, "resnet", "independent layers", "inner"),
    ("two depths", lambda: go(depths=[2, 4]), ValueError, "depths", "[2, 4]"),
    ("few draws", lambda: go(draws=199), ValueError, "draws", "200", "199"),
    ("level 0", lambda: go(level=0), ValueError, "level", "0", "0"),
    ("level 0.95", lambda: go(level=0.95), ValueError, "level", "0.2", "0.95"),
    ("tolerance 0", lambda: go(tolerance=0.0), ValueError, "tolerance", "0", "0"),
    ("few steps", lambda: go(steps=4), ValueError, "steps", "8", "4"),
    ("x of zeros", lambda: go(x=torch.tensor([[1.0, 1], [0, 0]])), ValueError, "x", "row 1"),
    ("identity", lambda: go(dl.res3(2, exponent=1.0)), ValueError, "limit", "noise", "dH = 0"),
    ("an ODE", lambda: go(dl.res3(2), lambda t, h: h), ValueError, "limit", "noise", "user's ODE"),
    ("another width", lambda: go(dl.res3(2), dl.IsotropicSDE(3)), ValueError, "limit", "3", "2"),
    ("a tensor", lambda: go(dl.res3(2), torch.ones(2)), TypeError, "limit", "tensor of shape (2,)"),
    (
        "another shape",
        lambda: go(dl.res3(2), Drawn(torch.ones(3))),
        ValueError,
        "limit.draw",
        "(1, 2)",
        "(3,)",
    ),
    ("a law of None", lambda: go(dl.res3(2), Drawn()), ValueError, "limit.draw", "(1, 2)", "NoneType"),
    ("a rate of 0", lambda: dl.IsotropicSDE(2, 0.0), ValueError, "rate", "0.001", "0"),
    ("a width of 0", lambda: dl.IsotropicSDE(0), ValueError, "width", "1", "0"),
]


@pytest.mark.parametrize(("call", "error", "pins"), [row(*each) for each in BAD])
def test_a_bad_call_is_refused_and_its_argument_named(call, error, pins):
    assert_refused(call, error, *pins)


# Reports


def test_numbers_depend_on_the_seed_and_on_no_other_depth():
    network, knobs = dl.res3(5, weights=dl.IID("uniform")), {"draws": 300, "seed": 3}
    one, more = (dl.compare_laws(network, depths=depths, **knobs) for depths in ([2, 4, 8], [4, 8, 16]))
    assert more.mean_squares[:2].tolist() == one.mean_squares[1:].tolist()
    other = dl.compare_laws(network, depths=[2, 4, 8], **knobs | {"seed": 4})
    assert other.mean_squares.tolist() != one.mean_squares.tolist()


def test_starting_points_are_taken_in_turn_and_their_size_does_not_matter():
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    reports = [
        dl.compare_laws(dl.res3(2), x=size * x, depths=[2, 4, 8], draws=600, dtype="float64")
        for size in (1.0, 8.0)
    ]
    assert reports[0].differences == pytest.approx(reports[1].differences, abs=1e-9)
    assert reports[0].inputs == "3 given, in turn"
    wide = dl.compare_laws(dl.res3(2), x=torch.ones(1, 7), depths=[2, 4, 8], draws=300)
    assert wide.verdict != "another law"


def test_the_plot_shows_every_depth_the_limit_and_their_differences():
    report = dl.compare_laws(dl.res3(3), depths=[2, 4, 8, 16], draws=600, seed=1)
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


def test_a_limit_that_does_not_move_is_one_reservation_more():
    dead, alive = (
        dl.compare_laws(dl.res1(1, "relu"), x=x * torch.ones(1, 1), depths=[8, 16, 32], draws=300)
        for x in (-1, 1)
    )
    assert set(alive.reservations) < set(dead.reservations)
