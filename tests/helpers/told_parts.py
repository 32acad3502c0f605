"""What `branches.layout` says of a branch, as far as an initialiser reads it."""

from dataclasses import dataclass

from deeplimit.modules.trace.branches import Branch


@dataclass(frozen=True)
class Told:
    """A branch without the forward's record."""

    branch: Branch
    multiplier: float = 1.0
    normed: bool = False
    renormed: bool = False
    counted: bool = True
