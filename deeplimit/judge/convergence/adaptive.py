"""What `compare` tells the sequence of analyses: its first size, its reports, and what each rule asks for."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import final

import numpy as np

from deeplimit.common.verdict import ConvergenceVerdict
from deeplimit.judge.convergence.assessment import assess
from deeplimit.judge.convergence.report import CompareReport
from deeplimit.judge.convergence.verdict import Levels
from deeplimit.simulation import Coupled, CoupledErrors, Task
from deeplimit.statistics.interim import Asks, InterimAnalysis, SampleSizeRequest, Size, Study

DEFAULT = Size((16, 32, 64, 128, 256), 512)
ASKS = {
    "some_paths_diverge": Asks.NOTHING,
    "is_swallowed": Asks.NOTHING,
    "lies_within_resolution": Asks.NOTHING,
    "deepest_is_not_resolved": Asks.NOTHING,
    "vanishes_at_some_depths": Asks.NOTHING,
    "falls_to_what_can_be_resolved": Asks.NOTHING,
    "has_too_few_paths": Asks.COUNT,
    "rests_on_two_paths": Asks.COUNT,
    "seems_to_level_off": Asks.COUNT,
    "has_two_depths": Asks.DEPTH,
    "is_far_from_a_power_law": Asks.DEPTH,
    "grows_ever_more_slowly": Asks.DEPTH,
    "follows_no_power_law": Asks.DEPTH,
    "mixes_orders": Asks.DEPTH,
    "may_hide_a_floor": Asks.EITHER,
    "falls_too_slowly": Asks.DEPTH,
    "has_a_small_floor": Asks.DEPTH,
    "may_not_fall": Asks.EITHER,
    "may_level_off": Asks.EITHER,
}
"""What each rule that says "cannot tell" asks for."""


@final
@dataclass(frozen=True)
class Comparing(Study[CompareReport]):
    """An adaptive comparison; `task` makes the task of a size's depths and paths."""

    task: Callable[[tuple[int, ...], int], Task]
    confidence: float

    start = DEFAULT

    def measurement(self, size: Size) -> CoupledErrors:
        return CoupledErrors.of(self.task(size.depths, size.count))

    def work(self, measurement: CoupledErrors, block: int) -> tuple[int, int]:
        task = measurement.task
        return task.grid.size + sum(task.grid.depths), task.held(min(block, task.blocks - 1))

    def family(self, measurement: CoupledErrors) -> Hashable:
        # Small comparisons may take another pass than large ones, and last bits differ between passes.
        return measurement.task.grid.depths, measurement.work.__module__

    def report(
        self, measurement: CoupledErrors, result: Coupled, spent: float, seconds: float
    ) -> CompareReport:
        level = self.confidence + (1.0 - spent) * (1.0 - self.confidence)
        return assess(measurement.task, result, level, seconds, Levels().shared(spent))

    def analysis(self, report: CompareReport, size: Size, seconds: float) -> InterimAnalysis:
        return InterimAnalysis(
            size.depths,
            size.count,
            report.verdict,
            report.rule,
            report.rate_interval,
            report.confidence,
            seconds,
        )

    def request(self, report: CompareReport) -> SampleSizeRequest | None:
        if report.verdict != ConvergenceVerdict.CANNOT_TELL:
            return None
        asks = ASKS.get(report.rule, Asks.EITHER)
        return SampleSizeRequest.of(asks, sampling_share(report))


def sampling_share(report: CompareReport) -> float:
    """Return the part of the order's uncertainty that paths explain; 1 where no order is fitted.

    Paths alone would give the slope from the coarsest to the deepest error the standard error that both
    errors and the range of depths imply. Its interval is compared with the one that was fitted, which in
    addition holds what finite depth leaves open.
    """
    low, high = report.rate_interval
    if not np.isfinite(high - low) or high <= low:
        return 1.0
    with np.errstate(all="ignore"):
        relative = report.common_standard_errors / report.common_errors
    slope_error = np.hypot(relative[0], relative[-1]) / np.log(report.depths[-1] / report.depths[0])
    share = 2 * 1.96 * float(slope_error) / (high - low)
    return share if np.isfinite(share) else 1.0
