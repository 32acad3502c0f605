"""One Brownian path for every number of steps, asked as torchsde asks: increments, and Lévy areas on request.

B, ∫ B ds and, where noise may not commute, ∫ B ⊗ dB are kept at the times of one fine grid. All add up over
intervals (Chen's relation), so that coarse steps read exactly what fine ones do. Inside each interval of that
grid a fine reference may step along; what it reads is summed and not kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torchsde
from torch import Tensor

from deeplimit.common.randomness import Purpose, generator

ON_GRID = 1e-6
"""A time counts as one of the grid's within this part of an interval: sums of steps differ by round-off."""
LARGEST_GRID = 2**17
"""Intervals of the grid, at most: numbers of steps without a common multiple below are refused."""


class SharedBrownian(torchsde.BaseBrownian):  # type: ignore[misc]
    """A Brownian motion on a grid, with its space-time and space-space Lévy areas.

    `brownian(s, t)` is B_t - B_s (P, m). With `return_U=True` the space-time area ∫_s^t (B_r - B_s) dr
    follows, with `return_A=True` the Lévy area ½ ∫ (B^k dB^l - B^l dB^k) (P, m, m), as in torchsde. Where
    ∫ B ⊗ dB is not kept, since noise commutes and no area matters, that is its mean given the other two.

    Attributes:
        intervals: number of equal intervals; other times are refused.
        begin, duration: the time at which the path begins, and how long it is.
        path, integral, iterated: B (G + 1, P, m), ∫ B ds, and ∫ B ⊗ dB (G + 1, P, m, m) or None.
    """

    levy_area_approximation = "foster"

    def __init__(
        self,
        path: Tensor,
        integral: Tensor,
        iterated: Tensor | None,
        begin: float = 0.0,
        duration: float = 1.0,
    ) -> None:
        super().__init__()
        self.path, self.integral, self.iterated = path, integral, iterated
        self.intervals = len(path) - 1
        self.begin, self.duration = begin, duration

    def _index(self, time: Any) -> int:
        place = (float(time) - self.begin) / self.duration * self.intervals
        index = round(place)
        if abs(place - index) > ON_GRID or not 0 <= index <= self.intervals:
            raise ValueError(
                f"brownian is known at multiples of {self.duration:g}/{self.intervals} from {self.begin:g} to"
                f" {self.begin + self.duration:g}, got t = {float(time):.9g}; step along times, or halve each"
                " of its steps."
            )
        return index

    def __call__(self, ta: Any, tb: Any = None, return_U: bool = False, return_A: bool = False) -> Any:
        if tb is None:
            ta, tb = 0.0, ta
        start, end = self._index(ta), self._index(tb)
        moved = self.path[end] - self.path[start]
        found = [moved]
        length = (end - start) / self.intervals * self.duration
        area = self.integral[end] - self.integral[start] - length * self.path[start]
        if return_U:
            found.append(area)
        if return_A:
            found.append(self._levy_area(start, end, moved, area, length))
        return tuple(found) if len(found) > 1 else moved

    def _levy_area(self, start: int, end: int, moved: Tensor, area: Tensor, length: float) -> Tensor:
        if self.iterated is not None:
            product = self.path[start].unsqueeze(-1) * moved.unsqueeze(-2)
            iterated = self.iterated[end] - self.iterated[start] - product
            return 0.5 * (iterated - iterated.transpose(-1, -2))
        bridge = area / max(length, 1e-300) - 0.5 * moved
        product = bridge.unsqueeze(-1) * moved.unsqueeze(-2)
        return product - product.transpose(-1, -2)

    def __repr__(self) -> str:
        return f"SharedBrownian(intervals={self.intervals})"

    dtype = property(lambda self: self.path.dtype)
    device = property(lambda self: self.path.device)
    shape = property(lambda self: self.path.shape[1:])


Advance = Callable[[float, float, Tensor], None]
"""What a reference does with a fine step: its beginning, its length, the increment (P, m)."""


def draw(
    intervals: int,
    finer: int,
    shape: tuple[int, int],
    areas: bool,
    seed: int,
    block: int,
    purpose: Purpose,
    advance: Advance | None = None,
    each: Callable[[int], None] | None = None,
) -> SharedBrownian:
    """Draw the path of one block.

    Args:
        intervals: number of intervals of the grid.
        finer: fine steps per interval.
        shape: (P, m).
        areas: whether ∫ B ⊗ dB is kept.
        seed, block, purpose: what decides the numbers.
        advance: called at every fine step.
        each: called at the end of interval k with k + 1.
    """
    stream = generator(seed, purpose, block)
    paths, motions = shape
    kind: dict[str, Any] = {"dtype": torch.float64}
    path, integral = (torch.zeros(intervals + 1, paths, motions, **kind) for _ in range(2))
    iterated = torch.zeros(intervals + 1, paths, motions, motions, **kind) if areas else None
    length = 1.0 / (intervals * finer)
    unit = length * torch.eye(motions, **kind)
    for k in range(intervals):
        moved, bridge = torch.randn(2, finer, paths, motions, generator=stream, **kind).unbind()
        moved *= math.sqrt(length)
        ends = moved.cumsum(0)
        starts = path[k] + ends - moved
        path[k + 1] = path[k] + ends[-1]
        inside = 0.5 * length * moved + length * math.sqrt(length / 12) * bridge
        integral[k + 1] = integral[k] + (length * starts + inside).sum(0)
        if iterated is not None:
            before = starts + 0.5 * moved  # Itô's sum, with what one fine step adds to its diagonal
            iterated[k + 1] = iterated[k] + torch.einsum("fpk,fpl->pkl", before, moved) - 0.5 * finer * unit
        if advance is not None:
            for j in range(finer):
                advance((k * finer + j) * length, length, moved[j])
        if each is not None:
            each(k + 1)
    return SharedBrownian(path, integral, iterated)
