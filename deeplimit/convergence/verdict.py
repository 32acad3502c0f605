"""From fits to one of three verdicts, and every reservation a reader should have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from deeplimit.convergence.fit import Floor

CONVERGES = "converges"
DOES_NOT = "does not converge"
CANNOT_TELL = "cannot tell"
FLAT = 0.05
"""An order whose whole interval lies below this is no convergence at any depth that will ever be built."""
CERTAIN = 0.999
"""Probability of a floor holding most of the deepest squared error from which "does not converge" is said."""
DOUBTFUL = 0.05
"""Probability of such a floor up to which "converges" is said."""


@dataclass(frozen=True)
class Verdict:
    """One of the three verdicts, and why."""

    name: str
    reason: str


def judge(interval: tuple[float, float], floor: Floor) -> Verdict:
    """Return the verdict on finite, positive errors."""
    low, high = interval
    if high <= FLAT:
        return Verdict(DOES_NOT, f"the errors do not fall with depth: order at most {high:.3f}")
    if floor.probability >= CERTAIN:
        return Verdict(
            DOES_NOT,
            f"the errors level off: {100 * floor.share:.0f} % of the deepest squared error remains at infinite depth, so the "
            "limit is another one",
        )
    if low > 0 and floor.probability <= DOUBTFUL:
        return Verdict(
            CONVERGES,
            f"the errors fall with depth; at most {max(1.0, 100 * floor.upper):.0f} % of the deepest squared error is a floor",
        )
    if low <= 0:
        return Verdict(CANNOT_TELL, "the interval of the order contains 0; more paths or a wider range of depths would help")
    return Verdict(
        CANNOT_TELL,
        f"with probability {floor.probability:.2f} the errors level off within reach; deeper networks or more paths would help",
    )


def reservations(
    *,
    depths: tuple[int, ...],
    diverged: np.ndarray,
    paths: int,
    kurtosis: np.ndarray,
    reference_error: float,
    errors: np.ndarray,
    rounding: float,
    narrow: bool,
    rate: float,
    interval: tuple[float, float],
    predicted: float | None,
    drift: tuple[float, float],
) -> Iterator[str]:
    """Yield what a reader must know before trusting the numbers."""
    for depth, lost in zip(depths, diverged.tolist(), strict=True):
        if lost:
            yield f"{lost} of {paths} paths were not finite at depth {depth}: its error is infinite, no average of the rest."
    if paths < 100:
        yield f"{paths} paths are few for covariances between depths; a few hundred make the interval trustworthy."
    heavy = float(kurtosis.max(initial=0.0))
    if heavy > 100:
        yield f"the per-path errors have kurtosis {heavy:.0f} (over 100): a few paths dominate, standard errors are too small."
    finite = errors[np.isfinite(errors) & (errors > 0)]
    smallest = float(finite.min(initial=np.inf))
    if reference_error > 0.05 * smallest:
        yield (
            f"the reference's own error, about {reference_error:.1e}, is not far below the smallest error {smallest:.1e}; "
            "a smaller tolerance= helps."
        )
    if rounding > 0.05 * smallest:
        help_ = "dtype='float64' helps" if narrow else "read no more into it"
        yield f"rounding, about {rounding:.1e}, is not far below the smallest error {smallest:.1e}; {help_}."
    if predicted is not None and np.isfinite(rate) and not interval[0] <= predicted <= interval[1]:
        yield (
            f"the interval [{interval[0]:.3f}, {interval[1]:.3f}] excludes the predicted order {predicted:g}: the depths may be "
            "too small for the asymptotic order, or this is a finding."
        )
    change, uncertainty = drift
    if change > max(0.05, 3 * uncertainty):
        yield f"the local slopes still drift, by {change:.2f} from the first to the last: read the order as local."
