"""Signal and gradient drawn through products of Gaussian matrices have the joint law of whole matrices."""

import pytest
import torch
from scipy import stats
from torch.nn import functional

import deeplimit as dl
from deeplimit.signal.passes import backward, forward
from deeplimit.signal.products import GaussianInLaw
from deeplimit.signal.task import draw_network

LEVEL = 1e-5


def leaky(x):
    return functional.leaky_relu(x, 0.8)


HOMOGENEOUS = {
    "res1 leaky": lambda d: dl.res1(d, leaky),
    "res1 relu": lambda d: dl.res1(d, "relu"),
    "res2 leaky": lambda d: dl.res2(d, leaky),
    "res3": lambda d: dl.res3(d),
    "inner relu": lambda d: dl.inner(d, "relu", weights=dl.Brownian()),
    "inner identity": lambda d: dl.inner(d, "identity", weights=dl.Brownian()),
}
OTHER = {
    "res1 tanh": lambda d: dl.res1(d, "tanh"),
    "res2 softplus": lambda d: dl.res2(d, "softplus"),
    "inner tanh": lambda d: dl.inner(d, "tanh", weights=dl.Brownian()),
}


def walk(network, depth, draws, *, in_law, seed=0):
    """Return (h_0, h_L, p_0, p_L), each (draws, d), of networks drawn in law or whole."""
    scales = torch.tensor(depth**-network.exponent, dtype=torch.float64)
    layers = draw_network(
        network,
        depth,
        draws,
        lambda i: torch.Generator().manual_seed(10 * seed + i),
        torch.float64,
        scales,
        in_law=in_law,
    )
    generator = torch.Generator().manual_seed(seed + 5)
    start, end = (
        torch.randn(draws, network.width, 1, generator=generator, dtype=torch.float64) for _ in range(2)
    )
    signal, gates = forward(layers, start)
    gradient = backward(layers, gates, end)
    ends = (start, signal.value * signal.log_unit.exp(), gradient.value * gradient.log_unit.exp(), end)
    return [tensor[:, :, 0] for tensor in ends]


def unconditioned(self, k, v):
    """Gᵀv as if nothing were known of G: what the joint law of signal and gradient must not be drawn by."""
    size = torch.linalg.vector_norm(v, dim=1, keepdim=True)
    return torch.empty_like(v).normal_(0.0, 1.0 / self.root, generator=self.generator) * size


def gap_of_eulers_identity(network):
    """A network that scaling passes through is J h_0 = h_L, so p_0·h_0 = p_L·h_L draw by draw."""
    start, last, first, end = walk(network, 7, 50, in_law=True)
    return float(((first * start).sum(1) - (end * last).sum(1)).abs().max())


@pytest.mark.parametrize("name", sorted(HOMOGENEOUS))
@pytest.mark.parametrize("width", [1, 2, 6])
def test_gradients_drawn_in_law_belong_to_the_signal(name, width, monkeypatch):
    assert gap_of_eulers_identity(HOMOGENEOUS[name](width)) < 1e-11
    monkeypatch.setattr(GaussianInLaw, "transpose", unconditioned)
    assert gap_of_eulers_identity(HOMOGENEOUS[name](width)) > 1e-2


def statistics(states):
    """Return functions of signal and gradient, alone and jointly, (6, draws)."""
    start, last, first, end = states
    hidden = (last.norm(dim=1) / start.norm(dim=1)).log()
    gradient = (first.norm(dim=1) / end.norm(dim=1)).log()
    changes = [((last - start).norm(dim=1) + 1e-9).log(), ((first - end).norm(dim=1) + 1e-9).log()]
    joint = [
        hidden + gradient,
        hidden - gradient,
        changes[0] - changes[1],
        (first * start).sum(1),
        (first * last).sum(1),
    ]
    return torch.stack([hidden, gradient, *changes, *joint]).numpy()


def least_p_value(a, b):
    return min(stats.ks_2samp(x, y).pvalue for x, y in zip(statistics(a), statistics(b), strict=True))


@pytest.mark.statistical
@pytest.mark.parametrize("name", sorted(HOMOGENEOUS | OTHER))
@pytest.mark.parametrize("width", [1, 5])
def test_products_drawn_in_law_have_the_joint_law_of_whole_matrices(name, width):
    network = (HOMOGENEOUS | OTHER)[name](width)
    whole, in_law = (walk(network, 4, 6000, in_law=known, seed=known) for known in (False, True))
    assert least_p_value(whole, in_law) > LEVEL / 9


@pytest.mark.statistical
@pytest.mark.parametrize("name", sorted(HOMOGENEOUS | OTHER))
def test_products_without_conditioning_have_another_joint_law(name, monkeypatch):
    network = (HOMOGENEOUS | OTHER)[name](2)
    whole = walk(network, 4, 6000, in_law=False)
    monkeypatch.setattr(GaussianInLaw, "transpose", unconditioned)
    assert least_p_value(whole, walk(network, 4, 6000, in_law=True, seed=1)) < LEVEL / 9
