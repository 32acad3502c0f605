"""The effective residual exponent: how fast the size of a branch's update falls as the network deepens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import special

from deeplimit.modules.depth_check.shared_stream import SIZE_ERROR
from deeplimit.statistics.power_law import line, slopes_between, student_quantile

LACK = 1e-3
"""Below this probability that noise alone leaves such residuals, sizes follow no power law. By the same
probability layers differ."""
APART = 0.25
"""Half of the distance between two of the exponents 0, 1/2 and 1. An interval that ends no further from
one of them tells it from the others."""
TIMES = 2.5
"""With a tolerance below 0.1, an interval that decides ends within this many tolerances of the exponent."""

NEAR = 0.75
"""Intervals of right modules at small depths, whose layers bend, stay away from the exponent by up to 0.06
where the tolerance is 0.1: Whisper's layers with a profile have 1.11 [1.06, 1.16] at depths 2 to 8."""
BENT = 1.25
"""The exponent itself, of these modules, is off by no more tolerances than this."""
ODD = math.log(1.2)
"""A depth is named that is off the line of all others by this at least: less changes no verdict by 1/2."""


def reach(tolerance: float) -> float:
    """Return how far from an expected exponent an interval that decides may end, by a tolerance to 0.25."""
    return min(APART, TIMES * tolerance)


class Odd(NamedTuple):
    """One depth that is off the power law of all others, by this factor; `exponent` is theirs."""

    place: int
    factor: float
    exponent: float


@dataclass(frozen=True)
class Exponent:
    """size ~ depth**-value, with standard error and interval, and whether a power law fits at all.

    `odd` is the one depth without which it does, if there is one.
    """

    value: float
    error: float
    low: float
    high: float
    power_law: bool
    odd: Odd | None = None

    def shifted(self, by: float) -> Exponent:
        """Return the exponent of sizes times depth**-by."""
        return replace(self, value=self.value + by, low=self.low + by, high=self.high + by)

    def within(self, target: float, tolerance: float) -> bool | None:
        """Return whether the exponent is `target` up to `tolerance`; None if the interval is too wide to
        tell.

        The interval is too wide if it reaches the target, and also what lies further away than `reach` says;
        if it stays away from the target by `NEAR` of the tolerance, but not by the whole; and if it stays
        away from it at all where the exponent is off by `BENT` tolerances.
        """
        if self.low > target + tolerance or self.high < target - tolerance:
            return False
        away = abs(self.value - target)
        reaches = self.low - NEAR * tolerance <= target <= self.high + NEAR * tolerance
        near = away <= tolerance or self.low <= target <= self.high or (reaches and away <= BENT * tolerance)
        widest = reach(tolerance)
        return True if near and self.high - target <= widest and target - self.low <= widest else None


def fit(
    depths: Sequence[float],
    sizes: Sequence[Sequence[float]],
    confidence: float,
    epsilon: float = 0.0,
    known: Sequence[Sequence[float]] = (),
    weighed: Sequence[Sequence[tuple[float, int]]] = (),
) -> Exponent | None:
    """Return the exponent of the root mean square of `sizes` in 1/depth.

    None if a mean is 0 or not finite, or if all depths are one.

    Branches of one depth are independent draws of one law if the initialisation makes them so. Their scatter,
    pooled over depths, gives the standard error, and Student's law the interval. Depths are independent,
    unlike those of `inference.power_law`, and no correction term is integrated over. Instead, where the
    depths' means lie off every power law by more than the scatter explains, the interval is widened to hold
    the slopes between neighbouring depths.

    Args:
        depths: numbers of layers (m,).
        sizes: one sequence of branches per depth.
        confidence: confidence level of the interval.
        epsilon: machine epsilon of the numbers in which the module computes.
        known: a factor of every size that is no draw, such as a number in the forward. Layers in which it
            differs do not scatter for that.
        weighed: the size of each branch's projection and how many entries it has, likewise: in a profile
            over layers sizes differ by more than they do by chance.
    """
    groups = [np.asarray(group, dtype=np.float64) for group in sizes]
    means = np.array([float(np.mean(group**2)) for group in groups])
    if np.any(means <= 0) or not np.all(np.isfinite(means)):
        return None
    x, y = np.log(np.asarray(depths, dtype=np.float64)), 0.5 * np.log(means)
    freedom = sum(group.size for group in groups) - len(groups)
    ones = [np.ones_like(group) for group in groups]
    stated = [np.asarray(row, dtype=np.float64) for row in known] or ones
    # Where something makes up for a factor, sizes scatter less than what is left of them.
    found = [_noise(groups, one) for one in (stated, ones)]
    if weighed:
        sizes_of = [np.array([size for size, _ in row]) for row in weighed]
        entries = min(count for row in weighed for _, count in row)
        factors = [one * size for one, size in zip(stated, sizes_of, strict=True)]
        # The square of a weight's size, of normal entries, has a relative variance of 2 over their number.
        found.append(_noise(groups, factors, 2 / entries * max(freedom, 1)))
    noise = min(found, key=lambda each: float(each.sum()))
    variances = noise / 4 / max(freedom, 1) + max(SIZE_ERROR, epsilon) ** 2
    fitted = line(x, y, 1 / variances)
    if fitted is None:
        return None
    power_law = fitted.misfit > LACK
    half = student_quantile(confidence, max(freedom, 1)) * fitted.error
    low, high = -fitted.slope - half, -fitted.slope + half
    if not power_law:
        with np.errstate(divide="ignore"):  # two depths may have one number of branches
            steps, _ = slopes_between(x, y, np.diag(variances))
        steps = steps[np.isfinite(steps)]
        low, high = min(low, float(steps.min())), max(high, float(steps.max()))
    return Exponent(
        -fitted.slope, fitted.error, low, high, power_law, None if power_law else _odd(x, y, variances)
    )


def _odd(x: np.ndarray, y: np.ndarray, variances: np.ndarray) -> Odd | None:
    """Return the one point without which the others lie on a line, of four or more."""
    found = []
    for place in range(len(x)) if len(x) > 3 else ():
        rest = np.arange(len(x)) != place
        fitted = line(x[rest], y[rest], 1 / variances[rest])
        if fitted is not None and fitted.misfit > LACK:
            centre = np.average(np.stack([x, y])[:, rest], axis=1, weights=1 / variances[rest])
            off = float(y[place] - centre[1] - fitted.slope * (x[place] - centre[0]))
            found.append(Odd(place, math.exp(off), -fitted.slope))
    return found[0] if len(found) == 1 and abs(math.log(found[0].factor)) > ODD else None


def _noise(groups: Sequence[np.ndarray], factors: Sequence[np.ndarray], further: float = 0.0) -> np.ndarray:
    """Return, up to degrees of freedom, the variance of the log mean square of sizes of known factors.

    It is that of the relative squares of what is left of all sizes, and `further` of the factors, times the
    sum of squared weights.
    """
    pooled, weights = further, []
    for group, factor in zip(groups, factors, strict=True):
        squares, some = factor**2, factor > 0
        left = (group[some] / factor[some]) ** 2
        if not left.size or not 0 < left.mean() < np.inf:
            return np.full(len(groups), np.inf)
        pooled += float(np.sum((left / left.mean() - 1) ** 2))
        weights.append(float(np.sum(squares**2) / np.sum(squares) ** 2))
    return pooled * np.array(weights)


def differ(draws: Sequence[Sequence[Sequence[float]]]) -> bool:
    """Whether the layers of a network differ by more than draws of one layer do, as in a profile over layers.

    An analysis of variance of log sizes, pooled over depths. The layers of a profile are no draws of one law,
    so that however many draws there are, their averages follow the profile and not the depth alone.

    Args:
        draws: sizes of layers, at each depth and in each draw.
    """
    between, within, layers, rest = 0.0, 0.0, 0, 0
    for depth in draws:
        sizes = np.asarray(depth, dtype=np.float64)
        if len(sizes) < 2 or np.any(sizes <= 0):
            return False
        logs = np.log(sizes)
        means = logs.mean(axis=0)
        between += len(sizes) * float(np.sum((means - means.mean()) ** 2))
        within += float(np.sum((logs - means) ** 2))
        layers += sizes.shape[1] - 1
        rest += (len(sizes) - 1) * sizes.shape[1]
    if layers == 0 or within == 0:
        return False
    return bool(special.fdtrc(layers, rest, (between / layers) / (within / rest)) < LACK)


def slope(depths: Sequence[float], values: Sequence[float]) -> float | None:
    """Return the least-squares exponent of positive values in 1/depth.

    None if a value is not positive or not finite, or if all depths are one.
    """
    if len(values) < 2 or any(not 0 < value < math.inf for value in values):
        return None
    x, y = np.log(np.asarray(depths, dtype=np.float64)), np.log(np.asarray(values, dtype=np.float64))
    fitted = line(x, y, np.ones(len(x)))
    return None if fitted is None else -fitted.slope
