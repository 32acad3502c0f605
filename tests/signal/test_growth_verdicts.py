"""Each piece of evidence on growth with depth, one at a time: the verdict it leads to and the rule's name."""

import dataclasses
import math

import numpy as np
import pytest

from deeplimit.common import verdict
from deeplimit.signal import growth, growth_fit
from deeplimit.signal.growth_verdict import Changes, Evidence, failed_preconditions, rules
from deeplimit.signal.sizes import Sizes
from deeplimit.theory import Growth


def evidence(**altered):
    """Return evidence for a clear "stable", altered; `change` and `left` are ratios, not logarithms."""
    plain = {"usual": (-0.05, 0.05), "close": (-0.07, 0.07), "sure": (-0.09, 0.09), "turns": False}
    values = {**plain, "change": 1.0, "left": 1.0, "theory": Growth(), "exponent": 0.0, **altered}
    return Evidence(**{**values, "change": math.log(values["change"]), "left": math.log(values["left"])})


def sizes(least, most, rises=0.5, falls=0.5):
    """Return sizes whose deepest median lies between these ratios at both levels."""
    bounds = math.log(least), math.log(most)
    return Sizes((10, 100), (0.0, sum(bounds) / 2), bounds, bounds, rises, falls, 0.999)


HUGE, TINY = sizes(5.0, 1e6, rises=1e-5), sizes(1e-3, 0.1, falls=1e-5)
OPEN = {"usual": (-0.1, 1.0), "close": (-0.2, 1.1), "sure": (-0.4, 1.4)}
UP, DOWN = {"theory": Growth(predicted=1.0)}, {"theory": Growth(predicted=-0.3)}
TWO = {"sure": (-0.3, 0.3), "close": (-0.2, 0.2), "one_of": (0.0, -1.0), "theory": Growth(predicted=0.0)}
FALLING = {"usual": (-0.6, -0.4), "close": (-0.65, -0.35), "sure": (-0.7, -0.3), "change": 0.3}
SLOW = {"usual": (0.04, 0.3), "close": (0.0, 0.4), "sure": (-0.1, 0.5), "change": 1e4}
GROWING = {"usual": (0.4, 0.6), "close": (0.35, 0.65), "sure": (0.3, 0.7), "change": 5.0}


@pytest.mark.parametrize(
    ("altered", "word", "rule"),
    [
        ({}, "stable", "stays"),
        ({"close": (-0.1, 0.07)}, "cannot tell", "is_too_uncertain"),
        ({"close": (-0.07, 0.1)}, "cannot tell", "is_too_uncertain"),
        ({"usual": (0.01, 0.07), "close": (0.0, 0.1)}, "cannot tell", "is_likely_to_change"),
        ({"usual": (0.01, 0.07), "close": (0.0, 0.09)}, "stable", "stays"),
        (FALLING, "identity", "vanishes"),
        (GROWING, "explosion", "grows"),
        ({"left": 0.09}, "cannot tell", "dies"),
        ({"left": 0.11}, "stable", "stays"),
        ({**GROWING, "change": 1.9}, "cannot tell", "grows_no_further_than_a_turn"),
        ({**GROWING, "change": 1.9, "theory": Growth(predicted=0.5)}, "explosion", "grows"),
        ({**FALLING, "change": 0.6}, "cannot tell", "is_not_small_yet"),
        ({**FALLING, "change": 0.6, "theory": Growth(predicted=-0.5)}, "identity", "vanishes"),
        ({**FALLING, "theory": Growth(predicted=-1.0)}, "identity", "vanishes"),
        ({**FALLING, "theory": Growth(predicted=0.0)}, "cannot tell", "contradicts_theory"),
        ({**FALLING, "theory": Growth(predicted=0.5)}, "cannot tell", "contradicts_theory"),
        ({**GROWING, "theory": Growth(predicted=0.0)}, "cannot tell", "contradicts_theory"),
        ({**SLOW, **UP, "sizes": HUGE}, "explosion", "explodes_in_size"),  # by another law than theory's
        ({**SLOW, **UP, "sizes": sizes(1.9, 1e6, rises=1e-5)}, "cannot tell", "contradicts_theory"),
        ({**SLOW, **UP, "sizes": HUGE, "usual": (-0.01, 0.3)}, "cannot tell", "contradicts_theory"),
        ({"theory": Growth(predicted=0.09)}, "stable", "stays"),
        ({"theory": Growth(predicted=0.3)}, "cannot tell", "contradicts_theory"),
        ({**FALLING, "theory": Growth(vanishes_beyond=0.8), "exponent": 0.8}, "cannot tell", "should_stay"),
        ({**FALLING, "theory": Growth(vanishes_beyond=0.8), "exponent": 0.81}, "identity", "vanishes"),
        ({"theory": Growth(critical=0.5), "exponent": 0.45}, "cannot tell", "is_far_from_critical"),
        ({"theory": Growth(critical=0.5), "exponent": 0.55}, "cannot tell", "is_far_from_critical"),
        ({"theory": Growth(critical=0.5), "exponent": 0.46}, "stable", "stays"),
        ({"turns": True}, "cannot tell", "follows_no_power"),
        ({**OPEN, **UP, "sizes": HUGE}, "explosion", "explodes_in_size"),
        ({**OPEN, **UP, "sizes": sizes(1.9, 1e6, rises=1e-5)}, "cannot tell", "is_too_uncertain"),
        ({**OPEN, **UP, "sizes": sizes(5.0, 1e6, falls=0.02)}, "cannot tell", "is_too_uncertain"),
        ({**OPEN, "theory": Growth(predicted=0.0), "sizes": HUGE}, "cannot tell", "is_too_uncertain"),
        ({**OPEN, "sizes": HUGE}, "cannot tell", "is_too_uncertain"),
        ({**OPEN, "usual": (0.01, 1.0), "sizes": HUGE}, "explosion", "explodes_in_size"),
        (
            {**OPEN, "usual": (0.01, 1.0), "sizes": sizes(5.0, 9.0, 1e-3)},
            "cannot tell",
            "is_likely_to_change",
        ),
        ({**OPEN, **DOWN, "sizes": TINY}, "identity", "vanishes_in_size"),
        ({**OPEN, **DOWN, "sizes": sizes(1e-3, 0.6, falls=1e-5)}, "cannot tell", "is_too_uncertain"),
        ({**OPEN, "sizes": TINY}, "cannot tell", "is_too_uncertain"),
        (TWO, "stable", "can_only_stay"),
        ({**TWO, "sure": (-1.1, 0.3)}, "cannot tell", "is_too_uncertain"),
        ({**TWO, "one_of": (-0.2, -1.2), **DOWN}, "identity", "can_only_vanish"),
        ({**FALLING, "one_of": (0.0, -0.5)}, "cannot tell", "may_level_off"),
        ({**FALLING, "one_of": (-0.1, -0.5)}, "identity", "vanishes"),
    ],
)
def test_each_piece_of_evidence_leads_to_the_verdict_it_should(altered, word, rule):
    found = verdict.judge(rules, evidence(**altered))
    assert (found.code, found.rule) == (word, rule)


def changes(where=(), value=np.inf, depths=3, draws=20, exponential=True):
    """Return changes of size 1, but for `value` at the entries `where`."""
    logs = np.zeros((depths, draws))
    for place in where:
        logs[place] = value
    return Changes(10 * 3 ** np.arange(depths), logs, exponential)


@pytest.mark.parametrize(
    ("given", "word", "rule"),
    [
        (changes([(-1, slice(0, 11))]), "explosion", "deepest_overflowed"),
        (changes([(-1, slice(0, 10))]), "cannot tell", "some_overflowed"),
        (changes([(0, 3)], np.nan), "cannot tell", "some_overflowed"),
        (changes([-1], -np.inf), "identity", "deepest_are_unchanged"),
        (changes([0], -np.inf), "cannot tell", "a_depth_is_unchanged"),
        (changes([(0, 3)], -np.inf, exponential=False), "cannot tell", "some_are_unchanged"),
        (changes(depths=2), "cannot tell", "depths_are_few"),
        (changes(draws=9), "cannot tell", "draws_are_few"),
    ],
)
def test_each_failed_precondition_of_a_fit_is_named(given, word, rule):
    found = verdict.first(failed_preconditions, given)
    assert (found.code, found.rule) == (word, rule)


@pytest.mark.parametrize(
    ("altered", "rule"),
    [
        ({"sizes": HUGE, **UP}, "explodes_without_a_fit"),
        ({"sizes": HUGE}, "some_overflowed"),
        ({"sizes": TINY, **DOWN}, "vanishes_without_a_fit"),
        ({"sizes": TINY}, "some_overflowed"),
    ],
)
def test_sizes_decide_with_theory_where_some_networks_overflowed(altered, rule):
    given = dataclasses.replace(changes([(-1, slice(0, 3))]), **altered)
    assert verdict.first(failed_preconditions, given).rule == rule


def test_sizes_hold_the_median_at_their_levels():
    """Of 400 samples of 25 draws 2.5 % miss on either side; half as wide bounds miss far more."""
    draws = np.random.default_rng(0).standard_cauchy((400, 25))
    found = [Sizes.of(np.array([5, 50]), np.stack([row, row]), 0.999) for row in draws]
    missed = sum(not each.likely[0] < 0.0 < each.likely[1] for each in found)
    assert missed < 45  # P(Bin(400, 0.05) >= 45) = 2e-7
    third = [
        (m + (low - m) / 3, m + (high - m) / 3)
        for low, high, m in ((*each.likely, each.log_medians[1]) for each in found)
    ]
    narrow = sum(not low < 0.0 < high for low, high in third)
    assert narrow > 100
    assert not any(each.has_grown(0.05) or each.has_fallen(0.05) for each in found)


def test_nothing_else_keeps_changes_from_being_fitted():
    assert verdict.first(failed_preconditions, changes()) is None
    assert verdict.first(failed_preconditions, changes([(0, 3)], -np.inf)) is None
    assert verdict.first(failed_preconditions, changes(draws=10)) is None


DEPTHS = np.array([10.0, 30.0, 90.0, 270.0])


def measured_growth(slopes, *, draws=40, noise=1e-4, **known):
    """Fit growth to a change whose log square moves by these slopes from depth to depth."""
    logs = 0.5 * np.concatenate([[0.0], np.cumsum(np.array(slopes) * np.log(3.0))])
    scatter = noise * np.random.default_rng(0).normal(size=(4, draws))
    change = logs[:, None] + scatter - scatter.mean(axis=1, keepdims=True)
    return growth.measure_growth(
        DEPTHS, change, np.zeros_like(change), 0.95, Growth(**known), 0.5, exponential=False
    )


@pytest.mark.parametrize(
    ("slopes", "error", "turns"),
    [
        ((0.018, -0.018), 0.0, False),  # well known, but below what the fit itself is off by
        ((0.022, -0.022), 0.0, True),
        ((0.022, -0.018), 0.0, False),
        ((0.5, -0.5), 0.1, False),  # five standard errors and 0.02
        ((0.53, -0.53), 0.1, True),
        ((0.5, 0.5), 0.0, False),
    ],
)
def test_a_change_turns_where_it_surely_rises_and_surely_falls(slopes, error, turns):
    log_means = np.concatenate([[0.0], np.cumsum(slopes)]) * np.log(3.0)
    variances = np.full(3, (error * np.log(3.0)) ** 2 / 2.0)
    assert growth._turns(DEPTHS[:3], log_means, variances) is turns


def test_the_covariance_that_is_fitted_is_that_of_the_logs_that_are_fitted(monkeypatch):
    """Where a second part of the change is known, both are those of its root."""
    taken = []
    fit = growth_fit.fit_rate
    monkeypatch.setattr(growth_fit, "fit_rate", lambda estimates: taken.append(estimates) or fit(estimates))
    averages = growth_fit.Averages(DEPTHS, np.array([0.0, 0.1, 0.3, 0.4]), np.array([1.0, 2.0, 3.0, 4.0]), 40)
    growth_fit.of_power(averages, Growth(predicted=0.0, faster=0.3))
    straight = averages.log_means - 0.4 / np.log(27.0) * np.log(DEPTHS)
    np.testing.assert_allclose(taken[0].log_errors, 0.5 * straight, atol=1e-12)
    np.testing.assert_allclose(taken[0].covariance, 0.25 * np.diag(averages.variances))


@pytest.mark.parametrize(
    ("predicted", "powers"), [(None, (0.5, 1.0)), (-0.6, (0.6, 1.0)), (-3.0, (1.0,)), (0.0, (1.0,))]
)
def test_a_change_without_noise_is_bent_by_the_power_with_which_it_grows(predicted, powers):
    assert growth_fit.corrections(predicted) == powers


@pytest.mark.parametrize(
    ("altered", "low", "high"),
    [
        ({"exponential": False, "theory": Growth(critical=1.0)}, -0.1, 0.1),
        ({"exponential": True, "theory": Growth(critical=0.5)}, -0.1, 0.1),
        ({"exponential": True, "theory": Growth(critical=1.0), "change": 1e-6}, -0.1, 0.1),
        ({"exponential": True, "theory": Growth(critical=1.0), "change": 1e6}, -0.1, 0.05),
        ({"exponential": True, "theory": Growth(critical=0.8), "change": 1e6}, -0.1, 0.0625),
        ({"exponential": True, "theory": Growth(critical=None), "change": 1e6}, -0.1, 0.05),
        ({"exponential": True, "theory": Growth(critical=1.0), "change": 1.0}, -0.1, 0.05 / np.log(2.0)),
    ],
)
def test_stable_excludes_the_growth_of_exponents_that_are_a_twentieth_away(altered, low, high):
    """Once its e-foldings count, a change by smooth weights grows as slowly as L^{0.05} there."""
    assert evidence(**altered).margins == pytest.approx((low, high), rel=1e-6)
