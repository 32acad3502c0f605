"""Seven sweeps over depth whose truth is known: the verdict is right where the published steps are not."""

import numpy as np
import pytest
import torch

import deeplimit as dl
from calibration import depth_sweeps
from deeplimit.trained.diagnosis import norms
from deeplimit.trained.diagnosis.stacks import Stack

ROWS = depth_sweeps.seven()
BETA = dict.fromkeys(ROWS, 0.3) | {"Hypothesis 2, small trend": 0.8, "Brownian": np.nan}


@pytest.fixture(scope="module")
def reports():
    return {name: dl.diagnose(weights) for name, (_, weights) in ROWS.items()}


@pytest.mark.parametrize("name", ROWS)
def test_the_verdict_is_right(name, reports):
    assert reports[name].verdict == ROWS[name][0], reports[name].reason


@pytest.mark.parametrize("name", ROWS)
def test_beta_is_the_trends_exponent_and_nothing_without_a_trend(name, reports):
    report = reports[name]
    assert report.beta == pytest.approx(BETA[name], abs=0.03, nan_ok=True)
    low, high = report.beta_interval
    assert np.isnan(low) if np.isnan(BETA[name]) else high - low < 0.2


@pytest.mark.parametrize("name", ["Hypothesis 2, little noise", "Hypothesis 2, much noise"])
def test_step_3_of_the_paper_is_blind_to_noise_where_beta_is_below_one_half(name, reports):
    report = reports[name]
    assert report.verdict == "sde"
    assert report.published.verdict == "linear-ode"
    assert report.published.scaled_increments < -0.1
    assert "Step 3" in report.published.difference


def test_step_2_reads_a_wrong_beta_where_the_integral_of_the_trend_vanishes(reports):
    report = reports["Hypothesis 1, no integral"]
    assert abs(report.published.beta - 0.3) > 0.2
    assert report.published.verdict != report.verdict
    assert report.published.difference


def test_quantities_are_those_of_the_layers_entry_by_entry(monkeypatch):
    """In chunks of two entries; D, D2 and D4 are differences over what independent layers have."""
    monkeypatch.setattr(norms, "CHUNK", 18)
    layers = np.random.default_rng(0).normal(size=(9, 3, 2)).cumsum(axis=0)
    found = norms.LayerNorms.of(Stack("A", torch.from_numpy(layers)))
    flat = layers.reshape(9, 6)
    sizes, sums = np.linalg.norm(flat, axis=1), np.linalg.norm(np.cumsum(flat, axis=0), axis=1)
    d1, d2, d4 = (np.diff(flat, n=order, axis=0) for order in (1, 2, 4))
    assert found.quantities() == pytest.approx(
        {
            "maximum": sizes.max(),
            "increments": np.linalg.norm(d1, axis=1).max(),
            "cumulative sum": sums[-1],
            "root sum of squares": np.linalg.norm(flat),
            "root mean square": np.linalg.norm(flat) / 3,
            "sup of partial sums": sums.max(),
            "D": np.linalg.norm(d1) / 2**0.5,
            "D2": np.linalg.norm(d2) / 6**0.5,
            "D4": np.linalg.norm(d4) / 70**0.5 * (9 / 5) ** 0.5,
            "participation ratio": (sizes**2).sum() ** 2 / (9 * (sizes**4).sum()),
        }
    )
    np.testing.assert_allclose(found.apart, d4[::5] @ d4[::5].T)
    np.testing.assert_allclose(found.block_products, flat @ flat.T)
    cosines = np.cos(np.pi * 2 * (np.arange(9) + 0.5) / 9)
    np.testing.assert_allclose(found.waves[2], cosines @ flat)


def test_the_smoothness_of_the_trend_and_the_roughness_of_the_noise_are_found(reports):
    assert reports["Hypothesis 1"].holder == pytest.approx(1.0, abs=0.02)
    assert reports["Hypothesis 1, rough trend"].holder == pytest.approx(0.5, abs=0.05)
    assert reports["Brownian"].hurst == pytest.approx(0.5, abs=0.03)
    assert reports["Hypothesis 2, little noise"].hurst == pytest.approx(0.5, abs=0.05)
    assert np.isnan(reports["Hypothesis 1"].hurst)


def test_shares_of_trend_and_noise_add_up_and_are_those_of_the_law():
    rng = np.random.default_rng(1)
    weights = depth_sweeps.sweep(rng, depth_sweeps.smooth(rng, 10), 0.3, 1.0)
    report = dl.diagnose(weights)
    for depth, trend, noise in zip(report.depths, report.trend, report.noise, strict=True):
        total = float((weights[int(depth)]["A"] ** 2).sum())
        assert noise == pytest.approx(10 / total, rel=0.5 if depth < 64 else 0.1)
        assert trend + noise == pytest.approx(1.0)


def test_a_few_large_layers_are_sparse_and_not_noise():
    report = dl.diagnose(depth_sweeps.sparse(np.random.default_rng(2)))
    assert (report.verdict, report.rule) == ("sparse", "is_sparse")
    assert report.norms["A"]["participation ratio"].slope == pytest.approx(-1.0, abs=0.3)


@pytest.mark.parametrize("hurst", [0.25, 0.75])
def test_fractional_noise_has_its_hurst_index_and_is_no_trend(hurst):
    report = dl.diagnose(depth_sweeps.fractional(np.random.default_rng(3), hurst))
    assert report.verdict == "no trend", report.reason
    assert report.hurst == pytest.approx(hurst, abs=0.03)


def test_weights_that_keep_their_size_and_are_smooth_are_a_neural_ode():
    rng = np.random.default_rng(4)
    report = dl.diagnose(depth_sweeps.sweep(rng, depth_sweeps.smooth(rng, 5), 0.0, width=5))
    assert report.verdict == "neural-ode"
    assert report.beta == pytest.approx(0.0, abs=0.02)


def test_two_depths_or_three_of_one_entry_are_not_enough_for_a_verdict():
    _, weights = ROWS["Hypothesis 1"]
    report = dl.diagnose({depth: weights[depth] for depth in (8, 64)})
    assert (report.verdict, report.rule) == ("cannot tell", "has_too_few_depths")
    weights = depth_sweeps.sweep(np.random.default_rng(5), noise=1.0, width=1, depths=(8, 12, 16))
    assert dl.diagnose(weights).verdict == "cannot tell"


def test_round_off_of_float32_is_not_taken_for_noise():
    _, weights = ROWS["Hypothesis 1"]
    report = dl.diagnose({depth: {"A": stacks["A"].astype(np.float32)} for depth, stacks in weights.items()})
    assert report.verdict == "linear-ode", report.reason


def test_noise_of_the_biases_alone_makes_an_sde():
    _, smooth = ROWS["Hypothesis 1"]
    rng = np.random.default_rng(6)
    weights = {
        depth: {"A": stacks["A"], "b": rng.normal(size=(depth, 10)) / np.sqrt(depth)}
        for depth, stacks in smooth.items()
    }
    report = dl.diagnose(weights)
    assert (report.verdict, report.rule) == ("sde", "noise_of_another_weight_stays")


def test_homogeneous_activations_have_their_factors_multiplied_in(reports):
    _, plain = ROWS["Hypothesis 2, much noise"]
    rng = np.random.default_rng(7)
    weights = {}
    for depth, stacks in plain.items():
        signs = rng.choice((-1.0, 1.0), depth)
        factors = signs * depth**-0.2 * rng.uniform(0.5, 1.5, depth)
        weights[depth] = {"A": stacks["A"] / np.abs(factors)[:, None, None], "delta": factors}
    report = dl.diagnose(weights, homogeneous=True)
    again = reports["Hypothesis 2, much noise"]
    assert report.weight == "|δ|A"
    assert report.verdict == again.verdict
    assert report.beta == pytest.approx(again.beta, abs=1e-6)
    assert report.alpha == pytest.approx(0.2, abs=0.1)


def test_residual_factors_have_their_exponent():
    _, plain = ROWS["Hypothesis 1"]
    report = dl.diagnose(
        {depth: stacks | {"delta": np.array(-2 * depth**-0.7)} for depth, stacks in plain.items()}
    )
    assert report.alpha == pytest.approx(0.7, abs=1e-3)
    assert report.published.alpha == pytest.approx(0.7, abs=1e-3)


def test_several_seeds_at_a_depth_are_networks_of_that_depth():
    sweeps = [depth_sweeps.seven(seed)["Hypothesis 2, much noise"][1] for seed in (0, 1)]
    report = dl.diagnose({depth: [each[depth] for each in sweeps] for depth in (16, 32, 64, 128)})
    assert report.depths.tolist() == [16, 16, 32, 32, 64, 64, 128, 128]
    assert report.verdict == "sde"


def test_a_rough_trend_whose_differences_keep_their_size_is_not_called_noise():
    """With β + ν = 1/2 the slopes are those of Hypothesis 2."""
    rng = np.random.default_rng(8)
    report = dl.diagnose(depth_sweeps.sweep(rng, depth_sweeps.rough(rng, 6), 0.0, width=6))
    assert report.norms["A"]["D4"].slope == pytest.approx(0.0, abs=0.03)
    assert (report.verdict, report.rule) == ("cannot tell", "may_be_a_rough_path")


@pytest.mark.filterwarnings("ignore:invalid value")
def test_layers_that_add_up_to_nothing_leave_no_number_that_is_none():
    signs = torch.tensor([1.0, -1.0])[:, None, None]
    layers = {depth: {"A": signs.repeat(depth // 2, 1, 1) * torch.eye(4)} for depth in (16, 32, 64)}
    told = str(dl.diagnose(layers))
    assert "nan" not in told
    assert "Step 2" in told


def mixture(depth, seed, share):
    """A trend that turns, of this share of the squares, and fresh noise; both of size 1."""
    draws = torch.Generator().manual_seed(seed)
    times = torch.arange(1, depth + 1)[:, None, None] / depth
    first, second = torch.randn(2, 8, 8, generator=draws)
    trend = first * torch.cos(2 * times) + second * torch.sin(2 * times)
    return {"A": share**0.5 * trend + (1 - share) ** 0.5 * torch.randn(depth, 8, 8, generator=draws)}


@pytest.mark.parametrize("seed", [2, 7, 11])
def test_each_networks_trend_beside_noise_of_one_size_is_no_fractional_noise(seed):
    """Hurst indices of 0.8 were said of them, beside partial sums that grow like the depth."""
    depths = (8, 16, 32, 64, 128)
    found = dl.diagnose({depth: mixture(depth, 1000 * seed + depth, 0.8) for depth in depths})
    noise = dl.diagnose({depth: mixture(depth, 1000 * seed + depth, 0.0) for depth in depths})
    assert (found.verdict, noise.verdict) == ("cannot tell", "no trend")
    assert np.isnan(found.hurst)


def test_layers_that_are_one_have_no_increments_in_step_3():
    layers = {
        depth: dict(A=torch.eye(4, dtype=torch.float64).expand(depth, 4, 4) / depth) for depth in (8, 16, 32)
    }
    report = dl.diagnose(layers)
    assert report.published.verdict == "linear-ode"
    assert report.published.scaled_increments == -np.inf
