"""Independent draws of a network's last state at every depth, and of its limit at time 1."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.measurement import Arrays, Measurement, Tick
from deeplimit.common.randomness import Purpose, generator
from deeplimit.driving import Dependence, layers_in_law
from deeplimit.equations import Limit
from deeplimit.judge.in_law.one_draw import OneDraw
from deeplimit.networks.residual_network import ResidualNetwork

NUMBERS_PER_BLOCK = {"cpu": 2**17, "cuda": 2**24}
"""Numbers that a block draws per layer, about: part of what a seed means."""
DIRECTIONS = 2
"""Random directions along which components are tested, in addition to the one along h_0."""
KEPT = 64
"""Round-off of a norm in units of machine epsilon; a random walk of 40,000 layers stays below it."""
Drawn = tuple[np.ndarray, np.ndarray, int]
"""Features, states over |h_0| and how many draws were lost, of one block."""


@final
@dataclass(frozen=True)
class Plan(Measurement[Drawn, tuple["list[Sample]", "Sample"]]):
    """All that is drawn: `draws` last states per depth and of the limit, draw p from row p mod n of `h0`.

    Its result holds the samples of all depths, and that of the limit.
    """

    network: ResidualNetwork
    limit: Limit
    depths: tuple[int, ...]
    steps: int
    h0: Tensor
    draws: int
    joint: int
    seed: int
    dtype: torch.dtype

    what = "compare laws"

    @property
    def blocks(self) -> int:
        return (1 + len(self.depths)) * self.blocks_per_law

    def run(self, block: int, tick: Tick | None = None) -> Drawn:
        return draw_block(self, block, tick)

    def merge(self, parts: Iterator[Drawn]) -> tuple[list[Sample], Sample]:
        drawn, size = [*parts], self.blocks_per_law
        limit, *networks = (_joined(drawn[first : first + size]) for first in range(0, len(drawn), size))
        return networks, limit

    def write(self, part: Drawn) -> Arrays:
        return dict(zip(("features", "states", "lost"), map(np.asarray, part), strict=True))

    def read(self, arrays: Arrays) -> Drawn:
        return arrays["features"], arrays["states"], int(arrays["lost"])

    def key(self) -> dict[str, Any]:
        """Return all but the numbers of draws, depths and steps, which `label` has of each block."""
        told = dict.fromkeys(("draws", "joint", "depths", "steps"), "as a block says")
        return {**super().key(), **told}

    def label(self, index: int) -> str:
        depth, block = self.place(index)
        count = len(self.rows(block))
        law = f"limit, {self.steps} steps" if depth is None else f"depth {depth}"
        return f"{law}, {block}, {count} draws, {self.wanted(block, count)} for the joint law"

    def path(self, index: int, *which: int) -> OneDraw:
        return draw_again(self, index)

    def costs(self) -> list[float]:
        limit = self.steps if self.limit.is_drawn_by_steps else 1
        layers = (limit, *self.depths)
        return [count * len(self.rows(block)) for count in layers for block in range(self.blocks_per_law)]

    def name(self) -> str:
        return f"compare laws: {self.network}; depths {[*self.depths]}, {self.draws} draws, seed {self.seed}"

    @property
    def block_size(self) -> int:
        """Return how many draws are held at once, by the specification alone."""
        gaussian = self.network.facts.gaussian and self.network.facts.dependence is Dependence.INDEPENDENT
        numbers = self.network.width if gaussian else max(map(math.prod, self.network.weight_shapes))
        return max(4, min(8192, NUMBERS_PER_BLOCK[self.device.type] // numbers))

    @property
    def entries(self) -> int:
        """The number of entries of a state."""
        return math.prod(self.network.state_shape)

    @property
    def blocks_per_law(self) -> int:
        return -(-self.draws // self.block_size)

    def place(self, index: int) -> tuple[int | None, int]:
        """Return the depth of a block, None for the limit, and its number among that depth's blocks."""
        source, block = divmod(index, self.blocks_per_law)
        return (None if source == 0 else self.depths[source - 1]), block

    def rows(self, block: int) -> Tensor:
        """Return the draws of one block (P,)."""
        first = block * self.block_size
        return torch.arange(first, min(first + self.block_size, self.draws))

    def wanted(self, block: int, count: int) -> int:
        """Return how many of a block's draws the test of the joint law takes."""
        return max(0, min(count, self.joint - block * self.block_size))

    def starts(self, block: int) -> Tensor:
        """Return h_0 of one block, (P, d)."""
        return self.h0[self.rows(block) % len(self.h0)].to(self.device, self.dtype)


@dataclass(frozen=True)
class Sample:
    """Draws of one law: features (P, m) in float64, `joint` states over |h_0| (joint, d), number lost."""

    features: np.ndarray
    states: np.ndarray
    lost: int


def states_of(network: ResidualNetwork, depth: int, h0: Tensor, stream: torch.Generator) -> Iterator[Tensor]:
    """Yield h_1 … h_L (P, d) of a network of this depth for each row of `h0` (P, d), layer by layer.

    Gaussian matrices are drawn by their products, other laws entry by entry.
    """
    h = h0
    each = [
        layers_in_law(law, depth, shape, len(h0), stream, h0.dtype) for law, shape in network.laws_and_shapes
    ]
    for layers in zip(*each, strict=True):
        h = network.recursion.advance(h, layers, network.exponent)
        yield h


def last_states(network: ResidualNetwork, depth: int, h0: Tensor, stream: torch.Generator) -> Tensor:
    """Return h_L (P, d) of a network of this depth for each row of `h0` (P, d)."""
    return deque(states_of(network, depth, h0, stream), maxlen=1).pop()


def feature_names(width: int) -> tuple[str, ...]:
    """Return the names of `features`: the norm, the component along h_0, and along random directions."""
    return ("log norm", "along h_0", *(f"direction {k + 1}" for k in range(_directions(width))))


def _directions(width: int) -> int:
    return 0 if width == 1 else DIRECTIONS


def random_directions(width: int, seed: int) -> Tensor:
    """Return the unit vectors (k, d) of `features`, fixed by the seed."""
    drawn = torch.empty(_directions(width), width, dtype=torch.float64)
    drawn.normal_(generator=generator(seed, Purpose.LAW_TESTS))
    directions: Tensor = drawn / drawn.norm(dim=1, keepdim=True)
    return directions


def features(h: Tensor, h0: Tensor, directions: Tensor) -> Tensor:
    """Return the numbers (P, m) by which two laws are compared, free of the size of h_0.

    Infinite ones are made huge.
    """
    end, start = h.flatten(1).double(), h0.flatten(1).double()
    size = start.norm(dim=1, keepdim=True)
    scaled = end / size
    tiny = torch.finfo(torch.float32).tiny
    log_norm = scaled.norm(dim=1, keepdim=True).clamp(min=tiny).log()
    if bool((log_norm.abs() <= KEPT * torch.finfo(h.dtype).eps).all()):
        log_norm.zero_()  # layers keep the norm, as attention's do: what is left is round-off
    parts = (
        log_norm,
        (scaled * start / size).sum(dim=1, keepdim=True),
        scaled @ directions.T.to(h.device),
    )
    return torch.cat(parts, dim=1).nan_to_num(nan=1e30, posinf=1e30, neginf=-1e30)


def draw_block(plan: Plan, index: int, tick: Tick | None = None) -> Drawn:
    """Return features, states over |h_0| and the number of lost draws, of a block of limit or depth."""
    depth, block = plan.place(index)
    h0, stream = plan.starts(block), _stream(plan, depth, block)
    with torch.no_grad():
        if depth is None:
            h = plan.limit.draw_end(h0, stream, plan.steps)
        else:
            h = last_states(plan.network, depth, h0, stream)
    wanted = plan.wanted(block, len(h))
    start = h0[:wanted].flatten(1).double()
    states = (h[:wanted].flatten(1).double() / start.norm(dim=1, keepdim=True)).nan_to_num(1e30, 1e30, -1e30)
    lost = int((~torch.isfinite(h.flatten(1))).any(dim=1).sum())
    if tick is not None:
        tick(1.0)
    directions = random_directions(plan.entries, plan.seed)
    return features(h, h0, directions).cpu().numpy(), states.cpu().numpy(), lost


def _stream(plan: Plan, depth: int | None, block: int) -> torch.Generator:
    """Return the stream of one block of the limit (None) or of a depth."""
    purpose = Purpose.LAW_OF_LIMIT if depth is None else Purpose.LAW_OF_NETWORK
    return generator(plan.seed, purpose, block, 0 if depth is None else depth, plan.device)


@torch.no_grad()
def draw_again(plan: Plan, index: int) -> OneDraw:
    """Return draw `index` of the network at every depth and of the limit, by running its blocks again."""
    number = validation.integer(index, "index", minimum=0, maximum=plan.draws - 1)
    block, row = divmod(number, plan.block_size)
    h0 = plan.starts(block)
    directions = random_directions(plan.entries, plan.seed)
    states, told = {}, []
    for depth in plan.depths:
        kept, h = [h0[row].clone()], h0
        for h in states_of(plan.network, depth, h0, _stream(plan, depth, block)):
            kept.append(h[row].clone())
        states[depth] = torch.stack(kept).cpu().numpy()
        told.append(features(h, h0, directions)[row].cpu().numpy())
    end = plan.limit.draw_end(h0, _stream(plan, None, block), plan.steps)
    return OneDraw(
        index=number,
        depths=plan.depths,
        states=states,
        limit_state=end[row].cpu().numpy(),
        names=feature_names(plan.entries),
        features=np.stack(told),
        limit_features=features(end, h0, directions)[row].cpu().numpy(),
    )


def rounding_share(plan: Plan, networks: list[Sample]) -> float:
    """Return round-off over the smallest spread of a network's draws along h_0; infinite where that is 0.

    A sum over the steps rounds each partial sum, of about the size of h_0, to the dtype's precision. States
    that are 0 or not finite have no round-off to speak of.
    """
    along = [sample.features[:, 1] for sample in networks]
    if any(np.abs(values).max() > 1e29 for values in along):
        return 0.0
    rounding = torch.finfo(plan.dtype).eps * math.sqrt(max(plan.steps, plan.depths[-1]) / 12)
    spread = min(float(values.std()) for values in along)
    return rounding / spread if spread > 0 else math.inf


def _joined(parts: list[Drawn]) -> Sample:
    drawn, states, lost = zip(*parts, strict=True)
    return Sample(np.concatenate(drawn), np.concatenate(states), sum(lost))
