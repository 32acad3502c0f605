"""Itô noise with every kind of covariance, by name."""

from __future__ import annotations

import functools

import torch

import deeplimit as dl

from .shared import TREND, WIDTH, normal


def growing(t):
    return 0.02 + 0.06 * t


def turning(t):
    rows = torch.diag(torch.tensor([0.1, 0.05, 0.02, 0.01]) * (1.0 + t))
    return dl.Kronecker(rows, 0.4 * torch.eye(WIDTH) + 0.1)


def leveraged(t, v):
    return (0.08 * torch.sigmoid(v))[:, [0, 1, 0, 1], None].expand(-1, WIDTH, WIDTH)


def restoring(t, v):
    return -2.0 * v


def shaking(t, v):
    return 2.0 * torch.ones_like(v)


@functools.cache
def noises():
    """Noise with every kind of covariance, by name."""
    spread = normal(WIDTH**2, WIDTH**2, seed=2)
    joint = normal(WIDTH**2 + WIDTH, 3, seed=3)
    joint = 0.015 * joint @ joint.T + 0.01 * torch.eye(len(joint))
    matrix = joint[: WIDTH**2, : WIDTH**2].reshape(WIDTH, WIDTH, WIDTH, WIDTH)
    cross = joint[: WIDTH**2, WIDTH**2 :].reshape(WIDTH, WIDTH, WIDTH)
    tensor = (0.05 * spread @ spread.T / WIDTH**2).reshape(WIDTH, WIDTH, WIDTH, WIDTH)
    rows = dl.Kronecker(torch.diag(torch.tensor([0.2, 0.1, 0.05, 0.02])), 0.3 * torch.eye(WIDTH) + 0.1)
    entries = torch.linspace(0.01, 0.08, WIDTH**2).reshape(WIDTH, WIDTH)
    auxiliary = dl.AuxiliaryDiffusion(restoring, shaking, start=[0.0, 1.0], leverage=-0.7)
    return {
        "number": dl.Ito(A=0.04, b=0.1),
        "matrices-alone": dl.Ito(A=0.04),
        "biases-alone": dl.Ito(b=0.1),
        "entrywise": dl.Ito(A=entries, b=torch.linspace(0.05, 0.2, WIDTH)),
        "kronecker": dl.Ito(A=rows, b=0.02),
        "full": dl.Ito(A=tensor, b=0.1 * torch.eye(WIDTH) + 0.02),
        "cross": dl.Ito(A=matrix, b=joint[WIDTH**2 :, WIDTH**2 :], cross=cross),
        "number-of-time": dl.Ito(A=growing, b=0.1),
        "kronecker-of-time": dl.Ito(A=turning, b=0.02),
        "stochastic-volatility": dl.stochastic_volatility(A=0.04, b=0.1),
        "stochastic-volatility-kronecker": dl.stochastic_volatility(A=rows, leverage=0.3),
        "auxiliary": dl.Ito(A=leveraged, b=0.1, auxiliary=auxiliary),
        "drift": dl.Ito(A=0.04, b=0.1, drift=TREND),
    }
