"""What a limit reads of the path that drives a network: only what is the same in both."""

import dataclasses

import pytest
import torch

import deeplimit as dl
from deeplimit.equations.drive import Sharing
from deeplimit.layers import activations

A = torch.tensor([[0.0, 0.5], [-0.5, 0.1]])
TREND = dl.Trend(lambda t: A * (1 + t), lambda t: torch.tensor([0.3, -0.3]))
OTHER = dl.Trend(lambda t: A * (2 + t), lambda t: torch.tensor([0.3, -0.3]))
NOISE = dl.Ito(A=0.02, b=0.1)


def inner(trend, noise):
    return dl.inner(2, "scaled_silu", trend=trend, noise=noise, alpha=0.0, beta=1.0)


def shared(limit, network):
    return limit.sharing(network.weights, network.weight_shapes)


def test_a_linear_sde_reads_the_noise_and_the_trend_of_its_own_network_only():
    network = inner(TREND, NOISE)
    limit = network.limit()
    assert shared(limit, network) == Sharing(increments=True, noise=True, functions=True)
    assert shared(inner(OTHER, NOISE).limit(), network) == Sharing(increments=True, noise=True)
    louder = inner(TREND, dl.Ito(A=0.03, b=0.1))
    assert shared(louder.limit(), network) == Sharing(increments=True, functions=True)
    assert shared(dataclasses.replace(limit, trend=None), network) == Sharing(increments=True, noise=True)
    without = inner(None, NOISE)
    assert shared(without.limit(), without) == Sharing(increments=True, noise=True)
    assert shared(limit, inner(TREND, None)) == Sharing(functions=True)


def test_a_neural_ode_reads_the_functions_of_its_own_law_only():
    network, other = (dl.res1(2, "tanh", weights=dl.SmoothGaussian(length_scale=s)) for s in (0.1, 0.2))
    assert shared(network.limit(), network) == Sharing(functions=True)
    assert shared(network.limit(), other) == Sharing()


def test_a_neural_sde_reads_increments_and_a_young_equation_its_own_path():
    network = dl.res1(2, "tanh")
    assert shared(network.limit(), network) == Sharing(increments=True)
    assert shared(network.limit(), dl.res1(2, "tanh", weights=dl.SmoothGaussian())) == Sharing()
    rough, smoother = (dl.res1(2, "tanh", weights=dl.FractionalBrownian(h)) for h in (0.7, 0.8))
    assert shared(rough.limit(), rough) == Sharing(path=True)
    assert shared(rough.limit(), smoother) == Sharing()


def twisted(inside=None):
    inside = dl.Trend(lambda t: torch.eye(4) * (1 - t)) if inside is None else inside
    return dl.res2(4, "tanh", weights=(dl.Brownian(), inside))


def test_a_network_shares_its_function_with_its_own_limit_alone():
    own, other = twisted(), twisted(inside=dl.Trend(lambda t: torch.eye(4) * (1 + t)))
    laws, shapes = own.weights, ((4, 4), (4, 4))
    assert own.limit().sharing(laws, shapes).functions
    assert own.limit().sharing(laws, shapes).increments
    assert not other.limit().sharing(laws, shapes).functions


@pytest.mark.statistical
def test_draws_in_law_grow_as_their_scheme_does():
    """W_t = 1 + t: E|h + |W h| N(0, 1/(d N))|² = |h|² (1 + W²/N), W read at 0 and 1/2 where N = 2.

    Level: five standard errors.
    """
    limit = dl.MixedSDE(activations.resolve("identity"), dl.Trend(lambda t: torch.eye(4) * (1 + t)), 4)
    h0 = torch.ones(20_000, 4, dtype=torch.float64)
    end = limit.draw_end(h0, torch.Generator().manual_seed(0), 2)
    ratio = end.square().sum(dim=1) / 4
    error = float(ratio.std()) / len(ratio) ** 0.5
    assert abs(float(ratio.mean()) - (1 + 1 / 2) * (1 + 1.5**2 / 2)) < 5 * error
    assert 5 * error < 0.1
