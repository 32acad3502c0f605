"""Smooth Gaussian weights: entries are independent centred Gaussian processes with a squared-exponential kernel."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from deeplimit import validation
from deeplimit.processes.base import FunctionPath, FunctionProcess

RESIDUAL_VARIANCE = 1e-13
"""The kernel's variance that the expansion leaves out, per entry, at the worst time in [0, 1]."""


@lru_cache(maxsize=32)
def _pivots(length_scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the pivots (R,) and the lower triangular factor (R, R) of the kernel at them.

    A Cholesky factorisation with pivots chosen on a fine grid of candidates, continued until no candidate has more
    variance left than RESIDUAL_VARIANCE: the rank is what the kernel needs (32 at length scale 0.1), not L + 1.
    """
    candidates = np.linspace(0.0, 1.0, max(513, int(32 / length_scale) + 1))
    remaining = np.ones_like(candidates)
    rows: list[np.ndarray] = []
    chosen: list[int] = []
    while remaining.max() > RESIDUAL_VARIANCE:
        pivot = int(remaining.argmax())
        row = np.exp(-((candidates - candidates[pivot]) ** 2) / (2 * length_scale**2))
        for earlier in rows:
            row = row - earlier[pivot] * earlier
        row = row / np.sqrt(remaining[pivot])
        rows.append(row)
        chosen.append(pivot)
        remaining = remaining - row**2
    factor = np.stack(rows, axis=1)[chosen]  # (R, R), lower triangular up to rounding
    return candidates[chosen], np.tril(factor)


@dataclass(frozen=True)
class SmoothGaussianPath(FunctionPath):
    """Coefficients (R, P, d, d) of one block in the basis of the kernel's pivoted Cholesky factor."""

    coefficients: Tensor
    pivots: Tensor
    factor: Tensor
    length_scale: float

    def basis(self, times: Tensor) -> Tensor:
        """Return the R basis functions at `times` (K,) as (K, R), in float64."""
        kernel = torch.exp(-((times.double()[None, :] - self.pivots[:, None]) ** 2) / (2 * self.length_scale**2))
        basis: Tensor = torch.linalg.solve_triangular(self.factor, kernel, upper=False).T
        return basis

    def at(self, times: Tensor) -> Tensor:
        basis = self.basis(times).to(self.coefficients.dtype)
        values: Tensor = torch.tensordot(basis, self.coefficients, dims=1)
        return values


@dataclass(frozen=True)
class SmoothGaussian(FunctionProcess):
    """Smooth random weights: √d times each entry is a Gaussian process with kernel exp(−(s−t)²/(2 length_scale²)).

    Sampled by a rank-revealing expansion in float64: the draw is one smooth function, the same at every depth, with the
    kernel reproduced to 1e-13 at every time. [M] uses length_scale = 0.1. Layer k + 1 of depth L reads the value at
    (k + 1)/L ([M] (A5)).

    Raises TypeError or ValueError unless 0.005 ≤ length_scale < infinity: shorter ones are rougher than any depth that
    fits in memory resolves.

    Example:
        >>> import deeplimit as dl
        >>> dl.res1(width=4, activation="tanh", weights=dl.SmoothGaussian(length_scale=0.1)).regime().name
        'ode'
    """

    length_scale: float = field(default=0.1)

    def __post_init__(self) -> None:
        validation.real(self.length_scale, "length_scale", minimum=0.005, hint="It is a time on [0, 1].")

    @property
    def rank(self) -> int:
        """The number of Gaussian coefficients per entry."""
        return len(_pivots(float(self.length_scale))[0])

    def sample(
        self, width: int, paths: int, generator: torch.Generator, dtype: torch.dtype, device: torch.device
    ) -> SmoothGaussianPath:
        pivots, factor = _pivots(float(self.length_scale))
        coefficients = torch.empty(len(pivots), paths, width, width, dtype=dtype, device=device)
        coefficients.normal_(generator=generator)
        return SmoothGaussianPath(
            coefficients,
            torch.as_tensor(pivots, device=device),
            torch.as_tensor(factor, device=device),
            float(self.length_scale),
        )

    def numbers_per_path(self, width: int) -> int:
        return self.rank * width * width

    def describe(self) -> str:
        return f"smooth Gaussian weights (length scale {self.length_scale:g})"
