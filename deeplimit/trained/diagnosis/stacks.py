"""One weight of every layer of one network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch

WEIGHTS, NOISE, STATES = "weights", "function of noise", "function of states"
"""What an object is: weights themselves, or what a branch adds to a probe."""


@final
@dataclass(frozen=True, eq=False)
class Stack:
    """One weight of all layers, in the order of depth.

    What makes one checks it; here nothing is checked.

    Attributes:
        name: how tables and messages call it: "A", "h.*.attn.c_proj.weight".
        values: layers (L, ...) on the CPU, in the precision in which they were given.
        groups: number of each layer's group (L,). Layers of one group are alike by construction, such as
            those of one stage. Empty where all layers are.
        rounding: relative round-off of the weights that the layers were made of; None for that of `values`.
        bent: sizes (L,) of what the branch bends, by which it may become linear at large depth: 1 where it
            is linear at no size, NaN where that is not known. None where these are the layers' own.
    """

    name: str
    values: torch.Tensor
    groups: tuple[int, ...] = ()
    rounding: float | None = None
    bent: torch.Tensor | None = None

    @property
    def precision(self) -> float:
        """Relative round-off of a layer's numbers."""
        if self.rounding is not None:
            return self.rounding
        return torch.finfo(self.values.dtype).eps if self.values.dtype.is_floating_point else 0.0

    @property
    def depth(self) -> int:
        """How many layers there are."""
        return len(self.values)
