"""Differences at infinite depth: exact on their model, with standard errors, and honest where it fails."""

import numpy as np
import pytest

from deeplimit.statistics.extrapolation import extrapolate


def test_extrapolation_is_exact_on_its_model_and_leaves_out_depths_that_do_not_fit():
    depths = np.array([4.0, 8.0, 16.0, 32.0, 64.0, 128.0])
    exact = 0.3 + 2 / depths - 5 / depths**2
    found = extrapolate(depths, exact, np.full(6, 1e-8), 4e-8, (1.0, 2.0), 1e-4)
    assert found.value == pytest.approx(0.3)
    assert found.fits
    assert found.allowance == 0.0
    assert 2e-4 < found.error < 3e-4
    bent = exact + 60 / depths**4
    assert extrapolate(depths, bent, np.full(6, 1e-8), 0.0, (1.0, 2.0), 1e-4).value == pytest.approx(
        0.3, abs=1e-3
    )
    roots = extrapolate(depths, 0.3 + depths**-0.5, np.full(6, 1e-8), 0.0, (0.5, 1.0), 1e-4)
    assert roots.value == pytest.approx(0.3)
    assert not extrapolate(depths, np.log(depths), np.full(6, 1e-8), 0.0, (1.0, 2.0), 1e-4).fits


def test_the_allowance_is_what_one_depth_less_would_change_beyond_its_noise():
    """Nested fits differ by a variance that is the difference of theirs. At level 0 no depth is left out."""
    depths = np.array([8.0, 16.0, 32.0, 64.0, 128.0])
    variances = np.array([1.0, 2.0, 1.0, 3.0, 2.0]) * 1e-6
    differences = 0.1 + 1 / depths - 2 / depths**2 + 200 / depths**3

    def solved(first):
        weights = 1 / np.sqrt(variances[first:])
        design = np.stack([depths[first:] ** -power for power in (0.0, 1.0, 2.0)], axis=1)
        value = np.linalg.lstsq(design * weights[:, None], differences[first:] * weights, rcond=None)[0][0]
        return value, np.linalg.inv((design * weights[:, None] ** 2).T @ design)[0, 0]

    (all_of_them, variance), (without_first, larger) = solved(0), solved(1)
    found = extrapolate(depths, differences, variances, 3e-6, (1.0, 2.0), 0.0)
    expected = abs(all_of_them - without_first) - np.sqrt(larger - variance)
    assert expected > 0.1 * abs(all_of_them - without_first)
    assert found.value == pytest.approx(all_of_them, rel=1e-9)
    assert found.error == pytest.approx(np.sqrt(variance + 3e-6), rel=1e-6)
    assert found.allowance == pytest.approx(expected, rel=1e-6)
