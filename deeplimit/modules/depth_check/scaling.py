"""Measurements at several depths, combined by kind: exponents, their meaning, the parts that cause them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from deeplimit.common import verdict
from deeplimit.modules.depth_check.exponents import Exponent, Odd, differ, fit, slope
from deeplimit.modules.depth_check.meaning import (
    NOT_DEEPENED,
    Distance,
    Evidence,
    critical_exponent,
    meanings,
)
from deeplimit.modules.depth_check.one_depth import (
    Alignment,
    AtOneDepth,
    MeasuredBranch,
    WeightSize,
    whole_skip,
)
from deeplimit.modules.depth_check.stream_meaning import RUNAWAY
from deeplimit.modules.depth_check.stream_scaling import over, streams
from deeplimit.modules.trace.naming import wildcard
from deeplimit.statistics.power_law import line, student_quantile


@dataclass(frozen=True)
class PartScaling:
    """One part of a kind of branch: its size at each depth and the exponent of that size.

    Attributes:
        name: Name of the weight, gain or bias with * for the layer; or "multiplier", "skip" or "input
            multiplier", numbers in the forward.
        role: "output", "inner", "gain", "gate" (a weight that makes a gain of a conditioning), "bias" (only
            biases at the branch's end that are not zero), "multiplier", "skip" or "entry" (what multiplies
            the normalised input).
        sizes: Root mean square at each depth that has this kind of branch.
        exponent: Exponent of sizes ~ N**-exponent; None if a size is zero or there is only one depth.
        spread: Largest over smallest size among the layers of the deepest network.
        weight: Entries and fans of the weight in the deepest network; None for numbers in the forward.
        layers: Sizes of the single layers that have it, at each depth.
        scaled: Whether it is a bias that a gain or a normalisation after it scales.
        thirds: Sizes of queries, keys and values at each depth, where they are fused in one weight.
    """

    name: str
    role: str
    sizes: tuple[float, ...]
    exponent: float | None
    spread: float
    weight: WeightSize | None
    layers: tuple[tuple[float, ...], ...] = ()
    thirds: tuple[tuple[float, ...], ...] = ()
    scaled: bool = False


class FewLayers(NamedTuple):
    """Layers that make up the updates: how many, of how many, and their share of the squares."""

    carrying: int
    layers: int
    share: float


@dataclass(frozen=True)
class BranchScaling:
    """One kind of residual branch over depths.

    Attributes:
        kind: Name of the kind ("h.*.attn").
        stream: Number of the residual stream, from 0.
        counts: Number of such branches at each depth, the opening block of a stage included; 0 if none.
        ratios: Size of the update divided by the size of the stream it joins, at each depth (root mean
            square over layers).
        sizes: Size of the update at each depth when every branch is given the same stream. It is divided by
            the size of that stream unless the branch normalises its input. Sizes and exponent rest on all
            draws of the networks, all else on the first.
        layers: The ratios of the deepest network, one per layer.
        exponent: Exponent of sizes ~ N**-exponent, N the number of branches of all kinds on the stream; None
            if updates are zero or there is only one depth.
        exponent_interval: Interval of the exponent; the intervals of all kinds hold together at the report's
            confidence level.
        power_law: Whether one power law fits the sizes.
        alignment: Exponent with which the sum of all updates grows with the number of layers: 1/2 for
            independent layers, 1 for layers that all push the same way.
        alignment_interval: Interval of the alignment.
        normalised: Whether the branch normalises its input.
        normed: Whether a normalisation follows the output projection.
        renormed: Whether the stream is normalised after every sum (post-norm).
        layered: Largest over smallest size of the update among the layers of the deepest network.
        meaning: What exponent and alignment say about the limit, in words.
        parts: The branch's weights, gains, biases and multipliers.
        numbers: The layers' numbers in the deepest network, as in the names of their weights.
        dropped: Largest probability with which dropout, in training, drops an entry of the skip.
        kept: Share that a velocity keeps from layer to layer, at each depth (largest over layers); 0 without
            one. With one, sizes, exponent and alignment are those of what each layer adds to it.
        probed: As `sizes`, of every layer of the first draw, at each depth that has this kind of branch.
        hooked: Name, with * for the layer, of the module whose output is the projection's; "" if none is.
        neighbours: Mean cosine of updates of neighbouring layers, in the deepest network; None for one layer.
        distinct: Number of different projections in the deepest network: fewer than layers that share them.
        few: The layers that make up the updates, where as few do at every depth; else None.
        odd: The one depth (its place), without which one power law fits, by which factor it is off, and the
            exponent of the others; None if there is none.
    """

    kind: str
    stream: int
    counts: tuple[int, ...]
    ratios: tuple[float, ...]
    sizes: tuple[float, ...]
    layers: tuple[float, ...]
    exponent: float | None
    exponent_interval: tuple[float, float] | None
    power_law: bool
    alignment: float | None
    alignment_interval: tuple[float, float] | None
    normalised: bool
    normed: bool
    renormed: bool
    layered: float
    meaning: str
    parts: tuple[PartScaling, ...]
    numbers: tuple[int, ...] = ()
    probed: tuple[tuple[float, ...], ...] = ()
    dropped: float = 0.0
    kept: tuple[float, ...] = ()
    hooked: str = ""
    odd: Odd | None = None
    neighbours: float | None = None
    distinct: int = 0
    few: FewLayers | None = None

    @property
    def in_words(self) -> str:
        """The exponent; what updates mean, or else their size, where there is none."""
        if self.exponent is not None:
            return self.exponent_in_words
        return f"update/stream {self.ratios[-1]:.3g}" if self.meaning == NOT_DEEPENED else self.meaning

    @property
    def exponent_in_words(self) -> str:
        """The exponent with its interval; "-" where there is none."""
        if self.exponent is None or self.exponent_interval is None:
            return "-"
        low, high = self.exponent_interval
        return f"{self.exponent:.2f} [{low:.2f}, {high:.2f}]"


def scalings(taken: Sequence[AtOneDepth], confidence: float) -> tuple[BranchScaling, ...]:
    """Return one scaling for every kind of branch that the deepest network, the last one, has."""
    deepest = taken[-1]
    kinds = {measured.key: measured.branch for measured in reversed(deepest.branches)}
    order = list(dict.fromkeys(measured.key for measured in deepest.branches))
    level = 1 - (1 - confidence) / len(order)  # all intervals together hold at `confidence`
    runaway = {flow.stream: flow.meaning for flow in streams(taken) if flow.meaning in RUNAWAY}
    return tuple(_scaling(key, kinds[key].kind, kinds[key].stream, taken, level, runaway) for key in order)


def excess(branches: Sequence[BranchScaling]) -> dict[int, Distance]:
    """Return, by stream, the smallest distance of a branch's exponent above its critical exponent."""
    found: dict[int, Distance] = {}
    for branch in branches:
        if branch.exponent is None or branch.exponent_interval is None:
            continue
        interval = branch.alignment_interval
        aligned = None if branch.alignment is None or interval is None else (branch.alignment, *interval)
        exponent = Exponent(branch.exponent, 0.0, *branch.exponent_interval, branch.power_law)
        distance = Distance.of(exponent, critical_exponent(aligned))
        found[branch.stream] = min(found.get(branch.stream, distance), distance)
    return found


def _scaling(
    key: str,
    kind: str,
    stream: int,
    taken: Sequence[AtOneDepth],
    level: float,
    runaway: Mapping[int, str],
) -> BranchScaling:
    groups = [[measured for measured in one.branches if measured.key == key] for one in taken]
    present = [(one, group) for one, group in zip(taken, groups, strict=True) if group]
    counts = tuple(
        len(group) + one.streams[stream].heads if group else 0
        for one, group in zip(taken, groups, strict=True)
    )
    known = [one.streams[stream].branches + one.streams[stream].heads for one, _ in present]
    sizes = [[measured.probed for measured in group] for _, group in present]
    epsilon = max(one.epsilon for one in taken)
    swept = len({count for count in counts if count}) > 1 and len(set(known)) > 1
    numbers = [[measured.multiplier * measured.gain for measured in group] for _, group in present]
    copies = _are_copies(sizes, numbers)
    # Copies of one layer are one draw of it, which does not show how much draws scatter.
    further = _redrawn(key, present, not copies)
    every = [[*group, *more] for (_, group), more in zip(present, further, strict=True)]
    if all(map(_has_an_outlier, sizes)):
        every = [_without_the_largest(group) for group in every]
    drawn = [[measured.probed for measured in group] for group in every]
    stated = [[measured.multiplier * measured.gain for measured in group] for group in every]
    weighed = [
        [_projection(one, measured) for measured in group]
        for (one, _), group in zip(present, every, strict=True)
    ]
    if _largest(sizes[-1]) <= UNEVEN:
        weighed = []
    # Each analysis errs with (1 - level)/2 on the side that decides wrongly, the second with half of that.
    fitted_at = 1 - (1 - level) / 2 if any(further) else level
    exponent = None
    if swept:
        known, exponent = _over_layers_or_depths(
            known,
            [one.asked for one, _ in present],
            lambda axis: fit(axis, drawn, fitted_at, epsilon, stated, weighed),
        )
    aligned = _alignment(
        [one.aligned.get(key) for one, _ in present], [len(group) for _, group in present], level
    )
    deepest = present[-1][1]
    parts = _parts([group for _, group in present], [one for one, _ in present], known)
    if exponent is not None and copies:
        exponent = _of_copies(exponent, known, numbers, parts)
    few = None if all(map(_has_an_outlier, sizes)) or not swept else few_layers(sizes)
    evidence = Evidence(
        exponent=exponent,
        critical=critical_exponent(aligned),
        swept=swept,
        moving=any(size > 0 for group in sizes for size in group),
        adapter=not any(measured.counted for measured in deepest),
        renormed=deepest[-1].renormed,
        normalised=deepest[-1].normalised,
        turned=present[-1][0].streams[stream].turned,
        growth=tuple(over(one.streams[stream].end, one.streams[stream].start) for one, _ in present),
        few=few is not None,
        counts=counts,
    )
    meaning = verdict.judge(meanings, evidence).code
    means = map(_mean, drawn)
    return BranchScaling(
        kind=kind,
        stream=stream,
        counts=counts,
        ratios=tuple(_mean([measured.ratio for measured in group]) for group in groups),
        sizes=tuple(next(means) if group else math.nan for group in groups),
        layers=tuple(measured.ratio for measured in deepest),
        exponent=None if exponent is None else exponent.value,
        exponent_interval=None if exponent is None else (exponent.low, exponent.high),
        power_law=exponent is None or exponent.power_law,
        alignment=None if aligned is None else aligned[0],
        alignment_interval=None if aligned is None else (aligned[1], aligned[2]),
        normalised=all(measured.normalised for measured in deepest),
        normed=all(measured.normed for measured in deepest),
        renormed=deepest[-1].renormed,
        layered=_largest([measured.probed for measured in deepest]),
        # Where the stream itself runs away, no exponent of its branches leads to a limit.
        meaning=runaway.get(stream, meaning) if exponent is not None else meaning,
        parts=parts,
        numbers=layer_numbers([measured.branch.output[0] for measured in deepest]),
        probed=tuple(map(tuple, sizes)),
        dropped=max(measured.dropped for measured in deepest),
        kept=tuple(max(measured.kept for measured in group) for _, group in present),
        # What a norm follows has no size: it undoes any factor.
        hooked="" if all(measured.normed for measured in deepest) else _hooked([m.hooked for m in deepest]),
        odd=None if exponent is None or exponent.odd is None else _placed(exponent.odd, counts),
        few=few,
        neighbours=None if (last := present[-1][0].aligned.get(key)) is None else last.neighbours,
        distinct=len({measured.branch.output[0] for measured in deepest}),
    )


def _projection(one: AtOneDepth, measured: MeasuredBranch) -> tuple[float, int]:
    """Return the size of a branch's projection, and its number of entries; of one that has none, nothing."""
    weight = one.weights.get(measured.branch.output[0])
    return (1.0, 1) if weight is None or not weight.size > 0 else (weight.size, weight.entries)


def _over_layers_or_depths(
    counts: list[int], asked: list[int], fitted: Callable[[Sequence[float]], Exponent | None]
) -> tuple[list[int], Exponent | None]:
    """Return what a depth is, the number of layers or what the factory was asked for, and the exponent in it.

    They differ where a network has one more layer than its depth, or one that is no residual layer. A factor
    L**-0.5 follows the one or the other: the one that a power law fits. Where it fits both, as in networks
    whose layers scatter, the interval holds both.
    """
    layers = fitted(counts)
    steps = np.diff(np.array([asked, counts], dtype=np.float64), axis=1)
    evenly = np.ptp(steps[1] / steps[0]) == 0 if min(asked) > 0 and steps[0].all() else False
    if layers is None or not evenly or counts[0] * asked[-1] == counts[-1] * asked[0]:
        return counts, layers
    depths = fitted(asked)
    if depths is None or not depths.power_law:
        return counts, layers
    if not layers.power_law:
        return asked, depths
    return counts, replace(layers, low=min(layers.low, depths.low), high=max(layers.high, depths.high))


def is_shared(scaling: BranchScaling) -> bool:
    """Whether layers have fewer projections than they are, in turn or one for all."""
    return 0 < scaling.distinct < scaling.counts[-1]


def _placed(odd: Odd, counts: Sequence[int]) -> Odd:
    """Return the same with the depth's place among all depths."""
    return odd._replace(place=[index for index, count in enumerate(counts) if count][odd.place])


def few_layers(sizes: Sequence[Sequence[float]]) -> FewLayers | None:
    """Return the layers that make up the updates of given sizes, a list per depth; None where many do.

    They are as few if their number grows by less than the cube root of the number of layers.
    """
    counts = [_carrying(each) for each in sizes]
    first, last = sizes[0], sizes[-1]
    grown = len(last) / len(first)
    if grown < LEAST_SWEPT or counts[0] == 0 or counts[-1] > MOST_CARRYING * len(last):
        return None
    if counts[-1] / counts[0] > grown ** (1 / 3):
        return None
    squares = np.sort(np.square(last))[::-1]
    return FewLayers(counts[-1], len(last), float(squares[: counts[-1]].sum() / squares.sum()))


def _carrying(sizes: Sequence[float]) -> int:
    """Return how many layers make up CARRIED of the squares; 0 where nothing moves."""
    squares = np.sort(np.square(sizes))[::-1]
    total = squares.sum()
    return int(np.searchsorted(np.cumsum(squares), CARRIED * total) + 1) if 0 < total < math.inf else 0


def _has_an_outlier(sizes: Sequence[float]) -> bool:
    """Whether one layer of four or more is unlike all others, which are alike."""
    ordered = sorted(sizes)
    if len(ordered) < 4:
        return False
    usual = float(np.median(ordered[:-1]))
    return ordered[-1] > OUTLYING * usual and ordered[-2] < OUTLYING * usual


def _without_the_largest(group: Sequence[MeasuredBranch]) -> list[MeasuredBranch]:
    """Return a depth's branches, of all draws, without the place of the largest: it makes up mean squares."""
    largest = max(group, key=lambda measured: measured.probed).branch.name
    return [measured for measured in group if measured.branch.name != largest]


Present = Sequence[tuple[AtOneDepth, list[MeasuredBranch]]]
"""The depths that have a kind of branch, each with the branches of it."""


def _redrawn(key: str, present: Present, wanted: bool) -> list[list[MeasuredBranch]]:
    """Return a kind's branches in further draws at each depth; none if none are `wanted`.

    Where a factory does not draw from the global generators, its layers are the same again, and no further
    draws. Those of a profile over layers are left out.
    """
    draws = [[group] for _, group in present]
    for number in range(min(len(one.redrawn) for one, _ in present) if wanted else 0):
        rows = [[like for like in one.redrawn[number] if like.key == key] for one, _ in present]
        pairs = [(row, group) for row, (_, group) in zip(rows, present, strict=True)]
        if all(len(row) == len(group) for row, group in pairs) and not any(
            abs(new.probed - old.probed) <= ALIKE * old.probed
            for row, group in pairs
            for new, old in zip(row, group, strict=True)
        ):
            draws = [[*held, row] for held, row in zip(draws, rows, strict=True)]
    if differ([[[measured.probed for measured in row] for row in held] for held in draws]):
        return [[] for _ in present]
    return [[measured for row in held[1:] for measured in row] for held in draws]


def _hooked(names: Sequence[str]) -> str:
    """Return the names of a kind's modules as one, with stars where they differ; "" if some have none."""
    return wildcard(names[0], names) if all(names) else ""


ALIKE = 1e-4
"""Relative difference of the updates of equal layers on the same stream: float32's round-off."""
UNEVEN = 3.0
"""Layers of one network that differ by more times than this follow a profile rather than scatter. Eight
normal logarithms span 2.85 standard deviations in the mean, and theirs would be 0.39."""
CARRIED, MOST_CARRYING, LEAST_SWEPT = 0.9, 0.25, 4.0
"""Share of all squared updates that the largest layers must make up; the largest part of all layers that
counts as few; and the least ratio of depths over which their number must hardly grow. With sizes 2^-i, two
layers make up 90 % at any depth; with 1/(i + 1), three at depth 4 and five at 32; with 1/√(i + 1), 21 of 32.
"""
OUTLYING = 2.5
"""One layer that is as many times as large as the others, at every depth, makes up most of the mean square of
few layers: slopes are off by up to 1/2. It is left out of the exponent.
"""
SAME = 0.1
"""Error of a weight's exponent: of 200 entries the standard deviation is known to 5 %."""
SAME_DRAW = 0.02
"""By how much it does where one seed gives the layer one draw at every depth: up to an inner weight's."""
ONE_DRAW = 0.3
"""By how much the exponent of one layer's updates, another draw at each depth, differs from its numbers' by
chance: between depths 4 and 16 that is a factor of 1.5."""


def _are_copies(sizes: Sequence[Sequence[float]], numbers: Sequence[Sequence[float]]) -> bool:
    """Whether the layers of every depth are one draw, so that they say nothing about its scatter."""
    rows = [
        [size / number for size, number in zip(*row, strict=True) if number > 0]
        for row in zip(sizes, numbers, strict=True)
    ]
    return max(map(len, rows)) > 1 and all(row and max(row) <= min(row) * (1 + ALIKE) for row in rows)


def _of_copies(
    found: Exponent, counts: Sequence[int], numbers: Sequence[Sequence[float]], parts: Sequence[PartScaling]
) -> Exponent:
    """Return the exponent of copies of one layer: that of the numbers and of the projection's weight.

    The update of one layer is another draw at every depth. Where that is not enough to explain the
    difference, the interval holds both.
    """
    stated = slope(counts, [_mean(row) for row in numbers])
    weights = next((part.exponent for part in parts if part.role == "output"), None)
    if stated is None or weights is None:
        return found
    value = stated + weights
    if abs(found.value - value) < SAME_DRAW:
        return found
    if abs(found.value - value) < ONE_DRAW:
        return replace(found, value=value, low=value - SAME, high=value + SAME, power_law=True)
    return replace(found, low=min(found.low, value), high=max(found.high, value))


def _mean(values: Sequence[float]) -> float:
    """Return the root mean square."""
    return math.sqrt(float(np.mean(np.square(values)))) if len(values) else math.nan


def _largest(values: Sequence[float]) -> float:
    """Return the largest over the smallest."""
    return max(values) / min(values) if min(values) > 0 else (1.0 if max(values) == 0 else math.inf)


def _alignment(
    aligned: Sequence[Alignment | None], counts: Sequence[int], level: float
) -> tuple[float, float, float] | None:
    """Return the exponent of the size of a sum of updates in their number, for updates of size one."""
    known = [
        (count, one)
        for count, one in zip(counts, aligned, strict=True)
        if one is not None and 0 < one.value < math.inf
    ]
    if max((count for count, _ in known), default=1) < 2:
        return None
    x = np.log([count for count, _ in known])
    y = np.array([math.log(one.value) for _, one in known])
    weights = 1 / np.array([max(one.error, 1e-3) ** 2 for _, one in known])
    # With one depth only, the line passes through the origin: the sum of one update is of size one.
    fitted = line(x, y, weights, through_origin=bool(np.ptp(x) == 0))
    assert fitted is not None  # some count exceeds 1
    value, half = 0.5 + fitted.slope, student_quantile(level, 1000) / math.sqrt(fitted.spread)
    return value, value - half, value + half


def _parts(
    groups: Sequence[Sequence[MeasuredBranch]], taken: Sequence[AtOneDepth], counts: Sequence[int]
) -> tuple[PartScaling, ...]:
    """Return the parts of a kind of branch, output projections first."""
    parts = []
    first = groups[-1][0].branch
    scaled = {name for measured in groups[-1] for name in measured.scaled}
    roles = {"output": "output", "inner": "inner", "gain": "gains", "gate": "gates", "bias": "biases"}
    for role, field in roles.items():
        listed = [[_numbered(getattr(measured.branch, field)) for measured in group] for group in groups]
        # Layers of one kind may differ within (linear attention and full attention, a bias in the first layer
        # only).
        for key in dict.fromkeys(key for items in listed[-1] for key in items):
            likes = [items[key] for items in listed[-1] if key in items]
            name = likes[0]
            weights = [
                [one.weights[items[key]] for items in found if key in items]
                for found, one in zip(listed, taken, strict=True)
            ]
            if not all(weights):
                continue
            layers = tuple(tuple(weight.size for weight in items) for items in weights)
            if role == "gain" and len(first.gains) == 1:
                # A gain as it acts, exp(gain) or 1 + gain say, rather than as it is stored.
                layers = tuple(tuple(measured.gain for measured in group) for group in groups)
            sizes = tuple(_mean(items) for items in layers)
            if role == "bias" and not any(size > 0 for size in sizes):
                continue
            parts.append(
                PartScaling(
                    wildcard(name, likes),
                    role,
                    sizes,
                    slope(counts, sizes),
                    _largest([weight.size for weight in weights[-1]]),
                    weights[-1][0],
                    layers,
                    tuple(
                        tuple(map(_mean, zip(*(weight.thirds for weight in items), strict=True)))
                        for items in weights
                    ),
                    role == "bias" and all(like in scaled for like in likes),
                )
            )
    for name, role in (("multiplier", "multiplier"), ("skip", "skip"), ("input multiplier", "entry")):
        layers = tuple(_numbers(role, group) for group in groups)
        sizes = tuple(_mean(items) for items in layers)
        if role == "entry" and all(size == 1.0 for size in sizes):
            continue
        parts.append(PartScaling(name, role, sizes, slope(counts, sizes), 1.0, None, layers))
    return tuple(parts)


def layer_numbers(names: Sequence[str]) -> tuple[int, ...]:
    """Return the numbers of layers from the names of a weight in each; from 0 on if names do not tell.

    Examples:
        >>> layer_numbers(["h.3.mlp.0.weight", "h.5.mlp.0.weight"])
        (3, 5)
    """
    numbers = [re.findall(r"\d+", name) for name in names]
    if len({len(found) for found in numbers}) == 1:
        varied = [column for column in zip(*numbers, strict=True) if len(set(column)) > 1]
        if len(varied) == 1 and len(set(varied[0])) == len(names):
            return tuple(map(int, varied[0]))
    return tuple(range(len(names)))


def _numbers(role: str, group: Sequence[MeasuredBranch]) -> tuple[float, ...]:
    """Return a number of every branch."""
    likes = [measured for measured in group if not measured.opens]
    return tuple(
        whole_skip(measured, likes) if role == "skip" else getattr(measured, role) for measured in group
    )


def _numbered(names: Sequence[str]) -> dict[tuple[str, int], str]:
    """Return names by what they are called but for numbers, and their place among those of the same name.

    Examples:
        >>> _numbered(["h.3.mlp.0.weight", "h.3.mlp.2.weight"])
        {('h.*.mlp.*.weight', 0): 'h.3.mlp.0.weight', ('h.*.mlp.*.weight', 1): 'h.3.mlp.2.weight'}
    """
    starred = [re.sub(r"\d+", "*", name) for name in names]
    return {
        (like, starred[:place].count(like)): name
        for place, (like, name) in enumerate(zip(starred, names, strict=True))
    }
