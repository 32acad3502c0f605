"""The parts of the fit of errors, one at a time: covariance, reference's bias, floor."""

import numpy as np
import pytest

from deeplimit.simulation.moments import Moments
from deeplimit.statistics import power_law
from deeplimit.statistics.power_law import (
    MODEL_ERROR,
    ErrorEstimates,
    Floor,
    above_floor,
    above_uncertain_floor,
    fit_floor,
    fit_rate,
    slopes_between,
)

DEPTHS = np.array([16, 32, 64, 128, 256])


def test_few_paths_have_few_degrees_of_freedom_and_an_inflated_covariance():
    """m = 5 depths and 17 paths: Student with 12 degrees, and the mean of an inverse Wishart matrix."""
    estimates = ErrorEstimates(DEPTHS, -0.5 * np.log(DEPTHS), 1e-4 * np.eye(5), np.zeros(5), 17, 1.0)
    assert fit_rate(estimates).orders.degrees == 12
    np.testing.assert_allclose(estimates.noise, (1e-4 * 16 / 10 + MODEL_ERROR**2) * np.eye(5))


def test_the_references_bias_is_taken_from_what_lies_above_the_floor_only():
    true, share = DEPTHS**-0.5, 0.3
    bias = 0.5 * np.log1p(-DEPTHS / 512)
    floor = np.sqrt(
        share / (1 - share) * true[-1] ** 2 * np.exp(2 * bias[-1])
    )  # share of the deepest raw square
    raw = np.sqrt(true**2 * np.exp(2 * bias) + floor**2)
    estimates = ErrorEstimates(DEPTHS, np.log(raw), 1e-4 * np.eye(5), bias, 400)
    corrected = above_floor(estimates, share)
    np.testing.assert_allclose(np.exp(corrected.log_errors - corrected.log_bias), np.sqrt(true**2 + floor**2))
    np.testing.assert_allclose(above_floor(estimates, 0.0).log_bias, bias)


def test_an_error_below_the_floor_is_shown_as_it_was_measured():
    """Errors that grow towards a floor: nothing lies above it that could be corrected."""
    bias = 0.5 * np.log1p(-DEPTHS / 512)
    raw = np.array([1.90, 1.950, 1.989, 2.01, 2.025])
    covariance = 1e-4 * (0.9 + 0.1 * np.eye(5))
    estimates = ErrorEstimates(DEPTHS, np.log(raw), covariance, bias, 400)
    corrected = above_uncertain_floor(estimates, Floor(0.99, 0.98, 0.995, 1.0))
    shown = np.exp(corrected.log_errors - corrected.log_bias)
    np.testing.assert_allclose(shown[:4], raw[:4], rtol=1e-14)
    assert shown[4] > raw[4]
    np.testing.assert_allclose(corrected.covariance[:4, :4], covariance[:4, :4])
    assert corrected.covariance[4, 4] > covariance[4, 4]


def test_without_a_floor_the_covariance_is_that_of_the_measured_errors():
    bias = 0.5 * np.log1p(-DEPTHS / 512)
    covariance = 1e-4 * (0.9 + 0.1 * np.eye(5))
    estimates = ErrorEstimates(DEPTHS, -0.5 * np.log(DEPTHS), covariance, bias, 400)
    none = above_uncertain_floor(estimates, Floor(0.0, 0.0, 0.0329, 0.0))
    certain = 0.5 * np.expm1(-2 * bias) * np.exp(2 * (bias + 0.5 * np.log(DEPTHS / 256))) * 0.01
    np.testing.assert_allclose(none.covariance, covariance + np.outer(certain, certain))


@pytest.mark.parametrize("floor", [pytest.param(0.004, marks=pytest.mark.nightly), 0.05])
def test_errors_corrected_above_a_floor_are_off_by_their_standard_errors(floor):
    """e² = 1/L + f², the first part shrunk by the reference, with paths and floor that fluctuate."""
    random, bias = np.random.default_rng(0), 0.5 * np.log1p(-DEPTHS / 512)
    off = []
    for _ in range(60):
        steps = np.exp(2 * bias) / DEPTHS * random.chisquare(12, size=(400, 5)) / 12
        squares = steps + floor * random.chisquare(60, size=(400, 1)) / 60
        moments = Moments.of(np.sqrt(squares * random.chisquare(8, size=(400, 1)) / 8), 2.0)
        estimates = ErrorEstimates(
            DEPTHS, moments.log_errors(), moments.relative_covariance(), bias, 400, 5.0
        )
        found = fit_floor(estimates, 0.5)
        shown = above_uncertain_floor(estimates, found)
        errors = np.sqrt(np.diag(shown.covariance))
        off.append((shown.log_errors - shown.log_bias - 0.5 * np.log(1 / DEPTHS + floor)) / errors)
    assert (np.abs(off) < 1.96).mean(axis=0).min() > 0.85
    assert (np.sqrt(np.mean(np.square(off), axis=0)) > 0.6).all()  # nor are standard errors too large


def test_a_floor_that_the_data_say_nothing_about_is_spread_over_all_shares():
    """The prior of the share is flat on 0 to 1, whatever the spacing of the nodes that integrate it."""
    vague = ErrorEstimates(DEPTHS, -0.5 * np.log(DEPTHS), 100.0 * np.eye(5), np.zeros(5), 10**6, 1.0)
    floor = fit_floor(vague, 0.5)
    assert 0.45 < floor.share < 0.65
    assert 0.04 < floor.lower < 0.12
    assert 0.4 < floor.probability < 0.6


@pytest.mark.parametrize(("kurtosis", "factor"), [(3.0, 1.0), (40.0, 1.0), (60.0, 1.5), (100.0, 2.5)])
def test_heavy_tails_inflate_the_covariance_from_a_tenth_of_the_paths_on(kurtosis, factor):
    """At 400 paths a kurtosis of 40 is the largest that leaves the covariance as it is."""
    covariance = 1e-2 * (0.9 + 0.1 * np.eye(5))
    estimates = ErrorEstimates(DEPTHS, -0.5 * np.log(DEPTHS), covariance, np.zeros(5), 400, kurtosis)
    inverse_wishart = 399 / (400 - 5 - 2)
    expected = factor * inverse_wishart * covariance + MODEL_ERROR**2 * np.eye(5)
    np.testing.assert_allclose(estimates.noise, expected, rtol=1e-13)


def test_a_slower_order_has_the_prior_probability_that_is_stated(monkeypatch):
    """With prior s of a slower order, posterior odds are s/(1 - s) times the data's, whatever these are."""
    estimates = ErrorEstimates(DEPTHS, -0.35 * np.log(DEPTHS), 2e-3 * np.eye(5), np.zeros(5), 10**5)

    def large_floor(slower):
        monkeypatch.setattr(power_law, "SLOWER", slower)
        return fit_floor(estimates, 0.5).probability

    monkeypatch.setattr(power_law, "STEEPEST", 0.5)
    slow, known = fit_floor(estimates, None).probability, large_floor(1e-300)
    assert abs(slow - known) > 0.05
    shares = [(large_floor(slower) - known) / (slow - known) for slower in (0.05, 0.5)]
    odds = [share / (1.0 - share) for share in shares]
    assert odds[0] / odds[1] == pytest.approx(0.05 / 0.95, rel=1e-9)


def test_what_an_euler_scheme_falls_short_of_its_power_law_is_allowed_for():
    """Exact errors of the scheme of dH = H dB: e² = e - (1 + 1/L)^L, which is e/2L (1 - 0.92/L + ...)."""
    depths = np.array([4, 8, 16, 32, 64])
    logs = 0.5 * np.log(np.e - (1 + 1 / depths) ** depths)
    euler, any_scheme = (
        fit_rate(ErrorEstimates(depths, logs, 1e-4 * np.eye(5), np.zeros(5), 10**5, is_euler=is_euler)).rate
        for is_euler in (True, False)
    )
    assert euler == pytest.approx(0.5, abs=0.002)
    assert any_scheme < 0.485


@pytest.mark.parametrize(("drift", "noise"), [(1.0, 0.4), (0.7, 0.4), (-0.5, 0.3)])
def test_the_order_of_a_scheme_is_found_below_what_drift_and_noise_leave(drift, noise):
    """Exact errors of the scheme of dH = μ H dt + s H dB, whose local orders begin at 0.63 to 0.79."""
    depths = np.array([16, 32, 64, 128, 256, 512])
    step, square = 1 / depths, noise**2
    scheme = ((1 + drift * step) ** 2 + square * step) ** depths
    both = (np.exp(drift * step) * (1 + drift * step + square * step)) ** depths
    logs = 0.5 * np.log(np.exp(2 * drift + square) + scheme - 2 * both)
    covariance = 1e-4 * (np.eye(6) + 1.0)  # of 500 paths

    def fitted(**given):
        return fit_rate(ErrorEstimates(depths, logs, covariance, np.zeros(6), 500, is_euler=True, **given))

    found, straight = fitted(second_orders=(0.5,), of_one_size=True), fitted()
    low, high = found.interval(0.95)
    assert low < 0.5 < high < low + 0.1
    assert abs(found.rate - 0.5) < 0.8 * abs(straight.rate - 0.5)
    assert (straight.interval(0.95)[0] > 0.5) is (drift == 1.0)


def test_errors_that_move_together_leave_their_slope_better_known():
    """Var(a - b) = Var a + Var b - 2 Cov(a, b), over the step in log depth."""
    covariance = np.array([[4.0, 1.5, 0.2], [1.5, 1.0, -0.6], [0.2, -0.6, 2.0]])
    logs = np.array([1.0, 0.2, -0.1])
    slopes, errors = slopes_between(np.log([2.0, 4.0, 32.0]), logs, covariance)
    np.testing.assert_allclose(slopes, [0.8 / np.log(2), 0.3 / np.log(8)])
    np.testing.assert_allclose(errors, [2.0**0.5 / np.log(2), 4.2**0.5 / np.log(8)])


@pytest.mark.parametrize("correlation", [-0.9, 0.5, 1.0])
def test_an_order_is_found_under_a_contribution_that_is_correlated_with_it(correlation):
    """Of two parts 1 and x the mean square is 1 + 2ρx + x²; ρ, κ and s are among the nodes of the fit."""
    ratio, power = float(np.geomspace(0.1, 30.0, 13)[4]), 0.4
    second = ratio * (DEPTHS[0] / DEPTHS) ** power
    logs = -0.5 * np.log(DEPTHS) + 0.5 * np.log(1.0 + 2.0 * correlation * second + second**2)
    estimates = ErrorEstimates(
        DEPTHS, logs, 1e-10 * np.eye(5), np.zeros(5), 10**5, 3.0, (1.0,), (power,), interfere=True
    )
    assert fit_rate(estimates).rate == pytest.approx(0.5, abs=2e-3)
