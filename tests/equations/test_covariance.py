"""The covariance SDE of shaped networks: its law against closed forms and a second route."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

import deeplimit as dl

START = torch.linalg.cholesky(0.7 * torch.eye(2, dtype=torch.float64) + 0.3)


def drawn(limit, draws, seed=0, steps=256):
    """Log size of the first input, and the correlation of two (P,)."""
    end = limit.draw_end(START.expand(draws, 2, 2), torch.Generator().manual_seed(seed), steps)
    covariance = end @ end.mT
    size = covariance.diagonal(dim1=1, dim2=2)
    return size[:, 0].log().numpy(), (covariance[:, 0, 1] / size.prod(1).sqrt()).numpy()


def correlations(time, difference, draws, steps=512, seed=0):
    """The scalar equation of one correlation, dρ = (ν - ½ρ(1-ρ²)) dt + (1-ρ²) dw, by Euler-Maruyama."""
    normal, rho = np.random.default_rng(seed), np.full(draws, 0.3)
    for _ in range(steps):
        pull = difference**2 / (2 * math.pi) * (np.sqrt(1 - rho**2) - rho * np.arccos(rho))
        noise = (1 - rho**2) * math.sqrt(time / steps) * normal.standard_normal(draws)
        rho = np.clip(rho + time / steps * (pull - 0.5 * rho * (1 - rho**2)) + noise, -1.0, 1.0)
    return rho


@pytest.mark.statistical
def test_the_size_of_an_input_is_log_normal():
    """Level 1e-5; with half of the variance it is not."""
    time = 2.0
    limit = dl.CovarianceSDE(2, time, 2.0)
    size, _ = drawn(limit, 2000, steps=128)
    known = stats.norm(limit.log_size_mean, math.sqrt(limit.log_size_variance))
    assert (limit.log_size_mean, limit.log_size_variance) == (-time, 2.0 * time)
    assert stats.kstest(size, known.cdf).pvalue > 1e-5
    assert stats.kstest(size, stats.norm(-time, math.sqrt(time)).cdf).pvalue < 1e-12


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("difference", "time", "mean", "draws"),
    [(4.0, 0.5, 0.684, 2000), pytest.param(1.0, 1.0, 0.3423, 20_000, marks=pytest.mark.nightly)],
)
def test_correlations_follow_their_own_equation(difference, time, mean, draws):
    """Level 1e-5, against means of an earlier study and a scalar scheme; without ν it is another law."""
    _, ours = drawn(dl.CovarianceSDE(2, time, difference), draws, steps=64)
    assert abs(ours.mean() - mean) < 4.5 * ours.std() / math.sqrt(len(ours)) + 0.003  # of the study's error
    assert stats.ks_2samp(ours, correlations(time, difference, draws)).pvalue > 1e-5
    _, linear = drawn(dl.CovarianceSDE(2, time, 0.0), draws, seed=1, steps=64)
    assert stats.ks_2samp(ours, linear).pvalue < 1e-5


@pytest.mark.statistical
def test_without_drift_the_covariance_is_a_martingale_and_the_scheme_keeps_its_mean():
    """Within 4.9 standard errors (level 1e-6) of V_0, on 8 steps, up to their own second order."""
    limit = dl.CovarianceSDE(2, 0.25, 0.0)
    end = limit.draw_end(START.expand(30_000, 2, 2), torch.Generator().manual_seed(4), 8)
    covariance = end @ end.mT
    mean, error = covariance.mean(0), covariance.std(0) / math.sqrt(len(end))
    second_order = (1.0 + (2 * 0.25 / 8) ** 2 / 16) ** 8 - 1.0
    assert ((mean - START @ START.mT).abs() < 4.9 * error + second_order).all()


def test_the_drift_is_zero_on_the_diagonal_and_for_inputs_that_agree():
    limit = dl.CovarianceSDE(3, slope_difference=2.0)
    h = torch.tensor([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 3.0, 0.0]], dtype=torch.float64)
    drift = limit.drift(h[None])[0]
    assert drift.diagonal().tolist() == [0.0, 0.0, 0.0]
    assert abs(drift[0, 1]) < 1e-12
    assert drift[0, 2].item() == pytest.approx(3.0 * 4.0 / (2 * math.pi))
    assert torch.equal(drift, drift.T)
    assert limit.drift(torch.zeros(1, 3, 3)).abs().max() == 0.0


def test_inputs_that_agree_stay_together():
    h0 = torch.tensor([[1.0, 0.0], [1.0, 0.0]]).expand(50, 2, 2)
    end = dl.CovarianceSDE(2).draw(h0, torch.Generator().manual_seed(0))
    torch.testing.assert_close(end[:, 0].norm(dim=1), end[:, 1].norm(dim=1))
    assert end.isfinite().all()


def test_sensible_parameters_are_drawn_on_256_steps():
    """Larger ones on max(4 T (c₊ - c₋)², (32 + 2 m²) T^3/2) steps."""
    for arguments, steps in (((2,), 40), ((3, 2.0, 4.0), 142), ((8, 1.0, 8.0), 256), ((2, 4.0, 24.0), 9216)):
        assert dl.CovarianceSDE(*arguments).fewest_steps() == steps
    assert dl.CovarianceSDE(2) == dl.CovarianceSDE(2, depth_to_width=1.0, slope_difference=1.0)
    limit, h0 = dl.CovarianceSDE(2, 1.0, 8.0), START.expand(3, 2, 2)
    first, second = (torch.Generator().manual_seed(0) for _ in range(2))
    assert torch.equal(limit.draw(h0, first), limit.draw_end(h0, second, 256))


@pytest.mark.nightly
@pytest.mark.statistical
def test_correlations_of_very_different_slopes_are_those_of_a_finer_scheme():
    """Level 1e-5, by the angle of two inputs; T(c₊ - c₋)² is 2304, and 256 steps have quite another law."""
    limit, start = dl.CovarianceSDE(2, 4.0, 24.0), START.expand(200, 2, 2)
    ours, finer = (
        torch.atan2(end[:, 1, 1], end[:, 1, 0]).numpy()
        for end in (
            limit.draw(start, torch.Generator().manual_seed(0)),
            limit.draw_end(start, torch.Generator().manual_seed(1), 2 * limit.fewest_steps()),
        )
    )
    assert stats.ks_2samp(ours, finer).pvalue > 1e-5


def test_more_steps_than_can_be_taken_are_refused():
    h0 = torch.eye(2).expand(3, 2, 2)
    for limit in (dl.CovarianceSDE(2, 1e3, 1e3), dl.CovarianceSDE(2, 1.0, 1e200)):
        with pytest.raises(ValueError, match=r"slope_difference=.* steps, more than 16777216"):
            limit.draw(h0, torch.Generator())


def test_laws_are_compared_on_as_many_steps_as_the_limit_needs():
    network, size = dl.shaped_mlp(2, depth_to_width=4.0), {"depths": [16, 32, 64], "draws": 200}
    assert dl.CovarianceSDE(2, 4.0).fewest_steps() == 320
    assert "on 320 steps" in dl.compare_laws(network, x=START[None], **size).sampling
    with pytest.raises(ValueError, match=r"steps must be at least 320 .* got 256"):
        dl.compare_laws(network, x=START[None], steps=256, **size)


def test_wrong_numbers_are_refused():
    for arguments in ((0,), (2, 0.0), (2, 1.0, math.inf)):
        with pytest.raises(ValueError, match="must be"):
            dl.CovarianceSDE(*arguments)


def test_a_limit_whose_states_have_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"states of shape \(2,\), but those of the network .*\(2, 2\)"):
        dl.compare_laws(dl.shaped_mlp(2), dl.IsotropicSDE(2), depths=[8, 16, 32], draws=200)
