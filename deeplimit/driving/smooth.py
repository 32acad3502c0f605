"""Smooth Gaussian weights: entries are independent Gaussian processes with a squared-exponential kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import final

import numpy as np
import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.driving.law import Dependence, Facts, FunctionLaw, Shape
from deeplimit.driving.path import SampledFunction

RESIDUAL_VARIANCE = 1e-13
"""The kernel's variance that the expansion leaves out, per entry, at the worst node."""


@lru_cache(maxsize=32)
def _expansion(length_scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Return Chebyshev nodes (N,) of [0, 1] and a factor F (N, R) with F Fᵀ the kernel at them.

    F is a pivoted Cholesky factor, continued until no node has more variance left than RESIDUAL_VARIANCE.
    Its rank is what the kernel needs (31 at length scale 0.1), not L + 1. Between nodes the path is the
    interpolating polynomial. The kernel is entire, so with enough nodes the polynomial is exact up to
    round-off. Interpolation at these nodes amplifies no errors; expansions in the kernel have coefficients
    of size 1e6.
    """
    count = int(np.ceil(5.0 / length_scale)) + 30
    nodes = (1.0 - np.cos((2 * np.arange(count) + 1) * np.pi / (2 * count))) / 2
    remaining = np.ones(count)
    columns: list[np.ndarray] = []
    while remaining.max() > RESIDUAL_VARIANCE and len(columns) < count:
        pivot = int(remaining.argmax())
        column = np.exp(-((nodes - nodes[pivot]) ** 2) / (2 * length_scale**2))
        for earlier in columns:
            column = column - earlier[pivot] * earlier
        column = column / np.sqrt(remaining[pivot])
        columns.append(column)
        remaining = remaining - column**2
    return nodes, np.stack(columns, axis=1)


def _interpolation(times: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Return the matrix (K, N) of barycentric interpolation from Chebyshev nodes (first kind) to `times`."""
    index = np.arange(len(nodes))
    weights = (-1.0) ** index * np.sin((2 * index + 1) * np.pi / (2 * len(nodes)))
    gap = times[:, None] - nodes[None, :]
    hit = gap == 0.0
    terms = weights / np.where(hit, 1.0, gap)
    terms = np.where(hit.any(axis=1, keepdims=True), hit, terms)
    matrix: np.ndarray = terms / terms.sum(axis=1, keepdims=True)
    return matrix


@final
@dataclass(frozen=True)
class SmoothGaussianFunction(SampledFunction):
    """Coefficients (R, P, *shape) of one block of paths in the basis of `_expansion`."""

    coefficients: Tensor
    length_scale: float

    def basis(self, times: Tensor) -> Tensor:
        """Return the R basis functions at `times` (K,) as (K, R), in float64; held constant outside [0, 1].

        An adaptive solver that is not told where to stop looks a little beyond 1, where a polynomial of high
        degree explodes.
        """
        nodes, factor = _expansion(self.length_scale)
        values = _interpolation(times.double().clamp(0.0, 1.0).cpu().numpy(), nodes) @ factor
        return torch.from_numpy(values).to(self.coefficients.device)

    def at(self, times: Tensor) -> Tensor:
        basis = self.basis(times).to(self.coefficients.dtype)
        values: Tensor = torch.tensordot(basis, self.coefficients, dims=1)
        return values


@final
@dataclass(frozen=True)
class SmoothGaussian(FunctionLaw):
    """Smooth random weights: √d × an entry is a Gaussian process with kernel exp(−(s−t)²/(2 length_scale²)).

    Sampled by a rank-revealing expansion in float64: the draw is one smooth function, the same at every
    depth, and reproduces the kernel to 1e-12. Marion et al. (2025) use length_scale = 0.1. Layer k + 1 of
    depth L reads the value at (k + 1)/L (Marion et al. 2025, (A5)).

    Raises TypeError or ValueError unless 0.005 ≤ length_scale < infinity. No depth that fits in memory
    resolves shorter ones.

    Examples:
        >>> import deeplimit as dl
        >>> dl.res1(width=4, activation="tanh", weights=dl.SmoothGaussian(length_scale=0.1)).regime().name
        'ode'
    """

    length_scale: float = field(default=0.1)

    @by_default
    def __post_init__(self) -> None:
        validation.plain_numbers(self)
        hint = "it is a time on [0, 1]."
        validation.real(self.length_scale, "length_scale", minimum=0.005, maximum=1e6, hint=hint)

    @property
    def facts(self) -> Facts:
        return Facts.of_normal_entries(
            Dependence.SMOOTH, holder=1.0, length_scale=float(self.length_scale), natural_exponent=1.0
        )

    @property
    def rank(self) -> int:
        """The number of Gaussian coefficients per entry."""
        return int(_expansion(float(self.length_scale))[1].shape[1])

    def sample(
        self,
        shape: Shape,
        paths: int,
        generator: torch.Generator,
        dtype: torch.dtype,
        device: torch.device,
    ) -> SmoothGaussianFunction:
        coefficients = torch.empty(self.rank, paths, *shape, dtype=dtype, device=device)
        coefficients.normal_(generator=generator)
        return SmoothGaussianFunction(coefficients, float(self.length_scale))

    def held_per_path(self, shape: Shape) -> int:
        return self.rank * math.prod(shape)

    def describe(self) -> str:
        return f"smooth Gaussian weights (length scale {self.length_scale:g})"
