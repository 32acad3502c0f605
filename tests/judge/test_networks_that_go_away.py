"""Networks whose distance to a limit grows with depth, by a power of it or exponentially, and stiff ones."""

import numpy as np
import pytest
import torch

import deeplimit as dl
from deeplimit.statistics.consecutive import paired_floor

TURN = torch.tensor([[0.3, 1.2], [-1.0, 0.1]], dtype=torch.float64)


def random(exponent):
    return dl.res1(9, "tanh", exponent=exponent)


def given(exponent):
    return dl.res1(2, "tanh", weights=dl.Trend(lambda t: (1 + t) * TURN), exponent=exponent)


def shifted(exponent):
    return dl.inner(2, "softplus", weights=dl.Trend(lambda t: (1 + t) * TURN), exponent=exponent)


@pytest.mark.parametrize(
    ("network", "limit"),
    [
        (random(0.4), random(0.5).limit()),
        (random(0.3), dl.Identity()),
        (given(0.8), given(1.0).limit()),
        (shifted(0.5), dl.Identity()),
    ],
    ids=["half", "identity", "ODE", "softplus"],
)
def test_errors_that_grow_do_not_come_to_the_limit(network, limit):
    report = dl.compare(network, limit, paths=64)
    assert (report.verdict, report.rule) == ("does not converge", "goes_away")
    assert len(report.depths) == 5  # the first analysis decides


@pytest.mark.parametrize(
    ("network", "limit"),
    [(random(0.5), random(0.5).limit()), (given(1.0), given(1.0).limit())],
    ids=["half", "ODE"],
)
def test_the_right_exponent_converges_to_it(network, limit):
    assert dl.compare(network, limit).verdict == "converges"


@pytest.mark.parametrize(
    ("stiffness", "depths"),
    [
        (64.0, [1, 2, 4, 8]),
        (100.0, [2, 4, 8, 16]),
        (300.0, [4, 8, 16, 32]),
        (600.0, [8, 16, 32, 64]),
        (3000.0, [2, 4, 8, 16]),
        (3000.0, [16, 32, 64, 128]),
        (3000.0, [64, 96, 128, 192]),
    ],
)
def test_a_stiff_equation_is_no_network_that_explodes(stiffness, depths):
    """Euler's steps of h' = -s h are unstable below depth s/2, where errors grow beyond all numbers."""
    fast = dl.SDE(
        lambda t, h: -stiffness * h,
        lambda t, h, dB: 0.0 * dB,
        noise="additive",
        solution=lambda t, h, B: h * (-stiffness * t).exp(),
    )
    euler = dl.scheme_network(dl.EulerMaruyama(), fast, 2)
    report = dl.compare(euler, fast, torch.ones(1, 2), depths=depths, paths=64, dtype="float64")
    assert report.verdict == "cannot tell"


def test_distances_and_differences_may_differ_by_any_factor():
    """Squares of an unstable scheme's errors have no number, nor has the inverse of their covariance."""
    depths = np.array([16.0, 32.0, 64.0, 128.0])
    noise = np.random.default_rng(0).lognormal(0.0, 0.1, (50, 1))
    sizes = noise * np.array([1e80, 1e90, 1e-3])
    distances = noise * np.array([1e80, 1e90, 1.0, 1e-3])
    order = Fixed(1.0)
    assert paired_floor(depths, distances, sizes, order) is None
    usual = paired_floor(depths, noise / depths, noise / depths[:-1], order)
    assert usual is None or usual.upper < 0.5


class Fixed:
    """An order that is known."""

    medians, scatter = False, 0.0

    def __init__(self, rate):
        self.rate = rate

    def interval(self, confidence):
        return self.rate, self.rate
