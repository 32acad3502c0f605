"""What to know before trusting the numbers of a comparison: rules of which every one that holds is said."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deeplimit.statistics.verdict import Rule

HEAVY = 100.0
"""Kurtosis from which a few paths dominate an average (Giles' warning for multilevel Monte Carlo)."""
FEW = 100
"""Fewer paths leave the covariance between depths poorly known."""
CLOSE = 0.05
"""A disturbance above this share of the smallest error is mentioned."""
APART = 0.3
"""Slopes this far above the order cannot be taken for it in a picture: from order 1/2 to 1 it is 1/2."""
DRIFT = 0.05
"""Local slopes that change by more than this, beyond noise, are mentioned."""


@dataclass(frozen=True)
class Numbers:
    """What the reservations rest on; arrays have one entry per depth.

    Attributes:
        depths, errors, kurtosis: as in the report. diverged, limit_lost: paths lost by depth, and by the
            limit.
        paths: number of paths. exact: whether nothing is random, given them.
        rate, interval, predicted: order, its interval, and the predicted one (None where there is none).
        is_bound: whether that is a lower bound. withheld: whether order and interval are not given.
        contradicts: whether the verdict is "does not converge", against a theorem. unknown: what the theorem
            assumes, and nobody knows of this network, as sentences.
        drift, drift_error: change of the local slope from the first to the last, and its standard error.
        reference_error, rounding: size of the reference solution's error and of round-off.
        swollen: whether taking the reference's error out changes some error by more than half.
        narrow: whether states are float32.
    """

    depths: tuple[int, ...]
    errors: np.ndarray
    kurtosis: np.ndarray
    diverged: np.ndarray
    limit_lost: int
    paths: int
    exact: bool
    rate: float
    interval: tuple[float, float]
    predicted: float | None
    is_bound: bool
    withheld: bool
    contradicts: bool
    drift: float
    drift_error: float
    reference_error: float
    rounding: float
    swollen: bool
    narrow: bool
    unknown: tuple[str, ...] = ()

    @property
    def steepness(self) -> float:
        """The slope of the errors from the coarsest to the deepest; NaN where one of them is 0 or lost."""
        first, last = float(self.errors[0]), float(self.errors[-1])
        if not (0 < last < np.inf and 0 < first < np.inf):
            return np.nan
        return float(np.log(first / last) / np.log(self.depths[-1] / self.depths[0]))

    @property
    def smallest(self) -> float:
        """The smallest error that is finite and not zero; infinite where there is none."""
        return float(self.errors[np.isfinite(self.errors) & (self.errors > 0)].min(initial=np.inf))

    @property
    def heaviest(self) -> float:
        """The largest kurtosis."""
        return float(self.kurtosis.max(initial=0.0))


def limit_was_lost(n: Numbers) -> bool:
    """The limit overflowed."""
    return n.limit_lost > 0


def paths_were_lost(n: Numbers) -> bool:
    """A network overflowed."""
    return bool((n.diverged > 0).any())


def paths_are_few(n: Numbers) -> bool:
    """The covariance is poorly known."""
    return n.paths < FEW and not n.exact


def tails_are_heavy(n: Numbers) -> bool:
    """Few paths make up the average."""
    return n.heaviest > HEAVY


def reference_is_coarse(n: Numbers) -> bool:
    """The solver's tolerance shows."""
    return n.reference_error > CLOSE * n.smallest


def reference_changes_errors(n: Numbers) -> bool:
    """The correction is large."""
    return n.swollen


def rounding_shows(n: Numbers) -> bool:
    """Errors are near round-off."""
    return n.rounding > CLOSE * n.smallest


def order_is_not_the_predicted(n: Numbers) -> bool:
    """The interval excludes theory, and is not above a lower bound."""
    low, high = n.interval
    if n.predicted is None or not np.isfinite(n.rate):
        return False
    return not low <= n.predicted <= high and not (n.is_bound and low > n.predicted)


def theorem_is_contradicted(n: Numbers) -> bool:
    """The verdict is against a theorem."""
    return n.contradicts


def slopes_drift(n: Numbers) -> bool:
    """The order is not asymptotic yet."""
    return n.drift > max(DRIFT, 3 * n.drift_error)


def errors_fall_faster_than_the_order(n: Numbers) -> bool:
    """The order is that of a part which takes over at larger depth, and errors show another slope."""
    return n.predicted is None and bool(n.steepness - n.rate > APART)


CAVEATS: tuple[Rule[Numbers], ...] = (
    limit_was_lost,
    paths_were_lost,
    paths_are_few,
    tails_are_heavy,
    reference_is_coarse,
    reference_changes_errors,
    rounding_shows,
    order_is_not_the_predicted,
    theorem_is_contradicted,
    slopes_drift,
    errors_fall_faster_than_the_order,
)
