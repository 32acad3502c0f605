"""How large a change is, and how much larger than at the coarsest depth, whatever law it follows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy import stats

from deeplimit.common.fields import Interval


@final
@dataclass(frozen=True)
class Sizes:
    """Medians of |h_L - h_0|/|h_0| at the coarsest and the deepest networks, by ranks: overflow is largest.

    Attributes:
        depths: the coarsest and the deepest number of layers.
        log_medians: logs of the medians there.
        likely, sure: intervals of the deepest log median by order statistics, at 95 % and at `certainty`.
        rises, falls: p-values of Mann and Whitney's test that the deepest change is no larger, or no smaller,
            than the coarsest.
        certainty: the level.
    """

    depths: tuple[int, int]
    log_medians: tuple[float, float]
    likely: Interval
    sure: Interval
    rises: float
    falls: float
    certainty: float

    @classmethod
    def of(cls, depths: np.ndarray, log_change: np.ndarray, certainty: float) -> Sizes | None:
        """Return what log changes (m, draws) show; None for one depth, and where a layer made NaN."""
        if len(depths) < 2 or np.isnan(log_change[[0, -1]]).any():
            return None
        coarsest, deepest = np.sort(log_change[0]), np.sort(log_change[-1])
        rises, falls = (
            float(stats.mannwhitneyu(deepest, coarsest, alternative=side).pvalue)
            for side in ("greater", "less")
        )
        medians = (float(_median(coarsest)), float(_median(deepest)))
        likely, sure = (_interval_of_median(deepest, level) for level in (0.95, certainty))
        return cls((int(depths[0]), int(depths[-1])), medians, likely, sure, rises, falls, certainty)

    @property
    def log_factor(self) -> float:
        """Log of the deepest median over the coarsest; NaN where both are infinite or both 0."""
        coarsest, deepest = self.log_medians
        return deepest - coarsest if math.isfinite(coarsest) or math.isfinite(deepest) else math.nan

    def has_grown(self, error: float) -> bool:
        """Whether the change grows with the depth, up to this probability of error."""
        return self.rises < error / 2.0

    def has_fallen(self, error: float) -> bool:
        """Whether the change falls with the depth, up to this probability of error."""
        return self.falls < error / 2.0


def _interval_of_median(ordered: np.ndarray, confidence: float) -> Interval:
    """Return the order statistics that hold the median at this level: all numbers for too few draws."""
    draws, tail = len(ordered), (1.0 - confidence) / 2.0
    # The k-th smallest of n draws lies above the median with probability P(Bin(n, 1/2) < k).
    outside = int(stats.binom.ppf(tail, draws, 0.5))
    if outside < 1 or stats.binom.cdf(outside - 1, draws, 0.5) > tail:
        return -math.inf, math.inf
    return float(ordered[outside - 1]), float(ordered[draws - outside])


def _median(ordered: np.ndarray) -> float:
    """Return the median; infinite entries are averaged with none of their own sign."""
    lower, upper = float(ordered[(len(ordered) - 1) // 2]), float(ordered[len(ordered) // 2])
    return lower if lower == upper else 0.5 * (lower + upper)
