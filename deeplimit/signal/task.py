"""What one measurement of stability consists of, and the work on one block of networks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.measurement import Measurement, Tick
from deeplimit.common.randomness import Purpose, generator
from deeplimit.driving import Dependence, draw_layers, layers_of
from deeplimit.networks.residual_network import ResidualNetwork
from deeplimit.signal.general_pass import as_columns, propagate
from deeplimit.signal.one_signal import OneSignal, Watch, one_signal
from deeplimit.signal.passes import Layers, backward, forward
from deeplimit.signal.products import GaussianInLaw, Product, drawn_product
from deeplimit.signal.scaled_state import Signal

NUMBERS_PER_BLOCK = {"cpu": 2**27, "cuda": 2**29}
"""How many numbers the layers of one block may hold: half a gigabyte per core on a CPU."""
NUMBERS_AT_ONCE = {"cpu": 2**16, "cuda": 2**23}
"""How many numbers one layer of one block should hold: what fits in a core's cache, or fills a card."""
MOST_NUMBERS = 2**30
MOST_DRAWS = 10**7
STREAMS_PER_DEPTH = 4


def known_in_law(network: ResidualNetwork) -> bool:
    """Whether a pass over one input sees the matrices only through products with known vectors.

    That is so for independent layers of independent Gaussian entries.
    """
    return network.recursion.is_plain and all(
        facts.dependence == Dependence.INDEPENDENT
        and facts.gaussian
        and facts.independent_entries is True
        and facts.unit_variance
        for facts in (law.facts.at(network.width) for law in network.weights)
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
    """Return the layers of `paths` networks of one depth, recursion plain; `streams(i)` draws matrix i."""
    products: list[Product] = []
    biases = None
    for index, law in enumerate(network.weights):
        if in_law:
            products.append(GaussianInLaw(depth, (paths, network.width), streams(index), dtype))
            continue
        drawn = draw_layers(law, depth, network.weight_shapes[index], paths, streams(index), dtype)
        products.append(drawn_product(drawn))
        biases = drawn.biases if biases is None else biases
    outer, inner = network.recursion.sides(products)
    return Layers(depth, outer, inner, biases, scales, network.recursion.activation)


def numbers_per_network(network: ResidualNetwork, depth: int, columns: int, *, in_law: bool) -> int:
    """Return the numbers that one network's pass holds: layers, and states or σ's derivatives."""
    drawn = 2 * network.width * len(network.weights) if in_law else sum(map(math.prod, network.weight_shapes))
    return depth * (drawn + math.prod(network.state_shape) * columns)


@final
@dataclass(frozen=True)
class StabilityTask(Measurement[np.ndarray, np.ndarray]):
    """A network at several depths, each drawn several times; `h0` (n, d) are inputs in turn, or None.

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

    def key(self) -> dict[str, Any]:
        """Return all but the numbers of depths and draws, which `label` has of each block."""
        return {**super().key(), **dict.fromkeys(("depths", "draws"), "as a block says")}

    def label(self, block: int) -> str:
        depth, number, _, count = self.pieces[block]
        return f"depth {depth}, {number}, {count} draws"

    def path(self, index: int, *which: int) -> OneSignal:
        draw = validation.integer(index, "index", minimum=0, maximum=self.draws - 1)
        watches = {}
        for block, (depth, _, first, count) in enumerate(self.pieces):
            if first <= draw < first + count:
                watches[depth] = Watch(draw - first, 0)
                run_block(self, block, watch=watches[depth])
        return one_signal(draw, {depth: watches[depth] for depth in self.depths})

    def costs(self) -> list[float]:
        return [depth * count for depth, _, _, count in self.pieces]

    def name(self) -> str:
        return f"stability: {self.network}; depths {[*self.depths]}, {self.draws} draws, seed {self.seed}"

    @property
    def blocks(self) -> int:
        return len(self.pieces)

    def block_size(self, depth: int) -> int:
        """Return how many networks of one depth make a block, by the specification alone."""
        held = numbers_per_network(self.network, depth, 1, in_law=self.in_law)
        state, weights = math.prod(self.network.state_shape), map(math.prod, self.network.weight_shapes)
        at_once = 2 * self.network.width if self.in_law else max(state, *weights)
        kind = self.device.type
        return int(max(1, min(NUMBERS_PER_BLOCK[kind] // held, NUMBERS_AT_ONCE[kind] // at_once, self.draws)))

    @cached_property
    def pieces(self) -> list[tuple[int, int, int, int]]:
        """Return (depth, block number, first draw, draws) of every block, the slowest (deepest) first."""
        found = []
        for depth in reversed(self.depths):
            size = self.block_size(depth)
            for number, first in enumerate(range(0, self.draws, size)):
                found.append((depth, number, first, min(size, self.draws - first)))
        return found


def run_block(
    task: StabilityTask, block: int, tick: Tick | None = None, watch: Watch | None = None
) -> np.ndarray:
    """Return log |h_L|/|h_0|, |h_L - h_0|/|h_0|, |p_0|/|p_L|, |p_0 - p_L|/|p_L| of one block (4, draws).

    `watch` sees signal and gradient after every layer.
    """
    depth, number, first, count = task.pieces[block]

    def stream(purpose: Purpose, index: int = 0) -> torch.Generator:
        return generator(task.seed, purpose, number, STREAMS_PER_DEPTH * depth + index, task.device)

    network, shape = task.network, (count, *task.network.state_shape)
    if task.h0 is None:
        start = torch.empty(shape, dtype=task.dtype, device=task.device)
        start.normal_(generator=stream(Purpose.PROPAGATED_INPUTS))
    else:
        rows = torch.arange(first, first + count) % len(task.h0)
        start = task.h0[rows].to(task.device, task.dtype)
    end = torch.empty(shape, dtype=task.dtype, device=task.device)
    end.normal_(generator=stream(Purpose.PROPAGATED_GRADIENTS))
    if watch is not None:
        watch.begin(as_columns(start), as_columns(end))
    through = _plain_pass if network.recursion.is_plain else _general_pass
    streams = partial(stream, Purpose.PROPAGATED_WEIGHTS)
    hidden, gradient = through(task, depth, streams, start, end, tick, watch)
    logs = [*hidden.logarithms(as_columns(start)), *gradient.logarithms(as_columns(end))]
    return torch.cat(logs, dim=1).T.cpu().numpy()


Streams = Callable[[int], torch.Generator]


def _plain_pass(
    task: StabilityTask,
    depth: int,
    streams: Streams,
    start: Tensor,
    end: Tensor,
    tick: Tick | None,
    watch: Watch | None,
) -> tuple[Signal, Signal]:
    """Return h_L and p_0 for recursions of the form h + α V σ(W h + b)."""
    scale = torch.tensor(float(depth) ** -task.network.exponent, dtype=task.dtype, device=task.device)
    layers = draw_network(task.network, depth, len(start), streams, task.dtype, scale, in_law=task.in_law)
    hidden, gates = forward(layers, as_columns(start), tick, None if watch is None else watch.signal)
    return hidden, backward(layers, gates, as_columns(end), tick, None if watch is None else watch.gradient)


def _general_pass(
    task: StabilityTask,
    depth: int,
    streams: Streams,
    start: Tensor,
    end: Tensor,
    tick: Tick | None,
    watch: Watch | None,
) -> tuple[Signal, Signal]:
    """Return h_L and p_0 for any other recursion."""
    drawn = [
        layers_of(law, depth, shape, len(start), streams(index), task.dtype)
        for index, (law, shape) in enumerate(task.network.laws_and_shapes)
    ]
    return propagate(task.network, list(zip(*drawn, strict=True)), start, end, tick, watch)
