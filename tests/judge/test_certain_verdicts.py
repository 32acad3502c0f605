"""Right limits of narrow and heavy-tailed networks are confirmed at the defaults, wrong ones refused."""

import pytest
import torch

import deeplimit as dl

SIGMA = {"tanh": torch.tanh, "relu": torch.relu, "gelu": torch.nn.functional.gelu}


@pytest.mark.parametrize("width", [2, 6])
@pytest.mark.parametrize("activation", SIGMA)
def test_a_right_diffusion_is_confirmed_and_its_order_is_short(activation, width):
    report = dl.compare(dl.res1(width, activation), seed=11)
    low, high = report.rate_interval
    assert (report.verdict, report.rule) == ("converges", "falls")
    assert low <= 0.5 <= high
    assert high - low < (0.09 if width == 6 else 0.16)


@pytest.mark.parametrize("activation", SIGMA)
def test_a_sigma_one_percent_too_large_is_refused(activation):
    wrong = dl.res1(6, lambda x: 1.01 * SIGMA[activation](x)).limit()
    assert dl.compare(dl.res1(6, activation), wrong, seed=11).verdict == "does not converge"


def test_errors_without_moments_are_judged_by_medians():
    """Theorem 4.4 with a curved activation at variance 1/d: some paths explode, and count as the largest."""
    report = dl.compare(dl.inner(8, "scaled_gelu", noise=dl.Ito(A=1 / 8)), paths=256, seed=3)
    assert report.diverged.any()
    assert report.verdict == "converges", str(report)
    assert report.rate_interval[0] < 0.5 < report.rate_interval[1]
    assert any("median" in each for each in report.reservations)


def test_a_limit_without_its_drift_is_refused_by_medians():
    network = dl.inner(8, "scaled_gelu", noise=dl.Ito(A=1 / 8))
    no_drift = dl.inner(8, "tanh", noise=dl.Ito(A=1 / 8)).limit()
    assert dl.compare(network, no_drift, paths=256, seed=3).verdict != "converges"


@pytest.mark.statistical
def test_a_right_limit_of_width_two_is_confirmed_in_nearly_every_call():
    """399 of 400 calls are. At 99 %, fewer than 15 of 20 would be with probability below 1e-8."""
    verdicts = [dl.compare(dl.res1(2, "gelu"), seed=seed).verdict for seed in range(20)]
    assert verdicts.count("converges") >= 15
