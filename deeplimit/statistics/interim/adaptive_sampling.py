"""The arguments of an adaptive call, checked once for all functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from deeplimit.common import validation
from deeplimit.statistics.interim.sample_sizes import Size

AUTO = "auto"
SECONDS = 30.0
"""The budget that is meant where none is given."""


@final
@dataclass(frozen=True)
class AdaptiveSampling:
    """What is fixed, what is left open (None), and how many seconds the call may take."""

    depths: tuple[int, ...] | None
    count: int | None
    budget: float

    @classmethod
    def checked(
        cls,
        depths: object,
        count: object,
        budget: object,
        name: str,
        read_depths: Callable[[object], tuple[int, ...]],
        read_count: Callable[[object], int],
    ) -> AdaptiveSampling:
        """Return the arguments of a function; `name` is what it calls its paths.

        Raises TypeError or ValueError as the function's readers do, and for a budget that is no number, not
        above 0, or given where nothing is "auto".
        """
        fixed_depths = None if _is_auto(depths) else read_depths(depths)
        fixed_count = None if _is_auto(count) else read_count(count)
        read = cls(
            fixed_depths,
            fixed_count,
            SECONDS if budget is None else validation.real(budget, "budget", above=0.0, hint="In seconds."),
        )
        if budget is not None and read.is_fixed:
            raise ValueError(
                f"budget={budget!r} is for a call that chooses its size, but depths and {name} are both"
                f" given; pass depths='auto', {name}='auto' or both, or leave the budget out."
            )
        return read

    @property
    def is_fixed(self) -> bool:
        """Whether there is one size, given by the caller."""
        return self.depths is not None and self.count is not None

    def within(self, size: Size) -> Size:
        """Return a size with what the caller has fixed."""
        return Size(
            size.depths if self.depths is None else self.depths,
            size.count if self.count is None else self.count,
        )


def _is_auto(value: object) -> bool:
    return isinstance(value, str) and value == AUTO
