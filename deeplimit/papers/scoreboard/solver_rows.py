"""Rows of solvers: each problem with a scheme of known order, and a solver that is wrong in one way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

from deeplimit.papers.cases import WrongTwin
from deeplimit.testing.problems import PROBLEMS, Fault, Problem

PATHS = 512
"""Paths of a quick run, of which every fault is found in at least 49 of 50 seeds."""
ROWS = (
    ("oscillator", "midpoint", "half a step taken whole"),
    ("geometric Brownian motion", "milstein", "Milstein without -dt"),
    ("Ornstein-Uhlenbeck", "euler", "final time one step short"),
    ("Lévy area", "Milstein with Lévy areas", "Lévy area left out"),
    ("Lévy area, Stratonovich", "heun", "noise redrawn"),
    ("circle", "heun", "Itô for Stratonovich"),
    ("stochastic volatility", "euler", "noise redrawn"),
    ("double well", "euler", "noise of variance dt²"),
    ("stiff", "milstein", "noise redrawn"),
)
"""A problem, the scheme that is held to its documented order there, and the control."""


@final
@dataclass(frozen=True, eq=False)
class SolverCase:
    """One solver on one problem, with a solver that has a fault.

    Attributes:
        statement, setting: as in `Case`.
        problem: the equation and what is known of it.
        scheme: the solver, or the name of a method.
        order: its documented strong order.
        fault: the control.
        wrong: its name.
        paths: paths of a quick run.
    """

    statement: str
    setting: str
    problem: Problem
    scheme: Any
    order: float
    fault: Fault
    wrong: tuple[WrongTwin, ...]
    paths: int = PATHS
    in_law: ClassVar[bool] = False
    of_solver: ClassVar[Literal[True]] = True

    @property
    def name(self) -> str:
        """Statement and setting; no other case has the same."""
        return f"{self.statement}: {self.setting}"


def solver_cases() -> tuple[SolverCase, ...]:
    """Return a case per problem."""
    return tuple(_case(*row) for row in ROWS)


def _case(name: str, scheme: str, fault: str) -> SolverCase:
    problem = PROBLEMS[name]
    wrong = WrongTwin(fault, None, problem.equation.equation, "The solver has this fault.")
    return SolverCase(
        "solver",
        f"{name}, {scheme}",
        problem,
        problem.solvers.get(scheme, scheme),
        problem.strong[scheme],
        problem.faults[fault],
        (wrong,),
    )
