"""`check_solver`: has a solver its documented order, and is what it tends to the solution?"""

from __future__ import annotations

import copy
import dataclasses
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import special
from torch import Tensor, nn

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.common.measurement import Progress, in_one_pass, part_of
from deeplimit.common.randomness import Purpose
from deeplimit.common.verdict import Judgement, SolverVerdict, judge
from deeplimit.equations import ODE, SDE, read_limit
from deeplimit.judge.solver import runs, verdict as rules
from deeplimit.judge.solver.controls import without_noise
from deeplimit.judge.solver.order_report import read_steps
from deeplimit.judge.solver.runs import Plan
from deeplimit.judge.solver.single_steps import single_steps
from deeplimit.judge.solver.solver_report import FunctionOrder, SolverReport
from deeplimit.judge.solver.verdict import SINGLE_STEPS, StrongEvidence, WeakEvidence
from deeplimit.statistics.consecutive import (
    MODEL_ERROR,
    PRIOR_POWERS,
    ROUNDED,
    SCATTERS,
    Coherence,
    Differences,
    Order,
    fit_order,
    log_means,
    paired_floor,
    rests_on_few_paths,
)
from deeplimit.statistics.power_law import CorrelatedData, Floor
from deeplimit.statistics.solver_errors import (
    OF_SOLVERS,
    ErrorOrder,
    WeakOrder,
    fit_errors,
    fit_means,
    steepest_falls,
)
from deeplimit.version import versions

log = logging.getLogger("deeplimit")
STRONG, WEAK = KINDS = ("strong", "weak")
BLOWN_UP, STABLE = 1e3, 2.0
"""Distances above this many times the states, at steps longer than this over `runs.stiffness`, are those of
an unstable solver: Euler's is stable up to 2, Runge and Kutta's up to 2.8."""
LATE = 1.0
"""Distances up to this many times what a jump adds within one whole step may be its own."""
FEW_ROUNDINGS = 32 * 2.0**-23
"""Relative error up to which distances may be round-off of float32, which a solver collects step by step."""
REFERENCES = ("auto", "exact", "fine", "none")
STEPS = (16, 32, 64, 128, 256)
FINER = 4
"""How many times as many steps the second analysis takes, where errors fall faster than documented or the
limit is open: at small noise the part of order 1/2 is the larger one beyond some hundred steps only. Of a
logistic drift with noise 0.15 Euler's scheme was "faster than documented" in 5 of 6 calls, and so was noise
8 % too large beside a drift in 5 of 5.
"""
AUTO = (512, 2048)
"""Paths of the two analyses of paths="auto"."""
SHARES = (0.8, 0.2)
"""What each may spend of the level: the first decides 99 of 100 calls, so its interval is the shorter one."""
FEWEST, MOST, PILOT = 4096, 65536, 512
"""Paths of a weak check with paths="auto": at least, at most, and those of the pilot that chooses between."""
MORE = 4
"""How many times as many paths its second analysis takes, where the first cannot tell."""
OF_PILOT = PILOT / (PILOT + FEWEST)
"""Share of a pilot in the time of a weak check with the fewest paths."""
WANTED = 0.1
"""Standard deviation of a weak order that paths="auto" aims at: five of them from 1 or 2 to the middle."""
CONVERGES = (SolverVerdict.DOCUMENTED_ORDER, SolverVerdict.FASTER, SolverVerdict.MEASURED)
"""Verdicts that say of a control that it tends to the solution."""
Function = Callable[[Tensor], Tensor]
STEEPEST = 2.0
"""Order at which means fall at the steepest: no solver in use has a higher weak order."""
SLOWEST = 0.25
"""Order at which means are extrapolated at the slowest: half of the lowest weak order of a solver in use."""


def _mean(h: Tensor) -> Tensor:
    return h.flatten(1).mean(1)


def _square(h: Tensor) -> Tensor:
    return h.flatten(1).square().mean(1)


def _cosine(h: Tensor) -> Tensor:
    return h.flatten(1).cos().mean(1)


FUNCTIONS: dict[str, Function] = {"mean": _mean, "mean square": _square, "mean cosine": _cosine}
"""Test functions of a weak check: a first and a second moment, and a bounded one without a symmetry."""


@by_default
def check_solver(
    scheme: Any,
    equation: Any,
    x: Tensor,
    *,
    steps: Sequence[int] = STEPS,
    paths: int | str = "auto",
    kind: str = "strong",
    order: float | None = None,
    functions: Mapping[str, Function] | Sequence[Function] | None = None,
    reference: str = "auto",
    seed: int = 0,
    confidence: float = 0.95,
    progress: Progress | bool | None = None,
) -> SolverReport:
    """Say whether a solver has its documented order, and whether what it tends to is the equation's solution.

    All numbers of steps run on the same Brownian paths, from time 0 to 1, in float64. An error of a path is
    the largest distance over the times of the coarsest steps, or that at the last time where a function
    returns no other. The limit comes from the distance to the solution. The order comes from differences
    between consecutive numbers of steps, which need no solution; or from distances to an exact solution, once
    the solver is seen to tend to it. Where single steps of lengths down to 2^-32 show a lower order than
    these, as at small noise, it is that one.

    Args:
        scheme: a scheme such as `Milstein()`; the name of a method of torchsde (SDE) or of a fixed-step
            method of torchdiffeq (ODE), such as "srk" or "torchsde:srk"; or a function solver(equation, x,
            brownian, times). It returns the states (P, d) at the last time, or (len(times), P, d) at all.
            `brownian(s, t)` is B_t - B_s (P, m), with `return_U=True` and `return_A=True` for Lévy areas as
            in torchsde; it is None for an ODE.
        equation: an `SDE` or `ODE`, a torchsde object, or a function f(t, h). A copy of a module is taken to
            float64.
        x: initial states (n, d); path i starts at row i mod n. An ODE runs from every row once.
        steps: numbers of equal steps, increasing; they should double. By default 16 to 256; with
            paths="auto", errors that fall faster than documented or by no power law, and limits that stay
            open, are then checked again with four times as many steps.
        paths: number of paths P, or "auto": 512 and, where that cannot tell, 2048; for weak convergence 4096
            to 65536, chosen by a pilot, and four times as many where that cannot tell. The first analysis
            has four fifths of the level, the second the rest.
        kind: "strong", errors path by path; or "weak", errors of the means of test functions.
        order: the documented order; left out, `scheme.strong_order(equation)` or `weak_order`. A function has
            none, and its order is measured.
        functions: test functions of states (P, d) that return (P,), in a list or by name, for weak
            convergence; left out, a mean, a mean square and a mean cosine. They share the level (Bonferroni).
        reference: what stands for the solution: "exact" (`equation.solution`), "fine" (a scheme with 16 times
            the steps), "none" (differences alone); "auto" is exact where the equation has a solution, else
            fine.
        seed: decides the paths.
        confidence: level of the order's interval.
        progress: function of the fraction done, between 0 and 1; True shows a bar, False nothing. Left out, a
            call of more than ten seconds says in the log how long it will take.

    Returns:
        A report: verdict, order with interval, distance to the solution; `print` it, `plot` it, `save` it.

    Raises:
        TypeError: for an argument of the wrong kind, and a solver that returns no tensor.
        ValueError: for a wrong value, a method that does not take the equation's noise, a solver that returns
            other shapes, and one that asks for the path between the grid's times.

    NOT checked: that the equation's coefficients are smooth, as documented orders assume, and that `solution`
    solves the equation.

    Examples:
        >>> import torch, deeplimit as dl
        >>> gbm = dl.SDE(
        ...     drift=lambda t, h: 0.5 * h,
        ...     diffusion=lambda t, h, dB: 0.5 * h * dB,
        ...     noise="diagonal",
        ...     solution=lambda t, h0, B: h0 * ((0.5 - 0.125) * t + 0.5 * B).exp(),
        ... )
        >>> dl.check_solver(dl.Milstein(), gbm, torch.ones(1, 1), steps=(8, 16, 32, 64)).verdict
        'documented order'
        >>> def no_correction(equation, x, brownian, times):  # Milstein's scheme without -dt
        ...     for s, t in zip(times[:-1], times[1:]):
        ...         dB = brownian(s, t)
        ...         x = x + 0.5 * x * (t - s) + 0.5 * x * dB + 0.125 * x * dB**2
        ...     return x
        >>> dl.check_solver(no_correction, gbm, torch.ones(1, 1), steps=(8, 16, 32, 64), order=1.0).verdict
        'not the limit'
    """
    started, given = time.perf_counter(), {**locals()}
    start = validation.inputs(x)
    if start is None:
        raise TypeError("x must be a tensor of initial states (n, d), got None.")
    start = start.double()
    equation = read_equation(equation, start)
    numbers = read_steps(steps, 3)
    runs.check_grid(numbers)
    convergence = validation.choice(kind, "kind", KINDS)
    level = validation.probability(confidence, "confidence", "0.95 is usual.")
    solver = runs.resolve(scheme, equation)
    documented = solver.strong if convergence == STRONG else solver.weak
    if order is not None:
        documented = validation.real(order, "order", above=0.0)
    source = _read_reference(reference, equation)
    block = runs.BLOCK if convergence == STRONG else runs.LARGE_BLOCK
    plan = Plan(solver, equation, numbers, start, source, validation.seed(seed), block)
    count = (
        None
        if isinstance(paths, str) and paths == "auto"
        else validation.integer(paths, "paths", minimum=8, maximum=2**22)
    )
    if convergence == WEAK and not plan.random:
        raise ValueError("kind='weak' is for SDEs, got an ODE, which has no noise; take kind='strong'.")
    if convergence == STRONG and functions is not None:
        raise ValueError("functions= are for kind='weak', got kind='strong'; leave them out.")
    with in_one_pass(progress, "check solver") as move:
        if convergence == STRONG:
            report = _strong(plan, count, documented, level, started, move)
        else:
            report = _weak(plan, _read_functions(functions), count, documented, level, started, move)
    return report.called_by("check_solver", given)


def read_equation(equation: Any, x: Tensor) -> SDE | ODE:
    """Return what a user gave as an equation, or refuse it; a module is copied in float64."""
    if isinstance(equation, nn.Module) and _is_narrow(equation):
        equation = copy.deepcopy(equation).double()
    with validation.noted(
        "solvers are checked in float64; module.double() converts an equation's parameters."
    ):
        found = read_limit(equation, x, None)
    if not isinstance(found, (SDE, ODE)):
        raise TypeError(
            "equation must be an SDE, an ODE, a torchsde object or a function f(t, h), got"
            f" {validation.named(equation)}; compare a network with this limit by dl.compare."
        )
    return found


def _is_narrow(module: nn.Module) -> bool:
    """Whether some of its parameters or buffers are of a narrower type."""
    held = (*module.parameters(), *module.buffers())
    return any(each.is_floating_point() and each.dtype != torch.float64 for each in held)


def _read_reference(reference: object, equation: SDE | ODE) -> str:
    chosen = validation.choice(reference, "reference", REFERENCES)
    if chosen == "auto":
        return "exact" if equation.solution is not None else "fine"
    if chosen == "exact" and equation.solution is None:
        raise ValueError(
            "reference='exact' needs the equation's solution, which it does not state; give solution=."
        )
    return chosen


def _read_functions(functions: Any) -> dict[str, Function]:
    if functions is None:
        return FUNCTIONS
    if isinstance(functions, Mapping):
        named = {validation.text(name, "every name of functions"): each for name, each in functions.items()}
    else:
        listed = validation.entries(
            functions, "functions", "a list of functions of states (P, d), or a dictionary"
        )
        named = {
            f"{k}: {getattr(each, '__name__', type(each).__name__)}": each for k, each in enumerate(listed)
        }
    if not named:
        raise ValueError(
            "functions must name at least one function, got none; leave it out for three usual ones."
        )
    for name, each in named.items():
        validation.function(each, f"functions[{name!r}]", "a function of states (P, d) that returns (P,)")
    return named


def _strong(
    plan: Plan,
    count: int | None,
    documented: float | None,
    confidence: float,
    started: float,
    move: Progress,
) -> SolverReport:
    fixed = len(plan.x) if not plan.random else count
    kept: list[Any] = []

    def analysed(plan: Plan, kept: list[Any], size: int, level: float, part: Progress) -> SolverReport:
        found = runs.measure(plan, size, kept, part)
        return _strong_analysis(plan, found, size, documented, level, started)

    if fixed is not None:
        return analysed(plan, kept, fixed, confidence, move)
    first, second = (1.0 - (1.0 - confidence) * share for share in SHARES)
    half, rest = part_of(move, 0.0, 0.5), part_of(move, 0.5, 1.0)
    report = analysed(plan, kept, AUTO[0], first, half)
    if report.rule in rules.MORE_STEPS_MAY_DECIDE and plan.steps == STEPS:
        finer = dataclasses.replace(plan, steps=tuple(FINER * each for each in STEPS))
        return analysed(finer, [], AUTO[0], second, rest)
    if report.rule in rules.MORE_PATHS_MAY_DECIDE:
        return analysed(plan, kept, AUTO[1], second, rest)
    return report


def _first_that_tells(
    analysed: Callable[[int, float, Progress], SolverReport],
    sizes: Sequence[int],
    confidence: float,
    move: Progress,
) -> SolverReport:
    """Return the report of the first size, or of the second where that cannot tell and more paths may."""
    shares = SHARES if len(sizes) > 1 else (1.0,)
    for number, (size, share) in enumerate(zip(sizes, shares, strict=True)):
        part = part_of(move, number / len(sizes), (number + 1) / len(sizes))
        report = analysed(size, 1.0 - (1.0 - confidence) * share, part)
        if report.rule not in rules.MORE_PATHS_MAY_DECIDE:
            break
    return report


def _strong_analysis(
    plan: Plan,
    found: runs.Measured,
    paths: int,
    documented: float | None,
    confidence: float,
    started: float,
    with_control: bool = True,
) -> SolverReport:
    with np.errstate(over="ignore", invalid="ignore"):
        all_distances = np.full(len(plan.steps), math.nan)
        if found.distances is not None:
            all_distances = np.sqrt(np.mean(found.distances**2, axis=0))
        all_sizes = np.sqrt(np.mean(found.sizes**2, axis=0))
        spread = (found.sizes**2).std(axis=0) / np.maximum(2 * all_sizes, 1e-300) / math.sqrt(paths)
    unit = max(1.0, float(plan.x.abs().max()))
    unstable = found.unstable(BLOWN_UP * unit)
    found, steps = found.without(unstable), np.array(plan.steps[unstable:])
    distances, sizes = all_distances[unstable:], all_sizes[unstable:]
    # Round-off of one step, and of as many steps as there are, which add up like a random walk.
    round_off = found.epsilon * max(float(found.scales.max()), 1e-300) * math.sqrt(steps[-1])
    order = fit_order(
        Differences(steps, found.sizes, found.squares, found.products, round_off, exact=not plan.random),
        OF_SOLVERS,
    )
    if unstable and order is not None and order.levels < rules.LEAST_LEVELS:
        order = None  # two differences have one slope, of steps that are hardly stable
    distance, floor, falls = float(distances[-1]), None, (math.inf, math.inf)
    reference_error = round_off + found.reference_error / _shrinks(plan)
    if found.distances is not None and found.lost == 0 and np.isfinite(distances).all():
        falls = steepest_falls(steps, found.distances)
    if order is not None and found.distances is not None:
        floor = paired_floor(steps, found.distances, found.sizes, order, exact=not plan.random)
    fitted: Order | ErrorOrder | None = order
    if order is not None and floor is not None and plan.reference == "exact":
        fitted = _of_distances(found.distances, steps, order, floor, exact=not plan.random) or order
    stated = _stated_order(plan, fitted, confidence, "differences" if fitted is order else "distances")
    moves = bool((sizes > ROUNDED * round_off).any())
    evidence = StrongEvidence(
        found.lost,
        order,
        stated.interval,
        stated.sure,
        moves,
        documented,
        distance,
        reference_error,
        floor,
        falls,
        too_long=not distance < BLOWN_UP * unit and runs.stiffness(plan) > STABLE * steps[-1],
        # What the reference's own error hides of a solver of high order is no round-off of the solver.
        in_float32=rules.APART * reference_error < distance < FEW_ROUNDINGS * float(found.scales.max())
        and _no_longer_falls(steps, distances),
        typical=_typical(found, order, distance),
        rises=fitted is not None
        and bool(fitted.slopes[-1] > fitted.slopes[0])
        and rules.keeps_drifting(np.asarray(fitted.slopes), np.asarray(fitted.slope_errors)),
        unstable=unstable,
    )
    judgement = judge(rules.strong, evidence)
    if judgement.code == SolverVerdict.NOT_THE_LIMIT or judgement.rule in rules.JUMPS_MAY_EXPLAIN:
        evidence = dataclasses.replace(evidence, jump=_jump(plan, distance))
        judgement = judge(rules.strong, evidence)
    if judgement.code in (SolverVerdict.NOT_THE_LIMIT, SolverVerdict.NOT_THE_DOCUMENTED_ORDER):
        seen = runs.irregularities(plan)
        evidence = dataclasses.replace(
            evidence,
            drift_jumps=seen.drift_jumps,
            diffusion_jumps=seen.diffusion_jumps,
            is_steep=seen.slope**2 > plan.steps[-1]
            and not (with_control and _control_converges(plan, paths, confidence)),
        )
        judgement = judge(rules.strong, evidence)
    slopes, slope_errors = np.full((2, len(plan.steps) - (2 if fitted is order else 1)), math.nan)
    if fitted is not None:
        shown = slice(unstable, unstable + len(fitted.slopes))
        slopes[shown], slope_errors[shown] = (
            (fitted.slopes, fitted.slope_errors)
            if order is None or fitted is not order
            else (order.whole_slopes, order.whole_errors)
        )
    return _reported(
        plan,
        judgement,
        started,
        convergence=STRONG,
        documented=documented,
        differences=all_sizes,
        standard_errors=spread,
        rate=stated.rate,
        rate_interval=stated.interval,
        confidence=confidence,
        source=stated.source,
        local_slopes=tuple(map(float, slopes)),
        local_slope_errors=tuple(map(float, slope_errors)),
        distances=all_distances,
        reference_error=reference_error,
        floor=math.nan if floor is None else floor.share,
        floor_lower=math.nan if floor is None else floor.lower,
        floor_upper=math.nan if floor is None else floor.upper,
        floor_probability=math.nan if floor is None else floor.probability,
        remaining=evidence.remaining,
        medians=order is not None and order.medians,
        paths=paths,
        lost=found.lost,
    )


class StatedOrder(NamedTuple):
    """The order of a report: median, interval, the interval at level `rules.SURE`, and what they are of."""

    rate: float
    interval: tuple[float, float]
    sure: tuple[float, float]
    source: str


def _stated_order(
    plan: Plan, fitted: Order | ErrorOrder | None, confidence: float, source: str
) -> StatedOrder:
    """Return the order that was fitted, or that of single steps, which it cannot exceed, if that is lower."""
    if fitted is None:
        return StatedOrder(math.nan, (math.nan, math.nan), (math.nan, math.nan), source)
    interval, sure = (
        (fitted.orders.quantile(tail), fitted.orders.quantile(1 - tail))
        for tail in ((1.0 - confidence) / 2, (1.0 - rules.SURE) / 2)
    )
    shown = single_steps(plan) if interval[0] > rules.HALF else None
    if shown is not None and shown.interval[1] < interval[0]:
        return StatedOrder(shown.order, shown.interval, shown.interval, SINGLE_STEPS)
    return StatedOrder(fitted.orders.quantile(0.5), interval, sure, source)


def _control_converges(plan: Plan, paths: int, confidence: float) -> bool:
    """Whether a scheme that is known to be right converges to the equation, on the same paths and steps.

    The diffusion may be steep where few paths come: sqrt(v) is, near 0, and hides no fault there.
    """
    known = dataclasses.replace(plan, solver=runs.resolve(plan.reference_scheme, plan.equation))
    found = runs.measure(known, paths, [], lambda fraction: None)
    report = _strong_analysis(known, found, paths, known.solver.strong, confidence, 0.0, with_control=False)
    return report.verdict in CONVERGES


def _jump(plan: Plan, distance: float) -> float | None:
    """Return the time of a jump of the equation, if one step of it explains the distance."""
    step = 1.0 / plan.steps[-1]
    parts = zip(runs.largest_jumps(plan), (step, math.sqrt(step)), strict=True)
    jumps = [(jump.size * late, jump.time) for jump, late in parts if jump is not None]
    return max(jumps)[1] if jumps and distance <= LATE * sum(size for size, _ in jumps) else None


def _typical(found: runs.Measured, order: Order | None, distance: float) -> float:
    """Return the finest distance in the average of `order.remaining`, which a few paths do not make up."""
    if order is None or found.distances is None:
        return math.nan
    if order.medians:
        return float(np.median(found.distances[:, -1]))
    if not rests_on_few_paths(found.distances[:, -1:]):
        return math.nan
    half, change = (np.exp(log_means(each[:, -1:])[0][0]) for each in (found.distances, found.sizes))
    return min(distance, float(half / change) * order.deepest)


def _no_longer_falls(steps: np.ndarray, distances: np.ndarray) -> bool:
    """Whether the last two distances fall more slowly than at half of any solver's order."""
    return bool(distances[-1] > distances[-2] * (steps[-2] / steps[-1]) ** rules.FLAT)


def _of_distances(
    distances: np.ndarray | None, steps: np.ndarray, order: Order, floor: Floor, *, exact: bool
) -> ErrorOrder | None:
    """Return the order of distances (P, m) to an exact solution, or None where that of differences is better.

    They have one level more, and no part of another step: intervals are 0.4 to 0.6 times as long. They show
    the solver's order where it tends to that solution, and where its error has one part only.
    """
    one_part = order.coherence in (Coherence.STEADY, Coherence.ORTHOGONAL) and not order.medians
    if distances is None or not one_part or floor.upper > rules.LARGE or order.levels < len(steps) - 1:
        return None
    kept = distances[(distances > 0).all(axis=1)]
    if len(kept) < len(steps) + 3:
        return None
    prior = min(OF_SOLVERS.prior, PRIOR_POWERS[order.coherence])
    return fit_errors(kept, steps, exact=exact, prior=prior, scatters=SCATTERS if exact else (MODEL_ERROR,))


def _shrinks(plan: Plan) -> float:
    """Return by what the change from half the reference's steps exceeds the reference's error, at least."""
    if not plan.random or plan.reference != "fine":
        return 1.0
    return float(2.0 ** plan.reference_scheme.strong_order(plan.equation)) - 1.0


def _weak(
    plan: Plan,
    functions: dict[str, Function],
    count: int | None,
    documented: float | None,
    confidence: float,
    started: float,
    move: Progress,
) -> SolverReport:
    tests = tuple(functions.values())
    plan = dataclasses.replace(plan, controlled=True)
    pilot = runs.function_values(plan, tests, PILOT, Purpose.SOLVER_PILOT, [], part_of(move, 0.0, OF_PILOT))
    changes = _changes(*pilot)
    planned = _paths_for(plan, changes, documented) if count is None else count
    sizes = {planned, min(MORE * planned, MOST)} if count is None else {planned}
    kept: list[tuple[np.ndarray, np.ndarray]] = []

    def analysed(size: int, level: float, part: Progress) -> SolverReport:
        found = runs.function_values(plan, tests, size, Purpose.SOLVER_PATHS, kept, part)
        return _weak_analysis(plan, functions, *found, changes, documented, level, started)

    return _first_that_tells(analysed, sorted(sizes), confidence, part_of(move, OF_PILOT, 1.0))


def _changes(values: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Return finite changes (P', m - 1, K) of values (P, m + 2, K), less what controls explain of them."""
    changes = np.diff(values[:, :-2], axis=1)
    finite = np.isfinite(changes).all(axis=(1, 2))
    return without_noise(changes[finite], given[finite])


def _weak_analysis(
    plan: Plan,
    functions: dict[str, Function],
    values: np.ndarray,
    given: np.ndarray,
    piloted: np.ndarray,
    documented: float | None,
    confidence: float,
    started: float,
) -> SolverReport:
    """Return the report on values (P, m + 2, K), and what the changes of a pilot said that it can resolve."""
    size = len(values)
    resolvable = 2 * piloted.std(axis=0, ddof=1).max(axis=-1) / math.sqrt(size)
    log.info(
        "%d paths resolve changes of means above %s at %s steps",
        size,
        resolvable.tolist(),
        list(plan.steps[:-1]),
    )
    lost = int((~np.isfinite(values[:, :-2])).any(axis=(1, 2)).sum())
    each = 1.0 - (1.0 - confidence) / len(functions)
    steps = np.array(plan.steps)
    orders, described = [], []
    moved = _changes(values, given)
    for number, name in enumerate(functions):
        column, changes = values[:, :, number], moved[:, :, number]
        found = fit_means(changes, steps[:-1].astype(float), each)
        gap, allowed = _gap(plan, column, steps, found, each)
        orders.append(found)
        described.append(
            FunctionOrder(
                name,
                changes.mean(axis=0),
                changes.std(axis=0, ddof=1) / math.sqrt(len(changes)),
                found.rate,
                (found.low, found.high),
                found.resolved,
                gap,
                allowed,
            )
        )
    gaps, allowances = tuple(f.gap for f in described), tuple(f.allowed for f in described)
    moves = bool(np.diff(values[:, :-2], axis=1).any())
    # Without noise all paths are one, and a solver may well be exact on it.
    varies = bool(np.ptp(values[:, :-2], axis=(0, 1)).any()) or not plan.random
    evidence = WeakEvidence(lost, tuple(orders), moves, documented, gaps, allowances, varies)
    judgement = judge(rules.weak, evidence)
    seen = [f for f in described if f.resolved]
    decides = min(seen, key=lambda f: f.rate_interval[1]) if seen else None
    shown = max(described, key=lambda f: float(np.abs(f.differences).max())) if decides is None else decides
    return _reported(
        plan,
        judgement,
        started,
        convergence=WEAK,
        documented=documented,
        differences=shown.differences,
        standard_errors=shown.standard_errors,
        rate=math.nan if decides is None else decides.rate,
        rate_interval=(math.nan, math.nan) if decides is None else decides.rate_interval,
        confidence=confidence,
        source="means",
        resolvable=tuple(map(float, resolvable)),
        functions=tuple(described),
        paths=size,
        lost=lost,
    )


def _paths_for(plan: Plan, changes: np.ndarray, documented: float | None) -> int:
    """Return how many paths give the weak order a standard deviation of `WANTED`, by changes (P, m - 1, K).

    The best test function decides. Means are taken to fall at the documented order, or 1, from the first one.
    """
    order = 1.0 if documented is None or not math.isfinite(documented) else documented
    steps = np.array(plan.steps[:-1], dtype=float)
    logs = np.log(steps)
    design = np.stack([np.ones(len(logs)), -logs], axis=1)
    needed, no_offset = [], np.zeros((1, len(logs)))
    for column in np.moveaxis(changes, 2, 0):
        covariance = np.cov(column.T)
        if not covariance[0, 0] > 0:  # nothing moves
            continue
        first = max(abs(float(column[:, 0].mean())), 2 * math.sqrt(covariance[0, 0] / len(column)), 1e-300)
        means = first * (steps[0] / steps) ** order
        relative = covariance / np.outer(means, means)
        relative += 1e-12 * np.trace(relative) * np.eye(len(steps))
        fit = CorrelatedData.of(no_offset[0], relative[None]).regress(design, no_offset)
        variance = fit.covariances[0, 1, 1]
        needed.append(float(variance) / WANTED**2)
    best = min((each for each in needed if math.isfinite(each)), default=float(FEWEST))
    return int(min(max(FEWEST * math.ceil(best / FEWEST), FEWEST), MOST))


def _gap(
    plan: Plan, column: np.ndarray, steps: np.ndarray, order: WeakOrder, confidence: float
) -> tuple[float, float]:
    """Return |mean of f at infinitely many steps less that of the reference|, and what is allowed of it.

    Values (P, m + 2), those of the reference last. The mean is extrapolated by its last change at the
    measured order, a fine reference by its own change at its scheme's order. In addition to noise, as much is
    allowed as further steps leave at the low end of that order's interval, and the reference's change.
    """
    last, before, reference, coarse = column[:, -3], column[:, -4], column[:, -2], column[:, -1]
    if not np.isfinite(column[:, :-1]).all():
        return math.nan, math.nan
    own = 0.0
    if np.isfinite(coarse).all():
        moved = reference - coarse
        reference = reference + moved / (2.0 ** plan.reference_scheme.weak_order(plan.equation) - 1.0)
        own = abs(float(moved.mean()))
    ratio, change = steps[-1] / steps[-2], last - before
    gaps = last + change / (ratio ** max(order.rate, SLOWEST) - 1.0) - reference
    noise = float(gaps.std(ddof=1)) / math.sqrt(len(gaps))
    # A false accusation costs more than an open question: the level of "not the limit" is that of
    # `rules.SURE`.
    sure = min(1.0 - confidence, 1.0 - rules.SURE)
    sizes = np.abs(np.diff(column[:, :-2], axis=1).mean(axis=0))
    # A change that is smaller than the one before it by more than weak order 2 has just crossed 0.
    size = max(float(sizes[-1]), float(sizes[-2:][0]) / ratio**STEEPEST)
    left = size / (ratio ** max(order.low, SLOWEST) - 1.0)
    return abs(float(gaps.mean())), float(special.ndtri(1.0 - sure / 2)) * noise + left + own


def _reported(plan: Plan, judgement: Judgement[SolverVerdict], started: float, **found: Any) -> SolverReport:
    missing = math.nan
    numbers: dict[str, Any] = {
        "local_slopes": (),
        "local_slope_errors": (),
        "distances": np.full(len(plan.steps), missing),
        "reference_error": 0.0,
        "floor": missing,
        "floor_lower": missing,
        "floor_upper": missing,
        "floor_probability": missing,
        "remaining": math.inf,
        "resolvable": (),
        "functions": (),
        "medians": False,
    }
    report = SolverReport(
        verdict=judgement.code,
        rule=judgement.rule,
        scheme=plan.solver.name,
        equation=plan.equation.equation,
        steps=np.array(plan.steps),
        reference=runs.reference_in_words(plan),
        random=plan.random,
        seed=plan.seed,
        seconds=time.perf_counter() - started,
        versions=versions(),
        caveats=(),
        **{**numbers, **found},
    )
    told = tuple(name for name, holds in rules.solver_caveats(report) if holds)
    return dataclasses.replace(report, caveats=told)
