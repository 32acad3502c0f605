"""Rows on shaped networks: which exponent and slopes lead to which covariance SDE."""

import dataclasses
from dataclasses import dataclass

import pytest
import torch

import deeplimit as dl

START = torch.linalg.cholesky(0.7 * torch.eye(2) + 0.3)[None]


@pytest.mark.parametrize(
    ("slopes", "exponent", "difference"),
    [((0.0, -1.0), None, 1.0), ((1.0, -1.0), 0.5, 2.0), ((1.0, -1.0), 1.0, 0.0), ((2.0, 2.0), 0.5, 0.0)],
)
def test_the_limit_knows_the_slopes_by_their_difference_alone(slopes, exponent, difference):
    network = dl.shaped_mlp(2, depth_to_width=0.5, slopes=slopes, exponent=exponent)
    assert network.limit() == dl.CovarianceSDE(2, 0.5, difference)
    regime = network.regime()
    assert (regime.name, regime.rate, regime.convergence) == ("sde", None, "in law")
    assert regime.citations == ("li2022",)


def test_below_the_exponent_one_half_no_theorem_is_claimed():
    network = dl.shaped_mlp(2, exponent=0.4)
    assert network.regime().name == "no theorem"
    with pytest.raises(dl.NoTheoremError, match="inputs align at once"):
        network.limit()
    assert dl.shaped_mlp(2, slopes=(1.0, 1.0), exponent=0.4).regime().name == "sde"  # linear whatever it is
    with pytest.raises(dl.NoTheoremError, match="rows of standard normal numbers alone"):
        dl.ResidualNetwork(dl.ShapedMLP(), 2).limit()


@dataclass(frozen=True)
class Rows(dl.WeightLaw):
    """A user's law of hidden units, which takes all but its facts from the library's."""

    stated: dl.Facts
    layer_exponent = 0.0

    @property
    def facts(self):
        return self.stated

    def channels(self, shape):
        return dl.HiddenUnits(0.5).channels(shape)

    def path(self, shape, grid, paths, generator, dtype):
        return dl.HiddenUnits(0.5).path(shape, grid, paths, generator, dtype)

    def describe(self):
        return "rows"


@pytest.mark.parametrize(
    ("stated", "name"),
    [
        ({}, "sde"),
        ({"depth_to_width": None}, "no theorem"),
        ({"gaussian": False}, "no theorem"),
        ({"independent_entries": None}, "no theorem"),
        ({"dependence": dl.Dependence.UNKNOWN}, "no theorem"),
    ],
)
def test_a_users_law_with_the_facts_of_hidden_units_has_their_theorem(stated, name):
    facts = dataclasses.replace(dl.HiddenUnits(0.5).facts, **stated)
    network = dl.ResidualNetwork(dl.ShapedMLP(), 2, weights=Rows(facts))
    assert network.regime().name == name
    if name == "sde":
        assert network.limit() == dl.CovarianceSDE(2, 0.5, 1.0)


@pytest.mark.parametrize(
    ("slopes", "exponent", "powers"),
    [
        ((1.0, -1.0), 0.5, (1.0, 2.0)),
        ((0.0, -1.0), 0.5, (0.5, 1.0)),
        ((0.0, -1.0), 0.75, (0.5, 1.0)),
        ((1.0, -1.0), 0.625, (0.25, 0.5)),
        ((1.0, -1.0), 0.875, (0.75, 1.0)),
        ((1.0, -1.0), 0.5 + 1e-12, (1.0, 2.0)),
        ((0.0, -1.0), 1.0, (1.0, 2.0)),
        ((3.0, 3.0), 0.5, (1.0, 2.0)),
    ],
)
def test_differences_of_laws_fall_in_known_powers(slopes, exponent, powers):
    assert dl.ShapedMLP(slopes).powers_in_law(exponent) == powers


@pytest.mark.nightly
@pytest.mark.statistical
def test_slopes_that_vanish_faster_lead_to_the_linear_limit():
    """At the level 1e-6 for a confident wrong answer; the shaped limit is told apart."""
    network = dl.shaped_mlp(2, slopes=(3.0, -3.0), exponent=1.0)
    size = {"x": START, "depths": [16, 32, 64], "draws": 16384, "level": 1e-6}
    assert dl.compare_laws(network, **size).verdict != "another law"
    assert dl.compare_laws(network, dl.CovarianceSDE(2, 1.0, 6.0), **size).verdict == "another law"
