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


@pytest.mark.parametrize("key", QUICK)
def test_a_cell_covers_and_its_verdicts_are_right(key):
    """A cell that covers 93 % and has 1 % false verdicts fails with a probability of 1e-5 each."""
    cell = QUICK[key]
    record = summarise(cell.run(seed) for seed in range(cell.quick))
    assert record.verdicts.get("failed", 0) == 0, record.errors
    if record.judged:
        assert stats.binom.cdf(record.covered, record.judged, LEAST_COVERED) > LEVEL
    assert stats.binom.sf(record.false - 1, cell.quick, cell.admitted) > LEVEL
    assert record.right >= cell.least * cell.quick
