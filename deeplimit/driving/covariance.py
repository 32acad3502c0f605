"""Covariance rates of matrix and vector noise, one type per structure: how it is drawn, and its share of Q.

`spread` turns standard normal increments into correlated ones and `quadratic` is the noise's part of Q(t, x),
the rate of [dW x]². Both come from one structure, and so agree. Tensors may have a leading dimension P where
the covariance is random and differs from path to path.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.driving.law import Factors

ROUNDING = 1e-6
"""Asymmetry and negative eigenvalues below this share of the largest entry are rounding: matrices are
often given in float32.
"""


def as_tensor(value: Any, name: str) -> Tensor:
    """Return numbers, arrays and tensors as float64 on the CPU; raise in words for anything else."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        value = validation.real(value, name)
    elif isinstance(value, Tensor):
        value = validation.real_tensor(value, name)
    elif isinstance(value, (np.ndarray, list, tuple)):
        value = _as_array(value, name)
    else:
        raise TypeError(f"{name} must be a number, an array or a tensor; got {validation.named(value)}.")
    result = torch.as_tensor(value, dtype=torch.float64).detach().cpu()
    if not bool(torch.isfinite(result).all()):
        raise ValueError(f"{name} must be finite, but holds NaN or infinity.")
    return result


def _as_array(value: Any, name: str) -> np.ndarray:
    """Return an array or nested sequences as a float64 copy; refuse truth values and complex numbers."""
    try:
        given = value if isinstance(value, np.ndarray) else np.asarray(value)
        if given.dtype.kind not in "fiu":
            raise TypeError(f"their kind is {given.dtype}")
        return given.astype(np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} must hold real numbers, in rows of equal length; {error}.") from error


def symmetric_root(matrix: Tensor, name: str) -> Tensor:
    """Return the symmetric square root of (..., n, n); raise ValueError unless it is symmetric and PSD."""
    size = matrix.abs().amax(dim=(-2, -1), keepdim=True)
    skew = (matrix - matrix.mT).abs().amax().item()
    if skew > ROUNDING * float(size.max()):
        raise ValueError(
            f"{name} must be symmetric, but differs from its transpose by {skew:.3g}; use (S + S.T)/2."
        )
    values, vectors = torch.linalg.eigh((matrix + matrix.mT) / 2)
    if bool((values[..., 0] < -ROUNDING * size[..., 0, 0]).any()):
        raise ValueError(
            f"{name} must be positive semidefinite, but has the eigenvalue {values.min().item():.3g}; S @ S.T"
            " is, for any S."
        )
    root: Tensor = (vectors * values.clamp(min=0.0).sqrt().unsqueeze(-2)) @ vectors.mT
    return root


def _is_nonsingular(root: Tensor) -> bool:
    """Return whether the square of a symmetric root (..., n, n) is nonsingular up to rounding."""
    values = torch.linalg.eigvalsh(root).square()
    return bool((values.amin(dim=-1) > ROUNDING * values.amax(dim=-1)).all())


def times_each(matrix: Tensor, vectors: Tensor) -> Tensor:
    """Return a symmetric matrix, (n, n) or one per path (P, n, n), times `vectors` (P, n)."""
    if matrix.ndim == 2:
        return vectors @ matrix
    return torch.bmm(matrix, vectors.unsqueeze(-1)).squeeze(-1)


@dataclass(frozen=True, eq=False)
class Kronecker:
    """Row and column covariances R, C (d, d): dW = R^½ dB C^½, so Cov(dW_ij, dW_kl) = R_ik C_jl dt.

    Roots are symmetric. Both must be symmetric positive semidefinite; ValueError if not. Random ones, of an
    Ito with an auxiliary diffusion, may be (P, d, d).

    Examples:
        >>> import torch, deeplimit as dl
        >>> R, C = torch.tensor([[0.2, 0.1], [0.1, 0.2]]), torch.eye(2)
        >>> dl.Ito(A=dl.Kronecker(R, C)).Q(0.0, torch.ones(1, 2))
        tensor([[0.4000, 0.4000]], dtype=torch.float64)
    """

    R: Any
    C: Any
    row_root: Tensor = field(init=False, repr=False)
    column_root: Tensor = field(init=False, repr=False)

    @by_default
    def __post_init__(self) -> None:
        for name, root in (("R", "row_root"), ("C", "column_root")):
            value = as_tensor(getattr(self, name), f"Kronecker's {name}")
            if value.ndim not in (2, 3) or value.shape[-1] != value.shape[-2] or value.numel() == 0:
                raise ValueError(
                    f"Kronecker's {name} must be a square matrix (d, d), got shape {tuple(value.shape)}."
                )
            object.__setattr__(self, name, value)
            object.__setattr__(self, root, symmetric_root(value, f"Kronecker's {name}"))
        if self.R.shape[-1] != self.C.shape[-1]:
            raise ValueError(
                f"Kronecker's R and C must have the same width, got {self.R.shape[-1]} and"
                f" {self.C.shape[-1]}."
            )
        if self.R.ndim == self.C.ndim == 3 and len(self.R) != len(self.C):
            raise ValueError(
                f"Kronecker's R and C must be of as many paths, got {len(self.R)} and {len(self.C)}."
            )


@dataclass(frozen=True, eq=False)
class Structure(ABC):
    """A covariance rate in one of its forms; all fields are tensors."""

    def to(self, dtype: torch.dtype, device: torch.device) -> Self:
        """Return the same structure in another dtype, on another device."""
        return type(self)(**{part.name: getattr(self, part.name).to(device, dtype) for part in fields(self)})

    @property
    @abstractmethod
    def vanishes(self) -> bool:
        """Whether there is no noise: the covariance is 0."""

    @property
    @abstractmethod
    def is_definite(self) -> bool:
        """Whether the covariance of all entries is nonsingular."""

    @abstractmethod
    def spread(self, noise: Tensor) -> Tensor:
        """Return increments with this covariance, from normal ones of the same shape and variance dt."""

    @abstractmethod
    def quadratic(self, x: Tensor) -> Tensor:
        """Return this noise's part of Q at the states x (P, d), as (P, d)."""

    @abstractmethod
    def dense(self, width: int) -> Tensor:
        """Return the covariance as a dense tensor."""

    def entries(self) -> tuple[Tensor, Tensor] | None:
        """Return standard deviations and variances (1 or d,) of independent entries; None for others."""
        return None

    def factors(self) -> Factors | None:
        """Return factors around a Brownian matrix that give this covariance; None where none do."""
        return None


@dataclass(frozen=True, eq=False)
class Entries(Structure):
    """Independent entries, each with its own variance or all with one."""

    variances: Tensor
    deviations: Tensor

    @property
    def vanishes(self) -> bool:
        return not bool(self.variances.any())

    @property
    def is_definite(self) -> bool:
        return bool((self.variances > 0).all())

    def spread(self, noise: Tensor) -> Tensor:
        return self.deviations * noise


@dataclass(frozen=True, eq=False)
class MatrixEntries(Entries):
    """Independent entries of W^A with variances (…, d, d), or one for all of them (…, 1, 1)."""

    def quadratic(self, x: Tensor) -> Tensor:
        return (self.variances * x.square().unsqueeze(-2)).sum(dim=-1).expand_as(x)

    def dense(self, width: int) -> Tensor:
        full = self.variances.expand(*self.variances.shape[:-2], width, width)
        dense: Tensor = torch.diag_embed(full.flatten(-2)).reshape(*full.shape, width, width)
        return dense

    def factors(self) -> Factors | None:
        """Return two diagonals where each deviation is a row's factor times a column's; else None."""
        if self.deviations.ndim != 2:
            return None
        size, place = self.deviations.flatten().max(dim=0)
        row, column = divmod(int(place), self.deviations.shape[1])
        rows = self.deviations[:, column]
        columns = self.deviations[row] / size if size > 0 else self.deviations[row]
        if bool(((rows[:, None] * columns - self.deviations).abs() > 1e-14 * size).any()):
            return None
        return Factors(rows, columns)


@dataclass(frozen=True, eq=False)
class MatrixKronecker(Structure):
    """Cov(dW_ij, dW_kl) = R_ik C_jl dt."""

    rows: Tensor
    columns: Tensor
    row_root: Tensor
    column_root: Tensor

    @property
    def vanishes(self) -> bool:
        return not (bool(self.rows.any()) and bool(self.columns.any()))

    @property
    def is_definite(self) -> bool:
        return _is_nonsingular(self.row_root) and _is_nonsingular(self.column_root)

    def spread(self, noise: Tensor) -> Tensor:
        return self.row_root @ noise @ self.column_root

    def quadratic(self, x: Tensor) -> Tensor:
        energy = (x * times_each(self.columns, x)).sum(dim=-1, keepdim=True)
        return torch.diagonal(self.rows, dim1=-2, dim2=-1) * energy

    def dense(self, width: int) -> Tensor:
        return torch.einsum("...ik,...jl->...ijkl", self.rows, self.columns)

    def factors(self) -> Factors | None:
        return (
            Factors(self.row_root, self.column_root)
            if self.row_root.ndim == self.column_root.ndim == 2
            else None
        )


@dataclass(frozen=True, eq=False)
class MatrixTensor(Structure):
    """A full tensor Σ_ijkl = Cov(dW_ij, dW_kl)/dt."""

    tensor: Tensor  # (…, d, d, d, d)
    root: Tensor  # (…, d², d²)

    @property
    def vanishes(self) -> bool:
        return not bool(self.tensor.any())

    @property
    def is_definite(self) -> bool:
        return _is_nonsingular(self.root)

    def spread(self, noise: Tensor) -> Tensor:
        return times_each(self.root, noise.flatten(-2)).view_as(noise)

    def quadratic(self, x: Tensor) -> Tensor:
        own_row = torch.diagonal(self.tensor, dim1=-4, dim2=-2)  # (…, j, k, i) = Σ_ijik
        return torch.einsum("...j,...jki,...k->...i", x, own_row, x)

    def dense(self, width: int) -> Tensor:
        return self.tensor


@dataclass(frozen=True, eq=False)
class VectorEntries(Entries):
    """Independent entries of W^b with variances (…, d), or one for all of them (…, 1)."""

    def entries(self) -> tuple[Tensor, Tensor] | None:
        return self.deviations, self.variances

    def quadratic(self, x: Tensor) -> Tensor:
        return self.variances.expand_as(x)

    def dense(self, width: int) -> Tensor:
        return torch.diag_embed(self.variances.expand(*self.variances.shape[:-1], width))


@dataclass(frozen=True, eq=False)
class VectorMatrix(Structure):
    """A full covariance matrix (…, d, d) of W^b."""

    matrix: Tensor
    root: Tensor

    @property
    def vanishes(self) -> bool:
        return not bool(self.matrix.any())

    @property
    def is_definite(self) -> bool:
        return _is_nonsingular(self.root)

    def spread(self, noise: Tensor) -> Tensor:
        return times_each(self.root, noise)

    def quadratic(self, x: Tensor) -> Tensor:
        return torch.diagonal(self.matrix, dim1=-2, dim2=-1).expand_as(x)

    def dense(self, width: int) -> Tensor:
        return self.matrix


def of_shape(
    value: Tensor, name: str, width: int, dims: dict[int, str], batch: int | None
) -> tuple[Tensor, int]:
    """Check that `value` has an allowed number of dimensions, each d (after P where random).

    Return it, and which number that is.
    """
    lead = 0 if batch is None else 1
    own = value.ndim - lead
    expected = (() if batch is None else (batch,)) + (width,) * own
    if own not in dims or tuple(value.shape) != expected:
        random = (
            f", one for each of P = {batch} paths (a leading dimension), as the auxiliary diffusion makes it"
            " random"
        )
        each = batch is not None and value.shape[:1] == (batch,)
        raise ValueError(
            f"{name} must be {', '.join(dims.values())} with d = {width}{'' if batch is None else random};"
            f" got shape {f'{tuple(value.shape[1:])} per path' if each else tuple(value.shape)}."
        )
    return value, own


def _deviations(variances: Tensor, name: str) -> Tensor:
    if bool((variances < 0).any()):
        raise ValueError(
            f"{name} is a variance per unit of time and must not be negative, got"
            f" {variances.min().item():.4g}."
        )
    return variances.sqrt()


def read_matrix(value: Any, name: str, width: int, batch: int | None = None) -> Structure:
    """Return the structure of dW^A from a number, (d, d), `Kronecker(R, C)` or (d, d, d, d).

    With `batch`, tensors have a leading dimension of that many paths. Raises TypeError or ValueError as the
    classes say.
    """
    if isinstance(value, Kronecker):
        for part, tensor in (("R", value.R), ("C", value.C)):
            if tensor.shape[-1] != width or (tensor.ndim == 3 and tensor.shape[0] != batch):
                paths = "" if batch is None else f" or ({batch}, {width}, {width}), one per path"
                raise ValueError(
                    f"{name}: Kronecker's {part} must be ({width}, {width}){paths}; got"
                    f" {tuple(tensor.shape)}."
                )
        return MatrixKronecker(value.R, value.C, value.row_root, value.column_root)
    names = {0: "a number", 2: "entrywise variances (d, d)", 4: "Kronecker(R, C) or a tensor (d, d, d, d)"}
    given, own = of_shape(as_tensor(value, name), name, width, names, batch)
    if own == 4:
        flat = given.flatten(-4, -3).flatten(-2)
        return MatrixTensor(given, symmetric_root(flat, f"{name}, read as a (d², d²) matrix,"))
    variances = given[..., None, None] if own == 0 else given
    return MatrixEntries(variances, _deviations(variances, name))


def read_vector(value: Any, name: str, width: int, batch: int | None = None) -> Structure:
    """Return the structure of dW^b: a number, entrywise variances (d,) or a covariance matrix (d, d)."""
    names = {0: "a number", 1: "entrywise variances (d,)", 2: "or a covariance matrix (d, d)"}
    given, own = of_shape(as_tensor(value, name), name, width, names, batch)
    if own == 2:
        return VectorMatrix(given, symmetric_root(given, name))
    variances = given[..., None] if own == 0 else given
    return VectorEntries(variances, _deviations(variances, name))
