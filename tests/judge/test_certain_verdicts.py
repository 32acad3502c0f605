"""Right limits of narrow and heavy-tailed networks are confirmed at the defaults, wrong ones refused."""

import dataclasses

import pytest
import torch

import deeplimit as dl
from deeplimit.judge.convergence.pairing import Pairing

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
    report = dl.compare(dl.res1(6, activation), wrong, seed=11)
    assert report.verdict == "does not converge"
    network, scheme = report.parts
    assert report.rate == network.rate != scheme.rate
    assert network.name in report._facts()[0][1]  # whose order it is, beside errors that fall
    assert scheme.name not in report._facts()[0][1]


def test_errors_without_moments_are_judged_by_medians():
    """Theorem 4.4 with a curved activation at variance 1/d: some paths explode, and count as the largest."""
    report = dl.compare(dl.inner(8, "scaled_gelu", noise=dl.Ito(A=1 / 8)), paths=256, seed=3)
    assert report.diverged.any()
    assert report.verdict == "converges", str(report)
    assert report.rate_interval[0] < 0.5 < report.rate_interval[1]
    assert report.average == "median"
    assert "p = " not in str(report)
    assert report._curves()[0].axis.startswith("median")
    assert set(report._table().series()["average"]) == {"median"}
    assert report.errors.tolist() == report.common_errors.tolist()
    assert report.to_dict()["average"] == "median"


@pytest.mark.parametrize("seed", [302089957802005, 302089957802016, 302089957802023])
@pytest.mark.parametrize(("share", "verdict"), [(1.0, "converges"), (0.5, "does not converge")])
def test_a_limit_that_explodes_is_judged_by_medians_before_a_path_is_lost(seed, share, verdict):
    """By means 31 of 400 intervals missed 1/2, those of these seeds among them: one path made up the mean."""
    network = dl.inner(8, "scaled_silu", noise=dl.Ito(A=1 / 8))
    limit = network.limit()
    limit = dataclasses.replace(limit, curvature=share * limit.curvature)
    report = dl.compare(network, limit, depths=[16, 32, 64, 128, 256], paths=512, seed=seed)
    assert report.verdict == verdict
    if share == 1.0:
        assert report.average == "median"
        assert report.rate_interval[0] < 0.5 < report.rate_interval[1]


def test_errors_with_moments_are_means_and_say_so():
    report = dl.compare(dl.res1(3, "tanh"), depths=[8, 16, 32], paths=64)
    assert report.average == "mean"
    assert "p = 2" in str(report)
    assert not report._curves()[0].axis.startswith("median")
    assert "average" not in report._table().series()


def test_medians_in_a_theorem_have_its_order_where_their_differences_do_not():
    """Differences at these depths read 0.3: the fit to distances knows the theorem's further terms."""
    network = dl.inner(28, "scaled_gelu", noise=dl.Ito(A=1 / 28))
    task, seen = {}, Pairing.of
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pairing, "of", lambda *args: task.setdefault("pairing", seen(*args)))
        report = dl.compare(network, paths=400, seed=1)
    assert report.average == "median"
    assert report.rate_interval[0] < 0.5 < report.rate_interval[1]
    assert task["pairing"].order.interval(0.95)[1] < 0.5


def test_a_limit_without_its_drift_is_refused_by_medians():
    network = dl.inner(8, "scaled_gelu", noise=dl.Ito(A=1 / 8))
    no_drift = dl.inner(8, "tanh", noise=dl.Ito(A=1 / 8)).limit()
    assert dl.compare(network, no_drift, paths=256, seed=3).verdict != "converges"


@pytest.mark.statistical
def test_a_right_limit_of_width_two_is_confirmed_in_nearly_every_call():
    """399 of 400 calls are. At 99 %, fewer than 8 of 12 would be with probability below 1e-7."""
    verdicts = [dl.compare(dl.res1(2, "gelu"), seed=seed).verdict for seed in range(12)]
    assert verdicts.count("converges") >= 8


@pytest.mark.parametrize(("width", "hurst"), [(1, 0.7), (2, 0.7), (2, 0.8)])
def test_a_young_equation_with_too_much_noise_is_refused_at_first_sizes(width, hurst):
    """A tenth too much: its distances stay several times what is left of the networks' own differences."""
    network = dl.res1(width, "tanh", weights=dl.FractionalBrownian(hurst))
    limit = network.limit()
    given = {"depths": (16, 32, 64, 128, 256), "paths": 512, "seed": 5}
    wrong = dl.compare(network, dataclasses.replace(limit, noise_scale=1.1 * limit.noise_scale), **given)
    assert (wrong.verdict, wrong.rule) == ("does not converge", "stays_apart")
    assert dl.compare(network, limit, **given).verdict != "does not converge"


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "converges"), (1.005, "does not converge")])
@pytest.mark.parametrize(("paths", "seed"), [(40, 31), (256, 12)])
def test_smooth_weights_of_which_one_path_makes_up_the_mean_are_decided(paths, seed, factor, verdict):
    """Differences expand in powers of the depth on every path: "cannot tell" in 55 of 55 such calls."""
    make, weights = dl.res2, dl.SmoothGaussian(1.0)
    wrong = make(4, lambda x: factor * x, weights=weights).limit()
    report = dl.compare(
        make(4, "identity", weights=weights), wrong, depths=[16, 32, 64, 128, 256], paths=paths, seed=seed
    )
    assert max(report.kurtosis) > paths / 2
    assert report.verdict == verdict
    assert factor != 1.0 or report.rate_interval[0] < 1.0 < report.rate_interval[1]
