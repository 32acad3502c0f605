"""Cheap cells of the calibration, in up to 200 replications: intervals cover, verdicts are not false.

docs/calibration.md has all cells; `make calibrate` measures them.
"""

import pytest
from scipy import stats

from calibration.cells import cells
from calibration.summary import LEAST_COVERED, summarise

pytestmark = [pytest.mark.statistical, pytest.mark.usefixtures("one_thread")]
LEVEL = 1e-5
QUICK = {cell.key: cell for cell in cells() if cell.quick}
NOT_YET = {
    "Theorem 4.3/tanh, α = 0.5, β = 0.5, depths 16 … 128, 20 paths": "verdicts of given weights shrug",
    "Theorem 4.3/identity, α = 0.7, β = 0.3, depths 16 … 128, 20 paths": "a lower bound is taken as exact",
    "Theorem 4.4, SDE/tanh, d = 8, A = 1/8": "both parts of the error are fitted as one",
    "Wrong limits/slope of σ × 1.05, Theorem 4.3, depths 16 … 128, 20 paths": "plain floors are not seen",
    "Wrong limits/trend shifted by 0.03, Theorem 4.3, depths 16 … 128, 20 paths": "plain floors are not seen",
}


def marked(key):
    """Return the cell's name, marked where the library is known not to reach its aim yet."""
    marks = [pytest.mark.xfail(strict=True, reason=NOT_YET[key])] if key in NOT_YET else []
    return pytest.param(key, marks=marks)


def test_what_is_not_reached_yet_is_a_cell():
    assert set(NOT_YET) <= set(QUICK)


@pytest.mark.parametrize("key", [marked(key) for key in QUICK])
def test_a_cell_covers_and_its_verdicts_are_right(key):
    """A cell that covers 93 % and has 1 % false verdicts fails with a probability of 1e-5 each."""
    cell = QUICK[key]
    record = summarise(cell.run(seed) for seed in range(cell.quick))
    assert record.verdicts.get("failed", 0) == 0, record.errors
    if record.judged:
        assert stats.binom.cdf(record.covered, record.judged, LEAST_COVERED) > LEVEL
    assert stats.binom.sf(record.false - 1, cell.quick, cell.admitted) > LEVEL
    assert record.right >= cell.least * cell.quick
