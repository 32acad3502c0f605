"""Published depth scalings as data: which part of a branch follows which power of the number of branches."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import final

from deeplimit.ground.validation import named


@dataclass(frozen=True)
class Place:
    """Where a part stands in a model.

    Attributes:
        layer: Number of the layer among those of its kind, from 1.
        layers: Number of layers of its kind.
        branches: Number of residual branches of the model.
        weights: Number of weights of the branch.
    """

    layer: int
    layers: int
    branches: int
    weights: int


class PartRule(ABC):
    """What a rule says about the size of one part of a branch, as a function of its place in the model."""

    @property
    def zero(self) -> bool:
        """Whether the part is exactly zero at initialisation."""
        return False

    @property
    def absolute(self) -> bool:
        """Whether one depth is enough to contradict it: it states a size, not only how sizes fall."""
        return self.zero

    @abstractmethod
    def size(self, place: Place) -> float | None:
        """Return the size of the part in a place, up to a constant unless `absolute`; None if any will do."""


@final
@dataclass(frozen=True)
class Power(PartRule):
    """constant · N**-exponent, N the number of residual branches of the model.

    Attributes:
        constant: Size at N = 1; None if any constant will do that is the same at every depth.
        exponent: Exponent of 1/N.
    """

    constant: float | None
    exponent: float

    @property
    def absolute(self) -> bool:
        return self.constant is not None

    def size(self, place: Place) -> float | None:
        constant = 1.0 if self.constant is None else self.constant
        return constant * math.pow(place.branches, -self.exponent)


@final
@dataclass(frozen=True)
class Zero(PartRule):
    """Exactly zero at initialisation."""

    @property
    def zero(self) -> bool:
        return True

    def size(self, place: Place) -> float | None:
        return None


@final
@dataclass(frozen=True)
class PowerByWeights(PartRule):
    """constant · N**(-1 / (2m - 2)) in a branch of m weights, as in Fixup; one weight alone is not judged."""

    def size(self, place: Place) -> float | None:
        return math.pow(place.branches, -1 / (2 * place.weights - 2)) if place.weights > 1 else None


@final
@dataclass(frozen=True)
class Unjudged(PartRule):
    """Not judged."""

    def size(self, place: Place) -> float | None:
        return None


FREE = Power(None, 0.0)  # the same at every depth
ONE = Power(1.0, 0.0)  # no scaling at all


@dataclass(frozen=True)
class Rule:
    """A published depth scaling of residual branches at initialisation.

    A part of the branch whose scaling is left out is not judged.

    Attributes:
        name: Name of the rule, as `expected=` takes it.
        source: Publication that states it.
        formula: Scale of a branch, as the source writes it for L blocks.
        exponent: Effective exponent of a branch; None if branches are zero at the start.
        output: Scaling of the output projection, relative to its initialisation without the rule (see
            `base`).
        inner: Scaling of the branch's other weights, relative to the same.
        gain: Scaling of the gains (parameters that scale the branch after the projection).
        gate: Scaling of the weights that make a gain of a conditioning (adaLN).
        scale: Scaling of the product of gains and constant multipliers.
        skip: Scaling of the number that multiplies the skip connection.
        base: How weights are initialised without the rule: "siblings" (as the weights beside them that do not
            depend on depth) or "xavier".
        attends: Whether the weights of queries and keys follow `inner`, too.
        citation: The source for `citation()` of a report: a BibTeX entry, or a line of text.

    Examples:
        >>> import deeplimit as dl
        >>> from deeplimit.depth_check.rules import FREE, Power
        >>> projections = Power(1.0, 1.0)  # times 1/N
        >>> ours = dl.Rule("ours", "our notes", "1/L", 1.0, output=projections, inner=FREE)
        >>> ours.exponent
        1.0
    """

    name: str
    source: str
    formula: str
    exponent: float | None
    output: PartRule = field(default_factory=Unjudged)
    inner: PartRule = field(default_factory=Unjudged)
    gain: PartRule = field(default_factory=Unjudged)
    gate: PartRule = field(default_factory=Unjudged)
    scale: PartRule = field(default_factory=Unjudged)
    skip: PartRule = field(default_factory=Unjudged)
    base: str = "siblings"  # or "xavier"
    attends: bool = True
    citation: str = ""

    @property
    def absolute(self) -> bool:
        """Whether one depth is enough to contradict the rule: it states a size, be it zero."""
        parts = (self.output, self.inner, self.gain, self.gate, self.scale, self.skip)
        return self.exponent is None or any(scaling.absolute for scaling in parts)


RULES = {
    rule.name: rule
    for rule in (
        Rule(
            "gpt-2",
            "Radford et al. 2019, section 2.3",
            "1/sqrt(2L)",
            0.5,
            output=Power(1.0, 0.5),
            inner=FREE,
            scale=ONE,
            skip=FREE,
            citation="radford2019",
        ),
        Rule(
            "depth-mup",
            "Yang et al. 2023 (Tensor Programs VI)",
            "c/sqrt(L)",
            0.5,
            output=FREE,
            inner=FREE,
            scale=Power(None, 0.5),
            skip=FREE,
            citation="yang2023",
        ),
        Rule(
            "completep",
            "Dey et al. 2025",
            "c/L",
            1.0,
            output=FREE,
            inner=FREE,
            scale=Power(None, 1.0),
            skip=FREE,
            citation="dey2025",
        ),
        Rule("rezero", "Bachlechner et al. 2020", "0", None, gain=Zero(), citation="bachlechner2020"),
        Rule("adaln-zero", "Peebles and Xie 2023", "0", None, gate=Zero(), citation="peebles2023"),
        Rule(
            "deepnorm",
            "Wang et al. 2022, for one stack of encoder or decoder layers",
            "(8L)^(-1/4)",
            0.75,
            output=Power(4**-0.25, 0.25),
            inner=Power(4**-0.25, 0.25),
            scale=ONE,
            skip=Power(1.0, -0.25),
            base="xavier",
            attends=False,
            citation="wang2022",
        ),
        Rule(
            "fixup",
            "Zhang et al. 2019",
            "L^(-1/(2m-2))",
            None,
            output=Zero(),
            inner=PowerByWeights(),
            citation="zhang2019",
        ),
    )
}


def rule_of(expected: object) -> Rule:
    """Return the rule that `expected` names, or is."""
    if isinstance(expected, Rule):
        return expected
    if not isinstance(expected, str):
        raise TypeError(
            f"expected must be a number, the name of a rule or None, got {named(expected)}; rules:"
            f" {', '.join(RULES)}."
        )
    if expected.lower() not in RULES:
        raise ValueError(
            f"expected={expected!r} is not the name of a rule. Choose from {', '.join(RULES)}, or pass an"
            " exponent such as 0.5."
        )
    return RULES[expected.lower()]
