"""Trajectories that need of the matrix noise only its product with one vector per step.

States are (P, d), held in memory with paths innermost, which elementwise operations keep.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

from deeplimit.driving import Factors, Ito
from deeplimit.driving.covariance_rate import Rate
from deeplimit.layers.activations import Activation

FunctionValue = tuple[Tensor, Tensor | None] | None
"""Ā (1 or P, d, d) and b̄ (1 or P, d) at one time; None where there is no trend."""


class Motion(IntEnum):
    """The forms of a step that compiled loops know; the numbers enter compiled code."""

    LINEAR = 0
    """h + product · (M σ(h))."""
    BRANCH = 1
    """h + outer · σ(product · (M h) + bias)."""
    ITO = 2
    """h + product · (M h) + bias + outer · step · (energy |h|² + spread)."""


@dataclass(frozen=True)
class CompiledStep:
    """One trajectory's step as the numbers that compiled loops need.

    Attributes:
        motion: The form of the step.
        activation: σ of a LINEAR or BRANCH step; None where it has none.
        product: Factor of the matrix noise's product.
        bias: Standard deviations of the bias noise (d,) in float32 or float64; zeros where there is none.
        outer: Factor of σ (BRANCH), or ½σ''(0) (ITO).
        energy: Variance of a matrix entry, which Q multiplies |h|² by (ITO).
        spread: Variances of the bias noise (d,).
    """

    motion: Motion
    activation: Activation | None
    product: float
    bias: Tensor
    outer: float
    energy: float
    spread: Tensor


class Stepper(ABC):
    """One trajectory: at a step's start it names the vector for the Brownian matrix, at its end it moves."""

    reads_limit_trend = True
    """Whether the trend that it reads is the limit's; a network reads its own."""

    def __init__(self, state: Tensor, factors: Factors, noise: Ito | None) -> None:
        self.state = state
        self.factors = factors.to(state.dtype, state.device)
        self.rate: Rate | None = None
        if noise is not None:
            self.rate = noise.rate(0.0, state.shape[1]).to(state.dtype, state.device)
        self.trend: FunctionValue = None

    @abstractmethod
    def operand(self, length: float) -> Tensor:
        """Return the vector (P, d) that the matrix noise multiplies over a step of this length."""

    @abstractmethod
    def step(self, product: Tensor, bias: Tensor | None, length: float, trend: FunctionValue) -> Tensor:
        """Return the next state, from the matrix noise's product, the bias noise and the trend at its end."""

    @abstractmethod
    def compiled_step(self) -> CompiledStep | None:
        """Return this step for compiled loops; None where they do not know it."""

    def multiplied(self, trend: FunctionValue, length: float) -> Tensor:
        """Begin a step, at whose start the trend is `trend`."""
        self.trend = trend
        return Factors.apply(self.factors.columns, self.operand(length))

    def move(self, product: Tensor, bias: Tensor | None, length: float, trend: FunctionValue) -> None:
        """End a step, given the Brownian matrix's product and the biases' Brownian motion, both (P, d)."""
        if bias is not None and self.rate is not None:
            bias = self.rate.spread_bias(bias)
        self.state = self.step(Factors.apply(self.factors.rows, product), bias, length, trend)

    @property
    def factor(self) -> float:
        """The product of row and column factor, where both are numbers."""
        return float(self.factors.rows) * float(self.factors.columns)

    def bias_entries(self) -> tuple[Tensor, Tensor] | None:
        """Return standard deviations and variances (d,) of the bias noise; None where its entries covary.

        Zeros where there is no bias noise.
        """
        width = self.state.shape[1]
        if self.rate is None:
            return torch.zeros(width), torch.zeros(width)
        entries = self.rate.bias_entries()
        return None if entries is None else (entries[0].expand(width), entries[1].expand(width))
