"""Moments of several depths as powers of the number of blocks, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from deeplimit.judge.block_limit.measure import AtDepth
from deeplimit.statistics.power_law import line, student_quantile

ROUNDING = 1e-3
"""Relative error of a mean square beside its Monte-Carlo error: moments are taken at states that differ
between depths by O(1/L)."""
LACK = 1e-3
"""Below this probability that noise leaves such residuals, the interval is widened by the misfit."""


@dataclass(frozen=True)
class Power:
    """value ~ blocks**exponent: the exponent with its interval."""

    exponent: float
    low: float
    high: float

    @property
    def is_flat(self) -> bool:
        """Whether the exponent is 0, up to a fifth of the distance between classical exponents."""
        return abs(self.exponent) <= 0.1 and self.low > -0.25 and self.high < 0.25

    @property
    def rises(self) -> bool:
        return self.low > 0.03 and self.exponent > 0.1

    @property
    def falls(self) -> bool:
        return self.high < -0.03 and self.exponent < -0.1


def power_of(
    blocks: Sequence[int],
    means: Sequence[float],
    errors: Sequence[float],
    confidence: float,
    root: bool = True,
) -> Power | None:
    """Return the power of (the root of) means with these standard errors; None where one is not positive."""
    values = np.asarray(means, dtype=np.float64)
    if not np.all(np.isfinite(values)) or np.any(values <= 0):
        return None
    x, scale = np.log(np.asarray(blocks, dtype=np.float64)), 0.5 if root else 1.0
    relative = np.hypot(np.asarray(errors, dtype=np.float64) / values, ROUNDING)
    fitted = line(x, scale * np.log(values), 1 / (scale * relative) ** 2)
    assert fitted is not None  # depths differ
    half = student_quantile(confidence, 60) * fitted.error
    if len(x) > 2 and fitted.misfit < LACK:
        steps = scale * np.diff(np.log(values)) / np.diff(x)
        half = max(half, float(np.abs(steps - fitted.slope).max()))
    return Power(fitted.slope, fitted.slope - half, fitted.slope + half)


def of_draws(
    taken: Sequence[AtDepth], value: Callable[[AtDepth], np.ndarray], confidence: float, root: bool = True
) -> Power | None:
    """Return the power of a mean over networks."""
    draws = [value(one) for one in taken]
    errors = [float(each.std(ddof=1) / np.sqrt(len(each))) for each in draws]
    means = [float(each.mean()) for each in draws]
    return power_of([one.blocks for one in taken], means, errors, confidence, root)


def of_alignment(taken: Sequence[AtDepth], confidence: float) -> Power | None:
    """Return the power of the variance of the sum over the sum of the layers' variances."""
    ratios, errors = [], []
    for one in taken:
        apart = float(one.apart.mean())
        ratio = float(one.spreads.mean()) / apart if apart > 0 else 0.0
        ratios.append(ratio)
        errors.append(
            float((one.spreads - ratio * one.apart).std(ddof=1)) / max(apart, 1e-300) / len(one.apart) ** 0.5
        )
    return power_of([one.blocks for one in taken], ratios, errors, confidence, root=False)
