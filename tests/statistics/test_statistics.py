"""Intervals and verdicts calibrated: on synthetic errors whose law is known, and on networks whose order is
known.
"""

import numpy as np
import pytest
import torch
from scipy import stats

import deeplimit as dl
from deeplimit import zoo
from deeplimit.common.verdict import judge
from deeplimit.judge.convergence.verdict import Evidence, rules
from deeplimit.simulation.moments import Moments
from deeplimit.statistics.power_law import ErrorEstimates, fit_floor, fit_rate

pytestmark = pytest.mark.statistical
LEVEL = 1e-5
DEPTHS = np.array([16, 32, 64, 128, 256])


def synthetic(rng, *, rate=0.5, paths=400, floor=0.0, correction=0.0, depths=DEPTHS):
    """Per-path squared errors: a common chi-squared factor a path times a depth's own, so that depths are
    correlated.
    """
    common = rng.chisquare(8, size=(paths, 1)) / 8
    own = rng.chisquare(12, size=(paths, len(depths))) / 12
    squared = depths ** (-2.0 * rate) * (1 + correction / depths) ** 2 + floor**2
    values = squared * common * own
    moments = Moments.of(np.sqrt(values), 2.0)
    return ErrorEstimates(
        depths, moments.log_errors(), moments.relative_covariance(), np.zeros(len(depths)), paths, 5.0
    )


def verdict_on(estimates, order=0.5):
    fit = fit_rate(estimates)
    return judge(rules, Evidence.of(estimates, fit, fit_floor(estimates, order), order)).code


@pytest.mark.parametrize("count", [150, pytest.param(3000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(("rate", "correction"), [(0.5, 0.0), (1.0, 0.3), (0.25, -0.3)])
def test_interval_covers_the_order_of_synthetic_errors_at_its_level(rate, correction, count):
    """93 % at least; and the correction's prior makes intervals 1.44 times as wide as estimates scatter."""
    rng = np.random.default_rng(0)
    fits = [fit_rate(synthetic(rng, rate=rate, correction=correction)) for _ in range(count)]
    intervals = np.array([fit.interval(0.95) for fit in fits])
    covered = int(((intervals[:, 0] <= rate) & (rate <= intervals[:, 1])).sum())
    assert stats.binom.cdf(covered, count, 0.93) > LEVEL
    by_chance = stats.norm.isf(LEVEL / 2) / np.sqrt(2 * count)
    scatter = np.std([fit.rate for fit in fits], ddof=1)
    widths = np.diff(intervals, axis=1).mean() / (2 * 1.96) / scatter
    assert 1.4 * (1 - by_chance) < widths < 1.48 * (1 + by_chance)


@pytest.mark.parametrize("count", [25, pytest.param(1000, marks=pytest.mark.nightly)])
def test_false_alarms_and_power_of_the_verdict_on_synthetic_errors(count):
    """At level 1e-5: right limits are called so in 97 %, never wrong in more than 0.5 %."""
    rng = np.random.default_rng(1)

    def verdicts(**kind):
        return [verdict_on(synthetic(rng, paths=1000, **kind)) for _ in range(count)]

    right = verdicts()
    assert right.count("does not converge") <= stats.binom.isf(LEVEL, count, 0.005)
    assert right.count("converges") >= stats.binom.ppf(LEVEL, count, 0.97)
    # A floor of three times the deepest error, 91 % of its square.
    wrong = verdicts(floor=0.19)
    assert wrong.count("does not converge") >= stats.binom.ppf(LEVEL, count, 0.99)
    assert wrong.count("converges") == 0


def test_without_a_predicted_order_a_floor_needs_more_evidence_but_is_found():
    rng = np.random.default_rng(2)
    estimates = synthetic(rng, paths=20_000, floor=0.12)
    assert fit_floor(estimates, None).probability > 0.999
    assert fit_floor(synthetic(rng, paths=20_000), None).probability < 0.05


def test_ignoring_the_correlation_between_depths_would_be_wrong():
    """The negative control of the covariance: with its diagonal alone, the interval is far too wide."""
    rng = np.random.default_rng(5)
    estimates = [synthetic(rng) for _ in range(200)]
    alone = [
        ErrorEstimates(e.depths, e.log_errors, np.diag(np.diag(e.covariance)), e.log_bias, e.count)
        for e in estimates[:10]
    ]
    spread = np.std([fit_rate(e).rate for e in estimates])
    claimed = np.median([np.diff(fit_rate(e).interval(0.95))[0] for e in alone]) / 3.92
    assert claimed > 1.2 * spread


@pytest.mark.parametrize(("paths", "flat"), [(400, 0.1), pytest.param(3000, 0.04, marks=pytest.mark.nightly)])
def test_reference_bias_is_removed_and_would_be_seen_if_it_were_not(paths, flat):
    """theory.md 4.1: with the reference at twice the deepest depth, the raw last error is 29 % low."""
    report = dl.compare(dl.res1(8, "tanh"), depths=[16, 32, 64, 128], paths=paths)
    corrected = report.common_errors * report.depths**0.5
    assert abs(corrected / corrected.mean() - 1).max() < flat
    raw = report.raw_errors / report.errors
    np.testing.assert_allclose(raw, np.sqrt(1 - report.depths / 256), rtol=1e-12)
    assert raw[-1] < 0.72


def test_moments_merge_to_those_of_the_whole_sample():
    errors = np.random.default_rng(0).gamma(2.0, size=(1000, 3))
    errors[:100] *= 0.01  # blocks of different scales
    for power in (1.0, 2.0, 3.5):
        merged = (
            Moments.of(errors[:100], power)
            .merge(Moments.of(errors[100:750], power))
            .merge(Moments.of(errors[750:], power))
        )
        values = errors**power
        mean = values.mean(axis=0)
        np.testing.assert_allclose(np.exp(merged.log_errors() * power), mean, rtol=1e-12)
        relative = np.cov(values.T) / np.outer(mean, mean) / 1000 / power**2
        np.testing.assert_allclose(merged.relative_covariance(), relative, rtol=1e-11)
        np.testing.assert_allclose(merged.kurtosis(), stats.kurtosis(values, fisher=False), rtol=1e-10)
        np.testing.assert_allclose(merged.worst(), errors.max(axis=0))


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_high_powers_of_extreme_errors_neither_overflow_nor_vanish(scale):
    errors = np.random.default_rng(0).uniform(0.5, 1.0, size=(300, 2))
    plain, extreme = (
        Moments.of(size * errors[:150], 100.0).merge(Moments.of(size * errors[150:], 100.0))
        for size in (1.0, scale)
    )
    np.testing.assert_allclose(extreme.log_errors(), plain.log_errors() + np.log(scale), rtol=1e-12)
    np.testing.assert_allclose(extreme.kurtosis(), plain.kurtosis(), rtol=1e-9)
    assert extreme.diverged.tolist() == [0, 0]


def test_lost_values_are_counted_by_column():
    values = np.array([[1.0, np.nan], [2.0, 3.0], [np.inf, 4.0]])
    assert Moments.of(values, 2.0).diverged.tolist() == [1, 1]
    assert Moments.of(values, 2.0).worst().tolist() == [np.inf, np.inf]


def test_a_right_limit_with_heavy_tails_is_never_called_wrong():
    """p = 4 of a geometric Brownian motion: the fourth power's own fourth moment is out of reach."""
    for seed in range(4):
        report = dl.compare(dl.res1(1, "identity"), paths=300, p=4, norm="final", seed=seed)
        assert report.verdict != "does not converge"


def test_a_right_limit_before_its_asymptotics_is_never_called_wrong():
    """Weights that turn faster than the coarse networks can follow bend the errors down, not up."""
    network = dl.res1(4, "tanh", weights=dl.SmoothGaussian(0.02))
    report = dl.compare(network, depths=[8, 16, 32, 64], paths=64, tolerance=1e-6)
    assert report.verdict != "does not converge", str(report)


@pytest.mark.nightly
def test_a_slightly_wrong_limit_is_not_called_right_by_adding_paths():
    network = dl.res1(4, "tanh")
    wrong = zoo.AlteredSDE(network.limit(), diffusion_scale=0.98)
    assert dl.compare(network, wrong, depths=[16, 32, 64, 128], paths=20_000).verdict != "converges"


def test_independent_noise_is_caught_in_the_theorems_own_norm():
    network = dl.res1(4, "tanh")
    report = dl.compare(network, dl.Independent(network.limit()), norm="sup-continuous")
    assert report.verdict == "does not converge"


STIFF = dl.res1(
    1, "identity", weights=dl.Trend(lambda t: -30.0 * torch.ones(1, 1))
)  # coarse depths oscillate


@pytest.mark.parametrize(
    ("network", "given", "rule", "has_an_order"),
    [
        (dl.res1(4, "tanh"), {"depths": [16, 256]}, "has_two_depths", True),
        (dl.res1(2, "tanh"), {"paths": 8}, "has_too_few_paths", False),
        (
            dl.res1(1, "identity"),
            {"depths": [8, 16, 32, 64], "paths": 300, "p": 6, "norm": "sup-continuous"},
            "rests_on_two_paths",
            False,
        ),
        (STIFF, {"depths": [4, 8, 16, 32], "paths": 64}, "may_not_fall", False),
    ],
)
def test_errors_that_say_little_give_no_verdict_and_mostly_no_order(network, given, rule, has_an_order):
    report = dl.compare(network, **given)
    assert (report.verdict, report.rule) == ("cannot tell", rule)
    assert np.isfinite(report.rate) == has_an_order
    assert not has_an_order or report.rate_interval[0] < 0.5 < report.rate_interval[1]


def test_heavy_tails_widen_the_interval():
    def width(kurtosis):
        logs, covariance = -0.5 * np.log(DEPTHS), 1e-4 * np.eye(5)
        return np.diff(
            fit_rate(ErrorEstimates(DEPTHS, logs, covariance, np.zeros(5), 400, kurtosis)).interval(0.95)
        )

    assert width(3.0) == width(39.0)
    assert width(160.0) > 1.5 * width(39.0)
