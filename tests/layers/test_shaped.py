"""Shaped networks: the chain of covariances has the law of whole networks, and known moments."""

import math

import pytest
import torch
from scipy import stats

import deeplimit as dl
from deeplimit.judge.in_law.simulation import last_states
from deeplimit.layers.shaped import cholesky

START = torch.linalg.cholesky(0.7 * torch.eye(2, dtype=torch.float64) + 0.3)


def chain(network, depth, draws, seed=0):
    """Covariances (P, m, m) after all layers."""
    h0 = START.expand(draws, 2, 2)
    with torch.no_grad():
        h = last_states(network, depth, h0, torch.Generator().manual_seed(seed))
    return h @ h.mT


def whole(slopes, depth, units, draws, seed):
    """The same from whole matrices: z = √(c/n) W φ(z), layer by layer, and the covariances of φ(z)."""
    stream = torch.Generator().manual_seed(seed)
    above, below = (1.0 + slope / math.sqrt(units) for slope in slopes)
    factor = math.sqrt(2.0 / (above**2 + below**2) / units)
    # √n START as the first n coordinates: two vectors with this Gram matrix.
    active = torch.zeros(draws, units, 2, dtype=torch.float64)
    active[:, :2] = math.sqrt(units) * START.mT
    for _ in range(depth):
        matrix = torch.empty(draws, units, units, dtype=torch.float64).normal_(generator=stream)
        z = (matrix @ active) / math.sqrt(units)
        active = factor * math.sqrt(units) * torch.where(z > 0, above * z, below * z)
    return active.mT @ active / units


def sizes_and_correlations(covariance):
    size = covariance.diagonal(dim1=1, dim2=2)
    return size[:, 0].log().numpy(), (covariance[:, 0, 1] / size.prod(1).sqrt()).numpy()


@pytest.mark.statistical
def test_the_chain_has_the_law_of_networks_with_whole_matrices():
    """Level 1e-5 each; with the slopes exchanged for steeper ones laws differ."""
    slopes = (0.5, -1.5)
    network = dl.shaped_mlp(2, depth_to_width=0.5, slopes=slopes)
    ours = sizes_and_correlations(chain(network, 8, 4000))
    others = sizes_and_correlations(whole(slopes, 8, 16, 2000, seed=1))
    for one, other in zip(ours, others, strict=True):
        assert stats.ks_2samp(one, other).pvalue > 1e-5
    wrong = sizes_and_correlations(whole((2.0, -2.0), 8, 16, 2000, seed=1))
    assert stats.ks_2samp(ours[1], wrong[1]).pvalue < 1e-12


@pytest.mark.statistical
def test_linear_networks_have_products_of_chi_squares():
    """The size of one input, at the level 1e-6."""
    depth, draws = 8, 4000
    network = dl.shaped_mlp(2, depth_to_width=0.5, slopes=(0.0, 0.0))
    size = chain(network, depth, draws)[:, 0, 0]
    units = 2 * depth
    stream = torch.Generator().manual_seed(5)
    alpha = torch.full((draws, depth), units / 2.0, dtype=torch.float64)
    known = (2.0 * torch._standard_gamma(alpha, generator=stream) / units).prod(1)
    assert stats.ks_2samp(size.numpy(), known.numpy()).pvalue > 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize("slopes", [(0.0, -1.0), (2.0, -2.0)])
def test_the_mean_of_one_layer_is_known(slopes):
    """The arc-cosine kernel of a leaky ReLU, within 4.9 standard errors (level 1e-6)."""
    units, draws = 4, 100_000
    recursion = dl.ShapedMLP(slopes)
    h = START.expand(draws, 2, 2)
    normal = torch.empty(draws, units, 2, dtype=torch.float64).normal_(
        generator=torch.Generator().manual_seed(2)
    )
    after = recursion.advance(h, (dl.Layer(normal, 4, 0.0, 1.0),), 0.5)
    covariance = after @ after.mT
    above, below = (1.0 + slope / 2.0 for slope in slopes)
    bend = (above - below) ** 2 / (above**2 + below**2) / math.pi
    expected = torch.tensor([1.0, 0.3 + bend * (math.sqrt(0.91) - 0.3 * math.acos(0.3))])
    found = covariance[:, 0]
    error = found.std(0) / math.sqrt(draws)
    assert ((found.mean(0) - expected).abs() < 4.9 * error).all()
    assert (found.mean(0)[1] - 0.3).abs() > 10 * error[1]  # without the bend, correlations would stay


def test_states_are_scaled_and_turned_with_the_inputs():
    recursion = dl.ShapedMLP()
    stream = torch.Generator().manual_seed(3)
    normal = torch.empty(5, 8, 2, dtype=torch.float64).normal_(generator=stream)
    turn = torch.linalg.qr(torch.empty(2, 2, dtype=torch.float64).normal_(generator=stream)).Q
    h = START.expand(5, 2, 2)
    one = recursion.advance(h, (dl.Layer(normal, 8, 0.0, 1.0),), 0.5)
    scaled = recursion.advance(3.0 * h, (dl.Layer(normal, 8, 0.0, 1.0),), 0.5)
    turned = recursion.advance(h @ turn, (dl.Layer(normal @ turn, 8, 0.0, 1.0),), 0.5)
    torch.testing.assert_close(scaled, 3.0 * one)
    torch.testing.assert_close(turned, one)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_cholesky_factors_multiply_to_the_covariance(size):
    stream = torch.Generator().manual_seed(size)
    root = torch.empty(7, size, size, dtype=torch.float64).normal_(generator=stream)
    covariance = root @ root.mT
    factor = cholesky(covariance)
    torch.testing.assert_close(factor, torch.linalg.cholesky(covariance))
    root[:, -1] = root[:, 0]  # the same input twice
    factor = cholesky(root @ root.mT)
    torch.testing.assert_close(factor @ factor.mT, root @ root.mT, atol=1e-7, rtol=1e-7)
    assert cholesky(torch.full((1, size, size), math.nan)).tril().isnan().any()


def test_slopes_that_are_no_pair_of_numbers_are_refused():
    for wrong in ((1.0,), [0.0, -1.0], "flat", (0.0, math.nan), (0.0, 1e9)):
        with pytest.raises((TypeError, ValueError), match="slopes must be"):
            dl.ShapedMLP(wrong)
