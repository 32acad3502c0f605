"""How large a module's weights would be if depth did not matter, read off its other weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from deeplimit.depth_check.rules import Rule
from deeplimit.depth_check.scaling import BranchScaling, PartScaling

# Exponents of parameters closer to each other than this are the same.
SAME = 0.1


@dataclass(frozen=True)
class Base:
    """How a model's weights are initialised where no depth enters: the law, and its constant."""

    law: str  # "constant", "fan_in", "xavier"
    constant: float | None

    def of(self, part: PartScaling) -> float | None:
        """Return the standard deviation that this law gives a weight; None if the law is not known."""
        if self.constant is None or part.weight is None:
            return None
        if self.law == "fan_in":
            return self.constant / math.sqrt(part.weight.fan_in)
        if self.law == "xavier":
            return self.constant * math.sqrt(2 / (part.weight.fan_in + part.weight.fan_out))
        return self.constant

    def __str__(self) -> str:
        number = f"{self.constant:.4g}" if self.constant is not None else "?"
        return {"fan_in": f"{number}/sqrt(fan-in)", "xavier": f"{number} times Xavier"}.get(self.law, number)


def base_of(scaling: BranchScaling, every: Sequence[BranchScaling], rule: Rule) -> Base:
    """Return how a branch would be initialised if depth did not matter, judged by its other weights.

    Where it has none, those of all branches count. Only weights that do not depend on depth are used. Several
    laws may give all of them one constant. Then a constant 1, 1/sqrt(3) (torch's) or sqrt(2) (He) over the
    root of the fan-in decides for that law; else the standard deviation is constant.
    """
    if rule.base == "xavier":
        return Base("xavier", 1.0)
    inner = [part for part in scaling.parts if _free(part)] or [
        part for other in every for part in other.parts if _free(part)
    ]
    most = max((part.weight.entries for part in inner if part.weight), default=0)
    # A router or a depthwise convolution beside large matrices has another law.
    inner = [part for part in inner if part.weight and 4 * part.weight.entries >= most]
    if not inner:
        return Base("constant", None)
    laws = {
        "constant": [part.sizes[-1] for part in inner],
        "fan_in": [part.sizes[-1] * math.sqrt(part.weight.fan_in) for part in inner if part.weight],
        "xavier": [
            part.sizes[-1] * math.sqrt((part.weight.fan_in + part.weight.fan_out) / 2)
            for part in inner
            if part.weight
        ],
    }
    known = {"fan_in": (1.0, 1 / math.sqrt(3), math.sqrt(2)), "xavier": (1.0,)}

    def scatter(values: Sequence[float]) -> float:
        return max(values) / min(values)

    best = min(laws, key=lambda law: (round(scatter(laws[law]), 1), law != "constant"))
    # Noise of a single weight counts too: layers that share their weights have only one draw.
    near = 0.02 + 3 / math.sqrt(2 * min(part.weight.entries for part in inner if part.weight))
    for law, constants in known.items():
        middle = sorted(laws[law])[len(inner) // 2]
        if scatter(laws[law]) <= scatter(laws[best]) * 1.05 and any(
            abs(middle / constant - 1) < near for constant in constants
        ):
            best = law
    return Base(best, sorted(laws[best])[len(inner) // 2])


# What torch gives to linear layers and convolutions that nobody initialises.
TORCH_DEFAULT = Base("fan_in", 1 / math.sqrt(3))


def _free(part: PartScaling) -> bool:
    """Whether a part is a weight inside a branch whose size does not depend on depth."""
    free = part.exponent is None or abs(part.exponent) <= SAME
    return part.role == "inner" and part.weight is not None and part.sizes[-1] > 0 and free
