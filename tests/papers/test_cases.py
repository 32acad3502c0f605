"""Known cases keep their promises: names, equations, orders; right limits are reached, wrong ones not."""

import dataclasses
import re
from collections import Counter

import pytest
from matplotlib.mathtext import MathTextParser

import deeplimit as dl
from deeplimit import zoo
from deeplimit.equations import ItoCorrectedSDE
from deeplimit.papers.cases import cases, law_cases, pairs, validated
from deeplimit.theory import gradients_of

CASES = cases()
LAWS = law_cases()
WITH_A_LIMIT = [case for case in CASES if case.rate is not None]
WITHOUT = [case for case in CASES if case.rate is None]
# Measured here; the others by `make nightly`, and one wrong limit of each case by `make validate`.
FEW = re.compile(
    "Prop. 11: res-1, (Gaussian|sin)|spiral|Prop. 12: res1|Thm 4.3: linear|second-order|rows and columns: |"
    "covary|random factors|β = 1.5, one|one δ per|RMS|res1, tanh, d = 1, H = 0.7|"
    "gradients: (Prop. 11|Thm 4.4)|Fedorov et al.: n = 2|V = I, n = 8|β = 0.45: |res-2, ReLU"
)


def twins(found):
    """Every case with every wrong limit of it."""
    named = {f"{case.name}: {twin.wrongly}": (case, twin) for case in found for twin in case.wrong}
    return [
        pytest.param(*pair, id=name, marks=() if FEW.search(name) else pytest.mark.nightly)
        for name, pair in named.items()
    ]


DEPTHS = [16, 32, 64, 128, 256, 512]
by_name = {"ids": lambda case: case.name}


def balanced(equation):
    """LaTeX that a parser reads, with braces and delimiters in pairs."""
    MathTextParser("path").parse(f"${equation}$")
    assert equation.count(r"\left") == equation.count(r"\right")
    assert equation.count("(") == equation.count(")")
    assert "|" not in equation.replace(r"\|", ""), "a bare | would end a cell of the page's table"
    return equation.strip()


def test_no_two_cases_and_no_two_twins_of_a_case_have_one_name():
    assert max(Counter(case.name for case in (*CASES, *LAWS)).values()) == 1
    for case in (*CASES, *LAWS):
        assert len({twin.wrongly for twin in case.wrong}) == len(case.wrong), case.name


@pytest.mark.parametrize("case", [*CASES, *LAWS], **by_name)
def test_every_case_says_what_is_claimed_by_whom_and_what_is_wrong(case):
    assert balanced(case.equation)
    assert case.statement
    assert case.setting
    assert case.source
    assert case.wrong
    for twin in case.wrong:
        assert balanced(twin.equation)
        assert twin.wrongly


@pytest.mark.parametrize("case", WITH_A_LIMIT, **by_name)
def test_the_order_written_in_the_list_is_the_one_that_theory_gives(case):
    regime = gradients_of(case.network) if case.quantity == "gradient" else case.network.regime()
    assert regime.rate == pytest.approx(case.rate)
    assert regime.theorem is not None


@pytest.mark.parametrize("case", WITHOUT, **by_name)
def test_a_network_without_a_limit_is_given_none(case):
    with pytest.raises(dl.NoTheoremError):
        case.limit  # noqa: B018 - the property is what is asked
    assert [pair.rate for pair in case.pairs()] == [None] * len(case.wrong)


@pytest.mark.parametrize("case", WITH_A_LIMIT, **by_name)
def test_every_wrong_limit_is_another_one_than_the_right_one(case):
    for twin in case.wrong:
        assert twin.limit != case.limit
        assert twin.equation != case.equation or isinstance(twin.limit, dl.Independent)
        if isinstance(twin.limit, ItoCorrectedSDE):
            assert twin.limit.noise is case.limit.noise, "a wrong limit is driven by the network's own noise"


@pytest.mark.parametrize(("case", "twin"), twins(CASES))
def test_the_network_stays_away_from_every_wrong_limit(case, twin):
    """At few depths, on few paths: the right limit comes nearer, the wrong one stays where it is."""
    given = {"depths": [4, 8, 32], "paths": 32, "seed": 5, "quantity": case.quantity}
    wrong = dl.compare(case.network, twin.limit, case.x, **given).errors
    if case.rate is None:
        assert wrong[-1] > wrong[0]
    else:
        right = dl.compare(case.network, case.right, case.x, **given).errors
        assert right[-1] < wrong[-1]
        assert right[-1] / right[0] < wrong[-1] / wrong[0]


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(pair, id=pair.name, marks=() if "spiral" in pair.name else pytest.mark.nightly)
        for pair in pairs()
    ],
)
def test_every_pair_of_the_zoo_gets_the_verdict_that_it_must(pair, device):
    report = dl.compare(pair.network, pair.limit, depths=DEPTHS, paths=1000, seed=2, device=device)
    assert report.verdict == pair.verdict, str(report)
    if pair.rate is not None:
        assert report.predicted_rate == pytest.approx(pair.rate)
        assert report.rate_interval[0] < pair.rate < report.rate_interval[1], str(report)


@pytest.mark.nightly
@pytest.mark.parametrize("case", WITHOUT, **by_name)
def test_a_network_without_a_limit_does_not_converge_to_the_expected_one(case):
    report = dl.compare(case.network, case.wrong[0].limit, depths=DEPTHS[:5], paths=300, seed=2)
    assert report.verdict == "does not converge", str(report)
    assert report.errors[-1] > 1.5 * report.errors[0]


def test_the_zoo_shows_each_way_of_being_wrong_once():
    shown = zoo.pairs()
    assert len({pair.name for pair in shown}) == len(shown)
    assert {pair.verdict for pair in shown} == {"converges", "does not converge"}
    assert {pair.network.width for pair in zoo.pairs(width=6)} == {2, 6}
    short = [case for case in CASES if case.short]
    assert {pair.name for pair in shown if pair.rate is not None} == {case.short for case in short}
    assert {pair.name for pair in shown if pair.rate is None} == {t.wrongly for c in short for t in c.wrong}


def test_the_scoreboard_is_made_of_cases_with_a_limit():
    paired = [case for case in validated() if not case.in_law]
    assert {case.name for case in validated()} <= {case.name for case in (*CASES, *LAWS)}
    assert len(paired) == 55
    assert all(case.rate is not None for case in paired)
    assert {case.name for case in validated() if case.in_law} == {case.name for case in LAWS if case.paths}
    assert len(validated()) == 60


def test_theory_gives_the_limits_in_law_and_says_nothing_of_modules():
    for case in LAWS:
        if case.right is None:
            assert case.network.limit().is_drawable
            assert case.network.regime().name == "sde"
        else:
            with pytest.raises(dl.NoTheoremError):
                case.network.limit()


def law_report(case, limit, seed=2):
    """Blocks of modules are built one by one, so that they get fewer draws and layers than matrices."""
    small = {"draws": 1000, "depths": [4, 8, 16]}
    size = {"draws": 16384, "depths": [8, 16, 32, 64, 128]} if case.right is None else small
    return dl.compare_laws(case.network, limit, case.x, seed=seed, **size)


@pytest.mark.nightly
@pytest.mark.parametrize("case", LAWS, **by_name)
def test_the_law_of_every_case_is_its_limits(case):
    report = law_report(case, case.right)
    assert report.verdict == ("same law" if case.right is None else "cannot tell"), str(report)
    assert (report.theorem is None) == (case.statement.startswith(("res-3", "isotropic", "modules")))


@pytest.mark.parametrize(("case", "twin"), twins(LAWS))
def test_the_law_of_no_wrong_limit_is_taken_for_the_networks(case, twin):
    report = law_report(case, twin.limit)
    assert report.verdict == "another law", str(report)
    assert report.theorem is None


def test_a_right_limit_given_by_hand_takes_the_place_of_the_networks():
    case = CASES[0]
    assert dataclasses.replace(case, right="mine").limit == "mine"
    assert case.limit == case.network.limit()
