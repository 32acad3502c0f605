"""How long a run takes at most, by those that ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

RECENT = 3
"""How many of the last runs say what the next one costs."""


@final
@dataclass(frozen=True)
class Work:
    """What a run does, in units that its time is a sum of.

    Attributes:
        blocks: blocks of paths.
        steps: layers and steps of a limit that the blocks go through, one after the other.
        path_steps: the same, times the paths that go through them together.
    """

    blocks: int
    steps: int
    path_steps: int

    @classmethod
    def of(cls, blocks: Iterable[tuple[int, int]]) -> Work:
        """Return the work of blocks, each given by its steps and its paths."""
        each = [*blocks]
        return cls(len(each), sum(steps for steps, _ in each), sum(steps * paths for steps, paths in each))

    def over(self, other: Work) -> float:
        """Return how many times the work of another run this is, by the unit that grew most; 1 at least."""
        return max(
            1.0, self.blocks / other.blocks, self.steps / other.steps, self.path_steps / other.path_steps
        )


@final
@dataclass(frozen=True)
class Costs:
    """Runs that ended, as pairs of work and seconds.

    A run takes a constant, and so much per block, per step, and per path and step. How much of each is not
    known. Yet whatever they are, a run with at most r times each unit of another takes at most r times as
    long.
    """

    runs: tuple[tuple[Work, float], ...] = ()

    def with_run(self, work: Work, seconds: float) -> Costs:
        """Return the costs with one more run; one without work, whose blocks were there, says nothing."""
        return self if work.blocks == 0 else Costs((*self.runs, (work, seconds)))

    def most(self, work: Work) -> float:
        """Return the seconds that a run takes at most, by the least bound of recent runs; infinite by none.

        Examples:
            >>> costs = Costs().with_run(Work(1, 100, 1000), 0.5)
            >>> costs.most(Work(2, 400, 2000))
            2.0
        """
        if work.blocks == 0:
            return 0.0
        bounds = [seconds * work.over(run) for run, seconds in self.runs[-RECENT:]]
        return min(bounds, default=float("inf"))
