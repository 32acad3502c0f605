"""Autoregressive layers: the chain that they are, the motion that drives it, and the limit of res-1 on it."""

import numpy as np
import pytest
import torch
from chains import chain_sde
from scipy import stats

import deeplimit as dl
from deeplimit.ground.grid import Grid

LEVEL = 1e-6


def walked(law, depths, shape=(), paths=1, seed=0, extra=()):
    """Return the path's layers, unscaled, by depth, and its increments (N, P, *shape) with their ends."""
    grid = Grid(depths, extra)
    path = law.path(shape, grid, paths, torch.Generator().manual_seed(seed), torch.float64)
    layers, increments, times = [[] for _ in depths], [], []
    for chunk in grid.chunks():
        path.begin(chunk)
        for index, ends in enumerate(chunk.ends):
            path.advance(index)
            increments.append(path.brownian.clone())
            times.append(chunk.times[index])
            for j in reversed(range(len(depths))):
                if ends[j]:
                    layers[j].append(path.layer(j).values.clone())
    return [torch.stack(each) for each in layers], torch.stack(increments), np.array(times)


@pytest.mark.parametrize("rho", [-0.7, 0.0, 0.5])
@pytest.mark.parametrize("depths", [(4, 8, 16), (3, 4), (5,)])
def test_layers_are_the_chain_that_the_driving_motion_feeds(rho, depths):
    layers, increments, times = walked(dl.AR1(rho), depths, paths=3, extra=(24,))
    for depth, found in zip(depths, layers, strict=True):
        chain = None
        for k in range(depth):
            inside = (times > k / depth + 1e-12) & (times < (k + 1) / depth + 1e-12)
            step = increments[torch.from_numpy(inside)].sum(dim=0).squeeze(1)
            chain = step if chain is None else rho * chain + (1 - rho**2) ** 0.5 * step
            torch.testing.assert_close(found[k], chain, rtol=1e-12, atol=1e-14)


@pytest.mark.statistical
@pytest.mark.parametrize("rho", [-0.7, 0.5])
def test_layers_are_stationary_with_the_correlation_of_the_chain(rho):
    depth, paths = 8, 200_000
    (found,), _, _ = walked(dl.AR1(rho), (depth,), paths=paths)
    x = found * depth**0.5  # (L, P)
    for j in range(depth):
        for k in range(j, depth):
            expected = rho ** (k - j)
            spread = ((1 + expected**2) / paths) ** 0.5
            assert abs(float((x[j] * x[k]).mean()) - expected) < stats.norm.isf(LEVEL) * spread


def variance_of_the_rest(rho, depth):
    """Return the variance of Σ A_k/√L - √((1+ρ)/(1-ρ)) B_1, by the weight of each innovation in the sum."""
    size = ((1 + rho) / (1 - rho)) ** 0.5
    weights = (1 - rho ** np.arange(depth, 0, -1)) / (1 - rho)
    weights[1:] *= (1 - rho**2) ** 0.5
    return float(np.square(weights - size).mean())


@pytest.mark.statistical
def test_the_sum_of_the_layers_tends_to_a_multiple_of_the_driving_motion():
    rho, depths, paths = 0.6, (4, 16, 64, 256), 20_000
    layers, increments, _ = walked(dl.AR1(rho), depths, paths=paths)
    end, size = increments.sum(dim=0).squeeze(1), 2.0
    spread = (2.0 / paths) ** 0.5
    rest = []
    for depth, found in zip(depths, layers, strict=True):
        rest.append(float((found.sum(dim=0) - size * end).square().mean()))
        assert abs(rest[-1] / variance_of_the_rest(rho, depth) - 1) < stats.norm.isf(LEVEL) * spread
    assert rest[-1] < rest[0] / 50
    assert float((layers[-1].sum(dim=0) - end).square().mean()) > 0.9  # another multiple: not at all


@pytest.mark.parametrize(("activation", "width"), [("identity", 8), ("tanh", 3)])
def test_res1_tends_to_the_stretched_equation_with_its_drift(activation, width):
    network = dl.res1(width, activation, weights=dl.AR1(0.5))
    settings = {"depths": [32, 64, 128, 256, 512], "paths": 2000, "norm": "final"}
    report = dl.compare(network, chain_sde(activation, 0.5, width), **settings)
    assert report.verdict == "converges"
    assert report.rate_interval[0] < 0.5 < report.rate_interval[1]
    for wrong in ({"drift": False}, {"stretched": False}):
        twin = dl.compare(network, chain_sde(activation, 0.5, width, **wrong), **settings)
        assert twin.verdict == "does not converge", wrong


def test_no_theorem_is_claimed_and_growth_is_measured():
    network = dl.res1(8, "relu", weights=dl.AR1(0.5))
    assert network.regime().name == "no theorem"
    with pytest.raises(dl.NoTheoremError):
        network.limit()
    reports = [dl.stability(network, seed=seed) for seed in range(5)]
    assert all(report.predicted_growth is None for report in reports)
    verdicts = [report.verdict for report in reports]  # "stable" in all of 40 seeds
    assert verdicts.count("stable") >= 4
    assert {*verdicts} <= {"stable", "cannot tell"}


def test_without_memory_the_network_is_that_of_brownian_layers_in_law():
    chain, brownian = (
        dl.compare(dl.res1(3, "tanh", weights=law), chain_sde("tanh", 0.0, 3), depths=[8, 16, 32], paths=2000)
        for law in (dl.AR1(0.0), dl.Brownian())
    )
    np.testing.assert_allclose(chain.errors, brownian.errors, rtol=0.15)


@pytest.mark.parametrize(
    ("rho", "error"), [(1.5, ValueError), (-1, ValueError), (2, ValueError), ("0.5", TypeError)]
)
def test_a_correlation_outside_the_open_interval_is_refused_by_name(rho, error):
    with pytest.raises(error, match=rf"rho .*{rho}"):
        dl.AR1(rho)


def test_the_error_is_split_at_the_scheme_of_the_limit_which_the_network_is_not():
    network = dl.res1(3, "tanh", weights=dl.AR1(0.5))
    report = dl.compare(network, chain_sde("tanh", 0.5, 3), depths=[8, 16, 32], paths=64)
    assert [part.name for part in report.parts] == ["network to scheme", "scheme to limit"]
    brownian = dl.compare(dl.res1(3, "tanh"), chain_sde("tanh", 0.0, 3), depths=[8, 16, 32], paths=64)
    assert [part.name for part in brownian.parts] == ["scheme to limit"]
