"""The union of the layer times k/L of several depths, in exact integers, never held whole in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

CHUNK = 512


def uniform_size(depths: tuple[int, ...], at_least: int) -> int:
    """Return the smallest number of equal steps, `at_least` or more, that holds all layers of `depths`."""
    together = math.lcm(*depths)
    return together * max(1, -(-at_least // together))


@dataclass(frozen=True)
class Chunk:
    """Consecutive steps of the grid: end times (K,), lengths (K,), and which depths have a layer ending."""

    times: np.ndarray  # (K,) float64
    steps: np.ndarray  # (K,) float64
    start: float
    ends: np.ndarray  # (K, number of depths) bool
    common: np.ndarray  # (K,) bool: a layer of every depth ends there
    coarse: np.ndarray  # (K,) bool: a step of the coarser reference ends there


@dataclass(frozen=True)
class Grid:
    """The union of the grids of `depths` and, to refine it, of `extra` depths that nobody reads.

    If it is `halved`, every step of that union is cut in two. A second, coarser reference uses the union
    itself, and the finer one has half its step everywhere, wherever in time the noise may be.
    """

    depths: tuple[int, ...]
    extra: tuple[int, ...] = ()
    halved: bool = False

    @cached_property
    def _generating(self) -> tuple[int, ...]:
        """The depths that no other depth is a multiple of: their grids contain all others."""
        every = sorted(set(self.depths + self.extra))
        return tuple(d for d in every if not any(other % d == 0 for other in every if other > d))

    @cached_property
    def common(self) -> int:
        """The number of steps of the finest grid that all depths contain: their greatest common divisor."""
        return math.gcd(*self.depths)

    def chunks(self) -> Iterator[Chunk]:
        """Yield the steps in order of time, at most CHUNK or so at once."""
        windows = max(1, math.ceil(sum(self._generating) / CHUNK))
        last_numerator, last_denominator = 0, 1
        for window in range(windows):
            numerators, denominators = [], []
            for depth in self._generating:
                k = np.arange(
                    window * depth // windows + 1, (window + 1) * depth // windows + 1, dtype=np.int64
                )
                divisor = np.gcd(k, depth)
                numerators.append(k // divisor)
                denominators.append(depth // divisor)
            fractions = np.unique(
                np.stack([np.concatenate(numerators), np.concatenate(denominators)], axis=1), axis=0
            )
            if len(fractions) == 0:
                continue
            fractions = fractions[np.argsort(fractions[:, 0] / fractions[:, 1])]
            numerator, denominator = fractions[:, 0], fractions[:, 1]
            before = np.concatenate([[last_numerator], numerator[:-1]])
            before_denominator = np.concatenate([[last_denominator], denominator[:-1]])
            steps = (numerator * before_denominator - before * denominator) / (
                denominator * before_denominator
            )
            chunk = Chunk(
                numerator / denominator,
                steps,
                last_numerator / last_denominator,
                np.stack([depth % denominator == 0 for depth in self.depths], axis=1),
                self.common % denominator == 0,
                np.ones(len(steps), dtype=bool),
            )
            yield _halve(chunk) if self.halved else chunk
            last_numerator, last_denominator = int(numerator[-1]), int(denominator[-1])

    @cached_property
    def size(self) -> int:
        """The number of steps."""
        return sum(len(chunk.steps) for chunk in self.chunks())

    def sum_of_powers(self, power: float) -> float:
        """Return Σ Δ_i^power; of power 2 it is 1/L for the uniform grid of depth L."""
        return float(sum((chunk.steps**power).sum() for chunk in self.chunks()))


def _halve(chunk: Chunk) -> Chunk:
    """Return the chunk with every step cut in two."""

    def at_ends(flags: np.ndarray) -> np.ndarray:
        spread = np.zeros((2 * len(flags), *flags.shape[1:]), dtype=bool)
        spread[1::2] = flags
        return spread

    times = np.repeat(chunk.times, 2)
    times[::2] -= chunk.steps / 2
    steps = np.repeat(chunk.steps / 2, 2)
    return Chunk(times, steps, chunk.start, at_ends(chunk.ends), at_ends(chunk.common), at_ends(chunk.coarse))
