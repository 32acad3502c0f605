"""What a stream does as a whole: how far its state turns, and whether sums continue the sums before."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from deeplimit.modules.trace.branches import Layout, Part
from deeplimit.modules.trace.operations import Call, Operands, TorchCalls


class WholeStream(TorchCalls):
    """Runs a module as it is and compares the states at its residual sums with one another.

    Attributes:
        turned: cos(h_L, h_0) by stream; None where the shapes differ.
        mixed: largest share, by stream, of the state at a sum that is no multiple of the sum before, though
            nothing normalises it in between: an earlier state was added.
        bent: the same where it is a function of the sum before, such as tanh of it; of ReLU it is 0.
    """

    def __init__(self, found: Layout) -> None:
        super().__init__()
        self.joins: dict[int, tuple[int, int, Part]] = {}
        for part in found.parts:
            join = part.join
            self.joins[join.addition.ordinal] = (part.branch.stream, join.skip, part)
        self.count = 0
        self.starts: dict[int, torch.Tensor] = {}
        self.sums: dict[int, torch.Tensor] = {}
        self.mixed: dict[int, float] = {}
        self.bent: dict[int, float] = {}

    @property
    def turned(self) -> dict[int, float | None]:
        return {stream: _cosine(self.starts[stream], self.sums[stream]) for stream in self.starts}

    def call(
        self, name: str, func: Callable[..., Any], args: Any, kwargs: Any, operands: Operands | None
    ) -> Any:
        if operands is None:
            return func(*args, **kwargs)
        ordinal, self.count = self.count, self.count + 1
        if ordinal not in self.joins:
            return func(*args, **kwargs)
        stream, skip, part = self.joins[ordinal]
        state = (operands.first if skip == 0 else operands.branch()).detach().double()
        before = self.sums.get(stream)
        if before is None:
            self.starts[stream] = state.clone()
        elif before.shape == state.shape and not part.renormed:
            found = min(_remainder(state, before), _remainder(state, torch.relu(before)))
            shares = self.bent if part.follows_one else self.mixed
            shares[stream] = max(shares.get(stream, 0.0), found)
        result = func(*args, **kwargs)
        self.sums[stream] = result.detach().double().clone()
        return result

    def returned(self, this: Call, result: Any) -> Any:
        return result


def _remainder(state: torch.Tensor, before: torch.Tensor) -> float:
    """Return the size of what is left of a state beside its best multiple of another, over the state's."""
    square = float((before * before).sum())
    factor = float((state * before).sum()) / square if square > 0 else 0.0
    size = float(torch.linalg.vector_norm(state))
    left = float(torch.linalg.vector_norm(state - factor * before))
    return left / size if size > 0 and math.isfinite(left) else 0.0


def _cosine(first: torch.Tensor, last: torch.Tensor) -> float | None:
    if first.shape != last.shape:
        return None
    norms = float(torch.linalg.vector_norm(first)) * float(torch.linalg.vector_norm(last))
    product = float((first * last).sum())
    return product / norms if norms > 0 and math.isfinite(norms) and math.isfinite(product) else None
