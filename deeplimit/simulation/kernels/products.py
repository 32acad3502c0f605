"""A d × d Brownian motion known only through products with vectors: about 2d normals per step, not d².

The increment ΔB_k over a fine step multiplies the reference solution's vector u_k. Over its longer layer,
each network (a *column*) multiplies a vector v_c. All these products are jointly Gaussian given the vectors,
so they can be drawn without the matrix:

* ΔB_k e_k = √Δ ξ_k with e_k = u_k/|u_k| and d new normals ξ_k. It gives column c the part (e_k·v_c) √Δ ξ_k
  of its product.
* The remainder is ΔB_k r_c, r_c = v_c - (e_k·v_c) e_k. Over the running layers remainders add up to Gaussian
  vectors with covariances M_co I, where M_co sums Δ r_c·r_o over the steps that both layers contain. When
  the layer of c ends, its part is drawn: √M_cc ζ with d new normals ζ.
* That draw gives every other column M_co/√M_cc ζ, and leaves M_op - M_oc M_cp/M_cc: one step of a Cholesky
  elimination.

The r_c are formed explicitly: networks stay close to the reference solution, and |v|² - (e·v)² would be
round-off. Vectors are held in units of their largest entry, so that squares neither overflow nor vanish. A
vector that is not finite is held as 0 with a unit that is not finite. That column's product is then lost, and
other columns are not affected.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

FLOOR = 8.0
"""After Gram–Schmidt, a remainder smaller than FLOOR · eps · |v| is treated as zero."""
MARGIN = 16.0
"""Diagonal jitter, in units of machine epsilon times each remainder's variance.

It keeps the overlap matrix positive definite when two remainders are nearly dependent, so that Cholesky
elimination without pivoting stays accurate.
"""


class Normals:
    """Standard normals in a fixed order, drawn several tensors at a time; the last ones may be left over."""

    ahead = 16

    def __init__(self, shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype) -> None:
        self.drawn = torch.empty(self.ahead, *shape, dtype=dtype, device=generator.device)
        self.taken = self.drawn[:0]
        self.generator = generator
        self.used = self.ahead

    def next(self) -> Tensor:
        """Return the next tensor; it is overwritten after `ahead` more calls."""
        if self.used == self.ahead:
            self.drawn.normal_(generator=self.generator)
            self.used = 0
        self.used += 1
        return self.drawn[self.used - 1]

    def take(self, count: int) -> Tensor:
        """Return the next `count` tensors, stacked; they are overwritten by the next call."""
        if len(self.taken) < count:
            self.taken = torch.empty(
                count, *self.drawn.shape[1:], dtype=self.drawn.dtype, device=self.drawn.device
            )
        have = 0
        while have < count:
            some = min(count - have, self.ahead - self.used)
            if some == 0 and count - have >= self.ahead:  # a whole batch can be drawn in its place
                some = self.ahead
                self.taken[have : have + some].normal_(generator=self.generator)
            elif some == 0:
                self.drawn.normal_(generator=self.generator)
                self.used = 0
            else:
                self.taken[have : have + some] = self.drawn[self.used : self.used + some]
                self.used += some
            have += some
        return self.taken[:count]


class Products:
    """What is known of the running layers' products, for columns 0 … C - 1 on P paths; vectors are (d, P)."""

    def __init__(self, columns: int, like: Tensor) -> None:
        width, paths = like.shape
        # v_c, and so all below, in units of v_c's largest entry
        self.held = like.new_zeros(columns, width, paths)
        self.units = like.new_zeros(columns, paths)
        self.known = like.new_zeros(columns, width, paths)  # the part of the product that has been told
        self.overlap = like.new_zeros(paths, columns, columns)  # M
        self.tiny = torch.finfo(like.dtype).tiny
        self.margin = MARGIN * torch.finfo(like.dtype).eps
        self.rounding = FLOOR * torch.finfo(like.dtype).eps

    def hold(self, column: int, vector: Tensor) -> None:
        """Begin a layer of a column, which multiplies `vector` (d, P) from now on until it is taken."""
        self.units[column], self.held[column] = self._scaled(vector)

    def _scaled(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        unit = vector.abs().amax(dim=0).clamp(min=self.tiny)
        return unit, (vector / unit).nan_to_num_(0.0)

    def _direction(self, vector: Tensor, before: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Return the unit vector along the part of `vector` orthogonal to `before`, and that part's norm."""
        length = (vector * vector).sum(dim=0).sqrt()
        rest, least = vector, self.rounding * length
        for direction in before * 2:  # twice is enough, as always with Gram-Schmidt
            rest = rest - (rest * direction).sum(dim=0) * direction
        if before:
            length = (rest * rest).sum(dim=0).sqrt()
            # What rounding leaves of a multiple is no direction.
            length = torch.where(length > least, length, 0.0)
            rest = torch.where(length > 0.0, rest, 0.0)
        return rest / length.clamp(min=self.tiny), length

    def pass_over(self, vectors: list[Tensor], normals: list[Tensor], step: float) -> list[Tensor]:
        """Move all columns over a fine step; return the products with the references' `vectors`.

        There is a reference for each input that goes through the network, and normals (d, P) for each.
        """
        root = math.sqrt(step)
        directions: list[Tensor] = []
        products = []
        residual = self.held
        for vector, fresh in zip(vectors, normals, strict=True):
            unit, scaled = self._scaled(vector)
            direction, length = self._direction(scaled, directions)
            product = fresh * (length * root)
            for earlier, told in zip(directions, normals, strict=False):
                product.addcmul_((scaled * earlier).sum(dim=0), told, value=root)
            products.append(product * unit)
            directions.append(direction)
            along = (residual * direction).sum(dim=1, keepdim=True)
            self.known.addcmul_(along, fresh, value=root)
            residual = torch.addcmul(residual, along, direction, value=-1.0)
        residual = residual.permute(2, 0, 1).contiguous()
        self.overlap.baddbmm_(residual, residual.mT, alpha=step)
        torch.diagonal(self.overlap, dim1=1, dim2=2).add_(
            residual.square().sum(dim=2), alpha=step * self.margin
        )
        return products

    def take(self, column: int, normals: Tensor) -> Tensor:
        """End a column's layer: return its product, and update the columns whose layers overlap with it."""
        left = self.overlap[:, column, column].clamp(min=0.0)
        deviation = left.sqrt()
        product = torch.addcmul(self.known[column], normals, deviation) * self.units[column]
        # Over very many steps sums lose more than the margin; nobody then hears more than Cauchy and Schwarz
        # allow.
        most = torch.diagonal(self.overlap, dim1=1, dim2=2).clamp(min=0.0).sqrt()
        weight = torch.where(left > 0.0, 1.0 / deviation, 0.0)
        share = torch.clamp(self.overlap[:, column] * weight[:, None], -most, most)
        self.known.addcmul_(share.T[:, None], normals)
        self.overlap.sub_(share[:, :, None] * share[:, None])
        self.overlap[:, column] = self.overlap[:, :, column] = 0.0
        self.known[column] = 0.0
        return product
