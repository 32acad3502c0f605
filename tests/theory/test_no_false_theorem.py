"""Theorems that were once claimed for networks that they are not about; each claim must stay away."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from users import DEPENDENT, INDEPENDENT, Gated, Louder, OneMatrix, orthogonal, the_same_in_every_call

import deeplimit as dl
from deeplimit.driving import TrendAndNoise
from deeplimit.layers import Inner, Res1, Res2, activations

DEPTHS = [8, 16, 32, 64]
TURN = dl.Trend(lambda t: torch.tensor([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 0.1]]))
TANH = activations.resolve("tanh")


def made(recursion, *weights, exponent, width=3):
    return dl.ResidualNetwork(recursion, width, weights, exponent)


def assert_no_theorem(network):
    regime = network.regime()
    assert (regime.name, regime.theorem, regime.rate, regime.convergence) == ("no theorem", None, None, None)
    assert regime.closest
    with pytest.raises(dl.NoTheoremError, match="cannot pair"):
        network.limit()


@pytest.mark.parametrize("recursion", [Gated(TANH), Louder(TANH)], ids=lambda made: type(made).__name__)
@pytest.mark.parametrize(
    ("law", "exponent"),
    [
        (dl.SmoothGaussian(), 1.0),
        (dl.SmoothGaussian(), 1.5),
        (dl.SmoothGaussian(), 0.5),
        (TURN, 1.0),
        (dl.Brownian(), 0.5),
        (dl.Brownian(), 0.8),
        (dl.Brownian(), 0.25),
        (dl.IID("uniform"), 0.5),
        (dl.FractionalBrownian(0.7), 0.7),
        (dl.FractionalBrownian(0.7), 0.9),
        (dl.FractionalBrownian(0.7), 0.2),
        (TrendAndNoise(TURN, dl.Ito(A=0.1), 1.0), 0.0),
    ],
    ids=lambda value: value.describe() if hasattr(value, "describe") else None,
)
def test_no_theorem_is_about_a_users_recursion(recursion, law, exponent):
    network = made(recursion, law, exponent=exponent)
    assert_no_theorem(network)
    assert "two independent matrices" not in network.regime().explanation


@pytest.mark.nightly
def test_a_users_recursion_with_smooth_weights_is_measured_without_a_theorem():
    network = made(Gated(TANH), dl.SmoothGaussian(), exponent=1.0)
    limit = dl.NeuralODE(network.recursion, network.weights, network.width)
    report = dl.compare(network, limit, depths=[*DEPTHS, 128], paths=1000)
    assert (report.regime, report.theorem, report.predicted_rate) == ("no theorem", None, None)
    assert 0.8 < report.rate < 1.2
    assert report.verdict == "converges"
    with pytest.raises(dl.NoTheoremError):
        dl.compare(network)
    with pytest.raises(ValueError, match="independent layers"):
        dl.compare_laws(network)


def test_a_users_recursion_is_not_propagated_as_if_it_were_the_librarys():
    """Twice res-1 is res-1 with weights twice as large, in signal and in gradient."""
    x = torch.randn(3, 3, generator=torch.Generator().manual_seed(0))
    turns = [dl.Trend(lambda t, size=size: size * TURN.A(t)) for size in (1.0, 2.0, 4.0)]
    half, twice, four = (
        dl.stability(made(recursion, turn, exponent=1.0), DEPTHS, x, draws=3, dtype="float64")
        for recursion, turn in zip((Louder(TANH), Res1(TANH), Res1(TANH)), turns, strict=True)
    )
    for name in ("log_hidden_change", "log_gradient_change"):
        np.testing.assert_allclose(getattr(half, name), getattr(twice, name), rtol=1e-9)
        assert not np.allclose(getattr(half, name), getattr(four, name), rtol=1e-2)


@pytest.mark.parametrize("recursion", [Res1(TANH), Gated(TANH), Louder(TANH)], ids=lambda made: made.name)
@pytest.mark.parametrize(("alpha", "beta"), [(0.0, 1.0), (0.5, 0.5), (1.0, 0.0), (0.8, 0.8), (0.2, 0.2)])
def test_hypotheses_1_and_2_are_about_the_fully_connected_recursion_alone(recursion, alpha, beta):
    law = TrendAndNoise(TURN, dl.Ito(A=0.1, b=0.1), beta)
    assert_no_theorem(made(recursion, law, exponent=alpha))
    assert_no_theorem(made(Res2(TANH), law, law, exponent=alpha))
    assert made(Inner(TANH), law, exponent=alpha).regime().name != "no theorem"


def test_a_measured_growth_is_not_overruled_by_a_theory_that_does_not_match():
    network = made(Res1(TANH), OneMatrix(), exponent=0.5, width=10)
    report = dl.stability(network, [10, 30, 100, 300, 1000], draws=40)
    assert (report.critical_exponent, report.predicted_growth) == (None, None)
    assert report.hidden_growth.interval[0] > 0.2
    assert report.hidden_growth.verdict == "explosion", report.hidden_growth
    assert "theory" not in report.hidden_growth.reason
    assert report.bounds_refused


@pytest.mark.parametrize(("sampler", "width"), [*zip(DEPENDENT, (2, 4, 16, 2, 4, 16, 2, 4), strict=True)])
def test_a_sampler_of_dependent_entries_or_layers_has_no_theorem(sampler, width):
    for exponent in (0.25, 0.5, 0.8):
        network = dl.res1(width, "tanh", weights=dl.IID(sampler), exponent=exponent)
        assert_no_theorem(network)
        assert "not independent" in network.regime().explanation
        assert_no_theorem(dl.res3(width, weights=dl.IID(sampler), exponent=exponent))
    assert network.facts.independent_entries is False
    assert network.facts.found


@pytest.mark.parametrize(("sampler", "width"), [*zip(INDEPENDENT, (1, 2, 3, 16), strict=True)])
def test_a_sampler_of_independent_draws_keeps_its_theorem_and_what_is_not_known(sampler, width):
    network = dl.res1(width, "tanh", weights=dl.IID(sampler))
    regime = network.regime()
    assert regime.convergence == "in law"
    assert "Proposition 11" in regime.theorem
    unknown = " ".join(regime.not_checked)
    for word in ("entries", "layers", "tails", "symmetric"):
        assert word in unknown
        assert word in str(regime)
    assert any("draws" in sentence for sentence in regime.checked)


def test_a_sampler_that_cannot_be_hashed_is_tested_like_any_other():
    @dataclass
    class Scaled:
        scale: float = 1.0

        def __call__(self, shape, generator):
            return self.scale * torch.randn(shape, generator=generator)

    regime = dl.res1(4, "tanh", weights=dl.IID(Scaled())).regime()
    assert "Proposition 11" in regime.theorem


def test_a_dependent_sampler_is_measured_without_a_theorem():
    network = dl.res1(4, "tanh", weights=dl.IID(orthogonal))
    limit = dl.res1(4, "tanh").limit()
    report = dl.compare(network, limit, depths=DEPTHS, paths=64)
    assert (report.theorem, report.predicted_rate) == (None, None)
    assert np.isfinite(report.errors).all()
    propagated = dl.stability(network, [10, 30, 100], draws=40)
    assert (propagated.critical_exponent, propagated.predicted_growth) == (None, None)
    assert np.isnan(propagated.log_normal).all()
    laws = dl.compare_laws(network, limit, depths=[2, 4, 8], draws=400)
    assert laws.theorem is None


def test_modules_are_not_initialised_from_a_dependent_sampler():
    with pytest.raises(TypeError, match="process must be a law with independent entries"):
        dl.init.sample_([torch.empty(4, 4) for _ in range(4)], dl.IID(the_same_in_every_call))
