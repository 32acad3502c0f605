"""What a report says in words: how the two sides were paired, what solved the limit, every reservation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from deeplimit.coupling import Task
from deeplimit.limits import Identity, ItoCorrectedSDE, Limit, NeuralYoung, ODELimit, SDELimit
from deeplimit.weights import FunctionProcess, IncrementProcess, Trend

HEAVY = 100.0
"""Kurtosis from which a few paths dominate an average (Giles' warning for multilevel Monte Carlo)."""


def pairing_notes(task: Task, own: bool, convergence: str | None, corrected: bool) -> list[str]:
    """Return what a reader must know of how this network was paired with this limit."""
    notes = []
    if any(
        isinstance(process, IncrementProcess) and not process.is_gaussian for process in task.network.weights
    ):
        notes.append(
            "the weights are not Gaussian: the limit is in law, and strong convergence to it is not to be"
            " expected. What is measured is the distance to the same recursion on the reference's finer grid,"
            " whose summed draws make the coarse layers (so these are not of the named law). compare_laws"
            " compares the laws at time 1."
        )
    elif convergence == "in law":
        notes.append(
            "the network's own limit is in law only; no theorem says that it meets this one on the same"
            " noise."
        )
    if task.independent:
        notes.append(
            "the limit is driven by noise of its own on purpose: this is the control that must not converge."
        )
    elif isinstance(task.limit, SDELimit) and not task.shares_increments:
        notes.append("the network has no Brownian increments, so the limit is driven by noise of its own.")
    elif isinstance(task.limit, NeuralYoung) and not task.shares_path:
        notes.append("the limit's fractional path is not the network's, so it is driven by one of its own.")
    elif (
        _functions(task.limit)
        and not task.shares_functions
        and not all(isinstance(f, Trend) for f in _functions(task.limit))
    ):
        notes.append("the limit's random weights are not the network's, so they are drawn independently.")
    if not own and not task.independent:
        notes.append("no theorem pairs this network with this limit; the order is measured, not predicted.")
        if corrected:
            notes.append(
                "errors are corrected for the reference's own step size, above the floor that is found;"
                " `raw_errors` are not."
            )
    if task.norm == "sup-continuous":
        slowly = (
            "; its order is approached slowly, as √(log L / L)" if isinstance(task.limit, SDELimit) else ""
        )
        notes.append(
            f"the sup over all times is taken at the {task.grid.size} points of the common grid and misses"
            " what happens between "
            f"them{slowly}."
        )
    if task.narrowed:
        notes.append(
            "float32, because the limit's parameters are float32; module.double() gives more digits."
        )
    if task.h0 is not None and len(task.h0) > task.paths:
        notes.append(f"only the first {task.paths} of the {len(task.h0)} inputs were used, one a path.")
    return notes


def inputs(task: Task) -> str:
    """Return where the paths start."""
    if task.h0 is None:
        return "standard normal h_0, one a path"
    count = len(task.h0)
    how = "all through each path's network" if task.same_network else "in turn"
    if task.input_size == task.network.width:
        return f"{count} given as h_0, {how}"
    return (
        f"{count} of {task.input_size} numbers each, {how}, through one input layer of N(0,"
        f" 1/{task.input_size}) entries"
    )


def coupling(task: Task) -> str:
    """Return what the network and the limit share."""
    if task.coupling == "projected":
        shared = "every depth and the limit" if task.shares_increments else "every depth"
        verb = "read" if task.shares_increments else "reads"
        own = ""
        if not task.shares_increments:
            own = (
                "; the limit reads none of it"
                if not task.independent
                else "; the limit reads noise of its own"
            )
            if task.shares_functions and isinstance(task.limit, ODELimit) and task.limit.functions:
                own = "; the limit reads their functions of time"
        return (
            f"projected: {shared} {verb} the same noise, drawn through its products with their states"
            f" alone{own}"
        )
    if task.shares_increments:
        return "pathwise: every depth and the limit read the same increments, all of each layer drawn"
    if task.shares_path:
        return "pathwise: every depth and the limit read the same fractional path, drawn whole"
    weights = task.network.weights
    fixed = all(isinstance(function, Trend) for law in weights for function in law.functions)
    if fixed and all(law.functions and not law.motions(task.network.width) for law in weights):
        return "none: the weights are given functions of time; paths differ by their inputs alone"
    if task.shares_functions and isinstance(task.limit, ODELimit) and task.limit.functions:
        return "pathwise: every depth and the limit read the same functions of time"
    if isinstance(task.limit, ODELimit) and not task.limit.functions and not task.independent:
        return "every depth reads the same path; the limit needs none"
    return "every depth reads the same path; the limit reads one of its own"


def reference(task: Task, error: float, corrected: bool) -> str:
    """Return what the limit was solved with, and how far off that is."""
    if isinstance(task.limit, Identity):
        return "the initial state itself, exact"
    if isinstance(task.limit, ODELimit):
        return f"torchdiffeq dopri5, tolerance {task.tolerance:g}, own error about {error:.1e}"
    scheme = "modified Euler" if isinstance(task.limit, NeuralYoung) else "Euler-Maruyama"
    if task.measures_reference:
        taken = "and taken out" if corrected else "and not taken out"
        measured = f"{error:.1e}, measured against {task.grid.size // 2} steps"
        return f"{scheme} on {task.grid.size} steps, own error about {measured}, {taken}"
    return f"{scheme} on {task.grid.size} steps, own error {'' if corrected else 'not '}corrected for"


def _functions(limit: Limit) -> tuple[FunctionProcess, ...]:
    """Return the functions of time that a limit reads."""
    if isinstance(limit, ItoCorrectedSDE):
        return () if limit.trend is None else (limit.trend,)
    return limit.functions if isinstance(limit, ODELimit) else ()


def reservations(
    *,
    depths: tuple[int, ...],
    diverged: np.ndarray,
    limit_lost: int,
    paths: int,
    kurtosis: np.ndarray,
    reference_error: float,
    swollen: bool,
    errors: np.ndarray,
    rounding: float,
    narrow: bool,
    rate: float,
    interval: tuple[float, float],
    predicted: float | None,
    contradicts: bool,
    drift: tuple[float, float],
) -> Iterator[str]:
    """Yield what a reader must know before trusting the numbers."""
    if limit_lost:
        yield f"the limit itself was not finite on {limit_lost} of {paths} paths; lost at every depth."
    for lost in sorted({int(count) for count in diverged if count > 0}):
        where = ", ".join(str(depth) for depth, count in zip(depths, diverged, strict=True) if count == lost)
        yield (
            f"{lost} of {paths} paths were not finite at depth {where}: the error there is infinite, no"
            " average of the rest."
        )
    if paths < 100:
        yield (
            f"{paths} paths are few for covariances between depths; a few hundred make the interval"
            " trustworthy."
        )
    heavy = float(kurtosis.max(initial=0.0))
    if heavy > HEAVY:
        yield (
            f"the per-path errors have kurtosis {heavy:.0f} (over 100): a few paths dominate, and "
            "standard errors are too small; the interval allows for it."
        )
    finite = errors[np.isfinite(errors) & (errors > 0)]
    smallest = float(finite.min(initial=np.inf))
    if reference_error > 0.05 * smallest:
        yield (
            f"the reference's own error, about {reference_error:.1e}, is not far below the smallest error"
            f" {smallest:.1e}; a smaller tolerance= helps."
        )
    if swollen:
        yield "the reference's own error changes some errors by more than half; a larger reference= helps."
    if rounding > 0.05 * smallest:
        help_ = "dtype='float64' helps" if narrow else "read no more into it"
        yield f"rounding, about {rounding:.1e}, is not far below the smallest error {smallest:.1e}; {help_}."
    if predicted is not None and np.isfinite(rate) and not interval[0] <= predicted <= interval[1]:
        yield (
            f"the interval [{interval[0]:.3f}, {interval[1]:.3f}] excludes the predicted order {predicted:g}:"
            " the depths may be too small for the asymptotic order, or this is a finding."
        )
    if contradicts:
        yield (
            "this contradicts the theorem named above: the depths are too small for what the weights do, or"
            " it is a finding."
        )
    change, uncertainty = drift
    if change > max(0.05, 3 * uncertainty):
        yield (
            f"the local slopes still drift, by {change:.2f} from the first to the last: read the order as"
            " local."
        )
