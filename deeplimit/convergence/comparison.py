"""`compare`: a residual network at several depths against a limit, on the same noise."""

from __future__ import annotations

import dataclasses
import math
import platform
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deeplimit import validation
from deeplimit.convergence import verdict as verdicts
from deeplimit.convergence.fit import ErrorEstimates, Floor, above_floor, enough_paths, fit_floor, fit_rate
from deeplimit.convergence.report import CompareReport
from deeplimit.convergence.verdict import Verdict
from deeplimit.coupling import Coupled, Moments, Task, make_task, run
from deeplimit.coupling.task import NORMS
from deeplimit.limits import Identity, ODELimit, SDELimit
from deeplimit.networks import ResidualNetwork
from deeplimit.processes import IncrementProcess


def compare(
    resnet: ResidualNetwork,
    limit: object = None,
    x: Tensor | None = None,
    *,
    depths: Sequence[int] = (16, 32, 64, 128, 256),
    paths: int = 512,
    norm: str = "sup",
    p: float = 2,
    seed: int = 0,
    confidence: float = 0.95,
    reference: int | None = None,
    tolerance: float | None = None,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | str | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: Callable[[float], None] | None = None,
) -> CompareReport:
    """Measure how fast a residual network approaches a limit as its depth grows, on the same noise at every depth.

    Path i starts at input i mod n and has weights of its own; the error at depth L is e_L = (E sup_k |h_k - H_{k/L}|^p)^{1/p}
    over the layer grid (norm "sup"), over all times ("sup-continuous", sup_t |H_t - h_floor(tL)|, as the theorems state it)
    or at the last layer ("final"). Depths need not divide each other: everything is advanced on the union of their grids.

    Args:
        resnet: The network, depth left open: `res1`, `res2`, `res3` or `inner`.
        limit: Its limit. None for `resnet.limit()`; else one of the library's limits, a torchsde object (Itô; driven by the
            network's own Brownian increments, flattened row by row), a torchdiffeq function f(t, h), or `Independent(limit)`.
        x: Inputs (n, d), or (n, n_in) with n_in ≠ d to go through an input layer A drawn once, N(0, 1/n_in); None for
            standard normal h_0, one a path.
        depths: Strictly increasing numbers of layers L, at least two; five over a factor of 16 make a useful fit.
        paths: Number of paths P. norm: as above. p: The L^p norm over paths, between 1 and 100.
        seed: Everything random derives from it. confidence: Of the order's interval.
        reference: Depth of an SDE limit's own grid, at least twice the deepest network; by default twice (four times for
            "sup-continuous"). Its error is corrected for.
        tolerance: Of an ODE limit's solver; by default 1e-9 in float64 and 1e-6 in float32.
        device: "cpu" or "cuda". dtype: Of the states; by default float64 for weights that are functions of time (errors fall
            like 1/L), float32 for independent layers. Statistics are always float64.
        workers: Threads, by default one a core. executor: Any `concurrent.futures.Executor` to run blocks of paths on.
            Neither changes a single bit of the result.
        progress: Called with the fraction done, between 0 and 1.

    Returns:
        A report: verdict, errors, order with interval, reservations; `print` it, `plot` it, `save` it.

    Raises:
        TypeError: For an argument of the wrong kind.
        ValueError: For a wrong value; NoTheoremError (a ValueError) where `limit` is left out and no theorem applies.
        RuntimeError: Where an ODE limit cannot be solved to the tolerance.

    NOT checked: that a user's σ is Lipschitz beyond linear growth, that Trend weights are Lipschitz in time, and that a user's
    limit is measurable with respect to the network's noise.

    Example:
        >>> import deeplimit as dl
        >>> report = dl.compare(dl.res1(width=8, activation="tanh"), depths=[16, 32, 64, 128], paths=512)
        >>> report.verdict, report.rate_interval[0] < 0.5 < report.rate_interval[1]
        ('converges', True)
    """
    started = time.perf_counter()
    if not isinstance(resnet, ResidualNetwork):
        raise TypeError(f"resnet must come from res1, res2, res3 or inner; got {resnet!r} of type {type(resnet).__name__}.")
    checked_depths = validation.depths(depths)
    if reference is not None:
        reference = validation.integer(
            reference,
            "reference",
            minimum=2 * checked_depths[-1],
            maximum=2**26,
            hint="The reference needs twice the deepest network.",
        )
    level = validation.real(confidence, "confidence", above=0.0)
    if level >= 1.0:
        raise ValueError(f"confidence must be below 1, got {level:g}; 0.95 is usual.")
    power = validation.real(p, "p", minimum=1.0, maximum=100.0, hint="the worst path's error is in report.worst")
    if tolerance is not None:
        tolerance = validation.real(tolerance, "tolerance", above=0.0, maximum=0.1)
    if workers is not None:
        workers = validation.integer(workers, "workers", minimum=1)
    if executor is not None and (isinstance(executor, type) or not hasattr(executor, "submit")):
        raise TypeError(f"executor must have submit(), as in concurrent.futures; got {_kind(executor)}.")
    if progress is not None and not callable(progress):
        raise TypeError(f"progress must be a function of the fraction done; got {type(progress).__name__}.")
    inputs = validation.inputs(x)
    count = validation.integer(paths, "paths", minimum=2, hint="An uncertainty needs at least two.")
    checked_seed = validation.integer(seed, "seed", minimum=0)
    task = make_task(
        resnet,
        resnet.limit() if limit is None else limit,
        inputs,
        depths=checked_depths,
        reference=reference,
        norm=validation.choice(norm, "norm", NORMS),
        p=power,
        paths=count,
        seed=checked_seed,
        device=validation.device(device),
        dtype=validation.dtype(dtype),
        tolerance=tolerance,
    )
    coupled = run(task, workers=workers, executor=executor, progress=progress)
    return _report(task, coupled, level, time.perf_counter() - started)


def _kind(value: object) -> str:
    return f"the class {value.__name__}, not an object" if isinstance(value, type) else type(value).__name__


def _log_bias(task: Task, norm: str) -> np.ndarray:
    """Return log of the factor by which the Euler reference, itself off on the same path, shrinks each error (theory 4.1).

    The sup over all times is ruled by the limit's own modulus of continuity, which no reference shrinks.
    """
    depths = np.array(task.grid.depths, dtype=float)
    if not task.shares_increments or norm == "sup-continuous":
        return np.zeros(len(depths))
    shrink: np.ndarray = 0.5 * np.log1p(-depths * task.grid.sum_of_squared_steps)
    return shrink


def _estimates(task: Task, moments: Moments, columns: slice, norm: str) -> ErrorEstimates:
    return ErrorEstimates(
        np.array(task.grid.depths),
        moments.log_errors()[columns],
        moments.relative_covariance()[columns, columns],
        _log_bias(task, norm),
        moments.count,
        float(moments.kurtosis()[columns].max()),
    )


@dataclass(frozen=True)
class _Order:
    """The fitted order with its interval, and the verdict that follows."""

    rate: float
    interval: tuple[float, float]
    constant: float
    floor: Floor
    verdict: Verdict
    layer: ErrorEstimates
    common: ErrorEstimates


def _report(task: Task, coupled: Coupled, confidence: float, seconds: float) -> CompareReport:
    m = len(task.grid.depths)
    moments = coupled.moments
    regime = task.network.regime()
    own = not task.independent and _is_own_limit(task)
    predicted = regime.rate if own else None
    layer = _estimates(task, moments, slice(0, m), task.norm)
    common = _estimates(task, moments, slice(m, None), "sup")
    diverged = moments.diverged[:m]
    resolution = max(_rounding(task), coupled.reference_error)
    errors = _errors(layer, diverged)[0]
    obstacle = _obstacle(task, moments, common, errors, resolution)
    if obstacle is None:
        order = _order(task, layer, common, confidence)
        if order.verdict.name == verdicts.DOES_NOT and errors[-1] < 3 * resolution:
            fallen = f"the errors have fallen to what rounding and the reference allow, about {resolution:.1e}"
            order = dataclasses.replace(order, verdict=Verdict(verdicts.CANNOT_TELL, fallen))
    else:
        order = _Order(np.nan, (np.nan, np.nan), np.nan, Floor(np.nan, np.nan, np.nan, np.nan), obstacle, layer, common)
    errors, raw, spread = _errors(order.layer, diverged)
    common_errors, _, common_spread = _errors(order.common, diverged)
    slopes, slope_errors = _local_slopes(order.layer if task.norm == "sup-continuous" else order.common)
    notes = [*_pairing_notes(task, own, regime.convergence)]
    notes += verdicts.reservations(
        depths=task.grid.depths,
        diverged=diverged,
        limit_lost=moments.limit_lost,
        paths=moments.count,
        kurtosis=moments.kurtosis()[:m],
        reference_error=coupled.reference_error,
        errors=errors,
        rounding=_rounding(task),
        narrow=task.dtype == torch.float32,
        rate=order.rate,
        interval=order.interval,
        predicted=predicted,
        contradicts=order.verdict.name == verdicts.DOES_NOT and own,
        drift=(abs(slopes[-1] - slopes[0]), float(np.hypot(slope_errors[0], slope_errors[-1]))),
    )
    return CompareReport(
        verdict=order.verdict.name,
        reason=order.verdict.reason,
        network=str(task.network),
        limit=task.limit.equation,
        regime=regime.name,
        theorem=regime.theorem if own else None,
        predicted_rate=predicted,
        depths=np.array(task.grid.depths),
        errors=errors,
        standard_errors=spread,
        raw_errors=raw,
        common_errors=common_errors,
        common_standard_errors=common_spread,
        rate=float(order.rate),
        rate_interval=order.interval,
        constant=float(order.constant),
        confidence=confidence,
        local_slopes=slopes,
        local_slope_errors=slope_errors,
        floor=order.floor.share,
        floor_lower=order.floor.lower,
        floor_upper=order.floor.upper,
        floor_probability=order.floor.probability,
        diverged=diverged,
        worst=moments.worst()[:m],
        kurtosis=moments.kurtosis()[:m],
        norm=task.norm,
        p=task.p,
        paths=moments.count,
        seed=task.seed,
        coupling=_coupling_words(task),
        reference=_reference_words(task, coupled.reference_error),
        reference_error=coupled.reference_error,
        device=str(task.device),
        dtype=str(task.dtype).removeprefix("torch."),
        seconds=seconds,
        versions=_versions(),
        reservations=tuple(notes),
    )


def _is_own_limit(task: Task) -> bool:
    try:
        return bool(task.limit == task.network.limit())
    except ValueError:
        return False


def _errors(estimates: ErrorEstimates, diverged: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return corrected errors, raw errors and standard errors; infinite where a path was lost, zero where nothing differs."""
    with np.errstate(over="ignore"):
        raw = np.where(diverged > 0, np.inf, np.exp(estimates.log_errors))
        corrected = raw * np.exp(-estimates.log_bias)
        relative = np.sqrt(np.nan_to_num(np.diag(estimates.covariance)))
        spread = np.where(np.isfinite(corrected), corrected, 1.0) * relative
    return corrected, raw, np.where(diverged > 0, np.inf, spread)


def _local_slopes(estimates: ErrorEstimates) -> tuple[np.ndarray, np.ndarray]:
    with np.errstate(invalid="ignore"):
        steps = np.diff(np.log(estimates.depths))
        slopes = -np.diff(estimates.log_errors - estimates.log_bias) / steps
        variances = np.diag(estimates.covariance)
        change = variances[1:] + variances[:-1] - 2 * np.diag(estimates.covariance, 1)
        return slopes, np.sqrt(np.maximum(change, 0.0)) / steps


def _order(task: Task, layer: ErrorEstimates, common: ErrorEstimates, confidence: float) -> _Order:
    """Fit the order and the floor, and judge; the verdict always rests on the times that all depths share.

    The theorems' sup over all times adds the modulus of continuity √(log L / L) of a diffusion: somewhere between a pure
    power and a power times √log L. Its interval spans both readings.
    """
    known = task.network.regime().rate
    floor = fit_floor(common, known)
    if floor.probability >= 1 - verdicts.DOUBTFUL:
        layer, common = above_floor(layer, floor.share), above_floor(common, floor.share)
    fit = fit_rate(common)
    slopes, slope_errors = _local_slopes(common)
    evidence = verdicts.Evidence(
        interval=fit.interval(confidence),
        sure_upper=fit.interval(0.999)[1],
        floor=floor,
        last_slope=float(slopes[-1]),
        last_slope_error=float(slope_errors[-1]),
        order=known,
        kurtosis=common.kurtosis,
        count=common.count,
    )
    interval = evidence.interval
    if task.norm == "sup-continuous":
        fit = fit_rate(layer)
        interval = fit.interval(confidence)
        if isinstance(task.limit, SDELimit):
            low, high = fit_rate(layer, 0.5 * np.log1p(np.log(layer.depths))).interval(confidence)
            interval = (min(interval[0], low), max(interval[1], high))
    return _Order(fit.rate, interval, float(np.exp(fit.log_constant)), floor, verdicts.judge(evidence), layer, common)


def _obstacle(task: Task, moments: Moments, estimates: ErrorEstimates, errors: np.ndarray, resolution: float) -> Verdict | None:
    """Return the verdict where no order can be fitted, or None where one can."""
    m, paths, diverged = len(errors), moments.count, moments.diverged[: len(errors)]
    cannot = verdicts.CANNOT_TELL
    if diverged.sum() > 0:
        if moments.limit_lost == 0 and diverged[-1] > paths / 2 and diverged[0] < diverged[-1]:
            reason = f"{diverged[-1]} of {paths} paths are not finite at depth {task.grid.depths[-1]}, fewer at less depth"
            return Verdict(verdicts.DOES_NOT, reason)
        return Verdict(cannot, f"up to {diverged.max()} of {paths} paths are not finite; averaging over the others would mislead")
    if bool((errors == 0).all()):
        return Verdict(
            verdicts.CONVERGES, "the network equals the limit at every depth, to the last bit; there is no error to fit"
        )
    if errors.max() <= resolution:
        return Verdict(
            cannot,
            f"the errors are within what rounding and the reference allow ({resolution:.1e}): to that precision the two agree, "
            "and no order can be seen; dtype='float64' or a smaller tolerance= would help",
        )
    if bool((moments.mean == 0).any()):
        return Verdict(cannot, "the error is exactly zero at some depths and not at others")
    if not enough_paths(paths, m):
        return Verdict(cannot, f"{paths} paths cannot estimate the covariance of {m} depths; use at least {2 * m + 4}")
    if estimates.kurtosis > paths / 2:
        reason = (
            f"one or two of the {paths} paths make up the average (kurtosis {estimates.kurtosis:.0f}), so that no uncertainty "
            "can be estimated; more paths or a smaller p would help"
        )
        return Verdict(cannot, reason)
    return None


def _rounding(task: Task) -> float:
    """Return the size that rounding errors reach: a unit in the last place of the states at each layer, added at random."""
    size = 4.0 * (1.0 if task.h0 is None else float(task.h0.double().square().mean().sqrt()))
    return float(torch.finfo(task.dtype).eps * size * math.sqrt(task.grid.depths[-1] * task.network.width))


def _pairing_notes(task: Task, own: bool, convergence: str | None) -> list[str]:
    notes = []
    driven = all(isinstance(process, IncrementProcess) for process in task.network.weights)
    gaussian = all(isinstance(process, IncrementProcess) and process.is_gaussian for process in task.network.weights)
    if driven and not gaussian:
        notes.append(
            "the weights are not Gaussian: the limit is in law, and strong convergence to it is not to be expected. What is "
            "measured is the distance to the same recursion on the reference's finer grid, whose summed draws make the coarse "
            "layers (so these are not of the named law)."
        )
    elif convergence == "in law":
        notes.append("the network's own limit is in law only; no theorem says that it meets this one on the same noise.")
    if task.independent:
        notes.append("the limit is driven by noise of its own on purpose: this is the control that must not converge.")
    elif isinstance(task.limit, SDELimit) and not task.shares_increments:
        notes.append("the network has no Brownian increments, so the limit is driven by noise of its own.")
    elif isinstance(task.limit, ODELimit) and task.limit.functions and not task.shares_functions:
        notes.append("the limit's random weights are not the network's, so they are drawn independently.")
    if not own and not task.independent:
        notes.append("no theorem pairs this network with this limit; the order is measured, not predicted.")
        if _log_bias(task, task.norm).any():
            notes.append(
                "errors are corrected for the reference's own step size, above the floor that is found; `raw_errors` are not."
            )
    if task.norm == "sup-continuous":
        notes.append(
            f"the sup over all times is taken at the {task.grid.size} points of the common grid and misses what happens between "
            "them; its order is approached slowly, as √(log L / L) for a diffusion."
        )
    if task.h0 is not None and len(task.h0) > task.paths:
        notes.append(f"only the first {task.paths} of the {len(task.h0)} inputs were used, one a path.")
    return notes


def _coupling_words(task: Task) -> str:
    if task.shares_increments:
        return "pathwise: every depth and the limit read the same increments, all d² of each layer drawn"
    if task.shares_functions and isinstance(task.limit, ODELimit) and task.limit.functions:
        return "pathwise: every depth and the limit read the same functions of time"
    if isinstance(task.limit, ODELimit) and not task.limit.functions and not task.independent:
        return "every depth reads the same path; the limit needs none"
    return "every depth reads the same path; the limit reads one of its own"


def _reference_words(task: Task, error: float) -> str:
    if isinstance(task.limit, Identity):
        return "the initial state itself, exact"
    if isinstance(task.limit, ODELimit):
        return f"torchdiffeq dopri5, tolerance {task.tolerance:g}, own error about {error:.1e}"
    corrected = "corrected for" if _log_bias(task, task.norm).any() else "not corrected for"
    return f"Euler-Maruyama on {task.grid.size} steps, own error {corrected}"


def _versions() -> dict[str, Any]:
    from deeplimit.version import __version__

    return {
        "deeplimit": __version__,
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
