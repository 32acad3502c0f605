"""The joint covariance rate of the matrix noise W^A and the bias noise W^b at one time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from deeplimit.driving.covariance import Structure, as_tensor, of_shape, symmetric_root, times_each


@dataclass(frozen=True, eq=False)
class Rate(ABC):
    """The joint covariance rate of (W^A, W^b) at one time."""

    width: int

    @abstractmethod
    def to(self, dtype: torch.dtype, device: torch.device) -> Rate:
        """Return the same rate in another dtype, on another device."""

    @abstractmethod
    def spread(self, noise: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return (dW^A (P, d, d), dW^b (P, d)) for increments `noise` (P, motions), A's first, row by row."""

    def spread_bias(self, noise: Tensor) -> Tensor:
        """Return dW^b (P, d) for its Brownian increments (P, d); only where it covaries with nothing else."""
        raise NotImplementedError("W^b covaries with W^A, so that it cannot be drawn alone.")

    def bias_entries(self) -> tuple[Tensor, Tensor] | None:
        """Return standard deviations and variances of W^b's entries, (1 or d,), if these are independent.

        Independent of each other and of W^A; None otherwise, zeros where there is no W^b.
        """
        return None

    @abstractmethod
    def quadratic(self, x: Tensor) -> Tensor:
        """Return Q(t, x) (P, d): the rate of the quadratic variation of dW^A x + dW^b, entry by entry."""

    @abstractmethod
    def dense(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Return dense Σ^A (d, d, d, d), Σ^b (d, d), cross-covariance (d, d, d); None for no noise."""


@dataclass(frozen=True, eq=False)
class SeparateRate(Rate):
    """W^A and W^b that do not covary; either may be missing."""

    matrix: Structure | None
    vector: Structure | None

    def to(self, dtype: torch.dtype, device: torch.device) -> SeparateRate:
        matrix, vector = (
            None if part is None else part.to(dtype, device) for part in (self.matrix, self.vector)
        )
        return SeparateRate(self.width, matrix, vector)

    def spread(self, noise: Tensor) -> tuple[Tensor | None, Tensor | None]:
        motions = self.width**2 if self.matrix is not None else 0
        matrix = noise[:, :motions].reshape(-1, self.width, self.width)
        return (
            None if self.matrix is None else self.matrix.spread(matrix),
            None if self.vector is None else self.vector.spread(noise[:, motions : motions + self.width]),
        )

    def spread_bias(self, noise: Tensor) -> Tensor:
        return noise if self.vector is None else self.vector.spread(noise)

    def bias_entries(self) -> tuple[Tensor, Tensor] | None:
        return (torch.zeros(1), torch.zeros(1)) if self.vector is None else self.vector.entries()

    def quadratic(self, x: Tensor) -> Tensor:
        parts = [part.quadratic(x) for part in (self.matrix, self.vector) if part is not None]
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]

    def dense(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        matrix = None if self.matrix is None else self.matrix.dense(self.width)
        return matrix, None if self.vector is None else self.vector.dense(self.width), None


@dataclass(frozen=True, eq=False)
class JointRate(Rate):
    """W^A and W^b that covary: one covariance matrix (…, d² + d, d² + d) of both, and its symmetric root."""

    covariance: Tensor
    root: Tensor

    def to(self, dtype: torch.dtype, device: torch.device) -> JointRate:
        return JointRate(self.width, self.covariance.to(device, dtype), self.root.to(device, dtype))

    def spread(self, noise: Tensor) -> tuple[Tensor | None, Tensor | None]:
        d = self.width
        both = times_each(self.root, noise[:, : d * d + d])
        return both[:, : d * d].reshape(-1, d, d), both[:, d * d :]

    def quadratic(self, x: Tensor) -> Tensor:
        """Return Q with the cross term 2 Σ_j x_j Cov(dW^A_ij, dW^b_i), which (12) of Cohen et al. (2021)
        leaves out.
        """
        matrix, vector, cross = self.dense()
        own = torch.einsum("...j,...jki,...k->...i", x, torch.diagonal(matrix, dim1=-4, dim2=-2), x)
        mixed = torch.einsum("...j,...ji->...i", x, torch.diagonal(cross, dim1=-3, dim2=-1))
        return own + torch.diagonal(vector, dim1=-2, dim2=-1) + 2 * mixed

    def dense(self) -> tuple[Tensor, Tensor, Tensor]:
        d, lead = self.width, self.covariance.shape[:-2]
        matrix = self.covariance[..., : d * d, : d * d].reshape(*lead, d, d, d, d)
        cross = self.covariance[..., : d * d, d * d :].reshape(*lead, d, d, d)
        return matrix, self.covariance[..., d * d :, d * d :], cross


def joint_rate(
    matrix: Structure, vector: Structure, cross: Any, name: str, width: int, batch: int | None = None
) -> JointRate:
    """Return the joint rate for a cross-covariance (d, d, d); raise unless the whole matrix is PSD.

    Entry ijk is the covariance of dW^A_ij and dW^b_k, per unit of time.
    """
    given, _ = of_shape(as_tensor(cross, name), name, width, {3: "a tensor (d, d, d)"}, batch)
    mixed = given.flatten(-3, -2)
    a, b = matrix.dense(width).flatten(-4, -3).flatten(-2), vector.dense(width)
    lead = max((part.shape[:-2] for part in (a, b, mixed)), key=len)
    a, b, mixed = (part.expand(*lead, *part.shape[-2:]) for part in (a, b, mixed))
    covariance = torch.cat([torch.cat([a, mixed], dim=-1), torch.cat([mixed.mT, b], dim=-1)], dim=-2)
    return JointRate(
        width, covariance, symmetric_root(covariance, f"the joint covariance of A and b with {name}")
    )
