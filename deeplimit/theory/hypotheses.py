"""Assumptions of statements, held against one network: each holds, fails, or is not known.

A row lists its assumptions. One that fails forbids the row; those that are not known are said wherever the
row is named, and a measurement that contradicts the row names them before it blames the limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class Truth(StrEnum):
    """What is known of an assumption."""

    HOLDS = "holds"
    FAILS = "fails"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Hypothesis:
    """One assumption of a statement, held against one network.

    `Hypothesis.holds`, `Hypothesis.fails` and `Hypothesis.unknown` make one.

    Attributes:
        name: What is assumed, in a few words, the same for every network.
        truth: Whether it holds, fails, or is not known.
        why: What was found, or what would have to be known, as a sentence.

    Examples:
        >>> import deeplimit as dl
        >>> dl.Hypothesis.fails("width at least 9", "the width is 4.").truth.value
        'fails'
    """

    name: str
    truth: Truth
    why: str

    @classmethod
    def holds(cls, name: str, why: str) -> Self:
        """Return an assumption that was checked, and holds."""
        return cls(name, Truth.HOLDS, why)

    @classmethod
    def fails(cls, name: str, why: str) -> Self:
        """Return an assumption that was checked, and does not hold."""
        return cls(name, Truth.FAILS, why)

    @classmethod
    def unknown(cls, name: str, why: str) -> Self:
        """Return an assumption that nobody has stated or checked."""
        return cls(name, Truth.UNKNOWN, why)


def failing(hypotheses: tuple[Hypothesis, ...]) -> tuple[Hypothesis, ...]:
    """Return those that fail."""
    return tuple(each for each in hypotheses if each.truth is Truth.FAILS)
