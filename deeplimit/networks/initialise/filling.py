"""Weights of existing layers, filled in place with one law across the layers, in tiles of bounded size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.randomness import Purpose, generator
from deeplimit.driving import WeightLaw, draw_layers
from deeplimit.networks.residual_network import simplest

NUMBERS_AT_ONCE = 2**21
"""Number of weights, over all layers, in one tile. It bounds memory and is part of what a seed means: it must
never change.
"""
LAWS = "Brownian(), IID(law), SmoothGaussian(length_scale) or FractionalBrownian(hurst)"

Streams = Callable[[int], torch.Generator]


def law_across_layers(value: object, name: str = "process") -> WeightLaw:
    """Return `value` if it is a weight law whose entries have mean 0 and one variance at every layer.

    Entries that are known to depend on each other are refused; a sampler's are not known to be independent.
    """
    if isinstance(value, WeightLaw):
        facts = value.facts
        if facts.unit_variance and not facts.deterministic and facts.independent_entries is not False:
            return simplest(value)
    raise TypeError(
        f"{name} must be a law with independent entries of one variance at every layer: {LAWS}; got"
        f" {validation.named(value)}."
    )


def streams_of(seed: object, role: int = 0) -> Streams:
    """Return the generator of each tile: one per tile for an integer seed, the caller's generator for all."""
    if isinstance(seed, torch.Generator):
        if seed.device.type not in ("cpu", "cuda"):
            raise ValueError(
                f"seed is a generator on the device {seed.device}, which has no float64; give one on 'cpu' or"
                " 'cuda', or an integer."
            )
        own = seed
        return lambda tile: own
    checked = validation.integer(
        seed, "seed", minimum=0, hint="It is an integer, or a torch.Generator to draw from."
    )
    return lambda tile: generator(checked, Purpose.MODULE_WEIGHTS, tile, role)


def representable(standard_deviation: float, dtype: torch.dtype, name: str) -> None:
    """Raise ValueError unless numbers of this size can be held in `dtype`: neither infinite nor mostly 0."""
    limits = torch.finfo(dtype)
    least = 16.0 * float(limits.smallest_normal) * float(limits.eps)
    if not least <= standard_deviation <= limits.max / 16.0:
        raise ValueError(
            f"{name} would get the standard deviation {standard_deviation:.3g}, which {dtype} cannot hold."
            " Change the gain or the exponent, or initialise in float32 and convert afterwards."
        )


def write_layers(
    process: WeightLaw,
    depth: int,
    layers: Sequence[tuple[int, Tensor]],
    standard_deviation: float,
    streams: Streams,
) -> None:
    """Fill each tensor of `layers` (k, weight), 0 ≤ k < depth, with layer k of a network of that depth.

    All weights have one shape, and their entries are independent of each other. Numbers are drawn in float64
    on the generator's device and rounded last: a seed means the same weights in every dtype and on every
    device.
    """
    entries = layers[0][1].numel()
    size = max(1, NUMBERS_AT_ONCE // depth)
    for tile, start in enumerate(range(0, entries, size)):
        stop = min(start + size, entries)
        drawn = draw_layers(process, depth, (1, 1), stop - start, streams(tile), torch.float64)
        assert drawn.matrices is not None
        values = drawn.matrices.reshape(depth, stop - start) * (drawn.scale * standard_deviation)
        for position, weight in layers:
            _write(weight.detach(), start, stop, values[position].to(weight.dtype))


def _write(weight: Tensor, start: int, stop: int, values: Tensor) -> None:
    if weight.is_contiguous():
        weight.view(-1)[start:stop].copy_(values)
        return
    where = torch.unravel_index(torch.arange(start, stop, device=weight.device), weight.shape)
    weight[where] = values.to(weight.device)


def fan_in_of_shape(shape: Sequence[int]) -> int:
    """Return the number of inputs of a linear map (out, in) or a convolution (out, in/groups, ...)."""
    return math.prod(shape[1:])
