"""Slopes over depth: known powers, corrections that vanish, contributions that cross, and coverage."""

import numpy as np
import pytest
from scipy import stats

from deeplimit.trained.diagnosis import slopes
from deeplimit.trained.diagnosis.hidden_slopes import Hidden

DEPTHS = 2.0 ** np.arange(3, 11)
CONFIDENCE, NOMINAL, LEVEL = 0.95, 0.93, 1e-5


def test_a_power_law_has_its_slope_and_its_negative_the_opposite():
    found = slopes.fit(DEPTHS, 3 * DEPTHS**-0.7, CONFIDENCE)
    assert found.value == pytest.approx(-0.7, abs=1e-6)
    assert found.interval[0] < -0.7 < found.interval[1]
    assert (-found).interval == pytest.approx((-found.interval[1], -found.interval[0]))
    assert found.sure[0] < found.interval[0]


@pytest.mark.parametrize("power", [0.5, 1.0])
@pytest.mark.parametrize("size", [-0.4, 0.4])
def test_a_correction_that_vanishes_with_depth_is_covered(power, size):
    values = DEPTHS**0.3 * (1 + size * (DEPTHS[0] / DEPTHS) ** power)
    low, high = slopes.fit(DEPTHS, values, CONFIDENCE).interval
    assert low <= 0.3 <= high
    assert high - low < 0.35


def test_what_a_faster_contribution_hides_at_small_depth_is_found():
    values = np.sqrt(0.04 + (8 / DEPTHS) ** 4)
    known = 1e-3 * DEPTHS[0] / DEPTHS
    turns = np.geomspace(2, 500, 40)
    added = [(turn / DEPTHS) ** 4 for turn in turns]
    offsets = np.stack([np.zeros(8), *(0.5 * np.log1p(each) for each in added)])
    hidden = Hidden(offsets, np.log([0.5] + [0.5 / 40] * 40))
    low, high = slopes.fit(DEPTHS, values, CONFIDENCE, known, hidden=hidden).interval
    assert -0.02 < low < 0 < high < 0.02
    blind = slopes.fit(DEPTHS, values, CONFIDENCE, known)
    assert blind.interval[1] - blind.interval[0] > 1.5 * (high - low)


def test_fewer_than_three_depths_have_no_slope_whatever_the_networks():
    assert not slopes.fit([8, 8, 16, 16], np.ones(4), CONFIDENCE).is_known
    assert not slopes.fit([8, 16, 32], np.array([1.0, 1.0, 0.0]), CONFIDENCE).is_known
    assert slopes.fit([8, 16, 16, 32], np.ones(4), CONFIDENCE).is_known


def test_an_exponent_that_cannot_exceed_a_limit_is_cut_there():
    found = slopes.Slope(1.2, (0.9, 1.5), (0.7, 1.7)).at_most(1.0)
    assert (found.value, found.interval, found.sure) == (1.0, (0.9, 1.0), (0.7, 1.0))
    assert not slopes.UNKNOWN.at_most(1.0).is_known


@pytest.mark.statistical
@pytest.mark.parametrize(("scatter", "falls"), [(0.1, 0.0), (0.2, 1.0)])
def test_intervals_of_noisy_powers_cover(scatter, falls):
    rng = np.random.default_rng(0)
    sizes = scatter * (DEPTHS[0] / DEPTHS) ** (falls / 2)
    runs, inside = 60, 0
    for _ in range(runs):
        low, high = slopes.fit(DEPTHS, DEPTHS**-0.4 * np.exp(sizes * rng.normal(size=8)), CONFIDENCE).interval
        inside += low <= -0.4 <= high
    assert inside >= stats.binom.ppf(LEVEL, runs, NOMINAL), inside / runs


@pytest.mark.statistical
def test_known_sampling_variances_narrow_intervals_that_still_cover():
    rng = np.random.default_rng(1)
    depths, runs = 2.0 ** np.arange(3, 9), 60
    variances = 0.08 / (depths - 4)
    inside, widths = 0, []
    for _ in range(runs):
        # The logarithm of a mean square lies below that of its expectation.
        values = np.exp(np.sqrt(variances) * rng.normal(size=6) - variances)
        low, high = slopes.fit(depths, values, CONFIDENCE, variances).interval
        inside += low <= 0 <= high
        widths.append((high - low) / np.subtract(*slopes.fit(depths, values, CONFIDENCE).interval[::-1]))
    assert inside >= stats.binom.ppf(LEVEL, runs, NOMINAL), inside / runs
    assert np.median(widths) < 0.7


@pytest.mark.statistical
def test_corrections_of_smooth_trends_narrow_intervals_that_still_cover():
    """Two seeds at five depths whose sizes scatter by 4 %, off by Riemann sums: 95 % cover, at level 1e-5."""
    rng = np.random.default_rng(8)
    depths = np.repeat([16.0, 32.0, 64.0, 128.0, 256.0], 2)
    covered, narrow, wide = 0, [], []
    for _ in range(100):
        bend = 1 + rng.normal(0, 0.06) * 16 / depths
        sizes = depths**-0.3 * bend * np.exp(rng.normal(0, 0.04, len(depths)))
        found = slopes.fit(depths, sizes, 0.95, corrections=slopes.OF_TRENDS)
        low, high = found.interval
        covered += low <= -0.3 <= high
        narrow.append(high - low)
        wide.append(np.subtract(*slopes.fit(depths, sizes, 0.95).interval[::-1]))
    assert covered >= stats.binom.ppf(1e-5, 100, 0.95)
    assert np.median(narrow) < 0.75 * np.median(wide)
