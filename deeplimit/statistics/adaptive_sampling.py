"""The one mechanism of all adaptive calls: small runs to learn the cost, then analyses of growing size.

What the evidence asks for, which sizes give it, how long they take, and what a report says of the analyses.
"""

from __future__ import annotations

import dataclasses
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar, final

from deeplimit.common import validation
from deeplimit.common.cached_blocks import CachedBlocks
from deeplimit.common.fields import Interval
from deeplimit.common.measurement import Measurement, Running, in_words

RECENT = 3
"""How many of the last runs say what the next one costs."""


@final
@dataclass(frozen=True)
class Work:
    """What a run does, in units that its time is a sum of.

    Attributes:
        blocks: blocks of paths.
        steps: layers and steps of a limit that the blocks go through, one after the other.
        path_steps: the same, times the paths that go through them together.
    """

    blocks: int
    steps: int
    path_steps: int

    @classmethod
    def of(cls, blocks: Iterable[tuple[int, int]]) -> Work:
        """Return the work of blocks, each given by its steps and its paths."""
        each = [*blocks]
        return cls(len(each), sum(steps for steps, _ in each), sum(steps * paths for steps, paths in each))

    def over(self, other: Work) -> float:
        """Return how many times the work of another run this is, by the unit that grew most; 1 at least."""
        return max(
            1.0, self.blocks / other.blocks, self.steps / other.steps, self.path_steps / other.path_steps
        )


@final
@dataclass(frozen=True)
class Costs:
    """Runs that ended, as pairs of work and seconds.

    A run takes a constant, and so much per block, per step, and per path and step. How much of each is not
    known. Yet whatever they are, a run with at most r times each unit of another takes at most r times as
    long.
    """

    runs: tuple[tuple[Work, float], ...] = ()

    def with_run(self, work: Work, seconds: float) -> Costs:
        """Return the costs with one more run; one without work, whose blocks were there, says nothing."""
        return self if work.blocks == 0 else Costs((*self.runs, (work, seconds)))

    def most(self, work: Work) -> float:
        """Return the seconds that a run takes at most, by the least bound of recent runs; infinite by none.

        Examples:
            >>> costs = Costs().with_run(Work(1, 100, 1000), 0.5)
            >>> costs.most(Work(2, 400, 2000))
            2.0
        """
        if work.blocks == 0:
            return 0.0
        bounds = [seconds * work.over(run) for run, seconds in self.runs[-RECENT:]]
        return min(bounds, default=float("inf"))


MOST_DEPTHS = 6
"""A deeper analysis leaves out its coarsest depths beyond this many: they tell least, each costs a pass."""
DEEPEST = 2**16
MOST_COUNT = 2**22
"""No analysis is larger than these, whatever the budget."""
DEEPER = 2
"""How many depths an analysis adds, each larger than the last one by the list's own ratio."""
FEWER = 4
"""By what the paths are divided where depth is requested and does not fit into the budget otherwise."""
MOST_TIMES = 16
"""An analysis takes at most this many times as many paths: a guess from few paths is not trusted further."""


class Asks(Enum):
    """What would decide where a rule says "cannot tell"."""

    DEPTH = "deeper networks"
    COUNT = "more paths or draws"
    EITHER = "whichever leaves the interval wide"
    NOTHING = "neither"


@final
@dataclass(frozen=True)
class Size:
    """How much is measured: numbers of layers, and paths (or draws)."""

    depths: tuple[int, ...]
    count: int

    @property
    def ratio(self) -> float:
        """By how much neighbouring depths grow, on average; 2 where there is one depth."""
        if len(self.depths) == 1:
            return 2.0
        return math.exp(math.log(self.depths[-1] / self.depths[0]) / (len(self.depths) - 1))

    def deeper(self, steps: int) -> Size:
        """Return the size with `steps` further depths, the coarsest ones beyond `MOST_DEPTHS` left out.

        Examples:
            >>> Size((16, 32, 64, 128, 256), 512).deeper(2)
            Size(depths=(32, 64, 128, 256, 512, 1024), count=512)
        """
        depths = [*self.depths]
        for _ in range(steps):
            depths.append(max(depths[-1] + 1, round(depths[-1] * self.ratio)))
        return Size(tuple(depths[-max(MOST_DEPTHS, len(self.depths)) :]), self.count)

    def larger(self, times: int) -> Size:
        """Return the size with this many times as many paths."""
        return Size(self.depths, self.count * times)


@final
@dataclass(frozen=True)
class SampleSizeRequest:
    """What an analysis asks of the next one: `order` lists what to raise first; COUNT by the factor `times`.

    `order` holds `Asks.DEPTH` and `Asks.COUNT` at most, and is empty where nothing would decide.
    """

    order: tuple[Asks, ...] = ()
    times: float = 4.0

    @classmethod
    def of(cls, asks: Asks, noise: float, times: float = 4.0) -> SampleSizeRequest:
        """Return the request of a rule; `noise` is the share of an interval's width that sampling explains.

        More than a half asks for paths, less for depth.
        """
        first, second = (Asks.COUNT, Asks.DEPTH) if noise > 0.5 else (Asks.DEPTH, Asks.COUNT)
        orders = {Asks.EITHER: (first, second), Asks.NOTHING: ()}
        return cls(orders.get(asks, (asks,)), times)

    def after(self, raised: Asks | None) -> SampleSizeRequest:
        """Return the request of an analysis after a step: of two, what was not raised last comes first.

        To tell a floor from a slow order takes both depth and paths; neither alone helps much.
        """
        turned = len(self.order) == 2 and self.order[0] is raised
        return SampleSizeRequest(self.order[::-1], self.times) if turned else self


def next_sizes(
    size: Size,
    request: SampleSizeRequest,
    *,
    depth_is_free: bool,
    count_is_free: bool,
    least: int = MOST_COUNT,
) -> tuple[Size, ...]:
    """Return the sizes that a request allows, the one to prefer first; smaller steps follow larger ones.

    Where depth alone is requested, the last ones are deeper with a quarter of the paths, but not below
    `least`. Empty where the request is, and where all it asks for is fixed or at its maximum.

    Examples:
        >>> request = SampleSizeRequest((Asks.COUNT,))
        >>> next_sizes(Size((8, 16, 32), 100), request, depth_is_free=True, count_is_free=True)
        (Size(depths=(8, 16, 32), count=400), Size(depths=(8, 16, 32), count=200))
    """
    found: list[Size] = []
    for asks in request.order:
        if asks is Asks.DEPTH and depth_is_free:
            found += [size.deeper(steps) for steps in range(DEEPER, 0, -1)]
        if asks is Asks.COUNT and count_is_free:
            power = math.ceil(math.log2(min(max(request.times, 2.0), MOST_TIMES)))
            found += [size.larger(2**each) for each in range(power, 0, -1)]
    if request.order == (Asks.DEPTH,) and depth_is_free and count_is_free and size.count // FEWER >= least:
        fewer = Size(size.depths, size.count // FEWER)
        found += [fewer.deeper(steps) for steps in range(DEEPER, 0, -1)]
    return tuple(each for each in found if each.depths[-1] <= DEEPEST and each.count <= MOST_COUNT)


MOST_ANALYSES = 6


def share(number: int) -> float:
    """Return the part of a level that analysis `number` (from 0) may spend: 1/2, 1/4, ...; all sum to 1.

    Half of all calls end at an analysis or before the next one, and every analysis is more precise. The
    mean length of the interval that is reported is then near its least (docs/architecture.md).

    Examples:
        >>> [share(number) for number in range(MOST_ANALYSES)]
        [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.03125]
    """
    return 0.5 ** min(number + 1, MOST_ANALYSES - 1)


@final
@dataclass(frozen=True)
class InterimAnalysis:
    """One interim analysis of an adaptive call.

    Attributes:
        depths: numbers of layers.
        paths: paths; draws of `stability` and `compare_laws`.
        verdict: what it said.
        rule: name of the rule that decided.
        interval: interval of the order or of the growth; NaN where there is none.
        confidence: level of that interval: the interim analyses share the level that was asked for.
        seconds: how long it took.
    """

    depths: tuple[int, ...]
    paths: int
    verdict: str
    rule: str
    interval: Interval
    confidence: float
    seconds: float = field(compare=False)

    def __str__(self) -> str:
        return f"depths {self.depths[0]} to {self.depths[-1]} × {self.paths}: {self.verdict}"


@final
@dataclass(frozen=True)
class RequiredSampleSize:
    """What the next analysis would be, where the verdict is "cannot tell".

    Attributes:
        depths: numbers of layers.
        paths: paths or draws.
        seconds: how long it would take, by the analyses so far.
    """

    depths: tuple[int, ...]
    paths: int
    seconds: float = field(compare=False)

    def told(self, counted: str, serves: str = "decide") -> str:
        """Return it in words; `counted` says what the paths are called, `serves` what it may do."""
        return (
            f"depths up to {self.depths[-1]} with {self.paths} {counted} may {serves}, about"
            f" {in_words(max(1.0, self.seconds))}"
        )


def analyses(made: Sequence[InterimAnalysis]) -> list[tuple[str, str]]:
    """Return the line of a report on its interim analyses: nothing for a call of fixed size."""
    if not made:
        return []
    # A verdict that leaves room for another one is no end: a user's right limit is confirmed at more depth.
    goes_on = [each.verdict != "cannot tell" for each in made[:-1]] + [False]
    listed = "; ".join(
        f"{each}, to be confirmed" if more else str(each) for each, more in zip(made, goes_on, strict=True)
    )
    return [("analyses", f"{len(made)} of at most {MOST_ANALYSES}, which share the level: {listed}")]


def required(needs: RequiredSampleSize | None, counted: str, decided: bool = False) -> list[tuple[str, str]]:
    """Return the line of a report on what would decide, or confirm, it; nothing where the verdict stands."""
    if needs is None:
        return []
    return [("to confirm", needs.told(counted, "confirm it")) if decided else ("needed", needs.told(counted))]


AUTO = "auto"
SECONDS = 30.0
"""The budget that is meant where none is given."""


@final
@dataclass(frozen=True)
class AdaptiveSampling:
    """What is fixed, what is left open (None), and how many seconds the call may take.

    `budget_is_given` says whether the caller chose these. Where not, the first analysis has the size of the
    function's default call whatever it takes: so its numbers do not depend on the machine.
    """

    depths: tuple[int, ...] | None
    count: int | None
    budget: float
    budget_is_given: bool = True

    @classmethod
    def checked(
        cls,
        depths: object,
        count: object,
        budget: object,
        name: str,
        read_depths: Callable[[object], tuple[int, ...]],
        read_count: Callable[[object], int],
    ) -> AdaptiveSampling:
        """Return the arguments of a function; `name` is what it calls its paths.

        Raises TypeError or ValueError as the function's readers do, and for a budget that is no number, not
        above 0, or given where nothing is "auto".
        """
        open_depths, open_count = (isinstance(each, str) and each == AUTO for each in (depths, count))
        fixed_depths = None if open_depths else read_depths(depths)
        fixed_count = None if open_count else read_count(count)
        read = cls(
            fixed_depths,
            fixed_count,
            SECONDS if budget is None else validation.real(budget, "budget", above=0.0, hint="In seconds."),
            budget is not None,
        )
        if budget is not None and not (open_depths or open_count):
            raise ValueError(
                f"budget={budget!r} is for a call that chooses its size, but depths and {name} are both"
                f" given; pass depths='auto', {name}='auto' or both, or leave the budget out."
            )
        return read

    def within(self, size: Size) -> Size:
        """Return a size with what the caller has fixed."""
        return Size(
            size.depths if self.depths is None else self.depths,
            size.count if self.count is None else self.count,
        )


SomeReport = TypeVar("SomeReport")
Clock = Callable[[], float]
SHARES = (16, 4)
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

    def is_costly(self, measurement: Any) -> bool:
        """Return whether the first analysis may take minutes, so that smaller runs must tell its cost."""
        return False

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
        """Return the size of the first analysis: the study's, or the largest that fits into the budget, where
        that is given or the study's may be costly.

        Smaller runs say what it costs. They say too much rather than too little, so they end as soon as half
        of the budget is enough.
        """
        wanted = self.sampling.within(self.study.start)
        if not (self.sampling.budget_is_given or self.study.is_costly(self.study.measurement(wanted))):
            return wanted
        fewer = [self.sampling.within(Size(wanted.depths, max(1, wanted.count // each))) for each in SHARES]
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
        label = f"depths {[*size.depths]}, analysis {number + 1}"
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
            least=self.study.start.count // SHARES[1],
        )
        return next((each for each in sizes if self.fits(each)), None)

    def need(self, size: Size, request: SampleSizeRequest) -> RequiredSampleSize | None:
        """Return what would decide, whatever the caller has fixed; None where nothing is known to."""
        wanted = request.after(self.raised)
        sizes = next_sizes(size, wanted, depth_is_free=True, count_is_free=True)
        if wanted.order[:1] == (Asks.COUNT,) and wanted.times * size.count <= MOST_COUNT:
            # All that would decide, of which the next analysis takes a part.
            sizes = (size.larger(math.ceil(wanted.times)), *sizes)
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
    evidence alone, except for the last, which the budget may cut short. Where the caller gave a budget, small
    runs come first, which tell what a larger one costs; they are not judged, and so spend no level.
    """
    if sampling.depths is not None and sampling.count is not None:  # the caller gave a size
        measurement = study.measurement(Size(sampling.depths, sampling.count))
        return study.report(measurement, running.measure(measurement), 1.0, clock() - started)
    with running.shown(name) as shown:
        report = _Sequence(study, sampling, shown, clock, started).run()
        if callable(shown.progress):
            shown.progress(1.0)
    return report
