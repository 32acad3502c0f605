"""The known cases: networks whose limit and order are known, each beside limits that are wrong in one way.

`validate`, the tests, the documentation and `deeplimit.zoo` all read this one list.
"""

from __future__ import annotations

from deeplimit.common.global_state import by_default
from deeplimit.papers.cases import (
    attention,
    fractional,
    fully_connected,
    gradients,
    in_law,
    independent,
    isotropic,
    noise_outside,
    prenorm,
    shaped,
    shrinking_weights,
    smooth,
)
from deeplimit.papers.cases.case import Case, LawCase, Pair, WrongTwin
from deeplimit.papers.cases.trends import WIDTH

__all__ = ["Case", "LawCase", "Pair", "WrongTwin", "case", "cases", "law_cases", "pairs", "validated"]


@by_default
def cases(width: int = WIDTH) -> tuple[Case, ...]:
    """Return every case, in the order of the statements.

    `width` is that of the cases whose width is free; the others have a width of their own.

    Examples:
        >>> from deeplimit.papers import cases
        >>> [case.name for case in cases.cases() if case.rate is None][0]
        '[M] Cor. 5: res-1, identity, d = 9, β = 0.45: explosion'
    """
    return (
        *independent.cases(width),
        *isotropic.cases(),
        *noise_outside.cases(),
        *smooth.cases(width),
        *fractional.cases(),
        *shrinking_weights.cases(),
        *fully_connected.cases(),
        *prenorm.cases(),
        *gradients.cases(),
        *attention.cases(),
    )


def case(name: str) -> Case:
    """Return the case of this name, `statement: setting`; raises KeyError if there is none.

    Examples:
        >>> from deeplimit.papers import cases
        >>> cases.case("[C] Thm 4.3: tanh, α = 0.7, β = 0.3").rate
        0.6
    """
    return {found.name: found for found in cases()}[name]


@by_default
def law_cases() -> tuple[LawCase, ...]:
    """Return every case whose limit is known in law, for `compare_laws`.

    Examples:
        >>> from deeplimit.papers import cases
        >>> sorted({case.statement for case in cases.law_cases()})[:3]
        ['Fedorov et al., in law', 'Li et al.', '[M] Prop. 11, in law']
    """
    return (
        *in_law.cases(),
        *isotropic.law_cases(),
        *prenorm.law_cases(),
        *attention.law_cases(),
        *shaped.cases(),
    )


def validated() -> tuple[Case | LawCase, ...]:
    """Return the cases that `validate` measures, in the order of its rows; those in law come last."""
    every: tuple[Case | LawCase, ...] = (*cases(), *law_cases())
    return tuple(found for found in every if found.paths)


@by_default
def pairs(width: int = WIDTH) -> tuple[Pair, ...]:
    """Return a short list for checking a method: right pairs, and then each way of being wrong once.

    A right pair must come out "converges" at its order. A wrong one must come out "does not converge".

    Examples:
        >>> from deeplimit import zoo
        >>> sorted({pair.verdict for pair in zoo.pairs()})
        ['converges', 'does not converge']
    """
    shown = [pair for found in cases(width) if found.short for pair in found.pairs()]
    once = {pair.name: pair for pair in reversed(shown)}
    return tuple(sorted(reversed(once.values()), key=lambda pair: pair.rate is None))
