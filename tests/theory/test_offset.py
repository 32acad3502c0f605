"""Weights that shrink inside an activation with σ(0) ≠ 0: divergence like L^(1 - α), and the identity."""

import math

import pytest
import torch

import deeplimit as dl
from deeplimit.driving import layers_of
from deeplimit.papers.cases.trends import mixing, push

TREND, NOISE = dl.Trend(mixing, push), dl.Ito(A=0.1)


def network(alpha, beta=None, *, trend=True, noise=False, activation="softplus"):
    given = dict(trend=TREND if trend else None, noise=NOISE if noise else None)
    return dl.inner(4, activation, alpha=alpha, beta=beta, **given)


def last(made, depth, seed=0):
    rng, h = torch.Generator().manual_seed(seed), torch.ones(3, 4, dtype=torch.float64)
    (law,), (shape,) = made.weights, made.weight_shapes
    for layer in layers_of(law, depth, shape, 3, rng, torch.float64):
        h = made.recursion.advance(h, (layer,), made.exponent)
    return h


@pytest.mark.parametrize(
    "made",
    [network(0.7, 0.8), network(0.8, trend=False, noise=True), network(0.8, 0.9, noise=True)],
    ids=["trend", "noise", "both"],
)
def test_states_diverge_like_the_sum_of_what_layers_add_at_zero(made):
    """h_L / L^(1 - α) tends to σ(0) = ln 2; what is left falls with the depth."""
    regime = made.regime()
    assert (regime.name, regime.theorem, regime.convergence) == ("explosion", None, None)
    assert "scaled_softplus" in regime.closest
    off = [
        float((last(made, depth) / depth ** (1 - made.exponent) - math.log(2.0)).abs().max())
        for depth in (100, 10_000)
    ]
    assert off[1] < 0.4 * off[0]
    assert network(0.7, 0.8, activation="scaled_softplus").regime().name == "identity"
    with pytest.raises(dl.NoTheoremError, match="diverges"):
        made.limit()


@pytest.mark.statistical
@pytest.mark.parametrize(("made", "order"), [(network(1.4, 0.5), 0.4), (network(1.6, noise=True), 0.6)])
def test_above_exponent_one_they_vanish_at_the_predicted_order(made, order):
    """Level 1e-3. A limit that turns states is caught."""
    knobs = dict(depths=[16, 32, 64, 128], paths=200)
    report = dl.compare(made, confidence=0.999, **knobs)
    low, high = report.rate_interval
    assert (report.verdict, report.predicted_rate) == ("converges", pytest.approx(order))
    assert low - 0.01 < order < high + 0.01
    turning = dl.compare(made, lambda t, h: 0.5 * h.roll(1, dims=1), **knobs)
    assert turning.verdict == "does not converge"


@pytest.mark.parametrize(
    "made",
    [
        network(0.4, 0.6),  # the trend keeps its size
        network(0.4, 0.3),
        network(0.4, trend=False, noise=True),  # noise times a state that grows
        network(0.0, trend=False, noise=True),
        network(1.0, 0.5),
    ],
    ids=str,
)
def test_elsewhere_nothing_is_said(made):
    assert made.regime().name == "no theorem"
    with pytest.raises(dl.NoTheoremError, match=r"Assumption 4\.2"):
        made.limit()
