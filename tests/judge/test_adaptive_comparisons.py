"""`compare` with depths="auto" and paths="auto": verdicts, levels, blocks, stores, the same bits again."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from listed_rules import undecided_rules

import deeplimit as dl
from deeplimit import zoo
from deeplimit.judge.convergence import comparison, verdict
from deeplimit.judge.convergence.comparison import ASKS
from deeplimit.statistics import adaptive_sampling
from deeplimit.statistics.adaptive_sampling import Asks, share

AUTO = {"depths": "auto", "paths": "auto"}
NARROW = dl.inner(2, "tanh", noise=dl.Ito(A=0.5))  # its distance to the scheme bends at default depths
LONG = 3600.0


@pytest.fixture
def few_looks(monkeypatch):
    """Calls that cannot tell end by their number of looks, not by how fast the machine is."""
    monkeypatch.setattr(adaptive_sampling, "MOST_ANALYSES", 3)


def test_every_rule_that_cannot_tell_says_what_it_asks_for():
    assert undecided_rules(verdict.failed_preconditions, verdict.rules) == set(ASKS)


def test_error_rates_are_shared_and_a_posterior_probability_is_not():
    levels, half = verdict.Levels(), verdict.Levels().shared(0.5)
    assert (half.certain, half.usual) == (1 - 0.5 * (1 - levels.certain), 1 - 0.5 * (1 - levels.usual))
    assert half.doubtful == levels.doubtful
    assert sum(1 - levels.shared(share(look)).certain for look in range(6)) == pytest.approx(0.001)


def test_every_look_spends_its_share_on_the_interval_and_on_the_verdict(few_looks, monkeypatch):
    assess, given = comparison.assess, []
    monkeypatch.setattr(comparison, "assess", lambda *values: given.append(values) or assess(*values))
    report = dl.compare(dl.res1(1, "identity"), depths=[8, 16, 32], paths="auto", budget=LONG)
    assert len(report.looks) > 1
    usual = verdict.Levels()
    for look, (_, _, confidence, _, levels) in enumerate(given):
        assert 1 - confidence == pytest.approx(share(look) * 0.05)
        assert 1 - levels.certain == pytest.approx(share(look) * (1 - usual.certain))


@pytest.fixture(scope="module")
def narrow():
    return dl.compare(NARROW, **AUTO, seed=1)


def test_a_call_that_a_default_leaves_open_is_decided(narrow):
    fixed = dl.compare(NARROW, depths=(16, 32, 64, 128, 256), paths=512, seed=1)
    assert (fixed.verdict, fixed.looks) == ("cannot tell", ())
    assert narrow.verdict == "converges"
    assert narrow.looks[0].depths == (16, 32, 64, 128, 256)
    assert [look.verdict for look in narrow.looks[:-1]] == ["cannot tell"] * (len(narrow.looks) - 1)
    assert narrow.needs is None


def test_the_last_look_is_the_fixed_call_of_its_size_bit_for_bit(narrow):
    last = narrow.looks[-1]
    assert (tuple(narrow.depths.tolist()), narrow.paths) == (last.depths, last.paths)
    assert narrow.confidence == last.confidence == 1 - 0.05 * share(len(narrow.looks) - 1)
    fixed = dl.compare(NARROW, depths=last.depths, paths=last.paths, seed=1, confidence=last.confidence)
    assert narrow.rate_interval == fixed.rate_interval == last.interval
    for field in dataclasses.fields(fixed):
        if isinstance(getattr(fixed, field.name), np.ndarray):
            assert np.array_equal(getattr(narrow, field.name), getattr(fixed, field.name), equal_nan=True)


def test_looks_in_different_passes_share_no_blocks():
    """Few paths of a wide network go through torch, many through numba; their last bits differ."""
    network, how = dl.res1(16, "tanh"), {"depths": [8, 16, 32], "seed": 1}
    report = dl.compare(network, **how, paths="auto", norm="final", p=4)
    fixed = dl.compare(network, **how, paths=report.paths, norm="final", p=4)
    assert np.array_equal(report.errors, fixed.errors)


@pytest.mark.nightly
def test_what_is_fixed_stays(few_looks):
    report = dl.compare(NARROW, depths=[8, 16, 32, 64], paths="auto", budget=LONG)
    assert {look.depths for look in report.looks} == {(8, 16, 32, 64)}
    assert report.paths > 512
    report = dl.compare(NARROW, depths="auto", paths=40, budget=LONG)
    assert {look.paths for look in report.looks} == {40}
    assert report.depths[-1] > 256


def test_cannot_tell_names_a_larger_size_and_its_time():
    report = dl.compare(dl.res1(4, "tanh"), depths=[8, 16], paths="auto", budget=LONG)
    assert (report.verdict, report.rule, len(report.looks)) == ("cannot tell", "has_two_depths", 1)
    assert report.needs.depths[-1] > 16
    assert 0 < report.needs.seconds < 3600
    assert f"{report.needs.paths} paths may decide" in str(report)
    assert "needed" in str(report)
    assert "needed" not in str(dataclasses.replace(report, verdict="converges"))
    assert json.loads(json.dumps(report.to_dict()))["needs"]["paths"] == report.needs.paths


def test_a_network_whose_content_cannot_be_told_shares_blocks_in_memory(few_looks):
    slope = torch.tensor(0.5)
    network = dl.res1(1, lambda h: torch.relu(slope * h))
    report = dl.compare(network, depths=[8, 16, 32], paths="auto", budget=LONG)
    assert len(report.looks) > 1


def test_a_grid_for_given_depths_is_refused():
    with pytest.raises(ValueError, match=r"^reference=2048"):
        dl.compare(dl.res1(2), reference=2048, **AUTO)


def test_a_plain_call_is_adaptive_and_starts_with_the_fixed_size_bit_for_bit():
    """Without a budget nothing is timed first: no number depends on the machine before the verdict stands."""
    network, fixed = dl.res1(3, "tanh"), {"depths": (16, 32, 64, 128, 256), "paths": 512}
    plain = dl.compare(network, seed=4)
    assert [(look.depths, look.paths) for look in plain.looks] == [tuple(fixed.values())]
    assert plain.confidence == 0.975
    again = dl.compare(network, seed=4, confidence=0.975, **fixed)
    assert (plain.rate_interval, again.looks) == (again.rate_interval, ())
    assert np.array_equal(plain.errors, again.errors)
    assert plain.rate_interval != dl.compare(network, seed=4, **fixed).rate_interval


@pytest.mark.parametrize("fixed", [{"depths": (16, 32, 64, 128, 256)}, {"paths": 512}])
def test_what_is_left_out_is_chosen_although_the_other_is_given(fixed):
    report = dl.compare(NARROW, seed=1, **fixed)
    assert len(report.looks) > 1
    for look in report.looks:
        assert {"depths": look.depths, "paths": look.paths}.items() >= fixed.items()
    assert len({(look.depths, look.paths) for look in report.looks}) == len(report.looks)


def test_only_a_given_budget_makes_the_first_look_smaller():
    network = dl.inner(8, "tanh", noise=dl.Ito(A=0.125))
    assert dl.compare(network, seed=1, depths=[16, 32, 64, 128, 256]).looks[0].paths == 512
    assert dl.compare(network, seed=1, budget=0.05).looks[0].paths < 512


@pytest.mark.parametrize("rule", [rule for rule, asks in ASKS.items() if asks is not Asks.NOTHING])
def test_inputs_that_were_all_seen_are_not_asked_for_again(rule, narrow):
    """Random networks, and inputs of which some are left, are the control: more paths are asked for."""
    report = dataclasses.replace(narrow, verdict="cannot tell", rule=rule)
    usual, some_left, all_seen = (
        comparison.Comparing(None, 0.95, distinct).request(report).order
        for distinct in (None, report.paths + 1, report.paths)
    )
    assert usual == some_left != ()
    assert Asks.COUNT not in all_seen
    assert (all_seen == ()) == (usual == (Asks.COUNT,))


@pytest.mark.parametrize(
    ("network", "given", "distinct"),
    [
        (dl.inner(2, "tanh", trend=dl.Trend(lambda t: torch.eye(2))), True, 2),
        (dl.inner(2, "tanh", trend=dl.Trend(lambda t: torch.eye(2))), False, None),
        (dl.res1(2, "tanh"), True, None),
    ],
)
def test_only_given_inputs_of_a_network_without_noise_repeat(network, given, distinct, monkeypatch):
    studies = []
    carry_out = comparison.carry_out
    monkeypatch.setattr(comparison, "carry_out", lambda *v: studies.append(v[0]) or carry_out(*v))
    inputs = torch.eye(2) if given else None
    dl.compare(network, x=inputs, depths=[4, 8, 16], paths=64)
    assert [study.distinct for study in studies] == [distinct]


LOST = dl.inner(8, "scaled_gelu", noise=dl.Ito(A=1 / 8))
"""Its solution explodes: with seed 58, 35 of 512 paths are lost at every depth, and the coarsest differences
follow no power law."""


def test_medians_are_taken_of_lost_paths_whatever_the_coarsest_depths_do():
    report = dl.compare(LOST, seed=58, depths=[16, 32, 64, 128, 256], paths=512)
    assert (report.average, report.diverged.tolist()) == ("median", [35] * 5)
    assert report.rule in ASKS
    assert report.rule != "some_paths_diverge"


@pytest.mark.parametrize("right", [pytest.param(True, marks=pytest.mark.nightly), False])
def test_lost_paths_are_judged_by_medians_where_coarse_depths_follow_no_law(right):
    limit = (
        LOST.limit() if right else zoo.with_other_quadratic(LOST.limit(), lambda rate, h: torch.zeros_like(h))
    )
    report = dl.compare(LOST, limit, seed=58)
    assert report.average == "median"
    assert report.verdict == ("converges" if right else "does not converge")


@pytest.mark.parametrize(
    ("interval", "bound", "found"),
    [
        ((0.4, 0.48), False, True),
        ((0.45, 0.55), False, False),
        ((0.6, 0.7), False, True),
        ((0.6, 0.7), True, False),
    ],
)
def test_an_order_that_is_not_the_theorems_asks_for_depth(interval, bound, found):
    report = dl.compare(dl.res1(2, "tanh"), depths=(8, 16, 32), paths=64)
    report = dataclasses.replace(
        report, verdict="converges", rate_interval=interval, predicted_rate=0.5, predicted_is_bound=bound
    )
    assert comparison.contradicts(report) is found
    asked = comparison.Comparing(None, 0.95).request(report)
    assert (asked is not None) is found
    assert not comparison.contradicts(dataclasses.replace(report, predicted_rate=None))


def slow(drift):
    """res-1 of AR(1) layers, ρ = .8, d = 5: errors are still 1.7 at depth 256, where the limit moves by 3."""
    correlation, noise = 0.8, 3 / 5**0.5

    def diffusion(t, h, dB):
        return noise * torch.einsum("pij,pj->pi", dB.reshape(-1, 5, 5), torch.tanh(h))

    return dl.SDE(
        lambda t, h: drift * correlation * (1 - torch.tanh(h) ** 2) * torch.tanh(h),
        diffusion,
        noise="general",
        brownian=(5, 5),
    )


@pytest.mark.parametrize("drift", [0.0, -1.0])
def test_errors_as_large_as_the_limits_movement_let_no_other_limit_pass(drift):
    network, fixed = dl.res1(5, "tanh", weights=dl.AR1(0.8)), {"depths": (16, 32, 64, 128, 256), "paths": 512}
    assert dl.compare(network, **fixed).verdict == "converges"
    wrong = dl.compare(network, slow(drift), **fixed)
    assert (wrong.verdict, wrong.rule) == ("cannot tell", "may_remain")


@pytest.mark.parametrize(
    ("altered", "asks"),
    [
        ({}, Asks.DEPTH),
        ({"floor_upper": 0.02}, None),
        ({"predicted_rate": 0.5, "rate_interval": (0.45, 0.55)}, None),
        ({"depths": np.array([64, 128, 256, 512, 1024])}, None),
    ],
)
def test_a_limit_of_no_theorem_has_to_leave_no_room_for_another_one(altered, asks):
    """Without the drift of coloured weights of width 16 three of three comparisons converged at depth 256."""
    report = dl.compare(dl.res1(2, "tanh"), depths=[16, 32, 64], paths=16)
    plain = {
        "verdict": "converges",
        "predicted_rate": None,
        "rate": 0.5,
        "depths": np.array([16, 32, 64, 128, 256]),
        "floor_upper": 0.12,
    }
    made = {**plain, **altered}
    errors = made["depths"].astype(float) ** -0.5
    found = dataclasses.replace(report, errors=errors, **made)
    request = comparison.Comparing(None, 0.95).request(found)
    assert (None if request is None else request.order[0]) == asks


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("factor", "verdicts"), [(1.0, {"converges"}), (0.0, {"cannot tell", "does not converge"})]
)
def test_coloured_weights_need_their_drift(factor, verdicts):
    network = dl.res1(12, "tanh", weights=dl.AR1(0.5))
    right = network.limit()
    limit = dl.ColouredSDE(network.recursion.activation, right.response, factor * right.memory, 12)
    assert dl.compare(network, limit).verdict in verdicts
