"""Growth exponents of signals cover their known values as often as they say: 300 replications each."""

import numpy as np
import pytest
from scipy import stats

import deeplimit as dl

pytestmark = [pytest.mark.slow, pytest.mark.statistical]
REPLICATIONS = 300
WORDS = {0.25: "explosion", 0.5: "stable", 1.0: "identity"}


@pytest.mark.parametrize("exponent", WORDS)
def test_the_growth_exponent_of_independent_layers_is_covered_and_never_misjudged(exponent):
    """γ = 1 - 2β, on both sides of the critical exponent and at it."""
    network = dl.res3(10, exponent=exponent)
    found = [
        dl.stability(network, [10, 30, 100, 300], draws=60, seed=seed, confidence=0.95).hidden_growth
        for seed in range(REPLICATIONS)
    ]
    covered = sum(growth.interval[0] <= 1 - 2 * exponent <= growth.interval[1] for growth in found)
    assert stats.binom.cdf(covered, REPLICATIONS, 0.95) > 1e-3
    assert {growth.verdict for growth in found} <= {WORDS[exponent], "cannot tell"}
    assert np.mean([growth.verdict == WORDS[exponent] for growth in found]) > 0.5
