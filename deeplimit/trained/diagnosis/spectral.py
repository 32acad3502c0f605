"""Norms of convolutions as linear operators, by the Fourier transform of their kernels."""

from __future__ import annotations

import numpy as np
import torch


def spectral_norms(kernels: torch.Tensor, spatial: tuple[int, int]) -> np.ndarray:
    """Return the largest singular value of each convolution, with circular padding and stride 1.

    A circular convolution is block-diagonal in the Fourier basis, with one matrix of channels per frequency
    (Sedghi, Gupta and Long, 2019).

    Args:
        kernels: kernels (L, out, in, height, width).
        spatial: height and width of the input; at least those of the kernel.

    Returns:
        The norms (L,).

    Not checked: shapes. Zero padding changes the norm by little where the input is large.

    Examples:
        >>> import torch
        >>> spectral_norms(torch.ones(1, 1, 1, 3, 3), (8, 8)).round(6)
        array([9.])
    """
    norms = [
        torch.linalg.matrix_norm(
            torch.fft.rfft2(kernel.to(torch.float64), s=spatial).permute(2, 3, 0, 1), ord=2
        ).max()
        for kernel in kernels
    ]
    return np.array([float(norm) for norm in norms])
