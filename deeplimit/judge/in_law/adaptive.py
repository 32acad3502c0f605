"""What `compare_laws` tells the sequence of interim analyses: its first size, and what each rule asks for."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import final

import numpy as np

from deeplimit.common.verdict import LawVerdict
from deeplimit.judge.in_law.report import LawReport
from deeplimit.judge.in_law.simulation import Plan, Sample
from deeplimit.judge.in_law.verdict import more_draws
from deeplimit.statistics.adaptive_sampling import Asks, InterimAnalysis, SampleSizeRequest, Size, Study

DEFAULT = Size((8, 16, 32, 64, 128), 16384)
ASKS = {
    "draws_were_lost": Asks.NOTHING,
    "is_swallowed_by_rounding": Asks.NOTHING,
    "layers_are_coarse": Asks.DEPTH,
    "follows_no_expansion": Asks.DEPTH,
    "differs_at_small_depth": Asks.DEPTH,
    "still_changes": Asks.DEPTH,
    "is_not_shown_clearly": Asks.EITHER,
    "is_too_uncertain": Asks.COUNT,
    "differs_in_another_way": Asks.DEPTH,
}
"""What each rule that says "cannot tell" asks for."""
Drawn = tuple[list[Sample], Sample]


@final
@dataclass(frozen=True)
class ComparingLaws(Study[LawReport]):
    """An adaptive comparison of laws: `plan` by depths and draws, `judge` by a plan and what was drawn."""

    plan: Callable[[tuple[int, ...], int], Plan]
    judge: Callable[[Plan, Drawn, float, float], LawReport]

    start = DEFAULT

    def measurement(self, size: Size) -> Plan:
        return self.plan(size.depths, size.count)

    def work(self, measurement: Plan, block: int) -> tuple[int, int]:
        depth, number = measurement.place(block)
        return measurement.steps if depth is None else depth, len(measurement.rows(number))

    def family(self, measurement: Plan) -> Hashable:
        return None  # a block's label says its depth, or the limit's steps

    def is_costly(self, measurement: Plan) -> bool:
        # A module's blocks are built for every draw again: 2,048 draws took 145 s; a look begins with 16,384.
        return any(channel.is_separate for channel in measurement.network.channels)

    def report(self, measurement: Plan, result: Drawn, spent: float, seconds: float) -> LawReport:
        return self.judge(measurement, result, spent, seconds)

    def analysis(self, report: LawReport, size: Size, seconds: float) -> InterimAnalysis:
        worst = int(np.argmax(np.abs(report.floors) + report.floor_margins))
        floor, margin = float(report.floors[worst]), float(report.floor_margins[worst])
        interval = (floor - margin, floor + margin)
        return InterimAnalysis(
            size.depths, size.count, report.verdict, report.rule, interval, 1.0 - report.level, seconds
        )

    def request(self, report: LawReport) -> SampleSizeRequest | None:
        if report.verdict != LawVerdict.CANNOT_TELL:
            return None
        reach = float((np.abs(report.floors) + report.floor_margins).max())
        return SampleSizeRequest.of(ASKS[report.rule], noise=1.0, times=more_draws(reach, report.tolerance))
