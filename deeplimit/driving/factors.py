"""Constant row and column factors of matrix noise: what lets a kernel draw products in place of matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor


@final
@dataclass(frozen=True, eq=False)
class Factors:
    """Matrix noise with increments rows · dB · columns, dB (d, d) with independent entries of variance dt.

    A factor is a number, a diagonal (d,) or a symmetric matrix (d, d), in float64.
    """

    rows: Tensor
    columns: Tensor

    @property
    def is_number(self) -> bool:
        """Whether both factors are numbers: one variance for all entries."""
        return self.rows.numel() == self.columns.numel() == 1

    def to(self, dtype: torch.dtype, device: torch.device) -> Factors:
        return Factors(self.rows.to(device, dtype), self.columns.to(device, dtype))

    @staticmethod
    def apply(factor: Tensor, vectors: Tensor) -> Tensor:
        """Return a factor times `vectors` (P, d)."""
        return vectors @ factor if factor.ndim == 2 else vectors * factor
