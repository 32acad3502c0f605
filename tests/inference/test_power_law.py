"""The parts of the fit of errors, one at a time: covariance, reference's bias, floor."""

import numpy as np

from deeplimit.inference.power_law import MODEL_ERROR, ErrorEstimates, above_floor, fit_floor

DEPTHS = np.array([16, 32, 64, 128, 256])


def test_few_paths_have_few_degrees_of_freedom_and_an_inflated_covariance():
    """m = 5 depths and 17 paths: Student with 12 degrees, and the mean of an inverse Wishart matrix."""
    estimates = ErrorEstimates(DEPTHS, -0.5 * np.log(DEPTHS), 1e-4 * np.eye(5), np.zeros(5), 17, 1.0)
    assert estimates.degrees == 12
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


def test_a_floor_that_the_data_say_nothing_about_is_spread_over_all_shares():
    """The prior of the share is flat on 0 to 1, whatever the spacing of the nodes that integrate it."""
    vague = ErrorEstimates(DEPTHS, -0.5 * np.log(DEPTHS), 100.0 * np.eye(5), np.zeros(5), 10**6, 1.0)
    floor = fit_floor(vague, 0.5)
    assert 0.45 < floor.share < 0.65
    assert 0.04 < floor.lower < 0.12
    assert 0.4 < floor.probability < 0.6


def test_an_order_within_the_prior_needs_no_floor_to_explain_it():
    vague = ErrorEstimates(DEPTHS, -0.5 * np.log(DEPTHS), 1e-4 * np.eye(5), np.zeros(5), 10**5, 3.0)
    assert fit_floor(vague, None).probability < 0.01
