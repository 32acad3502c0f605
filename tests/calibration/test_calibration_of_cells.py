"""One replication per group of estimates; `make calibrate` measures all, docs/calibration.md has them."""

import pytest

from calibration.cells import cells
from calibration.summary import summarise

QUICK = {cell.group: cell for cell in cells() if cell.quick}


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("group", QUICK)
def test_one_call_of_each_group_covers_the_truth_and_its_verdict_is_not_false(group):
    record = summarise([QUICK[group].run(0)])
    assert (record.errors, record.false, record.covered) == ((), 0, record.given)
