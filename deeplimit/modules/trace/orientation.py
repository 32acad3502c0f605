"""Which axis of a weight is that of what an operation returns: the first, as in torch's layers, or the other.

A module may store a matrix as (out, in) or as (in, out): h @ w.T and h @ w are both linear maps of h.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

RIGHT = {"matmul", "__matmul__", "mm", "bmm"}
"""Products of two: the one on the right is (in, out) where it is the weight."""
ADDED = {"addmm", "baddbmm"}
"""Products of two with a summand before them."""
STEPS = 16
"""Operations between a parameter and a factor of a product are followed up to this many."""


def stored_in_out(name: str, given: Sequence[Any], value: torch.Tensor) -> bool | None:
    """Return whether a parameter is stored as (in, out), by a product that it is in; None if not known.

    Args:
        name: the function's name.
        given: its arguments, in order.
        value: the one among them, or in them, that is computed from the parameter alone.
    """
    as_factor, turned = _in_out(name, given, value), _turned(value)
    return None if as_factor is None or turned is None else as_factor != turned


def _in_out(name: str, given: Sequence[Any], value: torch.Tensor) -> bool | None:
    """Return whether a product has a factor as (in, out)."""
    if name == "linear":
        return False
    if name == "einsum" and isinstance(given[0], str):
        return _by_letters(given[0], _tensors(given[1:]), value)
    factors = _tensors(given)
    factors = factors[::-1] if name == "__rmatmul__" else factors[1:] if name in ADDED else factors
    if name in RIGHT | ADDED | {"__rmatmul__"} and len(factors) == 2:
        return factors[1] is value
    return None


def _tensors(given: Sequence[Any]) -> list[torch.Tensor]:
    return [each for each in tree_leaves(list(given)) if isinstance(each, torch.Tensor)]


def _by_letters(equation: str, operands: Sequence[torch.Tensor], value: torch.Tensor) -> bool | None:
    inputs, arrow, output = re.sub(r"\s|\.\.\.", "", equation).partition("->")
    names = inputs.split(",")
    place = next((k for k, each in enumerate(operands) if each is value), None)
    if not arrow or place is None or len(names) != len(operands) or len(names[place]) < 2:
        return None
    kept = [letter in output for letter in names[place][-2:]]
    return None if kept[0] == kept[1] else kept[1]


def _turned(value: torch.Tensor) -> bool | None:
    """Return whether a parameter's last two axes were exchanged on the way to what is computed from it."""
    node: Any = value.grad_fn
    turned = False
    for _ in range(STEPS):
        if node is None or getattr(node, "variable", None) is not None:
            return turned
        if node.name().startswith("Permute"):
            axes = [signed(axis) % len(node._saved_dims) for axis in node._saved_dims]
            last = len(axes) - 2
            if axes[:last] != [*range(last)]:
                return None
            turned ^= axes[last:] != sorted(axes[last:])
        else:
            turned ^= node.name().startswith(("TBackward", "Transpose"))
        node = next((following for following, _ in node.next_functions if following is not None), None)
    return None


def signed(number: int) -> int:
    """Return a number that autograd saved without its sign, as an axis that is counted from the end."""
    return number - 2**64 if number >= 2**63 else number
