"""Exact orders need conditions: a derivative that is not 0, a Lipschitz trend. Else they are bounds."""

import math

import numpy as np
import pytest
import torch
from pairs import SLOWING

import deeplimit as dl
from deeplimit.theory.orders import Contributions

ROOT = dl.Trend(lambda t: math.sqrt(t) * torch.tensor([[0.1, 0.7], [-0.7, -0.2]]), holder=0.5)
X = torch.tensor([[0.7, -0.6], [0.3, 0.5]], dtype=torch.float64)
DEPTHS = [32, 64, 128, 256, 512]


def flat(x):
    """σ''(0) = σ'''(0) = 0, and bounded growth far out."""
    return torch.where(x.abs() < 2.0, x.sin() + x**3 / 6, x)


def kinked(x):
    """σ''' jumps from -6 to 6 at 0."""
    return torch.where(x.abs() < 1.0, x + x.abs() ** 3, 2 * x)


def tripled(x):
    return 3 * x


def inner(activation, trend=SLOWING, noise=None, alpha=0.7, beta=0.3):
    return dl.inner(2, activation, trend=trend, noise=noise, alpha=alpha, beta=beta)


# network, order, whether that is a bound only
STATED = {
    "identity": (inner("identity"), 1.0, False),
    "linear callable": (inner(tripled), 1.0, False),
    "identity, trend like a root": (inner("identity", ROOT), 0.5, True),
    "tanh": (inner("tanh"), 0.6, False),
    "tanh, trend like a root": (inner("tanh", ROOT), 0.5, True),
    "tanh, trend like a root, cubes larger": (inner("tanh", ROOT, alpha=0.8, beta=0.2), 0.4, False),
    "tanh, cubes smaller than sums": (inner("tanh", alpha=0.3, beta=0.7), 1.0, False),
    "curved": (inner("silu"), 0.3, False),
    "flat": (inner(flat), 0.6, True),
    "flat, cubes smaller than sums": (inner(flat, alpha=0.3, beta=0.7), 1.0, False),
    "flat, with larger noise": (inner(flat, noise=dl.Ito(A=0.1), alpha=0.6, beta=0.4), 0.6, False),
    "third derivative jumps": (inner(kinked), 0.6, True),
    "SDE": (inner(flat, noise=dl.Ito(A=0.1), alpha=0.0, beta=1.0), 0.5, False),
    "SDE, rough trend": (
        inner("tanh", dl.Trend(ROOT.A, holder=0.3), dl.Ito(A=0.1), alpha=0.0, beta=1.0),
        0.3,
        True,
    ),
    "SDE, trend like a root": (inner("tanh", ROOT, dl.Ito(A=0.1), alpha=0.0, beta=1.0), 0.5, False),
    "additive noise, cubes": (inner("tanh", None, dl.Ito(b=0.1), alpha=0.0, beta=1.0), 1.0, False),
    "additive noise, no cubes": (inner(flat, None, dl.Ito(b=0.1), alpha=0.0, beta=1.0), 1.0, True),
    "additive noise, trend": (inner(flat, SLOWING, dl.Ito(b=0.1), alpha=0.0, beta=1.0), 1.0, False),
    "additive noise, trend gone": (
        inner("identity", SLOWING, dl.Ito(b=0.1), alpha=0.0, beta=1.7),
        0.7,
        False,
    ),
    "neural ODE": (inner("tanh", alpha=1.0, beta=0.0), 1.0, False),
    "neural ODE, trend like a root": (inner("tanh", ROOT, alpha=1.0, beta=0.0), 0.5, True),
    "identity regime, trend like a root": (inner("tanh", ROOT, alpha=0.7, beta=0.7), 0.4, False),
    "Proposition 12": (dl.res1(2, "tanh", weights=dl.Trend(SLOWING.A), exponent=1.0), 1.0, False),
    "Hölder functions": (dl.res1(2, "tanh", weights=dl.Trend(ROOT.A, holder=0.5), exponent=1.0), 0.5, True),
    "Proposition 11": (dl.res1(2, "relu"), 0.5, False),
}


@pytest.mark.parametrize("name", STATED)
def test_an_order_is_exact_where_its_condition_holds_and_a_bound_elsewhere(name):
    network, rate, bound = STATED[name]
    regime = network.regime()
    assert (regime.rate, regime.rate_is_bound) == (pytest.approx(rate), bound)
    assert ("order at least" in str(regime)) == (bound and regime.theorem is not None)


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("identity", 1.0),
        ("linear callable", 1.0),
        ("identity, trend like a root", 1.0),  # twice its bound
        ("flat", 1.0),  # σ(x) - x = x⁵/120 leaves L^-1.2, and Riemann sums 1/L
    ],
)
def test_measured_orders_are_the_exact_ones_and_no_less_than_a_bound(name, order):
    network, rate, bound = STATED[name]
    report = dl.compare(network, x=X, depths=DEPTHS, paths=2, tolerance=1e-9)
    slope = -np.diff(np.log(report.errors))[-1] / np.log(2.0)
    assert slope == pytest.approx(order, abs=0.1)
    assert rate == order or (bound and rate < order)


def test_the_smallest_power_decides_and_an_exact_one_of_its_size_makes_it_exact():
    assert Contributions((1.0, 0.6), (0.5,)).is_bound
    assert not Contributions((1.0, 0.5), (0.5,)).is_bound
    assert not Contributions((0.4, 1.0), (0.5,)).is_bound
    assert Contributions((), (1.0,)).is_bound
    assert Contributions((1.0, 0.6), (0.5,)).rate == 0.5


def test_corrections_are_those_of_every_term_that_may_be_the_first():
    """After 0.5 the others are 0.1 and 0.5 smaller; where 0.6 is the first, 1.0 is 0.4 smaller."""
    assert {0.1, 0.4, 0.5} <= set(Contributions((1.0, 0.6), (0.5,)).corrections)
    assert Contributions((1.0, 0.6)).corrections == (0.4, 0.6, 1.0)


def test_a_bound_is_taken_neither_for_an_order_nor_for_an_excuse():
    """Order 1 where 0.6 is stated as a bound. As an order it would call the right limit wrong.

    A limit whose slope is 2 % off leaves a third of the deepest square. With an order of 0.6 the same errors
    would have no floor.
    """

    def of_slope(slope):
        return dl.res1(4, lambda x: torch.tanh(slope * x), weights=dl.SmoothGaussian())

    network, knobs = of_slope(1.0), {"depths": (8, 16, 32, 64, 128), "paths": 200}
    limit, off = network.limit(), of_slope(1.02).limit()
    stated = {"matches": lambda network: True, "name": "ode", "limit": lambda network: limit}
    with dl.Theorem.register(**stated, rate=0.6, citation="Doe (2026)", rate_is_bound=True):
        right, wrong = dl.compare(network, **knobs), dl.compare(network, off, **knobs)
    assert right.verdict == "converges"
    assert right.rate_interval == pytest.approx((1.0, 1.0), abs=0.005)
    share = 1.0 - (right.errors[-1] / wrong.errors[-1]) ** 2
    assert 0.3 < share < 0.4
    assert wrong.floor == pytest.approx(share, abs=0.05)
    assert wrong.verdict != "converges"
