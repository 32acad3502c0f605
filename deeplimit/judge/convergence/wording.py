"""Every sentence of a comparison but the verdict: pairing, noise, inputs, reference, reservations."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from deeplimit import theory
from deeplimit.judge.convergence.pairing import Pairing, Reads
from deeplimit.simulation import Task
from deeplimit.statistics import verdict

HEAVY = 100.0
"""Kurtosis from which a few paths dominate an average (Giles' warning for multilevel Monte Carlo)."""
FEW = 100
"""Fewer paths leave the covariance between depths poorly known."""
CLOSE = 0.05
"""A disturbance above this share of the smallest error is mentioned."""
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
    def smallest(self) -> float:
        """The smallest error that is finite and not zero; infinite where there is none."""
        return float(self.errors[np.isfinite(self.errors) & (self.errors > 0)].min(initial=np.inf))


def limit_was_lost(n: Numbers) -> str | None:
    """The limit overflowed."""
    if not n.limit_lost:
        return None
    return (
        f"the limit itself was not finite on {n.limit_lost} of {n.paths} paths, which count as lost at every"
        " depth."
    )


def paths_were_lost(n: Numbers) -> str | None:
    """A network overflowed."""
    lost = {int(count) for count in n.diverged if count > 0}
    if not lost:
        return None
    where = [
        f"{count} of {n.paths} paths at depth "
        + ", ".join(str(depth) for depth, at in zip(n.depths, n.diverged, strict=True) if at == count)
        for count in sorted(lost)
    ]
    return (
        f"not finite: {'; '.join(where)}. The error there is infinite, not the average over the other paths."
    )


def paths_are_few(n: Numbers) -> str | None:
    """The covariance is poorly known."""
    if n.paths >= FEW or n.exact:
        return None
    return f"{n.paths} paths are few for covariances between depths; take paths=400 for a reliable interval."


def tails_are_heavy(n: Numbers) -> str | None:
    """Few paths make up the average."""
    heavy = float(n.kurtosis.max(initial=0.0))
    if not heavy > HEAVY:
        return None
    return (
        f"the per-path errors have kurtosis {heavy:.0f} (over {HEAVY:g}): a few paths dominate. Standard"
        " errors are too small, and the interval allows for it; take more paths."
    )


def reference_is_coarse(n: Numbers) -> str | None:
    """The solver's tolerance shows."""
    if not n.reference_error > CLOSE * n.smallest:
        return None
    return (
        f"the reference solution's error, about {n.reference_error:.1e}, is close to the smallest error"
        f" {n.smallest:.1e}; give a smaller tolerance=."
    )


def reference_changes_errors(n: Numbers) -> str | None:
    """The correction is large."""
    if not n.swollen:
        return None
    return "the reference solution's error changes some errors by more than half; give a larger reference=."


def rounding_shows(n: Numbers) -> str | None:
    """Errors are near round-off."""
    if not n.rounding > CLOSE * n.smallest:
        return None
    advice = "take dtype='float64'" if n.narrow else "do not interpret differences at this level"
    return f"round-off, about {n.rounding:.1e}, is close to the smallest error {n.smallest:.1e}; {advice}."


def order_is_not_the_predicted(n: Numbers) -> str | None:
    """The interval excludes theory."""
    low, high = n.interval
    if n.predicted is None or not np.isfinite(n.rate) or low <= n.predicted <= high:
        return None
    if n.is_bound and low > n.predicted:
        return None
    what = "order at least" if n.is_bound else "order"
    kept = ", so that no order is given" if n.withheld else ""
    return (
        f"the interval [{low:.3f}, {high:.3f}] excludes the predicted {what} {n.predicted:g}{kept}. Either"
        " the depths are too small for the asymptotic order, which deeper networks would show, or this is a"
        " finding."
    )


def theorem_is_contradicted(n: Numbers) -> str | None:
    """The verdict is against a theorem."""
    if not n.contradicts:
        return None
    assumed = " ".join(n.unknown)
    return (
        "this contradicts the theorem named above."
        + (f" It assumes what is not known here: {assumed}" * bool(assumed))
        + " Either the depths are too small for how fast the weights"
        " vary, which deeper networks would show, or this is a finding."
    )


def slopes_drift(n: Numbers) -> str | None:
    """The order is not asymptotic yet."""
    if not n.drift > max(DRIFT, 3 * n.drift_error):
        return None
    return (
        f"the local slopes still drift, by {n.drift:.2f} from the first to the last: read the order as local,"
        " or add deeper networks."
    )


RESERVATIONS: tuple[verdict.Rule[Numbers], ...] = (
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
)


def reservations(numbers: Numbers) -> list[str]:
    """Return what to know before trusting the numbers."""
    return verdict.all_that_hold(RESERVATIONS, numbers)


def pairing_notes(task: Task, pairing: Pairing, corrected: bool) -> list[str]:
    """Return what to know of how this network was paired with this limit."""
    notes = [*_limit_notes(pairing, corrected), *theory.reservations(task.network)]
    if task.statistic.looks_between_layers:
        slowly = "; its order is approached slowly, as √(log L / L)" if pairing.diffuses else ""
        notes.append(
            f"the sup over all times is taken at the {task.grid.size} points of the common grid and misses"
            f" what happens between them{slowly}."
        )
    if task.narrowed:
        notes.append(
            "float32, because the limit's parameters are float32; module.double() gives more digits."
        )
    if task.h0 is not None and len(task.h0) > task.paths:
        notes.append(
            f"only the first {task.paths} of the {len(task.h0)} inputs were used, one per path; raise paths="
            " to use all."
        )
    return notes


def _limit_notes(pairing: Pairing, corrected: bool) -> list[str]:
    notes = []
    if not pairing.gaussian and pairing.regime.convergence == "in law":
        notes.append(
            "the weights are not Gaussian: the limit holds in law, and strong convergence to it is not"
            " expected. What was measured is the distance to the same recursion on a finer grid, whose summed"
            " draws make the coarse layers. compare_laws compares the laws at time 1."
        )
    elif pairing.regime.convergence == "in law":
        notes.append(
            "the network's limit is in law only, and no theorem says that it meets this one on the same"
            " noise; compare_laws compares the laws at time 1."
        )
    if pairing.independent:
        notes.append("the limit is driven by independent noise on purpose: this control must not converge.")
    if not pairing.own and not pairing.independent:
        notes.append("no theorem pairs this network with this limit; the order is measured, not predicted.")
        if corrected and not pairing.splits:
            notes.append(
                "errors above the floor that was found are corrected for the reference solution's step size;"
                " `raw_errors` are not."
            )
    return notes


def inputs(task: Task) -> str:
    """Return where the paths start."""
    if task.h0 is None:
        return "standard normal h_0, one per path"
    count = len(task.h0)
    how = "all through each path's network" if task.same_network else "in turn"
    if task.input_size == math.prod(task.network.state_shape):
        return f"{count} given as h_0, {how}"
    return (
        f"{count} of {task.input_size} numbers each, {how}, through one input layer of N(0,"
        f" 1/{task.input_size}) entries"
    )


def coupling(task: Task, pairing: Pairing) -> str:
    """Return what the network and the limit share."""
    reads = pairing.reads
    if task.coupling == "projected":
        how = "the same noise, drawn only through its products with their states"
        if reads is Reads.INCREMENTS:
            return f"projected: every depth and the limit read {how}"
        rest = "independent noise" if pairing.independent else "none of it"
        if reads is Reads.FUNCTIONS:
            rest = "their functions of time"
        return f"projected: every depth reads {how}; the limit reads {rest}"
    if reads is Reads.INCREMENTS:
        return "pathwise: every depth and the limit read the same increments, all of each layer drawn"
    if reads is Reads.PATH:
        return "pathwise: every depth and the limit read the same fractional path, drawn whole"
    its = "is deterministic" if reads is Reads.NOTHING else "draws separate noise"
    if any(channel.is_separate for channel in task.network.channels):
        return f"nothing is shared: each depth has separate weights, and the limit {its}"
    if pairing.given:
        return "none: the weights are given functions of time; paths differ only by their inputs"
    if reads is Reads.FUNCTIONS:
        return "pathwise: every depth and the limit read the same functions of time"
    return f"every depth reads the same path; the limit {its}"


def reference(task: Task, error: float, corrected: bool) -> str:
    """Return what the limit was solved with, and how far off that is."""
    measured = error if task.measures_reference else None
    return task.limit.reference_in_words(task.grid.size, task.tolerance, error, measured, corrected)
