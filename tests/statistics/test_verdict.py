"""The machinery of every verdict: the first rule that holds decides, and is named."""

import pytest

from deeplimit.statistics.verdict import Judgement, all_that_hold, first, judge


def is_negative(number):
    return "it is below 0" if number < 0 else None


def is_even(number):
    return "it is even" if number % 2 == 0 else None


def is_a_number(number):
    return "it is a number"


RULES = (("no", is_negative), ("perhaps", is_even), ("yes", is_a_number))


@pytest.mark.parametrize(
    ("number", "word", "rule"),
    [(-2, "no", "is_negative"), (2, "perhaps", "is_even"), (3, "yes", "is_a_number")],
)
def test_the_first_rule_that_holds_decides_and_is_named(number, word, rule):
    found = judge(RULES, number)
    assert (found.word, found.rule) == (word, rule)
    assert found.reason == {"is_negative": is_negative, "is_even": is_even, "is_a_number": is_a_number}[rule](
        number
    )
    assert first(RULES, number) == found


def test_where_no_rule_holds_there_is_no_judgement_and_a_complete_list_must_have_one():
    assert first(RULES[:2], 3) is None
    with pytest.raises(LookupError, match="is_negative, is_even"):
        judge(RULES[:2], 3)


def test_later_rules_are_not_asked():
    def fails(number):
        raise AssertionError

    assert judge((*RULES, ("never", fails)), 1) == Judgement("yes", "it is a number", "is_a_number")


def test_reservations_are_all_that_hold_in_order():
    assert all_that_hold([is_even, is_a_number, is_negative], -2) == [
        "it is even",
        "it is a number",
        "it is below 0",
    ]
    assert all_that_hold([is_even, is_negative], 1) == []
