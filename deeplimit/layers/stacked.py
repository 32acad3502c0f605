"""All layers of several networks at once, forward and backward: what training asks of a recursion.

States are (S, n, *state shape): S networks, n inputs each. Weights are stacks (K, S, *shape) of K layers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import final

import torch
from torch import Tensor

from deeplimit.common.arrays import Array, ArrayLibrary
from deeplimit.driving import Layer

BIAS = "b"
"""The name of biases among the weights of a layer."""
Stacks = Mapping[str, Array]


class StackedPass(ABC):
    """Layers of S networks, one after the other: forward, then backward through the same layers.

    A pass keeps what its way back needs in buffers, so one object serves one training run.
    """

    @abstractmethod
    def forward(self, state: Array, stacks: Stacks, depth: int, exponent: float) -> Array:
        """Return the state after K layers; it may lie in a buffer that the next call overwrites.

        Args:
            state: (S, n, *state shape).
            stacks: weights of these layers by name, (K, S, *shape), and biases under "b", (K, S, d).
            depth: L, the number of all layers of the network.
            exponent: the residual exponent.
        """

    @abstractmethod
    def backward(self, gradient: Array) -> tuple[Array, dict[str, Array]]:
        """Return the gradients of the state before the layers, and of each stack.

        `gradient` is that of the state after the layers of the last `forward`.
        """


@final
class AutogradPass(StackedPass):
    """Automatic differentiation of any recursion's `advance`, one network at a time."""

    def __init__(
        self,
        advance: Callable[[Tensor, tuple[Layer, ...], float], Tensor],
        names: tuple[str, ...],
        library: ArrayLibrary,
    ) -> None:
        self.advance, self.names, self.library = advance, names, library

    def forward(self, state: Array, stacks: Stacks, depth: int, exponent: float) -> Array:
        self.leaves = {name: self.library.tensor(stack).detach() for name, stack in stacks.items()}
        start = self.library.tensor(state).detach().clone()
        with torch.enable_grad():
            for leaf in (start, *self.leaves.values()):
                leaf.requires_grad_()
            ends = [self._one(start[s], s, depth, exponent) for s in range(len(start))]
            self.start, self.end = start, torch.stack(ends)
        return self.library.array(self.end)

    def _one(self, h: Tensor, s: int, depth: int, exponent: float) -> Tensor:
        """Return the end state (n, *state shape) of network s."""
        count = len(self.leaves[self.names[0]])
        for k in range(count):
            biases = None if BIAS in self.names else self.leaves.get(BIAS)
            layers = tuple(
                Layer(
                    self.leaves[name][k, s][None],
                    depth,
                    0.0,
                    1.0,
                    biases[k, s][None] if place == 0 and biases is not None else None,
                )
                for place, name in enumerate(self.names)
            )
            h = self.advance(h, layers, exponent)
        return h

    def backward(self, gradient: Array) -> tuple[Array, dict[str, Array]]:
        leaves = [self.start, *self.leaves.values()]
        found = torch.autograd.grad(self.end, leaves, self.library.tensor(gradient), allow_unused=True)
        made = [torch.zeros_like(leaf) if g is None else g for leaf, g in zip(leaves, found, strict=True)]
        before, *weights = map(self.library.array, made)
        return before, dict(zip(self.leaves, weights, strict=True))
