"""Solvers on problems whose documented orders are known, and solvers with one fault each."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import numpy as np
import torch

import deeplimit as dl
from calibration.cell import JUDGING, NO_INTERVAL, Called, Cell, Trial
from deeplimit.testing.problems import PROBLEMS, Problem

GROUP, WEAK, FAULTS = "Solvers", "Solvers, weak order", "Solvers with a fault"
DOCUMENTED, FASTER = "documented order", "faster than documented"
NOT_ORDER, NOT_LIMIT = "not the documented order", "not the limit"
TRUE_ORDERS = {("Ornstein-Uhlenbeck", "srk"): 2.0, ("Lévy area, Stratonovich", "log_ode"): 1.0}
"""Orders that are higher than documented: for a linear drift SRK's error of order 3/2 vanishes, and log_ode
is given Lévy areas here, which torchsde approximates by what increments and space-time areas tell of them."""

NOISE = 0.05
"""Of a drift of size 1: beside it the part of order 1/2 is a fiftieth of Euler's error up to 1,000 steps."""
TURN = torch.tensor([[-0.7, 0.6], [-0.5, 0.2]], dtype=torch.float64)
MIXED = torch.tensor([[[0.5, 0.8], [0.2, -0.3]], [[-0.4, 0.1], [0.9, 0.6]]], dtype=torch.float64)


def _sine(drift: float, noise: float) -> dl.SDE:
    return dl.SDE(
        lambda t, h: drift * torch.cos(2 * h),
        lambda t, h, dB: noise * NOISE * (1 + torch.sin(h) / 2) * dB,
        noise="diagonal",
    )


def _linear(drift: float, noise: float) -> dl.SDE:
    return dl.SDE(
        lambda t, h: drift * h @ TURN.T.to(h),
        lambda t, h, dB: noise * NOISE * torch.einsum("kij,pj,pk->pi", MIXED.to(h), h, dB),
        noise="general",
        brownian=2,
    )


def _milstein_short(equation: Any, x: Any, brownian: Any, times: Any) -> Any:
    """Milstein's scheme of geometric Brownian motion with a correction that is 2 % too small."""
    for start, end in itertools.pairwise(times.tolist()):
        moved = equation.g_prod(start, x, brownian(start, end))
        per_unit = equation.g_prod(start, x, torch.ones_like(x))
        correction = 0.49 * (moved.square() - per_unit.square() * (end - start)) / x
        x = x + equation.f(start, x) * (end - start) + moved + correction
    return x


SMALL_NOISE = {
    "small noise": Problem(
        _sine(1.0, 1.0), torch.full((1, 1), 0.3), {"euler": 0.5, "milstein": 1.0}, "", scaled=_sine
    ),
    "small noise of two motions": Problem(
        _linear(1.0, 1.0), torch.tensor([[1.0, -0.5]]), {"euler": 0.5}, "", scaled=_linear
    ),
}
"""Equations whose drift hides what noise leaves of the error, but for single steps."""
RANGE = math.log(2.0)
"""Logarithm of the factor by which drift, noise and initial states are larger or smaller than the problem's:
with one equation per cell, finite steps would bias every call alike."""


@final
@dataclass(frozen=True)
class Solving(Trial):
    """A call of `check_solver`.

    Attributes:
        problem: equation and initial states. scheme: what solves it.
        documented: the documented order. truth: the true one; NaN for a fault.
        right: the true verdicts.
        settings: further arguments of `check_solver`.
    """

    problem: Problem
    scheme: Any
    documented: float
    truth: float
    right: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    rooms: ClassVar[tuple[str, ...]] = (*JUDGING, "testing")

    @property
    def network(self) -> str:
        """What is solved, and by what order it is judged."""
        return f"{self.problem.equation.equation}, order {self.documented:g}"

    def call(self, seed: int) -> Called:
        report = dl.check_solver(
            self.scheme,
            self.problem.equation,
            self.problem.x,
            order=self.documented,
            seed=seed,
            **self.settings,
        )
        if not math.isfinite(report.rate):
            return Called(str(report.verdict), NO_INTERVAL, str(report.verdict))
        interval = float(report.rate), *map(float, report.rate_interval)
        return Called(str(report.verdict), interval, level=report.confidence)


def _drawn(trial: Solving, seed: int) -> Solving:
    """Return the trial with a drift, a noise and initial states whose sizes the seed decides."""
    problem, random = trial.problem, np.random.default_rng(seed)
    drift, noise, start = np.exp(random.uniform(-RANGE, RANGE, 3)).tolist()
    x = start * problem.x
    if isinstance(problem.equation, dl.ODE):  # four directions too: without noise little else differs
        x = torch.from_numpy(random.standard_normal((4, 2)))
    equation = problem.equation if problem.scaled is None else problem.scaled(drift, noise)
    return dataclasses.replace(trial, problem=dataclasses.replace(problem, equation=equation, x=x))


def _cell(group: str, name: str, trial: Solving, quick: bool) -> Cell:
    # 5 % of intervals miss, half of them on either side, and a miss is another word.
    return Cell(group, name, lambda seed: _drawn(trial, seed), 0.05, quick=quick)


def cells() -> Iterator[Cell]:
    """Yield the cells: documented orders, weak orders, faults."""
    for name, problem in (PROBLEMS | SMALL_NOISE).items():
        for scheme, order in problem.strong.items():
            solver = problem.solvers.get(scheme, scheme)
            truth = TRUE_ORDERS.get((name, scheme), order)
            right = (DOCUMENTED,) if truth == order else (DOCUMENTED, FASTER)
            trial = Solving(problem, solver, order, truth, right)
            whose = "torchdiffeq's " if isinstance(problem.equation, dl.ODE) else ""
            yield _cell(GROUP, f"{name}, {whose}{scheme}", trial, quick=name == "circle")
    for name, problem in PROBLEMS.items():
        for scheme, order in problem.weak.items():
            settings = {"kind": "weak", "steps": (8, 16, 32, 64, 128)}
            trial = Solving(problem, scheme, order, order, (DOCUMENTED,), settings)
            yield _cell(WEAK, f"{name}, {scheme}", trial, quick=scheme == "heun")
    for name, problem in PROBLEMS.items():
        for what, fault in problem.faults.items():
            trial = Solving(problem, fault.solver, fault.documented, math.nan, (NOT_ORDER, NOT_LIMIT))
            yield _cell(FAULTS, f"{name}, {what}", trial, quick=name == "circle")
    problem = PROBLEMS["geometric Brownian motion"]
    trial = Solving(problem, _milstein_short, 1.0, math.nan, (NOT_ORDER, NOT_LIMIT))
    yield _cell(FAULTS, "geometric Brownian motion, a term 2 % too small", trial, quick=False)
