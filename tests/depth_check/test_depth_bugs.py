"""Right networks pass, planted faults are caught and named, exponents have the coverage they claim."""

import math
import re
from functools import partial

import pytest
from depth_case import DEPTHS
from depth_cases import CASES, RIGHT
from depth_image_models import images, mixer, vit
from depth_models import gpt, nano_gpt, tokens
from scipy import stats

import deeplimit as dl
from deeplimit.depth_check.runs import Depths

WRONG = [case for case in CASES if not case.ok]
NUMBERED = [
    case for case in CASES if case.number not in (None, case.expected) and case.seen_by_number is not None
]
# Exponents need fewer depths than factors "at the largest depth"; these are cheaper.
FEWER = DEPTHS[:3]
LEVEL = 1e-5  # how often a test about rates may fail though the rate is what it should be


MEASURED = {}


@pytest.fixture(autouse=True)
def modules_are_measured_once(monkeypatch):
    """What is measured at one depth depends on the module and the seed alone: two rules judge it by turns."""
    measure = Depths._measured

    def once(depths, depth):
        key = depths.factory, depth, depths.seed
        if key not in MEASURED:
            MEASURED[key] = measure(depths, depth)
        return MEASURED[key]

    monkeypatch.setattr(Depths, "_measured", once)


def names(case):
    return case.name


def plain(parameter):
    """A parameter's name with the stages of a ResNet taken together."""
    return re.sub(r"layer\d", "layer*", parameter)


def check(case, expected, seed=0, depths=DEPTHS):
    return dl.check_depth(case.factory, depths, batch=case.batch(seed), expected=expected, seed=seed)


def allowed(rate, trials):
    """How many of so many trials may go wrong at this rate, but for one time in 1 / LEVEL."""
    return int(stats.binom.isf(LEVEL, trials, rate))


def test_the_cases_are_told_apart_by_name():
    assert len({case.name for case in CASES}) == len(CASES)
    assert len(RIGHT) >= 30
    assert len(WRONG) >= 100


@pytest.mark.parametrize("case", RIGHT, ids=names)
@pytest.mark.usefixtures("one_thread")
def test_a_right_network_passes(case):
    report = check(case, case.expected)
    assert report.ok, report
    assert report.verdict == "as expected"
    assert not report.findings
    for branch in report.branches:
        if case.exponent == math.inf:
            assert branch.exponent is None
            assert branch.meaning.startswith("identity")
        else:
            assert branch.exponent == pytest.approx(case.exponent, abs=report.tolerance)


@pytest.mark.parametrize("case", WRONG, ids=names)
@pytest.mark.usefixtures("one_thread")
def test_a_fault_is_caught_and_its_parameter_named(case):
    report = check(case, case.expected)
    assert report.verdict == "not as expected", report
    assert not report.ok
    kinds = {branch.kind for branch in report.branches}
    for fault in case.faults:
        found = [
            item
            for item in report.findings
            if not fault.parameter or plain(item.parameter) == plain(fault.parameter)
        ]
        assert found, f"{fault.parameter} is not named in\n{report}"
        if fault.factor is not None:
            assert [item.factor for item in found] == pytest.approx([fault.factor] * len(found), rel=0.15)
    blamed = {plain(fault.parameter) for fault in case.faults}
    innocent = [item for item in report.findings if plain(item.parameter) not in blamed]
    assert "" in blamed or not innocent, report
    for item in report.findings:
        assert item.branch in kinds
        assert item.parameter in str(report)
        assert item.message.endswith(".")
        assert "nan" not in item.message
        assert len(item.message) < 400


@pytest.mark.parametrize("case", NUMBERED, ids=names)
@pytest.mark.usefixtures("one_thread")
def test_an_exponent_sees_what_depends_on_depth_and_nothing_else(case):
    report = check(case, case.number, depths=FEWER)
    assert report.verdict == ("not as expected" if case.seen_by_number else "as expected"), report


def by_name(name):
    return next(case for case in CASES if case.name == name)


@pytest.mark.parametrize(
    "name", ["gpt 0.02: per block instead of per branch", "rezero: one branch forgotten"]
)
def test_the_assertion_says_what_is_wrong(name):
    case = by_name(name)
    with pytest.raises(AssertionError) as caught:
        dl.testing.assert_depth_scaling(case.factory, DEPTHS, expected=case.expected, batch=case.batch(0))
    assert str(caught.value).startswith("not as expected: ")
    assert all(fault.parameter in str(caught.value) for fault in case.faults)


def test_the_assertion_lets_a_right_network_pass():
    case = by_name("gpt 0.02")
    report = dl.testing.assert_depth_scaling(case.factory, DEPTHS, expected="gpt-2", batch=case.batch(0))
    assert report.verdict == "as expected"


RATED = [
    (partial(gpt, law="0.02"), tokens, "gpt-2", 0.5),
    (partial(gpt, law="default"), tokens, "gpt-2", 0.5),
    (partial(gpt, rule="completep", law="fan_in"), tokens, "completep", 1.0),
    (mixer, images, "gpt-2", 0.5),
    (vit, images, 0.5, 0.5),
    (partial(nano_gpt, dropout=0.0), tokens, "gpt-2", 0.5),
]


@pytest.mark.usefixtures("one_thread")
def test_alarms_are_rare_and_intervals_hold_the_truth():
    trials, alarms, misses, intervals = 0, [], 0, 0
    for seed in range(20):
        for factory, batch, expected, truth in RATED:
            report = dl.check_depth(factory, FEWER, batch=batch(seed), expected=expected, seed=seed)
            trials += 1
            alarms += [] if report.ok else [(seed, str(report))]
            held = [
                branch.exponent_interval[0] <= truth <= branch.exponent_interval[1]
                for branch in report.branches
            ]
            misses += not all(held)
            intervals += 1
            assert all(
                branch.exponent_interval[1] - branch.exponent_interval[0] < 0.4 for branch in report.branches
            )
    assert report.confidence == 0.99  # of all intervals of a report together
    assert len(alarms) <= allowed(0.01, trials), alarms
    assert misses <= allowed(0.01, intervals)


@pytest.mark.usefixtures("one_thread")
def test_every_seed_catches_the_subtlest_faults():
    """1.5 times too large, and the root of two: no exponent sees them, and no draw hides them."""
    subtle = [case for case in WRONG if "1.5 times" in case.name or "per block" in case.name]
    for seed in range(1, 5):
        for case in subtle:
            report = check(case, case.expected, seed=seed, depths=FEWER[:2])
            assert report.verdict == "not as expected", (seed, report)
