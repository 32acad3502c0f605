"""Weight processes: sums, moments and covariances against what they must be."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from scipy import stats

import deeplimit as dl
from deeplimit.driving.independent import IncrementPath
from deeplimit.driving.path import FunctionPath, Grid

LEVEL = 1e-5  # of every statistical test here


def heavy_sampler(shape, generator):
    """Student t with 8 degrees of freedom, scaled to unit variance, from normals."""
    normals = torch.randn((9, *shape), generator=generator, device=generator.device)
    return normals[0] / normals[1:].square().mean(dim=0).sqrt() * math.sqrt(6 / 8)


INCREMENT_LAWS = [
    dl.Brownian(),
    dl.IID("gaussian"),
    dl.IID("uniform"),
    dl.IID("rademacher"),
    dl.IID(heavy_sampler),
]
depth_lists = st.lists(st.integers(1, 40), min_size=1, max_size=5, unique=True).map(sorted).map(tuple)


@pytest.mark.parametrize("law", [INCREMENT_LAWS[0], INCREMENT_LAWS[3]], ids=lambda law: law.describe())
@given(depths=depth_lists, seed=st.integers(0, 100))
def test_every_coarse_layer_is_the_sum_of_the_fine_increments_it_spans(law, depths, seed):
    generator = torch.Generator().manual_seed(seed)
    path = law.path((2, 2), Grid(depths), 3, generator, torch.float64)
    assert isinstance(path, IncrementPath)
    grid = Grid(depths, (2 * depths[-1],))
    running = [torch.zeros(3, 2, 2, dtype=torch.float64) for _ in depths]
    layers = [0] * len(depths)
    for chunk in grid.chunks():
        path.begin(chunk)
        for index in range(len(chunk.steps)):
            path.advance(index)
            for total in running:
                total.add_(path.increment)
            for j in reversed(range(len(depths))):
                if chunk.ends[index, j]:
                    layer = path.layer(j)
                    torch.testing.assert_close(layer.values, running[j], rtol=1e-13, atol=1e-13)
                    assert layer.depth == depths[j]
                    running[j].zero_()
                    layers[j] += 1
    assert layers == list(depths)


@pytest.mark.statistical
@pytest.mark.parametrize("law", INCREMENT_LAWS, ids=lambda law: law.describe())
def test_increments_are_centred_with_the_variance_of_their_step(law, device):
    draws = torch.empty(10, 100, 100, device=device)
    law.draw(0.01, draws, torch.Generator(device).manual_seed(1))
    values = draws.double().flatten().cpu().numpy() / 0.1
    limit = stats.norm.isf(LEVEL / 2)
    assert abs(values.mean()) < limit / math.sqrt(values.size)
    assert abs((values**2).mean() - 1) <= limit * (values**2).std() / math.sqrt(values.size) + 1e-6


@pytest.mark.statistical
def test_named_laws_are_the_laws_they_name():
    draws = torch.empty(10, 50, 40, dtype=torch.float64)
    dl.IID("uniform").draw(1.0, draws, torch.Generator().manual_seed(0))
    assert (
        stats.kstest(draws.flatten().numpy(), stats.uniform(-math.sqrt(3), 2 * math.sqrt(3)).cdf).pvalue
        > LEVEL
    )
    dl.IID("rademacher").draw(0.25, draws, torch.Generator().manual_seed(0))
    assert set(draws.flatten().tolist()) == {-0.5, 0.5}
    dl.Brownian().draw(1.0, draws, torch.Generator().manual_seed(0))
    assert stats.kstest(draws.flatten().numpy(), "norm").pvalue > LEVEL


@given(length_scale=st.floats(0.02, 3.0), seed=st.integers(0, 10))
def test_smooth_expansion_reproduces_the_kernel_at_any_times(length_scale, seed):
    process = dl.SmoothGaussian(length_scale)
    path = process.sample((1, 1), 1, torch.Generator().manual_seed(seed), torch.float64, torch.device("cpu"))
    times = torch.as_tensor(np.random.default_rng(seed).uniform(size=50))
    basis = path.basis(times)
    kernel = torch.exp(-((times[:, None] - times[None, :]) ** 2) / (2 * length_scale**2))
    torch.testing.assert_close(basis @ basis.T, kernel, rtol=0, atol=1e-11)


def test_rank_of_smooth_weights_does_not_depend_on_any_depth():
    assert 20 <= dl.SmoothGaussian(0.1).rank <= 40
    assert dl.SmoothGaussian(1.0).rank <= 12


@pytest.mark.statistical
def test_sampled_smooth_weights_have_the_kernel_as_covariance():
    process = dl.SmoothGaussian(0.1)
    path = process.sample((30, 30), 20, torch.Generator().manual_seed(0), torch.float64, torch.device("cpu"))
    times = torch.tensor([0.0, 0.05, 0.1, 0.3])
    values = path.at(times).flatten(1).numpy()  # (4, 18000)
    expected = np.exp(-((times[:, None] - times[None, :]).numpy() ** 2) / 0.02)
    spread = np.sqrt((1 + expected**2) / values.shape[1])
    assert (np.abs(values @ values.T / values.shape[1] - expected) < stats.norm.isf(LEVEL / 2) * spread).all()


@given(depths=depth_lists, seed=st.integers(0, 20))
def test_one_smooth_draw_is_the_same_function_at_every_depth(depths, seed):
    process = dl.SmoothGaussian(0.2)
    path = process.path((2, 2), Grid(depths), 3, torch.Generator().manual_seed(seed), torch.float64)
    assert isinstance(path, FunctionPath)
    for chunk in Grid(depths).chunks():
        path.begin(chunk)
        for index in range(len(chunk.steps)):
            path.advance(index)
            direct = path.functions[0].at(torch.from_numpy(chunk.times[index : index + 1]))[0]
            for j in range(len(depths)):
                if chunk.ends[index, j]:
                    torch.testing.assert_close(path.layer(j).values, direct, rtol=1e-12, atol=1e-12)


def test_trend_is_read_at_the_end_of_each_layer_without_rescaling():
    seen = []

    def matrix(t):
        seen.append(t)
        return torch.eye(2, dtype=torch.float64) * t

    path = dl.Trend(matrix).path((2, 2), Grid((4,)), 1, torch.Generator(), torch.float64)
    (chunk,) = Grid((4,)).chunks()
    path.begin(chunk)
    read = []
    for index in range(4):
        path.advance(index)
        layer = path.layer(0)
        read.append(layer.values[0, 0, 0].item() * layer.entry_scale)
    assert read == seen == [0.25, 0.5, 0.75, 1.0]
