"""res-1, res-2, res-3 ([M] Table 1) and the inner recursion ([M] Remark 2; fully connected, [C] (1))."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import torch
from torch import Tensor

from deeplimit.activations import Activation, derivative

T = TypeVar("T")


def matvec(matrix: Tensor, vector: Tensor) -> Tensor:
    """Return a matrix, (1, d, d) for all paths or (P, d, d), times `vector` (P, d)."""
    if matrix.shape[0] == 1:
        return vector @ matrix[0].T
    # On a CPU rows times matrices are several times faster than matrices times columns, and never slower.
    return torch.bmm(vector.unsqueeze(1), matrix.mT).squeeze(1)


@dataclass(frozen=True)
class Layer:
    """One weight matrix of one layer, unscaled as its path gave it; scaling vectors is d times cheaper
    than matrices.
    """

    matrix: Tensor | None  # (P, d, d), or (1, d, d) for all paths; None for 0
    depth: int
    layer_exponent: float
    entry_scale: float
    bias: Tensor | None = None  # (P, d) or (1, d)

    def apply(self, vector: Tensor, residual_exponent: float = 0.0) -> Tensor:
        """Return depth**-residual_exponent times this weight times `vector` (P, d).

        The two powers of the depth are joined before they are taken: at the critical exponent their
        product is exactly 1, and the network is the Euler-Maruyama scheme bit for bit.
        """
        return self.product(vector) * self.scale(residual_exponent)

    def product(self, vector: Tensor) -> Tensor:
        """Return this weight, unscaled, times `vector` (P, d)."""
        return torch.zeros_like(vector) if self.matrix is None else matvec(self.matrix, vector)

    def scale(self, residual_exponent: float = 0.0) -> float:
        """Return what `apply` multiplies the unscaled product by."""
        return math.pow(self.depth, self.layer_exponent - residual_exponent) * self.entry_scale


@dataclass(frozen=True)
class Recursion(ABC):
    """h_{k+1} = h_k + residual(h_k, layer k + 1), with `matrices` weight matrices a layer."""

    activation: Activation
    name: ClassVar[str]
    formula: ClassVar[str]
    matrices: ClassVar[int]
    is_euler: ClassVar[bool] = (
        False  # whether the residual is linear in the weights, and so a step of Euler-Maruyama
    )

    @abstractmethod
    def residual(self, h: Tensor, layers: tuple[Layer, ...], exponent: float) -> Tensor:
        """Return what the layer adds to h (P, d), the factor depth**-exponent included."""


@dataclass(frozen=True)
class PlainBranch(Recursion):
    """h + α V σ(W h + b) with V or W left out: one activation, and at most one matrix on either side of
    it.
    """

    @staticmethod
    @abstractmethod
    def sides(of_matrices: Sequence[T]) -> tuple[T | None, T | None]:
        """Return, of things given one for each weight matrix, that of the matrix outside σ and that of the
        one inside.
        """


@dataclass(frozen=True)
class OneProduct(PlainBranch):
    """A plain branch with one weight matrix, of which it needs to know one product only: its weight times
    `operand(h)`.

    `operand` and `finish` act entry by entry.
    """

    @abstractmethod
    def operand(self, h: Tensor) -> Tensor:
        """Return the vector that the weight matrix multiplies."""

    @abstractmethod
    def finish(self, product: Tensor, layer: Layer, exponent: float) -> Tensor:
        """Return the residual for the unscaled product of the layer's matrix with `operand(h)`; the matrix
        is not read.
        """

    def residual(self, h: Tensor, layers: tuple[Layer, ...], exponent: float) -> Tensor:
        (layer,) = layers
        return self.finish(layer.product(self.operand(h)), layer, exponent)


@dataclass(frozen=True)
class Res1(OneProduct):
    """h + L^-β V σ(h)."""

    name: ClassVar[str] = "res1"
    formula: ClassVar[str] = "h + L^-β V σ(h)"
    matrices: ClassVar[int] = 1
    is_euler: ClassVar[bool] = True

    @staticmethod
    def sides(of_matrices: Sequence[T]) -> tuple[T | None, T | None]:
        return of_matrices[0], None

    def operand(self, h: Tensor) -> Tensor:
        return self.activation(h)

    def finish(self, product: Tensor, layer: Layer, exponent: float) -> Tensor:
        return product * layer.scale(exponent)


@dataclass(frozen=True)
class ModifiedRes1(Recursion):
    """h + L^-β V σ(h) + ½ L^-2β σ'(h) σ(h)/d: res-1 with the mean of the second-order term that it leaves
    out.

    Over a layer the solution of dH = dV σ(H) moves by V σ(h) + ½ Σ_j V_ij σ'(h_j) Σ_k V_jk σ(h_k) + …; for
    independent entries of variance 1/d only j = k = i has a mean, σ'(h_i) σ(h_i)/d. With increments of
    fractional Brownian motion and β = H this is the modified Euler scheme of Hu, Liu and Nualart (2016).
    """

    name: ClassVar[str] = "modified res1"
    formula: ClassVar[str] = "h + L^-β V σ(h) + ½ L^-2β σ'(h) σ(h)/d"
    matrices: ClassVar[int] = 1

    def residual(self, h: Tensor, layers: tuple[Layer, ...], exponent: float) -> Tensor:
        (v,) = layers
        value = self.activation(h)
        mean_square = (math.pow(v.depth, -exponent) * v.entry_scale) ** 2
        return v.apply(value, exponent) + 0.5 * mean_square * derivative(self.activation, h) * value


@dataclass(frozen=True)
class Res2(PlainBranch):
    """h + L^-β V σ(W h)."""

    name: ClassVar[str] = "res2"
    formula: ClassVar[str] = "h + L^-β V σ(W h)"
    matrices: ClassVar[int] = 2

    @staticmethod
    def sides(of_matrices: Sequence[T]) -> tuple[T | None, T | None]:
        return of_matrices[0], of_matrices[1]

    def residual(self, h: Tensor, layers: tuple[Layer, ...], exponent: float) -> Tensor:
        v, w = layers
        return v.apply(self.activation(w.apply(h)), exponent)


@dataclass(frozen=True)
class Res3(Res2):
    """h + L^-β V ReLU(W h): res-2 with the one activation that breaks res-2's assumption."""

    name: ClassVar[str] = "res3"
    formula: ClassVar[str] = "h + L^-β V ReLU(W h)"


@dataclass(frozen=True)
class Inner(OneProduct):
    """h + L^-β σ(W h + b)."""

    name: ClassVar[str] = "inner"
    formula: ClassVar[str] = "h + L^-β σ(W h + b)"
    matrices: ClassVar[int] = 1

    @staticmethod
    def sides(of_matrices: Sequence[T]) -> tuple[T | None, T | None]:
        return None, of_matrices[0]

    def operand(self, h: Tensor) -> Tensor:
        return h

    def finish(self, product: Tensor, layer: Layer, exponent: float) -> Tensor:
        inside = product * layer.scale()
        if layer.bias is not None:
            inside = inside + layer.bias
        return self.activation(inside) * math.pow(layer.depth, -exponent)
