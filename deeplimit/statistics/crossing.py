"""Where a falling curve passes 0, from repeated noisy measurements on a grid."""

from __future__ import annotations

import numpy as np
from scipy import stats

LEAST_DRAWS = 3
"""Fewer draws give no interval."""


def crossing(grid: np.ndarray, values: np.ndarray) -> float:
    """Return where falling `values` (n,) last pass from above 0 to below, by linear interpolation.

    NaN where they do not within `grid` (n,), which increases.
    """
    above = np.nonzero((values[:-1] > 0) & (values[1:] <= 0))[0]
    if not len(above):
        return float("nan")
    i = int(above[-1])
    share = values[i] / (values[i] - values[i + 1])
    return float(grid[i] + share * (grid[i + 1] - grid[i]))


def crossing_of_mean(
    grid: np.ndarray, draws: np.ndarray, confidence: float, straight: float
) -> tuple[float, tuple[float, float]]:
    """Return where the mean of `draws` (n, draws) over draws passes 0, and an interval at `confidence`.

    Means beyond 1/`straight` are bent down before they are interpolated, since an exploding curve is no
    straight line between grid points. The interval is Student's for the mean at that point, divided by the
    slope there; NaN for fewer than LEAST_DRAWS draws. What two ways to interpolate differ by is added,
    because the curve between grid points is not known.
    """
    mean = draws.mean(axis=1)
    at = crossing(grid, np.arcsinh(straight * mean))
    count = draws.shape[1]
    if count < LEAST_DRAWS or not np.isfinite(at):
        return at, (float("nan"), float("nan"))
    i = min(int(np.searchsorted(grid, at, side="right")) - 1, len(grid) - 2)
    step = grid[i + 1] - grid[i]
    share = (at - grid[i]) / step
    here = (1 - share) * draws[i] + share * draws[i + 1]
    error = here.std(ddof=1) / np.sqrt(count) / (abs(mean[i + 1] - mean[i]) / step)
    bent = abs(at - crossing(grid, mean))
    half = float(stats.t.isf((1 - confidence) / 2, count - 1) * error + bent)
    return at, (at - half, at + half)
