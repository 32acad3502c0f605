"""Moving averages: the filter that layers are, what they add up to, and the limit of res-1 on them."""

import dataclasses

import pytest
import torch

import deeplimit as dl
from deeplimit.driving.path import Grid

SETTINGS = {"depths": [32, 64, 128, 256, 512], "paths": 2000, "norm": "final"}


def walked(law, depth, paths, seed=0):
    """Return the layers (L, P) of one depth, in units of variance 1, and the innovations (L, P)."""
    grid, layers, innovations = Grid((depth,)), [], []
    path = law.path((), grid, paths, torch.Generator().manual_seed(seed), torch.float64)
    for chunk in grid.chunks():
        path.begin(chunk)
        for index in range(len(chunk.ends)):
            path.advance(index)
            innovations.append(path.brownian[:, 0].clone())
            layers.append(path.layer(0).values.clone())
    return torch.stack(layers) * depth**0.5, torch.stack(innovations) * depth**0.5


def test_layers_are_the_filter_of_the_innovations_of_their_depth():
    layers, innovations = walked(dl.MovingAverage((2, -1, 2)), 7, paths=3)
    expected = (2 * innovations[2:] - innovations[1:-1] + 2 * innovations[:-2]) / 3  # √(4 + 1 + 4) = 3
    torch.testing.assert_close(layers[2:], expected, rtol=1e-12, atol=1e-14)


def test_correlations_are_those_of_the_filter_from_the_first_layer_on():
    layers, _ = walked(dl.MovingAverage((1, 1, 1)), 5, paths=40_000)
    found = layers @ layers.T / layers.shape[1]
    lags = (torch.arange(5)[:, None] - torch.arange(5)).abs()
    expected = torch.clamp(1 - lags / 3, min=0).double()  # 1, 2/3, 1/3, 0
    torch.testing.assert_close(found, expected, rtol=0, atol=0.03)  # six standard errors of at most 1/√20000


@pytest.mark.parametrize(
    ("coefficients", "response", "memory"),
    [
        ((0, 5), 1.0, 0.0),  # a delay, which another law of the driving path has
        ((1, 1, 1), 3**0.5, 1.0),
        ((1, 0.6, 0.3), 1.9 / 1.45**0.5, (0.6 + 0.6 * 0.3 + 0.3) / 1.45),
        ((1, -1), 0.0, -0.5),  # nothing adds up, and the drift alone is left
    ],
)
def test_the_limit_has_the_long_run_variance_and_the_sum_of_the_correlations(coefficients, response, memory):
    limit = dl.res1(3, "tanh", weights=dl.MovingAverage(coefficients)).limit()
    assert limit.response == pytest.approx(response, abs=1e-12)
    assert limit.memory == pytest.approx(memory, abs=1e-12)


def test_a_linear_network_tends_to_the_exact_solution_with_the_long_run_variance():
    # At width 1, log h_L is the sum of the layers over √L, r B, less half the sum of their squares, 1.
    weights = dl.MovingAverage((1, 0.6, 0.3))
    network = dl.res1(1, "identity", weights=weights)
    limit = network.limit()

    def growth(r, m):
        return dl.SDE(
            lambda t, h: m * h,
            lambda t, h, dB: r * h * dB,
            noise="scalar",
            solution=lambda t, h0, B: h0 * torch.exp(r * B + (m - r**2 / 2) * t),
        )

    right = dl.compare(network, growth(limit.response, limit.memory), **SETTINGS)
    assert right.verdict == "converges"
    assert right.rate_interval[0] < 0.5 < right.rate_interval[1]
    for r, m in ((1.0, limit.memory), (limit.response, 0.0)):
        assert dl.compare(network, growth(r, m), **SETTINGS).verdict == "does not converge"


@pytest.mark.nightly
def test_res1_tends_to_its_limit_and_not_with_the_variance_of_one_layer():
    network = dl.res1(3, "tanh", weights=dl.MovingAverage((1, 0.6, 0.3)))
    assert dl.compare(network, **SETTINGS).verdict == "converges"
    for wrong in ({"response": 1.0}, {"memory": 0.0}):
        twin = dl.compare(network, dataclasses.replace(network.limit(), **wrong), **SETTINGS)
        assert twin.verdict == "does not converge", wrong


def test_only_ratios_matter_and_lists_are_taken():
    assert dl.MovingAverage([2, 1]) == dl.MovingAverage((2.0, 1.0))
    one, three = (walked(dl.MovingAverage(c), 4, paths=2)[0] for c in ((1, 0.5), (3, 1.5)))
    torch.testing.assert_close(one, three)


@pytest.mark.parametrize(
    ("coefficients", "error", "told"),
    [
        (0.5, TypeError, r"coefficients .*0\.5"),
        ((1, "a"), TypeError, r"coefficients\[1\] .*'a'"),
        ((1, float("nan")), ValueError, r"coefficients\[1\] .*nan"),
        ((0, 0.0), ValueError, r"coefficients .*\(0\.0, 0\.0\)"),
        ((), ValueError, r"coefficients .*\(\)"),
    ],
)
def test_coefficients_that_are_no_filter_are_refused_by_name(coefficients, error, told):
    with pytest.raises(error, match=told):
        dl.MovingAverage(coefficients)
