"""What specimens of several verbs are made of: inputs, functions of time, users' limits, sums of tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

import deeplimit as dl

WIDTH = 4
MIXING = torch.tensor(
    [[0.3, 0.8, -0.2, 0.0], [-0.6, 0.2, 0.5, 0.1], [0.1, -0.4, 0.3, 0.7], [0.2, 0.0, -0.5, -0.3]]
)
PUSH = torch.tensor([0.5, -0.4, 0.3, 0.6])


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def mixing(t):
    return MIXING * (0.6 + 0.4 * math.cos(3.0 * t))


def push(t):
    return PUSH * (1.0 + 0.5 * math.sin(2.0 * t))


def rough(t):
    return MIXING * math.sqrt(t)


def skewed(shape, generator):
    return torch.empty(shape).exponential_(generator=generator) - 1


def bent(h):
    return torch.sin(2.0 * h) / 2.0


def sphere():
    x = normal(16, WIDTH, seed=1)
    return x / x.norm(dim=1, keepdim=True)


TREND = dl.Trend(mixing, push)
SMOOTH = dl.SmoothGaussian(0.2)
DEPTHS = (8, 16, 32, 64)


@dataclass(frozen=True)
class General:
    """The neural SDE of res-1 with tanh as one's own torchsde object; right where the factor is 1."""

    factor: float = 1.0
    sde_type: ClassVar[str] = "ito"
    noise_type: ClassVar[str] = "general"

    def f(self, t, y):
        return torch.zeros_like(y)

    def g_prod(self, t, y, v):
        matrices = v.reshape(len(y), y.shape[1], y.shape[1])
        product = torch.bmm(matrices, torch.tanh(y).unsqueeze(2)).squeeze(2)
        return self.factor * y.shape[1] ** -0.5 * product


def still(t, h):
    return torch.zeros_like(h)


def sums(tensors):
    """Each tensor as numbers that move with any entry, or with the order of two."""
    found = []
    for tensor in tensors:
        flat = tensor.detach().double().flatten()
        turns = torch.cos(torch.arange(len(flat), dtype=torch.float64))
        found.append([flat[0].item(), flat[-1].item(), flat.sum().item(), (flat * turns).sum().item()])
    return found
