"""Which weight of a branch reads the stream, and which adds to it, where names say it by convention.

Two weights (h, d) and (d, h) may be a branch of a stream of width d that goes up first, or of one of width h
that goes down first: shapes leave both. Names such as fc1 and fc2 say which runs first, and so the width.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

END = ".weight"
"""Torch's layers store weights by this name as (out, in); of other tensors that is not known."""
PAIRS = (
    ("up", "down"),
    ("up_proj", "down_proj"),
    ("c_fc", "c_proj"),
    ("wi", "wo"),
    ("w_in", "w_out"),
    ("fc_in", "fc_out"),
    ("linear_in", "linear_out"),
    ("intermediate.dense", "output.dense"),
    ("dense_h_to_4h", "dense_4h_to_h"),
)
"""Names of the weight that runs first and of the one after it, in published transformers."""
STEMS = r"fc|w|ff|lin|linear|dense"
"""With a number behind, names of square weights that run one after the other; others may be two branches."""
DOWN_FIRST = "adapter"
"""Adapters go down before they go up, so "up" and "down" do not tell their order."""
RENAME = (
    "Pass the module, or a tensor per layer: layers.0.fc1.weight, ... (reads the stream) and"
    " layers.0.fc2.weight, ... (adds to it)"
)
"""What to give where neither names nor shapes tell the order."""


class Ordered(NamedTuple):
    """Two weights of a branch by their names: the one that reads the stream, and the one that adds to it."""

    read: str
    write: str


def ordered(shapes: Mapping[str, tuple[int, ...]], square: bool) -> list[Ordered]:
    """Return the pairs of weights whose names say which of both runs first.

    Args:
        shapes: shape of each weight that belongs to no other branch, by its name within a layer.
        square: whether to return weights (d, d), whose names must be known; else those of two sizes.

    Examples:
        >>> ordered({"mlp.fc2.weight": (4, 6), "mlp.fc1.weight": (6, 4)}, square=False)
        [Ordered(read='mlp.fc1.weight', write='mlp.fc2.weight')]
        >>> ordered({"one.weight": (4, 4), "other.weight": (4, 4)}, square=True)
        []
    """
    plain = {
        name.removesuffix(END): shape
        for name, shape in shapes.items()
        if name.endswith(END) and len(shape) == 2 and (shape[0] == shape[1]) == square
    }
    found = []
    for first in plain:
        seconds = [name for name in plain if plain[name] == plain[first][::-1] and _before(first, name)]
        if len(seconds) == 1 and (not square or _known(first)):
            found.append(Ordered(first + END, seconds[0] + END))
    names = [name for pair in found for name in pair]
    return [pair for pair in found if all(names.count(name) == 1 for name in pair)]


def _before(first: str, second: str) -> bool:
    """Whether names say that the first weight runs before the second."""
    for one, other in PAIRS:
        stem = first.removesuffix(one)
        if (stem + one, stem + other) == (first, second) and stem[-1:] in ("", "."):
            return DOWN_FIRST not in stem.lower()
    before, after = _number(first), _number(second)
    return before is not None and after is not None and before[0] == after[0] and before[1] < after[1]


def _number(name: str) -> tuple[str, int] | None:
    """Return what stands before the number at the end of a name, and that number."""
    found = re.fullmatch(r"(.*?)(\d+)", name)
    return (found[1], int(found[2])) if found else None


def _known(first: str) -> bool:
    """Whether a name is one by which square weights run one after the other."""
    last = first.rpartition(".")[2]
    paired = any(re.fullmatch(rf"(?:.*\.)?{re.escape(one)}", first) for one, _ in PAIRS)
    return paired or re.fullmatch(rf"(?:{STEMS})_?\d+", last) is not None
