"""Noise in the weights, with every kind of covariance rate that `Ito` takes."""

from __future__ import annotations

import torch
from torch import Tensor

from deeplimit.driving import AuxiliaryDiffusion, Ito, Kronecker, Trend, stochastic_volatility
from deeplimit.papers.cases.trends import WIDTH, weak, weak_push


def _growing(t: float) -> float:
    return 0.02 + 0.06 * t


def _turning(t: float) -> Kronecker:
    rows = torch.diag(torch.tensor([0.1, 0.05, 0.02, 0.01]) * (1.0 + t))
    return Kronecker(rows, 0.4 * torch.eye(WIDTH) + 0.1)


def _leveraged(t: float, v: Tensor) -> Tensor:
    """Return entrywise variances that follow two auxiliary factors, for even and for odd rows."""
    factors: Tensor = 0.08 * torch.sigmoid(v)
    return factors[:, [0, 1, 0, 1], None].expand(-1, WIDTH, WIDTH)


def _restoring(t: float, v: Tensor) -> Tensor:
    return -2.0 * v


def _shaking(t: float, v: Tensor) -> Tensor:
    return 2.0 * torch.ones_like(v)


def covariances() -> dict[str, Ito]:
    """Return noise with every kind of covariance, by name; reproducible and of similar size."""
    generator = torch.Generator().manual_seed(0)
    spread = torch.randn(WIDTH**2, WIDTH**2, generator=generator)
    # Of rank 3, so that W^A and W^b covary strongly.
    joint = torch.randn(WIDTH**2 + WIDTH, 3, generator=generator)
    joint = 0.015 * joint @ joint.T
    matrix = joint[: WIDTH**2, : WIDTH**2].reshape(WIDTH, WIDTH, WIDTH, WIDTH)
    cross = joint[: WIDTH**2, WIDTH**2 :].reshape(WIDTH, WIDTH, WIDTH)
    tensor = (0.05 * spread @ spread.T / WIDTH**2).reshape(WIDTH, WIDTH, WIDTH, WIDTH)
    rows = Kronecker(torch.diag(torch.tensor([0.2, 0.1, 0.05, 0.02])), 0.3 * torch.eye(WIDTH) + 0.1)
    auxiliary = AuxiliaryDiffusion(_restoring, _shaking, start=[0.0, 1.0], leverage=-0.7)
    return {
        "one variance": Ito(A=0.04, b=0.1),
        "entrywise variances": Ito(
            A=torch.linspace(0.01, 0.08, WIDTH**2).reshape(WIDTH, WIDTH), b=torch.linspace(0.05, 0.2, WIDTH)
        ),
        "rows and columns": Ito(A=rows, b=0.02),
        "full tensor": Ito(A=tensor, b=0.1),
        "W^A and W^b covary": Ito(A=matrix, b=joint[WIDTH**2 :, WIDTH**2 :], cross=cross),
        "variance of time": Ito(A=_growing, b=0.1),
        "rows of time": Ito(A=_turning, b=0.02),
        "stochastic volatility": stochastic_volatility(A=0.04, b=0.1),
        "two random factors": Ito(A=_leveraged, b=0.1, auxiliary=auxiliary),
        "with drift": Ito(A=0.04, b=0.1, drift=Trend(weak, weak_push)),
    }
