"""Several optimizers of one module as one: Muon takes matrices alone, so that another one has the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


class Several(torch.optim.Optimizer):
    """Steps several optimizers one after the other; `param_groups` are those of all."""

    def __init__(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self.optimizers = tuple(optimizers)
        self.param_groups = [group for each in self.optimizers for group in each.param_groups]

    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Step every optimizer."""
        for each in self.optimizers:
            each.step(closure)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of every optimizer's parameters."""
        for each in self.optimizers:
            each.zero_grad(set_to_none)


def name_of(optimizer: torch.optim.Optimizer) -> str:
    """Return the class of an optimizer, or the classes of several: "Muon + AdamW"."""
    parts = getattr(optimizer, "optimizers", (optimizer,))
    return " + ".join(dict.fromkeys(type(each).__name__ for each in parts))
