"""Published depth scalings as data: which part of a branch follows which power of the number of branches."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from deeplimit.common.validation import named
from deeplimit.modules.depth_check.part_rules import (
    FREE,
    ONE,
    AnyOf,
    PartRule,
    Power,
    PowerByWeights,
    PowerOfLayer,
    PowerOfLayers,
    Steps,
    Unjudged,
    Zero,
)


@dataclass(frozen=True)
class Rule:
    """A published depth scaling of residual branches at initialisation.

    A part of the branch whose scaling is left out is not judged.

    Attributes:
        name: Name of the rule, as `expected=` takes it.
        source: Publication that states it.
        formula: Scale of a branch, as the source writes it for L blocks.
        exponent: Effective exponent of a branch; None if branches are zero at the start, or layers differ.
        output: Scaling of the output projection, relative to its initialisation without the rule (see
            `base`).
        inner: Scaling of the branch's other weights, relative to the same.
        gain: Scaling of the gains (parameters that scale the branch after the projection).
        gate: Scaling of the weights that make a gain of a conditioning (adaLN).
        scale: Scaling of the product of gains and constant multipliers.
        skip: Scaling of the number that multiplies the skip connection.
        entry: Scaling of the number that multiplies the branch's normalised input.
        base: How weights are initialised without the rule: "siblings" (as the weights beside them that do not
            depend on depth), "xavier", or "width" (one over the root of the stream's width).
        attends: Whether the weights of queries and keys follow `inner`, too.
        citation: The source for `citation()` of a report: a BibTeX entry, or a line of text.

    Examples:
        >>> import deeplimit as dl
        >>> from deeplimit.modules.depth_check.part_rules import FREE, Power
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
    entry: PartRule = field(default_factory=Unjudged)
    base: str = "siblings"  # or "xavier", "width"
    attends: bool = True
    citation: str = ""

    @property
    def parts(self) -> tuple[PartRule, ...]:
        """What it says of each part of a branch; the skip is none."""
        return (self.output, self.inner, self.gain, self.gate, self.scale, self.entry)

    @property
    def starts_at_zero(self) -> bool:
        """Whether branches add nothing at initialisation."""
        return self.exponent is None and not any(part.absolute and not part.zero for part in self.parts)

    @property
    def absolute(self) -> bool:
        """Whether one depth is enough to contradict the rule: it states a size, be it zero."""
        return self.exponent is None or any(part.absolute for part in self.parts)


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
            skip=ONE,
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
            skip=ONE,
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
            skip=ONE,
            citation="dey2025",
        ),
        Rule(
            "rezero", "Bachlechner et al. 2020", "0", None, gain=Zero(), skip=ONE, citation="bachlechner2020"
        ),
        Rule("adaln-zero", "Peebles and Xie 2023", "0", None, gate=Zero(), skip=ONE, citation="peebles2023"),
        Rule(
            "megatron",
            "Shoeybi et al. 2019; scaled_init_method_normal of Megatron-LM",
            "1/sqrt(2L)",
            0.5,
            output=PowerOfLayers(2**-0.5, 0.5),
            inner=FREE,
            scale=ONE,
            skip=ONE,
            citation="shoeybi2019",
        ),
        Rule(
            "mitchell",
            "Groeneveld et al. 2024; init_fn: mitchell of OLMo",
            "1/sqrt(2l) in layer l",
            None,
            output=PowerOfLayer(2**-0.5, 0.5),
            inner=FREE,
            scale=ONE,
            skip=ONE,
            citation="groeneveld2024",
        ),
        Rule(
            "depth-init",
            "Liang et al. 2024; depth_init of torchtitan",
            "1/sqrt(2l) in layer l",
            None,
            output=PowerOfLayer(2**-0.5, 0.5),
            inner=AnyOf((FREE, PowerOfLayer(2**-0.5, 0.5))),  # the up-projection of a gated MLP, too
            scale=ONE,
            skip=ONE,
            citation="liang2024",
        ),
        Rule(
            "norm-depth",
            "Sun et al. 2025 (The Curse of Depth), section 4",
            "1/sqrt(l) after the norm of layer l",
            None,
            output=FREE,
            inner=FREE,
            scale=ONE,
            skip=ONE,
            entry=PowerOfLayer(1.0, 0.5),
            citation="sun2025",
        ),
        Rule(
            "small-init",
            "Nguyen and Salazar 2019, Wang 2021; small_init and wang_init of GPT-NeoX",
            "2/(L sqrt(d)), other weights sqrt(2/(5d))",
            1.0,
            output=PowerOfLayers(2.0, 1.0),
            inner=Power(0.4**0.5, 0.0),
            scale=ONE,
            skip=ONE,
            base="width",
            citation="nguyen2019",
        ),
        Rule(
            "layerscale",
            "Touvron et al. 2021, section 2",
            "0.1 up to 18 layers, 1e-5 up to 24, 1e-6 beyond",
            None,
            gain=Steps(((18, 0.1), (24, 1e-5), (math.inf, 1e-6))),
            skip=ONE,
            citation="touvron2021",
        ),
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
            skip=ONE,
            citation="zhang2019",
        ),
    )
}


AUTO: Final = "auto"
"""Asks for the published rule that fits best."""
ALIASES = {"wang": "small-init"}
"""Other names of rules."""


def rule_of(expected: object) -> Rule:
    """Return the rule that `expected` names, or is."""
    if isinstance(expected, Rule):
        return expected
    if not isinstance(expected, str):
        raise TypeError(
            f"expected must be a number, the name of a rule or None, got {named(expected)}; rules:"
            f" {', '.join(RULES)}."
        )
    name = ALIASES.get(expected.lower(), expected.lower())
    if name not in RULES:
        raise ValueError(
            f"expected={expected!r} is not the name of a rule. Choose from {', '.join(RULES)}, 'auto', or"
            " pass an exponent such as 0.5."
        )
    return RULES[name]
