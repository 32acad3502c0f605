"""How a network was paired with a limit, in plain facts that are asked once; no other file here asks what a
limit is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from deeplimit.coupling import Task
from deeplimit.limits import Identity, ItoCorrectedSDE, Limit, NeuralYoung, ODELimit, SDELimit
from deeplimit.theory import Regime
from deeplimit.weights import FunctionProcess, IncrementProcess, Trend


class Reads(StrEnum):
    """What the limit reads of the network's path."""

    INCREMENTS = "Brownian increments"
    PATH = "fractional path"
    FUNCTIONS = "functions of time"
    NOTHING = "nothing, since it is deterministic"
    OTHERS = "noise drawn for the limit alone"


class Correction(StrEnum):
    """How the reference's own error is taken out of the errors."""

    KNOWN = "by the factor that theory gives"
    MEASURED = "by a second solution with steps twice as large"
    NONE = "not at all"


class Solver(StrEnum):
    """What solves the limit."""

    EXACT = "exact"
    ADAPTIVE = "torchdiffeq dopri5"
    EULER = "Euler-Maruyama"
    MODIFIED_EULER = "modified Euler"


@dataclass(frozen=True)
class Pairing:
    """A network with a limit, on the noise that they share.

    Attributes:
        regime: what theory says of the network.
        own: whether the limit is the one that the network's theorem names, and reads its noise.
        predicted: order in the norm that was asked for; None where no theorem gives one for this pair.
        independent: whether the limit was given noise of its own on purpose.
        reads: what the limit reads of the network's path.
        redrawn: what the limit needed, and the network does not have: drawn for it alone. None else.
        correction: how the reference's error is taken out at the times that all depths share.
        surplus: multiple of the squared reference error that belongs to a measured correction.
        solver: what solves the limit.
        rough: whether the sup over all times carries the limit's modulus of continuity, a factor √log L.
        diffuses: whether the limit is driven by Brownian motion.
        gaussian: whether independent layers, if there are any, are Gaussian.
        given: whether all weights are given functions of time, so that paths differ by their inputs alone.
    """

    regime: Regime
    own: bool
    predicted: float | None
    independent: bool
    reads: Reads
    redrawn: Reads | None
    correction: Correction
    surplus: float
    solver: Solver
    rough: bool
    diffuses: bool
    gaussian: bool
    given: bool

    @classmethod
    def of(cls, task: Task) -> Pairing:
        """Return the facts of a task."""
        limit, weights = task.limit, task.network.weights
        regime = task.network.regime()
        own = not task.independent and _is_own_limit(task)
        rate, hurst = regime.rate, limit.hurst if isinstance(limit, NeuralYoung) else None
        predicted = rate if own else None
        if predicted is not None and hurst is not None and task.norm == "sup-continuous":
            predicted = min(predicted, hurst)  # over all times a Young limit is as rough as its path
        return cls(
            regime=regime,
            own=own,
            predicted=predicted,
            independent=task.independent,
            reads=_reads(task),
            redrawn=None if task.independent else _redrawn(task),
            correction=(
                Correction.MEASURED
                if task.measures_reference
                else Correction.KNOWN
                if task.shares_increments
                else Correction.NONE
            ),
            surplus=task.reference_surplus,
            solver=_solver(limit),
            rough=isinstance(limit, SDELimit) or (rate is not None and hurst is not None and rate > hurst),
            diffuses=isinstance(limit, SDELimit),
            gaussian=all(law.is_gaussian for law in weights if isinstance(law, IncrementProcess)),
            given=all(
                law.functions
                and not law.motions(task.network.width)
                and all(isinstance(function, Trend) for function in law.functions)
                for law in weights
            ),
        )

    @property
    def is_on_its_own_grid(self) -> bool:
        """Whether all that is measured is the distance to the same recursion on a finer grid.

        Increments of other than Gaussian laws approach a Brownian motion in law, not on one path.
        """
        finer = self.reads == Reads.INCREMENTS and not self.gaussian
        return finer or self.regime.convergence == "in law"

    def correction_in(self, norm: str) -> Correction:
        """Return how the reference's error is taken out in a norm.

        The sup over all times carries the limit's modulus of continuity, which no reference shrinks.
        """
        return Correction.NONE if norm == "sup-continuous" else self.correction


def _is_own_limit(task: Task) -> bool:
    try:
        return bool(task.limit == task.network.limit())
    except ValueError:
        return False


def _reads(task: Task) -> Reads:
    if task.shares_increments:
        return Reads.INCREMENTS
    if task.shares_path:
        return Reads.PATH
    if isinstance(task.limit, ODELimit):
        if task.limit.functions and task.shares_functions:
            return Reads.FUNCTIONS
        if not task.limit.functions and not task.independent:
            return Reads.NOTHING
    return Reads.OTHERS


def _redrawn(task: Task) -> Reads | None:
    """Return what the limit reads that is random and not the network's."""
    if isinstance(task.limit, SDELimit) and not task.shares_increments:
        return Reads.INCREMENTS
    if isinstance(task.limit, NeuralYoung) and not task.shares_path:
        return Reads.PATH
    random = any(not isinstance(function, Trend) for function in _functions(task.limit))
    return Reads.FUNCTIONS if random and not task.shares_functions else None


def _functions(limit: Limit) -> tuple[FunctionProcess, ...]:
    """Return the functions of time that a limit reads."""
    if isinstance(limit, ItoCorrectedSDE):
        return () if limit.trend is None else (limit.trend,)
    return limit.functions if isinstance(limit, ODELimit) else ()


def _solver(limit: Limit) -> Solver:
    if isinstance(limit, Identity):
        return Solver.EXACT
    if isinstance(limit, ODELimit):
        return Solver.ADAPTIVE
    return Solver.MODIFIED_EULER if isinstance(limit, NeuralYoung) else Solver.EULER
