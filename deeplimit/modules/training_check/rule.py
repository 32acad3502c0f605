"""What a rule for residual branches says about training: powers of the depth for settings and for changes."""

from __future__ import annotations

from dataclasses import dataclass

from deeplimit.common.validation import named
from deeplimit.modules.depth_check.rules import ALIASES, RULES, Rule, rule_of

ADAM_LIKE = ("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adafactor", "RMSprop", "Lion")
"""Optimizers whose step does not depend on the size of the gradient."""
ACCEPTED = "'completep', 'depth-mup', None, or a deeplimit.Rule whose `scale` has the exponent of the rule"


@dataclass(frozen=True)
class TrainingRule:
    """Powers of the depth that follow from a forward multiplier depth**-exponent.

    A step must change what a branch adds by 1/depth of the stream, so that all layers together move it by one
    amount. The multiplier gives depth**-exponent of this, the weights give the rest.

    Attributes:
        name: that of the rule.
        exponent: exponent of the multiplier.
    """

    name: str
    exponent: float

    @property
    def change(self) -> float:
        """Power of the depth of a branch's relative change, and of its distance from linear."""
        return self.exponent - 1

    def rate(self, optimizer: str) -> float | None:
        """Power of the learning rate of what is inside branches; None for an optimizer that is not known."""
        if optimizer == "SGD":
            return 2 * self.exponent - 1
        return self.exponent - 1 if optimizer in ADAM_LIKE else None


def training_rule(expected: object) -> tuple[Rule, TrainingRule] | None:
    """Return the rule that `expected` names or is, with what it says about training; None for None."""
    if expected is None:
        return None
    if isinstance(expected, (int, float)) and not isinstance(expected, bool):
        raise TypeError(
            f"expected must be {ACCEPTED}, got {expected!r}: an exponent alone does not say that it comes"
            " from a forward multiplier, on which learning rates depend."
        )
    if not isinstance(expected, (str, Rule)):
        raise TypeError(f"expected must be {ACCEPTED}, got {named(expected)}.")
    if isinstance(expected, str) and expected.lower() not in (*RULES, *ALIASES):
        raise ValueError(
            f"expected={expected!r} is not a rule that states learning rates: pass {ACCEPTED}."
            " dl.check_depth knows further rules, and 'auto', for the initialisation."
        )
    rule = rule_of(expected)
    power = rule.scale.power
    if not power or power < 0 or power != rule.exponent:
        raise ValueError(
            f"expected={rule.name!r} ({rule.formula}) scales branches other than by a forward multiplier, and"
            f" states no learning rates: pass {ACCEPTED}. dl.check_depth judges its initialisation."
        )
    return rule, TrainingRule(rule.name, float(power))
