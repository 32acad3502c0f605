"""The one mechanism of all adaptive calls: small runs to learn the cost, then analyses of growing size."""

from __future__ import annotations

import dataclasses
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from deeplimit.common.cached_blocks import CachedBlocks
from deeplimit.common.measurement import Measurement, Running
from deeplimit.statistics.interim.adaptive_sampling import AdaptiveSampling
from deeplimit.statistics.interim.analyses import MOST_ANALYSES, InterimAnalysis, RequiredSampleSize, share
from deeplimit.statistics.interim.cost import Costs, Work
from deeplimit.statistics.interim.sample_sizes import Asks, SampleSizeRequest, Size, next_sizes

SomeReport = TypeVar("SomeReport")
Clock = Callable[[], float]
FEWER = (16, 4)
"""Runs that only tell the cost have so many times fewer paths than the first analysis, and are not judged."""
COARSE = 3
"""The first of them has the coarsest depths only."""


class Study(ABC, Generic[SomeReport]):
    """What a function tells the sequence of analyses: how to measure a size, judge it, and what would decide.

    Reports are frozen dataclasses with the fields `looks`, `needs` and `seconds`.
    """

    start: Size
    """The size of the first analysis: the function's default call."""

    @abstractmethod
    def measurement(self, size: Size) -> Measurement[Any, Any]:
        """Return the measurement of a size; raise ValueError for a size that cannot be."""

    @abstractmethod
    def work(self, measurement: Any, block: int) -> tuple[int, int]:
        """Return the steps that a block goes through one after the other, and its number of paths."""

    @abstractmethod
    def report(self, measurement: Any, result: Any, spent: float, seconds: float) -> SomeReport:
        """Return the report, with its levels multiplied by the share `spent`."""

    @abstractmethod
    def analysis(self, report: SomeReport, size: Size, seconds: float) -> InterimAnalysis:
        """Return what is kept of a report as one of several interim analyses."""

    @abstractmethod
    def request(self, report: SomeReport) -> SampleSizeRequest | None:
        """Return what would decide; None where the verdict stands."""

    @abstractmethod
    def family(self, measurement: Any) -> Hashable:
        """Return what measurements must agree in for blocks with the same label to be the same."""


@dataclass
class _Sequence(Generic[SomeReport]):
    """One adaptive call as it goes on."""

    study: Study[SomeReport]
    sampling: AdaptiveSampling
    running: Running
    clock: Clock
    started: float
    costs: Costs = field(default_factory=Costs)
    cached: dict[Hashable, CachedBlocks] = field(default_factory=dict)
    shown: float = 0.0
    raised: Asks | None = None

    @property
    def left(self) -> float:
        """Seconds that are left of the budget."""
        return self.sampling.budget - (self.clock() - self.started)

    def prepared(self, size: Size) -> tuple[Measurement[Any, Any], CachedBlocks]:
        """Return a size's measurement, and the blocks that are there for it."""
        measurement = self.study.measurement(size)
        return measurement, self.cached.setdefault(self.study.family(measurement), CachedBlocks())

    def work(self, measurement: Measurement[Any, Any], blocks: tuple[int, ...]) -> Work:
        """Return the work of some of a measurement's blocks."""
        return Work.of(self.study.work(measurement, block) for block in blocks)

    def predicted(self, size: Size) -> float:
        """Return the most seconds that a size takes, less what is there; infinite if it cannot be."""
        try:
            measurement, cached = self.prepared(size)
        except ValueError:  # such as a fractional path on too fine a grid
            return float("inf")
        missing = dataclasses.replace(self.running, cached=cached).missing(measurement)
        return self.costs.most(self.work(measurement, missing))

    def fits(self, size: Size) -> bool:
        """Whether a size can be measured within the budget, by the costs so far."""
        return self.predicted(size) <= self.left

    def first(self) -> Size:
        """Return the size of the first analysis: the study's, or the largest that fits into the budget.

        Smaller runs say what it costs. They say too much rather than too little, so they end as soon as half
        of the budget is enough.
        """
        wanted = self.sampling.within(self.study.start)
        fewer = [self.sampling.within(Size(wanted.depths, max(1, wanted.count // each))) for each in FEWER]
        coarse = Size(wanted.depths[:COARSE], fewer[0].count)
        size = coarse if self.sampling.depths is None else fewer[0]
        self.warm_up(coarse)
        for trial in fewer:
            if self.predicted(wanted) <= self.left / 2:
                return wanted
            if trial == wanted or not self.fits(trial):
                return size
            self.time(trial)
            size = trial
        return wanted if self.fits(wanted) else size

    def warm_up(self, size: Size) -> None:
        """Run a small size, and again if it costs little: the first time a process may compile."""
        self.time(size)
        if self.costs.runs[-1][1] < self.sampling.budget / 20:
            self.cached.clear()
            self.costs = Costs()
            self.time(size)

    def time(self, size: Size) -> None:
        """Run a size, and learn what it costs; neither judged nor stored."""
        measurement, cached = self.prepared(size)
        before = self.clock()
        dataclasses.replace(self.running, store=None, progress=None, cached=cached).measure(measurement)
        self.costs = self.costs.with_run(self.work(measurement, cached.ran), self.clock() - before)

    def judged(self, size: Size, number: int) -> tuple[SomeReport, Measurement[Any, Any], float]:
        """Measure and judge a size as analysis `number`; return its report, its measurement, its seconds."""
        measurement, cached = self.prepared(size)
        before = self.clock()
        label = f"depths {[*size.depths]}, look {number + 1}"
        running = dataclasses.replace(self.moving(size).share(0.0, 1.0, label), cached=cached)
        result = running.measure(measurement)
        report = self.study.report(measurement, result, share(number), self.clock() - before)
        seconds = self.clock() - before
        self.costs = self.costs.with_run(self.work(measurement, cached.ran), seconds)
        whole = self.work(measurement, tuple(range(measurement.blocks)))
        if number == 0 and not cached.ran and self.costs.most(whole) <= self.left / 2:
            self.time(size)  # a store had all of it, so that small runs alone have said what it costs
        return report, measurement, seconds

    def moving(self, size: Size) -> Running:
        """Return how an analysis is run, with the part of the progress bar that its time is of the rest."""
        part = min(1.0, self.predicted(size) / self.left) if self.left > 0 else 1.0
        first, self.shown = self.shown, self.shown + (1.0 - self.shown) * part
        return self.running.share(first, self.shown)

    def next(self, size: Size, request: SampleSizeRequest) -> Size | None:
        """Return the first of the sizes that a request allows which fits into the budget."""
        sizes = next_sizes(
            size,
            request.after(self.raised),
            depth_is_free=self.sampling.depths is None,
            count_is_free=self.sampling.count is None,
            least=self.study.start.count // FEWER[1],
        )
        return next((each for each in sizes if self.fits(each)), None)

    def need(self, size: Size, request: SampleSizeRequest) -> RequiredSampleSize | None:
        """Return what would decide, whatever the caller has fixed; None where nothing is known to."""
        sizes = next_sizes(size, request.after(self.raised), depth_is_free=True, count_is_free=True)
        possible = ((each, self.predicted(each)) for each in sizes)
        found = next(((each, seconds) for each, seconds in possible if seconds < float("inf")), None)
        return None if found is None else RequiredSampleSize(found[0].depths, found[0].count, found[1])

    def run(self) -> SomeReport:
        """Analyse growing samples until the verdict stands, or none that is requested fits."""
        looks: list[InterimAnalysis] = []
        size = self.first()
        while True:
            report, measurement, seconds = self.judged(size, len(looks))
            looks.append(self.study.analysis(report, size, seconds))
            request = self.study.request(report)
            following = None if request is None or len(looks) == MOST_ANALYSES else self.next(size, request)
            if following is None:
                break
            self.raised = Asks.DEPTH if following.depths != size.depths else Asks.COUNT
            size = following
        told: Any = report
        finished = dataclasses.replace(
            told,
            looks=tuple(looks),
            needs=None if request is None else self.need(size, request),
            seconds=self.clock() - self.started,
        )
        result: SomeReport = finished.measured_by(measurement)
        return result


def carry_out(
    study: Study[SomeReport],
    sampling: AdaptiveSampling,
    running: Running,
    name: str,
    started: float,
    clock: Clock = time.perf_counter,
) -> SomeReport:
    """Return the report of the size that the caller has fixed, or of the last analysis where a size is open.

    Analyses of growing samples end when the verdict stands or the budget is spent. The sizes follow from the
    evidence alone, except for the last, which the budget may cut short. Small runs come first, which tell
    what a larger one costs; they are not judged, and so spend no level.
    """
    if sampling.is_fixed:
        measurement = study.measurement(sampling.within(study.start))
        return study.report(measurement, running.measure(measurement), 1.0, clock() - started)
    with running.shown(name) as shown:
        report = _Sequence(study, sampling, shown, clock, started).run()
        if callable(shown.progress):
            shown.progress(1.0)
    return report
