"""Seven sweeps over depth whose truth is known: the verdict is right where the published steps are not."""

import numpy as np
import pytest

import deeplimit as dl
from calibration import depth_sweeps

ROWS = depth_sweeps.seven()
SLOPES = {  # maximum, increments scaled by the true beta, cumulative sum, sup of partial sums, D, D2
    "Hypothesis 1": (-0.30, -0.99, 0.70, 0.70, -0.78, -1.79),
    "Hypothesis 2, little noise": (-0.30, -0.24, 0.70, 0.70, -0.04, 0.02),
    "Hypothesis 2, much noise": (-0.31, -0.18, 0.70, 0.70, 0.01, 0.02),
    "Hypothesis 2, small trend": (-0.52, 0.32, 0.18, 0.18, 0.01, 0.02),
    "Brownian": (-0.48, None, 0.0, 0.0, 0.01, 0.02),
    "Hypothesis 1, no integral": (-0.30, -1.00, None, 0.70, -0.79, -1.77),
    "Hypothesis 1, rough trend": (-0.30, -0.54, 0.71, 0.71, -0.33, -0.28),
}
BETA = dict.fromkeys(SLOPES, 0.3) | {"Hypothesis 2, small trend": 0.8, "Brownian": np.nan}


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


def test_the_paper_is_right_where_noise_is_large_and_beta_is_above_one_half(reports):
    published = reports["Hypothesis 2, small trend"].published
    assert (published.verdict, published.difference) == ("sde", "")


@pytest.mark.parametrize("name", SLOPES)
def test_slopes_are_those_that_were_found_by_other_code(name, reports):
    norms = reports[name].norms["A"]
    maximum, scaled, total, highest, first, second = SLOPES[name]
    # Those numbers are of other draws, by least squares without a correction at small depth. How soon noise
    # prevails in differences depends on how steep the trend is, so that they are read off deep networks.
    found = {}
    for key, quantity in norms.items():
        some = reports[name].depths >= (64 if key in ("increments", "D", "D2") else 8)
        logs = np.log(reports[name].depths[some])
        found[key] = np.polyfit(logs, np.log(quantity.values[some]), 1)[0]
    assert found["maximum"] == pytest.approx(maximum, abs=0.06)
    assert found["sup of partial sums"] == pytest.approx(highest, abs=0.06)
    assert found["D"] == pytest.approx(first, abs=0.08)
    assert found["D2"] == pytest.approx(second, abs=0.08)
    if total is not None:
        assert found["cumulative sum"] == pytest.approx(total, abs=0.06)
    if scaled is not None:
        assert found["increments"] + BETA[name] == pytest.approx(scaled, abs=0.1)


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


def test_two_depths_are_not_enough_for_a_verdict():
    _, weights = ROWS["Hypothesis 1"]
    report = dl.diagnose({depth: weights[depth] for depth in (8, 64)})
    assert (report.verdict, report.rule) == ("cannot tell", "has_too_few_depths")


def test_one_entry_and_three_depths_leave_everything_open():
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


def test_homogeneous_activations_have_their_factors_multiplied_in():
    _, plain = ROWS["Hypothesis 2, much noise"]
    rng = np.random.default_rng(7)
    weights = {}
    for depth, stacks in plain.items():
        signs = rng.choice((-1.0, 1.0), depth)
        factors = signs * depth**-0.2 * rng.uniform(0.5, 1.5, depth)
        weights[depth] = {"A": stacks["A"] / np.abs(factors)[:, None, None], "delta": factors}
    report = dl.diagnose(weights, homogeneous=True)
    again = dl.diagnose(plain)
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
