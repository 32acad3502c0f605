"""What a report shows, and that results depend on the seed alone."""

import dataclasses
import functools
from types import SimpleNamespace

import matplotlib.figure
import numpy as np
import pytest
import torch
from refusals import assert_refused

import deeplimit as dl
from deeplimit.judge.convergence.report import COMMON_DISTANCES, DISTANCES, CompareReport


def same(first, second):
    """Equal in every field but the time taken."""
    mine, theirs = (dataclasses.replace(r, seconds=0.0).to_dict() for r in (first, second))
    return mine == theirs


def test_seeds_make_results_and_nothing_else_does():
    network = dl.res1(3, "tanh")
    first, again, other = (dl.compare(network, depths=[4, 8, 16], paths=50, seed=seed) for seed in (1, 1, 2))
    assert same(first, again)
    assert first.errors.tolist() != other.errors.tolist()


def test_an_ode_that_cannot_be_solved_is_refused_with_its_tolerance():
    def blow_up(t, h):
        return 1e3 * h**2 + 1.0

    call = functools.partial(dl.compare, dl.res1(2, "tanh"), blow_up, depths=[4, 8], paths=20)
    assert_refused(call, RuntimeError, "could not be solved", "tolerance=")


def test_a_report_of_networks_that_overflowed_keeps_the_contract():
    lost = dl.compare(dl.res1(2, "identity"), x=torch.full((1, 2), 3e38), depths=[2, 4, 8], paths=30)
    assert np.isinf(lost.errors).any()
    assert np.isnan(lost.rate)
    dl.testing.check_report(lost)


def test_the_plots_lines_fall_at_the_fitted_and_at_the_predicted_order():
    report = dl.compare(dl.res1(4, "tanh"), depths=[8, 16, 32, 64], paths=200, seed=1)
    axes = report.plot(matplotlib.figure.Figure().add_subplot())
    lines = {line.get_label().split(":")[0].split(" ")[0]: line.get_xydata() for line in axes.get_lines()}
    for label, order in (("fitted", report.rate), ("predicted", report.predicted_rate)):
        (first, high), (last, low) = lines[label]
        assert (first, last) == (8, 64)
        assert np.log(high / low) / np.log(last / first) == pytest.approx(order)
    offsets = np.log(report.errors) - np.log(lines["fitted"][0, 1]) + report.rate * np.log(report.depths / 8)
    assert offsets.mean() == pytest.approx(
        0.0, abs=1e-12
    )  # the fitted line goes through the middle of the points
    bars = axes.containers[0].lines[2][0].get_segments()
    half = [(segment[1, 1] - segment[0, 1]) / 2 for segment in bars]
    assert half == pytest.approx((1.96 * report.standard_errors).tolist())


def test_progress_is_the_fraction_of_all_blocks_and_reaches_one_only_at_the_end():
    seen = []
    dl.compare(
        dl.res1(40, "tanh"), depths=[4, 8], paths=200, workers=1, progress=seen.append, coupling="pathwise"
    )  # 3 blocks of one chunk each
    assert seen == pytest.approx([1 / 3, 2 / 3, 1.0])


@pytest.mark.parametrize("norm", ["sup", "final"])
def test_the_axis_names_the_distances_that_were_averaged(norm):
    """Medians are of distances at the times that all depths share, means of those at all layers."""
    given = {"quantity": "state", "norm": norm, "_mean": "of", "takes_medians": False}
    axis = CompareReport._axis.fget
    assert axis(SimpleNamespace(**given)) == f"of {DISTANCES[norm]}"
    assert axis(SimpleNamespace(**given | {"takes_medians": True})) == f"of {COMMON_DISTANCES[norm]}"
    assert DISTANCES["sup"] != COMMON_DISTANCES["sup"]


def test_a_limit_of_no_theorem_stands_beside_what_theory_says_of_the_network():
    """With beta forgotten, which is 1 by default, the report named no limit but the wrong one."""
    turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    forgotten = dl.inner(2, "tanh", trend=dl.Trend(lambda t: turn), alpha=0.4)
    given = {"depths": [8, 16, 32], "paths": 20}
    wrong = dl.compare(forgotten, lambda t, h: h @ turn.T.to(h), **given)
    regime = forgotten.regime()
    assert regime.name == "identity"
    assert any(regime.explanation in each for each in wrong.reservations)
    own = dl.compare(forgotten, **given)
    assert not any(regime.explanation in each for each in own.reservations)
