"""How a network was paired with a limit, as plain facts; no other file here asks what a limit is."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from deeplimit.driving import ChannelKind, Dependence
from deeplimit.judge.convergence import verdict
from deeplimit.simulation import Task
from deeplimit.simulation.task import GRADIENT, is_own, is_scheme
from deeplimit.statistics.consecutive import (
    Coherence,
    Differences,
    Order,
    apart_by_paths,
    fit_order,
    paired_floor,
    rests_on_few_paths,
)
from deeplimit.statistics.power_law import Floor
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


SCHEME = Regime("scheme", None, 0.5, "pathwise", "the limit's own scheme on each depth's layers.")
UNKNOWN_GAP = Regime("gap", None, None, "pathwise", "no theorem says how.")
CLOSE_ORDERS = 0.1
"""Measured orders this close count as one: half the length of an interval at 500 paths and five depths."""
LEAST_DEPTHS = 5
"""Fewer depths leave too few differences to be held against distances whose order a theorem says."""
SETTLING = 0.5
"""Networks have settled whose consecutive differences fall with this part of the theorem's order at least.

Of tanh(50 x) at depths to 256 medians fall with order 0 to 0.06, since solutions that start 1/50 apart are
soon as far apart as any two; of 30 x with 0.12. Errors keep the size of the states, as towards another limit.
"""
COHERENT = 0.05
"""Share of its squared differences that the scheme of a user's equation surely keeps in direction. Where
steps add independent errors it is measured as .05 or less in 48 of 50 calls of 512 paths.
"""
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
        correction_over_layers: the same in a norm over each depth's layers.
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
        measured: orders of the network, and where the limit's scheme runs on each depth's layers those of the
            scheme and of the distance between the two, all from consecutive differences; empty where a
            theorem says them.
        paired_floor: what remains of the distance to the limit, or to its scheme, held against consecutive
            differences path by path; None where no order was measured.
        distances: those to the limit, and where errors are split to its scheme (P, m or 2 m), of paths of
            which a few make up every mean, or are lost: medians are taken of them. None elsewhere.
        orders_of_medians: the orders of such paths where a theorem says an order in probability.
        mixed: orders of the limit's scheme and of the distance to it from consecutive differences, where a
            theorem says those of distances; empty elsewhere.
        apart_by_paths: how far the limit is from what the networks tend to, held against their differences
            path by path, where one path is read at all depths and a theorem says the order; 0 elsewhere.
        settles: whether networks of random weights differ less from depth to depth, as a theorem says.
    """

    regime: Regime
    own: bool
    predicted: float | None
    independent: bool
    reads: Reads
    correction: Correction
    correction_over_layers: Correction
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
    measured: tuple[Order | None, ...] = ()
    paired_floor: Floor | None = None
    distances: np.ndarray | None = None
    orders_of_medians: tuple[Order | None, ...] = ()
    mixed: tuple[Order | None, ...] = ()
    apart_by_paths: float = 0.0
    settles: bool = True

    @classmethod
    def of(cls, task: Task, differences: np.ndarray, resolution: float) -> Pairing:
        """Return the facts of a task, and the orders that its consecutive differences (P, columns) show."""
        found = cls._stated(task)
        if not task.keeps_differences:
            return found
        depths = np.array(task.grid.depths)
        m, kinds = len(depths), 1 + 2 * task.splits
        sets, distances = np.split(differences, [kinds * (3 * m - 4)], axis=1)
        orders = measured_orders(sets, depths, resolution, found.exact)
        floor, apart = None, 0.0
        if not found.exact and not found.regime.rate_is_bound:
            settled = settles(sets[:, : m - 1], depths, found.regime.rate or 0.0, resolution)
            found = dataclasses.replace(found, settles=settled)
        order = orders[-1]
        if order is not None and order.levels == m - 1:
            sizes, near = sets[:, (kinds - 1) * (3 * m - 4) :][:, : m - 1], distances[:, -m:]
            if found.reads is Reads.PATH and found.known_rate is not None:
                apart = apart_by_paths(near, sizes, order, found.known_rate)
            if found.correction is Correction.KNOWN:  # what the reference hides of distances to it
                near = near * np.exp(-log_bias(task, 0.5))
            floor = paired_floor(depths, near, sizes, order, exact=found.exact, rate=found.known_rate)
        heavy = any(each is not None and each.medians for each in orders)
        heavy = heavy or (not found.regime.moments and rests_on_few_paths(distances))
        # Where the coarsest differences are left out, none are held against all distances.
        medians = heavy and order is not None and (floor is not None or order.levels < m - 1)
        found = dataclasses.replace(found, distances=distances if medians else None)
        if found.regime.rate is None:
            regime = found.regime_of(orders)
            return dataclasses.replace(found, measured=orders, regime=regime, paired_floor=floor)
        # Where steps add independent errors, distances are differences times a constant from the start. Of
        # three differences a slope 3 % off in Theorem 4.4 passed in 36 of 40 calls, of four in none.
        trusted = found.reads is Reads.INCREMENTS and m >= LEAST_DEPTHS
        floor = floor if trusted else None
        medians = medians and trusted
        return dataclasses.replace(
            found,
            distances=found.distances if trusted else None,
            paired_floor=floor,
            orders_of_medians=orders if medians else (),
            mixed=orders[1:] if trusted else (),
            apart_by_paths=apart,
        )

    @classmethod
    def _stated(cls, task: Task) -> Pairing:
        limit, weights = task.limit, task.network.weights
        gradients = task.quantity == GRADIENT
        regime = gradients_of(task.network) if gradients else task.network.regime()
        own = not task.independent and is_own(task.network, task.limit)
        predicted = regime.rate if own else None
        if task.statistic.looks_between_layers:
            predicted = limit.order_over_all_times(predicted)
        correction = Correction.NONE
        if not limit.is_exact and (task.sharing.increments or task.measures_reference or task.splits):
            split = Correction.OF_SCHEME if task.splits else Correction.KNOWN
            correction = Correction.MEASURED if task.measures_reference else split
        # The sup over all times carries the limit's modulus of continuity, which no reference shrinks.
        over_layers = Correction.NONE if task.statistic.looks_between_layers else correction
        return cls(
            regime=regime,
            own=own,
            predicted=predicted,
            independent=task.independent,
            reads=_reads(task),
            correction=correction,
            correction_over_layers=over_layers,
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
    def order(self) -> Order | None:
        """The network's measured order; None where a theorem says it, or it cannot be measured.

        A network's error is its distance to the limit's scheme, and that scheme's error. If the distance
        surely falls more slowly, its order is the network's, however small it is at these depths.
        """
        orders = self.measured or self.orders_of_medians
        if not orders:
            return None
        network, scheme, gap = (*orders, None, None)[:3]
        if network is None or scheme is None or gap is None:
            return network
        low, high = gap.interval(0.95)
        return gap if low > 0 and high < scheme.interval(0.95)[0] else network

    def mixed_order(self, *, is_gap: bool) -> Order | None:
        """Return the order of a part whose differences lose their direction, where theory says its order.

        None where they keep it, or have none: distances say the same then, and more shortly.
        """
        order = (*self.mixed, None, None)[is_gap]
        if order is None or order.medians or order.uncertain:
            return None
        return order if order.coherence is Coherence.MARTINGALE_TAKES_OVER else None

    @property
    def known_rate(self) -> float | None:
        """The order, by a theorem, of the distances whose floor is judged; None where none says it."""
        # On one fractional path the network's own mean rules the gap, whichever equation its scheme solves.
        of_gap = self.own or self.reads is Reads.PATH
        known = self.regime if not self.splits else self.gap if of_gap else UNKNOWN_GAP
        return None if known.rate_is_bound else known.rate

    def regime_of(self, orders: tuple[Order | None, ...]) -> Regime:
        """Return what is known of the network, with measured orders in place of those that nobody stated."""
        network, scheme, gap = (*orders, None, None)[:3]
        if network is None or network.uncertain or network.rate <= 0:  # no order of errors that fall
            return self.regime
        rate, (low, high) = network.rate, network.interval(0.95)
        if self.directed and low <= round(rate) <= high and round(rate) > 0:
            rate = float(round(rate))  # smooth right sides expand in whole powers
        if scheme is None:
            return dataclasses.replace(self.regime, rate=rate, rate_is_bound=False)
        between = None if gap is None or gap.rate <= 0 else dataclasses.replace(UNKNOWN_GAP, rate=gap.rate)
        return dataclasses.replace(
            self.regime, rate=rate, rate_is_bound=False, scheme_rate=scheme.rate, gap=between
        )

    def apart(self, log_deepest: float, is_gap: bool) -> float:
        """Return the deepest error over the most that is left of it if both have one limit.

        That is what the consecutive differences of the network leave, or of its distance to the limit's
        scheme. 0 where no order was measured.
        """
        order = (*(self.measured or self.orders_of_medians), None, None, None)[2 * is_gap]
        return math.exp(log_deepest) / order.remaining if order is not None else 0.0

    @property
    def falls(self) -> bool:
        """Whether the network's measured order is surely above 0, so that it tends to something."""
        return self.order is not None and self.order.interval(0.95)[0] > 0

    @property
    def measured_interval(self) -> tuple[float, float] | None:
        """Interval of the network's measured order, above 0; None where a theorem says the order."""
        return _positive(self.order.interval(0.95)) if self.measured and self.order is not None else None

    @property
    def gap_interval(self) -> tuple[float, float] | None:
        """The same of the distance of network and scheme: it falls like the slower of the two."""
        gap = (*self.measured, None, None, None)[2]
        return None if gap is None else _positive(gap.interval(0.95))

    @property
    def scheme_coherence(self) -> float:
        """Share of the squared error of the limit's scheme that keeps its direction from depth to depth."""
        unknown = self.mixed[0] if self.mixed and not self.own else None
        if unknown is not None and not unknown.coherent_share > COHERENT:
            unknown = None
        scheme = self.measured[1] if len(self.measured) > 1 else unknown
        return 0.0 if scheme is None or math.isnan(scheme.coherent_share) else scheme.coherent_share

    @property
    def gap(self) -> Regime:
        """How the distance of the network and its limit's scheme falls with depth."""
        return NO_GAP if self.is_scheme and not self.measured else self.regime.gap or UNKNOWN_GAP

    @property
    def scheme(self) -> Regime:
        """How the errors of the limit's own scheme on each depth's layers expand.

        Of an equation that no theorem names they may have what the network's have: it may be the network's.
        """
        regime = self.regime
        known = regime.scheme_second_orders
        return dataclasses.replace(
            SCHEME,
            rate=regime.scheme_rate,
            corrections=regime.scheme_corrections,
            second_orders=known or (() if self.own else regime.second_orders),
        )

    @property
    def scheme_rate(self) -> float:
        """The order of the limit's scheme on each depth's layers."""
        return self.regime.scheme_rate


def log_bias(task: Task, order: float, coherence: float = 0.0) -> np.ndarray:
    """Return log of the factor (m,) by which a reference of the same scheme shrinks each of its errors.

    docs/statistics.md: of c²/L the squared reference error c² Σ Δ_i² is missing, Δ_i the reference's steps.
    A step of length Δ adds c² Δ^{1 + 2·order}, whatever the order, where steps add independent errors. Of a
    share `coherence` of the square, steps add up with their signs, and the reference takes c Δ^{1 + order}
    from the error itself.
    """
    depths = np.array(task.grid.depths, dtype=float)
    missing = depths ** (2 * order) * task.grid.sum_of_powers(1 + 2 * order)
    if coherence > 0:
        kept = (1 - depths**order * task.grid.sum_of_powers(1 + order)) ** 2
        missing = (1 - coherence) * missing + coherence * (1 - kept)
    shrink: np.ndarray = 0.5 * np.log1p(-missing)
    return shrink


def _positive(interval: tuple[float, float]) -> tuple[float, float]:
    low, high = (max(end, CLOSE_ORDERS) for end in interval)
    return low, high + CLOSE_ORDERS


def measured_orders(
    sets: np.ndarray, depths: np.ndarray, resolution: float, exact: bool
) -> tuple[Order | None, ...]:
    """Return the order of every set of consecutive differences, columns of (P, sets · (3 m - 4))."""
    m = len(depths)
    orders = []
    for each in np.split(sets, sets.shape[1] // (3 * m - 4), axis=1):
        sizes, squares, products = np.split(each, [m - 1, 2 * m - 2], axis=1)
        orders.append(fit_order(Differences(depths, sizes, squares, products, resolution, exact)))
    return tuple(orders)


def settles(sizes: np.ndarray, depths: np.ndarray, rate: float, resolution: float) -> bool:
    """Return whether the differences between two depths (P, m - 1) have begun to fall.

    `rate` is the order that a theorem says; 0 where none does, and then they must not grow.
    """
    middle = np.median(np.where(np.isfinite(sizes), sizes, np.inf), axis=0)
    if not middle[-1] > verdict.RESOLVED * resolution or not np.isfinite(middle[0]):
        return True
    # Of unequal ratios of depths differences are unequal, too: by these at the slowest order.
    left = -np.diff(depths ** (-2 * SETTLING * rate)) if rate else np.log(depths[1:] / depths[:-1])
    return bool((middle[-1] / middle[0]) ** 2 <= left[-1] / left[0])


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
