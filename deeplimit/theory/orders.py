"""Terms of an error by their powers of 1/L: the order, whether it is only a bound, and corrections to it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

COINCIDING = 0.0025
"""Contributions closer than this are of one order up to a factor 1 + cL^-s, s tiny, whose products are no
terms in addition.
"""
SAME = 1e-9
"""Powers closer than this are equal, up to the rounding of sums such as 0.7 + 0.3."""


@final
@dataclass(frozen=True)
class Contributions:
    """The terms of an error, each by its power of 1/L; an infinite power is a term that is not there.

    Attributes:
        exact: powers of terms whose size is known, up to factors that only special weights make 0.
        bounds: powers that some terms do not exceed in size: they may be smaller, or missing.
    """

    exact: tuple[float, ...]
    bounds: tuple[float, ...] = ()

    @property
    def rate(self) -> float:
        """The smallest power: the order, or a lower bound of it."""
        return min((*self.exact, *self.bounds), default=math.inf)

    @property
    def is_bound(self) -> bool:
        """Whether the smallest power belongs to terms that may be smaller."""
        return self.rate < min(self.exact, default=math.inf) - SAME

    @property
    def corrections(self) -> tuple[float, ...]:
        """By what powers of 1/L these terms, and the first one's feedback, are below the first."""
        return self._apart(COINCIDING)

    @property
    def second_orders(self) -> tuple[float, ...]:
        """The same for terms that may exceed the first at small depth, however close to it."""
        return self._apart(SAME)

    def _apart(self, least: float) -> tuple[float, ...]:
        known = min(self.exact, default=math.inf)
        powers = [power for power in (*self.exact, *self.bounds) if power < math.inf]
        # Where a bound is not attained, the first term is another one.
        firsts = {self.rate, known, *(bound for bound in self.bounds if bound < known)} - {math.inf}
        apart = {round(power - first, 9) for power in powers for first in firsts if power - first > least}
        return tuple(sorted({*apart, *(round(first, 9) for first in firsts), 1.0}))
