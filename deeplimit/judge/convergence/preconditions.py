"""Why no order can be fitted at all: what is known of errors before any fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deeplimit.common.verdict import ConvergenceVerdict
from deeplimit.statistics import verdict
from deeplimit.statistics.power_law import least_paths
from deeplimit.statistics.verdict import Judgement

CONVERGES, DOES_NOT, CANNOT_TELL = ConvergenceVerdict
SWALLOWED = 0.01
"""Round-off beyond which equal states prove nothing: layers move states by about their own size, or by 1."""

TINY = 1e-6
"""Round-off and a reference's error below this, at states of size 1, hide no other limit that matters."""
FALLEN = 100.0
"""Errors that fall by this factor to what can be resolved have a limit that is right to as many digits."""


@dataclass(frozen=True)
class Measured:
    """What is known before any fit.

    Attributes:
        depths: numbers of layers (m,). paths: number of paths. errors: (m,), infinite where a path was lost.
        diverged: paths that were not finite, by depth (m,). limit_lost: those on which the limit was not.
        resolution: what round-off and the reference's own error allow.
        vanishes: whether the error is exactly zero at some depth, on either set of times.
        kurtosis: kurtosis of the per-path errors at the times that all depths share.
    """

    depths: tuple[int, ...]
    paths: int
    errors: np.ndarray
    diverged: np.ndarray
    limit_lost: int
    resolution: float
    vanishes: bool
    kurtosis: float


def deep_networks_diverge(measured: Measured) -> bool:
    """Most paths of the deepest network were lost, fewer at less depth, and none by the limit."""
    lost = measured.diverged
    return bool(not measured.limit_lost and lost[-1] > measured.paths / 2 and lost[0] < lost[-1])


def some_paths_diverge(measured: Measured) -> bool:
    """Averages over the other paths would mislead."""
    return bool(measured.diverged.any())


def is_swallowed(measured: Measured) -> bool:
    """There is no error, but nobody could see a layer's change beside states of this size."""
    return not measured.errors.any() and measured.resolution > SWALLOWED


def equals_the_limit(measured: Measured) -> bool:
    """There is no error."""
    return not measured.errors.any()


def equals_the_limit_up_to_rounding(measured: Measured) -> bool:
    """There is no error but round-off, which is tiny."""
    return bool(measured.errors.max() <= measured.resolution < TINY)


def lies_within_resolution(measured: Measured) -> bool:
    """Nothing can be seen of the errors."""
    return bool(measured.errors.max() <= measured.resolution)


def falls_to_the_resolution(measured: Measured) -> bool:
    """Errors fall until nothing can be seen of them, as they would not towards another limit."""
    return bool(measured.errors[-1] <= measured.resolution < measured.errors[0] / FALLEN)


def deepest_is_not_resolved(measured: Measured) -> bool:
    """The deepest errors are round-off, or the reference's, and an order of them is neither's."""
    return bool(measured.errors[-1] <= measured.resolution)


def vanishes_at_some_depths(measured: Measured) -> bool:
    """A logarithm is infinite."""
    return measured.vanishes


def has_too_few_paths(measured: Measured) -> bool:
    """The covariance between depths cannot be inverted."""
    return measured.paths < least_paths(len(measured.depths))


def rests_on_two_paths(measured: Measured) -> bool:
    """No uncertainty can be estimated from an average of one or two paths."""
    return measured.kurtosis > measured.paths / 2


FAILED_PRECONDITIONS: verdict.Rules[ConvergenceVerdict, Measured] = (
    (DOES_NOT, deep_networks_diverge),
    (CANNOT_TELL, some_paths_diverge),
    (CANNOT_TELL, is_swallowed),
    (CONVERGES, equals_the_limit),
    (CONVERGES, equals_the_limit_up_to_rounding),
    (CANNOT_TELL, lies_within_resolution),
    (CONVERGES, falls_to_the_resolution),
    (CANNOT_TELL, deepest_is_not_resolved),
    (CANNOT_TELL, vanishes_at_some_depths),
    (CANNOT_TELL, has_too_few_paths),
    (CANNOT_TELL, rests_on_two_paths),
)


def failed_precondition(measured: Measured) -> Judgement[ConvergenceVerdict] | None:
    """Return the judgement where no order can be fitted, or None where one can."""
    return verdict.first(FAILED_PRECONDITIONS, measured)
