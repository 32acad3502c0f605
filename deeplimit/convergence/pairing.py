"""How a network was paired with a limit, as plain facts; no other file here asks what a limit is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from deeplimit.coupling import Statistic, Task
from deeplimit.theory import Regime
from deeplimit.weights import Dependence


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


@dataclass(frozen=True)
class Pairing:
    """A network with a limit, on the noise that they share.

    Attributes:
        regime: what theory says of the network.
        own: whether the limit is the one that the network's theorem names, and reads its noise.
        predicted: order in the norm that was asked for; None where no theorem gives one for this pair.
        independent: whether the limit was given independent noise on purpose.
        reads: what the limit reads of the network's path.
        redrawn: what the limit needed, and the network does not have: drawn for it alone. None else.
        correction: how the reference's error is taken out at the times that all depths share.
        surplus: multiple of the squared reference error that belongs to a measured correction.
        rough: whether the sup over all times carries the limit's modulus of continuity, a factor √log L.
        diffuses: whether the limit is driven by Brownian motion.
        gaussian: whether independent layers, if there are any, are Gaussian.
        given: whether all weights are given functions of time, so that paths differ by their inputs alone.
        citations: keys or entries of the theorem, if it names this limit, of the limit's scheme and of the
            paths.
    """

    regime: Regime
    own: bool
    predicted: float | None
    independent: bool
    reads: Reads
    redrawn: Reads | None
    correction: Correction
    surplus: float
    rough: bool
    diffuses: bool
    gaussian: bool
    given: bool
    citations: tuple[str, ...]

    @classmethod
    def of(cls, task: Task) -> Pairing:
        """Return the facts of a task."""
        limit, weights = task.limit, task.network.weights
        regime = task.network.regime()
        own = not task.independent and _is_own_limit(task)
        predicted = regime.rate if own else None
        if task.statistic.looks_between_layers:
            predicted = limit.order_over_all_times(predicted)
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
                if task.sharing.increments
                else Correction.NONE
            ),
            surplus=limit.extrapolation_surplus,
            rough=limit.is_rough or limit.order_over_all_times(regime.rate) != regime.rate,
            diffuses=limit.driven_by_brownian_motion,
            gaussian=all(
                law.facts.gaussian for law in weights if law.facts.dependence is Dependence.INDEPENDENT
            ),
            given=not task.network.is_random,
            citations=(*(regime.citations if own else ()), *limit.citations, *task.network.citations),
        )

    @property
    def is_on_its_own_grid(self) -> bool:
        """Whether all that is measured is the distance to the same recursion on a finer grid.

        Increments of other than Gaussian laws approach a Brownian motion in law, not on one path.
        """
        finer = self.reads == Reads.INCREMENTS and not self.gaussian
        return finer or self.regime.convergence == "in law"

    def correction_in(self, statistic: Statistic) -> Correction:
        """Return how the reference's error is taken out in a norm.

        The sup over all times carries the limit's modulus of continuity, which no reference shrinks.
        """
        return Correction.NONE if statistic.looks_between_layers else self.correction


def _is_own_limit(task: Task) -> bool:
    try:
        return bool(task.limit == task.network.limit())
    except ValueError:
        return False


def _reads(task: Task) -> Reads:
    shared = task.sharing
    if shared.increments:
        return Reads.INCREMENTS
    if shared.path:
        return Reads.PATH
    if task.limit.functions and shared.functions:
        return Reads.FUNCTIONS
    if not task.limit.is_random and not task.limit.functions and not task.independent:
        return Reads.NOTHING
    return Reads.OTHERS


def _redrawn(task: Task) -> Reads | None:
    """Return what the limit reads that is random and not the network's."""
    limit, shared = task.limit, task.sharing
    if limit.driven_by_brownian_motion and not shared.increments:
        return Reads.INCREMENTS
    if limit.needs_equal_steps and not shared.path:
        return Reads.PATH
    random = any(not law.facts.deterministic for law in limit.functions)
    return Reads.FUNCTIONS if random and not shared.functions else None
