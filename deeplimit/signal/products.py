"""Products of weight matrices with vectors: forwards through the layers, backwards with transposes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor

from deeplimit.driving import DrawnLayers


class Product(ABC):
    """One weight matrix of every layer, as products; `apply` runs before `transpose`, layer by layer."""

    @abstractmethod
    def apply(self, k: int, x: Tensor) -> Tensor:
        """Return layer k's matrix times x (P, d, n)."""

    @abstractmethod
    def transpose(self, k: int, v: Tensor) -> Tensor:
        """Return layer k's matrix transposed times v (P, d, n)."""

    def add(self, total: Tensor, k: int, x: Tensor) -> None:
        """Add layer k's matrix times x to `total`."""
        total += self.apply(k, x)

    def add_transpose(self, total: Tensor, k: int, v: Tensor) -> None:
        """Add layer k's matrix transposed times v to `total`."""
        total += self.transpose(k, v)


class Drawn(Product):
    """Matrices that were drawn whole, P networks at once or one for all."""

    def __init__(self, layers: Tensor, scale: float) -> None:
        self.layers = layers  # (L, P or 1, d, d)
        self.scale = scale

    def _times(self, matrix: Tensor, x: Tensor) -> Tensor:
        if len(matrix) == 1 and len(x) == 1:
            return torch.addmm(x[0], matrix[0], x[0], beta=0.0, alpha=self.scale).unsqueeze(0)
        if x.shape[2] == 1:  # torch's batched product is slow for one column
            return (matrix * x.mT).sum(dim=2, keepdim=True).mul_(self.scale)
        return torch.matmul(matrix, x).mul_(self.scale)

    def apply(self, k: int, x: Tensor) -> Tensor:
        return self._times(self.layers[k], x)

    def transpose(self, k: int, v: Tensor) -> Tensor:
        return self._times(self.layers[k].mT, v)

    def add(self, total: Tensor, k: int, x: Tensor) -> None:
        if len(total) == 1:
            total[0].addmm_(self.layers[k, 0], x[0], alpha=self.scale)
        else:
            super().add(total, k, x)

    def add_transpose(self, total: Tensor, k: int, v: Tensor) -> None:
        if len(total) == 1:
            total[0].addmm_(self.layers[k, 0].T, v[0], alpha=self.scale)
        else:
            super().add_transpose(total, k, v)


class GaussianInLaw(Product):
    """I.i.d. Gaussian matrices, N(0, 1/d) per entry, known by products: 2d normals per layer, not d².

    Let unit vectors x and v be known before the matrix G is. Then G x = g is N(0, I/d), and given g, Gᵀ v is
    x (g·v) + (I - x xᵀ) ξ with ξ ~ N(0, I/d). The gradient that arrives at layer k depends on its matrix only
    through g, so forward pass and gradient have the joint law of whole matrices. One vector per network.
    """

    def __init__(
        self, depth: int, shape: tuple[int, int], generator: torch.Generator, dtype: torch.dtype
    ) -> None:
        self.generator = generator
        self.root = math.sqrt(shape[1])
        self.directions = torch.empty(depth, *shape, 1, dtype=dtype, device=generator.device)
        self.images = torch.empty_like(self.directions)

    def apply(self, k: int, x: Tensor) -> Tensor:
        size = _size(x)
        # A vector of zeros has no direction, and its product tells nothing of the matrix.
        torch.div(x, torch.where(size > 0, size, 1.0), out=self.directions[k])
        self.images[k].normal_(0.0, 1.0 / self.root, generator=self.generator)
        result: Tensor = self.images[k] * size
        return result

    def transpose(self, k: int, v: Tensor) -> Tensor:
        direction = self.directions[k]
        size = _size(v)
        fresh = torch.empty_like(v).normal_(0.0, 1.0 / self.root, generator=self.generator).mul_(size)
        along = (self.images[k] * v).addcmul_(direction, fresh, value=-1.0).sum(dim=1, keepdim=True)
        result: Tensor = fresh.addcmul_(direction, along)
        return result


def _size(x: Tensor) -> Tensor:
    """Return |x| (P, 1, n); squares of numbers that float32 holds need not be such numbers."""
    size: Tensor = torch.linalg.vector_norm(x, dim=1, keepdim=True, dtype=torch.float64)
    return size.to(x.dtype)


class Zero(Product):
    """A weight that is 0: noise in the biases alone, say."""

    def apply(self, k: int, x: Tensor) -> Tensor:
        return torch.zeros_like(x)

    def transpose(self, k: int, v: Tensor) -> Tensor:
        return torch.zeros_like(v)


def drawn_product(drawn: DrawnLayers) -> Product:
    """Return the products with layers that were drawn whole."""
    return Zero() if drawn.matrices is None else Drawn(drawn.matrices, drawn.scale)
