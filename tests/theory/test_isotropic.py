"""Branches with an isotropic covariance: closed forms, exact laws, averaged layers, and what has no limit."""

import math

import numpy as np
import pytest
import torch
from samplers import FAR, skewed
from scipy import stats

import deeplimit as dl
from deeplimit.equations.solvers import solve
from deeplimit.judge.in_law.simulation import last_states
from deeplimit.layers import activations
from deeplimit.layers.gaussian_means import normal_mean

SIZES = torch.tensor([1e-4, 0.1, 0.7, 1.0, 3.0, 20.0], dtype=torch.float64)
UNIFORM, SKEWED = dl.IID("uniform"), dl.IID(skewed)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def absolute(x):
    return x.abs()


SQUARES = {
    "identity": SIZES**2,
    "relu": SIZES**2 / 2,
    "leaky_relu": SIZES**2 * (1 + 0.01**2) / 2,
    "sin": -torch.expm1(-2 * SIZES**2) / 2,
    "erf": 2 / math.pi * torch.asin(2 * SIZES**2 / (1 + 2 * SIZES**2)),
}
MEANS = {
    "identity": 0 * SIZES,
    "relu": SIZES / math.sqrt(2 * math.pi),
    "gelu": SIZES**2 / torch.sqrt(1 + SIZES**2) / math.sqrt(2 * math.pi),
    "sigmoid": 0 * SIZES + 0.5,
}


@pytest.mark.parametrize("name", SQUARES)
def test_mean_squares_over_normal_entries_are_the_closed_forms(name):
    activation = activations.resolve(name)
    torch.testing.assert_close(normal_mean(activation, SIZES, power=2), SQUARES[name], rtol=1e-9, atol=1e-12)
    limit = dl.RadialSDE(activation, 5)
    h = torch.zeros(len(SIZES), 5, dtype=torch.float64)
    h[:, 2] = SIZES * math.sqrt(5)
    torch.testing.assert_close(limit.variance(h.norm(dim=1)), SQUARES[name], rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(limit.g(0.0, h)[:, 4, 4] ** 2, SQUARES[name], rtol=2e-5, atol=1e-12)


@pytest.mark.parametrize("name", MEANS)
def test_means_over_normal_entries_are_the_closed_forms(name):
    found = normal_mean(activations.resolve(name), SIZES)
    torch.testing.assert_close(found, MEANS[name], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("network", "limit"),
    [
        (dl.res2(4, "tanh"), dl.RadialSDE(activations.resolve("tanh"), 4)),
        (dl.res2(4, "tanh", weights=(UNIFORM, dl.Brownian())), dl.RadialSDE(activations.resolve("tanh"), 4)),
        (dl.res2(4, "softplus"), dl.RadialSDE(activations.resolve("softplus"), 4)),
        (dl.inner(4, "sin"), dl.RadialSDE(activations.resolve("sin"), 4)),
        (dl.res3(4, weights=UNIFORM), dl.IsotropicSDE(4, 0.5)),
        (dl.res2(4, "identity", weights=SKEWED), dl.IsotropicSDE(4, 1.0)),
        (dl.res2(4, absolute, weights=SKEWED), dl.IsotropicSDE(4, 1.0)),
        (dl.inner(4, "identity", weights=UNIFORM), dl.IsotropicSDE(4, 1.0)),
        (dl.inner(4, "tanh", exponent=0.8), dl.Identity()),
        (dl.inner(4, "tanh", weights=UNIFORM, exponent=0.8), dl.Identity()),
        (dl.inner(4, "relu", exponent=1.3), dl.Identity()),
        (dl.inner(4, "tanh", weights=SKEWED, exponent=1.3), dl.Identity()),
        (dl.inner(4, "relu", exponent=1.0), dl.AveragedODE(activations.resolve("relu"), 4)),
    ],
    ids=str,
)
def test_the_first_two_moments_of_a_branch_decide_its_limit(network, limit):
    assert network.limit() == limit


@pytest.mark.parametrize(
    "network",
    [
        dl.res2(4, "tanh", weights=(dl.Brownian(), UNIFORM)),
        dl.res3(4, weights=SKEWED),
        dl.inner(4, "tanh", weights=UNIFORM),
        dl.inner(4, "tanh", weights=SKEWED),
        dl.inner(4, "tanh", weights=SKEWED, exponent=0.8),
        dl.inner(4, "relu"),
        dl.inner(4, "relu", exponent=0.8),
        dl.inner(4, "relu", weights=UNIFORM, exponent=1.0),
        dl.inner(4, "tanh", exponent=0.4),
        dl.inner(4, torch.sign),
        dl.res2(4, torch.sign),
    ],
    ids=str,
)
def test_where_they_do_not_there_is_no_limit(network):
    with pytest.raises(dl.NoTheoremError):
        network.limit()
    assert network.regime().theorem is None


@pytest.mark.statistical
@pytest.mark.parametrize(
    "network", [dl.res2(3, "tanh"), dl.inner(3, "tanh"), dl.res2(3, "softplus"), dl.inner(3, "sin")], ids=str
)
def test_one_layer_moves_by_the_variance_that_the_limit_has(network):
    """Level 7e-6 for each of six covariances; the same for σ = 1.1 tanh must be refused."""
    h0 = torch.tensor([[0.5, -2.0, 1.0]], dtype=torch.float64).repeat(40_000, 1)
    moved = (last_states(network, 1, h0, generator()) - h0).numpy()
    variance = float(network.limit().variance(h0[:1].norm(dim=1)))
    for i in range(3):
        for j in range(i + 1):
            product = moved[:, i] * moved[:, j]
            score = (product.mean() - variance * (i == j)) / product.std() * len(product) ** 0.5
            assert abs(score) < FAR, (i, j)
    squares = (moved**2).sum(1)
    assert abs(squares.mean() - 1.21 * 3 * variance) > 10 * squares.std() / len(squares) ** 0.5


@pytest.mark.statistical
def test_the_scheme_has_the_law_that_is_known_exactly_for_relu():
    """ln |H_1| is N(¼(1 - 2/d), 1/(2d)), up to 1/512 of its scale. Level 1e-5; the wrong law is far."""
    h0 = torch.tensor([[0.0, 0.0, 2.0]], dtype=torch.float64).repeat(10_000, 1)
    end = dl.RadialSDE(activations.resolve("relu"), 3).draw(h0, generator())
    log = (end.norm(dim=1) / 2).log().numpy()
    assert stats.kstest(log, stats.norm((1 - 2 / 3) / 4, 6**-0.5).cdf).pvalue > 1e-5
    assert stats.kstest(log, stats.norm((1 - 2 / 3) / 4, 3**-0.5).cdf).pvalue < 1e-20
    exact = dl.IsotropicSDE(3).draw(h0, generator(1))
    assert stats.ks_2samp(end[:, 2].numpy(), exact[:, 2].numpy()).pvalue > 1e-5


def test_relus_layers_average_out_to_a_hyperbolic_sine():
    """Along (1, …, 1) the ODE is s' = √(s² + c²)/√(2π); across it nothing moves."""
    h0 = torch.tensor([[0.6, -0.2, 0.5]], dtype=torch.float64)
    network = dl.inner(3, "relu", exponent=1.0)
    report = dl.compare(network, x=h0, depths=[16, 64, 256], paths=400, seed=1, norm="final")
    unit = torch.ones(3, dtype=torch.float64) / 3**0.5
    start = float(h0[0] @ unit)
    across = h0[0] - start * unit
    c = float(across.norm())
    end = across + c * math.sinh(math.asinh(start / c) + 1 / math.sqrt(2 * math.pi)) * unit
    times = torch.tensor([0.0, 1.0], dtype=torch.float64)
    torch.testing.assert_close(solve(network.limit(), h0, times, 1e-9)[-1, 0], end, rtol=1e-7, atol=1e-9)
    assert report.errors[-1] < report.errors[0] / 3  # 1/4 at order 1/2; standard deviation 5 %


@pytest.mark.statistical
def test_averaged_layers_have_order_one_half_and_the_wrong_mean_is_caught():
    """Level 1e-3 for the interval."""
    network = dl.inner(4, "softplus", exponent=1.0)
    knobs = dict(depths=[16, 32, 64, 128], paths=400, seed=2)
    report = dl.compare(network, confidence=0.999, **knobs)
    low, high = report.rate_interval
    assert report.verdict == "converges"
    assert low < 0.5 < high
    wrong = dl.compare(network, lambda t, h: torch.full_like(h, math.log(2.0)), **knobs)
    assert wrong.verdict == "does not converge"


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("network", "order"),
    [
        (dl.inner(4, "tanh", exponent=0.9), 0.4),
        (dl.inner(4, "sin", exponent=1.1), 0.6),
        (dl.inner(4, "relu", exponent=1.4), 0.4),
    ],
    ids=str,
)
def test_above_the_critical_exponent_the_order_is_the_predicted_one(network, order):
    """Level 1e-3. A limit that turns states is caught."""
    knobs = dict(depths=[16, 32, 64, 128], paths=400, seed=4)
    report = dl.compare(network, confidence=0.999, **knobs)
    low, high = report.rate_interval
    assert (report.verdict, report.predicted_rate) == ("converges", pytest.approx(order))
    assert low < order < high
    turning = dl.compare(network, lambda t, h: 0.5 * h.roll(1, dims=1), **knobs)
    assert turning.verdict == "does not converge"


BAD = {"activation": (TypeError, (3, 3)), "width": (ValueError, (activations.resolve("tanh"), 0))}


@pytest.mark.parametrize("kind", [dl.RadialSDE, dl.AveragedODE])
@pytest.mark.parametrize("argument", BAD)
def test_a_bad_limit_is_refused_by_the_argument(kind, argument):
    error, given = BAD[argument]
    with pytest.raises(error, match=argument):
        kind(*given)


def test_no_order_is_stated_where_coarse_layers_have_another_law():
    regime = dl.inner(4, "tanh", weights=UNIFORM, exponent=0.9).regime()
    assert (regime.name, regime.rate, regime.convergence) == ("identity", None, "pathwise")


def test_beyond_the_table_the_diffusion_goes_on_along_its_last_cell():
    h = torch.tensor([[3e7, 0.0], [0.0, 0.0]], dtype=torch.float64)
    limits = (dl.RadialSDE(activations.resolve(name), 2) for name in ("relu", "tanh"))
    linear, flat = (limit.g(0.0, h)[:, 0, 0] for limit in limits)
    np.testing.assert_allclose(linear, [3e7 / 2, 0.0], rtol=1e-6)
    np.testing.assert_allclose(flat, [1.0, 0.0], rtol=1e-4)


@pytest.mark.nightly
@pytest.mark.statistical
@pytest.mark.parametrize("seed", [3, 4, 5])
def test_errors_that_turn_from_depth_to_depth_are_not_taken_for_a_remainder(seed):
    """What σ makes of two draws' sum is not the sum of what it makes of each. These seeds failed."""
    network = dl.inner(4, "softplus", exponent=1.0)
    depths = [16, 32, 64, 128, 256, 512, 1024]
    report = dl.compare(network, depths=depths, paths=4000, seed=seed, confidence=0.999)
    assert report.verdict == "converges", str(report)
