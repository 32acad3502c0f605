"""How much of a function of time lies between the times at which the layers of a network read it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from deeplimit.common.randomness import Purpose, generator
from deeplimit.driving.law import Channel

PLACES = (0.0, 0.382, 0.5, 0.618, 1.0)
"""Where in a layer the function is looked at. Half alone would miss one that oscillates there, too."""
LAYERS = 24
"""Layers that are looked at, spread by the golden ratio, so that no frequency meets all at one phase."""
GOLDEN = 0.6180339887498949


def unseen_share(function: Callable[[Tensor], Tensor], depth: int) -> float:
    """Return what lines between the values at k/L leave of a function of times (n,) with values (n, ...).

    It is the root mean square of function minus line within LAYERS layers, over that of the function: of
    cos 2πft about 1 - cos(πf/L) up to f = 0.4 L, and 0 for a function that is 0 wherever it is looked at.

    Examples:
        >>> wave = lambda f: lambda t: torch.cos(2 * torch.pi * f * t)[:, None]
        >>> [round(unseen_share(wave(f), 64), 1) for f in (1, 16, 64, 128)]
        [0.0, 0.3, 2.0, 1.0]
    """
    places = torch.tensor(PLACES, dtype=torch.float64)
    missed = size = 0.0
    spread = GOLDEN * torch.arange(LAYERS, dtype=torch.float64) % 1.0
    # One layer at a time: of a wide network few values fit in memory.
    for layer in sorted({int(depth * place) for place in spread.tolist()}):
        # No layer reads time 0, where a function may have no value.
        values = function(((layer + places) / depth).clamp(min=2.0**-30)).flatten(1)
        lines = values[0] + places[:, None].to(values) * (values[-1] - values[0])
        missed += float((values - lines)[1:-1].square().mean())
        size += float(values.square().mean())
    return (missed / size) ** 0.5 if size > 0 else 0.0


def unseen_share_of_weights(channel: Channel, depth: int, seed: int) -> float:
    """Return this share of one path of a channel that is a function of time; 0 of any other."""
    if channel.function is None:
        return 0.0
    stream = generator(seed, Purpose.NETWORK_WEIGHTS)
    drawn = channel.function.sample(channel.shape, 1, stream, torch.float32, torch.device("cpu"))
    return unseen_share(drawn.at, depth)
