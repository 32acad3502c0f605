"""The fully connected recursion with a factor δ per layer, and its neural ODE."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from refusals import assert_refused

import deeplimit as dl
from deeplimit.driving import TrendAndNoise, layers_of
from deeplimit.layers import Inner
from deeplimit.papers.cases.trends import mixing, push
from deeplimit.theory import gradients_of, growth_of

BIASED = dl.Trend(mixing, push)
LAWS = {
    "Brownian": dl.Brownian(),
    "uniform": dl.IID("uniform"),
    "smooth": dl.SmoothGaussian(),
    "fractional": dl.FractionalBrownian(0.7),
    "with biases": BIASED,
}
KNOBS = {"depths": [16, 32, 64, 128], "paths": 48, "workers": 1}


def slope(t):
    """A δ that changes with time and its sign."""
    return torch.tensor(1.0 - 1.6 * t)


def drawn_layers(network, depth=7, paths=3):
    rng = torch.Generator().manual_seed(1)
    laws = zip(network.weights, network.weight_shapes, strict=True)
    return list(
        zip(*(layers_of(law, depth, shape, paths, rng, torch.float64) for law, shape in laws), strict=True)
    )


@pytest.mark.parametrize("law", LAWS)
def test_with_delta_one_it_is_inner_to_the_last_bit(law):
    ours = dl.fully_connected(4, "softplus", weights=LAWS[law])
    inner = dl.inner(4, "softplus", weights=LAWS[law])
    assert ours.exponent == inner.exponent
    h = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    mine, theirs = h, h
    for one, other in zip(drawn_layers(ours), drawn_layers(inner), strict=True):
        mine = ours.recursion.advance(mine, one, ours.exponent)
        theirs = inner.recursion.advance(theirs, other, inner.exponent)
    assert torch.equal(mine, theirs)
    assert not torch.equal(mine, h)


ONES = {"number": 1.0, "function": dl.Trend(lambda t: torch.tensor(1.0))}
SHRINKING = TrendAndNoise(None, dl.Ito(A=0.1), 1.0)
TREND = TrendAndNoise(dl.Trend(mixing), None, 0.5)


@pytest.mark.parametrize("delta", ONES)
@pytest.mark.parametrize(
    ("weights", "exponent"),
    [
        (dl.Brownian(), 0.5),
        (dl.Brownian(), 0.8),
        (dl.Brownian(), 0.3),
        (dl.SmoothGaussian(), 1.0),
        (dl.SmoothGaussian(), 1.5),
        (BIASED, 1.0),
        (SHRINKING, 0.0),
        (TREND, 0.5),
        (dl.FractionalBrownian(0.7), 0.7),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, dl.WeightLaw) else str(value),
)
@pytest.mark.parametrize("activation", ["tanh", "softplus"])
def test_with_delta_one_theory_says_what_it_says_of_inner(weights, exponent, activation, delta):
    ours = dl.fully_connected(4, activation, weights=weights, delta=ONES[delta], exponent=exponent)
    inner = dl.ResidualNetwork(Inner(activation), 4, (weights,), exponent)
    assert ours.regime() == inner.regime()
    assert gradients_of(ours) == gradients_of(inner)
    assert growth_of(ours) == growth_of(inner)
    if inner.regime().convergence is None:
        with pytest.raises(dl.NoTheoremError, match="fully connected"):
            ours.limit()
    else:
        assert ours.limit() == inner.limit()


def test_with_delta_one_laws_and_paths_are_compared_as_those_of_inner():
    """The last states are the same numbers, and so are the reports."""
    knobs = dict(depths=[8, 16, 32], draws=2000)
    ours, inner = (dl.compare_laws(made, **knobs) for made in (dl.fully_connected(4), dl.inner(4)))
    np.testing.assert_array_equal(ours.mean_squares, inner.mean_squares)
    assert ours.verdict != "another law"
    smooth = dict(weights=dl.SmoothGaussian())
    report = dl.compare(dl.fully_connected(4, **smooth), **KNOBS)
    assert report.verdict == "converges"
    assert report.theorem == dl.inner(4, **smooth).regime().theorem


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 6), st.integers(1, 4), st.floats(-3, 3), st.sampled_from(["tanh", "relu"]))
def test_delta_multiplies_the_branch_of_every_layer(width, paths, delta, activation):
    network = dl.fully_connected(width, activation, weights=dl.SmoothGaussian(), delta=delta)
    inner = dl.inner(width, activation, weights=dl.SmoothGaussian())
    h = torch.randn(paths, width, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for (matrix, factor), (same,) in zip(
        drawn_layers(network, paths=paths), drawn_layers(inner, paths=paths), strict=True
    ):
        ours = network.recursion.residual(h, (matrix, factor), 1.0)
        torch.testing.assert_close(ours, delta * inner.recursion.residual(h, (same,), 1.0))


@dataclass(frozen=True)
class WithoutDelta(dl.ODELimit):
    """dH = σ(A_t H + b_t) dt on the network's own A and b: wrong in δ alone."""

    network: dl.ResidualNetwork
    equation = "dH = σ(A_t H + b_t) dt"

    @property
    def functions(self):
        return self.network.weights

    def bind(self, functions):
        return dl.NeuralODE(Inner("tanh"), self.network.weights[:1], self.network.width).bind(functions[:1])


@pytest.mark.parametrize(
    ("weights", "delta"),
    [(BIASED, 0.5), (dl.SmoothGaussian(0.3), dl.Trend(slope)), (BIASED, dl.SmoothGaussian(0.5))],
    ids=["shared", "per layer", "random"],
)
def test_its_neural_ode_is_reached_at_order_one_and_not_without_delta(weights, delta):
    network = dl.fully_connected(4, "tanh", weights=weights, delta=delta)
    report = dl.compare(network, **KNOBS)
    low, high = report.rate_interval
    assert report.verdict == "converges"
    assert low - 0.03 <= 1.0 <= high + 0.03
    assert "Cohen" in str(report.theorem)
    assert dl.compare(network, WithoutDelta(network), **KNOBS).verdict == "does not converge"


def test_the_limit_is_the_equation_written_out():
    network = dl.fully_connected(4, "tanh", weights=BIASED, delta=dl.Trend(slope))
    h = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for t in (0.0, 0.3, 1.0):
        inside = h @ mixing(t).double().T + push(t).double()
        torch.testing.assert_close(network.limit()(t, h), slope(t).double() * torch.tanh(inside))


def test_a_closed_form_in_one_dimension():
    """dH = δ_t H dt with δ_t = 1 - 1.6 t and σ the identity: H_1 = exp(0.2) h_0."""
    one = dl.Trend(lambda t: torch.ones(1, 1))
    network = dl.fully_connected(1, "identity", weights=one, delta=dl.Trend(slope))
    x = torch.linspace(1.0, 2.0, 16, dtype=torch.float64)[:, None]
    size = x.square().mean().sqrt().item()
    wrong = dl.compare(network, lambda t, h: h * (1.0 - 1.6 * t) + 0.5, x, **KNOBS | {"paths": 16})
    right = dl.compare(network, lambda t, h: h * (1.0 - 1.6 * t), x, **KNOBS | {"paths": 16, "norm": "final"})
    layers = [np.prod(1 + (1 - 1.6 * np.arange(1, L + 1) / L) / L) for L in KNOBS["depths"]]
    np.testing.assert_allclose(right.raw_errors, size * np.abs(np.array(layers) - np.exp(0.2)), rtol=1e-5)
    assert wrong.verdict == "does not converge"


@pytest.mark.parametrize(
    "network",
    [
        dl.fully_connected(4, delta=0.5),
        dl.fully_connected(4, delta=dl.Trend(lambda t: torch.tensor(1.0 if t < 0.99 else 0.999))),
        dl.fully_connected(4, weights=dl.SmoothGaussian(), delta=dl.Brownian(), exponent=1.0),
    ],
    ids=["independent A", "nearly one", "random delta"],
)
def test_all_else_has_no_theorem_but_is_measured(network):
    assert network.regime().name == "no theorem"
    with pytest.raises(dl.NoTheoremError):
        network.limit()
    assert dl.stability(network, depths=[4, 8, 16], draws=20).critical_exponent is None


def test_relu_networks_keep_the_logarithm_of_their_size():
    network = dl.fully_connected(4, "relu", delta=dl.IID("rademacher"), exponent=0.0)
    report = dl.stability(network, depths=[50, 200, 800], draws=30)
    assert report.verdict == "explosion"
    assert report.overflowed.tolist() == [0, 0, 0]


def test_bad_calls_are_refused():
    matrix = dl.Trend(lambda t: torch.eye(4))
    assert_refused(lambda: dl.fully_connected(0), ValueError, "width", "0")
    assert_refused(lambda: dl.fully_connected(4, delta="1"), TypeError, "delta", "'1'")
    assert_refused(lambda: dl.fully_connected(4, delta=float("nan")), ValueError, "delta", "nan")
    assert_refused(lambda: dl.fully_connected(4, delta=matrix), ValueError, "Trend", "(4, 4)")
    assert_refused(lambda: dl.fully_connected(4, weights=3), TypeError, "weights", "3")
    biased = dl.Trend(lambda t: torch.tensor(1.0), lambda t: torch.tensor(1.0))
    assert_refused(lambda: dl.fully_connected(4, delta=biased), ValueError, "δ", "bias")
