"""What a finding says: which setting or exponent departs, by which factor, and what sets it right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TrainingFinding:
    """One departure from what was expected.

    Attributes:
        about: "learning rate", "epsilon", "weight decay", "initialisation", "relative change",
            "nonlinearity", "feature change", "divergence", "width", "best learning rate".
        parameters: names of the parameters, with * for the layer; the kind of branch where a measured
            exponent departs.
        factor: how many times too large it is in the deepest network; None if no factor says it.
        message: what was found, what is expected, and what to set.
    """

    about: str
    parameters: tuple[str, ...]
    factor: float | None
    message: str

    def __str__(self) -> str:
        return f"{listed(self.parameters)}: {self.message}" if self.parameters else self.message


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return names in one line.

    Examples:
        >>> listed(["a", "b", "c", "d", "e"])
        'a, b, c and 2 more'
    """
    shown = ", ".join(names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def many(count: int, thing: str) -> str:
    """Return a number of things in words.

    Examples:
        >>> many(1, "step"), many(4, "step")
        ('1 step', '4 steps')
    """
    return f"{count} {thing}{'' if count == 1 else 's'}"


def power(exponent: float, of: str = "depth") -> str:
    """Return a power of the depth, or of the width, in words.

    Examples:
        >>> power(-0.5), power(0.0), power(1.0)
        ('depth^-0.5', 'the same at every depth', 'depth^1')
    """
    rounded = round(exponent, 2) + 0.0
    return f"{of}^{rounded:g}" if rounded else f"the same at every {of}"


def goes(exponent: float) -> str:
    """Return how a measured quantity goes with depth, as a predicate.

    Examples:
        >>> goes(-0.5), goes(0.001)
        ('goes like depth^-0.5', 'is the same at every depth')
    """
    told = power(exponent)
    return f"goes like {told}" if "^" in told else f"is {told}"


def times(factor: float) -> str:
    """Return a factor in words.

    Examples:
        >>> times(4.0), times(0.5)
        ('4 times too large', '2 times too small')
    """
    return f"{factor:.3g} times too large" if factor >= 1 else f"{1 / factor:.3g} times too small"
