"""A state and its change in a unit that moves with it, so that 10^10000 and 10^-10 are both numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Signal:
    """States (P, d, n) that began at `start`, kept as exp(log_unit) · (base + change); base = start + shift.

    The change is summed by itself, so that it keeps its digits where it is small beside the start. Where a
    state becomes small beside its base, so that their digits cancel, it becomes the base. Units are powers of
    two: changing them rounds nothing.
    """

    base: Tensor
    change: Tensor
    log_unit: Tensor  # (P, 1, n) float64
    shift: Tensor  # in the unit of the start

    @staticmethod
    def starting_at(start: Tensor) -> Signal:
        """Return the signal that has not moved yet."""
        unit = torch.zeros(start.shape[0], 1, start.shape[2], dtype=torch.float64, device=start.device)
        return Signal(start.clone(), torch.zeros_like(start), unit, torch.zeros_like(start))

    @property
    def value(self) -> Tensor:
        """The states, in the moving unit."""
        return self.base + self.change

    def settle(self, *, rescale: bool) -> None:
        """Make small states their base; if `rescale`, move the unit to the nearest power of two of each."""
        value = self.value
        size, base = (
            torch.linalg.vector_norm(tensor, dim=1, keepdim=True, dtype=torch.float64)
            for tensor in (value, self.base)
        )
        small = size < 0.5 * base
        self.shift += torch.where(small, self.change * torch.exp(self.log_unit), 0.0).to(self.shift.dtype)
        self.base = torch.where(small, value, self.base)
        self.change.masked_fill_(small, 0.0)
        if rescale:
            exponent = torch.log2(size).round_()
            exponent = torch.where(torch.isfinite(exponent), exponent, 0.0)
            factor = torch.exp2(-exponent).to(self.base.dtype)
            self.base *= factor
            self.change *= factor
            self.log_unit += exponent * math.log(2.0)

    def logarithms(self, start: Tensor) -> tuple[Tensor, Tensor]:
        """Return log |state|/|start| and log |state - start|/|start| (P, n), float64; NaN or ∞ if lost."""
        origin = torch.linalg.vector_norm(start, dim=1, dtype=torch.float64).log()
        ratio = (
            torch.linalg.vector_norm(self.value, dim=1, dtype=torch.float64).log()
            + self.log_unit[:, 0]
            - origin
        )
        common = self.log_unit.clamp(min=0.0)
        moved = self.change * torch.exp(self.log_unit - common) + self.shift * torch.exp(-common)
        change = torch.linalg.vector_norm(moved, dim=1, dtype=torch.float64).log() + common[:, 0] - origin
        return ratio, change
