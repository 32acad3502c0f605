"""What theory may use of a weight law: facts that a law states, and nothing that its type would suggest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self


class Dependence(StrEnum):
    """How the layers of one weight depend on each other."""

    INDEPENDENT = "independent"
    """Layers are independent of each other and identically distributed."""
    SMOOTH = "smooth"
    """Layer k of depth L is the value near k/L of one function of time, the same at every depth."""
    FRACTIONAL = "fractional"
    """Layers are increments of fractional Brownian motion."""
    SHRINKING = "shrinking"
    """L^-β times a function of time, plus increments of an Itô process (Cohen et al. 2021, Hypotheses 1 and
    2).
    """
    STATIONARY = "stationary"
    """Layers are a stationary sequence, correlated as the weight law says."""
    RECORDED = "recorded"
    """Layers are given numbers, at recorded depths only."""
    UNKNOWN = "unknown"
    """Nothing is known of how layers depend on each other."""
    MIXED = "mixed"
    """Several weights whose layers depend on each other in different ways."""


@dataclass(frozen=True)
class Facts:
    """What is known of a weight law; where nothing is stated, the weaker assumption is the default.

    Attributes:
        dependence: How layers depend on each other.
        gaussian: Whether all entries of all layers are jointly Gaussian, so that a limit on the same path
            exists.
        independent_entries: Whether entries are independent of each other; None where that is not known.
        symmetric: Whether X and -X are known to have the same law.
        unit_variance: Whether an entry has mean 0 and variance 1/d, as (A1) of Marion et al. (2025) asks.
        sub_gaussian: Constant s of (A1) of Marion et al. (2025); None where it is not known.
        atoms: Whether a linear combination of entries may be 0 with positive probability.
        deterministic: Whether two draws are the same.
        hurst: Hurst index; None where layers are not increments of fractional Brownian motion.
        holder: Hölder exponent of the functions of time that layers read, at most 1; None where there are
            none.
        length_scale: Length scale of the covariance of Gaussian functions of time, as a share of the whole
            depth; None for other laws.
        depth_to_width: T, where a layer has L/T hidden units at depth L, and every unit is a row of
            independent standard normal numbers; None for other laws.
        natural_exponent: Residual exponent between explosion and identity; None where it is not known.
        weight_exponent: Power of 1/L by which the function of time is multiplied (Cohen et al.'s β); None for
            other laws.
        biased: Whether layers have biases.
        tested: What a test of draws looked for and did not find, in words; for instance of a user's sampler.
        found: What it found against the claims of the weight law, in words; theory then says nothing.
        not_known: What theory would need and nobody has stated, in words; for instance of a user's sampler.
        tested_at: Function from a width to the facts, where draws are tested at the network's width.
    """

    dependence: Dependence
    gaussian: bool = False
    independent_entries: bool | None = None
    symmetric: bool = False
    unit_variance: bool = False
    sub_gaussian: float | None = None
    atoms: bool = False
    deterministic: bool = False
    hurst: float | None = None
    holder: float | None = None
    length_scale: float | None = None
    depth_to_width: float | None = None
    natural_exponent: float | None = None
    weight_exponent: float | None = None
    biased: bool = False
    tested: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    not_known: tuple[str, ...] = ()
    tested_at: Callable[[int], Facts] | None = field(default=None, compare=False, repr=False)

    def at(self, width: int) -> Facts:
        """Return what theory may use at this width, at which a sampler is tested."""
        return self if self.tested_at is None else self.tested_at(width)

    @classmethod
    def of_normal_entries(cls, dependence: Dependence, **more: Any) -> Self:
        """Return the facts of independent entries of law N(0, 1/d), and what more is stated."""
        return cls(
            dependence,
            gaussian=True,
            independent_entries=True,
            symmetric=True,
            unit_variance=True,
            sub_gaussian=1.0,
            **more,
        )


def together(facts: tuple[Facts, ...]) -> Facts:
    """Return what holds of several weights at once: a fact that one of them lacks is lost."""
    first = facts[0]
    if all(fact == first for fact in facts):
        return first
    alike = all(fact.dependence == first.dependence for fact in facts)
    holders = [fact.holder for fact in facts if fact.holder is not None]
    exponents = [fact.natural_exponent for fact in facts]
    known = [value for value in exponents if value is not None]
    constants = [fact.sub_gaussian for fact in facts if fact.sub_gaussian is not None]
    return Facts(
        dependence=first.dependence if alike else Dependence.MIXED,
        gaussian=all(fact.gaussian for fact in facts),
        independent_entries=_all_known([fact.independent_entries for fact in facts]),
        symmetric=all(fact.symmetric for fact in facts),
        unit_variance=all(fact.unit_variance for fact in facts),
        sub_gaussian=max(constants) if len(constants) == len(facts) else None,
        atoms=any(fact.atoms for fact in facts),
        deterministic=all(fact.deterministic for fact in facts),
        hurst=first.hurst if len({fact.hurst for fact in facts}) == 1 else None,
        holder=min(holders) if len(holders) == len(facts) else None,
        length_scale=first.length_scale if len({fact.length_scale for fact in facts}) == 1 else None,
        depth_to_width=first.depth_to_width if len({fact.depth_to_width for fact in facts}) == 1 else None,
        natural_exponent=min(known) if len(known) == len(exponents) else None,
        biased=any(fact.biased for fact in facts),
        tested=tuple(dict.fromkeys(text for fact in facts for text in fact.tested)),
        found=tuple(dict.fromkeys(text for fact in facts for text in fact.found)),
        not_known=tuple(dict.fromkeys(text for fact in facts for text in fact.not_known)),
    )


def _all_known(values: list[bool | None]) -> bool | None:
    if any(value is False for value in values):
        return False
    return None if any(value is None for value in values) else True
