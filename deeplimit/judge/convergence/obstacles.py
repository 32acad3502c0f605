"""Why no order can be fitted at all: what is known of errors before any fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deeplimit.common.verdict import Verdict
from deeplimit.statistics import verdict
from deeplimit.statistics.power_law import least_paths
from deeplimit.statistics.verdict import Judgement

CONVERGES, DOES_NOT = Verdict.CONVERGES, Verdict.DOES_NOT_CONVERGE
CANNOT_TELL = Verdict.CANNOT_TELL
SWALLOWED = 0.01
"""Round-off beyond which equal states prove nothing: layers move states by about their own size, or by 1."""

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


def deep_networks_diverge(measured: Measured) -> str | None:
    """Most paths of the deepest network were lost, fewer at less depth, and none by the limit."""
    lost = measured.diverged
    if measured.limit_lost or lost[-1] <= measured.paths / 2 or lost[0] >= lost[-1]:
        return None
    return (
        f"{lost[-1]} of {measured.paths} paths are not finite at depth {measured.depths[-1]}, fewer at"
        " smaller depths: the networks explode with depth"
    )


def some_paths_diverge(measured: Measured) -> str | None:
    """Averages over the other paths would mislead."""
    if not measured.diverged.sum():
        return None
    return (
        f"up to {measured.diverged.max()} of {measured.paths} paths are not finite; averaging over the others"
        " would mislead; take smaller weights or inputs, or dtype='float64'"
    )


def is_swallowed(measured: Measured) -> str | None:
    """There is no error, but nobody could see a layer's change beside states of this size."""
    if (measured.errors != 0).any() or not measured.resolution > SWALLOWED:
        return None
    return (
        f"network and limit are equal to the last bit, but round-off reaches {measured.resolution:.1e} at"
        " states of this size and may swallow every layer; take smaller inputs, or dtype='float64'"
    )


def equals_the_limit(measured: Measured) -> str | None:
    """There is no error."""
    if (measured.errors != 0).any():
        return None
    return "the network equals the limit at every depth, to the last bit; there is no error to fit"


def lies_within_resolution(measured: Measured) -> str | None:
    """Nothing can be seen of the errors."""
    if not measured.errors.max() <= measured.resolution:
        return None
    return (
        f"the errors are no larger than round-off or the reference's error ({measured.resolution:.1e}), so no"
        " order can be seen; dtype='float64' or a smaller tolerance= would help"
    )


def falls_to_the_resolution(measured: Measured) -> str | None:
    """Errors fall until nothing can be seen of them, as they would not towards another limit."""
    first, last = measured.errors[0], measured.errors[-1]
    if not (last <= measured.resolution < first / FALLEN):
        return None
    return (
        f"the errors fall from {first:.1e} to {last:.1e}, as far as round-off and the reference's error"
        f" ({measured.resolution:.1e}) let anybody see"
    )


def deepest_is_not_resolved(measured: Measured) -> str | None:
    """The deepest errors are round-off, or the reference's, and an order of them is neither's."""
    if not measured.errors[-1] <= measured.resolution:
        return None
    return (
        f"the deepest error, {measured.errors[-1]:.1e}, is no larger than round-off or the reference's error"
        f" ({measured.resolution:.1e}), so no order can be seen; dtype='float64', a smaller tolerance= or"
        " smaller depths would help"
    )


def vanishes_at_some_depths(measured: Measured) -> str | None:
    """A logarithm is infinite."""
    if not measured.vanishes:
        return None
    return "the error is exactly zero at some depths and not at others; take other depths or inputs"


def has_too_few_paths(measured: Measured) -> str | None:
    """The covariance between depths cannot be inverted."""
    m, paths = len(measured.depths), measured.paths
    if paths >= least_paths(m):
        return None
    return f"{paths} paths cannot estimate the covariance of {m} depths; use at least {least_paths(m)}"


def rests_on_two_paths(measured: Measured) -> str | None:
    """No uncertainty can be estimated from an average of one or two paths."""
    if not measured.kurtosis > measured.paths / 2:
        return None
    return (
        f"one or two of the {measured.paths} paths make up the average (kurtosis {measured.kurtosis:.0f}), so"
        " no uncertainty can be estimated; more paths or a smaller p would help"
    )


OBSTACLES: verdict.Rules[Verdict, Measured] = (
    (DOES_NOT, deep_networks_diverge),
    (CANNOT_TELL, some_paths_diverge),
    (CANNOT_TELL, is_swallowed),
    (CONVERGES, equals_the_limit),
    (CANNOT_TELL, lies_within_resolution),
    (CONVERGES, falls_to_the_resolution),
    (CANNOT_TELL, deepest_is_not_resolved),
    (CANNOT_TELL, vanishes_at_some_depths),
    (CANNOT_TELL, has_too_few_paths),
    (CANNOT_TELL, rests_on_two_paths),
)


def obstacle(measured: Measured) -> Judgement[Verdict] | None:
    """Return the judgement where no order can be fitted, or None where one can."""
    return verdict.first(OBSTACLES, measured)
