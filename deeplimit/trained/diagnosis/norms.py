"""Sizes of layers, of their differences and of their sums, in one network of a sweep over depths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from deeplimit.trained.diagnosis.layer_gram import CHUNK
from deeplimit.trained.diagnosis.spectral import spectral_norms
from deeplimit.trained.diagnosis.stacks import Stack

BLOCKS = 64
"""Most blocks into which layers are summed before the trend is tested, so that cost is bounded."""
WAVES = 4
"""Slow components: cosines of 0, 1, 2, 3 half-turns over the network."""
ENTRIES = 2**16
"""Most entries, evenly spaced, whose slow components are kept."""
HEAD = 256
"""Most entries of the first layers that are kept, to see whether networks share draws."""
LEAST_LAYERS = 6
"""Fourth differences of fewer layers say too little."""
PUBLISHED = ("maximum", "increments", "cumulative sum", "root sum of squares")
"""Quantities of Table 1 of Cohen et al. (2021)."""
REPAIRED = ("root mean square", "sup of partial sums", "D", "D2", "D4", "participation ratio")
"""Quantities that decide where those of Table 1 mislead.

D² and D2² are sums of squared first and second differences over 2 and 6; for independent layers about the sum
of squares. D4² is that of fourth differences over 70, scaled up for the four layers that have none.
"""
QUANTITIES = (*PUBLISHED, *REPAIRED)


@final
@dataclass(frozen=True, eq=False)
class LayerNorms:
    """Norms of one stack with L layers.

    Attributes:
        sizes: norms of the layers (L,).
        increments: norms of A_{k+1} - A_k (L - 1,).
        partial_sums: norms of A_0 + ... + A_k (L,).
        squares: squared Frobenius norms of the layers (L,).
        first, second, fourth: sums of squared Frobenius norms of differences of these orders.
        apart: products of fourth differences that share no layer (J, J), J <= BLOCKS.
        block_products: products of the sums over blocks of neighbouring layers (K, K), K <= BLOCKS.
        waves: sums over layers of cosines of 0, 1, ... half-turns times the entries (WAVES, M), of at most
            ENTRIES entries.
        heads: first entries of the first two layers (2, E), E <= HEAD.
        rounding: round-off of one entry relative to it, of the precision in which the layers were given.
    """

    sizes: np.ndarray
    increments: np.ndarray
    partial_sums: np.ndarray
    squares: np.ndarray
    first: float
    second: float
    fourth: float
    apart: np.ndarray
    block_products: np.ndarray
    waves: np.ndarray
    heads: np.ndarray
    rounding: float

    @classmethod
    def of(cls, stack: Stack, spatial: tuple[int, int] | None = None) -> LayerNorms:
        """Return the norms of a stack, in float64 over chunks of entries.

        Args:
            stack: at least LEAST_LAYERS layers.
            spatial: height and width of the input of convolutions (L, out, in, h, w). Sizes, increments and
                partial sums are then norms of the linear operator. Without it they are Frobenius norms.

        Returns:
            The norms.

        Not checked: that entries are finite, and that they are in the range of float64's squares.

        Examples:
            >>> import torch
            >>> norms = LayerNorms.of(Stack("A", torch.ones(6, 2, 2)))
            >>> norms.partial_sums.tolist(), norms.first
            ([2.0, 4.0, 6.0, 8.0, 10.0, 12.0], 0.0)
        """
        depth = stack.depth
        flat = stack.values.reshape(depth, -1)
        squares, increments, partial_sums = np.zeros(depth), np.zeros(depth - 1), np.zeros(depth)
        second = fourth = 0.0
        apart = np.zeros(())
        starts = np.linspace(0, depth, min(depth, BLOCKS) + 1).astype(int)[:-1]
        products = np.zeros((len(starts), len(starts)))
        times = (np.arange(depth) + 0.5) / depth
        cosines = np.cos(np.pi * np.outer(np.arange(WAVES), times))
        every = -(-flat.shape[1] // ENTRIES)
        waves = cosines @ flat[:, ::every].to(torch.float64).numpy()
        width = max(1, CHUNK // depth)
        for begin in range(0, flat.shape[1], width):
            part = flat[:, begin : begin + width].to(torch.float64).numpy()
            change = np.diff(part, axis=0)
            squares += (part**2).sum(axis=1)
            increments += (change**2).sum(axis=1)
            partial_sums += (np.cumsum(part, axis=0) ** 2).sum(axis=1)
            bends = np.diff(change, axis=0)
            second += float((bends**2).sum())
            fourths = np.diff(bends, n=2, axis=0)
            fourth += float((fourths**2).sum())
            some = fourths[::5][:BLOCKS]
            apart = apart + some @ some.T
            sums = np.add.reduceat(part, starts, axis=0)
            products += sums @ sums.T
        first = float(increments.sum())
        norms = [np.sqrt(squares), np.sqrt(increments), np.sqrt(partial_sums)]
        if spatial is not None:
            kernels = stack.values.to(torch.float64)
            norms = [
                spectral_norms(each, spatial)
                for each in (kernels, kernels.diff(dim=0), kernels.cumsum(dim=0))
            ]
        sizes, grown, sums = norms
        return cls(
            sizes,
            grown,
            sums,
            squares,
            first,
            second,
            fourth,
            apart,
            products,
            waves,
            flat[:2, :HEAD].to(torch.float64).numpy(),
            stack.precision,
        )

    @property
    def depth(self) -> int:
        """How many layers there are."""
        return len(self.squares)

    @property
    def total(self) -> float:
        """Sum of the layers' squared Frobenius norms."""
        return float(self.squares.sum())

    def quantities(self) -> dict[str, float]:
        """Return every quantity of `QUANTITIES`; 0 where layers are equal, or all are 0."""
        quartic = float((self.squares**2).sum())
        return {
            "maximum": float(self.sizes.max()),
            "increments": float(self.increments.max()),
            "cumulative sum": float(self.partial_sums[-1]),
            "root sum of squares": float(np.sqrt((self.sizes**2).sum())),
            "root mean square": float(np.sqrt(self.total / self.depth)),
            "sup of partial sums": float(self.partial_sums.max()),
            "D": float(np.sqrt(self.first / 2)),
            "D2": float(np.sqrt(self.second / 6)),
            "D4": float(np.sqrt(self.fourth / 70 * self.depth / (self.depth - 4))),
            "participation ratio": self.total**2 / (self.depth * quartic) if quartic > 0 else 0.0,
        }
