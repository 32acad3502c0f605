"""`work_precision`: an adaptive solver at several tolerances, its error against its work."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torchdiffeq
import torchsde
from scipy import special
from torch import Tensor

from deeplimit.common import validation
from deeplimit.common.global_state import by_default
from deeplimit.common.measurement import Progress, in_one_pass
from deeplimit.common.verdict import ToleranceVerdict, judge
from deeplimit.equations import ODE, SDE, Noise
from deeplimit.equations.solvers import solve
from deeplimit.equations.torchsde_step import AsTorchsde
from deeplimit.judge.solver.runs import CALLED, TOLERANCE as FINEST, method_of, refuse_whole_solver, starts
from deeplimit.judge.solver.solver_check import read_equation
from deeplimit.judge.solver.verdict import APART
from deeplimit.judge.solver.work_report import LEAST, WorkReport, levels_off, of_tolerances
from deeplimit.statistics.consecutive import log_means
from deeplimit.version import versions

Run = Callable[[Any, Tensor, Any, float], Tensor]
"""solver(equation, x, brownian, tolerance) -> states (1, d) at time 1."""
ADAPTIVE = {"adaptive_heun": 2.0, "fehlberg2": 2.0, "bosh3": 3.0, "dopri5": 5.0, "dopri8": 8.0}
"""Orders of torchdiffeq's adaptive methods (its README)."""
ADAPTIVE_SDE = ("euler", "milstein", "srk")
"""torchsde's methods for Itô equations, which all take adaptive=True."""
FOR_ODES = tuple(10.0**-k for k in range(3, 9))
FOR_SDES = (1e-2, 10**-2.5, 1e-3, 10**-3.5, 1e-4)
"""Tolerances that are taken where none are given. Adaptive steps of an SDE cost 100 times those of an ODE."""
RUNS = 16
"""Paths of an SDE where no number is given; an ODE runs from every row once."""
FIRST, SHORTEST = 0.1, 1e-7
"""First step that an adaptive solver of torchsde tries, and the shortest one that it may take."""


@dataclass
class _Tally:
    """How often a function of an equation was evaluated."""

    count: int = 0

    def counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self.count += 1
            return function(*arguments, **named)

        return call


@by_default
def work_precision(
    scheme: Any,
    equation: Any,
    x: Tensor,
    *,
    tolerances: Sequence[float] | None = None,
    paths: int | None = None,
    seed: int = 0,
    confidence: float = 0.95,
    progress: Progress | bool | None = None,
) -> WorkReport:
    """Judge an adaptive solver at its tolerances: does the error follow them, and what does it cost?

    Every run has one initial state and one path, from time 0 to 1 in float64: solvers choose steps for a
    whole batch, and a batch would have one sequence of steps. All tolerances share initial states and paths.

    Args:
        scheme: the name of an adaptive method of torchdiffeq (ODE) such as "dopri5", or of a method of
            torchsde that runs with `adaptive=True` (Itô SDE); or a function solver(equation, x, brownian,
            tolerance) that returns the state (1, d) at time 1. `equation` counts its evaluations. `brownian`
            is a torchsde.BrownianInterval for an SDE, known at any two times, and None for an ODE.
        equation: an `ODE`, a function f(t, h), or an `SDE` with its `solution`.
        x: initial states (n, d); run i starts at row i mod n.
        tolerances: absolute and relative tolerances alike, three or more, falling, between 0 and 1; left out,
            1e-3 to 1e-8 for an ODE and 1e-2 to 1e-4 for an SDE.
        paths: number of runs; left out, n for an ODE and 16 for an SDE.
        seed: decides the Brownian paths.
        confidence: level of each interval, of the tolerance's exponent and of the order in evaluations.
        progress: function of the fraction done, between 0 and 1; True shows a bar, False nothing. Left out, a
            call of more than ten seconds says in the log how long it will take.

    Returns:
        A report: verdict, both exponents with intervals, a work-precision diagram; `print` it, `plot` it.

    Raises:
        TypeError: for an argument of the wrong kind, and a solver that returns no tensor.
        ValueError: for a wrong value, a method that is not adaptive, an SDE without `solution`, and a solver
            that returns another shape.

    NOT checked: that `solution` solves the equation, and that initial states are typical ones. A single run
    has no sampling error; the intervals then rest on the scatter about the fitted line alone.

    Examples:
        >>> import torch, deeplimit as dl
        >>> pendulum = dl.ODE(lambda t, h: torch.stack([h[:, 1], -h[:, 0].sin()], dim=1))
        >>> x = torch.randn(8, 2, generator=torch.Generator().manual_seed(0))
        >>> report = dl.work_precision("dopri5", pendulum, x)
        >>> report.verdict, len(report.evaluations)
        ('follows the tolerance', 6)
    """
    started, given = time.perf_counter(), {**locals()}
    start = validation.inputs(x)
    if start is None:
        raise TypeError("x must be a tensor of initial states (n, d), got None.")
    start = start.double()
    read = read_equation(equation, start)
    random = read.noise_structure is not Noise.NONE
    if random and read.solution is None:
        raise ValueError(
            "equation must state its solution=, since adaptive steps of an SDE have no common grid for a fine"
            " reference; check_solver judges a scheme of fixed steps without one."
        )
    name, run, documented = _resolved(scheme, random)
    numbers = _read_tolerances(tolerances, FOR_SDES if random else FOR_ODES)
    count = RUNS if random else len(start)
    if paths is not None:
        count = validation.integer(paths, "paths", minimum=1, maximum=2**16)
    level = validation.probability(confidence, "confidence", "0.95 is usual.")
    plan = _Plan(name, run, read, starts(start, 0, count), numbers, validation.seed(seed), random)
    with in_one_pass(progress, "work precision") as move:
        report = _reported(plan, documented, level, started, move)
    return report.called_by("work_precision", given)


@dataclass(frozen=True)
class _Plan:
    name: str
    run: Run
    equation: SDE | ODE
    x: Tensor
    tolerances: tuple[float, ...]
    seed: int
    random: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one state."""
        return tuple(self.x[:1].shape)


def _resolved(scheme: Any, random: bool) -> tuple[str, Run, float | None]:
    refuse_whole_solver(scheme)
    if isinstance(scheme, str):
        scheme = method_of(scheme, random)
        if random:
            method = validation.choice(scheme, "scheme", ADAPTIVE_SDE)
            return f"torchsde's {method}, adaptive", _torchsde(method), None
        method = validation.choice(scheme, "scheme", tuple(ADAPTIVE))
        return f"torchdiffeq's {method}", _torchdiffeq(method), ADAPTIVE[method]
    if callable(scheme) and not isinstance(scheme, type):
        return getattr(scheme, "__name__", type(scheme).__name__), scheme, None
    raise TypeError(
        "scheme must be the name of an adaptive method such as 'dopri5', or a function solver(equation, x,"
        f" brownian, tolerance); got {validation.named(scheme)}."
    )


def _torchdiffeq(method: str) -> Run:
    def run(equation: Any, x: Tensor, brownian: Any, tolerance: float) -> Tensor:
        ends = torch.tensor([0.0, 1.0], dtype=x.dtype)
        found: Tensor = torchdiffeq.odeint(equation, x, ends, rtol=tolerance, atol=tolerance, method=method)
        return found[-1]

    return run


def _torchsde(method: str) -> Run:
    def run(equation: Any, x: Tensor, brownian: Any, tolerance: float) -> Tensor:
        ends = torch.tensor([0.0, 1.0], dtype=x.dtype)
        control = {"adaptive": True, "rtol": tolerance, "atol": tolerance, "dt": FIRST, "dt_min": SHORTEST}
        with warnings.catch_warnings():  # that a solution may be wrong is what is measured here
            warnings.simplefilter("ignore")
            found: Tensor = torchsde.sdeint(
                AsTorchsde(equation), x, ends, bm=brownian, method=method, options={}, **control
            )
        return found[-1]

    return run


def _read_tolerances(given: Any, usual: tuple[float, ...]) -> tuple[float, ...]:
    if given is None:
        return usual
    listed = validation.entries(given, "tolerances", "a list of numbers such as [1e-3, 1e-5, 1e-7]")
    numbers = tuple(
        validation.real(each, "every one of tolerances", above=0.0, maximum=1.0, hint="1e-6, say.")
        for each in listed
    )
    if len(numbers) < LEAST or any(later >= earlier for earlier, later in itertools.pairwise(numbers)):
        raise ValueError(
            f"tolerances must be at least {LEAST} falling numbers, got {list(numbers)}; try [1e-3, 1e-5,"
            " 1e-7]."
        )
    return numbers


def _measured(plan: _Plan, move: Progress) -> tuple[np.ndarray, np.ndarray, float]:
    """Return errors (P, m), evaluations (P, m), and the reference's error with round-off."""
    count = len(plan.x)
    errors, evaluations = np.full((2, count, len(plan.tolerances)), math.nan)
    own = 0.0
    for i in range(count):
        x, brownian = plan.x[i : i + 1], _brownian(plan, i)
        reference, apart = _reference(plan, x, brownian)
        own = max(own, apart)
        for j, tolerance in enumerate(plan.tolerances):
            tally = _Tally()
            with torch.no_grad(), validation.noted(CALLED):
                got = plan.run(_counting(plan.equation, tally), x.clone(), brownian, tolerance)
            errors[i, j] = float((_checked(plan, got) - reference).norm())
            evaluations[i, j] = tally.count
        move((i + 1) / count)
    return errors, evaluations, own


def _counting(equation: Any, tally: _Tally) -> Any:
    if equation.noise_structure is Noise.NONE:
        return dataclasses.replace(equation, field=tally.counted(equation.field))
    return dataclasses.replace(
        equation, drift=tally.counted(equation.drift), diffusion=tally.counted(equation.diffusion)
    )


def _brownian(plan: _Plan, i: int) -> Any:
    if not plan.random:
        return None
    motions = int(plan.equation.noise_size(plan.x[:1]) or 0)
    # One seed per path, from the seed and its number, as torchsde takes it.
    entropy = int(np.random.SeedSequence([plan.seed, i]).generate_state(1)[0])
    return torchsde.BrownianInterval(
        0.0,
        1.0,
        size=(1, motions),
        dtype=torch.float64,
        entropy=entropy,
        levy_area_approximation="space-time",
    )


@torch.no_grad()
def _reference(plan: _Plan, x: Tensor, brownian: Any) -> tuple[Tensor, float]:
    round_off = float(np.finfo(float).eps)
    end = torch.tensor(1.0, dtype=x.dtype)
    if plan.equation.solution is not None:
        noise = (
            ()
            if brownian is None
            else (
                brownian(0.0, 1.0).reshape(1, *plan.equation.brownian_shape(x)),  # type: ignore[union-attr]
            )
        )
        found: Tensor = plan.equation.solution(end, x, *noise)
        return found, round_off * float(found.norm())
    ends = torch.tensor([0.0, 1.0], dtype=x.dtype)
    fine, coarse = (
        solve(plan.equation.field, x, ends, tolerance, "give the equation's solution=")[-1]  # type: ignore[union-attr]
        for tolerance in (FINEST, 10 * FINEST)
    )
    return fine, float((fine - coarse).norm()) + round_off * float(fine.norm())


def _checked(plan: _Plan, got: Any) -> Tensor:
    if not isinstance(got, Tensor):
        raise TypeError(
            f"scheme {plan.name} must return a tensor, the state {plan.shape} at time 1; got"
            f" {validation.named(got)}."
        )
    if tuple(got.shape) != plan.shape:
        raise ValueError(
            f"scheme {plan.name} must return the state {plan.shape} at time 1, got {tuple(got.shape)}."
        )
    return got.double()


def _slope(
    across: np.ndarray, values: np.ndarray, influence: np.ndarray, confidence: float
) -> tuple[float, tuple[float, float]]:
    """Return the slope of values (m,) and its interval, by the scatter about the line and over runs (P, m).

    Steps are chosen one by one, so that errors scatter about any line even without sampling error.
    `influence` is that of every run on values less the slope times `across`.
    """
    weights = across - across.mean()
    weights = weights / (weights @ weights)
    slope = float(weights @ values)
    left = values - values.mean() - slope * (across - across.mean())
    degrees = len(values) - 2
    variance = float(left @ left) / degrees * float(weights @ weights)
    if len(influence) > 1:
        variance += float((influence @ weights).var(ddof=1)) / len(influence)
    half = float(special.stdtrit(degrees, 0.5 + confidence / 2)) * math.sqrt(variance)
    return slope, (slope - half, slope + half)


def _reported(
    plan: _Plan, documented: float | None, confidence: float, started: float, move: Progress
) -> WorkReport:
    errors, evaluations, own = _measured(plan, move)
    finite = np.isfinite(errors).all(axis=1)
    kept, work = errors[finite], evaluations[finite]
    missing = (math.nan, (math.nan, math.nan))
    exponent, order, levels, stays = missing, missing, 0, False
    if len(kept) and (kept > 0).all():
        above = np.sqrt((kept**2).mean(axis=0)) > APART * own
        levels = len(above) if above.all() else int(np.argmin(above))
    if levels >= LEAST:
        logs, moved = log_means(kept[:, :levels])
        costs = np.log(work[:, :levels].mean(axis=0)) if (work[:, :levels] > 0).all() else None
        stays = levels_off(plan.tolerances[:levels], logs, moved)
        exponent = _slope(np.log(plan.tolerances[:levels]), logs, moved, confidence)
        if costs is not None and np.ptp(costs) > 0:
            steepness = _slope(costs, logs, moved, confidence)[0]
            both = moved - steepness * (work[:, :levels] / work[:, :levels].mean(axis=0) - 1.0)
            slope, (low, high) = _slope(costs, logs, both, confidence)
            order = -slope, (-high, -low)
    count = len(kept)
    mean = (kept**2).mean(axis=0) if count else np.full(len(plan.tolerances), math.nan)
    sizes = np.sqrt(mean)
    root = math.sqrt(max(count, 1))
    unknown = np.full(len(plan.tolerances), math.nan)
    report = WorkReport(
        verdict=ToleranceVerdict.CANNOT_TELL,
        rule="",
        scheme=plan.name,
        equation=plan.equation.equation,
        tolerances=np.array(plan.tolerances),
        errors=sizes,
        standard_errors=(kept**2).std(axis=0, ddof=1) / (2 * np.maximum(sizes, 1e-300) * root)
        if count > 1
        else unknown,
        evaluations=work.mean(axis=0) if count else unknown,
        evaluation_errors=work.std(axis=0, ddof=1) / root if count > 1 else unknown,
        exponent=exponent[0],
        exponent_interval=exponent[1],
        work_order=order[0],
        work_order_interval=order[1],
        documented=documented,
        confidence=confidence,
        levels=levels,
        reference="the exact solution" if plan.equation.solution is not None else f"dopri5 at {FINEST:g}",
        reference_error=own,
        paths=len(errors),
        lost=len(errors) - count,
        seed=plan.seed,
        seconds=time.perf_counter() - started,
        versions=versions(),
    )
    decided = judge(functools.partial(of_tolerances, stays=stays), report)
    return dataclasses.replace(report, verdict=decided.code, rule=decided.rule)
