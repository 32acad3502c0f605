"""What differences of network and limit tend to, on expansions whose vectors are known."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from deeplimit.statistics.differences import Remainder, fit_order, remainder
from deeplimit.statistics.power_law import ErrorEstimates

DEPTHS = np.array([16, 32, 64, 128, 256])


def products(terms, seed=0, depths=DEPTHS):
    """Return the products of Σ size · L^-power · a random direction, over 40 coordinates."""
    directions = np.random.default_rng(seed).normal(size=(len(terms), 40))
    differences = sum(
        size * np.outer(depths.astype(float) ** -power, direction / np.linalg.norm(direction))
        for (power, size), direction in zip(terms, directions, strict=True)
    )
    return differences @ differences.T


def estimates(of, corrections, depths=DEPTHS):
    m = len(depths)
    return ErrorEstimates(
        depths, 0.5 * np.log(np.diag(of)), np.zeros((m, m)), np.zeros(m), 10**6, 0.0, corrections
    )


RIGHT = [(0.6, 1.0), (1.0, 2.0), (1.2, -1.0), (1.6, 0.7), (2.0, 3.0)]
POWERS = np.array([0.6, 1.0, 1.2, 1.4, 1.6, 1.8])


@given(seed=st.integers(0, 10**6))
def test_differences_that_vanish_have_no_certain_remainder(seed):
    found = remainder(DEPTHS, products(RIGHT, seed), POWERS)
    assert not found.is_certain
    assert found.floor().upper < 0.1


@given(seed=st.integers(0, 10**6), size=st.sampled_from([0.01, 0.03, 0.1, 1.0]))
def test_a_remainder_of_any_direction_is_found_with_its_size(seed, size):
    of = products([(0.0, size), *RIGHT], seed)
    found = remainder(DEPTHS, of, POWERS)
    assert found.is_certain
    assert found.size * np.sqrt(of[-1, -1]) == pytest.approx(size, abs=3 * found.error * np.sqrt(of[-1, -1]))


@pytest.mark.parametrize(
    ("found", "is_certain"),
    [
        (Remainder(0.021, 0.0), True),
        (Remainder(0.019, 0.0), False),  # what the model leaves out may be as large
        (Remainder(0.051, 0.01), True),
        (Remainder(0.049, 0.01), False),
        (Remainder(1.0, 0.0, known=False), False),
    ],
)
def test_a_remainder_is_certain_beyond_a_share_and_beyond_what_one_term_changes(found, is_certain):
    assert found.is_certain is is_certain


def test_a_remainder_hidden_by_cancellation_is_found():
    """The floor points against the leading term: scalar errors fall faster than the order, then rise."""
    depths = DEPTHS.astype(float)
    differences = np.outer(depths**-0.6 - 0.4 * 256**-0.6, np.ones(3))
    found = remainder(DEPTHS, differences @ differences.T, POWERS)
    assert found.is_certain


@given(seed=st.integers(0, 10**6), order=st.sampled_from([0.3, 0.5, 0.7, 1.0]))
def test_the_order_is_in_its_interval_where_one_is_given(seed, order):
    of = products([(order, 1.0), (order + 0.4, 0.5), (order + 0.8, 0.3), (order + 1.0, 1.0)], seed)
    fit = fit_order(estimates(of, (0.4, 1.0)), of, 3.0)
    low, high = fit.interval(0.95)
    assert fit.reach > 0 or low <= order <= high
    assert high - low < 0.5


@pytest.mark.parametrize("order", [0.69, 0.7, 0.71])
def test_a_pure_power_is_found_to_the_models_accuracy(order):
    """On either side of a node of the grid from which the search starts, and on one."""
    of = products([(order, 2.0)])
    fit = fit_order(estimates(of, (1.0,)), of, 3.0)
    assert fit.rate == pytest.approx(order, abs=1e-4)
    assert fit.interval(0.95)[1] - fit.interval(0.95)[0] < 1e-3


def test_no_order_is_given_where_terms_cannot_be_told_apart():
    """Slopes that run from 1.6 down to 0.9 through terms of one size: an extrapolation, and it says so."""
    of = products([(0.3, 1.0), (0.6, -30.0), (0.9, 300.0), (1.2, 900.0), (1.5, 2000.0)], seed=3)
    assert fit_order(estimates(of, (0.3, 1.0)), of, 3.0).reach > 0


def test_the_line_of_the_fitted_order_runs_through_the_middle_of_the_errors():
    """Two terms, so that the first fit, of one, is of another order: 0.7 is found with the second."""
    of = products([(0.7, 2.0), (1.7, 30.0)])
    fit = fit_order(estimates(of, (1.0,)), of, 3.0)
    assert fit.rate == pytest.approx(0.7, abs=1e-3)
    logs = 0.5 * np.log(np.diag(of))
    assert fit.log_constant == pytest.approx(np.mean(logs) + 0.7 * np.mean(np.log(DEPTHS)), abs=0.01)


@pytest.mark.parametrize(("left", "kinked", "certain"), [(0.0, 10.0, False), (0.3, 0.3, True)])
def test_terms_that_no_power_law_has_are_no_remainder(left, kinked, certain):
    """A kink falls elsewhere within a step at every depth: errors of 1/L² with a size that scatters."""
    depths, draws = np.array([16, 32, 64, 128, 256, 512]), np.random.default_rng(3)
    first, kinks, floor = draws.normal(size=40), draws.normal(size=(6, 40)), draws.normal(size=40)
    differences = (
        first / depths[:, None] + kinked * kinks / depths[:, None] ** 2.0 + left * floor / depths[-1]
    )
    found = remainder(depths, differences @ differences.T, np.arange(1.0, 8.0))
    assert found.is_certain is certain
    assert found.size > 5 * found.error
