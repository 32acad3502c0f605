"""Rough trends that hide the slope of noise: what they leave of D4²/D2², and intervals that still hold."""

import numpy as np
import pytest
import torch
from scipy import stats

import deeplimit as dl
from calibration import depth_sweeps
from deeplimit.trained.diagnosis.fresh_noise import log_ratios
from deeplimit.trained.diagnosis.hidden_slopes import LEAST_SHARE, hidden_trends, path_ratio
from deeplimit.trained.diagnosis.norms import LayerNorms
from deeplimit.trained.diagnosis.stacks import Stack

NOMINAL, LEVEL = 0.93, 1e-5
DEPTHS = (8, 16, 32, 64, 128, 256, 512)


def norms_of(weights):
    return [LayerNorms.of(Stack("A", torch.as_tensor(stacks["A"]))) for stacks in weights.values()]


def rough_and_noisy(seed, noise=0.5):
    """A trend L^-0.2 of Hölder index 1/2, whose differences fall like L^-0.2 relative to the noise's."""
    rng = np.random.default_rng(seed)
    return depth_sweeps.sweep(rng, depth_sweeps.rough(rng, 10), 0.2, noise, depths=DEPTHS)


def test_a_brownian_path_leaves_six_sevenths_and_a_line_all_of_the_ratio():
    assert path_ratio(0.5) == pytest.approx(6 / 7)
    assert path_ratio(1.0) == path_ratio(2.0) == 1.0
    assert path_ratio(0.01) == pytest.approx(1.0, abs=0.01)  # nearly white


def test_differences_of_a_path_have_the_ratio_that_is_expected_of_them():
    rng = np.random.default_rng(0)
    paths = np.cumsum(rng.normal(size=(4000, 16)), axis=0)
    ratios, deviations = log_ratios(norms_of({4000: {"A": paths}}))
    assert ratios[0] == pytest.approx(np.log(6 / 7), abs=5 * deviations[0])


def test_noise_alone_says_no_to_rough_trends_and_a_noisy_path_asks_for_one():
    noise = norms_of(depth_sweeps.sweep(np.random.default_rng(1), noise=1.0, depths=DEPTHS))
    rough = norms_of(rough_and_noisy(1))
    for networks, is_noise in ((noise, True), (rough, False)):
        hidden = hidden_trends(networks, (0.18, 0.22))
        assert (hidden.log_weights[0] == hidden.log_weights.max()) == is_noise
        shares = np.exp(-2 * hidden.offsets[:, -1])
        assert shares.min() >= LEAST_SHARE - 1e-12


def test_without_a_trend_only_steep_contributions_are_possible():
    networks = norms_of(depth_sweeps.sweep(np.random.default_rng(2), noise=1.0, depths=DEPTHS))
    slowest = [
        min(np.log((np.expm1(2 * offset[0])) / np.expm1(2 * offset[-1])) for offset in hidden.offsets[1:])
        / (2 * np.log(DEPTHS[-1] / DEPTHS[0]))
        for hidden in (hidden_trends(networks, None), hidden_trends(networks, (0.2, 0.3)))
    ]
    assert slowest == pytest.approx([0.5, 0.15])


@pytest.mark.statistical
@pytest.mark.parametrize("runs", [2, pytest.param(16, marks=pytest.mark.nightly)])
def test_the_hurst_index_of_noise_about_a_rough_trend_is_covered(runs):
    inside = []
    for seed in range(runs):
        report = dl.diagnose(rough_and_noisy(seed))
        assert report.verdict in ("sde", "cannot tell"), report.reason
        if np.isfinite(report.hurst):
            low, high = report.hurst_interval
            inside.append(low <= 0.5 <= high)
    assert len(inside) >= runs / 2
    assert sum(inside) >= stats.binom.ppf(LEVEL, len(inside), NOMINAL)


@pytest.mark.statistical
@pytest.mark.parametrize("runs", [1, pytest.param(12, marks=pytest.mark.nightly)])
def test_a_smooth_trend_does_not_widen_the_intervals_of_the_noise(runs):
    inside = 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        report = dl.diagnose(depth_sweeps.sweep(rng, depth_sweeps.smooth(rng, 10), 0.3, 0.5, depths=DEPTHS))
        assert report.verdict == "sde", report.reason
        low, high = report.hurst_interval
        assert high - low < 0.06
        inside += low <= 0.5 <= high
    assert inside >= stats.binom.ppf(LEVEL, runs, NOMINAL)
