"""Least squares against second routes: the forms agree where they overlap, and errors are the scatter."""

import ast
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

import deeplimit
from deeplimit.statistics.power_law import CorrelatedData, StudentMixture, independent, line, student_quantile

PACKAGE = Path(deeplimit.__file__).parent
seeds = st.integers(0, 2**32 - 1)


def points(seed, m=6):
    random = np.random.default_rng(seed)
    x = np.sort(random.normal(size=m)) + np.arange(m)
    return random, x, random.normal(size=m), random.uniform(0.1, 3.0, size=m)


@given(seeds)
def test_the_three_forms_of_least_squares_give_one_line(seed):
    _, x, y, variances = points(seed)
    design = np.stack([np.ones(len(x)), x], axis=1)
    known = CorrelatedData.of(y, np.diag(variances)[None]).regress(design, np.zeros((1, len(x))))
    by_inverse = independent(design, y, variances)
    closed = line(x, y, 1 / variances)
    assert known.coefficients[0, :, 0] == pytest.approx(by_inverse.coefficients, rel=1e-8, abs=1e-8)
    assert known.covariances[0] == pytest.approx(by_inverse.covariance, rel=1e-8)
    assert closed.slope == pytest.approx(by_inverse.coefficients[1], rel=1e-8, abs=1e-8)
    assert closed.error == pytest.approx(by_inverse.covariance[1, 1] ** 0.5, rel=1e-8)
    assert closed.misfit == pytest.approx(by_inverse.misfit, rel=1e-6, abs=1e-12)


@given(seeds)
def test_a_line_through_the_origin_has_one_coefficient(seed):
    _, x, y, variances = points(seed)
    closed = line(x, y, 1 / variances, through_origin=True)
    other = independent(x[:, None], y, variances)
    assert closed.slope == pytest.approx(other.coefficients[0], rel=1e-8, abs=1e-8)
    assert closed.error == pytest.approx(other.covariance[0, 0] ** 0.5)
    assert closed.misfit == pytest.approx(other.misfit, rel=1e-6, abs=1e-12)


@given(seeds)
def test_a_log_marginal_likelihood_is_the_density_with_coefficients_integrated_out(seed):
    """Against a proper prior of huge variance, whose own density at 0 is divided out."""
    random, x, y, _ = points(seed, m=4)
    design = np.stack([np.ones(len(x)), x], axis=1)
    mixing = random.normal(size=(4, 4))
    covariance = mixing @ mixing.T + np.eye(4)
    found = CorrelatedData.of(y, covariance[None]).regress(design, np.zeros((1, 4))).log_likelihoods[0, 0]
    wide = 1e7
    full = stats.multivariate_normal(cov=covariance + wide * design @ design.T).logpdf(y)
    flat = full + 0.5 * 4 * np.log(2 * np.pi) + 0.5 * 2 * np.log(2 * np.pi * wide)
    assert found == pytest.approx(flat, abs=1e-3)


def test_a_line_needs_two_places_and_says_so():
    assert line(np.ones(3), np.arange(3.0), np.ones(3)) is None
    assert line(np.zeros(1), np.ones(1), np.ones(1), through_origin=True) is None
    assert line(np.array([1.0, 2.0]), np.array([3.0, 5.0]), np.ones(2)).misfit == 1.0


@pytest.mark.statistical
@given(seeds, st.floats(0.001, 0.999))
def test_a_quantile_of_a_mixture_has_its_probability_below_it(seed, probability):
    random = np.random.default_rng(seed)
    mixture = StudentMixture(
        random.dirichlet(np.ones(4)), random.normal(size=4), random.uniform(0.01, 2.0, size=4), 7.0
    )
    at = mixture.quantile(probability)
    below = mixture.weights @ stats.t.cdf((at - mixture.centres) / mixture.scales, 7.0)
    assert below == pytest.approx(probability, abs=1e-8)


def test_the_quantile_of_students_law_is_the_central_intervals():
    assert student_quantile(0.95, 10) == pytest.approx(2.228139, abs=1e-6)


SOLVERS = {"inv", "pinv", "lstsq", "solve", "polyfit", "curve_fit", "linregress", "slogdet"}
MEASURING = ("judge", "signal", "modules", "statistics", "papers")


def test_coefficients_are_solved_for_in_one_file_only():
    """No other file of a measurement inverts a matrix or fits, but that of means, which are no logarithms."""
    found = {
        str(path.relative_to(PACKAGE))
        for room in MEASURING
        for path in (PACKAGE / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in SOLVERS
    }
    assert found == {"statistics/power_law.py", "statistics/solver_errors.py"}
