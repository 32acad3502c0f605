"""Fits behind verdicts on solvers, against the same posteriors written with scipy's laws."""

import numpy as np
import pytest
from scipy import linalg, stats

from deeplimit.statistics.consecutive import MODEL_ERROR, Corrections, log_means, with_other_moments
from deeplimit.statistics.solver_errors import (
    SHARES,
    WEAK_ORDERS,
    WEAK_SIZES,
    fit_errors,
    fit_means,
    steepest_falls,
)

STEPS = np.array([8.0, 16.0, 32.0, 64.0])


def test_the_weak_order_is_the_median_of_its_posterior():
    """A second route: the largest normal density over the factor c, for every order and size of corrections.

    Densities of scipy with a factor by least squares, in place of the library's quadratic forms.
    """
    rng = np.random.default_rng(3)
    values = (1.0 + 0.6 * 8 / STEPS) / STEPS + 0.02 * rng.standard_normal((400, 4)) * STEPS**-0.5
    found = fit_means(values, STEPS, 0.9)
    means = values.mean(axis=0)
    noise = np.cov(values.T) / len(values) + np.diag((MODEL_ERROR * means) ** 2)
    ratio = STEPS / STEPS[0]
    posterior = np.zeros(len(WEAK_ORDERS))
    for size in WEAK_SIZES / STEPS[0]:
        bends = [np.outer(means * ratio**-power, means * ratio**-power) for power in (1, 2)]
        law = stats.multivariate_normal(np.zeros(4), noise + size**2 * sum(bends))
        root = np.linalg.cholesky(law.cov)
        for place, order in enumerate(WEAK_ORDERS):
            shape, given = np.linalg.solve(root, np.stack([ratio**-order, means], axis=1)).T
            factor = (shape @ given) / (shape @ shape)
            posterior[place] += law.pdf(means - factor * ratio**-order) / size
    cumulative = np.cumsum(posterior) / posterior.sum()
    expected = np.interp((0.05, 0.5, 0.95), cumulative, WEAK_ORDERS)
    assert (found.low, found.rate, found.high) == pytest.approx(tuple(expected), abs=1e-3)
    assert expected[2] - expected[0] > 0.1


def test_a_whole_share_of_other_moments_makes_the_mean_of_square_roots_that_of_sizes():
    """By 1, log (E|d|^½)² becomes log E|d|; how far they are apart, less its mean, is uncertain by 1.5."""
    sizes = np.random.default_rng(4).gamma([1.0, 2.0, 3.0, 4.0], size=(200, 4))
    share = Corrections((1.0,), 0.0, moments=1.0)
    logs, covariance = with_other_moments(sizes, *log_means(sizes), share)
    assert logs == pytest.approx(np.log(sizes.mean(axis=0)), abs=1e-12)
    apart = logs - log_means(sizes)[0]
    spread = np.outer(apart - apart.mean(), apart - apart.mean()) * 1.5**2
    relative = np.cov((sizes / sizes.mean(axis=0)).T) / len(sizes)
    assert covariance - spread == pytest.approx(relative, abs=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_the_share_of_errors_that_stays_is_found(share):
    """e² = share + (1 - share) (L_m/L)², exactly: an order 1 above a floor."""
    squares = share + (1.0 - share) * (STEPS[-1] / STEPS) ** 2
    floor = fit_errors(np.sqrt(squares)[None], STEPS, exact=True).floor
    assert floor.lower <= share <= floor.upper
    assert floor.share == pytest.approx(share, abs=0.05)


def test_the_shares_that_are_integrated_over_rise_from_nought_to_below_one():
    assert SHARES[0] == 0.0
    assert (np.diff(SHARES) > 0).all()
    assert 0.99 < SHARES[-1] < 1.0


def test_the_steepest_fall_is_the_order_of_mean_roots_and_four_standard_errors():
    """By the delta method: the log of a squared mean root has twice the relative error of that mean."""
    distances = np.random.default_rng(1).uniform(0.5, 2.0, (7, 4)) / STEPS
    roots = np.sqrt(distances)
    means = roots.mean(axis=0)
    for got, first, errors in zip(steepest_falls(STEPS, distances), (0, 2), (4, 2), strict=True):
        contrast = 2 * (roots[:, first] / means[first] - roots[:, 3] / means[3])
        error = np.sqrt(np.cov(contrast) / 7)
        fall = 2 * np.log(means[first] / means[3]) + errors * error
        assert got == pytest.approx(fall / np.log2(STEPS[3] / STEPS[first]) / np.log(2))


def test_a_mean_above_the_coarsest_one_within_its_error_is_no_turn():
    """Uncorrelated, with exact errors: a mean 0.6 larger turns where the coarsest one has an error of 0.1."""
    signs = linalg.hadamard(16)[:, 1:4] * np.sqrt(15.0)
    for coarsest, resolved in ((0.25, True), (0.1, False)):
        values = np.array([1.0, 1.6, 0.8]) + np.array([coarsest, 0.02, 0.02]) * signs
        assert fit_means(values, STEPS[:3], 0.9).resolved is resolved
