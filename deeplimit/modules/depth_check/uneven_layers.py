"""Findings about layers that fall with depth by another power than the other layers of their networks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deeplimit.modules.depth_check.departures import EXACT, mean
from deeplimit.modules.depth_check.exponents import fit, slope
from deeplimit.modules.depth_check.findings import Finding, layers_in_words, part_name, times
from deeplimit.modules.depth_check.fixes import Fixes
from deeplimit.modules.depth_check.scaling import BranchScaling, PartScaling

NEARLY = 2.0
"""Tolerances by which layers that follow what is expected may be off it, where the others are surely not: the
last layer of a pre-norm network at depths 4 to 16 has 0.33 for 1/2."""
FEWEST = 3
"""Any two layers are two groups; of so many, those that follow a profile have more than two sizes."""


@dataclass(frozen=True)
class _Groups:
    """Places of the layers in which a part is smaller, and of those in which it is larger; all if alike."""

    small: tuple[int, ...]
    large: tuple[int, ...]

    @classmethod
    def of(cls, sizes: Sequence[float], slack: float) -> _Groups | None:
        """Return the two groups; None if layers have more than two sizes, as where they follow a profile."""
        if not 0 < min(sizes) <= max(sizes) < math.inf:
            return None
        if max(sizes) <= min(sizes) * math.exp(slack):
            return cls(tuple(range(len(sizes))), tuple(range(len(sizes))))
        middle = math.sqrt(max(sizes) * min(sizes))
        groups = cls(
            tuple(place for place, size in enumerate(sizes) if size <= middle),
            tuple(place for place, size in enumerate(sizes) if size > middle),
        )
        small, large = ([sizes[place] for place in group] for group in (groups.small, groups.large))
        spread = max(max(group) / min(group) for group in (small, large))
        apart = min(large) / max(small)
        return groups if spread <= math.exp(slack) and apart > spread**2 else None

    def sizes(self, layers: Sequence[float]) -> tuple[float, float]:
        """Return the root mean squares over the two groups."""
        small, large = (mean([layers[place] for place in group]) for group in (self.small, self.large))
        return small, large


def against_layers(
    scaling: BranchScaling,
    expected: float,
    tolerance: float,
    level: float,
    depths: Sequence[int],
    totals: Sequence[int],
) -> Iterator[Finding]:
    """Yield the parts that some layers have of another power of the depth than the others, which follow
    `expected`.

    Numbers in the forward and parameters are known layer by layer; what else makes an update is fitted, at
    the confidence level `level`. Layers that follow a profile, such as 1/sqrt(l), or that differ by as much
    at every depth, are no finding.
    """
    for part in scaling.parts:
        if part.role in ("multiplier", "gain", "output", "inner"):
            yield from _in_part(part, scaling, expected, tolerance, level, depths, totals)


def _in_part(
    part: PartScaling,
    scaling: BranchScaling,
    expected: float,
    tolerance: float,
    level: float,
    depths: Sequence[int],
    totals: Sequence[int],
) -> Iterator[Finding]:
    if [*map(len, part.layers)] != [*map(len, scaling.probed)] or len(part.layers[-1]) < FEWEST:
        return
    # Of two draws of a weight, either may be off by five standard errors 1/sqrt(2 entries).
    drawn = part.role in ("output", "inner") and part.weight is not None
    slack = 10 / math.sqrt(2 * part.weight.entries) if drawn and part.weight else EXACT
    found = [_Groups.of(sizes, slack) for sizes in part.layers]
    groups = [group for group in found if group is not None]
    if len(groups) < len(found) or groups[-1].small == groups[-1].large:
        return
    split = [group.sizes(layers) for group, layers in zip(groups, part.layers, strict=True)]
    ratios = [large / small for small, large in split]
    small_update, large_update = groups[-1].sizes(scaling.probed[-1])
    if large_update < math.sqrt(ratios[-1]) * small_update:
        return  # something else makes up for it, or a norm undoes it
    rest = fit(
        totals,
        [
            [update / size for update, size in zip(*layers, strict=True)]
            for layers in zip(scaling.probed, part.layers, strict=True)
        ],
        level,
    )
    if rest is None:
        return
    small_power, large_power = (slope(totals, sizes) or 0.0 for sizes in zip(*split, strict=True))
    at = [rest.shifted(power) for power in (small_power, large_power)]
    small_follow, large_follow = (
        power.within(expected, tolerance) is not False and abs(power.value - expected) <= NEARLY * tolerance
        for power in at
    )
    excluded = any(power.within(expected, tolerance) is False for power in at)
    if abs(small_power - large_power) <= tolerance or small_follow == large_follow or not excluded:
        return
    wrong = [group.large if small_follow else group.small for group in groups]
    factors = ratios if small_follow else [1 / ratio for ratio in ratios]
    yield _told(part, scaling, expected, depths, totals, wrong, factors)


def _told(
    part: PartScaling,
    scaling: BranchScaling,
    expected: float,
    depths: Sequence[int],
    totals: Sequence[int],
    places: Sequence[Sequence[int]],
    factors: Sequence[float],
) -> Finding:
    fixes, numbers = Fixes.of(scaling, depths, totals), tuple(scaling.numbers[place] for place in places[-1])
    size = mean([part.layers[-1][place] for place in places[-1]])
    wanted = f"depth^-{expected:g}" if expected else "one size at every depth"
    shallow = times(factors[0]).removesuffix(" for") if abs(math.log(factors[0])) > EXACT else "right"
    what = "has std" if part.role in ("output", "inner") else "is"
    alike = any(
        group == tuple(range(len(group))) and len(group) == layers
        for group, layers in zip(places, fixes.layers, strict=True)
    )
    back = [1 / factors[-1]] if alike else [1 / factor for factor in factors]
    some = places[-1:] if alike else places
    return Finding(
        scaling.kind,
        part_name(part, scaling),
        factors[-1],
        f"{what} {size:.4g} in {layers_in_words(numbers)} at depth {depths[-1]},"
        f" {times(factors[-1])} {wanted}, which the other layers follow. At depth {depths[0]} it is"
        f" {shallow}.",
        numbers,
        fixes.multiply_output(back, some, stated=True)
        if part.role == "multiplier"
        else fixes.multiply(part.name, back, some, stated=True),
        "layers",
    )
