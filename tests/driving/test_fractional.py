"""Fractional Brownian weights have the covariance that they should, at every Hurst index and length."""

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from mpmath import mp, mpf
from scipy import stats

import deeplimit as dl
from deeplimit.driving import draw_layers, fractional, fractional_gaussian_noise

HURST = (0.1, 0.5, 0.95)
LEVEL = 1e-6


def exact_covariance(hurst, lag):
    mp.dps = 50
    h, k = 2 * mpf(hurst), mpf(lag)
    return float((abs(k + 1) ** h - 2 * abs(k) ** h + abs(k - 1) ** h) / 2)


@pytest.mark.parametrize("hurst", HURST)
def test_the_covariance_keeps_its_digits_at_every_lag(hurst):
    lags = np.array([0, 1, 2, 10, 31, 32, 33, 100, 4095, 65535])
    exact = np.array([exact_covariance(hurst, int(lag)) for lag in lags])
    np.testing.assert_allclose(fractional.noise_covariance(hurst, lags), exact, rtol=1e-10, atol=1e-15)


def draw(hurst, count, samples, seed=0, dtype=torch.float64):
    return fractional_gaussian_noise(hurst, count, (samples,), torch.Generator().manual_seed(seed), dtype)


def path_variance_deviates(hurst, count, assumed=None):
    """Return the largest z-score of Var B_t against t^2H over dyadic numbers of steps."""
    samples = 2**20 // count
    noise = draw(hurst, count, samples)
    worst = 0.0
    steps = 1
    while steps <= count:
        sums = noise[:steps].sum(dim=0) / steps ** (assumed or hurst)
        worst = max(worst, abs(float(sums.square().mean()) - 1.0) / (2.0 / samples) ** 0.5)
        steps *= 4
    return worst


@pytest.mark.statistical
@pytest.mark.parametrize("hurst", HURST)
@pytest.mark.parametrize("count", [16, 100, 1024])
def test_a_path_has_the_variance_of_fractional_brownian_motion(hurst, count):
    assert path_variance_deviates(hurst, count) < stats.norm.isf(LEVEL)


@pytest.mark.statistical
def test_another_hurst_index_has_another_variance():
    assert path_variance_deviates(0.7, 1024, assumed=0.68) > stats.norm.isf(LEVEL)


@pytest.mark.statistical
@pytest.mark.parametrize("hurst", HURST)
@pytest.mark.parametrize("count", [2, 16])
def test_every_pair_of_layers_has_the_covariance_of_fractional_noise(hurst, count):
    samples = 50_000
    noise = draw(hurst, count, samples)
    measured = (noise @ noise.T / samples).numpy()
    lags = np.subtract.outer(np.arange(count), np.arange(count))
    exact = fractional.noise_covariance(hurst, lags)
    deviation = np.sqrt((1.0 + exact**2) / samples)  # Isserlis
    assert np.abs((measured - exact) / deviation).max() < stats.norm.isf(LEVEL / count**2)


@given(
    hurst=st.floats(0.01, 0.99),
    count=st.integers(1, 300),
    width=st.integers(1, 4),
    paths=st.integers(1, 3),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_layers_have_their_shape_and_increments_are_the_same_path(hurst, count, width, paths, dtype):
    process = dl.FractionalBrownian(hurst)
    drawn = draw_layers(process, count, (width, width), paths, torch.Generator().manual_seed(1), dtype)
    assert drawn.matrices.shape == (count, paths, width, width)
    assert drawn.matrices.dtype == dtype
    assert bool(torch.isfinite(drawn.matrices).all())
    increments = process.draw_increments(count, width, paths, torch.Generator().manual_seed(1), dtype)
    torch.testing.assert_close(increments * count**hurst, drawn.matrices)


def test_a_large_draw_is_made_of_pieces_that_do_not_repeat_each_other(monkeypatch):
    monkeypatch.setattr(fractional, "NUMBERS_AT_ONCE", 2**10)
    noise = draw(0.7, 64, 400)
    correlation = torch.corrcoef(noise.T)
    off_diagonal = correlation[~torch.eye(400, dtype=torch.bool)]
    assert float(off_diagonal.abs().max()) < 0.9


@pytest.mark.parametrize("hurst", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_a_hurst_index_outside_its_range_is_refused(hurst):
    with pytest.raises(ValueError, match="hurst must be"):
        dl.FractionalBrownian(hurst)


def test_a_hurst_index_that_is_no_number_is_refused():
    with pytest.raises(TypeError, match="hurst must be a number"):
        dl.FractionalBrownian("0.7")
