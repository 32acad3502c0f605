"""The right law is called another no more often than the level allows: 300 replications."""

import pytest
from scipy import stats

import deeplimit as dl

pytestmark = [pytest.mark.slow, pytest.mark.statistical]
REPLICATIONS = 300


@pytest.mark.parametrize("level", [0.05, 0.2])
def test_the_right_law_is_rejected_no_more_often_than_the_level_allows(level):
    network = dl.res3(4)
    found = [
        dl.compare_laws(network, depths=[64, 128, 256], draws=500, level=level, seed=seed).verdict
        for seed in range(REPLICATIONS)
    ]
    assert stats.binom.sf(found.count("another law") - 1, REPLICATIONS, level) > 1e-3
