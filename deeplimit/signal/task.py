"""What one measurement of stability consists of, and the work on one block of networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
import torch
from torch import Tensor

from deeplimit.ground.measurement import Measurement, Tick
from deeplimit.ground.randomness import Purpose, generator
from deeplimit.networks import ResidualNetwork
from deeplimit.recursions import Recursion
from deeplimit.signal.passes import Layers, backward, forward
from deeplimit.signal.products import GaussianInLaw, Product, drawn_product
from deeplimit.weights import Dependence

NUMBERS_PER_BLOCK = {"cpu": 2**27, "cuda": 2**29}
"""How many numbers the layers of one block may hold: half a gigabyte a core on a CPU."""
NUMBERS_AT_ONCE = {"cpu": 2**16, "cuda": 2**23}
"""How many numbers one layer of one block should hold: what fits in a core's cache, or fills a card."""
MOST_NUMBERS = 2**30
MOST_DRAWS = 10**7
STREAMS_PER_DEPTH = 4


def plain_branch(network: ResidualNetwork) -> Recursion:
    """Return the network's recursion, if it is of the one form that signal and gradient are propagated
    through.

    Raises ValueError for one that adds more than h + α V σ(W h + b).
    """
    if network.recursion.is_plain:
        return network.recursion
    raise ValueError(
        f"network must be res1, res2, res3 or inner, got {network.recursion.name}, which adds"
        f" {network.recursion.formula.text({})}; res1 has the same signal up to what vanishes with the depth."
    )


def known_in_law(network: ResidualNetwork) -> bool:
    """Whether products with known vectors tell all that a network's pass over one input sees of its
    matrices: independent layers of independent Gaussian entries.
    """
    return all(
        facts.dependence == Dependence.INDEPENDENT
        and facts.gaussian
        and facts.independent_entries is True
        and facts.unit_variance
        for facts in (law.facts_at(network.width) for law in network.weights)
    )


def draw_network(
    network: ResidualNetwork,
    depth: int,
    paths: int,
    streams: Callable[[int], torch.Generator],
    dtype: torch.dtype,
    scales: Tensor,
    *,
    in_law: bool,
) -> Layers:
    """Return the layers of `paths` networks of one depth; `streams(i)` is the generator of matrix i."""
    products: list[Product] = []
    biases = None
    for index, law in enumerate(network.weights):
        if in_law:
            products.append(GaussianInLaw(depth, (paths, network.width), streams(index), dtype))
            continue
        drawn = law.draw_layers(depth, network.weight_shapes[index], paths, streams(index), dtype)
        products.append(drawn_product(drawn))
        biases = drawn.biases if biases is None else biases
    outer, inner = plain_branch(network).sides(products)
    return Layers(depth, outer, inner, biases, scales, network.recursion.activation)


def numbers_per_network(network: ResidualNetwork, depth: int, columns: int, *, in_law: bool) -> int:
    """Return how many numbers one network's pass holds: its layers, and the activations' derivatives."""
    each = 2 * network.width if in_law else network.width**2
    return depth * (each * len(network.recursion.weights) + network.width * columns)


@final
@dataclass(frozen=True)
class StabilityTask(Measurement[np.ndarray, np.ndarray]):
    """A network at several depths, so many draws of each; `h0` (n, d) are the inputs, taken in turn, or
    None.

    Its result holds the logarithms of `run_block` for all depths and draws, (4, depths, draws).
    """

    network: ResidualNetwork
    depths: tuple[int, ...]
    draws: int
    seed: int
    h0: Tensor | None
    dtype: torch.dtype
    in_law: bool

    what = "stability"

    def run(self, block: int, tick: Tick | None = None) -> np.ndarray:
        return run_block(self, block, tick)

    def merge(self, parts: Iterator[np.ndarray]) -> np.ndarray:
        logs = np.full((4, len(self.depths), self.draws), np.nan)
        for (depth, _, first, count), part in zip(self.pieces, parts, strict=True):
            logs[:, self.depths.index(depth), first : first + count] = part
        return logs

    def name(self) -> str:
        return f"stability: {self.network}; depths {[*self.depths]}, {self.draws} draws, seed {self.seed}"

    @property
    def blocks(self) -> int:
        return len(self.pieces)

    def block_size(self, depth: int) -> int:
        """Return how many networks of one depth make a block; it depends on the specification alone, never
        on workers.
        """
        held = numbers_per_network(self.network, depth, 1, in_law=self.in_law)
        at_once = 2 * self.network.width if self.in_law else self.network.width**2
        kind = self.device.type
        return int(max(1, min(NUMBERS_PER_BLOCK[kind] // held, NUMBERS_AT_ONCE[kind] // at_once, self.draws)))

    @cached_property
    def pieces(self) -> list[tuple[int, int, int, int]]:
        """Return (depth, number of the block, first draw, draws) of every block, deepest first: they take
        longest.
        """
        found = []
        for depth in reversed(self.depths):
            size = self.block_size(depth)
            for number, first in enumerate(range(0, self.draws, size)):
                found.append((depth, number, first, min(size, self.draws - first)))
        return found


def run_block(task: StabilityTask, block: int, tick: Tick | None = None) -> np.ndarray:
    """Return the logarithms of |h_L|/|h_0|, |h_L - h_0|/|h_0|, |p_0|/|p_L| and |p_0 - p_L|/|p_L| of one
    block (4, draws).
    """
    depth, number, first, count = task.pieces[block]

    def stream(purpose: Purpose, index: int = 0) -> torch.Generator:
        return generator(task.seed, purpose, number, STREAMS_PER_DEPTH * depth + index, task.device)

    shape, width = (count, task.network.width, 1), task.network.width
    if task.h0 is None:
        start = torch.empty(shape, dtype=task.dtype, device=task.device)
        start.normal_(generator=stream(Purpose.PROPAGATED_INPUTS))
    else:
        rows = torch.arange(first, first + count) % len(task.h0)
        start = task.h0[rows].to(task.device, task.dtype).reshape(count, width, 1)
    end = torch.empty(shape, dtype=task.dtype, device=task.device)
    end.normal_(generator=stream(Purpose.PROPAGATED_GRADIENTS))
    scale = torch.tensor(float(depth) ** -task.network.exponent, dtype=task.dtype, device=task.device)
    layers = draw_network(
        task.network,
        depth,
        count,
        lambda index: stream(Purpose.PROPAGATED_WEIGHTS, index),
        task.dtype,
        scale,
        in_law=task.in_law,
    )
    hidden, gates = forward(layers, start, tick)
    gradient = backward(layers, gates, end, tick)
    logs = [*hidden.logarithms(start), *gradient.logarithms(end)]
    return torch.cat(logs, dim=1).T.cpu().numpy()
