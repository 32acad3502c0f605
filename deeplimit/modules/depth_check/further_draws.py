"""Networks drawn again where the first draws' scatter leaves the exponents of right branches undecided.

At the first analysis one network of each depth is known. Its scatter says how many draws a second analysis
needs, and there is no third one. A wrong decision lies on one side of an interval. So the first analysis
decides wrongly with half of the error probability, and the second, whose intervals have half, with a quarter.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from deeplimit.common.randomness import Purpose, generator
from deeplimit.common.verdict import DepthVerdict
from deeplimit.modules.depth_check.exponents import reach
from deeplimit.modules.depth_check.one_depth import AtOneDepth
from deeplimit.modules.depth_check.report import DepthReport
from deeplimit.modules.depth_check.scaling import UNEVEN, BranchScaling

MOST = 8
"""Draws of a network at most. They make an interval 2.8 times narrower, and a check eight times longer."""
LARGE = 100_000_000
"""Parameters above which networks are not drawn again, which takes minutes. The relative scatter of updates
falls like 1/width, so that only small networks need further draws."""


def draws_needed(report: DepthReport) -> int:
    """Return of how many draws of each network a second analysis would take in all; 1 if none would help.

    It would help where nothing but the scatter of layers leaves the verdict open.
    """
    if report.verdict != DepthVerdict.CANNOT_TELL or report.parameters[-1] > LARGE:
        return 1
    if any(status != DepthVerdict.AS_EXPECTED for status in report.stream_statuses):
        return 1
    halves = [
        _half_width(branch)
        for branch, status in zip(report.branches, report.statuses, strict=True)
        if status == DepthVerdict.CANNOT_TELL
    ]
    if not halves or not max(halves) < math.inf:
        return 1
    # A right exponent lies no further than half an interval from the expected one, at the interval's level.
    # Its width falls like the root of the number of draws.
    return min(MOST, math.ceil((2 * max(halves) / reach(report.tolerance)) ** 2))


def _half_width(branch: BranchScaling) -> float:
    """Return half of the width of an exponent's interval; infinite where further draws would not narrow it.

    Layers of one network that differ by more than three times follow a profile, as 1/sqrt(l) is. Sizes that
    follow no power law have an interval that holds their slopes.
    """
    if branch.exponent_interval is None or not branch.power_law or branch.layered > UNEVEN:
        return math.inf
    low, high = branch.exponent_interval
    return (high - low) / 2


def seeds_of(seed: int, draws: int) -> list[int]:
    """Return the seeds of all draws but the first, apart from the seeds that other calls are given.

    Examples:
        >>> seeds_of(0, 1), len(set(seeds_of(0, 8)))
        ([], 7)
    """
    return [generator(seed, Purpose.FURTHER_DRAWS, draw).initial_seed() % 2**63 for draw in range(1, draws)]


def together(taken: Sequence[AtOneDepth], further: Sequence[AtOneDepth]) -> list[AtOneDepth]:
    """Return what was measured at each depth with the branches of further draws: all depths of one, then all
    of the next.
    """
    return [
        dataclasses.replace(one, redrawn=tuple(again.branches for again in further[place :: len(taken)]))
        for place, one in enumerate(taken)
    ]
