"""How a network was paired with a limit, as plain facts; no other file here asks what a limit is."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import StrEnum

from deeplimit.driving import ChannelKind, Dependence
from deeplimit.simulation import Statistic, Task
from deeplimit.simulation.task import GRADIENT, is_own, is_scheme
from deeplimit.theory import Regime, gradients_of


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
    OF_SCHEME = "by the part that the limit's scheme on the same layers has"
    MEASURED = "by a second solution with steps twice as large"
    NONE = "not at all"


UNKNOWN_GAP = Regime("gap", None, None, "pathwise", "no theorem says how.")
NO_GAP = dataclasses.replace(UNKNOWN_GAP, rate=1.0, rate_is_bound=True)
"""Of a network that is its limit's scheme: other schemes of that equation are of order 1 away, or more."""


@dataclass(frozen=True)
class Pairing:
    """A network with a limit, on the noise that they share.

    Attributes:
        regime: what theory says of the network, or of its gradients.
        own: whether the limit is the one that the network's theorem names, and reads its noise.
        predicted: order in the norm that was asked for; None where no theorem gives one for this pair.
        independent: whether the limit was given independent noise on purpose.
        reads: what the limit reads of the network's path.
        correction: how the reference's error is taken out at the times that all depths share.
        surplus: multiple of the squared reference error that belongs to a measured correction.
        rough: whether the sup over all times carries the limit's modulus of continuity, a factor √log L.
        diffuses: whether the limit is driven by Brownian motion.
        gaussian: whether independent layers, if there are any, are Gaussian.
        is_scheme: whether the network is the Euler scheme of its limit.
        splits: whether the limit's scheme on each depth's layers was measured, too.
        limit_is_random: whether the limit has noise, or random functions of time.
        smooth: whether all weights are functions of time without noise.
        given: whether all weights are given functions of time, so that paths differ by their inputs alone.
        citations: keys or entries of the theorem, if it names this limit, of the limit's scheme and of the
            paths.
    """

    regime: Regime
    own: bool
    predicted: float | None
    independent: bool
    reads: Reads
    correction: Correction
    surplus: float
    rough: bool
    diffuses: bool
    is_scheme: bool
    splits: bool
    gaussian: bool
    limit_is_random: bool
    smooth: bool
    given: bool
    citations: tuple[str, ...]

    @classmethod
    def of(cls, task: Task) -> Pairing:
        """Return the facts of a task."""
        limit, weights = task.limit, task.network.weights
        gradients = task.quantity == GRADIENT
        regime = gradients_of(task.network) if gradients else task.network.regime()
        own = not task.independent and is_own(task.network, task.limit)
        predicted = regime.rate if own else None
        if task.statistic.looks_between_layers:
            predicted = limit.order_over_all_times(predicted)
        return cls(
            regime=regime,
            own=own,
            predicted=predicted,
            independent=task.independent,
            reads=_reads(task),
            correction=(
                Correction.NONE
                if limit.is_exact
                else Correction.MEASURED
                if task.measures_reference
                else Correction.OF_SCHEME
                if task.splits
                else Correction.KNOWN
                if task.sharing.increments
                else Correction.NONE
            ),
            surplus=limit.extrapolation_surplus,
            rough=limit.is_rough or limit.order_over_all_times(regime.rate) != regime.rate,
            diffuses=limit.driven_by_brownian_motion,
            is_scheme=is_scheme(task.network),
            splits=task.splits,
            gaussian=all(
                law.facts.gaussian for law in weights if law.facts.dependence is Dependence.INDEPENDENT
            ),
            limit_is_random=limit.is_random,
            smooth=all(channel.kind is ChannelKind.FUNCTION for channel in task.network.channels),
            given=not task.network.is_random,
            citations=(*(regime.citations if own else ()), *limit.citations, *task.network.citations),
        )

    @property
    def directed(self) -> bool:
        """Whether differences of network and limit expand in powers of the depth, path by path."""
        return self.smooth and not self.diffuses

    @property
    def exact(self) -> bool:
        """Whether another run would give the same numbers: nothing is random but the choice of inputs."""
        return self.given and not self.limit_is_random

    @property
    def gap(self) -> Regime:
        """How the distance of the network and its limit's scheme falls with depth."""
        return NO_GAP if self.is_scheme else self.regime.gap or UNKNOWN_GAP

    @property
    def scheme_rate(self) -> float:
        """The order of the limit's scheme on each depth's layers."""
        return self.regime.scheme_rate

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
