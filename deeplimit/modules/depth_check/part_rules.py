"""What a published rule says about the size of one part of a branch, by its place in the model."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final


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


@dataclass(frozen=True)
class Names:
    """What code calls the number of layers, the number of branches, and the number of a layer, from 1."""

    layers: str
    branches: str
    layer: str


def power_in_code(constant: float, number: str, exponent: float) -> str:
    """Return constant · number**-exponent as code.

    Examples:
        >>> power_in_code(1.0, "2 * depth", 0.5), power_in_code(0.5, "depth", 0.0)
        ('(2 * depth) ** -0.5', '0.5')
    """
    if not exponent:
        return f"{constant:.4g}"
    power = f"({number})" if " " in number else number
    power = power if exponent == -1 else f"{power} ** {-exponent:g}"
    return power if constant == 1.0 else f"{constant:.4g} * {power}"


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

    @property
    def power(self) -> float | None:
        """The exponent of 1/N, N the number of residual branches, where that is all there is to it."""
        return None

    @property
    def alternatives(self) -> tuple[PartRule, ...]:
        """The rules of which a part may follow any."""
        return (self,)

    @abstractmethod
    def size(self, place: Place) -> float | None:
        """Return the size of the part in a place, up to a constant unless `absolute`; None if any will do."""

    def code(self, names: Names, weights: int) -> str:
        """Return the size as code, in a branch of so many weights; "1" unless a subclass says more."""
        return "1"


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

    @property
    def power(self) -> float | None:
        return self.exponent

    def size(self, place: Place) -> float | None:
        constant = 1.0 if self.constant is None else self.constant
        return constant * math.pow(place.branches, -self.exponent)

    def code(self, names: Names, weights: int) -> str:
        return power_in_code(self.constant or 1.0, names.branches, self.exponent)


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
    """N**(-1 / (2m - 2)) up to a constant, in a branch of m weights (Fixup); one alone is not judged."""

    def size(self, place: Place) -> float | None:
        return math.pow(place.branches, -1 / (2 * place.weights - 2)) if place.weights > 1 else None

    def code(self, names: Names, weights: int) -> str:
        return power_in_code(1.0, names.branches, 1 / (2 * weights - 2))


@final
@dataclass(frozen=True)
class Unjudged(PartRule):
    """Not judged."""

    def size(self, place: Place) -> float | None:
        return None


@dataclass(frozen=True)
class _PowerOf(PartRule):
    """constant · n**-exponent, n a number that both `Place` and `Names` have under the name `of`."""

    constant: float
    exponent: float
    of: ClassVar[str]

    @property
    def absolute(self) -> bool:
        return True

    def size(self, place: Place) -> float | None:
        return self.constant * math.pow(getattr(place, self.of), -self.exponent)

    def code(self, names: Names, weights: int) -> str:
        return power_in_code(self.constant, getattr(names, self.of), self.exponent)


@final
@dataclass(frozen=True)
class PowerOfLayers(_PowerOf):
    """constant · L**-exponent, L the number of layers of the branch's kind."""

    of = "layers"


@final
@dataclass(frozen=True)
class PowerOfLayer(_PowerOf):
    """constant · l**-exponent in layer l, counted from 1 at any depth of the model."""

    of = "layer"


@final
@dataclass(frozen=True)
class Steps(PartRule):
    """One size up to some number of layers, another up to the next: pairs of the two, in order."""

    sizes: tuple[tuple[float, float], ...]

    @property
    def absolute(self) -> bool:
        return True

    def size(self, place: Place) -> float | None:
        return next(size for layers, size in self.sizes if place.layers <= layers)

    def code(self, names: Names, weights: int) -> str:
        steps = "".join(f"{size:g} if {names.layers} <= {layers} else " for layers, size in self.sizes[:-1])
        return f"{steps}{self.sizes[-1][1]:g}"


@final
@dataclass(frozen=True)
class AnyOf(PartRule):
    """Any of several rules: a gated branch may scale one of its two inner weights, or neither."""

    rules: tuple[PartRule, ...]

    @property
    def power(self) -> float | None:
        """The exponent of 1/N, N the number of residual branches, where that is all there is to it."""
        return None

    @property
    def alternatives(self) -> tuple[PartRule, ...]:
        return self.rules

    @property
    def absolute(self) -> bool:
        return any(rule.absolute for rule in self.rules)

    def size(self, place: Place) -> float | None:
        return self.rules[0].size(place)


FREE = Power(None, 0.0)  # the same at every depth
ONE = Power(1.0, 0.0)  # no scaling at all
