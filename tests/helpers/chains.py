"""The limit of res-1 with autoregressive layers, and two that are wrong in one term each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch

import deeplimit as dl
from deeplimit.layers.activations import Activation, derivative, resolve


@final
@dataclass(frozen=True)
class ChainSDE(dl.SDELimit):
    """dH = √((1+ρ)/(1-ρ)) dB σ(H)/√d + ρ/((1-ρ)d) σ'(H) σ(H) dt."""

    activation: Activation
    rho: float
    width: int
    drift: bool = True
    stretched: bool = True

    @property
    def equation(self):
        return f"dH = c dB σ(H)/√d + σ'(H) σ(H) ρ/((1-ρ)d) dt, ρ = {self.rho:g}, d = {self.width}"

    def noise_size(self, h):
        return self.width**2

    def increment(self, time, step, h, noise):
        value = self.activation(h)
        size = ((1 + self.rho) / (1 - self.rho)) ** 0.5 if self.stretched else 1.0
        matrix = noise.reshape(len(h), self.width, self.width)
        moved = size * self.width**-0.5 * torch.bmm(matrix, value.unsqueeze(2)).squeeze(2)
        if not self.drift:
            return moved
        rate = self.rho / ((1 - self.rho) * self.width)
        return moved + rate * step * derivative(self.activation, h) * value


def chain_sde(activation, rho, width, **parts):
    return ChainSDE(resolve(activation), rho, width, **parts)
