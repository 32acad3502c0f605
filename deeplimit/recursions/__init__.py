"""The residual recursions, as frozen specifications with one pure step each; they know nothing of laws or
limits.

At depth 1 and exponent 0 the residual is the vector field of the limit, which is why the network and its
limit cannot drift apart: both call the same few lines.
"""

from deeplimit.recursions.standard import (
    Inner,
    Layer,
    ModifiedRes1,
    OneProduct,
    PlainBranch,
    Recursion,
    Res1,
    Res2,
    Res3,
    matvec,
)

__all__ = [
    "Inner",
    "Layer",
    "ModifiedRes1",
    "OneProduct",
    "PlainBranch",
    "Recursion",
    "Res1",
    "Res2",
    "Res3",
    "matvec",
]
