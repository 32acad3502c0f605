"""A d × d Brownian motion, known only through its products with vectors: ~2d normals a step in place of d².

The increment ΔB_k over a fine step multiplies the reference's vector u_k and, over their own longer layers, a vector v_c of each
network (a *column*). All these products are jointly Gaussian given the vectors, so they can be drawn without the matrix:

* ΔB_k e_k = √Δ ξ_k with e_k = u_k/|u_k| and d fresh normals ξ_k. It tells column c the part (e_k·v_c) √Δ ξ_k of its product.
* What it does not tell is ΔB_k r_c, r_c = v_c - (e_k·v_c) e_k. Over a layer these add up to N(0, ρ² I), ρ² = Σ Δ |r_c|², which is
  drawn when the layer ends: ρ ζ with d fresh normals ζ.
* That draw in turn tells the other columns, whose layers still run, a part of theirs. They overlap in Σ Δ r_c·r_o = R_c·v_o,
  R_c = Σ Δ r_c, since v_o was constant all the while: one step of a Cholesky elimination.

The r_c are formed explicitly. Their squares could be had from |v|² - (e·v)², but deep networks follow the reference closely, and
the difference would be rounding.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

FLOOR = 8.0
"""A column's residual below so many roundings of its vector is rounding itself, and tells the others nothing."""


class Normals:
    """Standard normals in a fixed order, drawn several tensors at a time; the last ones may be left over."""

    ahead = 16

    def __init__(self, shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype) -> None:
        self.drawn = torch.empty(self.ahead, *shape, dtype=dtype, device=generator.device)
        self.generator = generator
        self.used = self.ahead

    def next(self) -> Tensor:
        """Return the next tensor; it is overwritten after `ahead` more calls."""
        if self.used == self.ahead:
            self.drawn.normal_(generator=self.generator)
            self.used = 0
        self.used += 1
        return self.drawn[self.used - 1]


class Products:
    """What is known of the running layers' products, for columns 0 … C - 1 on P paths; vectors are (d, P), paths innermost."""

    def __init__(self, columns: int, like: Tensor) -> None:
        width, paths = like.shape
        self.held = like.new_zeros(columns, width, paths)  # v_c
        # One tensor, so that one operation clears a column: known part of the product, R_c, and ρ².
        self.running = like.new_zeros(columns, 2 * width + 1, paths)
        self.known, self.rest = self.running[:, :width], self.running[:, width : 2 * width]
        self.left = self.running[:, 2 * width]
        self.tiny = torch.finfo(like.dtype).tiny
        self.relative = (FLOOR * torch.finfo(like.dtype).eps) ** 2
        self.size = like.new_zeros(paths)  # |u|², the scale of rounding

    def hold(self, column: int, vector: Tensor) -> None:
        """Begin a layer of a column, which multiplies `vector` (d, P) from now on until it is taken."""
        self.held[column].copy_(vector)

    def pass_over(self, vector: Tensor, normals: Tensor, step: float) -> Tensor:
        """Move all columns over a fine step on which the reference multiplies `vector`; return its own product."""
        root = math.sqrt(step)
        torch.sum(vector * vector, dim=0, out=self.size)
        length = self.size.sqrt()
        direction = vector / length.clamp(min=self.tiny)
        along = (self.held * direction).sum(dim=1, keepdim=True)
        self.known.addcmul_(along, normals, value=root)
        residual = torch.addcmul(self.held, along, direction, value=-1.0)
        self.rest.add_(residual, alpha=step)
        self.left.add_(residual.mul_(residual).sum(dim=1), alpha=step)
        return normals * (length * root)

    def take(self, column: int, normals: Tensor, others: list[slice], duration: float) -> Tensor:
        """End a layer that lasted for `duration`: return its product, and tell the columns `others`, whose layers still run."""
        left = self.left[column].clamp(min=0.0)
        deviation = left.sqrt()
        product = torch.addcmul(self.known[column], normals, deviation)
        if others:
            floor = torch.add(left, self.size, alpha=self.relative * duration).add_(self.tiny)
            told = self.rest[column] * (deviation / floor)
            for other in others:
                share = (self.held[other] * told).sum(dim=1, keepdim=True)
                self.known[other].addcmul_(share, normals)
                self.rest[other].addcmul_(share, told, value=-1.0)
                self.left[other].sub_(share.squeeze(1).square())
        self.running[column].zero_()
        return product
