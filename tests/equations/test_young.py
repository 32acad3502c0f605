"""Residual networks with fractional Brownian weights: the Young limit, its schemes, and what is refused."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import deeplimit as dl
from deeplimit import zoo
from deeplimit.driving.path import Grid, uniform_size
from deeplimit.equations.young import extrapolation_surplus
from deeplimit.simulation import make_task

DEPTHS = [16, 32, 64, 128, 256]
SURE = 0.99999


def fractional(hurst):
    return dl.FractionalBrownian(hurst)


def altered(limit, scale):
    return zoo.with_noise_scaled(limit, scale)


# ---- regimes


@pytest.mark.parametrize(
    ("network", "name", "rate"),
    [
        (dl.res1(3, "tanh", weights=fractional(0.7)), "young", 0.4),
        (dl.res1(3, "tanh", weights=fractional(0.7), exponent=0.1 + 0.6), "young", 0.4),
        (dl.modified_res1(3, "tanh", weights=fractional(0.7)), "young", 0.9),
        (dl.modified_res1(3, "tanh", weights=fractional(0.9)), "young", 1.0),
        (dl.res1(3, "tanh", weights=fractional(0.7), exponent=0.9), "identity", 0.2),
        (dl.res3(3, weights=fractional(0.7), exponent=0.9), "identity", None),
        (dl.inner(3, "tanh", weights=fractional(0.7), exponent=0.9), "identity", None),
        (dl.inner(3, "relu", weights=fractional(0.7), exponent=0.9), "no theorem", None),
        (dl.inner(3, "relu", weights=fractional(0.7), exponent=1.1), "identity", None),
        (dl.res1(3, "tanh", weights=fractional(0.3), exponent=0.6), "identity", 0.2),
        (dl.res1(3, "tanh", weights=fractional(0.45), exponent=0.9), "identity", 0.45),
        (dl.res1(3, "tanh", weights=fractional(0.7), exponent=0.6), "explosion", None),
        (dl.res3(3, weights=fractional(0.3), exponent=0.4), "explosion", None),
        (dl.inner(3, "tanh", weights=fractional(0.7), exponent=0.6), "explosion", None),
        (dl.res1(3, "tanh", weights=fractional(0.3), exponent=0.4), "no theorem", None),
        (dl.res2(3, "tanh", weights=fractional(0.8), exponent=0.7), "no theorem", None),
        (dl.res1(3, "tanh", weights=fractional(0.3)), "no theorem", None),
        (dl.res1(3, "relu", weights=fractional(0.7)), "no theorem", None),
        (dl.res3(3, weights=fractional(0.7)), "no theorem", None),
        (dl.inner(3, "tanh", weights=fractional(0.7)), "no theorem", None),
        (dl.res2(3, "tanh", weights=(fractional(0.7), fractional(0.6))), "no theorem", None),
        (dl.res2(3, "tanh", weights=(fractional(0.7), dl.Brownian())), "no theorem", None),
    ],
)
def test_every_network_with_fractional_weights_has_its_regime(network, name, rate):
    regime = network.regime()
    assert regime.name == name
    assert regime.rate == (None if rate is None else pytest.approx(rate))
    if name == "young":
        assert "Hu, Liu and Nualart (2016)" in regime.theorem
        assert "Marion" not in regime.theorem
        assert isinstance(network.limit(), dl.NeuralYoung)
    elif name == "identity":
        assert regime.theorem is None
        assert "without proof" in regime.explanation
        assert isinstance(network.limit(), dl.Identity)
    else:
        assert regime.theorem is None
        with pytest.raises(dl.NoTheoremError, match="Closest: "):
            network.limit()


def test_a_hurst_index_of_one_half_is_brownian_motion():
    network = dl.res1(3, "tanh", weights=fractional(0.5))
    assert network == dl.res1(3, "tanh")
    assert isinstance(network.limit(), dl.NeuralSDE)


def test_a_kink_is_refused_by_name_and_a_smooth_callable_is_not():
    with pytest.raises(dl.NoTheoremError, match="leaky_relu"):
        dl.res1(3, "leaky_relu", weights=fractional(0.7)).limit()
    with pytest.raises(dl.NoTheoremError, match="Hölder"):
        dl.res1(3, lambda x: x.abs(), weights=fractional(0.7)).limit()
    assert dl.res1(3, lambda x: x.sin(), weights=fractional(0.7)).regime().name == "young"


# ---- the equation


def test_the_modified_recursion_adds_the_mean_of_the_second_order_term():
    """½ Σ_jk V_ij σ'(h_j) V_jk σ(h_k) L^-2β averaged over V: only V_ii² has a mean, 1/d."""
    h = torch.tensor([[0.4, -0.9, 1.3]], dtype=torch.float64)
    still = torch.zeros(1, 3, 3, dtype=torch.float64)
    young = dl.modified_res1(3, "tanh", weights=fractional(0.7)).limit()
    expected = 0.5 / 3 * (1 - h.tanh().square()) * h.tanh() * 64**-1.4
    torch.testing.assert_close(young.advance(h, still, 64) - h, expected)


@pytest.mark.parametrize("hurst", [0.55, 0.7])
def test_with_the_identity_in_one_dimension_the_solution_is_the_paths_exponential(hurst):
    """The ordinary chain rule, path by path. Itô's rule, exp(B - t/2), is far off; so is Euler's scheme at
    the same steps.
    """
    weights, count, paths = fractional(hurst), 1024, 50
    increments = weights.draw_increments(count, 1, paths, torch.Generator().manual_seed(0), torch.float64)
    exact = increments.sum(dim=0)[:, :, 0].exp()
    h0 = torch.ones(paths, 1, dtype=torch.float64)
    young = dl.res1(1, "identity", weights=weights).limit()
    solution = young.solve(h0, increments)
    assert solution.shape == (count + 1, paths, 1)
    relative = (solution[-1] / exact - 1).abs()
    euler = h0 * (1 + increments).prod(dim=0)[:, :, 0]
    assert relative.max() < 20 * count ** -min(2 * hurst - 0.5, 1.0)
    assert (euler / exact - 1).abs().median() > 5 * relative.median()
    assert ((exact * math.exp(-0.5)) / exact - 1).abs().min() > 10 * relative.max()


def test_a_solution_checks_its_shapes():
    young = dl.res1(2, "tanh", weights=fractional(0.7)).limit()
    with pytest.raises(ValueError, match=r"h0 must have shape \(P, 2\)"):
        young.solve(torch.ones(3), torch.ones(4, 3, 2, 2))
    with pytest.raises(ValueError, match=r"increments must have shape \(N, 3, 2, 2\)"):
        young.solve(torch.ones(3, 2), torch.ones(4, 2, 2))
    with pytest.raises(TypeError, match="increments must be a tensor"):
        young.solve(torch.ones(3, 2), None)
    with pytest.raises(ValueError, match="Hurst index above 1/2"):
        dl.NeuralYoung(young.recursion, (fractional(0.4),), 2)
    with pytest.raises(TypeError, match="tuple of one FractionalBrownian"):
        dl.NeuralYoung(young.recursion, (dl.Brownian(),), 2)
    with pytest.raises(TypeError, match="recursion must be that of res1"):
        dl.NeuralYoung(None, young.weights, 2)


# ---- coupling


@given(
    depths=st.lists(st.integers(1, 12), min_size=2, max_size=4, unique=True).map(sorted),
    hurst=st.floats(0.05, 0.95),
    more=st.integers(1, 40),
)
def test_coarse_layers_are_sums_of_one_paths_increments(depths, hurst, more):
    count = uniform_size(tuple(depths), more)
    assert count % math.lcm(*depths) == 0
    assert more <= count < more + math.lcm(*depths)
    path = fractional(hurst).path(
        (2, 2), Grid(tuple(depths), (count,)), 3, torch.Generator().manual_seed(0), torch.float64
    )
    drawn = fractional(hurst).draw_increments(count, 2, 3, torch.Generator().manual_seed(0), torch.float64)
    taken = [0] * len(depths)
    position = 0
    for chunk in Grid(tuple(depths), (count,)).chunks():
        np.testing.assert_allclose(chunk.steps, 1 / count, rtol=1e-9)
        path.begin(chunk)
        for index, ends in enumerate(chunk.ends.tolist()):
            path.advance(index)
            position += 1
            for j in range(len(depths) - 1, -1, -1):
                if ends[j]:
                    layer = path.layer(j)
                    start = taken[j] * count // depths[j]
                    torch.testing.assert_close(layer.values, drawn[start:position].sum(dim=0))
                    assert layer.layer_exponent == hurst
                    taken[j] += 1
    assert taken == depths


def test_the_finest_network_of_the_modified_kind_is_the_reference_bit_for_bit():
    weights = fractional(0.8)
    network = dl.modified_res1(2, "tanh", weights=weights)
    increments = weights.draw_increments(32, 2, 4, torch.Generator().manual_seed(0), torch.float64)
    path = weights.path((2, 2), Grid((32,), (32,)), 4, torch.Generator().manual_seed(0), torch.float64)
    h = h0 = torch.randn(4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for index in range(32):
        path.advance(index)
        h = h + network.recursion.residual(h, (path.layer(0),), network.exponent)
    assert torch.equal(h, network.limit().solve(h0, increments)[-1])


def task_of(network, limit=None, **knobs):
    settings = {"depths": (16, 32), "reference": None, "norm": "sup", "p": 2.0, "paths": 10, "seed": 0}
    settings |= {"device": torch.device("cpu"), "dtype": None, "tolerance": None} | knobs
    return make_task(network, limit or network.limit(), None, **settings)


def test_a_block_holds_few_paths_where_a_path_is_long():
    narrow, wide = (task_of(dl.res1(d, "tanh", weights=fractional(0.7)), depths=(16, 256)) for d in (2, 40))
    for task in (narrow, wide):
        assert task.block_size * task.grid.size * task.network.width**2 <= 2**23
    assert narrow.block_size > 100 * wide.block_size
    assert narrow.dtype == torch.float64


def test_a_reference_may_be_made_finer_and_becomes_a_multiple_of_the_depths():
    network = dl.res1(2, "tanh", weights=fractional(0.7))
    assert task_of(network).grid.size == 8 * 32
    assert task_of(network, depths=(10, 15, 24)).grid.size == 240
    assert task_of(network, reference=1000).grid.size == 1024
    assert task_of(dl.res1(2, "tanh", weights=fractional(0.7), exponent=0.9), depths=(4, 6)).grid.size == 12
    report = dl.compare(network, depths=[10, 15, 24], paths=200)
    assert report.verdict != "does not converge"
    assert "modified Euler on 240 steps" in report.reference
    assert "same fractional path" in report.coupling


# ---- what must be refused


def test_depths_without_a_small_common_multiple_are_refused_with_some_that_work():
    with pytest.raises(
        ValueError,
        match=r"least common multiple 4047820, .*Doubling depths need fewer, such as \[997, 1994, 3988\]",
    ):
        dl.compare(dl.res1(4, "tanh", weights=fractional(0.7)), depths=[997, 1015, 4060], paths=4)
    with pytest.raises(
        ValueError, match=r"At width 300 about 745 steps fit: take shallower or narrower networks"
    ):
        dl.compare(dl.res1(300, "tanh", weights=fractional(0.7)), depths=[128, 256], paths=4)


def test_limits_that_cannot_share_the_path_are_refused():
    network = dl.res1(3, "tanh", weights=fractional(0.7))
    with pytest.raises(ValueError, match="limit has width 4, but the network has width 3"):
        dl.compare(network, dl.res1(4, "tanh", weights=fractional(0.7)).limit())

    class Mine:
        sde_type, noise_type = "ito", "general"

        def f(self, t, y):
            return torch.zeros_like(y)

        def g(self, t, y):
            return torch.zeros(len(y), 3, 9, dtype=y.dtype)

    for limit in (Mine(), dl.res1(3, "tanh").limit()):
        with pytest.raises(ValueError, match="compare_laws"):
            dl.compare(network, limit)
    with pytest.raises(ValueError, match="is a Young equation; use reference= instead"):
        dl.compare(network, tolerance=1e-3)


@pytest.mark.parametrize("hurst", [0.3, 0.5])
def test_the_modified_network_refuses_what_it_is_not_known_for(hurst):
    with pytest.raises(ValueError, match="Hurst index above 1/2"):
        dl.modified_res1(3, "tanh", weights=fractional(hurst))
    with pytest.raises(TypeError, match="weights must be FractionalBrownian"):
        dl.modified_res1(3, "tanh", weights=dl.Brownian())


# ---- convergence


@pytest.mark.nightly
def test_the_modified_network_has_the_better_order_on_the_same_paths():
    """H = 0.7, d = 1: orders 0.4 and 0.9. The errors against the same solution, and both intervals."""
    naive, modified = (
        dl.res1(1, "tanh", weights=fractional(0.7)),
        dl.modified_res1(1, "tanh", weights=fractional(0.7)),
    )
    assert naive.limit() == modified.limit()
    plain, better = (
        dl.compare(network, depths=DEPTHS, paths=4000, confidence=SURE) for network in (naive, modified)
    )
    assert plain.verdict == "converges", str(plain)
    assert plain.rate_interval[0] < 0.4 < plain.rate_interval[1] < 0.6
    assert 0.6 < better.rate_interval[0] < 0.9 < better.rate_interval[1]
    assert (better.errors < plain.errors).all()
    assert better.errors[-1] < 0.25 * plain.errors[-1]
    # The same network towards a limit whose noise is 10 % too small, on the same paths.
    for network in (naive, modified):  # of 20 seeds, 2 call the modified one "cannot tell"; none "converges"
        wrong = dl.compare(network, altered(network.limit(), 0.9), depths=DEPTHS, paths=4000, seed=1)
        assert wrong.verdict == "does not converge", str(wrong)


@pytest.mark.nightly
@pytest.mark.parametrize("hurst", [0.6, 0.8])
def test_a_wide_network_converges_or_cannot_tell_and_wrong_limits_are_caught(hurst):
    network = dl.res1(4, "tanh", weights=fractional(hurst))
    limit = network.limit()
    report = dl.compare(network, depths=DEPTHS, paths=256)
    assert report.verdict != "does not converge", str(report)
    assert report.theorem.startswith("Hu, Liu and Nualart (2016)")
    assert report.predicted_rate == pytest.approx(2 * hurst - 1)
    wrong_limits = (
        altered(limit, 2.0),
        dl.Independent(limit),
        dl.Independent(dl.res1(4, "tanh").limit()),
        dl.Identity(),
    )
    for wrong in wrong_limits:
        verdict = dl.compare(network, wrong, depths=DEPTHS, paths=256).verdict
        assert verdict == "does not converge", wrong
    another = dataclasses.replace(limit, weights=(fractional(hurst + 0.05),))
    with pytest.raises(ValueError, match="fractional path"):  # which this network does not read
        dl.compare(network, another, depths=DEPTHS, paths=256)


@pytest.mark.parametrize(("width", "hurst"), [(1, 0.6), (4, 0.7), (4, 0.9)])
def test_the_order_is_that_of_the_mean_even_where_the_faster_part_is_larger(width, hurst):
    """The distance to the scheme fluctuates by less than 0.001 in its order, of which 0.02 is over 20.

    Towards noise 10 % too large it stays.
    """
    network = dl.res1(width, "tanh", weights=fractional(hurst))
    report = dl.compare(network, depths=DEPTHS[:4], paths=100)
    assert report.verdict == "converges", str(report)
    assert report.rate == pytest.approx(2 * hurst - 1, abs=0.02)
    assert np.ptp(report.rate_interval) < 0.1
    wrong = dl.compare(network, altered(network.limit(), 1.1), depths=DEPTHS[:4], paths=100)
    assert wrong.verdict != "converges"
    assert width == 1 or wrong.verdict == "does not converge"


def test_the_limits_scheme_on_each_depths_layers_is_the_modified_network():
    report, modified = (
        dl.compare(make(3, "tanh", weights=fractional(0.7)), depths=[3, 4, 12], paths=40)
        for make in (dl.res1, dl.modified_res1)
    )
    gap, scheme = report.parts
    assert scheme.errors == pytest.approx(modified.common_errors, rel=1e-12)
    assert (gap.errors > 0).all()
    assert not modified.parts


@pytest.mark.parametrize("reference", [8, 16, 32])
def test_the_coarser_solution_may_be_a_depths_own_scheme(reference):
    """Eight steps and four: the deepest network's scheme is the coarser solution, which is solved once."""
    report = dl.compare(
        dl.res1(2, "tanh", weights=fractional(0.8)), depths=[2, 4], paths=40, reference=reference
    )
    assert np.isfinite(report.common_errors).all()
    assert report.parts[0].errors == pytest.approx([0.07, 0.04], rel=1)


def test_above_the_critical_exponent_the_network_tends_to_the_identity_at_its_order():
    network = dl.res1(3, "tanh", weights=fractional(0.7), exponent=1.0)
    report = dl.compare(network, depths=DEPTHS[:-1], paths=1000, confidence=SURE)
    assert report.verdict == "converges", str(report)
    assert report.rate_interval[0] < 0.3 < report.rate_interval[1]
    at_critical = dl.compare(
        dl.res1(3, "tanh", weights=fractional(0.7)), dl.Identity(), depths=DEPTHS[:-1], paths=300
    )
    assert at_critical.verdict == "does not converge"


def test_between_layers_the_order_is_that_of_the_parts():
    """Errors between layers fall by slopes of 0.5 to 0.6 at these depths, and like L^-0.4 in the end."""
    network = dl.res1(2, "tanh", weights=fractional(0.7))
    report = dl.compare(network, depths=DEPTHS[:4], paths=100, norm="sup-continuous")
    assert report.local_slopes.min() > 0.5
    assert report.rate == pytest.approx(0.4, abs=0.02)


def test_the_sup_over_all_times_is_as_rough_as_the_path():
    network = dl.modified_res1(1, "tanh", weights=fractional(0.8))
    report = dl.compare(network, depths=[8, 16], paths=32, norm="sup-continuous")
    assert report.predicted_rate == 0.8
    assert (report.raw_errors > dl.compare(network, depths=[8, 16], paths=32).raw_errors).all()


@pytest.mark.parametrize(("hurst", "make"), [(0.6, dl.res1), (0.9, dl.modified_res1)])
def test_errors_without_the_references_share_agree_with_a_reference_16_times_finer(hurst, make):
    """Other paths, so within 6 standard errors; the raw error at the deepest network is outside."""
    network = make(2, "tanh", weights=fractional(hurst))
    near, far = (dl.compare(network, depths=[4, 8], paths=3000, reference=steps) for steps in (16, 256))
    spread = np.hypot(near.standard_errors, far.standard_errors)
    assert (abs(near.errors - far.errors) < 6 * spread).all(), (near.errors, far.errors, spread)
    assert near.raw_errors[-1] < far.errors[-1] - 4 * spread[-1]


def test_the_share_of_the_references_own_square_has_the_ends_that_it_must():
    assert extrapolation_surplus(0.5) == 0.0
    assert extrapolation_surplus(1.0) == pytest.approx(2.0)
