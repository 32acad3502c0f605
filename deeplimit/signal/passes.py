"""All layers forwards, then the gradient backwards through them, without an autograd graph of the network.

For the recursions h + α V σ(W h + b) with V or W left out, which one forward and one backward pass serve.
What the backward pass needs of a layer is σ' where it was, and its matrices. `general_pass` takes all others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from deeplimit.layers.activations import Activation, Slopes, derivative, slopes
from deeplimit.signal.products import Product
from deeplimit.signal.scaled_state import Signal

RESCALED_EVERY = 8
"""Layers between two changes of base or unit: a state would have to grow 10^4-fold in each of them to
overflow float32.
"""


class Gates(ABC):
    """The activation at every layer, and the derivative it had there."""

    @abstractmethod
    def open(self, k: int, z: Tensor) -> Tensor:
        """Return σ(z) and remember σ'(z); `z` may be overwritten."""

    @abstractmethod
    def back(self, k: int, v: Tensor) -> Tensor:
        """Return σ' at layer k times v."""


class Rectifier(Gates):
    """ReLU, which remembers its own output: that is positive just where the derivative is 1."""

    def __init__(self, depth: int, like: Tensor) -> None:
        self.outputs = torch.empty(depth, *like.shape, dtype=like.dtype, device=like.device)

    def open(self, k: int, z: Tensor) -> Tensor:
        return torch.clamp(z, min=0.0, out=self.outputs[k])

    def back(self, k: int, v: Tensor) -> Tensor:
        result: Tensor = torch.ops.aten.threshold_backward(v, self.outputs[k], 0.0)
        return result


class Differentiated(Gates):
    """Any activation, with its derivative kept."""

    def __init__(self, activation: Activation, depth: int, like: Tensor) -> None:
        self.activation = activation
        self.derivatives = torch.empty(depth, *like.shape, dtype=like.dtype, device=like.device)

    def open(self, k: int, z: Tensor) -> Tensor:
        self.derivatives[k] = derivative(self.activation, z)
        return self.activation(z)

    def back(self, k: int, v: Tensor) -> Tensor:
        return v * self.derivatives[k]


@dataclass(frozen=True)
class Layers:
    """A drawn block of P networks of depth L: factors of σ's output and of its input, and the bias."""

    depth: int
    outer: Product | None
    inner: Product | None
    biases: Tensor | None  # (L, P or 1, d)
    scales: Tensor  # (n,) or (): the residual factor α of each column
    activation: Activation

    @property
    def is_homogeneous(self) -> bool:
        """Whether scaling the state scales what every layer adds to it."""
        return self.biases is None and slopes(self.activation) is not None

    def gates(self, like: Tensor) -> Gates:
        """Return empty gates for states like `like` (P, d, n)."""
        if slopes(self.activation) == Slopes(1.0, 0.0):
            return Rectifier(self.depth, like)
        return Differentiated(self.activation, self.depth, like)


Tick = Callable[[float], None]
See = Callable[[Signal], None]


@torch.no_grad()
def forward(
    layers: Layers, start: Tensor, tick: Tick | None = None, see: See | None = None
) -> tuple[Signal, Gates]:
    """Return h_L from h_0 = `start` (P, d, n), and the gates on the way; `see` is shown every state."""
    signal, gates = Signal.starting_at(start), layers.gates(start)
    signal.settle(rescale=layers.is_homogeneous)
    for k in range(layers.depth):
        z = signal.value if layers.inner is None else layers.inner.apply(k, signal.value)
        if layers.biases is not None:
            z = z + layers.biases[k].unsqueeze(2)
        moved = gates.open(k, z) * layers.scales
        if layers.outer is None:
            signal.change += moved
        else:
            layers.outer.add(signal.change, k, moved)
        after_layer(signal, k, layers.is_homogeneous, tick, layers.depth, see)
    return signal, gates


@torch.no_grad()
def backward(
    layers: Layers, gates: Gates, end: Tensor, tick: Tick | None = None, see: See | None = None
) -> Signal:
    """Return p_0 from p_L = `end` (P, d, n): p_k = p_{k+1} + α Wᵀ (σ' ∘ Vᵀ p_{k+1}), after a forward pass."""
    signal = Signal.starting_at(end)
    signal.settle(rescale=True)
    for passed, k in enumerate(range(layers.depth - 1, -1, -1)):
        v = signal.value if layers.outer is None else layers.outer.transpose(k, signal.value)
        moved = gates.back(k, v).mul_(layers.scales)
        if layers.inner is None:
            signal.change += moved
        else:
            layers.inner.add_transpose(signal.change, k, moved)
        after_layer(signal, passed, True, tick, layers.depth, see)
    return signal


def after_layer(
    signal: Signal, passed: int, scalable: bool, tick: Tick | None, depth: int, see: See | None
) -> None:
    """Settle a signal that went through `passed` + 1 layers every few layers, and tell how much is done."""
    layers = passed % RESCALED_EVERY + 1
    if layers == RESCALED_EVERY:
        signal.settle(rescale=scalable)
    if tick is not None and (layers == RESCALED_EVERY or passed + 1 == depth):
        tick(layers / (2 * depth))
    if see is not None:
        see(signal)
