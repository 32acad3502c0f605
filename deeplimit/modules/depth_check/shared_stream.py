"""The second forward of a measurement: every residual branch is given the same stream.

Each stream begins with the same noise at all depths, and every residual join returns its skip alone. So what
a branch adds depends on its own parameters only, not on where the other branches have driven the stream.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch

from deeplimit.modules.trace.branches import Layout, Part
from deeplimit.modules.trace.operations import Call, Operands, TorchCalls, size
from deeplimit.modules.trace.recording import Trace

IN_PLACE = {"add_", "sub_", "addcmul_", "__iadd__", "__isub__"}

SIZE_ERROR = 1e-3
"""Relative uncertainty of every size: round-off, and states that are the same only up to it."""


class SharedStream(TorchCalls):
    """Runs a module with every residual join returning its skip, and notes what the branches would add.

    Every stream begins with noise of its usual size, the same at all depths; of the first stream's where it
    begins at zero, and so with a layer's update, which falls with depth. The network's embeddings would
    not do: they differ from depth to depth and move all branches of one depth together. The scatter among the
    layers of that depth cannot show this.
    """

    def __init__(self, trace: Trace, found: Layout, *, cut: bool = True) -> None:
        """Without `cut` the stream is left as it is: branches are noted in an ordinary forward."""
        super().__init__()
        self.cutting = cut
        self.expected = len(trace.additions)
        self.cuts = {**trace.injected, **{join.addition.ordinal: join.skip for join in found.joins}}
        self.streams = {part.join.addition.ordinal: part.branch.stream for part in found.parts}
        self.levels: dict[int, float] = {}  # the size in which branches read each stream
        # By what numbers scale a sum until the next branch reads it, and a state until it joins a sum.
        self.onward, self.passed = _scales(found)
        self.from_zero = dict.fromkeys(found.from_zero, found.first_size)
        self.firsts: dict[int, torch.Size] = {}  # the shape in which it began
        self.wanted: dict[int, list[Part]] = {}
        for part in found.parts:
            self.wanted.setdefault(part.ordinal, []).append(part)
        self.begins: dict[Call, int] = {}
        for number in range(len(found.heads)):
            root = next(part.join.root for part in found.parts if part.branch.stream == number)
            if cut and root in trace.calls:
                self.begins[trace.calls[root]] = number
        self.count = 0
        self.begun: set[int] = set()
        self.updates: dict[int, tuple[float, float]] = {}
        self.sums: dict[str, torch.Tensor] = {}
        self.squares: dict[str, float] = {}
        self.last: dict[str, torch.Tensor] = {}
        self.cosines: dict[str, list[float]] = {}  # of each update with that of the layer before

    @property
    def complete(self) -> bool:
        """Whether this forward made the recorded one's additions, and every stream began where it did."""
        return self.count == self.expected and self.begun == set(self.begins.values())

    def call(
        self, name: str, func: Callable[..., Any], args: Any, kwargs: Any, operands: Operands | None
    ) -> Any:
        if operands is None:
            return func(*args, **kwargs)
        ordinal, self.count = self.count, self.count + 1
        sides = (operands.first, operands.branch()) if ordinal in self.wanted or ordinal in self.cuts else ()
        if sides:
            self.updates[ordinal] = (size(sides[0]), size(sides[1]))
        for part in self.wanted.get(ordinal, ()):
            self.note(part, sides[part.side].detach().float())
        if ordinal not in self.cuts or not self.cutting:
            return func(*args, **kwargs)
        skip = sides[self.cuts[ordinal]]
        now = size(skip)
        # A sum that only adds an early state again belongs to no branch; the next join corrects its stream.
        stream = self.streams.get(ordinal)
        if stream is not None and self.firsts.pop(stream, skip.shape) != skip.shape:
            self.levels[stream] = now / self.passed[ordinal]  # a part of what began
        level = now
        if stream is not None:
            level = self.levels.setdefault(stream, now / self.passed[ordinal]) / self.onward.get(ordinal, 1.0)
        # A stream that is scaled in every layer would die out: it keeps the size with which it began.
        if now > 0 and level > 0 and abs(now / level - 1) > SIZE_ERROR:
            skip = skip * (level / now)
        if name in IN_PLACE:
            return operands.first if skip is operands.first else operands.first.copy_(skip)
        return skip.clone()

    def note(self, part: Part, update: torch.Tensor) -> None:
        """Take up what a branch adds when it is given the shared stream."""
        before = self.sums.get(part.key)
        if before is None or before.shape == update.shape:
            self.sums[part.key] = update.clone() if before is None else before.add_(update)
            self.squares[part.key] = self.squares.get(part.key, 0.0) + size(update) ** 2
            if before is not None:
                self.cosines.setdefault(part.key, []).append(_cosine(self.last[part.key], update))
            self.last[part.key] = update

    def start(self, like: torch.Tensor, stream: int) -> torch.Tensor:
        """Return what a stream begins with, of the shape of what begins it in the network."""
        return _noise(like, stream, self.from_zero.get(stream))

    def returned(self, this: Call, result: Any) -> Any:
        if this not in self.begins or not isinstance(result, torch.Tensor) or not result.is_floating_point():
            return result
        self.begun.add(self.begins[this])
        stream = self.begins[this]
        noise = self.start(result, stream)
        self.levels[stream], self.firsts[stream] = size(noise), noise.shape
        if this.name.endswith("_") and not this.name.endswith("__") and not result.is_leaf:
            # In place, so that other names of the tensor see it, too.
            return result.add_(noise - result.detach())
        # Still a function of what it replaces, for modules that differentiate inside forward (forces from
        # energies).
        return noise + (result - result.detach())


def _scales(found: Layout) -> tuple[dict[int, float], dict[int, float]]:
    """Return by what each residual sum is scaled until a branch reads it, and by what its skip is after that.

    Numbers count where they say how the sizes of an ordinary forward differ: no activation stands between,
    which acts otherwise on other states, no normalisation, and nothing else is added.
    """
    streams: dict[int, dict[int, Part]] = {}
    for part in found.parts:
        streams.setdefault(part.branch.stream, {}).setdefault(part.join.addition.ordinal, part)
    onward: dict[int, float] = {}
    for parts in streams.values():
        for (ordinal, part), (_, after) in pairwise(sorted(parts.items())):
            read = after.join.addition.sides[after.join.skip].size / (after.passed or 1.0)
            carried, size_before = after.skip / (after.passed or 1.0), part.join.addition.size
            if abs(read - carried * size_before) <= SIZE_ERROR * read < math.inf and carried > 0:
                onward[ordinal] = carried
    return onward, {part.join.addition.ordinal: part.passed or 1.0 for part in found.parts}


def _cosine(first: torch.Tensor, second: torch.Tensor) -> float:
    """Return the cosine of two updates; 0 where one of them is 0."""
    sizes = size(first) * size(second)
    return float((first * second).mean()) / sizes if sizes > 0 else 0.0


def _noise(like: torch.Tensor, seed: int, level: float | None = None) -> torch.Tensor:
    """Return normal numbers of a level or the size of `like`, without signs if it has no negative entry."""
    if not like.numel():
        raise ValueError(
            f"a residual stream is empty, of shape {tuple(like.shape)}: pass a batch with at least one entry."
        )
    noise = torch.randn(like.shape, generator=torch.Generator().manual_seed(seed))
    if bool((like.detach() >= 0).all()):
        noise = noise.abs()
    return (noise * ((size(like) if level is None else level) / size(noise))).to(like)
