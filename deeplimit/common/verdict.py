"""The codes of every verdict, and the way to one: the first rule of an ordered list that holds.

A function gathers its evidence in a frozen record, and a generator goes through the rules: for each the code
that it leads to, its name, and whether it holds. The sentences are elsewhere, in one file per report
(`wording.py`), by the names of the rules: nothing here depends on how a verdict is phrased.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import EnumType, StrEnum
from typing import Any, Generic, Self, TypeVar, final

Code = TypeVar("Code", bound=str)
Evidence = TypeVar("Evidence")
RuleByRule = Iterator[tuple[Code, str, bool]]
"""Of each rule in order: its code, a member of a `Verdict` or a text, its name, and whether it holds."""
Rules = Callable[[Evidence], RuleByRule[Code]]
"""The rules of one question on their evidence; the first that holds decides, and later ones are not asked."""
Sentences = Mapping[str, Callable[[Evidence], str]]
"""What a rule says where it holds, by its name."""


@final
@dataclass(frozen=True)
class Judgement(Generic[Code]):
    """A verdict as data: its code, the name of the rule that held, and the evidence it rests on."""

    code: Code
    rule: str
    evidence: Any = field(compare=False, repr=False)


def first(rules: Rules[Evidence, Code], evidence: Evidence) -> Judgement[Code] | None:
    """Return the judgement of the first rule that holds; None where none does.

    Examples:
        >>> def rules(x):
        ...     yield "no", "is_negative", x < 0
        ...     yield "yes", "is_small", x < 10
        >>> first(rules, 1.0)
        Judgement(code='yes', rule='is_small')
        >>> first(rules, 11.0)
    """
    return next((Judgement(code, name, evidence) for code, name, holds in rules(evidence) if holds), None)


def judge(rules: Rules[Evidence, Code], evidence: Evidence) -> Judgement[Code]:
    """Return the judgement of the first rule that holds; raise LookupError where none does.

    A complete list ends with a rule that always holds.
    """
    if (found := first(rules, evidence)) is not None:
        return found
    names = ", ".join(name for _, name, _ in rules(evidence))
    raise LookupError(f"no rule holds for {evidence!r}; the last of {names} must hold for any evidence.")


def said(judgement: Judgement[Any], sentences: Sentences[Any]) -> str:
    """Return the reason of a judgement in a sentence.

    Examples:
        >>> said(Judgement("no", "is_negative", -1.0), {"is_negative": lambda x: f"{x:g} is below 0"})
        '-1 is below 0'
    """
    return sentences[judgement.rule](judgement.evidence)


def all_said(
    rules: Iterable[tuple[str, bool]], evidence: Evidence, sentences: Sentences[Evidence]
) -> list[str]:
    """Return the sentences of every rule that holds, in order: the reservations of a report."""
    return [sentences[name](evidence) for name, holds in rules if holds]


Member = TypeVar("Member")


class _EveryQuestion(EnumType):
    """Looks a code up among all questions where `Verdict` itself is asked, which has no members."""

    def __call__(cls, value: Any, *args: Any, **options: Any) -> Any:
        if cls._member_map_:
            return super().__call__(value, *args, **options)
        codes = {str(code): code for code in Verdict}
        if value not in codes:
            raise ValueError(f"{value!r} is not a verdict; one of {', '.join(codes)} is")
        return codes[value]

    def __getattr__(cls, name: str) -> Any:
        codes = {code.name: code for code in Verdict}
        if name not in codes:
            raise AttributeError(f"{cls.__name__} has no member {name!r}")
        return codes[name]

    def __iter__(cls: type[Member]) -> Iterator[Member]:
        yield from EnumType.__iter__(cls)
        for question in cls.__subclasses__():
            yield from EnumType.__iter__(question)


class Verdict(StrEnum, metaclass=_EveryQuestion):
    """The conclusion of a report, as a code; the report also gives the reason.

    Every question has a small enumeration of its own, such as `ConvergenceVerdict` for `compare`. `Verdict`
    is what they have in common, and finds the codes of all of them. Members are texts:
    `report.verdict == "converges"` and `f"{report.verdict}"` read as they would without the enumeration.

    Attributes:
        is_good: True for what was hoped for, False for its contrary, None where it is neither, or where
            nothing can be said. Colours follow it.

    Examples:
        >>> import deeplimit as dl
        >>> dl.Verdict.CONVERGES == "converges", dl.Verdict("same law").is_good
        (True, True)
    """

    is_good: bool | None

    def __new__(cls, text: str, is_good: bool | None) -> Self:
        member = str.__new__(cls, text)
        member._value_ = text
        member.is_good = is_good
        return member

    def __repr__(self) -> str:
        return repr(self.value)


class ConvergenceVerdict(Verdict):
    """Do a network's states converge to those of the limit, path by path?"""

    CONVERGES = "converges", True
    DOES_NOT_CONVERGE = "does not converge", False
    CANNOT_TELL = "cannot tell", None


class OrderVerdict(Verdict):
    """Do errors that somebody has fall like a power of the step?"""

    POWER_LAW = "power law", True
    LEVELS_OFF = "levels off", False
    CANNOT_TELL = "cannot tell", None


class ToleranceVerdict(Verdict):
    """Does the error of an adaptive solver follow the tolerance that it is given?"""

    FOLLOWS = "follows the tolerance", True
    LAGS = "lags behind the tolerance", None
    DOES_NOT_FOLLOW = "does not follow the tolerance", False
    CANNOT_TELL = "cannot tell", None


class SolverVerdict(Verdict):
    """Has a solver its documented order, and is what it tends to the equation's solution?"""

    DOCUMENTED_ORDER = "documented order", True
    FASTER = "faster than documented", None
    MEASURED = "measured", None  # no order is documented
    NOT_THE_DOCUMENTED_ORDER = "not the documented order", False
    NOT_THE_LIMIT = "not the limit", False
    CANNOT_TELL = "cannot tell", None


class LawVerdict(Verdict):
    """Does the law of a network's states converge to the limit's?"""

    SAME_LAW = "same law", True
    ANOTHER_LAW = "another law", False
    CANNOT_TELL = "cannot tell", None


class BlockLimitVerdict(Verdict):
    """Which limit has a stack of torch blocks as its depth goes to infinity?"""

    ISOTROPIC_SDE = "isotropic SDE", True
    NEURAL_SDE = "neural SDE", True
    NEURAL_ODE = "neural ODE", True
    IDENTITY = "identity", False
    EXPLOSION = "explosion", False
    NONE = "none", None  # measured, and none of these
    CANNOT_TELL = "cannot tell", None


class RecommendationVerdict(Verdict):
    """Does a module's initialisation need another scaling for a depth?"""

    RIGHT = "right as it is", True
    CHANGE = "change", False
    CANNOT_TELL = "cannot tell", None


class StabilityVerdict(Verdict):
    """What becomes of signal and gradient at initialisation as the depth grows?"""

    IDENTITY = "identity", False
    STABLE = "stable", True
    EXPLOSION = "explosion", False
    CANNOT_TELL = "cannot tell", None


class DepthVerdict(Verdict):
    """Does a module scale with depth as a rule asks, at its start or in training?"""

    AS_EXPECTED = "as expected", True
    NOT_AS_EXPECTED = "not as expected", False
    CANNOT_TELL = "cannot tell", None
    MEASURED = "measured", None  # no rule was asked for


class RegimeVerdict(Verdict):
    """Which limit do trained weights of several depths have?"""

    LINEAR_ODE = "linear-ode", True
    NEURAL_ODE = "neural-ode", True
    SDE = "sde", True
    SPARSE = "sparse", None
    NO_TREND = "no trend", None
    CANNOT_TELL = "cannot tell", None


class LayersVerdict(Verdict):
    """What are the layers of one trained network as a function of depth? No answer is hoped for."""

    COPIES = "copies", None
    INDEPENDENT = "independent", None
    COMMON_TREND = "common trend", None
    SMOOTH_TREND = "smooth trend", None
    ROUGH = "rough", None
    CANNOT_TELL = "cannot tell", None
    MEASURED = "measured", None  # objects of one network differ


class AgreementVerdict(Verdict):
    """Does a measurement agree with what a theorem states?"""

    AGREES = "agrees", True
    DISAGREES = "disagrees", False
    CANNOT_TELL = "cannot tell", None


class ControlVerdict(Verdict):
    """Was a limit that is wrong on purpose rejected?"""

    CAUGHT = "caught", True
    NOT_CAUGHT = "not caught", False


class ReproductionVerdict(Verdict):
    """Does a figure of a paper come out again?"""

    REPRODUCED = "reproduced", True
    NOT_REPRODUCED = "NOT reproduced", False
