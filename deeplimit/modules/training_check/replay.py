"""A forward whose residual stream is that of the untrained network, whatever its weights are by now.

Every residual join returns the state that the stream had there before training, and so does every operation
that begins a stream. So a branch is given the same input before and after the steps, and what it adds differs
by what its weights have become alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from deeplimit.modules.depth_check.one_depth import share_of
from deeplimit.modules.depth_check.shared_stream import IN_PLACE
from deeplimit.modules.trace.branches import Layout, Part
from deeplimit.modules.trace.operations import Call, Operands, TorchCalls
from deeplimit.modules.trace.recording import Trace


@dataclass(frozen=True)
class Places:
    """Where a forward's branches and streams are, by the number of the addition or call; no graph is kept.

    Attributes:
        additions: number of additions of two activations in one forward.
        joins: additions that are residual joins.
        ends: addition that ends each stream.
        updates: sides of additions that hold a branch's update, (addition, side), by position of the branch.
        shares: what scales a side further on, as of a velocity, by (addition, side), where it is not 1.
        begins: calls whose result begins a stream.
    """

    additions: int
    joins: frozenset[int]
    ends: tuple[int, ...]
    updates: tuple[tuple[int, int], ...]
    begins: frozenset[Call]
    shares: dict[tuple[int, int], float]

    @classmethod
    def of(cls, trace: Trace, found: Layout) -> Places:
        """Return the places of a recorded forward."""
        ends = [
            [part.join.addition.ordinal for part in found.parts if part.branch.stream == number][-1]
            for number in range(len(found.heads))
        ]
        roots = {part.join.root for part in found.parts if _opens(part, found)}
        return cls(
            len(trace.additions),
            frozenset(join.addition.ordinal for join in found.joins),
            tuple(ends),
            tuple((part.ordinal, part.side) for part in found.parts),
            frozenset(trace.calls[root] for root in roots if root in trace.calls),
            {
                (part.ordinal, part.side): share
                for part in found.parts
                # What parameters scale changes with them, and so in training.
                if not part.branch.gains and (share := share_of(trace, part)) != 1.0
            },
        )


def _opens(part: Part, found: Layout) -> bool:
    """Whether a branch is the first of its stream, so that its root begins the stream."""
    first = next(other for other in found.parts if other.branch.stream == part.branch.stream)
    return part.join is first.join


@dataclass
class States:
    """What one forward went through: sums at the joins, what began the streams, updates of the branches."""

    sums: dict[int, torch.Tensor]
    begun: dict[Call, torch.Tensor]
    updates: dict[tuple[int, int], torch.Tensor]


class Watched(TorchCalls):
    """Runs a module and keeps the states of its streams; with `replayed`, it puts those of another forward in
    their place.
    """

    def __init__(
        self, places: Places, replayed: States | None = None, *, begun: States | None = None
    ) -> None:
        super().__init__()
        self.places = places
        self.replayed = replayed
        self.begun = replayed if begun is None else begun
        self.states = States({}, {}, {})
        self.count = 0
        self.wanted: dict[int, list[int]] = {}
        for ordinal, side in places.updates:
            self.wanted.setdefault(ordinal, []).append(side)

    def call(
        self, name: str, func: Callable[..., Any], args: Any, kwargs: Any, operands: Operands | None
    ) -> Any:
        if operands is None:
            return func(*args, **kwargs)
        ordinal, self.count = self.count, self.count + 1
        for side in self.wanted.get(ordinal, ()):
            update = operands.branch() if side else operands.first
            share = self.places.shares.get((ordinal, side))
            self.states.updates[ordinal, side] = update.detach() * share if share else update.detach().clone()
        result = func(*args, **kwargs)
        if ordinal not in self.places.joins:
            return result
        if self.replayed is None:
            self.states.sums[ordinal] = result.detach().clone()
            return result
        return _put(name, result, self.replayed.sums.get(ordinal))

    def returned(self, this: Call, result: Any) -> Any:
        if this not in self.places.begins or not isinstance(result, torch.Tensor):
            return result
        if self.begun is None:
            self.states.begun[this] = result.detach().clone()
            return result
        in_place = this.name.endswith("_") and not this.name.endswith("__") and not result.is_leaf
        return _put("add_" if in_place else "", result, self.begun.begun.get(this))


def _put(name: str, result: torch.Tensor, state: torch.Tensor | None) -> torch.Tensor:
    """Return a result with the values of `state`; in place, where other names of the tensor must see it."""
    if state is None or state.shape != result.shape:
        raise ValueError(
            f"a residual stream had a state of shape {None if state is None else tuple(state.shape)} before"
            f" training and has {tuple(result.shape)} after it: the module's path depends on its weights."
            " Pass blocks= to point at blocks that always run alike."
        )
    if name in IN_PLACE:
        with torch.no_grad():
            return result.copy_(state)
    return state.clone()
