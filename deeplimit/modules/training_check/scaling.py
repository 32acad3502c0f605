"""Networks of several depths and seeds, combined: how each change goes with depth, as a power."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deeplimit.modules.depth_check.exponents import Exponent, fit
from deeplimit.modules.training_check.one_network import AfterSteps, BranchAfter

Networks = Sequence[Sequence[AfterSteps]]
"""Networks by depth, and by seed in it."""


@dataclass(frozen=True)
class Power:
    """A quantity at each depth, and the power of the depth that it follows.

    Attributes:
        values: root mean square over seeds, at each depth; nan where the network does not have it.
        exponent: exponent of depth; None if it follows from fewer than two depths.
        interval: interval of the exponent, from the scatter among seeds.
        wanted: exponent that was expected, or None.
        agrees: whether the exponent is the wanted one up to the tolerance; None if nothing was expected or
            the interval is too wide to tell.
    """

    values: tuple[float, ...]
    exponent: float | None
    interval: tuple[float, float] | None
    wanted: float | None = None
    agrees: bool | None = None

    @property
    def in_words(self) -> str:
        """The exponent with its interval; "-" where there is none."""
        if self.exponent is None or self.interval is None:
            return "-"
        return f"{self.exponent:+.2f} [{self.interval[0]:+.2f}, {self.interval[1]:+.2f}]"

    def judged(self, wanted: float, tolerance: float) -> Power:
        """Return this power, judged by an expected exponent."""
        if self.exponent is None or self.interval is None:
            return dataclasses.replace(self, wanted=wanted)
        low, high = self.interval
        agrees = Exponent(self.exponent, math.nan, low, high, True).within(wanted, tolerance)
        return dataclasses.replace(self, wanted=wanted, agrees=agrees)


@dataclass(frozen=True)
class BranchTransfer:
    """One kind of residual branch over depths; powers hold one entry per measured number of steps.

    Attributes:
        kind, stream, counts: name, number of the stream, layers that have it at each depth.
        weights: number of weights of one branch.
        size: what a branch adds before training.
        change: its relative change on the untrained stream (S,). If it starts at zero, its change over the
            size of the stream.
        coherence: size of the sum of the layers' changes over the sum of their sizes (S,).
        nonlinearity: distance of the change from its linear part, relative to it (S,); no exponent for
            branches of one weight.
    """

    kind: str
    stream: int
    counts: tuple[int, ...]
    weights: int
    size: Power
    change: tuple[Power, ...]
    coherence: tuple[Power, ...]
    nonlinearity: tuple[Power, ...]

    @property
    def starts_at_zero(self) -> bool:
        """Whether it adds nothing before training, at any depth."""
        return not any(value > 0 for value in self.size.values)


@dataclass(frozen=True)
class StreamTransfer:
    """One residual stream over depths.

    Attributes:
        stream: number of the stream, from 0.
        size: its last state before training.
        change: relative change of its last state by the branches (S,).
        sum: what the branches' own changes add up to there, relative to the last state (S,).
    """

    stream: int
    size: Power
    change: tuple[Power, ...]
    sum: tuple[Power, ...]


def transfers(
    depths: Sequence[int], networks: Networks, confidence: float
) -> tuple[tuple[BranchTransfer, ...], tuple[StreamTransfer, ...]]:
    """Return all kinds of branches and all streams over depths; intervals hold together at `confidence`."""
    deepest = networks[-1][0]
    steps = range(len(deepest.losses) - 1)
    streams = range(min(len(one.streams) for group in networks for one in group))
    level = 1 - (1 - confidence) / (2 * len(deepest.branches) + len(streams))

    def over_depths(quantity: Callable[[AfterSteps], float]) -> Power:
        return follow(depths, networks, quantity, level)

    def each_step(quantity: Callable[[int], Callable[[AfterSteps], float]]) -> tuple[Power, ...]:
        return tuple(over_depths(quantity(step)) for step in steps)

    branches = tuple(
        BranchTransfer(
            branch.kind,
            branch.stream,
            tuple(_count(group[0], branch.key) for group in networks),
            branch.weights,
            over_depths(_of(branch.key, lambda own: own.size)),
            each_step(_changes(networks, branch.key)),
            each_step(lambda step, key=branch.key: _of(key, lambda own: own.coherence[step])),  # type: ignore[misc]
            each_step(lambda step, key=branch.key: _of(key, lambda own: own.nonlinearity[step])),  # type: ignore[misc]
        )
        for branch in deepest.branches
    )
    return branches, tuple(
        StreamTransfer(
            number,
            over_depths(lambda one, number=number: one.streams[number].size),  # type: ignore[misc]
            each_step(lambda step, number=number: lambda one: one.streams[number].changes[step]),  # type: ignore[misc]
            each_step(lambda step, number=number: lambda one: _sum(one, number, step)),  # type: ignore[misc]
        )
        for number in streams
    )


def follow(
    depths: Sequence[int], networks: Networks, quantity: Callable[[AfterSteps], float], level: float
) -> Power:
    """Return the power of the depth that a quantity of the networks follows."""
    values = [[quantity(one) for one in group] for group in networks]
    return power_of(depths, values, level, networks[-1][0].epsilon)


def _of(key: str, read: Callable[[BranchAfter], float]) -> Callable[[AfterSteps], float]:
    """Return what reads a number of one kind of branch from a network; nan where it has none."""

    def reader(one: AfterSteps) -> float:
        return next((read(branch) for branch in one.branches if branch.key == key), math.nan)

    return reader


def _changes(networks: Networks, key: str) -> Callable[[int], Callable[[AfterSteps], float]]:
    """Return what reads the change of one kind of branch after a step; nan at depths where it starts at zero,
    if it does not at others: the change has another base there.
    """
    sizes = [_of(key, lambda own: own.size)(one) for group in networks for one in group]
    moving = any(value > 0 for value in sizes)
    return lambda step: _of(key, lambda own: own.changes[step] if (own.size > 0) == moving else math.nan)


def _count(one: AfterSteps, key: str) -> int:
    return sum(branch.count for branch in one.branches if branch.key == key)


def _sum(one: AfterSteps, stream: int, step: int) -> float:
    """Return what the changes of a stream's branches add up to, kinds as if all pushed the same way."""
    whole = one.streams[stream].size
    total = sum(
        branch.coherence[step] * branch.count * branch.changes[step] * (branch.size or whole)
        for branch in one.branches
        if branch.stream == stream
    )
    return total / whole if whole > 0 else math.nan


def power_of(
    depths: Sequence[int], values: Sequence[Sequence[float]], level: float, epsilon: float = 0.0
) -> Power:
    """Return the root mean squares of `values` over seeds, and their power of the depth.

    Seeds are independent draws; a depth where any of them is not a positive number is left out of the fit.
    """
    means = tuple(math.sqrt(sum(value**2 for value in group) / len(group)) for group in values)
    usable = [
        place
        for place, group in enumerate(values)
        if all(math.isfinite(value) and value > 0 for value in group)
    ]
    if len(usable) < 2:
        return Power(means, None, None)
    found = fit([depths[place] for place in usable], [values[place] for place in usable], level, epsilon)
    if found is None:
        return Power(means, None, None)
    return Power(means, -found.value, (-found.high, -found.low))
