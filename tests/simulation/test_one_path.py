"""One path drawn again, and statistics of one's own: the numbers that entered the averages, to the last
bit.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
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
    "final": lambda: dl.compare(dl.res1(4, "tanh"), depths=[4, 8], paths=20, norm="final", p=1),
    "all times": lambda: dl.compare(dl.res1(4, "tanh"), depths=[4, 8], paths=20, norm="sup-continuous"),
    "a statistic of one's own": lambda: dl.compare(
        dl.res1(4, "tanh"), depths=[4, 8, 16], paths=20, norm=MeanOverLayers()
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


@pytest.mark.parametrize("index", [0, 39])
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


def test_a_mean_over_layers_is_smaller_than_the_largest_and_has_the_same_order():
    network, given = dl.res1(4, "tanh"), {"depths": [8, 16, 32, 64, 128], "paths": 400}
    mean, largest = (dl.compare(network, norm=norm, **given) for norm in (MeanOverLayers(), "sup"))
    assert (mean.errors < largest.errors).all()
    assert mean.verdict == "converges"
    assert mean.rate_interval[0] < 0.5 < mean.rate_interval[1]
    wrong = dl.compare(network, dl.Independent(network.limit()), norm=MeanOverLayers(), **given)
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
