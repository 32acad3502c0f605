"""Where a falling curve passes 0: exact on lines, and with an interval that covers as often as it says."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from deeplimit.signal.phase import STRAIGHT
from deeplimit.statistics.crossing import crossing, crossing_of_mean

LEVEL = 1e-5
GRID = np.linspace(0.0, 1.3, 14)


def passes(grid, draws, confidence):
    return crossing_of_mean(grid, draws, confidence, STRAIGHT)


@given(at=st.floats(0.01, 1.29), slope=st.floats(0.1, 10.0))
def test_the_crossing_of_a_line_is_exact(at, slope):
    assert crossing(GRID, -slope * (GRID - at)) == pytest.approx(at, abs=1e-12)


def test_the_last_crossing_counts_and_none_is_nan():
    assert crossing(np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, -1.0, 1.0, -3.0])) == 2.25
    assert crossing(np.array([0.0, 1.0]), np.array([1.0, 0.0])) == 1.0
    for values in ([1.0, 2.0], [-1.0, -2.0], [-1.0, 1.0], [np.nan, -1.0]):
        assert np.isnan(crossing(np.array([0.0, 1.0]), np.array(values)))


def synthetic(truth, draws, generator, grid=GRID):
    """Differences that pass 0 at `truth`; a draw's noise is shared by neighbouring points of the grid."""
    noise = generator.normal(size=(2, 1, draws)) + 0.03 * generator.normal(size=(2, len(grid), draws))
    deep, shallow = noise * 0.2
    return deep - shallow - (grid[:, None] - truth)


@pytest.mark.statistical
@pytest.mark.parametrize(("draws", "confidence"), [(3, 0.8), (20, 0.95)])
def test_intervals_of_a_crossing_cover_it_as_often_as_they_say(draws, confidence):
    generator, trials = np.random.default_rng(draws), 800
    covered, elsewhere = 0, 0
    for _ in range(trials):
        at, (low, high) = passes(GRID, synthetic(0.63, draws, generator), confidence)
        assert low < at < high
        covered += low <= 0.63 <= high
        elsewhere += low <= 1.5 <= high
    # A finite grid is not quite the Student case: two per cent are allowed for.
    assert stats.binom.cdf(covered, trials, confidence - 0.02) > LEVEL
    assert stats.binom.sf(covered - 1, trials, confidence + 0.02) > LEVEL
    assert elsewhere < 0.5 * covered


def test_the_interval_is_students_over_the_slope_and_what_the_grid_leaves_open():
    apart = np.array([-1.0, 0.5, 1.1, -0.4, 0.3])
    line = -3.0 * (GRID[:, None] - 0.5) + apart
    at, (low, high) = passes(GRID, line, 0.9)
    straight = 0.5 + apart.mean() / 3
    assert at == pytest.approx(straight, abs=0.005)
    half = stats.t.isf(0.05, 4) * apart.std(ddof=1) / 5**0.5 / 3 + abs(at - straight)
    assert (low, high) == (pytest.approx(at - half), pytest.approx(at + half))


def test_a_coarse_grid_does_not_give_a_narrow_interval_elsewhere():
    """Below the boundary the change explodes: a straight line from there passes 0 next to the upper grid
    point.
    """
    coarse = np.array([0.0, 0.65, 1.3])
    steep = np.array([30.0, -0.15, -0.8])[:, None] + 0.01 * np.arange(-2, 3)  # truly at 0.5
    at, (low, high) = passes(coarse, steep, 0.95)
    assert abs(at - 0.5) < 0.1
    assert low < 0.5 < high
