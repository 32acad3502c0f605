"""What stability must not claim: of states that die or turn, of weights that remember, of inputs of any
size.
"""

import re

import pytest
import torch

import deeplimit as dl
from deeplimit import theory

TURN = dl.Trend(lambda t: torch.tensor([[0.0, 1.0], [-1.0, 0.0]]))


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (dl.res1(3, "identity", weights=dl.Trend(lambda t: -torch.eye(3)), exponent=0.5), "it dies"),
        (dl.res1(1, "identity", exponent=0.1), "it dies"),
        (dl.inner(2, "tanh", trend=TURN, alpha=0.2, beta=0.5), "dies or turns round"),
        (dl.res1(2, "identity", weights=TURN, exponent=0.75), "not small yet"),
        (dl.res1(2, "identity", weights=TURN, exponent=0.8), "no power of the depth|not small yet"),
        (dl.res1(5, "relu", weights=dl.FractionalBrownian(0.1)), "theory has a change that stays"),
    ],
    ids=str,
)
def test_what_dies_turns_or_levels_off_is_no_verdict(network, words):
    report = dl.stability(network, draws=40)
    assert report.hidden_growth.verdict == "cannot tell"
    assert re.search(words, report.hidden_growth.reason)


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
