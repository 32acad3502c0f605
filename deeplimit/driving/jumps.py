"""Where a function of time jumps: a depth's layers see a jump up to one layer late, so that errors are a
staircase of 1/L times a part that depends on where it falls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from deeplimit.common.randomness import Purpose, generator
from deeplimit.driving.law import Channel

POINTS = 257
"""Times at which a function is looked at first: jumps closer to each other are one."""
HALVINGS = 24
"""Halvings of the interval with the largest change, to 2e-10 of the time: √t changes by 2e-5 there."""
SHARE = 0.01
"""A change over that interval of this share of the largest value is a jump."""


class Jump(NamedTuple):
    """A jump: its time, and the size of what changes (Frobenius norm)."""

    time: float
    size: float


def largest_jump(function: Callable[[Tensor], Tensor]) -> Jump | None:
    """Return the largest jump of a function of times (n,) with values (n, ...); None if there is none.

    Where it changes most between two of POINTS times, the interval is halved. NOT checked: that there is no
    larger jump where the function comes back within one interval.

    Examples:
        >>> step = lambda t: (t > 0.3).double()[:, None] * 2.0
        >>> largest_jump(step).size, largest_jump(lambda t: t.sqrt()[:, None])
        (2.0, None)
    """
    times = torch.linspace(0.0, 1.0, POINTS, dtype=torch.float64)
    values = function(times).flatten(1)
    changes = (values[1:] - values[:-1]).norm(dim=1)
    place = int(changes.argmax())
    low, high = float(times[place]), float(times[place + 1])
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        first, second, third = function(torch.tensor([low, middle, high], dtype=torch.float64)).flatten(1)
        low, high = (low, middle) if (second - first).norm() > (third - second).norm() else (middle, high)
    ends = function(torch.tensor([low, high], dtype=torch.float64)).flatten(1)
    size = float((ends[1] - ends[0]).norm())
    return Jump(float(np.round(high, 9)), size) if size > SHARE * float(values.norm(dim=1).max()) else None


def jump_of_weights(channels: Iterable[Channel], seed: int) -> Jump | None:
    """Return the largest jump of the weights of one path that are functions of time; None if none jumps."""
    found = []
    for channel in channels:
        if (law := channel.function) is not None:
            stream = generator(seed, Purpose.NETWORK_WEIGHTS)
            drawn = law.sample(channel.shape, 1, stream, torch.float64, torch.device("cpu"))
            jump = largest_jump(drawn.at)
            if jump is not None:
                found.append(jump._replace(size=jump.size * law.entry_scale(channel.shape)))
    return max(found, key=lambda each: each.size, default=None)
