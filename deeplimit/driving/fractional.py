"""Fractional Brownian weights: layers that remember, with any Hurst index between 0 and 1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import final

import numpy as np
import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.driving.law import (
    ROUND_OFF,
    Channel,
    ChannelKind,
    Dependence,
    Facts,
    Shape,
    WeightLaw,
)
from deeplimit.driving.path import CoarseSums, DrawnLayers, Grid, Layer, Path

NUMBERS_AT_ONCE = 2**22
"""How many normals one Fourier transform takes; it bounds memory and is part of what a seed means, so it
must never change.
"""
SERIES_FROM = 32
"""The lag from which the covariance is summed as a series: differences of large powers would cancel."""


def noise_covariance(hurst: float, lags: np.ndarray) -> np.ndarray:
    """Return fractional Gaussian noise's γ(k) = ½(|k + 1|^2H - 2|k|^2H + |k - 1|^2H), in float64.

    This formula loses all digits at large lags, where k^2H cancels down to k^(2H - 2). From SERIES_FROM on
    the series k^2H Σ_j C(2H, 2j) k^-2j is used; its ninth term is below 1e-27.
    """
    k = np.abs(np.asarray(lags, dtype=np.float64))
    near = np.minimum(k, SERIES_FROM)
    direct = 0.5 * ((near + 1) ** (2 * hurst) - 2 * near ** (2 * hurst) + np.abs(near - 1) ** (2 * hurst))
    far = np.maximum(k, SERIES_FROM)
    series, binomial = np.zeros_like(far), 1.0
    for j in range(1, 9):
        for i in (2 * j - 2, 2 * j - 1):
            binomial *= (2 * hurst - i) / (i + 1)
        series += binomial * far ** (2 * hurst - 2 * j)
    covariance: np.ndarray = np.where(k < SERIES_FROM, direct, series)
    return covariance


@lru_cache(maxsize=64)
def _amplitudes(hurst: float, half: int) -> np.ndarray:
    """Return the square roots of the circulant covariance's eigenvalues (half + 1,), in float64.

    For fractional Gaussian noise none of them is negative in exact arithmetic, whatever the Hurst index.
    """
    first_row = noise_covariance(hurst, np.concatenate([np.arange(half + 1), np.arange(half - 1, 0, -1)]))
    eigenvalues = np.fft.rfft(first_row).real
    if eigenvalues.min() < -1e-10 * eigenvalues.max():
        raise ArithmeticError(
            f"the circulant embedding of fractional noise with Hurst index {hurst!r} and length {half} has"
            f" the eigenvalue {eigenvalues.min():.3g}; this should be impossible, please report it."
        )
    amplitudes: np.ndarray = np.sqrt(np.maximum(eigenvalues, 0.0))
    return amplitudes


def fractional_gaussian_noise(
    hurst: float, count: int, shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype
) -> Tensor:
    """Return stretches (count, *shape) of fractional Gaussian noise, stationary along the first axis.

    Stretches are independent; every number has variance 1.

    Exact in law by circulant embedding (Davies & Harte; Wood & Chan), but for the digits of the normals,
    which are float32: eigenvalues in float64, the transform in `dtype`.
    """
    device = generator.device
    if count == 1 or hurst == 0.5:  # noise that does not remember needs no transform
        return torch.empty(count, *shape, dtype=dtype, device=device).normal_(generator=generator)
    from scipy.fft import next_fast_len  # here: Brownian weights need not wait for it

    half = int(next_fast_len(count, real=True))
    amplitudes = torch.from_numpy(_amplitudes(hurst, half)).to(device, dtype) * math.sqrt(half)
    # There the coefficients are real, with all the variance in one part.
    amplitudes[[0, -1]] *= math.sqrt(2.0)
    columns = math.prod(shape)
    noise = torch.empty(count, columns, dtype=dtype, device=device)
    most = max(1, NUMBERS_AT_ONCE // (4 * half))
    for start in range(0, columns, most):
        width = min(most, columns - start)
        # Torch draws float64 normals five times more slowly. A last axis would be transformed in half the
        # time, and to other last bits by other numbers of threads.
        drawn = torch.empty(half + 1, width, 2, dtype=torch.float32, device=device)
        coefficients = drawn.normal_(generator=generator).to(dtype)
        del drawn
        coefficients *= amplitudes[:, None, None]
        coefficients[[0, -1], :, 1] = 0.0
        waves = torch.fft.irfft(torch.view_as_complex(coefficients), n=2 * half, dim=0)
        noise[:, start : start + width] = waves[:count]
    return noise.reshape(count, *shape)


@final
@dataclass(frozen=True)
class FractionalBrownian(WeightLaw):
    """Layers that are increments of fractional Brownian motion, Hurst index H in (0, 1) (Marion et al. 2025,
    Section 4.1).

    Entries are independent. One entry's layers are stationary, of variance 1/d, with the covariance of
    fractional Gaussian noise: positive for H > 1/2, zero at H = 1/2, negative for H < 1/2. Depth-L layers
    are L^H times the increments of one path over 1/L, so a coarse depth reads sums of the fine increments.
    Paths are sampled exactly for every H, by circulant embedding.

    The default exponent is the critical one that Figure 7 of Marion et al. (2025) finds, max(H, 1/2). At
    H = 1/2, up to the round-off of sums such as 0.7 - 0.2, a network takes `Brownian()`.

    Raises TypeError for a Hurst index that is not a number, ValueError for one outside (0, 1).

    Examples:
        >>> import deeplimit as dl
        >>> network = dl.res3(width=40, weights=dl.FractionalBrownian(hurst=0.7))
        >>> network.exponent
        0.7
    """

    hurst: float

    @by_default
    def __post_init__(self) -> None:
        validation.plain_numbers(self)
        hint = "It is a Hurst index: above 0 and below 1; 0.5 is Brownian motion."
        if validation.real(self.hurst, "hurst", above=0.0, hint=hint) >= 1.0:
            raise ValueError(f"hurst must be below 1, got {self.hurst:g}. {hint}")
        if abs(self.hurst - 0.5) <= ROUND_OFF:
            object.__setattr__(self, "hurst", 0.5)

    @property
    def facts(self) -> Facts:
        hurst = float(self.hurst)
        return Facts.of_normal_entries(Dependence.FRACTIONAL, hurst=hurst, natural_exponent=max(hurst, 0.5))

    @property
    def layer_exponent(self) -> float:
        return float(self.hurst)

    def channels(self, shape: Shape) -> tuple[Channel, ...]:
        embedding = ("davies1987",)  # circulant embedding
        held = math.prod(shape)
        return (Channel("weight", ChannelKind.FRACTIONAL, shape, held=held, citations=embedding),)

    def path(
        self, shape: Shape, grid: Grid, paths: int, generator: torch.Generator, dtype: torch.dtype
    ) -> Path:
        return FractionalPath(self, grid, shape, paths, generator, dtype)

    def draw_increments(
        self, count: int, width: int, paths: int, generator: torch.Generator, dtype: torch.dtype
    ) -> Tensor:
        """Return the increments (count, P, d, d) of one block of paths over `count` equal parts of [0, 1]."""
        noise = fractional_gaussian_noise(float(self.hurst), count, (paths, width, width), generator, dtype)
        return noise.mul_(float(count) ** -float(self.hurst))

    def describe(self) -> str:
        return f"fractional Brownian weights (H = {self.hurst:g})"


class FractionalPath(Path):
    """Holds a whole path on a grid of equal steps, since its increments depend on each other."""

    def __init__(
        self,
        law: FractionalBrownian,
        grid: Grid,
        shape: Shape,
        paths: int,
        generator: torch.Generator,
        dtype: torch.dtype,
    ) -> None:
        self.law = law
        self.depths = grid.depths
        self.scale = law.entry_scale(shape)
        self.size = float(grid.size) ** -float(law.hurst)
        self.noise = partial(
            fractional_gaussian_noise, float(law.hurst), grid.size, (paths, *shape), generator, dtype
        )
        self.increments: Tensor | None = None  # (N, P, *shape), drawn by the first step
        self.next = 0

    @property
    def increment(self) -> Tensor:
        assert self.increments is not None  # a step comes first
        return self.increments[self.next - 1]

    def advance(self, index: int) -> None:
        if self.increments is None:
            self.increments = self.noise().mul_(self.size)
            self.sums = CoarseSums(self.depths, self.increments[0])
        self.next += 1
        self.sums.add(self.increment)

    def layer(self, j: int) -> Layer:
        return Layer(self.sums.take(j), self.depths[j], self.law.layer_exponent, self.scale)

    def rewind(self) -> None:
        self.next = 0
        if self.increments is not None:
            self.sums.forget()

    def whole(self) -> DrawnLayers:
        return DrawnLayers(self.noise(), None, self.scale)
