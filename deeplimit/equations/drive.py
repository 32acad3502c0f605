"""What a limit is solved on: one block of paths, and how much of the network's path it may read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from deeplimit.driving import FunctionLaw, Path, SampledFunction, Shape
from deeplimit.driving.path import Grid


@dataclass(frozen=True)
class Sharing:
    """What a limit reads of the path that drives a network; nothing where its noise is its own.

    Attributes:
        increments: The network's Brownian increments drive the limit.
        noise: It reads the Itô process whose increments are the network's layers.
        functions: It reads the network's own sampled functions of time.
        path: The network's fractional path drives it.
    """

    increments: bool = False
    noise: bool = False
    functions: bool = False
    path: bool = False


def places(wanted: Sequence[FunctionLaw], given: Sequence[FunctionLaw]) -> tuple[int, ...] | None:
    """Return where each of the functions that a limit reads is among the network's; None where one is not.

    Functions that only the network reads may be left over.
    """
    left, found = list(range(len(given))), []
    for law in wanted:
        place = next((each for each in left if given[each] == law), None)
        if place is None:
            return None
        left.remove(place)
        found.append(place)
    return tuple(found)


@dataclass(frozen=True)
class Drive:
    """What a limit is solved on: one block of paths.

    Attributes:
        state: Initial states (P, d).
        paths: The network's own paths, one for each weight.
        functions: The network's own sampled functions of time.
        sharing: Which of these the limit may read.
        stream: The limit's own random streams, by number.
        grid: The grid of all depths.
        twice: Whether a second, coarser solution on the same path is wanted.
        tolerance: Tolerance of an ODE's solver.
        schemes: Whether the limit's scheme on each depth's own layers is wanted, on the same path.
        laws: The laws of `functions`, in the same order.
    """

    state: Tensor
    paths: tuple[Path, ...]
    functions: tuple[SampledFunction, ...]
    sharing: Sharing
    stream: Callable[[int], torch.Generator]
    grid: Grid
    twice: bool
    tolerance: float
    schemes: bool = False
    laws: tuple[FunctionLaw, ...] = ()

    def functions_for(
        self, laws: tuple[FunctionLaw, ...], shapes: Sequence[Shape]
    ) -> tuple[SampledFunction, ...]:
        """Return the sampled functions that a limit reads: the network's if shared, or new ones."""
        if self.sharing.functions and (shared := places(laws, self.laws)) is not None:
            return tuple(self.functions[place] for place in shared)
        paths, device, dtype = len(self.state), self.state.device, self.state.dtype
        return tuple(
            law.sample(shape, paths, self.stream(1 + index), dtype, device)
            for index, (law, shape) in enumerate(zip(laws, shapes, strict=True))
        )
