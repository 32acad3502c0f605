"""Signal and gradient of the two passes are those of automatic differentiation, however large or small they
become.
"""

import dataclasses

import numpy as np
import pytest
import torch
from torch.nn import functional

import deeplimit as dl
from deeplimit.common.randomness import generator
from deeplimit.signal import phase, task
from deeplimit.signal.passes import Layers, backward, forward
from deeplimit.signal.products import Drawn
from deeplimit.signal.task import draw_network

LEVEL = 1e-5
FOUR = ("log_hidden_ratio", "log_hidden_change", "log_gradient_ratio", "log_gradient_change")


def leaky(x):
    return functional.leaky_relu(x, 0.8)


def matrix(width):
    return lambda t: torch.cos(t + torch.arange(width**2, dtype=torch.float64).reshape(width, width))


def trend(width):
    return dl.Trend(matrix(width), lambda t: torch.linspace(-1.0, t, width, dtype=torch.float64))


LAWS = {
    "gaussian": lambda d: dl.Brownian(),
    "uniform": lambda d: dl.IID("uniform"),
    "rademacher": lambda d: dl.IID("rademacher"),
    "smooth": lambda d: dl.SmoothGaussian(),
    "fractional": lambda d: dl.FractionalBrownian(0.7),
    "trend": lambda d: dl.Trend(matrix(d)),
}
RECURSIONS = {
    "res1": lambda d, act, law, exponent: dl.res1(d, act, weights=law, exponent=exponent),
    "res2": lambda d, act, law, exponent: dl.res2(d, act, weights=law, exponent=exponent),
    "res3": lambda d, act, law, exponent: dl.res3(d, weights=law, exponent=exponent),
    "inner": lambda d, act, law, exponent: dl.inner(d, act, weights=law, exponent=exponent),
}
ACTIVATIONS = ("relu", "identity", leaky, "tanh", "softplus")


def streams(seed, device):
    return lambda index: torch.Generator(device).manual_seed(100 * seed + index)


def draw(network, depth, paths=3, seed=0, dtype=torch.float64, device="cpu", columns=()):
    scales = torch.tensor(depth**-network.exponent, dtype=dtype, device=device).expand(columns)
    layers = draw_network(network, depth, paths, streams(seed, device), dtype, scales, in_law=False)
    generator = torch.Generator(device).manual_seed(seed + 77)
    shape = (paths, network.width, *(columns or (1,)))
    ends = [torch.randn(shape, generator=generator, dtype=dtype, device=device) for _ in range(2)]
    return layers, *ends


def explicit(product, start):
    """A product's matrices (L, P or 1, d, d) in float64, or None where there is none."""
    if product is None:
        return None
    if isinstance(product, Drawn):
        return product.layers.double() * product.scale
    width = start.shape[1]
    return start.new_zeros(10**4, 1, width, width, dtype=torch.float64)


def plain(layers, start, wrong=0):
    """h_L as a graph on h_0, written out; `wrong` shifts the layers by so many."""
    outer, inner = (explicit(product, start) for product in (layers.outer, layers.inner))
    h = start
    for k in range(layers.depth):
        used = (k + wrong) % layers.depth
        z = h if inner is None else inner[used] @ h
        if layers.biases is not None:
            z = z + layers.biases[used].double().unsqueeze(-1)
        moved = layers.activation(z) * layers.scales.double()
        h = h + (moved if outer is None else outer[used] @ moved)
    return h


def reference(layers, start, end, wrong=0):
    start = start.double().requires_grad_()
    last = plain(layers, start, wrong)
    (gradient,) = torch.autograd.grad(last, start, end.double())
    return last.detach(), gradient


def passes(layers, start, end):
    signal, gates = forward(layers, start)
    return signal, backward(layers, gates, end)


def whole(signal):
    return signal.value.double() * signal.log_unit.exp()


def distance(a, b):
    """The largest relative difference of two blocks of states (P, d, n)."""
    return float(((a - b).norm(dim=1) / (1e-12 + torch.maximum(a.norm(dim=1), b.norm(dim=1)))).max())


def check(network, depth, dtype, device, seed=0, paths=3, columns=()):
    layers, start, end = draw(network, depth, paths, seed, dtype, device, columns)
    state, gradient = reference(layers, start, end)
    signals = passes(layers, start, end)
    tolerance = 1e-10 if dtype == torch.float64 else 1e-3
    for signal, exact, origin in zip(signals, (state, gradient), (start, end), strict=True):
        assert distance(whole(signal), exact) < tolerance
        ratio, change = signal.logarithms(origin)
        moved = (exact - origin.double()).norm(dim=1) / origin.double().norm(dim=1)
        torch.testing.assert_close(
            ratio.exp(), exact.norm(dim=1) / origin.double().norm(dim=1), rtol=tolerance, atol=tolerance
        )
        torch.testing.assert_close(change.exp(), moved, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("recursion", sorted(RECURSIONS))
@pytest.mark.parametrize("law", sorted(LAWS))
def test_every_law_of_every_recursion_is_exact(recursion, law, device):
    for activation in ACTIVATIONS[:1] if recursion == "res3" else ACTIVATIONS:
        check(RECURSIONS[recursion](4, activation, LAWS[law](4), 0.5), 11, torch.float64, device)
    for width, depth, exponent in ((1, 1, 0.3), (7, 30, 1.4)):
        network = RECURSIONS[recursion](width, "tanh", LAWS[law](width), exponent)
        check(network, depth, torch.float32, device, seed=depth, paths=1, columns=(4,))


@pytest.mark.parametrize(
    "network",
    [
        dl.inner(4, "tanh", weights=trend(4)),
        dl.inner(4, "relu", weights=trend(4)),
        dl.inner(4, "softplus", trend=trend(4), noise=dl.Ito(A=0.3, b=0.2), alpha=0.2, beta=0.5),
        dl.inner(4, "tanh", trend=trend(4), alpha=0.5, beta=0.5),
        dl.inner(4, "tanh", noise=dl.Ito(b=0.2)),
        dl.inner(4, "identity", noise=dl.Ito(A=0.2)),
    ],
    ids=str,
)
def test_biases_and_the_hypotheses_of_cohen_are_exact(network, device):
    check(network, 12, torch.float64, device)


def test_layers_in_another_order_are_another_network():
    layers, start, end = draw(dl.res3(5), 9)
    signals = passes(layers, start, end)
    for signal, wrong in zip(signals, reference(layers, start, end, wrong=1), strict=True):
        assert distance(whole(signal), wrong) > 1e-2


def pieces(layers, start):
    """log |h_L|/|h_0| of a homogeneous network in float64, its state scaled to length 1 after every layer."""
    h, logs = start.double(), torch.zeros(start.shape[0], start.shape[2], dtype=torch.float64)
    one = dataclasses.replace(layers, depth=1)
    for k in range(layers.depth):
        parts = [
            None if p is None else Drawn(p.layers[k : k + 1], p.scale) for p in (layers.outer, layers.inner)
        ]
        following = plain(Layers(1, *parts, None, one.scales, one.activation), h)
        logs += (following.norm(dim=1) / h.norm(dim=1)).log()
        h = following / following.norm(dim=1, keepdim=True)
    return logs


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_explosion_of_hundreds_of_digits_keeps_its_logarithm(dtype):
    layers, start, end = draw(dl.res3(6, exponent=0.0), 3000, dtype=dtype)
    signal, gradient = passes(layers, start, end)
    ratio, change = signal.logarithms(start)
    exact = pieces(layers, start)
    assert float(exact.min()) > 350  # no float64 holds the square of exp(355)
    torch.testing.assert_close(ratio, exact, rtol=0, atol=1e-2 if dtype == torch.float32 else 1e-9)
    torch.testing.assert_close(change, ratio, rtol=0, atol=1e-12)
    assert all(bool(torch.isfinite(log).all()) for log in gradient.logarithms(end))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_state_that_shrinks_to_nothing_keeps_its_digits(dtype):
    """At width 1 |h_L|/|h_0| is the product of |1 + αv|, which dies although its mean square explodes."""
    network = dl.res1(1, "identity", exponent=0.2)
    layers, start, end = draw(network, 3000, dtype=dtype)
    factors = 1.0 + layers.scales.double() * layers.outer.layers.double()
    exact = factors.abs().log().sum(dim=0)[:, :, 0]
    assert float(exact.max()) < -30
    for signal, origin in zip(passes(layers, start, end), (start, end), strict=True):
        ratio, change = signal.logarithms(origin)
        torch.testing.assert_close(ratio, exact, rtol=0, atol=1e-4 if dtype == torch.float32 else 1e-10)
        torch.testing.assert_close(change, torch.zeros_like(change), rtol=0, atol=1e-6)


def test_a_state_that_becomes_zero_stays_zero_and_is_not_called_overflow():
    network = dl.res1(2, "identity", weights=dl.Trend(lambda t: -torch.eye(2)), exponent=0.0)
    report = dl.stability(network, depths=[10, 20, 40], draws=5, dtype="float64")
    assert bool((report.log_hidden_ratio == -np.inf).all())
    np.testing.assert_allclose(report.log_hidden_change, 0.0, atol=1e-10)
    assert not report.overflowed.any()


@pytest.mark.parametrize("recursion", sorted(RECURSIONS))
def test_tiny_changes_keep_five_digits_in_float32(recursion):
    network = RECURSIONS[recursion](7, "tanh", dl.IID("uniform"), 3.0)
    layers, start, end = draw(network, 300, dtype=torch.float32)
    state, gradient = reference(layers, start, end)
    for signal, exact, origin in zip(
        passes(layers, start, end), (state, gradient), (start, end), strict=True
    ):
        moved = ((exact - origin.double()).norm(dim=1) / origin.double().norm(dim=1)).log()
        assert float(moved.max()) < -10  # float32 states alone would hold no digit of it
        torch.testing.assert_close(signal.logarithms(origin)[1], moved, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "network", [dl.res3(6), dl.res1(5, "tanh", weights=dl.FractionalBrownian(0.7))], ids=str
)
def test_a_depth_has_the_same_bits_in_any_list_of_depths_and_no_number_twice(network, monkeypatch):
    monkeypatch.setitem(task.NUMBERS_AT_ONCE, "cpu", 2**7)  # several blocks a depth
    measured, elsewhere = (dl.stability(network, [5, 9, 40], draws=23, seed=seed) for seed in (5, 6))
    alone = [dl.stability(network, [depth], draws=23, seed=5) for depth in (5, 9, 40)]
    for name in FOUR:
        values = getattr(measured, name)
        assert np.array_equal(values, np.concatenate([getattr(report, name) for report in alone]))
        assert not np.isclose(values, getattr(elsewhere, name)).any()
        assert len(np.unique(values)) == values.size


@pytest.mark.parametrize("network", [dl.res3(3), dl.res2(3, "tanh", weights=dl.IID("uniform"))], ids=str)
def test_every_block_depth_and_matrix_has_a_stream_of_its_own(network, monkeypatch):
    for module, run in (
        (task, lambda: dl.stability(network, [1, 2, 3, 4, 5, 8], draws=20)),
        (
            phase,
            lambda: dl.phase_diagram(
                dl.res3, 3, 20, hurst=[0.3, 0.5], exponents=[0.0, 1.0], draws=3, inputs=1
            ),
        ),
    ):
        asked = []

        def recorded(*key, asked=asked):
            asked.append(key[:4])
            return generator(*key)

        monkeypatch.setattr(module, "generator", recorded)
        monkeypatch.setitem(task.NUMBERS_AT_ONCE, "cpu", 2**5)
        run()
        assert len(asked) > 40
        assert len(set(asked)) == len(asked)


def test_inputs_are_taken_in_turn_and_start_where_they_say(device):
    """With weights that are not random the output is a function of the input alone."""
    network = dl.inner(3, "tanh", weights=trend(3))
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
    report = dl.stability(network, [6], x, draws=10, dtype="float64", device=device)
    assert np.allclose(report.log_hidden_ratio[0, :2], report.log_hidden_ratio[0, 8:], rtol=1e-12)
    layers, _, _ = draw(network, 6, paths=1, device=device)
    states = x.double().to(device).unsqueeze(2)
    exact = (plain(layers, states).norm(dim=1) / states.norm(dim=1)).log()[:, 0]
    np.testing.assert_allclose(report.log_hidden_ratio[0, :4], exact.cpu().numpy(), rtol=1e-9)
