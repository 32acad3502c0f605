"""Floors that lie along what falls: e² = f² + 2ρ f g + g², on errors whose floor is known."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from deeplimit.statistics.power_law import (
    _COSINES,
    _SHARES,
    STEEPEST,
    ErrorEstimates,
    _falling,
    _falling_parts,
    _Order,
    correlated,
    fit_floor,
    second_contributions,
    size_prior,
)

DEPTHS = np.array([16, 32, 64, 128, 256])


def errors(floor, cosine, order=1.0, noise=1e-3, depths=DEPTHS):
    """Return errors whose falling part is 1 at the coarsest depth."""
    falls = (depths[0] / depths) ** order
    squares = floor**2 + 2 * cosine * floor * falls + falls**2
    m = len(depths)
    return ErrorEstimates(depths, 0.5 * np.log(squares), noise**2 * np.eye(m), np.zeros(m), 10**4)


@pytest.mark.parametrize("floor", [0.05, 0.2, 1.0])
@pytest.mark.parametrize("cosine", [0.5, 1.0])
def test_a_floor_along_the_falling_part_is_seen(floor, cosine):
    """Local slopes halve from depth to depth. The twin, with ρ = 0 alone, expects them to fall fourfold."""
    found = fit_floor(errors(floor, cosine), 1.0, coherent=True)
    true = floor**2 / (floor**2 + (1 / 16) ** 2)
    assert found.lower <= true + 0.03
    assert found.upper >= true - 0.03
    assert found.probability > (0.95 if true > 0.6 else 0.0)


def test_two_networks_beyond_the_minimum_of_errors_are_told_from_a_slow_order():
    """Errors fall to a minimum at depth 64 and rise towards a floor of 0.3."""
    found = fit_floor(errors(0.3, -0.9), 1.0, coherent=True)
    assert found.share == pytest.approx(0.3**2 / (0.3**2 + (1 / 16) ** 2), abs=0.02)
    assert found.probability > 0.99


def test_no_sign_of_the_angle_between_floor_and_falling_part_is_preferred():
    assert sum(_COSINES.values()) == pytest.approx(1.0)
    assert {-cosine: weight for cosine, weight in _COSINES.items()} == _COSINES


@pytest.mark.parametrize("coherent", [False, True])
@pytest.mark.parametrize("order", [0.5, 1.0])
def test_pure_powers_have_no_floor(order, coherent):
    assert fit_floor(errors(0.0, 0.0, order), order, coherent=coherent).upper < 0.02


@given(share=st.floats(0.01, 0.45), cosine=st.sampled_from(sorted(_COSINES)), size=st.floats(0.1, 3.0))
def test_the_falling_part_is_recovered_from_errors(share, cosine, size):
    """The transformation inverts e² = f² + 2ρ f g + g² where g is above the minimum of e."""
    falls = size * np.array([16.0, 8.0, 4.0, 2.0, 1.0])
    floor = falls[-1] * np.sqrt(share / (1 - share))
    squares = floor**2 + 2 * cosine * floor * falls + falls**2
    estimates = ErrorEstimates(DEPTHS, 0.5 * np.log(squares), np.eye(5), np.zeros(5), 10**4)
    logs, _ = _falling(estimates, share, cosine, 0)
    np.testing.assert_allclose(logs, np.log(falls), rtol=0, atol=1e-6)


@pytest.mark.parametrize("coherent", [False, True])
def test_all_shares_at_once_are_what_one_after_the_other_gives(coherent):
    """A second route: every way to hide a floor is fitted alone, with its prior weight, and added up."""
    of, order = errors(0.2, -0.5 if coherent else 0.0, 0.5, noise=0.05), _Order(0.5, False)
    factors, prior = second_contributions(of)
    joint = np.zeros((len(_SHARES), len(size_prior(of)), len(prior)))
    for row, share in enumerate(_SHARES):
        for falling, weight in _falling_parts(of, share, coherent=coherent):
            joint[row] += weight * np.exp(order.likelihoods(correlated(of, *falling), of.design, factors))
    posterior = (joint * size_prior(of)[:, None] * prior).sum(axis=(1, 2)) * np.gradient(_SHARES)
    marginal = posterior / posterior.sum()
    found = fit_floor(of, 0.5, coherent=coherent)
    assert 0.001 < found.probability < 0.999  # else nothing would be seen of the weights
    assert found.probability == pytest.approx(marginal[_SHARES > 0.5].sum(), rel=1e-9)
    assert found.share == _SHARES[np.searchsorted(np.cumsum(marginal), 0.5)]


def test_beyond_the_minimum_the_smaller_root_is_taken():
    falls, floor, cosine = np.array([16.0, 8.0, 4.0, 2.0, 0.5]), 1.0, -0.9
    squares = floor**2 + 2 * cosine * floor * falls + falls**2
    estimates = ErrorEstimates(DEPTHS, 0.5 * np.log(squares), np.eye(5), np.zeros(5), 10**4)
    logs, _ = _falling(estimates, floor**2 / (floor**2 + falls[-1] ** 2), cosine, 1)
    np.testing.assert_allclose(logs, np.log(falls), rtol=0, atol=1e-6)


@pytest.mark.parametrize("cosine", [0.0, 0.5, -0.9])
def test_the_falling_part_is_as_uncertain_as_the_delta_method_says(cosine):
    """At depths before the deepest, which also sets the floor: slopes by finite differences."""
    squares, step = np.array([16.0, 8.0, 4.0, 2.0, 1.0]), 1e-6
    logs, covariance = 0.5 * np.log(squares), np.diag([1.0, 2.0, 3.0, 4.0, 5.0]) * 1e-4

    def falling(logs):
        of = ErrorEstimates(DEPTHS, logs, covariance, np.zeros(5), 10**4)
        return correlated(of, *_falling(of, 0.3, cosine, 0))

    slopes = np.stack(
        [
            (falling(logs + step * unit).values - falling(logs - step * unit).values) / (2 * step)
            for unit in np.eye(5)[:4]
        ]
    )
    np.testing.assert_allclose(slopes[:, :4], np.diag(np.diag(slopes)), atol=1e-6)
    measured = ErrorEstimates(DEPTHS, logs, covariance, np.zeros(5), 10**4).noise
    found = np.linalg.inv(falling(logs).inverses[0])  # with no correction
    np.testing.assert_allclose(np.diag(found)[:4], np.diag(slopes) ** 2 * np.diag(measured)[:4], rtol=1e-5)


def test_beyond_the_minimum_errors_of_one_sign_move_what_falls_to_the_other_side():
    """Errors that rise together: g rises before the minimum, and falls beyond it."""
    falls, floor, cosine = np.array([16.0, 8.0, 4.0, 2.0, 0.5]), 1.0, -0.9
    squares = floor**2 + 2 * cosine * floor * falls + falls**2
    together = 1e-4 * (0.5 + 0.5 * np.eye(5))
    estimates = ErrorEstimates(DEPTHS, 0.5 * np.log(squares), together, np.zeros(5), 10**4)
    falling = _falling(estimates, floor**2 / (floor**2 + falls[-1] ** 2), cosine, 1)
    data = correlated(estimates, *falling)
    found = np.linalg.inv(data.inverses[0])
    assert (found[:4, :4] > 0).all()
    assert (found[:4, 4] < 0).all()


def test_a_lower_bound_admits_steeper_orders():
    """Order 1 where 0.6 is known to be reached at least: no floor has to be invented."""
    bound = fit_floor(errors(0.0, 0.0, 1.0), 0.6, is_bound=True)
    assert bound.upper < 0.02
    wrong = fit_floor(errors(0.3, 0.0, 1.0), 0.6, is_bound=True)  # the twin
    assert wrong.probability > 0.99


@pytest.mark.parametrize("order", [0.02, 0.5, 2.0])
def test_an_unknown_order_has_a_flat_prior_up_to_the_steepest(order):
    of = errors(0.0, 0.0, order, noise=0.05)
    data, design = correlated(of, of.log_errors, np.ones(5)), of.design
    fits = data.regress(design, np.zeros((1, 5)))
    slope, scale = fits.coefficients[:, 1], np.sqrt(fits.covariances[:, 1, 1])[:, None]
    inside = stats.norm.cdf((STEEPEST - slope) / scale) - stats.norm.cdf(-slope / scale)
    found = _Order(None, False).likelihoods(data, design, np.zeros((1, 5)))
    np.testing.assert_allclose(found, fits.log_likelihoods + np.log(inside / STEEPEST), rtol=1e-9)
