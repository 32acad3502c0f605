"""One path drawn again, and statistics of one's own: the numbers that entered the averages, to the last
bit.
"""

from dataclasses import dataclass

import matplotlib.figure
import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from pairs import TREND
from refusals import assert_refused

import deeplimit as dl

SHARED = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


@dataclass(frozen=True)
class MeanOverLayers(dl.Statistic):
    name = "mean over the layers"

    def fold(self, kept, distance, count):
        return kept + (distance - kept) / count


@dataclass(frozen=True)
class FirstCoordinate(dl.Statistic):
    name = "first coordinate at the end"

    def distance(self, limit, state):
        return (limit - state)[:, 0].double().abs()

    def fold(self, kept, distance, count):
        return distance


COMPARISONS = {
    "whole matrices": lambda: dl.compare(dl.res1(4, "tanh"), depths=[4, 6, 12], paths=40),
    "products": lambda: dl.compare(dl.res1(9, "tanh"), depths=[4, 8], paths=40, coupling="projected"),
    # At this width a block has 8 paths, and every path that is drawn again runs one block.
    "two blocks": lambda: dl.compare(dl.res1(128, "tanh"), depths=[4, 8], paths=13, coupling="pathwise"),
    "ODE": lambda: dl.compare(dl.res1(3, "tanh", weights=dl.SmoothGaussian()), depths=[4, 8], paths=20),
    "final": lambda: dl.compare(dl.res1(4, "tanh"), depths=[4, 8], paths=20, norm="final", p=1),
    "all times": lambda: dl.compare(dl.res1(4, "tanh"), depths=[4, 8], paths=20, norm="sup-continuous"),
    "fractional": lambda: dl.compare(
        dl.res1(2, "tanh", weights=dl.FractionalBrownian(0.7)), depths=[4, 8], paths=20
    ),
    "a statistic of one's own": lambda: dl.compare(
        dl.res1(4, "tanh"), depths=[4, 8, 16], paths=20, norm=MeanOverLayers()
    ),
    "Theorem 4.4": lambda: dl.compare(
        dl.inner(2, "scaled_silu", trend=TREND, noise=dl.Ito(A=0.05, b=0.1)), depths=[4, 8], paths=20
    ),
}


@pytest.mark.parametrize("name", COMPARISONS)
def test_errors_of_all_paths_drawn_again_average_to_the_report(name):
    report = COMPARISONS[name]()
    drawn = [report.path(i) for i in range(report.paths)]
    each = np.stack([path.errors for path in drawn])
    mean = (each**report.p).mean(axis=0) ** (1 / report.p)
    np.testing.assert_allclose(mean, report.raw_errors, rtol=1e-12)
    np.testing.assert_allclose(np.max([path.errors for path in drawn], axis=0), report.worst, rtol=1e-12)


@given(index=st.integers(0, 39))
def test_states_of_a_path_give_its_errors(index):
    path = COMPARISONS["whole matrices"]().path(index)
    for j, depth in enumerate(path.depths):
        at = np.searchsorted(path.limit_times, path.times[depth] - 1e-12)
        gaps = np.linalg.norm((path.limit_states[at] - path.states[depth]).astype(float), axis=1)
        assert gaps.max() == pytest.approx(path.errors[j], rel=1e-6)
    np.testing.assert_array_equal(path.states[4][0], path.limit_states[0])


@pytest.mark.parametrize("p", [1, 2, 3.5])
def test_each_input_of_one_network_is_drawn_again(p):
    report = dl.compare(dl.res1(4, "tanh"), x=SHARED, depths=[4, 8], paths=5, same_network=True, p=p)
    powers = [[report.path(i, which).errors ** p for which in range(3)] for i in range(5)]
    np.testing.assert_allclose(np.mean(powers, axis=(0, 1)) ** (1 / p), report.raw_errors, rtol=1e-12)
    assert not np.array_equal(report.path(0, 0).states[4], report.path(0, 1).states[4])


def test_a_report_from_a_file_says_that_it_holds_no_statistic_of_a_user(tmp_path):
    report = COMPARISONS["a statistic of one's own"]()
    report.save(tmp_path / "r.json")
    with pytest.raises(ValueError, match=r"read from a file.*MeanOverLayers"):
        dl.load_report(tmp_path / "r.json").path(0)
    assert "task" not in report.to_dict()


@pytest.mark.parametrize("index", [-1, 20, 1.0, None])
def test_numbers_of_no_path_are_refused(index):
    kind = ValueError if isinstance(index, int) else TypeError
    assert_refused(lambda: COMPARISONS["ODE"]().path(index), kind, "index")


def test_a_path_is_drawn_on_given_axes():
    axes = matplotlib.figure.Figure().add_subplot()
    path = COMPARISONS["whole matrices"]().path(3)
    assert path.plot(axes, coordinate=3) is axes
    assert len(axes.lines) == 4
    assert_refused(lambda: path.plot(axes, coordinate=4), ValueError, "coordinate", "4")
    assert "path 3" in str(path)


def test_a_mean_over_layers_is_smaller_than_the_largest_and_has_the_same_order():
    mean, largest = (
        dl.compare(dl.res1(4, "tanh"), depths=[8, 16, 32, 64, 128], paths=400, norm=norm)
        for norm in (MeanOverLayers(), "sup")
    )
    assert (mean.errors < largest.errors).all()
    assert mean.verdict == "converges"
    assert mean.rate_interval[0] < 0.5 < mean.rate_interval[1]
    wrong = dl.compare(
        dl.res1(4, "tanh"),
        dl.Independent(dl.res1(4, "tanh").limit()),
        depths=[8, 16, 32, 64, 128],
        paths=400,
        norm=MeanOverLayers(),
    )
    assert wrong.verdict == "does not converge"


def test_a_distance_of_ones_own_is_measured_with_it():
    report = dl.compare(dl.res1(1, "tanh"), depths=[4, 8], paths=30, norm=FirstCoordinate())
    final = dl.compare(dl.res1(1, "tanh"), depths=[4, 8], paths=30, norm="final")
    np.testing.assert_allclose(report.raw_errors, final.raw_errors, rtol=1e-6)
    assert report.norm == "first coordinate at the end"


@pytest.mark.parametrize("norm", ["L2", MeanOverLayers, 2, None])
def test_what_is_no_statistic_is_refused(norm):
    kind = ValueError if isinstance(norm, str) else TypeError
    assert_refused(lambda: dl.compare(dl.res1(2), depths=[2, 4], norm=norm), kind, "norm")
