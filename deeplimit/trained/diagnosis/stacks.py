"""One weight of every layer of one network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch


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
    """

    name: str
    values: torch.Tensor
    groups: tuple[int, ...] = ()

    @property
    def depth(self) -> int:
        """How many layers there are."""
        return len(self.values)
