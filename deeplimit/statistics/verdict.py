"""How every measurement reaches a verdict: the first of an ordered list of small named rules that holds.

A function gathers its evidence in a frozen record and lists its rules, each beside the code that it leads to.
A rule is a predicate on the evidence. The sentences are elsewhere, in one file per report (`wording.py`), by
the names of the rules: nothing here depends on how a verdict is phrased.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, final

Code = TypeVar("Code", bound=str)
Evidence = TypeVar("Evidence")
Rule = Callable[[Evidence], bool]
Rules = Sequence[tuple[Code, Rule[Evidence]]]
"""Pairs (code, rule), the first that holds decides; the code is a member of a `Verdict`, or a text."""
Sentences = Mapping[str, Callable[[Evidence], str]]
"""What a rule says where it holds, by its name."""


@final
@dataclass(frozen=True)
class Judgement(Generic[Code]):
    """A verdict as data: its code, the name of the rule that held, and the evidence it rests on."""

    code: Code
    rule: str
    evidence: Any = field(compare=False, repr=False)


def first(rules: Rules[Code, Evidence], evidence: Evidence) -> Judgement[Code] | None:
    """Return the judgement of the first rule that holds; None where none does.

    Examples:
        >>> def is_negative(x): return x < 0
        >>> def is_anything(x): return True
        >>> first([("no", is_negative)], 1.0)
        >>> first([("no", is_negative), ("yes", is_anything)], 1.0)
        Judgement(code='yes', rule='is_anything')
    """
    return next((Judgement(code, rule.__name__, evidence) for code, rule in rules if rule(evidence)), None)


def judge(rules: Rules[Code, Evidence], evidence: Evidence) -> Judgement[Code]:
    """Return the judgement of the first rule that holds; raise LookupError where none does.

    A complete list ends with a rule that always holds.
    """
    found = first(rules, evidence)
    if found is None:
        names = ", ".join(rule.__name__ for _, rule in rules)
        raise LookupError(f"no rule holds for {evidence!r}; the last of {names} must hold for any evidence.")
    return found


def said(judgement: Judgement[Any], sentences: Sentences[Any]) -> str:
    """Return the reason of a judgement in a sentence.

    Examples:
        >>> said(Judgement("no", "is_negative", -1.0), {"is_negative": lambda x: f"{x:g} is below 0"})
        '-1 is below 0'
    """
    return sentences[judgement.rule](judgement.evidence)


def all_said(
    rules: Sequence[Rule[Evidence]], evidence: Evidence, sentences: Sentences[Evidence]
) -> list[str]:
    """Return the sentences of every rule that holds, in order: the reservations of a report."""
    return [sentences[rule.__name__](evidence) for rule in rules if rule(evidence)]
