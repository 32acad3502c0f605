"""What a finding says, and how: parameter, factor, and the words that every finding is made of."""

from __future__ import annotations

from dataclasses import dataclass

from deeplimit.depth_check.scaling import BranchScaling, PartScaling

# A factor closer to one than this is not reported; published rules differ by more.
FACTOR = 1.1


@dataclass(frozen=True)
class Finding:
    """One departure from what was expected.

    Attributes:
        branch: Kind of residual branch.
        parameter: Name of the parameter, with * for the layer.
        factor: How many times too large it is in the deepest network; None if no factor says it (a parameter
            that should be zero is not, a branch lacks a part).
        message: What was measured, what is expected, and by how much they differ.
    """

    branch: str
    parameter: str
    factor: float | None
    message: str

    def __str__(self) -> str:
        return f"{self.parameter}: {self.message}"


def part_that_should_scale(scaling: BranchScaling) -> PartScaling:
    """Return the part that a depth scaling would be in: the gain or multiplier if there is one, else the
    output projection.
    """
    gains = [part for part in scaling.parts if part.role == "gain"]
    if gains:
        return gains[0]
    multiplier = next(part for part in scaling.parts if part.role == "multiplier")
    if any(abs(size - 1) > 1e-6 for size in multiplier.sizes):
        return multiplier
    return next((part for part in scaling.parts if part.role == "output"), multiplier)


def biases_of(scaling: BranchScaling) -> list[PartScaling]:
    """Return the biases at the end of a kind of branch that are not zero."""
    return [part for part in scaling.parts if part.role == "bias"]


def part_name(part: PartScaling, scaling: BranchScaling) -> str:
    """Return what a part is called: a parameter by its name, a number by the branch that it scales."""
    return f"{part.name} of {scaling.kind}" if part.role in ("multiplier", "skip") else part.name


def times(factor: float) -> str:
    """Return a factor in words.

    Examples:
        >>> times(4.9), times(0.5)
        ('4.9 times too large for', '2 times too small for')
    """
    if factor >= 1:
        return f"{factor:.2g} times too large for"
    return f"{1 / factor:.2g} times too small for" if factor > 0 else "zero instead of"


def spread_among_layers(part: PartScaling) -> str:
    """Return a remark on layers of one network whose sizes differ."""
    return f"; its layers differ by up to {part.spread:.3g} times" if part.spread > FACTOR**2 else ""
