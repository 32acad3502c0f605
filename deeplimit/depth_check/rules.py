"""What depth scalings are published, as data: which part of a branch is scaled by which power of the
number of branches.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from deeplimit.ground.validation import named


@dataclass(frozen=True)
class Power:
    """constant * N**-exponent, N the number of residual branches of the model; constant None: any, but the
    same at each depth.
    """

    constant: float | None
    exponent: float


@dataclass(frozen=True)
class Zero:
    """Exactly zero at initialisation."""


@dataclass(frozen=True)
class Fixup:
    """constant * N**(-1 / (2m - 2)) for a branch of m weights."""


@dataclass(frozen=True)
class Unjudged:
    """Not looked at."""


Law = Power | Zero | Fixup | Unjudged
FREE = Power(None, 0.0)  # the same at each depth
ONE = Power(1.0, 0.0)  # there is none


@dataclass(frozen=True)
class Rule:
    """A published depth scaling of residual branches at initialisation.

    A part of the branch whose law is left out is not judged.

    Attributes:
        name: Name of the rule, as `expected=` takes it.
        source: Publication that states it.
        formula: Scale of a branch, as the source writes it for L blocks.
        exponent: Effective exponent of a branch; None if branches are zero at the start.
        output: Law of the output projection, relative to its initialisation without the rule (see `base`).
        inner: Law of the branch's other weights, relative to the same.
        gain: Law of the gains (parameters that scale the branch after the projection).
        scale: Law of the product of gains and constant multipliers.
        skip: Law of the number that multiplies the skip connection.
        base: How weights are initialised without the rule: "siblings" (as the weights beside them that do not
            depend on depth) or "xavier".
        attends: Whether the weights of queries and keys follow `inner`, too.

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
    output: Law = field(default_factory=Unjudged)
    inner: Law = field(default_factory=Unjudged)
    gain: Law = field(default_factory=Unjudged)
    scale: Law = field(default_factory=Unjudged)
    skip: Law = field(default_factory=Unjudged)
    base: str = "siblings"  # or "xavier"
    attends: bool = True

    @property
    def absolute(self) -> bool:
        """Whether one depth is enough to contradict the rule: it has something zero, or of a size that it
        states.
        """
        laws = (self.output, self.inner, self.gain, self.scale, self.skip)
        return self.exponent is None or any(
            isinstance(law, Zero) or (isinstance(law, Power) and law.constant is not None) for law in laws
        )


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
        ),
        Rule("rezero", "Bachlechner et al. 2020", "0", None, gain=Zero()),
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
        ),
        Rule("fixup", "Zhang et al. 2019", "L^(-1/(2m-2))", None, output=Zero(), inner=Fixup()),
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
            f"expected={expected!r} is no rule: choose from {', '.join(RULES)}, or pass an exponent such as"
            " 0.5."
        )
    return RULES[expected.lower()]
