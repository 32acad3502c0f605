"""`identify` on forty stacks as people write them: thirty limits are named, and none where there is none.

`known_limits` holds the table. All rows with three seeds are nightly. A few are always run, with fewer draws.
"""

import math

import pytest
import torch
from known_limits import NAMED, UNNAMED

import deeplimit as dl

SEEDS = (1, 2, 3)
ALWAYS = {"two blocks in turn", "short memory", "jumps"}
"""Each was named wrongly: by an ODE through one of two blocks; by a power that a memory of few layers has for
a while; by moments that a few large layers share with a diffusion."""
FEWER = 20
ROWS = [
    pytest.param(row, seed, 32, id=f"{row.name}-{seed}", marks=pytest.mark.nightly)
    for row in (*NAMED, *UNNAMED)
    for seed in SEEDS
]
ROWS += [
    pytest.param(row, 1, FEWER, id=f"{row.name}-fewer") for row in (*NAMED, *UNNAMED) if row.name in ALWAYS
]


def test_the_table_has_thirty_limits_and_ten_stacks_without_one():
    assert (len(NAMED), len(UNNAMED)) == (30, 10)
    assert len({row.name for row in (*NAMED, *UNNAMED)}) == 40


@pytest.mark.parametrize(("row", "seed", "draws"), ROWS)
@pytest.mark.usefixtures("one_thread")
def test_a_limit_is_named_where_there_is_one_and_only_there(row, seed, draws, record_property):
    x = torch.randn(3, *row.shape, generator=torch.Generator().manual_seed(seed))
    report = dl.identify(row.factory, x, depths=(4, 8, 16, 32), draws=draws, seed=seed)
    record_property("known limits" if row.right else "no limits", str(report.verdict))
    if not row.right:
        assert report.limit is None, report
        return
    assert report.limit in row.right, report
    assert math.isnan(row.exponent) or abs(report.exponent - row.exponent) < 0.1
