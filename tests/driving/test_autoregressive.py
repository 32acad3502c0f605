"""Autoregressive layers: the chain that they are, the motion that drives it, and the limit of res-1 on it."""

import numpy as np
import pytest
import torch
from chains import chain_sde

import deeplimit as dl
from deeplimit.driving.path import Grid


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


@pytest.mark.nightly
@pytest.mark.parametrize(("activation", "width"), [("identity", 8), ("tanh", 3)])
def test_res1_tends_to_the_stretched_equation_with_its_drift(activation, width):
    network = dl.res1(width, activation, weights=dl.AR1(0.5))
    settings = {"depths": [32, 64, 128, 256, 512], "paths": 2000, "norm": "final"}
    report = dl.compare(network, **settings)
    assert report.errors == pytest.approx(
        dl.compare(network, chain_sde(activation, 0.5, width), **settings).errors
    )
    assert report.verdict == "converges"
    assert report.rate_interval[0] < 0.5 < report.rate_interval[1]
    for wrong in ({"drift": False}, {"stretched": False}):
        # Left to itself, it goes on until errors have ceased to fall: without the drift, a second time.
        twin = dl.compare(network, chain_sde(activation, 0.5, width, **wrong), norm="final")
        assert twin.verdict == "does not converge", wrong


def test_the_limit_has_the_variance_of_green_and_kubo_and_a_drift_but_no_known_order():
    network = dl.res1(8, "relu", weights=dl.AR1(0.5))
    limit, regime = network.limit(), network.regime()
    assert (limit.response**2, limit.memory) == (pytest.approx(3.0), 1.0)
    assert (regime.name, regime.theorem, regime.rate) == ("sde", None, None)
    assert dl.res1(8, "tanh", weights=dl.AR1(0.5), exponent=0.4).regime().name == "no theorem"
    assert dl.res3(8, weights=dl.AR1(0.5)).regime().name == "no theorem"
    assert dl.stability(network, depths=[5, 20], draws=10).predicted_growth == 0.0  # a limit that moves


@pytest.mark.parametrize(
    ("rho", "error"), [(1.5, ValueError), (-1, ValueError), (2, ValueError), ("0.5", TypeError)]
)
def test_a_correlation_outside_the_open_interval_is_refused_by_name(rho, error):
    with pytest.raises(error, match=rf"rho .*{rho}"):
        dl.AR1(rho)


def test_the_error_is_split_at_the_scheme_of_the_limit_which_the_network_is_not():
    network = dl.res1(3, "tanh", weights=dl.AR1(0.5))
    report, wrong = (
        dl.compare(network, chain_sde("tanh", 0.5, 3, stretched=right), depths=[8, 16, 32], paths=64)
        for right in (True, False)
    )
    assert report.errors[-1] < 0.7 * report.errors[0]
    assert wrong.errors[-1] > 0.9 * wrong.errors[0]
    assert [part.name for part in report.parts] == ["network to scheme", "scheme to limit"]
    brownian = dl.compare(dl.res1(3, "tanh"), chain_sde("tanh", 0.0, 3), depths=[8, 16, 32], paths=64)
    assert [part.name for part in brownian.parts] == ["scheme to limit"]
