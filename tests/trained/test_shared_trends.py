"""A trend is what networks share: an exact test under any noise, and noise that is new in every layer."""

import numpy as np
import pytest
import torch
from scipy import stats

import deeplimit as dl
from calibration import depth_sweeps
from deeplimit.trained.diagnosis import sweep
from deeplimit.trained.diagnosis.fresh_noise import effective_entries, fresh_share
from deeplimit.trained.diagnosis.norms import LayerNorms
from deeplimit.trained.diagnosis.stacks import Stack
from deeplimit.trained.diagnosis.trend import TrendEvidence, agreement

LEVEL = 1e-5


def norms(weights):
    return [LayerNorms.of(Stack("A", torch.as_tensor(stacks["A"]))) for stacks in weights.values()]


def coins(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.statistical
@pytest.mark.parametrize("hurst", [0.3, 0.85])
def test_long_memory_of_the_layers_is_not_taken_for_a_shared_trend(hurst):
    runs, found = 200, 0
    for seed in range(runs):
        weights = depth_sweeps.fractional(np.random.default_rng(seed), hurst, 2, (8, 12, 16, 24, 32))
        found += agreement(norms(weights), coins(seed)) <= 0.05
    assert found <= stats.binom.isf(LEVEL, runs, 0.05), found / runs


def test_trends_of_opposite_sign_in_half_of_the_networks_are_not_shared():
    rng = np.random.default_rng(1)
    weights = depth_sweeps.sweep(rng, depth_sweeps.smooth(rng, 4), 0.3, 0.1, 4)
    turned = {depth: {"A": stacks["A"] * (-1) ** k} for k, (depth, stacks) in enumerate(weights.items())}
    assert agreement(norms(weights), coins()) < 0.01
    assert agreement(norms(turned), coins()) > 0.05


def test_networks_that_each_have_a_trend_of_their_own_are_sdes():
    rng = np.random.default_rng(3)
    weights = {
        L: depth_sweeps.sweep(rng, depth_sweeps.smooth(rng, 6), 0.3, 1.0, 6, (L,))[L]
        for L in (16, 32, 64, 128, 256)
    }
    report = dl.diagnose(weights)
    assert (report.verdict, report.rule) == ("sde", "keeps_noise_and_own_trends")
    assert report.findings[0].trend_p_value > 0.005
    assert report.beta_interval[0] < 0.3 < report.beta_interval[1]
    assert report.beta_interval[1] - report.beta_interval[0] < 0.3


@pytest.mark.statistical
@pytest.mark.parametrize(("hurst", "width"), [(0.5, 1), (0.5, 6), (0.6, 3), (0.65, 3)])
def test_noise_with_memory_has_no_trend_of_its_own(hurst, width):
    """It may seem to have one in 1 % of sweeps at most."""
    passed = 0
    for seed in range(40):
        weights = depth_sweeps.fractional(np.random.default_rng(seed), hurst, width, (16, 32, 64, 128, 256))
        passed += TrendEvidence.of(norms(weights), coins(seed)).over_memory() > 1
    assert passed <= stats.binom.isf(LEVEL, 40, 0.01)


@pytest.mark.parametrize("power", [0.0, 1.0, 1.5])
def test_dependent_entries_count_for_as_many_as_they_are_worth(power):
    rng = np.random.default_rng(2)
    spectrum = np.arange(1, 65.0) ** -power
    draws = rng.normal(size=(600, 64)) * np.sqrt(spectrum)
    known = spectrum.sum() ** 2 / (spectrum**2).sum()
    assert effective_entries([LayerNorms.of(Stack("A", torch.as_tensor(draws)))]) == pytest.approx(
        known, rel=0.15
    )


@pytest.mark.parametrize(("share", "high"), [(0.2, 0.2 * np.exp(0.392)), (0.9, 1.0)])
def test_the_interval_of_a_share_of_noise_is_that_of_its_logarithm_up_to_one(share, high):
    """Twice 0.1 times 1.96, to either side."""
    ((low, end),) = sweep._shares_interval(np.array([share]), np.array([0.01]), 0.95)
    assert low == pytest.approx(share * np.exp(-0.392), rel=1e-4)
    assert end == pytest.approx(high, rel=1e-4)


def test_new_noise_has_equal_fourth_and_second_differences_and_a_rough_path_has_not():
    rng = np.random.default_rng(3)
    fresh = depth_sweeps.sweep(rng, depth_sweeps.smooth(rng, 4), 0.2, 0.5, 4)
    rough = depth_sweeps.sweep(rng, depth_sweeps.rough(rng, 4), 0.0, width=4)
    value, (low, high) = fresh_share(norms(fresh), 0.99)
    assert low < 1 < high
    assert high - low < 0.1
    value, (low, high) = fresh_share(norms(rough), 0.99)
    assert value == pytest.approx(6 / 7, abs=0.03)
    assert high < 0.95
