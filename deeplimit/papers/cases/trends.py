"""Deterministic weights and inputs that several cases share."""

from __future__ import annotations

import math

import torch
from torch import Tensor

WIDTH = 4
"""The width of these trends, inputs and noises."""
_MIXING = torch.tensor(
    [[0.3, 0.8, -0.2, 0.0], [-0.6, 0.2, 0.5, 0.1], [0.1, -0.4, 0.3, 0.7], [0.2, 0.0, -0.5, -0.3]]
)
_PUSH = torch.tensor([0.5, -0.4, 0.3, 0.6])


def sphere() -> Tensor:
    """Return 64 inputs of norm 1, (64, 4).

    The quadratic drift Q pushes large states outwards, so that larger inputs would give errors of heavier
    tails.
    """
    x = torch.randn(64, WIDTH, generator=torch.Generator().manual_seed(1))
    normed: Tensor = x / x.norm(dim=1, keepdim=True)
    return normed


def mixing(t: float) -> Tensor:
    """Return Ā(t) (4, 4): entries of size 1/2 that turn with time."""
    return _MIXING * (0.6 + 0.4 * math.cos(3.0 * t))


def push(t: float) -> Tensor:
    """Return b̄(t) (4,)."""
    return _PUSH * (1.0 + 0.5 * math.sin(2.0 * t))


def weak(t: float) -> Tensor:
    """Return Ā(t) (4, 4) at half its size."""
    return 0.5 * mixing(t)


def weak_push(t: float) -> Tensor:
    """Return b̄(t) (4,) at half its size."""
    return 0.5 * push(t)


def rotation(t: float) -> Tensor:
    """Return a rotation that slows down with time, (2, 2)."""
    return torch.tensor([[0.0, 2.0 + t], [-2.0, -t]])


def shear(t: float) -> Tensor:
    """Return a matrix whose lower left corner grows with time, (2, 2)."""
    return torch.tensor([[0.4, 1.0], [-0.8 * t, -0.2]])


def shear_push(t: float) -> Tensor:
    """Return the biases beside `shear`, (2,)."""
    return torch.tensor([0.5, -0.5 * t])
