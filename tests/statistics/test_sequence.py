"""The sequence of analyses on stand-in measurements: what is raised, when it ends, what one may spend."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from analysing import BLOCK, Analysing, analysed
from hypothesis import given, strategies as st
from scipy.stats import binom, norm

from deeplimit.statistics.adaptive_sampling import (
    DEEPEST,
    MOST_ANALYSES,
    MOST_COUNT,
    MOST_TIMES,
    Asks,
    Costs,
    InterimAnalysis,
    SampleSizeRequest,
    Size,
    Work,
    _Sequence,
    analyses,
    next_sizes,
    share,
)

pytestmark = pytest.mark.statistical

PATHS, DEPTH, STANDS = SampleSizeRequest((Asks.COUNT,)), SampleSizeRequest((Asks.DEPTH,)), None
DEPTHS = (16, 32, 64, 128, 256)
sizes = st.builds(
    Size,
    st.lists(st.integers(1, DEEPEST), min_size=2, max_size=9, unique=True).map(sorted).map(tuple),
    st.integers(2, MOST_COUNT),
)
orders = st.permutations([Asks.COUNT, Asks.DEPTH]).flatmap(lambda both: st.sampled_from([both, both[:1], []]))
requests = st.builds(SampleSizeRequest, orders.map(tuple), st.floats(1.0, 1e6))


@given(sizes, requests, st.booleans(), st.booleans())
def test_a_next_size_is_larger_in_what_was_wished_for_and_free(size, request, deeper, more):
    for found in next_sizes(size, request, depth_is_free=deeper, count_is_free=more):
        grown = found.depths[-1] > size.depths[-1], found.count > size.count
        assert sum(grown) == 1
        assert grown == (grown[0] and deeper and Asks.DEPTH in request.order, grown[1] and more)
        assert (Asks.COUNT in request.order) or not grown[1]
        assert found.depths[-1] <= DEEPEST
        assert found.count <= min(MOST_COUNT, MOST_TIMES * size.count)
        assert [*found.depths] == sorted(set(found.depths))
        assert len(found.depths) <= max(6, len(size.depths))


@given(sizes, requests)
def test_what_is_wished_for_first_comes_first_and_large_steps_before_small(size, request):
    found = next_sizes(size, request, depth_is_free=True, count_is_free=True)
    kinds = [Asks.COUNT if each.count > size.count else Asks.DEPTH for each in found]
    assert [kind for kind, _ in itertools.groupby(kinds)] == [asks for asks in request.order if asks in kinds]
    for asks in request.order:
        grown = [
            (each.depths[-1], each.count) for each, kind in zip(found, kinds, strict=True) if kind is asks
        ]
        assert grown == sorted(grown, reverse=True)


EITHER = SampleSizeRequest((Asks.COUNT, Asks.DEPTH))


@pytest.mark.parametrize(
    ("requests", "deepest", "budget", "sizes"),
    [
        ((STANDS,), 2**30, 30.0, [(256, 512)]),
        ((SampleSizeRequest(()),), 2**30, 30.0, [(256, 512)]),  # nothing helps
        ((PATHS, DEPTH, STANDS), 2**30, 30.0, [(256, 512), (256, 2048), (1024, 2048)]),
        # of two wishes the one that was not raised last comes first
        ((EITHER, EITHER, EITHER, STANDS), 2**30, 1e3, [(256, 512), (256, 2048), (1024, 2048), (1024, 8192)]),
        # depth is bought with paths where both do not fit
        ((PATHS, DEPTH, STANDS), 2**30, 2.5, [(256, 512), (256, 2048), (1024, 512)]),
        # a size that cannot be measured is passed over
        ((SampleSizeRequest((Asks.DEPTH, Asks.COUNT)), STANDS), 256, 30.0, [(256, 512), (256, 2048)]),
        ((PATHS,), 2**30, 1.5, [(256, 512), (256, 2048)]),
        ((PATHS,), 2**30, 1.0, [(256, 512), (256, 1024)]),  # the budget cuts the last step
    ],
)
def test_what_the_evidence_asks_for_is_raised_look_by_look(requests, deepest, budget, sizes):
    report = analysed(Analysing(requests, deepest=deepest), budget=budget)
    assert [(look.depths[-1], look.paths) for look in report.looks] == sizes
    assert report.size == Size(report.looks[-1].depths, sizes[-1][1])
    assert (report.needs is None) == (requests[-1] in (STANDS, SampleSizeRequest(())))


def test_a_wish_for_what_is_fixed_ends_the_call_and_says_what_is_needed():
    report = analysed(Analysing((DEPTH,)), depths=(8, 16, 32))
    assert len(report.looks) == 1
    assert report.needs.depths[-1] == 128
    assert report.needs.seconds > 0


def test_no_more_looks_are_taken_than_share_the_level():
    report = analysed(Analysing((SampleSizeRequest((Asks.COUNT,), 2.0),)), budget=1e9)
    assert len(report.looks) == MOST_ANALYSES
    assert sum(share(number) for number in range(MOST_ANALYSES)) == 1.0
    assert [look.confidence for look in report.looks] == [
        1 - share(number) for number in range(MOST_ANALYSES)
    ]
    assert report.needs.paths == 512 * 2**MOST_ANALYSES


def test_more_paths_take_over_every_full_block_that_is_there():
    study = Analysing((PATHS, PATHS, STANDS))
    report = analysed(study)
    runs = {key: count for key, count in study.clock.blocks.items() if key[0] == DEPTHS and count > 1}
    assert runs == {}
    assert len(report.numbers) == 8192
    alone = study.measurement(report.size)
    assert np.array_equal(report.numbers, np.concatenate([alone.run(block) for block in range(alone.blocks)]))


COSTS = st.tuples(st.floats(0.0, 0.05), st.floats(0.0, 1e-4), st.floats(1e-9, 1e-4), st.floats(0.9, 1.05))


@given(COSTS, st.floats(0.1, 100.0), st.lists(st.sampled_from([PATHS, DEPTH]), min_size=6, max_size=6))
def test_a_budget_is_overrun_by_less_than_30_percent_or_by_the_first_run(parts, budget, wished):
    constant, step, path_step, power = parts

    def cost(depths, paths):
        return (constant + step * sum(depths) + path_step * sum(depths) * paths) ** power

    study = Analysing(tuple(wished), cost=cost)
    report = analysed(study, budget=budget)
    least = 2 * cost(DEPTHS[:3], 32)
    assert study.clock() <= max(1.3 * budget, least + budget / 20)
    assert report.seconds == pytest.approx(study.clock())


works = st.builds(Work, st.integers(1, 99), st.integers(1, 10**5), st.integers(1, 10**8))


@given(st.lists(works, min_size=1, max_size=6), works, st.lists(st.floats(0.0, 1.0), min_size=4, max_size=4))
def test_a_run_never_takes_longer_than_costs_that_are_sums_allow(runs, following, parts):
    def took(work):
        return parts[0] + parts[1] * work.blocks + parts[2] * work.steps + parts[3] * work.path_steps

    costs = Costs()
    assert costs.most(following) == float("inf")
    for run in runs:
        costs = costs.with_run(run, took(run))
    assert costs.most(following) >= took(following) * (1 - 1e-9)
    assert costs.with_run(Work(0, 0, 0), 5.0) == costs
    assert costs.most(Work(0, 0, 0)) == 0.0


def test_a_right_null_is_rejected_at_the_level_over_the_whole_sequence():
    """A mean of normals is tested at every analysis of a sequence that never stops wishing for more paths.

    At most `level` of the sequences may reject anywhere. Without shares they would reject too often.
    """
    level, counts = 0.05, [512]
    while len(counts) < MOST_ANALYSES:
        following = next_sizes(Size(DEPTHS, counts[-1]), PATHS, depth_is_free=True, count_is_free=True)
        counts.append(following[0].count)
    replications = 40_000
    steps = np.random.default_rng(1).normal(size=(replications, MOST_ANALYSES)) * np.sqrt(
        np.diff([0, *counts])
    )
    z = np.abs(steps.cumsum(axis=1)) / np.sqrt(counts)
    shared = np.array([norm.isf(share(number) * level / 2) for number in range(MOST_ANALYSES)])
    rejected = int((z > shared).any(axis=1).sum())
    assert rejected <= binom.isf(1e-5, replications, level)
    assert rejected >= binom.ppf(1e-5, replications, level / 2), "shares spend most of the level"
    unshared = int((z > norm.isf(level / 2)).any(axis=1).sum())
    assert unshared > binom.isf(1e-5, replications, level)


def test_a_posterior_probability_needs_no_share_of_its_level():
    """A floor is there: a mean of 0.02, against 0. Its posterior probability may ever fall to `doubtful`.

    Ville's inequality bounds how often it does, over all analyses together.
    """
    doubtful, prior, mean, replications = 0.05, 0.5, 0.02, 40_000
    counts = np.array([512 * 4**look for look in range(MOST_ANALYSES)])
    steps = np.diff([0, *counts])
    drawn = (
        np.random.default_rng(2).normal(size=(replications, MOST_ANALYSES)) * np.sqrt(steps) + mean * steps
    )
    log_ratio = mean * drawn.cumsum(axis=1) - counts * mean**2 / 2
    posterior = 1 / (1 + (1 - prior) / prior * np.exp(-log_ratio))
    missed = int((posterior <= doubtful).any(axis=1).sum())
    bound = (1 - prior) / prior * doubtful / (1 - doubtful)
    assert 0 < missed <= binom.isf(1e-5, replications, bound)


def test_progress_only_grows_and_ends_at_1():
    seen = []
    analysed(Analysing((PATHS, DEPTH, STANDS)), progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    assert seen[0] < 0.6


def test_a_call_that_was_killed_resumes_from_its_store(tmp_path):
    path, asked = tmp_path / "runs.sqlite", (PATHS, DEPTH, STANDS)
    whole = Analysing(asked)
    expected = analysed(whole)
    total = sum(whole.clock.blocks.values())
    killed = Analysing(asked, fails_after=total // 2)
    with pytest.raises(KeyboardInterrupt):
        analysed(killed, store=path)
    again = Analysing(asked)
    report = analysed(again, store=path)
    assert np.array_equal(report.numbers, expected.numbers)
    assert [(look.depths, look.paths) for look in report.looks] == [
        (look.depths, look.paths) for look in expected.looks
    ]
    judged = {
        key for key in again.clock.blocks if key[0] == DEPTHS and int(key[1].split(",")[0]) >= 512 // BLOCK
    }
    first = {key for key in killed.clock.blocks if key[0] == DEPTHS}
    assert not judged & first, "blocks in the store are not run again"


@pytest.mark.parametrize(("left", "end"), [(8.0, 0.4375), (2.0, 1.0), (1.0, 1.0), (0.0, 1.0)])
def test_the_bar_moves_by_the_share_of_the_time_left_and_to_its_end_without_any(left, end):
    """From a quarter on, two seconds of eight are a quarter of the other three quarters."""
    running = SimpleNamespace(share=lambda first, last: (first, last))
    sequence = SimpleNamespace(predicted=lambda size: 2.0, left=left, shown=0.25, running=running)
    assert _Sequence.moving(sequence, Size((16, 32), 8)) == (0.25, end)


def test_depths_next_to_each_other_go_on_one_by_one():
    assert Size((100, 101), 8).deeper(3).depths == (100, 101, 102, 103, 104)


def test_a_report_says_how_long_the_call_took_whatever_the_clock_said_before():
    study = Analysing((STANDS,))
    study.clock.now = 1000.0
    assert 0 < analysed(study).seconds == study.clock() - 1000.0


def test_a_verdict_that_an_analysis_went_on_from_is_said_to_be_confirmed():
    def made(*verdicts):
        return analyses([InterimAnalysis((2, 4), 8, each, "", (0.4, 0.6), 0.95, 1.0) for each in verdicts])

    ((_, one),) = made("converges")
    ((_, two),) = made("converges", "converges")
    ((_, unsure),) = made("cannot tell", "converges")
    assert [each.count("confirmed") for each in (one, two, unsure)] == [0, 1, 0]
