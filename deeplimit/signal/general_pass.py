"""Signal and gradient through a network of any recursion, layer by layer, by the recursion's own methods."""

from __future__ import annotations

import torch
from torch import Tensor

from deeplimit.driving import Layer
from deeplimit.networks.residual_network import ResidualNetwork
from deeplimit.signal.one_signal import Watch
from deeplimit.signal.passes import Tick, after_layer
from deeplimit.signal.scaled_state import Signal


def as_columns(states: Tensor) -> Tensor:
    """Return states (P, *state_shape) as one column for each path, (P, entries, 1)."""
    return states.flatten(1).unsqueeze(2)


@torch.no_grad()
def propagate(
    network: ResidualNetwork,
    layers: list[tuple[Layer, ...]],
    start: Tensor,
    end: Tensor,
    tick: Tick | None = None,
    watch: Watch | None = None,
) -> tuple[Signal, Signal]:
    """Return h_L from h_0 = `start`, and p_0 from p_L = `end`, both (P, *state_shape), through these layers.

    The states before all layers are kept for the way back. Where states can be scaled their size is kept as
    a logarithm: the gradient of a layer is then the same at every size of its state.
    """
    recursion, exponent, depth = network.recursion, network.exponent, len(layers)
    scalable = network.is_homogeneous
    hidden, gradient = Signal.starting_at(as_columns(start)), Signal.starting_at(as_columns(end))
    hidden.settle(rescale=scalable)
    states = []
    for k, weights in enumerate(layers):
        h = hidden.value.reshape(start.shape)
        states.append(h)
        hidden.change += as_columns(recursion.residual(h, weights, exponent))
        after_layer(hidden, k, scalable, tick, depth, None if watch is None else watch.signal)
    gradient.settle(rescale=True)
    for passed, (h, weights) in enumerate(zip(reversed(states), reversed(layers), strict=True)):
        p = gradient.value.reshape(end.shape)
        gradient.change += as_columns(recursion.vjp(h, weights, exponent, p) - p)
        after_layer(gradient, passed, True, tick, depth, None if watch is None else watch.gradient)
    return hidden, gradient
