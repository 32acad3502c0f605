"""How every measurement reaches a verdict: the first of an ordered list of small named rules that holds.

A verb gathers its evidence in a frozen record and lists its rules, each beside the word that it leads to. A
rule is a function of the evidence; it returns the reason in a sentence, or None where it does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, final

Word = TypeVar("Word", bound=str)
Evidence = TypeVar("Evidence")
Rule = Callable[[Evidence], str | None]
Rules = Sequence[tuple[Word, Rule[Evidence]]]
"""Pairs (word, rule), the first that holds decides; the word is a `Verdict`, or a meaning in words."""


@final
@dataclass(frozen=True)
class Judgement(Generic[Word]):
    """A verdict: its word, the reason in a sentence, and the name of the rule that held."""

    word: Word
    reason: str
    rule: str


def first(rules: Rules[Word, Evidence], evidence: Evidence) -> Judgement[Word] | None:
    """Return the judgement of the first rule that holds; None where none does.

    Examples:
        >>> def is_negative(x): return "it is below 0" if x < 0 else None
        >>> def is_anything(x): return "it is not below 0"
        >>> first([("no", is_negative)], 1.0)
        >>> first([("no", is_negative), ("yes", is_anything)], 1.0)
        Judgement(word='yes', reason='it is not below 0', rule='is_anything')
    """
    for word, rule in rules:
        reason = rule(evidence)
        if reason is not None:
            return Judgement(word, reason, rule.__name__)
    return None


def judge(rules: Rules[Word, Evidence], evidence: Evidence) -> Judgement[Word]:
    """Return the judgement of the first rule that holds; raise LookupError where none does.

    A complete list ends with a rule that always holds.
    """
    found = first(rules, evidence)
    if found is None:
        names = ", ".join(rule.__name__ for _, rule in rules)
        raise LookupError(f"no rule holds for {evidence!r}; the last of {names} must hold for any evidence.")
    return found


def all_that_hold(rules: Sequence[Rule[Evidence]], evidence: Evidence) -> list[str]:
    """Return what every rule says that holds, in order: the reservations of a report."""
    return [text for rule in rules if (text := rule(evidence)) is not None]
