"""The published rule that a network fits best: the one from which the fewest parts depart, by the least."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable

from deeplimit.modules.depth_check.findings import FACTOR
from deeplimit.modules.depth_check.report import DepthReport
from deeplimit.modules.depth_check.rules import Rule

UNKNOWN = 1e3
"""What a part that is missing, or should be zero, counts for: as if it were so many times too large."""


def best_report(rules: Iterable[Rule], judged: Callable[[Rule], DepthReport]) -> DepthReport:
    """Return the report of the rule that fits best; its first reservation says how well, and what fits
    equally.
    """
    reports = [(rule, judged(rule)) for rule in rules]
    costs = [_cost(report) for _, report in reports]
    least = min(costs)
    best, report = reports[costs.index(least)]
    equal = [
        f"{rule.name} ({rule.formula})"
        for (rule, _), cost in zip(reports, costs, strict=True)
        if rule is not best and cost <= least + math.log(FACTOR)
    ]
    kinds = {finding.branch for finding in report.findings}
    fit = (
        f"{len(kinds)} of {len(report.branches)} kinds of branches depart from it"
        if kinds
        else "nothing departs from it"
        if report.ok
        else "nothing is seen to depart from it"
    )
    also = f" {', '.join(equal)} fit{'s' if len(equal) == 1 else ''} equally." if equal else ""
    told = f"expected='auto': of the published rules {best.name} fits best, and {fit}.{also}"
    return dataclasses.replace(report, reservations=(told, *report.reservations))


def _cost(report: DepthReport) -> float:
    """Return how badly a rule fits: one for each finding, and the logarithms of their factors."""
    sizes = [abs(math.log(item.factor)) if item.factor else math.log(UNKNOWN) for item in report.findings]
    return sum(1.0 + size for size in sizes) + (0.0 if report.ok else 1.0)
