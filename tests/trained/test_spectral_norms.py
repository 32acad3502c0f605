"""Norms of convolutions as linear operators: by Fourier transform, and by the matrix of the operator."""

import numpy as np
import pytest
import torch

import deeplimit as dl
from deeplimit.trained.diagnosis.spectral import spectral_norms


def operator(kernel, size):
    """Return the matrix of a circular convolution, one column per unit image."""
    channels, *window = kernel.shape[1:]
    height, width = size
    units = torch.eye(channels * height * width, dtype=torch.float64).reshape(-1, channels, height, width)
    padded = torch.nn.functional.pad(units, (0, window[1] - 1, 0, window[0] - 1), mode="circular")
    return torch.nn.functional.conv2d(padded, kernel).reshape(len(units), -1)


@pytest.mark.parametrize("size", [(5, 5), (4, 7), (6, 4)])
def test_the_norm_is_that_of_the_operators_matrix(size):
    kernels = torch.randn(3, 4, 2, 3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    known = [float(torch.linalg.matrix_norm(operator(kernel, size), ord=2)) for kernel in kernels]
    np.testing.assert_allclose(spectral_norms(kernels, size), known, rtol=1e-10)


def test_a_sweep_of_convolutions_has_norms_of_operators():
    rng = np.random.default_rng(0)
    kernel = rng.normal(size=(2, 2, 3, 3))
    weights = {
        L: {"A": L**-0.4 * kernel * (2 + np.cos(np.arange(L) / L))[:, None, None, None, None]}
        for L in (8, 16, 32)
    }
    report = dl.diagnose(weights, spatial=(6, 6))
    wanted = 3 * 8**-0.4 * spectral_norms(torch.as_tensor(kernel)[None], (6, 6))[0]
    assert report.norms["A"]["maximum"].values[0] == pytest.approx(wanted)
    assert report.verdict == "linear-ode"
    assert report.beta == pytest.approx(0.4, abs=0.01)
