"""Whether layers are small enough, at some depth, for laws to expand in powers of 1/depth there.

`compare_laws` asks before it calls a law another one. A layer whose slope is steep moves neighbouring states
apart by a multiple of their distance, as no step of the limit does; and where weights are rare, a few layers
make up all that a path moves, and no central limit theorem is in sight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from deeplimit.common.randomness import Purpose, generator
from deeplimit.driving import layers_in_law
from deeplimit.driving.law import FINITE_VARIANCE
from deeplimit.judge.in_law.simulation import Plan

STEEP = 0.33
"""Upper 1 % point of |∂(layer - identity)|² from which expansions are not relied on. At depth 128 it is 0.03
for tanh at width 1, 0.05 for the identity, 0.30 for tanh(3x), where 0 of 12 calls were false, 0.41 for
tanh(3.5x) with 2 of 12, and 0.85 for tanh(5x) with 6 of 6."""
RARE = 0.14
"""Share of a path's squared moves that one layer makes up on average, Σ|m|⁴/(Σ|m|²)², from which they are
not. At depth 128 it is 0.03 for tanh at width 1, 0.11 where 3 % of the weights are not 0 (width 2), with 0 of
12 calls false, 0.15 for lognormal weights at width 1, with 3 of 15, 0.40 for two values, one of them of 1 %,
with 2 of 5, and 0.93 where 0.1 % of the weights are not 0, with 3 of 3."""
PATHS, NUMBERS = 256, 2**18
"""Paths of the probe, and numbers of one layer that it holds at most."""
APART = 1e-6
"""Distance of neighbouring states, over their size: in float64 the difference of layers has nine digits."""


@dataclass(frozen=True)
class Coarseness:
    """How coarse layers are at a depth.

    Attributes:
        depth: number of layers.
        steepness, rarity: as in `STEEP` and `RARE`.
    """

    depth: int
    steepness: float
    rarity: float

    @property
    def excess(self) -> float:
        """By how much the larger of the two exceeds what is allowed; both fall like 1/depth."""
        return max(self.steepness / STEEP, self.rarity / RARE)

    @property
    def needed(self) -> int:
        """The depth, a power of two times this one, from which expansions would be relied on."""
        return self.depth << max(0, math.ceil(math.log2(max(self.excess, 1.0))))


def _of_length(way: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
    """Return differences of states (P, ...) with norms that are given (P,)."""
    norms = way.flatten(1).norm(dim=1).clamp_min(1e-300)
    scaled: torch.Tensor = way * (length / norms).reshape(-1, *[1] * (way.ndim - 1))
    return scaled


@torch.no_grad()
def coarseness(plan: Plan) -> Coarseness:
    """Return how coarse the layers of the deepest networks are, by networks of their own.

    Laws without a variance have limits that jump, so that layers are as coarse as need be at any depth.
    """
    network, depth = plan.network, plan.depths[-1]
    if any(0 < channel.moments < FINITE_VARIANCE for channel in network.channels):
        return Coarseness(depth, 0.0, 0.0)
    held = max(math.prod(shape) for shape in network.weight_shapes)
    paths = max(8, min(PATHS, NUMBERS // held))
    stream = generator(plan.seed, Purpose.LAW_COARSENESS, 0, depth, plan.device)
    rows = torch.arange(paths) % len(plan.h0)
    h = plan.h0[rows].to(plan.device, torch.float64)
    each = [
        layers_in_law(law, depth, shape, paths, stream, h.dtype, whole=True)
        for law, shape in network.laws_and_shapes
    ]
    slopes, moves = [], []
    neighbour = torch.empty_like(h).normal_(generator=stream) + h
    for layers in zip(*each, strict=True):
        size = APART * h.flatten(1).norm(dim=1).clamp_min(1e-300)
        way = _of_length(neighbour - h, size)
        any_way = _of_length(torch.empty_like(h).normal_(generator=stream), size)
        # Neighbours are states that a layer leads to: of covariances a recursion keeps one root of many.
        here, there, neighbour = (
            network.recursion.advance(at, layers, network.exponent) for at in (h, h + way, h + any_way)
        )
        slopes.append((there - here - way).flatten(1).norm(dim=1) / size)
        moves.append((here - h).flatten(1).square().sum(dim=1))
        h = here
    slopes = slopes[1:] or slopes  # the first layer's neighbours are any
    steep, squares = (torch.stack(found).cpu().numpy() for found in (slopes, moves))
    steep = steep[np.isfinite(steep)] ** 2
    sums = squares.sum(axis=0)
    kept = np.isfinite(sums) & (sums > 0)
    shares = (squares[:, kept] ** 2).sum(axis=0) / sums[kept] ** 2
    return Coarseness(
        depth,
        float(np.quantile(steep, 0.99)) if len(steep) else 0.0,
        float(shares.mean()) if kept.any() else 0.0,
    )
