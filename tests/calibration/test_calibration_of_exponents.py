"""Exponents of sizes that scatter cover the truth as often as they say: 3,000 replications each."""

import numpy as np
import pytest
from scipy import stats

from deeplimit.modules.depth_check.exponents import fit

pytestmark = [pytest.mark.nightly, pytest.mark.statistical]
REPLICATIONS = 3000


@pytest.mark.parametrize("confidence", [0.9, 0.99])
@pytest.mark.parametrize("scatter", [0.03, 0.2])
def test_the_exponent_of_scattered_sizes_is_covered(confidence, scatter):
    random, depths = np.random.default_rng(0), [4, 8, 16, 32]
    covered = power_laws = 0
    for _ in range(REPLICATIONS):
        sizes = [depth**-0.5 * np.exp(scatter * random.normal(size=depth)) for depth in depths]
        found = fit(depths, sizes, confidence)
        # The root mean square of a log-normal size is the same multiple of its median at every depth.
        covered += found.low <= 0.5 <= found.high
        power_laws += found.power_law
    assert stats.binom.cdf(covered, REPLICATIONS, confidence) > 1e-3
    assert power_laws > 0.98 * REPLICATIONS
