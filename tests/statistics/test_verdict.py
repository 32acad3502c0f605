"""The machinery of every verdict: the first rule that holds decides; every rule has one sentence."""

import pytest
from listed_rules import rule_names

from deeplimit.common.verdict import Judgement, all_said, first, judge, said
from deeplimit.judge.convergence import verdict, wording as of_compare
from deeplimit.judge.in_law import verdict as of_laws, wording as of_compare_laws
from deeplimit.modules.depth_check import stream_meaning, wording as of_depth_check
from deeplimit.signal import growth_verdict, wording as of_stability
from deeplimit.trained.diagnosis import correlations, hypotheses, one_network, wording as of_diagnosis


def incomplete(number):
    yield "no", "is_negative", number < 0
    yield "perhaps", "is_even", number % 2 == 0


def rules(number):
    yield from incomplete(number)
    yield "yes", "is_a_number", True


SENTENCES = {
    "is_negative": lambda number: f"{number} is below 0",
    "is_even": lambda number: f"{number} is even",
    "is_a_number": lambda number: f"{number} is a number",
}


@pytest.mark.parametrize(
    ("number", "code", "rule"),
    [(-2, "no", "is_negative"), (2, "perhaps", "is_even"), (3, "yes", "is_a_number")],
)
def test_the_first_rule_that_holds_decides_and_is_named(number, code, rule):
    found = judge(rules, number)
    assert (found.code, found.rule, found.evidence) == (code, rule, number)
    assert said(found, SENTENCES) == SENTENCES[rule](number)
    assert first(rules, number) == found


def test_where_no_rule_holds_there_is_no_judgement_and_a_complete_list_must_have_one():
    assert first(incomplete, 3) is None
    with pytest.raises(LookupError, match="is_negative, is_even"):
        judge(incomplete, 3)


def test_later_rules_are_not_asked():
    def more(number):
        yield from rules(number)
        raise AssertionError

    assert judge(more, 1) == Judgement("yes", "is_a_number", 1)


def test_reservations_are_all_that_hold_in_order():
    found = [("is_even", True), ("is_a_number", True), ("is_negative", False)]
    assert all_said(found, 2, SENTENCES) == ["2 is even", "2 is a number"]
    assert all_said(found[2:], 2, SENTENCES) == []


@pytest.mark.parametrize(
    ("rules", "sentences"),
    [
        (verdict.failed_preconditions, of_compare.BEFORE_THE_FIT),
        (verdict.rules, of_compare.OF_THE_FIT),
        (verdict.caveats, of_compare.OF_THE_NUMBERS),
        (of_laws.rules, of_compare_laws.SENTENCES),
        (growth_verdict.failed_preconditions, of_stability.BEFORE_THE_FIT),
        (growth_verdict.rules, of_stability.OF_THE_FIT),
        (stream_meaning.meanings, of_depth_check.OF_A_STREAM),
        (correlations.rules, of_diagnosis.OF_CORRELATIONS),
        (one_network.rules, of_diagnosis.OF_ONE_NETWORK),
        (hypotheses.rules, of_diagnosis.OF_ONE_WEIGHT),
    ],
)
def test_every_rule_has_its_sentence_and_every_sentence_its_rule_in_the_same_order(rules, sentences):
    assert rule_names(rules) == [*sentences]


@pytest.mark.parametrize(
    "parts",
    [
        (of_compare.BEFORE_THE_FIT, of_compare.OF_THE_FIT),
        (of_stability.BEFORE_THE_FIT, of_stability.OF_THE_FIT),
        (
            of_diagnosis.OF_CORRELATIONS,
            of_diagnosis.OF_ONE_NETWORK,
            of_diagnosis.OF_ONE_WEIGHT,
            of_diagnosis.OF_ALL_WEIGHTS,
        ),
    ],
)
def test_no_two_rules_of_one_report_have_the_same_name(parts):
    names = [name for part in parts for name in part]
    assert len(names) == len(set(names))
