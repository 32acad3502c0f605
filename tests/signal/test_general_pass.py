"""Signal and gradient of any recursion: the general pass agrees with the plain one and with autograd."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import deeplimit as dl
from deeplimit.driving import layers_of
from deeplimit.signal.general_pass import as_columns, propagate
from deeplimit.signal.passes import Layers, backward, forward
from deeplimit.signal.products import drawn_product

WIDTH, DEPTH, PATHS = 6, 11, 5
F64 = torch.float64
PUSHED = dl.Trend(lambda t: (1 + t) * torch.eye(WIDTH), lambda t: t * torch.ones(WIDTH))
PLAIN = {
    "res1": dl.res1(WIDTH, "tanh"),
    "res1, relu": dl.res1(WIDTH, "relu", exponent=0.1),
    "res2": dl.res2(WIDTH, "sin", weights=(dl.Brownian(), dl.SmoothGaussian())),
    "res3": dl.res3(WIDTH),
    "res3, smooth": dl.res3(WIDTH, weights=dl.SmoothGaussian(), exponent=0.3),
    "inner": dl.inner(WIDTH, "tanh", weights=dl.FractionalBrownian(0.7)),
    "inner with biases": dl.inner(WIDTH, "relu", weights=PUSHED),
}
OTHER = {
    "modified res1": dl.modified_res1(WIDTH, "tanh", weights=dl.FractionalBrownian(0.7)),
    "fully connected": dl.fully_connected(WIDTH, "relu", delta=dl.IID("rademacher")),
    "fully connected, biases": dl.fully_connected(WIDTH, "tanh", weights=PUSHED, delta=dl.SmoothGaussian()),
    "convolutional": dl.convolutional(2, size=(4, 3)),
    "convolutional, shortcut": dl.convolutional(2, "tanh", size=(3, 5), shortcut=True),
}


def draw(network, depth=DEPTH, paths=PATHS):
    """Starting states, gradients at the output, and all layers."""
    rng = torch.Generator().manual_seed(3)
    laws = zip(network.weights, network.weight_shapes, strict=True)
    layers = [layers_of(law, depth, shape, paths, rng, F64) for law, shape in laws]
    ends = (torch.randn(paths, *network.state_shape, dtype=F64, generator=rng) for _ in range(2))
    return *ends, list(zip(*layers, strict=True))


@dataclass(frozen=True)
class Stacked:
    """Layers that were drawn, all in one tensor."""

    matrices: torch.Tensor
    scale: float


def by_the_plain_pass(network, start, end, layers):
    products = []
    for index in range(len(network.weights)):
        matrices = torch.stack([each[index].values for each in layers])
        products.append(drawn_product(Stacked(matrices, layers[0][index].scale())))
    outer, inner = network.recursion.sides(products)
    biases = [layer.bias for each in layers for layer in each if layer.bias is not None]
    scale = torch.tensor(float(len(layers)) ** -network.exponent, dtype=F64)
    activation = network.recursion.activation
    drawn = Layers(len(layers), outer, inner, torch.stack(biases) if biases else None, scale, activation)
    hidden, gates = forward(drawn, as_columns(start))
    return hidden, backward(drawn, gates, as_columns(end))


@pytest.mark.parametrize("name", PLAIN)
def test_the_general_pass_agrees_with_the_plain_one(name):
    network = PLAIN[name]
    start, end, layers = draw(network)
    for ours, theirs, origin in zip(
        propagate(network, layers, start, end),
        by_the_plain_pass(network, start, end, layers),
        (start, end),
        strict=True,
    ):
        for one, other in zip(
            ours.logarithms(as_columns(origin)), theirs.logarithms(as_columns(origin)), strict=True
        ):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", [*PLAIN, *OTHER])
def test_the_general_pass_agrees_with_autograd_through_all_layers(name):
    network = {**PLAIN, **OTHER}[name]
    start, end, layers = draw(network)
    state = start.clone().requires_grad_()
    h = state
    for each in layers:
        h = network.recursion.advance(h, each, network.exponent)
    (p,) = torch.autograd.grad(h, state, end)
    hidden, gradient = propagate(network, layers, start, end)
    for signal, expected, origin in ((hidden, h, start), (gradient, p, end)):
        size = origin.flatten(1).norm(dim=1)
        ratio, change = signal.logarithms(as_columns(origin))
        torch.testing.assert_close(
            ratio[:, 0].exp(), expected.detach().flatten(1).norm(dim=1) / size, rtol=1e-10, atol=0
        )
        moved = (expected.detach() - origin).flatten(1).norm(dim=1)
        torch.testing.assert_close(change[:, 0].exp(), moved / size, rtol=1e-10, atol=0)


def test_a_signal_that_overflows_every_float_keeps_its_logarithm():
    """Kernels of 1 x 1 pixel, one channel: h_{k+1} = h_k (1 + 100), exactly."""
    kernel = dl.Trend(lambda t: torch.full((1, 1, 1, 1), 10.0))
    network = dl.convolutional(1, size=(1, 2), kernel=1, weights=kernel, exponent=0.0)
    report = dl.stability(network, depths=[100, 200, 400], x=torch.ones(1, 1, 1, 2), draws=3)
    expected = np.array([100, 200, 400])[:, None] * np.log(101.0)
    np.testing.assert_allclose(report.log_hidden_ratio, np.broadcast_to(expected, (3, 3)), rtol=1e-6)
    np.testing.assert_allclose(report.log_gradient_ratio, np.broadcast_to(expected, (3, 3)), rtol=1e-6)
    assert report.overflowed.tolist() == [0, 0, 0]


@dataclass(frozen=True)
class Halves(dl.Recursion):
    """h + L^-1 w h: a user's recursion with one number per layer."""

    name: ClassVar[str] = "halves"
    formula: ClassVar[dl.Formula] = dl.Formula("h + L^-{exponent} w h")
    weights: ClassVar[tuple[dl.Weight, ...]] = (dl.Weight("w", shape=""),)

    def residual(self, h, layers, exponent):
        return layers[0].apply(h, exponent)


def test_a_users_recursion_is_measured():
    """With w = 1 the ratio is (1 + 1/L)^L, of the signal and of the gradient."""
    one = dl.Trend(lambda t: torch.tensor(1.0))
    network = dl.ResidualNetwork(Halves("identity"), 3, (one,), 1.0)
    report = dl.stability(network, depths=[10, 40, 160], draws=5, dtype="float64")
    exact = (1 + 1 / report.depths) ** report.depths
    np.testing.assert_allclose(report.hidden_ratio, np.tile(exact[:, None], 5), rtol=1e-9)
    np.testing.assert_allclose(report.gradient_ratio, np.tile(exact[:, None], 5), rtol=1e-9)
    assert report.critical_exponent is None


def test_gradient_changes_that_float32_rounds_away_are_named():
    """(1 + L^-3)^L - 1 is 1e-6 at L = 1000; each layer adds 1e-9, which float32 loses beside 1."""
    network = dl.ResidualNetwork(Halves("identity"), 3, (dl.Trend(lambda t: torch.tensor(1.0)),), 3.0)
    knobs = {"depths": [10, 100, 1000], "draws": 12}
    single, double = (dl.stability(network, **knobs, dtype=dtype) for dtype in ("float32", "float64"))
    np.testing.assert_allclose(double.gradient_change[-1], 1e-6, rtol=1e-3)
    assert (single.gradient_change[-1] == 0).all()
    assert any("12 of 36 gradient changes" in text and "float64" in text for text in single.reservations)
    # Neither where digits are kept, nor in the plain pass, which sums changes by themselves.
    plain = dl.stability(dl.res1(3, "tanh", exponent=3.0), **knobs)
    np.testing.assert_array_less(0.0, plain.gradient_change)
    for report in (double, plain):
        assert not any("round-off" in text for text in report.reservations)


@pytest.mark.parametrize(("exponent", "verdict"), [(1.0, "stable"), (2.0, "identity")])
def test_one_draw_is_enough_where_all_draws_are_the_same(exponent, verdict):
    """h_L = (1 + L^-β)^L h_0 changes by about L^{1-β}: γ = 2 - 2β, without sampling noise."""
    network = dl.ResidualNetwork(Halves("identity"), 3, (dl.Trend(lambda t: torch.tensor(1.0)),), exponent)
    knobs = {"depths": [10, 40, 160, 640], "x": torch.ones(1, 3), "dtype": "float64"}
    one, many = (dl.stability(network, **knobs, draws=draws) for draws in (1, 20))
    for report in (one, many):
        low, high = report.hidden_growth.interval
        assert report.hidden_growth.verdict == verdict
        assert low <= 2 - 2 * exponent <= high
        assert high - low < 0.1
        assert any("All draws of the signal are the same" in text for text in report.reservations)
        assert report.method == "given, the same in every draw"
    assert one.hidden_growth == many.hidden_growth
    assert one.gradient_growth.verdict == "cannot tell"  # the gradient at the output is drawn
    assert many.verdict == verdict


def test_one_draw_of_what_is_random_gives_no_verdict():
    given = dl.Trend(lambda t: torch.eye(3))
    for network, x in (
        (dl.res1(3, "tanh"), torch.ones(1, 3)),  # weights are drawn
        (dl.res1(3, "tanh", weights=given), None),  # inputs are drawn
        (dl.res1(3, "tanh", weights=given), torch.tensor([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]])),
    ):
        report = dl.stability(network, depths=[10, 40, 160], x=x, draws=1)
        assert report.hidden_growth.verdict == "cannot tell"
        assert not any("All draws" in text for text in report.reservations)


@pytest.mark.parametrize("draws", [3, 9, 40])
def test_inputs_that_are_taken_again_are_no_further_draws(draws):
    given = dl.Trend(lambda t: torch.eye(3) * (1 - t))
    x = torch.tensor([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [1.0, 1.0, -3.0]])
    report = dl.stability(
        dl.res1(3, "tanh", weights=given, exponent=1.0), depths=[10, 40, 160, 640], x=x, draws=draws
    )
    low, high = report.hidden_growth.interval
    assert report.hidden_growth.verdict == "stable"
    assert low < 0 < high
    assert high - low < 0.1


@given(st.integers(1, 3), st.integers(1, 5), st.integers(1, 5), st.sampled_from([1, 3, 5]), st.booleans())
def test_states_of_every_shape_pass(channels, height, width, kernel, shortcut):
    network = dl.convolutional(channels, size=(height, width), kernel=kernel, shortcut=shortcut)
    x = torch.randn(2, *network.state_shape, generator=torch.Generator().manual_seed(0)).abs() + 0.1
    report = dl.stability(network, depths=[2, 5], x=x, draws=3, workers=1)
    assert report.hidden_ratio.shape == (2, 3)
    assert (report.hidden_ratio >= 0).all()
