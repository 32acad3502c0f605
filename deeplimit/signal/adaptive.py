"""What `stability` tells the sequence of interim analyses: its first size, and what would decide."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import final

import numpy as np

from deeplimit.common.verdict import StabilityVerdict
from deeplimit.signal.growth import Growth
from deeplimit.signal.report import StabilityReport
from deeplimit.signal.task import StabilityTask
from deeplimit.statistics.adaptive_sampling import Asks, InterimAnalysis, SampleSizeRequest, Size, Study
from deeplimit.statistics.power_law import least_paths

DEFAULT = Size((10, 30, 100, 300, 1000), 400)


@final
@dataclass(frozen=True)
class MeasuringStability(Study[StabilityReport]):
    """An adaptive `stability`: `task` by depths and draws, `judge` by a task and its logarithms."""

    task: Callable[[tuple[int, ...], int], StabilityTask]
    judge: Callable[[StabilityTask, np.ndarray, float, float], StabilityReport]

    start = DEFAULT

    def measurement(self, size: Size) -> StabilityTask:
        return self.task(size.depths, size.count)

    def work(self, measurement: StabilityTask, block: int) -> tuple[int, int]:
        depth, _, _, count = measurement.pieces[block]
        return depth, count

    def family(self, measurement: StabilityTask) -> Hashable:
        return None  # a block's label says its depth

    def report(
        self, measurement: StabilityTask, result: np.ndarray, spent: float, seconds: float
    ) -> StabilityReport:
        return self.judge(measurement, result, spent, seconds)

    def analysis(self, report: StabilityReport, size: Size, seconds: float) -> InterimAnalysis:
        growth, _ = undecided(report)
        return InterimAnalysis(
            size.depths, size.count, report.verdict, "", growth.interval, growth.confidence, seconds
        )

    def request(self, report: StabilityReport) -> SampleSizeRequest | None:
        if report.verdict != StabilityVerdict.CANNOT_TELL:
            return None
        growth, log_change = undecided(report)
        if not np.isfinite(growth.exponent):
            few = report.draws < least_paths(len(report.depths))
            few_depths = len(report.depths) < 3
            return SampleSizeRequest.of(
                Asks.COUNT if few else Asks.DEPTH if few_depths else Asks.NOTHING, 1.0
            )
        low, high = growth.sure
        if low > 0.0 or high < 0.0:  # the sign is known, but not what becomes of the change
            return SampleSizeRequest.of(Asks.DEPTH, 0.0)
        return SampleSizeRequest.of(Asks.EITHER, sampling_share(report.depths, log_change, growth))


def undecided(report: StabilityReport) -> tuple[Growth, np.ndarray]:
    """Return the growth that the verdict waits for, and its log changes (m, draws); else the signal."""
    if report.hidden_growth.verdict != StabilityVerdict.CANNOT_TELL == report.gradient_growth.verdict:
        return report.gradient_growth, report.log_gradient_change
    return report.hidden_growth, report.log_hidden_change


def sampling_share(depths: np.ndarray, log_change: np.ndarray, growth: Growth) -> float:
    """Return the part of the interval's width that the draws explain, by the slope from end to end.

    Squares are twice the logarithm, and their slope over the log depths is the growth.
    """
    ends = log_change[[0, -1]]
    ends = np.where(np.isfinite(ends), ends, np.nan)
    error = 2.0 * np.sqrt(np.nansum(np.nanvar(ends, axis=1, ddof=1)) / log_change.shape[1])
    low, high = growth.interval
    share = 2 * 1.96 * float(error) / np.log(depths[-1] / depths[0]) / max(high - low, 1e-300)
    return float(share) if np.isfinite(share) else 1.0
