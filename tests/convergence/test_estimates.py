"""Errors with the reference's own error taken out: by hand, and with a covariance by finite differences."""

import numpy as np
import pytest

from deeplimit.convergence.estimates import without_reference_error


def taken_out(fine, coarse, apart, surplus=0.0):
    """Return the squared error that is left of squared errors and the squared distance of two solutions."""
    logs = 0.5 * np.log([fine, coarse, apart])
    return float(np.exp(2 * without_reference_error(logs, np.eye(3), surplus)[0][0]))


@pytest.mark.parametrize(
    ("coarse", "surplus", "left"),
    [
        (1.3, 0.0, 0.7),  # 2 e²_fine - e²_coarse
        (1.3, 2.0, 0.9),  # and twice the squared distance 0.1
        (1.74, 0.0, 0.26),
        (1.9, 0.0, 0.25),  # no more than three quarters are taken out
        (0.5, 20.0, 3.5),
        (0.5, 40.0, 4.0),  # and the result is no more than four times as large
    ],
)
def test_what_is_left_is_extrapolated_and_bounded(coarse, surplus, left):
    assert taken_out(1.0, coarse, 0.1, surplus) == pytest.approx(left)
    assert taken_out(1e-12, coarse * 1e-12, 1e-13, surplus) == pytest.approx(left * 1e-12)


@pytest.mark.parametrize("surplus", [0.0, 1.5])
def test_the_covariance_of_what_is_left_is_that_of_the_delta_method(surplus):
    logs = 0.5 * np.log([1.0, 0.6, 1.2, 0.65, 0.1])  # two depths against both solutions, and their distance
    root = 0.01 * np.random.default_rng(0).normal(size=(5, 5))
    covariance = root @ root.T
    found = without_reference_error(logs, covariance, surplus)[1]
    step = 1e-6
    slopes = [
        (
            without_reference_error(logs + step * unit, covariance, surplus)[0]
            - without_reference_error(logs - step * unit, covariance, surplus)[0]
        )
        / (2 * step)
        for unit in np.eye(5)
    ]
    change = np.stack(slopes, axis=1)
    np.testing.assert_allclose(found, change @ covariance @ change.T, rtol=1e-6)
