"""Pre-norm networks: N as torch has it, laws that are known exactly, and the clock of correlations."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from refusals import assert_refused
from scipy import stats
from torch.nn import functional

import deeplimit as dl
from deeplimit.driving.path import Grid
from deeplimit.judge.in_law.simulation import last_states
from deeplimit.theory import gradients_of


def network(activation="tanh", norm="rms", width=16, weights=None, exponent=None):
    return dl.ResidualNetwork(dl.PreNorm(activation, norm), width, weights, exponent)


def generator(seed):
    return torch.Generator().manual_seed(seed)


@given(width=st.integers(3, 9), seed=st.integers(0, 99))
def test_the_norms_are_those_of_torch(width, seed):
    h = torch.randn(4, width, generator=generator(seed), dtype=torch.float64)
    rms, layer = (dl.PreNorm("identity", norm).operand(h) for norm in ("rms", "layer"))
    torch.testing.assert_close(rms, functional.rms_norm(h, (width,), eps=0.0))
    torch.testing.assert_close(layer, functional.layer_norm(h, (width,), eps=0.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("norm", "width"), [("rms", 3), ("rms", 200), ("layer", 200)])
def test_a_state_of_zero_is_left_at_zero(norm, width, dtype):
    """Without overflow, too, which made NaN of wide states."""
    zero = torch.zeros(1, width, dtype=dtype)
    assert torch.equal(dl.PreNorm("tanh", norm).operand(zero), zero)


@pytest.mark.statistical
@pytest.mark.parametrize("depth", [1, 5, 40])
def test_with_the_identity_states_move_by_a_standard_normal_vector_at_every_depth(depth):
    """V N(h) is N(0, I) given h, so h_L - h_0 is exactly N(0, I), and so is H_1 - h_0. Level 1e-5."""
    h0 = torch.randn(1, 6, generator=generator(1), dtype=torch.float64).repeat(4000, 1)
    exact = network("identity", width=6)
    for end in (last_states(exact, depth, h0, generator(2)), exact.limit().draw_end(h0, generator(3), depth)):
        moved = (end - h0).numpy()
        assert stats.kstest(moved[:, 0], stats.norm.cdf).pvalue > 1e-5
        assert stats.kstest((moved**2).sum(1), stats.chi2(6).cdf).pvalue > 1e-5
    bent = (last_states(network("tanh", width=6), depth, h0, generator(2)) - h0).numpy()
    assert stats.kstest((bent**2).sum(1), stats.chi2(6).cdf).pvalue < 1e-5


def test_every_exponent_has_its_statement():
    smooth = (dl.SmoothGaussian(0.5),)
    told = {exponent: network(exponent=exponent).regime() for exponent in (0.0, 0.25, 0.5, 0.8)}
    assert [regime.name for regime in told.values()] == ["logarithmic clock"] * 2 + ["sde", "identity"]
    assert [regime.rate for regime in told.values()] == [None, None, 0.5, pytest.approx(0.3)]
    assert network(weights=smooth).regime().rate == 1.0
    assert network(weights=smooth, exponent=0.5).regime().name == "no theorem"
    uniform = network(weights=(dl.IID("uniform"),)).regime()
    assert (uniform.name, uniform.rate, uniform.convergence) == ("sde", None, "in law")
    assert network(weights=(dl.AR1(0.5),)).regime().name == "no theorem"
    assert "that states stay away from 0, where N jumps." in told[0.5].not_checked
    assert gradients_of(network()).rate is None
    assert gradients_of(network(weights=smooth)).rate == 1.0
    with pytest.raises(dl.NoTheoremError, match=r"exponent=0\.5"):
        network(exponent=0.0).limit()


@pytest.mark.parametrize(
    ("activation", "norm", "least"),
    [
        ("identity", "rms", 11),
        ("identity", "layer", 12),
        ("relu", "rms", 11),
        ("tanh", "rms", 12),  # λ = 10.84 > 81/8 in 11 dimensions, theory.md 9.2
        ("sin", "rms", 13),  # 11.76 in 11; 13.05 > 100/8 in 12
    ],
)
def test_an_order_is_stated_where_states_rarely_come_near_zero(activation, norm, least):
    assert network(activation, norm=norm, width=least).regime().rate == 0.5
    narrow = network(activation, norm=norm, width=least - 1).regime()
    assert (narrow.rate, narrow.convergence) == (None, "pathwise")
    assert network(activation, norm=norm, width=4, exponent=0.8).regime().rate == pytest.approx(0.3)


@pytest.mark.nightly
@pytest.mark.statistical
def test_first_variations_grow_with_the_time_that_states_spend_near_zero():
    """E|δ_1|² = E exp((d - 1)∫dt/R²) for σ(x) = x, R = |H| a Bessel process of dimension d.

    Girsanov's theorem makes it a moment of R_1 in a smaller dimension. Level 1e-5; with d for d - 1 it fails.
    """
    width, depth, paths = 20, 256, 8000
    h0 = torch.zeros(paths, width, dtype=torch.float64)
    h0[:, 0] = math.sqrt(width)
    path = dl.Brownian().path((width, width), Grid((depth,)), paths, generator(5), torch.float64)
    recursion, h, moved = dl.PreNorm("identity"), h0, torch.randn(h0.shape, generator=generator(6)).double()
    moved = moved / moved.norm(dim=1, keepdim=True)
    for chunk in Grid((depth,)).chunks():
        path.begin(chunk)
        for index in range(len(chunk.steps)):
            path.advance(index)
            layer = path.layer(0)
            size = h.norm(dim=1, keepdim=True)
            turned = math.sqrt(width) * (moved - h * (h * moved).sum(1, keepdim=True) / size**2) / size
            moved = moved + layer.apply(turned, 0.5)
            h = recursion.advance(h, (layer,), 0.5)
    squares = moved.square().sum(dim=1).numpy()
    error = squares.std() / math.sqrt(paths)

    def moment(growth):
        index = width / 2 - 1
        smaller = math.sqrt(index**2 - 2 * growth)
        reached = stats.ncx2(2 * smaller + 2, width)
        return reached.expect(lambda r: (r / width) ** ((index - smaller) / 2))

    assert abs(squares.mean() - moment(width - 1)) < 4.4 * error + 2 / depth
    assert abs(squares.mean() - moment(width)) > 4.4 * error + 2 / depth


@pytest.mark.nightly
@pytest.mark.statistical
def test_narrow_networks_approach_their_limit_in_probability_alone():
    """Errors of width 3 have no mean square; their medians, which `compare` takes, have the order 1/2."""
    narrow = dl.compare(network("identity", width=3), paths=2000)
    assert narrow.predicted_rate is None
    assert narrow.average == "median"
    assert narrow.rate_interval[0] < 0.5 < narrow.rate_interval[1]
    wide = dl.compare(network("identity"), paths=2000)
    assert wide.rate_interval[0] < 0.5 < wide.rate_interval[1]
    assert wide.rate_interval[0] > 0.4


@pytest.mark.nightly
def test_measured_orders_are_the_predicted_ones_and_without_the_norm_errors_stay():
    report = dl.compare(network("softplus"), paths=400)
    assert report.rate_interval[0] < 0.5 < report.rate_interval[1]
    vanishing = dl.compare(network(exponent=0.9), paths=400)
    assert vanishing.rate_interval[0] < 0.4 < vanishing.rate_interval[1]
    without = dl.res1(16, "softplus").limit()
    assert dl.compare(network("softplus"), without, paths=400).verdict == "does not converge"


def test_mean_squares_grow_by_the_same_number_in_every_layer():
    clock = dl.CorrelationClock("relu")
    assert clock.update == pytest.approx(0.5)
    assert dl.CorrelationClock("identity").update == pytest.approx(1.0)
    h0 = torch.randn(100, 128, generator=generator(1))
    mean = last_states(network("relu", width=128, exponent=0.0), 64, h0, generator(0)).square().mean().item()
    assert mean == pytest.approx(1 + 64 * clock.update, rel=0.05)


@pytest.mark.parametrize(
    ("activation", "exact"),
    [
        ("erf", lambda rho: math.asin(2 * rho / 3) / math.asin(2 / 3)),
        ("sin", lambda rho: math.sinh(rho) / math.sinh(1)),
        ("relu", lambda rho: (math.sqrt(1 - rho**2) + rho * (math.pi - math.acos(rho))) / math.pi),
        ("identity", lambda rho: rho),
    ],
)
def test_the_map_of_correlations_is_known_in_closed_form(activation, exact):
    clock = dl.CorrelationClock(activation)
    for rho in (-0.9, -0.2, 0.0, 0.3, 0.8, 1.0):
        assert clock.map(rho) == pytest.approx(exact(rho), abs=1e-12)


def test_at_exponent_one_half_layers_reach_the_equation_at_order_one():
    clock = dl.CorrelationClock("tanh", initial=0.5)
    end = clock.at_time(0.1, clock.time(1))
    assert clock.time(7) == clock.time(1000) == pytest.approx(math.log1p(clock.update / 0.5))
    errors = [abs(clock.at_depth(0.1, depth) - end) for depth in (16, 32, 64, 128)]
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), 1.0, atol=0.02)


def test_at_exponent_zero_time_is_the_logarithm_of_the_depth():
    clock = dl.CorrelationClock("relu", initial=10.0)
    reached = [clock.at_depth(0.2, depth, exponent=0.0) for depth in (16, 128, 1024)]
    np.testing.assert_allclose(reached, [0.3158, 0.5088, 0.6644], atol=1e-4)
    by_time = [clock.at_time(0.2, clock.time(depth, exponent=0.0)) for depth in (16, 128, 1024)]
    np.testing.assert_allclose(by_time, reached, atol=3e-3)
    linear = clock.at_time(0.2, 1024 * clock.update / 10.0)
    assert linear > 0.98, "a clock that does not slow down would have merged the inputs long ago"


@pytest.mark.statistical
@pytest.mark.parametrize(("exponent", "depth"), [(0.5, 40), (0.0, 128)])
def test_wide_networks_keep_the_time_of_the_clock(exponent, depth):
    """Two inputs through one network of width 8192, drawn through the products of V. Error 6/√d at most."""
    width, clock = 8192, dl.CorrelationClock("relu")
    recursion, stream = dl.PreNorm("relu"), generator(4)
    h = torch.randn(2, width, generator=stream, dtype=torch.float64)
    h[1] = 0.2 * h[0] + math.sqrt(1 - 0.2**2) * h[1]
    for _ in range(depth):
        g = recursion.operand(h)
        root = torch.linalg.cholesky(g @ g.T / width)
        h = h + depth**-exponent * root @ torch.randn(2, width, generator=stream, dtype=torch.float64)
    found = functional.cosine_similarity(h[0], h[1], dim=0).item()
    assert found == pytest.approx(clock.at_depth(0.2, depth, exponent), abs=6 / math.sqrt(width))
    identity = dl.CorrelationClock("identity").at_depth(0.2, depth, exponent)
    assert abs(found - identity) > 6 / math.sqrt(width), "another map is told apart"


def test_what_has_no_meaning_is_refused():
    assert_refused(lambda: dl.PreNorm("tanh", "batch"), ValueError, "norm", "batch")
    assert_refused(lambda: network(width=1), ValueError, "width", "1", "2")
    assert_refused(lambda: network(norm="layer", width=2), ValueError, "width", "2", "3")
    assert_refused(lambda: dl.CorrelationClock("relu", 0.0), ValueError, "initial", "0")
    assert_refused(lambda: dl.CorrelationClock(lambda x: 0.0 * x), ValueError, "activation")
    clock = dl.CorrelationClock("relu")
    assert_refused(lambda: clock.map(1.5), ValueError, "correlation", "1.5")
    assert_refused(lambda: clock.at_time(0.0, -1.0), ValueError, "time", "-1")
    assert_refused(lambda: clock.at_depth(0.0, 0), ValueError, "depth", "0")


@pytest.mark.parametrize(("activation", "further"), [("tanh", ()), ("relu", (0.9,))])
def test_what_vanishes_has_corrections_of_its_own_order(activation, further):
    """L^-0.3 moves the state, and that moves each layer: twice the order, three times at a kink, then 1/L."""
    regime = network(activation, exponent=0.8).regime()
    assert regime.rate == pytest.approx(0.3)
    assert regime.corrections == pytest.approx((0.6, *further, 1.0))
