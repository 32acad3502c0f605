"""Growth of signal and gradient along the residual streams of one module."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import nn

from deeplimit.modules.depth_check.one_depth import measure_module
from deeplimit.modules.depth_check.stream_scaling import over
from deeplimit.modules.trace.batches import as_batch


@dataclass(frozen=True)
class Growth:
    """The largest growth over the streams of a module; infinite where numbers overflow.

    Attributes:
        signal: size of the state at a stream's end over that at its start.
        gradient: size of the gradient at its start over that at its end.
    """

    signal: float
    gradient: float

    def is_within(self, largest: float) -> bool:
        """Whether signal and gradient grow by at most this factor, and do not vanish either."""
        return all(1 / largest <= value <= largest for value in (self.signal, self.gradient))


def growth_of(model: nn.Module, batch: object) -> Growth:
    """Return how signal and gradient grow in a module, whose numbers are made double here.

    Double precision reaches 10^308: what explodes over 200 layers is then a number.
    """
    try:
        taken = measure_module(model.double(), as_batch(model, batch))
    except ValueError as error:
        if "not finite" in str(error):
            return Growth(math.inf, math.inf)
        raise
    signal = max(_number(over(stream.end, stream.start)) for stream in taken.streams)
    gradients = [
        _number(over(stream.gradient_start, stream.gradient_end))
        for stream in taken.streams
        if stream.gradient_start is not None and stream.gradient_end
    ]
    return Growth(signal, max(gradients, default=1.0))


def _number(value: float) -> float:
    """Return a growth, infinite where it overflowed on its way to one that is not a number."""
    return math.inf if math.isnan(value) else value
