"""Strong errors as a user of torchsde would measure them: networks and limit driven by one shared
BrownianInterval.

The interval is a tree that remembers what was asked of it. Asking for coarse grids first and fine ones
last is fastest, telling it the finest step beforehand (its `dt`) and beginning with it slower, and
beginning with the finest depth without that, as one would who knows nothing of the tree, several times
slower again. All three are timed. The limits are written as lean as torchsde
allows (f and g_prod, no checks): no overhead of ours is held against it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

COARSE_FIRST, STEP_TOLD, NOTHING_TOLD = ORDERS = (
    "coarse depths first",
    "finest step told",
    "finest first, nothing told",
)
Network = Callable[["Setting", Any, Tensor, int], Tensor]


@dataclass(frozen=True)
class Setting:
    """Sizes of a workload: width, paths, depths, and the steps of the reference that torchsde solves the
    limit with.
    """

    width: int
    paths: int
    depths: tuple[int, ...]
    reference: int

    @property
    def steps(self) -> int:
        """How many steps all depths and the reference take."""
        return sum(self.depths) + self.reference


class NeuralSDE:
    """dH = (1/√d) dB tanh(H), by its products with the increments: the (paths, d, d²) diffusion is never
    built.
    """

    sde_type, noise_type = "ito", "general"

    def f(self, t: Tensor, y: Tensor) -> Tensor:
        return torch.zeros_like(y)

    def g_prod(self, t: Tensor, y: Tensor, v: Tensor) -> Tensor:
        width = y.shape[1]
        return torch.bmm(v.view(-1, width, width), torch.tanh(y)[..., None])[..., 0] / math.sqrt(width)


@dataclass(frozen=True)
class ScaledSiluSDE:
    """dH = dW^A H + dW^b + ½ Q(H) dt, Q = a |H|² + b: the limit under Theorem 4.4 of σ = 2 SiLU, σ''(0) =
    1.
    """

    a: float
    b: float
    sde_type = "ito"
    noise_type = "general"

    def f(self, t: Tensor, y: Tensor) -> Tensor:
        return (0.5 * (self.a * y.square().sum(dim=1, keepdim=True) + self.b)).expand_as(y)

    def g_prod(self, t: Tensor, y: Tensor, v: Tensor) -> Tensor:
        matrix, bias = split(v, y.shape[1])
        return math.sqrt(self.a) * torch.bmm(matrix, y[..., None])[..., 0] + math.sqrt(self.b) * bias


def split(v: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Return increments (P, d² + d) as the matrix's (P, d, d) and the bias's (P, d)."""
    return v[:, : width**2].view(-1, width, width), v[:, width**2 :]


def inner_network(a: float, b: float) -> Network:
    """Return the loop over layers h + 2 SiLU(A h + b), its weights read from the interval."""

    def states(setting: Setting, motion: Any, h: Tensor, depth: int) -> Tensor:
        kept = [h]
        for k in range(depth):
            matrix, bias = split(motion(k / depth, (k + 1) / depth), setting.width)
            inside = math.sqrt(a) * torch.bmm(matrix, h[..., None])[..., 0] + math.sqrt(b) * bias
            h = h + 2 * torch.nn.functional.silu(inside)
            kept.append(h)
        return torch.stack(kept)

    return states


def errors(
    torchsde: Any, sde: Any, setting: Setting, motions: int, order: str, network: Network | None = None
) -> np.ndarray:
    """Return E[sup_k |h_k - H_{k/L}|²]^½ at each depth.

    Where `network` is None, it is the limit's Euler scheme at its own depth, as res-1 is, and `sdeint`
    takes its layers.
    """
    start = torch.randn(setting.paths, setting.width, generator=torch.Generator().manual_seed(0))
    hint = 1 / setting.reference if order == STEP_TOLD else None
    size = (setting.paths, motions)
    motion = torchsde.BrownianInterval(0.0, 1.0, size=size, dtype=torch.float32, entropy=0, dt=hint)

    def solved(depth: int) -> Tensor:
        times = torch.linspace(0, 1, depth + 1)
        return torchsde.sdeint(sde, start, times, bm=motion, method="euler", dt=1 / depth)

    def passed(depth: int) -> Tensor:
        if network is None or depth == setting.reference:
            return solved(depth)
        return network(setting, motion, start, depth)

    with torch.no_grad():
        finest = (setting.reference,)
        paths = {
            depth: passed(depth)
            for depth in (setting.depths + finest if order == COARSE_FIRST else finest + setting.depths)
        }
    found = []
    for depth in setting.depths:
        reference = paths[setting.reference][:: setting.reference // depth]
        distance = torch.linalg.vector_norm(paths[depth] - reference, dim=2).amax(dim=0)
        found.append(distance.square().mean().sqrt().item())
    return np.array(found)
