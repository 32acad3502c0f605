"""How large a module's weights would be if depth did not matter, read off its other weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from deeplimit.modules.depth_check.rules import Rule
from deeplimit.modules.depth_check.scaling import BranchScaling, PartScaling

# Exponents of parameters closer to each other than this are the same.
SAME = 0.1
KNOWN = {"fan_in": (1.0, 1 / math.sqrt(3), math.sqrt(2)), "xavier": (1.0,)}
"""Constants that people use: one, torch's and He's over the root of the fan-in, and Xavier's."""


@dataclass(frozen=True)
class Base:
    """How a model's weights are initialised where no depth enters: the law, and its constant."""

    law: str  # "constant", "fan_in", "xavier", "width"
    constant: float | None

    def of(self, part: PartScaling) -> float | None:
        """Return the standard deviation that this law gives a weight; None if the law is not known."""
        if self.constant is None or part.weight is None:
            return None
        fan_in, fan_out = part.weight.fan_in, part.weight.fan_out
        size = {
            "constant": 1.0,
            "fan_in": fan_in,
            "xavier": (fan_in + fan_out) / 2,
            "width": fan_out if part.role == "output" else fan_in,
        }[self.law]
        return self.constant / math.sqrt(size)

    def __str__(self) -> str:
        number = f"{self.constant:.4g}" if self.constant is not None else "?"
        return {
            "fan_in": f"{number}/sqrt(fan-in)",
            "xavier": "of Xavier's rule" if number == "1" else f"{number} times Xavier's",
            "width": f"{number}/sqrt(width)",
        }.get(self.law, number)


# What torch gives to linear layers and convolutions that nobody initialises.
TORCH_DEFAULT = Base("fan_in", 1 / math.sqrt(3))


def bases_of(scaling: BranchScaling, every: Sequence[BranchScaling], rule: Rule) -> tuple[Base, ...]:
    """Return how a branch may be initialised if depth did not matter, judged by its other weights.

    Where it has none, those of all branches count. Only weights that do not depend on depth are used. A
    standard deviation that all of them share may be a constant, or one over the root of their width by
    design: every law that gives them one constant is returned, the likeliest first.
    """
    if rule.base != "siblings":
        return (Base(rule.base, 1.0),)
    inner = [part for part in scaling.parts if _free(part)] or [
        part for other in every for part in other.parts if _free(part)
    ]
    return _laws(inner)


def bases_elsewhere(scaling: BranchScaling, every: Sequence[BranchScaling], rule: Rule) -> tuple[Base, ...]:
    """Return what the weights of the other branches say of the same; none if there are none."""
    if rule.base != "siblings":
        return ()
    return tuple(
        base
        for base in _laws(
            [part for other in every if other is not scaling for part in other.parts if _free(part)]
        )
        if base.constant is not None
    )


def _laws(inner: Sequence[PartScaling]) -> tuple[Base, ...]:
    """Return the laws that give these weights one constant, the likeliest first.

    Where a law of the fans has a constant that people use, it is likelier than a constant.
    """
    most = max((part.weight.entries for part in inner if part.weight), default=0)
    # A router or a depthwise convolution beside large matrices has another law.
    inner = [part for part in inner if part.weight and 4 * part.weight.entries >= most]
    if not inner:
        return (Base("constant", None),)
    constants = {
        law: sorted(part.sizes[-1] / (Base(law, 1.0).of(part) or 1.0) for part in inner)
        for law in ("constant", "fan_in", "xavier")
    }
    scatter = {law: values[-1] / values[0] for law, values in constants.items()}
    best = min(scatter, key=lambda law: (round(scatter[law], 1), law != "constant"))
    # Noise of a single weight counts too: layers that share their weights have only one draw.
    near = 0.02 + 3 / math.sqrt(2 * min(part.weight.entries for part in inner if part.weight))
    middle = {law: values[len(values) // 2] for law, values in constants.items()}
    fitting = [law for law in scatter if scatter[law] <= scatter[best] * 1.05]
    known = [
        law
        for law in reversed(fitting)
        if any(abs(middle[law] / constant - 1) < near for constant in KNOWN.get(law, ()))
    ]
    chosen = dict.fromkeys([*known, best, *(law for law in fitting if law == "constant")])
    return tuple(Base(law, middle[law]) for law in chosen)


def _free(part: PartScaling) -> bool:
    """Whether a part is a weight inside a branch whose size does not depend on depth."""
    free = part.exponent is None or abs(part.exponent) <= SAME
    return part.role == "inner" and part.weight is not None and part.sizes[-1] > 0 and free


def beside(base: Base) -> str:
    """Return what a rule's size is held against, in words."""
    if base is TORCH_DEFAULT:
        return "where torch alone gives 0.5774/sqrt(fan-in)"
    if base.law == "width":
        return "at this width"
    if base.law == "xavier" and base.constant == 1.0:
        return "where Xavier's rule is the base"
    return f"where other weights have std {base}"
