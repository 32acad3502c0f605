"""The convolutional recursion: states with channels, measured, compared, and ready to be trained."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings, strategies as st
from refusals import assert_refused
from torch.nn.functional import conv2d

import deeplimit as dl
from deeplimit.driving import Layer, layers_of

F64 = torch.float64
KERNELS = torch.randn(2, 2, 2, 3, 3, generator=torch.Generator().manual_seed(5), dtype=F64) / 4


def outer(t):
    return KERNELS[0] * (1.0 + t)


def inner(t):
    return KERNELS[1] * (1.0 - 0.5 * t)


SMOOTH = (dl.Trend(outer), dl.Trend(inner))


def positive(*shape):
    """States so far above zero that the outer ReLU leaves them alone."""
    return 3.0 + torch.rand(*shape, generator=torch.Generator().manual_seed(2), dtype=F64)


@settings(max_examples=15, deadline=None)
@given(
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 6),
    st.integers(1, 6),
    st.sampled_from([1, 3, 5]),
    st.booleans(),
    st.booleans(),
)
def test_a_layer_is_equation_9_path_by_path(paths, channels, height, width, side, shortcut, shared):
    network = dl.convolutional(channels, size=(height, width), kernel=side, shortcut=shortcut, exponent=0.5)
    rng = torch.Generator().manual_seed(0)
    many = 1 if shared else paths
    kernels = [
        torch.randn(many, channels, channels, side, side, generator=rng, dtype=F64) for _ in network.weights
    ]
    layers = tuple(Layer(kernel, 4, 0.0, 1.0) for kernel in kernels)
    h = torch.randn(paths, channels, height, width, generator=rng, dtype=F64)
    after = network.recursion.advance(h, layers, network.exponent)
    for path in range(paths):
        each = [kernel[0 if shared else path] for kernel in kernels]
        state, pad = h[path : path + 1], side // 2
        branch = conv2d(conv2d(state, each[1], padding=pad).relu(), each[0], padding=pad)
        if shortcut:
            branch = branch + conv2d(state, each[2], padding=pad)
        torch.testing.assert_close(after[path : path + 1], (state + branch / 2).relu())
    torch.testing.assert_close(network.recursion.residual(h, layers, 0.5), after - h)


def test_layers_have_entries_of_variance_one_over_the_fan_in():
    network = dl.convolutional(4, kernel=5, size=(2, 2))
    (law, _), (shape, _) = network.weights, network.weight_shapes
    layer = layers_of(law, 3, shape, 2000, torch.Generator().manual_seed(0), F64)[0]
    assert shape == (4, 4, 5, 5)
    entries = layer.values * layer.scale()
    assert entries.var().item() * 100 == pytest.approx(1.0, rel=0.01)


@pytest.mark.nightly
def test_compare_measures_it_against_a_users_limit_with_images_as_inputs():
    """Where states stay positive the network is an Euler scheme of dH = Δ_t ∗ σ(A_t ∗ H) dt."""
    network = dl.convolutional(2, size=(4, 5), weights=SMOOTH)

    def equation(t, h):
        return conv2d(conv2d(h, inner(float(t)), padding=1).relu(), outer(float(t)), padding=1)

    def pushed(t, h):
        return equation(t, h) + 0.3

    x = positive(48, 2, 4, 5)
    knobs = {"depths": [8, 16, 32, 64, 128], "paths": 48, "workers": 1, "dtype": "float64"}
    report = dl.compare(network, equation, x, **knobs)
    assert network.exponent == 1.0
    assert report.verdict == "converges"
    low, high = report.rate_interval
    assert low - 0.03 <= 1.0 <= high + 0.03
    assert dl.compare(network, pushed, x, **knobs).verdict == "does not converge"


@pytest.mark.parametrize(("law", "shortcut"), [(dl.IID("uniform"), False), (dl.SmoothGaussian(), True)])
def test_stability_measures_it_and_theory_says_nothing(law, shortcut):
    network = dl.convolutional(2, size=(4, 4), weights=law, shortcut=shortcut)
    report = dl.stability(network, depths=[8, 16, 32], draws=30)
    assert network.regime().name == "no theorem"
    assert report.critical_exponent is None
    assert report.bounds == ()
    assert report.hidden_growth.verdict in ("explosion", "stable", "identity", "cannot tell")
    with pytest.raises(dl.NoTheoremError):
        network.limit()


@pytest.mark.parametrize("shortcut", [False, True])
def test_the_gradient_of_a_state_is_the_one_by_finite_differences(shortcut):
    network = dl.convolutional(2, "tanh", size=(3, 3), shortcut=shortcut)
    rng = torch.Generator().manual_seed(0)
    layers = tuple(
        Layer(torch.randn(3, *shape, generator=rng, dtype=F64), 4, 0.5, 0.3)
        for shape in network.weight_shapes
    )
    h, p, step = (torch.randn(3, 2, 3, 3, generator=rng, dtype=F64) for _ in range(3))
    back = network.recursion.vjp(h, layers, 0.5, p)
    ahead, behind = (network.recursion.advance(h + sign * 1e-6 * step, layers, 0.5) for sign in (1, -1))
    expected = (p * (ahead - behind)).flatten(1).sum(1) / 2e-6
    torch.testing.assert_close((back * step).flatten(1).sum(1), expected, rtol=1e-7, atol=1e-7)


def test_bad_calls_are_refused():
    assert_refused(lambda: dl.convolutional(0), ValueError, "channels", "0")
    assert_refused(lambda: dl.convolutional(2, kernel=4), ValueError, "kernel", "4", "5")
    assert_refused(lambda: dl.convolutional(2, kernel=0), ValueError, "kernel", "0")
    assert_refused(lambda: dl.convolutional(2, size=(3,)), ValueError, "size", "(3,)")
    assert_refused(lambda: dl.convolutional(2, size=[3, 4]), TypeError, "size", "tuple", "[3, 4]")
    assert_refused(lambda: dl.Convolutional("tanh", 5), TypeError, "size", "5")
    assert_refused(lambda: dl.convolutional(2, size=(0, 3)), ValueError, "height", "0")
    assert_refused(lambda: dl.convolutional(2, shortcut=1), TypeError, "shortcut", "1")
    network = dl.convolutional(2, size=(3, 4))
    for shape in ((5, 24), (2, 3, 4), (5, 2, 4, 3), (5,)):
        for verb in (dl.stability, lambda net, x: dl.compare(net, dl.Identity(), x)):
            x = torch.zeros(shape)
            assert_refused(
                lambda verb=verb, x=x: verb(network, x=x), ValueError, "x", "(inputs, 2, 3, 4)", str(shape)
            )
    zeros = torch.zeros(2, 2, 3, 4)
    assert_refused(lambda: dl.stability(network, x=zeros), ValueError, "x", "0")
