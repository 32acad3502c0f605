"""What stability must not claim: of states that die or turn, of weights that remember, of inputs of any
size.
"""

import numpy as np
import pytest
import torch

import deeplimit as dl
from deeplimit import theory

TURN = dl.Trend(lambda t: torch.tensor([[0.0, 1.0], [-1.0, 0.0]]))


@pytest.mark.parametrize(
    ("network", "rules"),
    [
        (dl.res1(3, "identity", weights=dl.Trend(lambda t: -torch.eye(3)), exponent=0.5), ("dies",)),
        (dl.res1(1, "identity", exponent=0.1), ("dies",)),
        (dl.inner(2, "tanh", trend=TURN, alpha=0.2, beta=0.5), ("grows_no_further_than_a_turn",)),
        (dl.res1(2, "identity", weights=TURN, exponent=0.75), ("is_not_small_yet",)),
        (dl.res1(2, "identity", weights=TURN, exponent=0.8), ("follows_no_power", "is_not_small_yet")),
        (dl.res1(5, "relu", weights=dl.FractionalBrownian(0.1)), ("should_stay", "is_too_uncertain")),
    ],
    ids=str,
)
def test_what_dies_turns_or_levels_off_is_no_verdict(network, rules):
    report = dl.stability(network, draws=40)
    assert report.hidden_growth.verdict == "cannot tell"
    assert report.hidden_growth.rule in rules


@pytest.mark.parametrize(
    ("hurst", "seed"),
    [(0.6, 0), *(pytest.param(hurst, 1, marks=pytest.mark.nightly) for hurst in (0.55, 0.6, 0.7))],
)
def test_fractional_weights_at_their_critical_exponent_are_not_called_the_identity(hurst, seed):
    """An incoherent part, smaller by L^(1/2 - H) only, lets the change fall at every depth that can be
    run.
    """
    growth = dl.stability(
        dl.res3(5, weights=dl.FractionalBrownian(hurst)), seed=seed, draws=200
    ).hidden_growth
    assert growth.verdict in ("stable", "cannot tell")
    assert growth.interval[0] < 0.0 < growth.interval[1]


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_the_size_of_the_input_of_a_homogeneous_network_does_not_matter(size):
    x = torch.randn(20, 8, generator=torch.Generator().manual_seed(0))
    reports = [dl.stability(dl.res3(8), [10, 30, 100], factor * x, draws=60) for factor in (1.0, size)]
    torch.testing.assert_close(
        *(torch.tensor(report.log_hidden_ratio) for report in reports), atol=1e-4, rtol=0.0
    )
    assert not reports[1].broken


def test_theory_knows_what_it_does_not_know():
    skewed = dl.IID(lambda shape, generator: torch.empty(shape).exponential_(generator=generator) - 1.0)
    for network in (
        dl.inner(3, "tanh", weights=skewed),
        dl.inner(3, "relu", noise=dl.Ito(A=0.1)),
        dl.inner(3, "sigmoid", noise=dl.Ito(A=0.1)),
        dl.res1(3, "tanh", weights=dl.FractionalBrownian(0.3)),
    ):
        assert theory.growth_of(network).critical is None
        assert theory.growth_of(network).predicted is None
    assert (
        theory.growth_of(dl.inner(2, "tanh", trend=TURN, noise=dl.Ito(A=0.1), alpha=0.5, beta=0.5)).critical
        == 0.5
    )
    assert (
        theory.growth_of(dl.res1(10, "gelu", exponent=0.25)).predicted is None
    )  # it grows linearly, and so explodes
    assert theory.growth_of(dl.res1(10, "tanh", exponent=0.25)).predicted == 0.5
    assert theory.growth_of(dl.res1(2, "identity", weights=TURN, exponent=1.5)).predicted is None


@pytest.mark.parametrize("size", [1e-22, 1e-30])
def test_inputs_whose_squares_float32_cannot_hold_are_propagated_all_the_same(size):
    """So near 0 tanh is the identity, but its states are not kept by their logarithm: norms must be taken
    in float64.
    """
    x = size * torch.randn(20, 8, generator=torch.Generator().manual_seed(0))
    reports = [dl.stability(dl.res1(8, name), [10, 30, 100], x, draws=60) for name in ("tanh", "identity")]
    torch.testing.assert_close(
        *(torch.tensor(report.log_hidden_ratio) for report in reports), atol=1e-4, rtol=0.0
    )


def test_sizes_explode_though_few_draws_leave_the_exponent_open():
    """Spreads of e^5 among 16 draws say nothing of γ; a median change of thousands says enough."""
    growth = dl.stability(dl.res1(10, "relu", exponent=0.02), [60, 120, 240], draws=16).hidden_growth
    assert growth.sure[0] < 0.0
    assert (growth.verdict, growth.rule) == ("explosion", "explodes_in_size")
    assert not growth.law_is_resolved
    assert growth.sizes.log_medians[1] > np.log(500.0)


def test_as_many_draws_of_a_stable_network_do_not_explode():
    growth = dl.stability(dl.res1(10, "relu", exponent=0.5), [60, 120, 240], draws=16).hidden_growth
    assert growth.verdict != "explosion"


@pytest.mark.parametrize("seed", [0, 1])
def test_a_gradient_that_levels_off_is_no_identity(seed):
    """Its mean part stays, at a fiftieth or so; an independent part falls as L^-1/2."""
    report = dl.stability(dl.inner(28, "softplus", exponent=1.0), [10, 30, 100, 300], draws=250, seed=seed)
    falls = np.diff(np.median(report.log_gradient_change, axis=1)) / np.diff(np.log(report.depths))
    assert (falls < -0.1).all()
    assert report.gradient_growth.verdict in ("stable", "cannot tell")
    assert report.gradient_growth.sure[1] > 0.0


def test_a_gradient_whose_two_parts_both_fall_is_an_identity():
    report = dl.stability(dl.inner(12, "softplus", exponent=1.5), [10, 30, 100, 300], draws=100)
    assert report.gradient_growth.verdict == report.hidden_growth.verdict == "identity"
