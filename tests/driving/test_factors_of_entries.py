"""Entrywise variances are a product of rows and columns up to round-off, or they are none."""

import pytest
import torch

from deeplimit.driving.covariance import MatrixEntries

ROWS, COLUMNS = torch.tensor([2.0, 0.3, 0.7], dtype=torch.float64), torch.tensor([0.1, 1.0, 0.9]).double()


def entries(deviations):
    return MatrixEntries(deviations**2, deviations)


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_one_entry_off_by_more_than_round_off_has_no_factors(unit, sign):
    """Round-off is 1e-14 of the largest deviation, in whatever unit they are."""
    product = unit * torch.outer(ROWS, COLUMNS)
    size = float(product.max())
    for off, has_factors in ((0.0, True), (0.7e-14, True), (1.4e-14, False)):
        deviations = product.clone()
        deviations[1, 2] += sign * off * size
        found = entries(deviations).factors()
        assert (found is not None) == has_factors, off
        if found is not None:
            torch.testing.assert_close(
                torch.outer(found.rows, found.columns), product, rtol=1e-13, atol=2e-14 * size
            )


def test_a_covariance_of_zero_has_factors_and_one_per_path_has_none():
    nothing = torch.zeros(2, 2, dtype=torch.float64)
    found = entries(nothing).factors()
    assert found is not None
    torch.testing.assert_close(torch.outer(found.rows, found.columns), nothing)
    assert entries(torch.ones(5, 2, 2, dtype=torch.float64)).factors() is None
