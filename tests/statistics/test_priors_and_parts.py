"""What fits of errors are made of, part by part, against formulas and scipy's laws."""

import math

import numpy as np
import pytest
from scipy import stats

from deeplimit.statistics import power_law
from deeplimit.statistics.differences import Remainder
from deeplimit.statistics.extrapolation import extrapolate
from deeplimit.statistics.power_law import (
    DEFICITS,
    SIZES,
    ErrorEstimates,
    Floor,
    correlated,
    fit_floor,
    fit_rate,
    least_paths,
    second_contributions,
    size_prior,
    slopes_between,
)

DEPTHS = np.array([16, 32, 64, 128, 256])
RATIOS = np.geomspace(0.1, 30.0, 13)


def estimates(order=0.5, variances=1e-4, **given):
    covariance = np.diag(np.broadcast_to(variances, 5)).astype(float)
    return ErrorEstimates(DEPTHS, -order * np.log(DEPTHS), covariance, np.zeros(5), 10**5, **given)


def test_what_a_reference_leaves_open_counts_relative_to_each_error():
    """An absolute error of 1e-3 is 1.6 % of the smallest error, 1/16, and 0.4 % of the largest, 1/4."""
    found = estimates(resolution=1e-3).noise - estimates().noise
    np.testing.assert_allclose(found, np.diag(1e-6 * DEPTHS), rtol=1e-9, atol=1e-18)


@pytest.mark.parametrize(
    ("corrections", "powers"),
    [
        ((1.0,), (1.0, 2.0, 3.0, 4.0)),
        ((0.5, 1.0), (0.5, 1.0, 1.5, 2.0)),
        ((0.3, 1.0), (0.3, 0.6, 0.9, 1.0, 1.2)),
        ((0.1,), tuple(k / 10 for k in range(1, 11))),  # up to 1 at least
        ((0.4, 0.41), (0.4, 0.8, 1.2, 1.6)),  # 0.41 counts as 0.4
        ((0.01, 1.0), tuple(k / 40 for k in range(1, 41))),
        ((0.0, 0.5), (0.5, 1.0, 1.5, 2.0)),
    ],
)
def test_powers_of_the_correction_are_sums_of_the_given_ones(corrections, powers):
    assert estimates(corrections=corrections).powers == pytest.approx(powers)


def test_second_orders_next_to_each_other_count_once():
    assert estimates(second_orders=(0.525, 0.51, 0.5, 0.3, 1e-7)).second_powers == (0.3, 0.5, 0.525)


@pytest.mark.parametrize("interfere", [False, True])
def test_second_contributions_have_the_masses_of_half_of_students_law(interfere):
    """Shares of κ's prior between geometric midpoints, of the contributions that theory admits."""
    found, prior = second_contributions(estimates(second_orders=(0.5, 1.0), interfere=interfere))
    law, inner = stats.t(3, scale=1.5), np.sqrt(RATIOS[1:] * RATIOS[:-1])
    masses = 2 * np.diff(law.cdf([0.0, *inner, np.inf]))
    correlations = (-1.0, -0.9, -0.5, 0.0, 0.5, 0.9, 1.0) if interfere else (0.0,)
    factors, weights = [np.zeros(5)], [1.0]
    for power in (0.5, 1.0):
        for correlation in correlations:
            for ratio, mass in zip(RATIOS, masses, strict=True):
                second = ratio * (16 / DEPTHS) ** power
                square = (1 + correlation * second) ** 2 + (1 - correlation**2) * second**2
                if square.min() > 1e-3 and second[-1] <= 2.0:
                    factors.append(np.log(square) / 2)
                    weights.append(mass / 2 / len(correlations))
    np.testing.assert_allclose(found, factors, atol=1e-13)
    np.testing.assert_allclose(prior, np.array(weights) / sum(weights))


def test_what_an_euler_scheme_falls_short_has_its_prior_beside_every_contribution():
    plain, prior = second_contributions(estimates(second_orders=(0.5,)))
    found, weights = second_contributions(estimates(second_orders=(0.5,), is_euler=True))
    assert sum(DEFICITS.values()) == pytest.approx(1.0)
    expected = [
        (factor - c / DEPTHS, p * q)
        for c, q in DEFICITS.items()
        for factor, p in zip(plain, prior, strict=True)
    ]
    np.testing.assert_allclose(found, [factor for factor, _ in expected])
    np.testing.assert_allclose(weights, [weight for _, weight in expected])


@pytest.mark.parametrize(("second", "scale"), [((), 0.7), ((0.5,), 2.0)])
def test_sizes_of_the_correction_have_a_half_cauchy_prior(second, scale):
    found = size_prior(estimates(corrections=(0.5, 1.0), second_orders=second))
    middle = np.sqrt(SIZES[1:-1] * SIZES[2:])
    law = stats.halfcauchy(scale=scale * 16**-0.5)
    np.testing.assert_allclose(found, np.diff(law.cdf([0.0, SIZES[1] / 2, *middle, np.inf])))


def test_a_correction_of_each_size_adds_to_the_covariance_before_it_is_stretched():
    of, stretch = estimates(corrections=(0.5,)), np.array([1.0, -2.0, 1.0, 0.5, 3.0])
    logs = np.arange(5.0)
    found = correlated(of, logs, stretch)
    u = 16 / DEPTHS
    bends = sum(np.outer(u, u) ** power for power in (0.5, 1.0, 1.5, 2.0)) / 4
    for k in (0, 7, 25):
        covariance = (of.noise + SIZES[k] ** 2 * bends) * np.outer(stretch, stretch)
        np.testing.assert_allclose(np.linalg.inv(found.inverses[k]), covariance, rtol=1e-6)
        # The density of what is not stretched: its covariance's determinant.
        plain = np.linalg.slogdet(of.noise + SIZES[k] ** 2 * bends)[1]
        assert found.log_determinants[k] == pytest.approx(plain, rel=1e-9)
    assert found.values is logs


def test_a_contribution_without_prior_probability_does_not_move_the_floor(monkeypatch):
    """Among those tried is one that would explain the errors without a floor."""
    squares = 1 / DEPTHS + 1 / 64
    of = ErrorEstimates(DEPTHS, 0.5 * np.log(squares), 1e-6 * np.eye(5), np.zeros(5), 10**5)
    alone = fit_floor(of, 0.5)
    assert alone.share == pytest.approx(0.8, abs=0.03)
    explains = 0.5 * np.log(squares * DEPTHS)
    for rare, changes in ((1e-300, False), (0.999, True)):
        both = np.stack([np.zeros(5), explains]), np.array([1.0 - rare, rare])
        monkeypatch.setattr(power_law, "second_contributions", lambda estimates, both=both: both)
        assert (fit_floor(of, 0.5).share < 0.1) is changes
        if not changes:
            assert fit_floor(of, 0.5).probability == pytest.approx(alone.probability)


def test_the_reach_of_an_order_begins_two_errors_from_the_deepest_slope():
    variances = np.array([9.0, 4.0, 1.0, 2.0, 5.0]) * 1e-7
    ratio = 8.0 * (16 / DEPTHS) ** 0.5
    logs = -0.5 * np.log(DEPTHS) + 0.5 * np.log1p(ratio**2)
    of = ErrorEstimates(DEPTHS, logs, np.diag(variances), np.zeros(5), 10**5, second_orders=(0.5,))
    fit = fit_rate(of)
    slopes, errors = slopes_between(np.log(DEPTHS), logs, np.diag(variances))
    assert errors[-1] == pytest.approx(math.sqrt(7e-7) / math.log(2))
    assert fit.reach == pytest.approx(abs(fit.rate - slopes[-1]) - 2 * errors[-1])
    assert fit.reach > 0.1
    low, high = fit.interval(0.01)
    assert (low, high) == (pytest.approx(fit.rate - fit.reach), pytest.approx(fit.rate + fit.reach))


def test_the_covariance_between_depths_needs_more_paths_than_depths():
    assert [least_paths(depths) for depths in (2, 5)] == [8, 14]


def test_the_standard_error_of_a_floor_is_that_of_a_normal_law_or_the_nodes_spacing():
    """5 % and 95 % of a normal law lie 1.645 standard errors away; nodes are 0.025 apart around one half."""
    assert Floor(0.5, 0.3, 0.7, 0.5).error == pytest.approx(0.4 / 3.29)
    assert Floor(0.5, 0.5, 0.5, 0.5).error == pytest.approx(0.025)
    assert Floor(0.05, 0.05, 0.05, 0.0).error == pytest.approx(0.01)


def test_a_remainder_is_told_as_a_share_of_the_deepest_square():
    found = Remainder(0.5, 0.01).floor()
    assert (found.share, found.lower, found.upper) == pytest.approx((0.25, 0.47**2, 0.53**2))
    assert found.probability < 1e-12
    above = Remainder(0.72, 0.01).floor()
    assert above.probability == pytest.approx(stats.norm.cdf((0.72 - 0.5**0.5) / 0.01))
    assert Remainder(1.4, 0.2).floor().upper == 1.0
    assert Remainder(0.01, 0.1).floor().lower == 0.0
    assert Remainder(1.0, 0.0).floor().probability == 1.0


@pytest.mark.parametrize(("error", "is_small"), [(0.0049, True), (0.0051, False)])
def test_a_small_remainder_is_below_a_fiftieth_with_three_times_its_error(error, is_small):
    assert Remainder(0.005, error).is_small is is_small


def test_two_powers_are_extrapolated_from_four_depths_on():
    """With three depths a bend is a misfit; with four or more it is a second power."""
    depths = np.array([8.0, 16.0, 32.0, 64.0, 128.0, 256.0])
    bent = 0.3 + 2 / depths - 5 / depths**2
    for count in (4, 5, 6):
        assert extrapolate(
            depths[:count], bent[:count], np.full(count, 1e-8), 0.0, (1.0, 2.0), 1e-4
        ).value == (pytest.approx(0.3))
    found = extrapolate(depths[:3], bent[:3], np.full(3, 1e-4), 0.0, (1.0, 2.0), 1e-4)
    slope, value = np.polyfit(1 / depths[:3], bent[:3], 1)
    assert found.value == pytest.approx(value)
    assert abs(value - 0.3) > 0.01
    assert found.allowance == 0.0
    assert slope > 1.0
