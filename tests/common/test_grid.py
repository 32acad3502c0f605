"""The union grid against exact fractions."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st

from deeplimit.driving.path import CHUNK, Grid, uniform_size

depth_lists = st.lists(st.integers(1, 30), min_size=1, max_size=4, unique=True).map(sorted).map(tuple)


def expected_times(depths):
    return sorted({Fraction(k, depth) for depth in depths for k in range(1, depth + 1)})


@given(depth_lists, depth_lists)
def test_grid_is_the_union_of_all_layer_times_in_order(depths, extra):
    grid = Grid(depths, extra)
    chunks = list(grid.chunks())
    times = expected_times(depths + extra)
    assert grid.size == len(times)
    assert np.concatenate([chunk.times for chunk in chunks]).tolist() == [float(t) for t in times]
    steps = [float(b - a) for a, b in zip([Fraction(0), *times], times, strict=False)]
    assert np.concatenate([chunk.steps for chunk in chunks]).tolist() == steps
    ends = np.concatenate([chunk.ends for chunk in chunks])
    for j, depth in enumerate(depths):
        assert ends[:, j].tolist() == [(t * depth).denominator == 1 for t in times]
    common = np.concatenate([chunk.common for chunk in chunks])
    assert common.tolist() == ends.all(axis=1).tolist()
    assert grid.sum_of_powers(2) == pytest.approx(sum(step**2 for step in steps), rel=1e-12)


def test_chunks_continue_each_other_and_stay_small():
    grid = Grid((700, 1001), (2048,))
    chunks = list(grid.chunks())
    assert len(chunks) > 3
    assert max(len(chunk.times) for chunk in chunks) < 2 * CHUNK
    assert [chunk.start for chunk in chunks[1:]] == [chunk.times[-1] for chunk in chunks[:-1]]
    assert chunks[-1].times[-1] == 1.0
    assert chunks[-1].ends[-1].all()


def test_uniform_reference_has_one_over_depth_as_its_sum_of_squared_steps():
    assert Grid((16, 64), (128,)).sum_of_powers(2) == pytest.approx(1 / 128, rel=1e-14)


def test_a_uniform_grid_is_the_least_common_multiple_that_is_fine_enough():
    assert [uniform_size((3, 4), least) for least in (1, 12, 13, 24, 25)] == [12, 12, 24, 24, 36]


@given(depth_lists, depth_lists)
def test_a_halved_grid_has_every_step_of_the_union_cut_in_two(depths, extra):
    chunks = list(Grid(depths, extra, halved=True).chunks())
    whole = [Fraction(0), *expected_times(depths + extra)]
    halves = [(a + b) / 2 for a, b in pairwise(whole)]
    times = sorted(whole[1:] + halves)
    found = np.concatenate([chunk.times for chunk in chunks])
    np.testing.assert_allclose(found, [float(t) for t in times], rtol=1e-15)
    steps = [float(b - a) for a, b in zip([Fraction(0), *times], times, strict=False)]
    np.testing.assert_allclose(np.concatenate([chunk.steps for chunk in chunks]), steps, rtol=1e-14)
    coarse = np.concatenate([chunk.coarse for chunk in chunks])
    assert coarse.tolist() == [t in whole for t in times]
    ends = np.concatenate([chunk.ends for chunk in chunks])
    for j, depth in enumerate(depths):
        assert ends[:, j].tolist() == [t in whole and (t * depth).denominator == 1 for t in times]
    assert np.concatenate([chunk.common for chunk in chunks]).tolist() == ends.all(axis=1).tolist()
