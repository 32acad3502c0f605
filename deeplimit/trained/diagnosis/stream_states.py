"""The states of residual streams in one ordinary forward, before every layer and after the last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import nn

from deeplimit.common.global_state import alone, seeded
from deeplimit.modules.trace.batches import Batch, run
from deeplimit.modules.trace.branches import Layout, Part
from deeplimit.modules.trace.operations import Operands, TorchCalls
from deeplimit.modules.trace.side_effects import undisturbed


@final
@dataclass(frozen=True, eq=False)
class StreamStates:
    """One residual stream of one forward.

    Attributes:
        names: name of each layer, by its first branch (K,).
        states: before each layer, and after the last (K + 1, ...), float32 on the CPU.
        channels: axis of `states` along which the coordinates of the stream lie.
    """

    names: tuple[str, ...]
    states: torch.Tensor
    channels: int


@alone()
def stream_states(model: nn.Module, batch: Batch, found: Layout, seed: int = 0) -> dict[int, StreamStates]:
    """Return the states of every residual stream, by its number.

    A layer begins at each branch of the most frequent kind, the first of equally frequent ones: attention,
    say, with the MLP that follows. Streams whose state changes its shape are left out.

    Args:
        model: module, left as it was; a trained one, so that batch normalisation uses its running statistics.
        batch: what the forward is run on.
        found: branches that a recorded forward on this batch ran through.
        seed: of the global generators while the forward runs.
    """
    with undisturbed(model, trained=True), seeded(seed), torch.no_grad(), _Recorder(found) as recorder:
        run(model, batch)
    shapes = {name: tuple(value.shape) for name, value in model.named_parameters()}
    taken = {}
    for number in range(len(found.heads)):
        parts = [part for part in found.parts if part.branch.stream == number and part.counted]
        joins = list(dict.fromkeys(part.join.addition.ordinal for part in parts))
        kind = Counter(part.branch.kind for part in parts).most_common(1)[0][0]
        begins = {part.join.addition.ordinal: part.branch.name for part in parts if part.branch.kind == kind}
        if not {*joins} <= recorder.skips.keys():  # a sum within another call, as addmm, has no number
            continue
        states = [recorder.skips[ordinal] for ordinal in joins if ordinal in begins]
        states.append(recorder.sums[joins[-1]])
        if len({state.shape for state in states}) == 1:
            channels = 1 + channel_axis(parts[0], shapes, states[0].dim())
            taken[number] = StreamStates(tuple(begins.values()), torch.stack(states), channels)
    return taken


def channel_axis(part: Part, shapes: Mapping[str, tuple[int, ...]], axes: int) -> int:
    """Return the axis of the stream along which its coordinates lie: the second after a convolution."""
    output = part.branch.output
    return 1 if output and len(shapes.get(output[0], ())) > 2 else axes - 1


class _Recorder(TorchCalls):
    """Keeps both ends of the skip of every residual join; numbers additions as `SharedStream` does."""

    def __init__(self, found: Layout) -> None:
        super().__init__()
        self.skipped = {join.addition.ordinal: join.skip for join in found.joins}
        self.skips: dict[int, torch.Tensor] = {}
        self.sums: dict[int, torch.Tensor] = {}
        self.count = 0

    def returned(self, this: Any, result: Any) -> Any:
        return result

    def call(
        self, name: str, func: Callable[..., Any], args: Any, kwargs: Any, operands: Operands | None
    ) -> Any:
        if operands is None:
            return func(*args, **kwargs)
        ordinal, self.count = self.count, self.count + 1
        if ordinal not in self.skipped:
            return func(*args, **kwargs)
        # A copy, since a sum in place would change it.
        self.skips[ordinal] = _kept((operands.first, operands.branch())[self.skipped[ordinal]])
        result = func(*args, **kwargs)
        self.sums[ordinal] = _kept(result)
        return result


def _kept(state: torch.Tensor) -> torch.Tensor:
    return state.detach().to("cpu", torch.float32, copy=True)
