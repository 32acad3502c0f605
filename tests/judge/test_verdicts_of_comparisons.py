"""Each piece of evidence of a comparison, one at a time: the verdict, and the doubts that are said."""

import numpy as np
import pytest
import torch

import deeplimit as dl
from deeplimit.common.verdict import all_said, first, judge, said
from deeplimit.judge.convergence.verdict import (
    Evidence,
    Measured,
    Numbers,
    caveats,
    failed_preconditions,
    gives_an_order,
    rules,
)
from deeplimit.judge.convergence.wording import OF_THE_NUMBERS, REASONS
from deeplimit.statistics.differences import Remainder
from deeplimit.statistics.power_law import ErrorEstimates, Floor, fit_rate


def evidence(**altered):
    """Return evidence for a clear "converges" of order 1/2, altered."""
    clear = {"interval": (0.45, 0.55), "sure_upper": 0.6, "floor": Floor(0.0, 0.0, 0.01, 0.0), "order": 0.5}
    return Evidence(
        **{
            **clear,
            "depths": 5,
            "last_slope": 0.5,
            "last_slope_error": 0.01,
            "rate": 0.5,
            "reach": 0.0,
            "previous_slope": 0.5,
            "fallen": 1.0,
            "fallen_error": 0.05,
            "kurtosis": 5.0,
            "count": 1000,
            **altered,
        }
    )


FLAT_FLOOR = Floor(0.8, 0.7, 0.9, 0.9995)
NEARLY_FLAT = {
    "interval": (-0.3, 0.3),
    "fallen": -1e-3,
    "fallen_error": 0.0,
    "previous_slope": -1e-3,
    "last_slope_error": 1e-6,
}
GROWN = {"interval": (-0.3, 0.3), "fallen": -0.5, "last_slope_error": 0.01}
AWAY = {"last_slope": -0.5, "previous_slope": -0.5}
FASTER = {"last_slope": -5.0, "previous_slope": -4.0, "fallen": -10.0, "deepest": 1e6, "coarsest": 16}


@pytest.mark.parametrize(
    ("altered", "word", "rule"),
    [
        ({}, "converges", "falls"),
        ({"depths": 2}, "cannot tell", "has_two_depths"),
        ({"interval": (-0.03, 0.04)}, "does not converge", "is_flat"),
        ({"interval": (-0.03, 0.051), "order": None}, "cannot tell", "may_not_fall"),
        ({"interval": (0.001, 0.04), "order": 0.06, "sure_upper": 0.07}, "converges", "falls"),
        ({"interval": (0.001, 0.06), "sure_upper": 0.07}, "cannot tell", "falls_too_slowly"),
        ({"interval": (-0.01, 0.55)}, "cannot tell", "may_not_fall"),
        ({**GROWN, "last_slope": -0.03}, "does not converge", "has_grown_and_is_level"),
        ({**GROWN, "last_slope": 0.03}, "cannot tell", "may_not_fall"),
        ({**GROWN, "fallen": 0.1, "last_slope": -0.03}, "cannot tell", "may_not_fall"),
        ({**GROWN, "last_slope": -0.1, "previous_slope": -0.5}, "cannot tell", "grows_ever_more_slowly"),
        ({**GROWN, "last_slope": -0.4, "previous_slope": -0.5}, "does not converge", "goes_away"),
        ({**GROWN, **AWAY}, "does not converge", "goes_away"),
        ({**GROWN, **AWAY, "is_settling": False}, "does not converge", "goes_away"),
        ({**GROWN, **AWAY, "depths": 3}, "does not converge", "has_grown_and_is_level"),
        # Slower from depth to depth, and faster: the latter from an error that steps of a size make.
        ({**GROWN, **AWAY, "previous_slope": -0.8}, "does not converge", "has_grown_and_is_level"),
        ({**GROWN, **FASTER, "is_settling": False}, "does not converge", "goes_away"),
        ({**GROWN, **FASTER, "is_settling": False, "deepest": 1e20}, "cannot tell", "is_still_moving"),
        ({**GROWN, **FASTER, "is_settling": False, "coarsest": 1}, "cannot tell", "is_still_moving"),
        ({**GROWN, **FASTER, "is_settling": False, "previous_slope": -5.5}, "cannot tell", "is_still_moving"),
        # The slope may fall to 0.45 of the one before: here to -0.225, two standard errors of 0.01 aside.
        ({**GROWN, "last_slope": -0.2, "previous_slope": -0.5}, "cannot tell", "grows_ever_more_slowly"),
        (
            {**GROWN, "last_slope": -0.21, "previous_slope": -0.5},
            "does not converge",
            "has_grown_and_is_level",
        ),
        ({**NEARLY_FLAT, "last_slope": -1e-4}, "does not converge", "has_grown_and_is_level"),
        ({**NEARLY_FLAT, "last_slope": -1e-4, "fallen": -0.03}, "cannot tell", "grows_ever_more_slowly"),
        (
            {**NEARLY_FLAT, "last_slope": -1e-4, "previous_slope": -0.03},
            "cannot tell",
            "grows_ever_more_slowly",
        ),
        ({"reach": 0.11, "rate": 0.61}, "cannot tell", "mixes_orders"),
        ({"reach": 0.11, "rate": 0.61, "hidden": True}, "converges", "falls"),
        ({"reach": 0.09}, "converges", "falls"),
        ({"floor": FLAT_FLOOR, "last_slope": 0.1}, "does not converge", "levels_off"),
        ({"floor": FLAT_FLOOR, "last_slope": 0.34}, "cannot tell", "follows_no_power_law"),
        (
            {"floor": FLAT_FLOOR, "last_slope": 0.32, "last_slope_error": 0.01},
            "cannot tell",
            "follows_no_power_law",
        ),
        (
            {"floor": FLAT_FLOOR, "last_slope": 0.32, "last_slope_error": 0.001},
            "does not converge",
            "levels_off",
        ),
        (
            {"floor": FLAT_FLOOR, "last_slope": 0.32, "last_slope_error": 0.001, "order": None},
            "does not converge",
            "levels_off",
        ),
        (
            {"floor": FLAT_FLOOR, "last_slope": 0.331, "last_slope_error": 0.0, "order": None},
            "cannot tell",
            "follows_no_power_law",
        ),
        ({"floor": FLAT_FLOOR, "last_slope": 0.1, "kurtosis": 251.0}, "cannot tell", "seems_to_level_off"),
        ({"floor": FLAT_FLOOR, "last_slope": 0.1, "kurtosis": 249.0}, "does not converge", "levels_off"),
        ({"floor": Floor(0.8, 0.7, 0.9, 0.9985), "last_slope": 0.1}, "cannot tell", "may_level_off"),
        ({"floor": Floor(0.2, 0.0, 0.4, 0.06)}, "cannot tell", "may_level_off"),
        ({"floor": Floor(0.2, 0.0, 0.4, 0.04)}, "converges", "falls"),
        ({"floor": Floor(0.2, 0.0, 0.4, 0.04), "interfere": True}, "cannot tell", "may_hide_a_floor"),
        ({"floor": Floor(0.2, 0.03, 0.4, 0.04)}, "cannot tell", "has_a_small_floor"),
        ({"remainder": Remainder(0.1, 0.001)}, "does not converge", "tends_elsewhere"),
        ({"remainder": Remainder(0.1, 0.001), "is_settling": False}, "converges", "falls"),
        ({"interval": (-0.03, 0.04), "is_settling": False}, "cannot tell", "is_still_moving"),
        ({"remainder": Remainder(0.1, 0.05)}, "converges", "falls"),
        ({"sure_upper": 0.49}, "cannot tell", "falls_too_slowly"),
        ({"sure_upper": 0.49, "order": None}, "converges", "falls"),
        (
            {"interval": (-0.03, 0.04), "deepest": 2.9e-6, "resolution": 1e-6},
            "cannot tell",
            "falls_to_what_can_be_resolved",
        ),
        ({"interval": (-0.03, 0.04), "deepest": 3.1e-6, "resolution": 1e-6}, "does not converge", "is_flat"),
        ({"deepest": 2.9e-6, "resolution": 1e-6}, "converges", "falls"),
    ],
)
def test_each_piece_of_evidence_leads_to_the_verdict_it_should(altered, word, rule):
    found = judge(rules, evidence(**altered))
    assert (found.code, found.rule) == (word, rule)


@pytest.mark.parametrize(
    ("part", "floor", "told"),
    [
        (1.0, Floor(0.0, 0.0, 0.25, 0.0), "at most 25 % of the deepest squared error would remain"),
        (0.2, Floor(0.0, 0.0, 0.25, 0.0), "at most 5 % of the deepest squared error would remain"),
        (0.001, Floor(0.0, 0.0, 0.25, 0.0), "at most 1 % of the deepest squared error would remain"),
        (0.8, Floor(0.2, 0.1, 0.25, 0.0), "16 % of the deepest squared error looks like a floor"),
        (0.02, Floor(0.2, 0.1, 0.25, 0.0), "0.4 % of the deepest squared error looks like a floor"),
    ],
)
def test_a_floor_is_told_in_per_cent_of_the_whole_squared_error(part, floor, told):
    assert told in said(judge(rules, evidence(part_of_square=part, floor=floor)), REASONS)


def estimates_of(slope, correlation=0.0, bias=(0.0, 0.0, 0.0, 0.0), **regime):
    """Return estimates of errors that fall by one slope, with a standard error of 1 %."""
    depths = np.array([8, 16, 32, 64])
    covariance = 1e-4 * (correlation + (1.0 - correlation) * np.eye(4))
    return ErrorEstimates(depths, -slope * np.log(depths), covariance, np.array(bias), 1000, **regime)


def seen(estimates, order):
    return Evidence.of(estimates, fit_rate(estimates), Floor(0.0, 0.0, 0.01, 0.0), order)


def test_errors_of_one_path_let_a_fall_be_known_better_than_either_end():
    """Var(log e_1 - log e_m) has the covariance of both taken off twice."""
    found = seen(estimates_of(0.5, correlation=0.8, bias=(-0.01, -0.02, -0.03, -0.04)), 0.5)
    assert found.fallen == pytest.approx(0.5 * np.log(8) - 0.03)
    assert found.fallen_error == pytest.approx((2 * 1e-4 * (1.0 - 0.8)) ** 0.5)


@pytest.mark.parametrize(("slope", "hidden"), [(0.69, False), (0.71, True)])
def test_a_faster_contribution_hides_an_order_from_half_of_its_power_on(slope, hidden):
    """Order 0.5 and a second contribution smaller by L^-0.4: beyond 0.7 the second is the larger one."""
    regime = {"second_orders": (0.4, 0.8), "hides": True}
    assert seen(estimates_of(slope, **regime), 0.5).hidden is hidden
    assert seen(estimates_of(slope, **{**regime, "hides": False}), 0.5).hidden is False
    assert seen(estimates_of(slope, **regime), None).hidden is False


def test_an_order_is_given_where_a_power_law_describes_the_errors_unhidden():
    for altered, given in (
        ({}, True),
        ({"interval": (-0.01, 0.55)}, True),
        ({"hidden": True}, False),
        ({"reach": 0.11}, False),
        ({"floor": FLAT_FLOOR, "last_slope": 0.34}, False),
        ({**GROWN, "last_slope": -0.1, "previous_slope": -0.5}, False),
    ):
        clear = evidence(**altered)
        assert gives_an_order(clear, judge(rules, clear)) is given, altered


def measured(**altered):
    """Return measurements that nothing keeps from being fitted, altered."""
    plain = {
        "depths": (8, 16, 32),
        "paths": 100,
        "errors": np.array([0.3, 0.2, 0.1]),
        "diverged": np.zeros(3, dtype=int),
        "limit_lost": 0,
        "resolution": 1e-6,
        "vanishes": False,
        "kurtosis": 5.0,
    }
    return Measured(**{**plain, **altered})


@pytest.mark.parametrize(
    ("altered", "word", "rule"),
    [
        ({"diverged": np.array([0, 0, 51])}, "does not converge", "deep_networks_diverge"),
        ({"diverged": np.array([0, 0, 50])}, "cannot tell", "some_paths_diverge"),
        ({"diverged": np.array([51, 51, 51])}, "cannot tell", "some_paths_diverge"),
        ({"diverged": np.array([0, 0, 51]), "limit_lost": 1}, "cannot tell", "some_paths_diverge"),
        ({"errors": np.zeros(3), "vanishes": True}, "converges", "equals_the_limit"),
        ({"errors": np.zeros(3), "resolution": 0.009}, "converges", "equals_the_limit"),
        ({"errors": np.zeros(3), "resolution": 0.02}, "cannot tell", "is_swallowed"),
        ({"resolution": 0.3}, "cannot tell", "lies_within_resolution"),
        ({"resolution": 0.1}, "cannot tell", "deepest_is_not_resolved"),
        ({"errors": np.array([0.3, 0.0, 0.1]), "vanishes": True}, "cannot tell", "vanishes_at_some_depths"),
        ({"paths": 9}, "cannot tell", "has_too_few_paths"),
        ({"kurtosis": 50.1}, "cannot tell", "rests_on_two_paths"),
    ],
)
def test_each_obstacle_to_a_fit_is_named(altered, word, rule):
    assert first(failed_preconditions, measured()) is None
    found = first(failed_preconditions, measured(**altered))
    assert (found.code, found.rule) == (word, rule)


def reserved(**altered):
    """Return the reservations about numbers that deserve none, altered."""
    plain = {
        "depths": (8, 16),
        "diverged": np.zeros(2, dtype=int),
        "limit_lost": 0,
        "paths": 400,
        "exact": False,
        "kurtosis": np.full(2, 5.0),
        "reference_error": 1e-6,
        "errors": np.array([0.2, 0.1]),
        "rounding": 1e-6,
        "swollen": False,
        "narrow": True,
        "rate": 0.5,
        "interval": (0.45, 0.55),
        "predicted": 0.5,
        "is_bound": False,
        "contradicts": False,
        "drift": 0.04,
        "drift_error": 0.01,
    }
    numbers = Numbers(**{**plain, **altered})
    return all_said(caveats(numbers), numbers, OF_THE_NUMBERS)


def test_where_both_parts_fall_and_their_sum_does_not_the_error_is_the_references():
    """As of Milstein's recursion: .0061 was printed for 0.0005."""
    flat = np.array([0.0070, 0.0061])
    (told,) = reserved(errors=flat, parts_fall=1.3, predicted=None)
    assert "reference=" in told
    assert not reserved(errors=flat, parts_fall=0.1, predicted=None)  # a limit that is another one
    assert not reserved(parts_fall=0.7)


def test_where_nothing_differs_no_reference_has_to_be_better():
    coarse = {"reference_error": 1.0, "rounding": 1.0}
    assert len(reserved(**coarse)) == 2
    assert not reserved(**coarse, equal=True)


@pytest.mark.parametrize(
    ("altered", "words"),
    [
        ({"limit_lost": 3}, "the limit itself was not finite on 3 of 400"),
        ({"diverged": np.array([0, 2])}, "2 of 400 paths at depth 16"),
        ({"diverged": np.array([7, 2])}, "2 of 400 paths at depth 16; 7 of 400 paths at depth 8"),
        ({"paths": 99}, "99 paths are few"),
        ({"kurtosis": np.array([5.0, 101.0])}, "kurtosis 101"),
        ({"reference_error": 0.006}, "the reference solution's error"),
        ({"swollen": True}, "changes some errors by more than half"),
        ({"rounding": 0.006}, "float64"),
        ({"rounding": 0.006, "narrow": False}, "do not interpret"),
        ({"interval": (0.51, 0.55)}, "excludes the predicted order 0.5"),
        ({"interval": (0.45, 0.49)}, "excludes the predicted order 0.5"),
        ({"interval": (0.45, 0.49), "is_bound": True}, "excludes the predicted order at least 0.5"),
        ({"medians": True, "diverged": np.array([0, 2])}, "medians"),
        ({"contradicts": True}, "contradicts the theorem"),
        ({"drift": 0.06}, "still drift, by 0.06"),
    ],
)
def test_each_doubt_is_said_and_said_only_when_there_is_one(altered, words):
    mild = {"drift": 0.2, "drift_error": 0.07, "reference_error": 0.004, "rounding": 0.004}
    assert reserved() == reserved(**mild) == []
    (text,) = reserved(**altered)
    assert words in text


def test_an_order_above_a_lower_bound_raises_no_doubt():
    assert reserved(interval=(0.51, 0.55), is_bound=True) == []


def test_numbers_that_are_not_known_raise_no_doubt():
    assert reserved(drift=np.nan, drift_error=np.nan, rate=np.nan, interval=(np.nan, np.nan)) == []


@pytest.mark.parametrize(("size", "verdict"), [(5e-6, "cannot tell"), (2e-5, "does not converge")])
def test_errors_that_stop_at_a_few_times_the_rounding_are_not_called_wrong(size, verdict):
    nearly_still = dl.res1(1, "identity", weights=dl.Trend(lambda t: size * torch.ones(1, 1)))
    x = 1 + 0.2 * torch.rand(200, 1, generator=torch.Generator().manual_seed(0))
    report = dl.compare(nearly_still, dl.Identity(), x=x, depths=[4, 8, 16], paths=200, dtype="float32")
    assert report.verdict == verdict, str(report)
