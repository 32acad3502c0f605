"""A stand-in study with a clock of its own: blocks cost what a test says, and no real time."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from deeplimit.common.measurement import Measurement, Running
from deeplimit.statistics.adaptive_sampling import AdaptiveSampling, InterimAnalysis, Size, Study, carry_out

BLOCK = 64
START = Size((16, 32, 64, 128, 256), 512)


class Clock:
    """Seconds that pass only when a block runs."""

    def __init__(self):
        self.now = 0.0
        self.blocks = Counter()

    def __call__(self):
        return self.now


@dataclass(frozen=True)
class Draws(Measurement):
    """Normal numbers, one per path; `cost(depths, paths)` seconds per block."""

    depths: tuple
    count: int
    clock: Clock
    cost: object
    fails_after: int = 10**9

    what = "draws"

    @property
    def blocks(self):
        return -(-self.count // BLOCK)

    def held(self, block):
        return min(BLOCK, self.count - block * BLOCK)

    def run(self, block, tick=None):
        if sum(self.clock.blocks.values()) >= self.fails_after:
            raise KeyboardInterrupt
        self.clock.now += self.cost(self.depths, self.held(block))
        self.clock.blocks[self.depths, self.label(block)] += 1
        if tick is not None:
            tick(1.0)
        return np.random.default_rng([*self.depths, block]).normal(size=self.held(block))

    def merge(self, parts):
        return np.concatenate(list(parts))

    def key(self):
        return {"depths": [*self.depths]}

    def label(self, block):
        return f"{block}, {self.held(block)} paths"


@dataclass(frozen=True)
class Found:
    """The least that a report is."""

    numbers: np.ndarray
    spent: float
    size: Size
    looks: tuple = ()
    needs: object = None
    seconds: float = 0.0

    def measured_by(self, measurement):
        object.__setattr__(self, "measurement", measurement)
        return self


@dataclass(frozen=True)
class Analysing(Study):
    """What is requested is written down beforehand, one request per analysis; None ends the call."""

    requests: tuple
    clock: Clock = field(default_factory=Clock)
    cost: object = lambda depths, paths: 1e-6 * sum(depths) * paths
    start: Size = START
    fails_after: int = 10**9
    deepest: int = 2**30
    seen: list = field(default_factory=list)

    def measurement(self, size):
        if size.depths[-1] > self.deepest:
            raise ValueError("too deep")
        return Draws(size.depths, size.count, self.clock, self.cost, self.fails_after)

    def family(self, measurement):
        return measurement.depths

    def work(self, measurement, block):
        return sum(measurement.depths), measurement.held(block)

    def report(self, measurement, result, spent, seconds):
        self.seen.append(Size(measurement.depths, measurement.count))
        return Found(result, spent, self.seen[-1])

    def analysis(self, report, size, seconds):
        return InterimAnalysis(
            size.depths, size.count, "cannot tell", "", (0.0, 1.0), 1 - report.spent, seconds
        )

    def request(self, report):
        return self.requests[min(len(self.seen), len(self.requests)) - 1]


def analysed(study, depths=None, count=None, budget=30.0, **running):
    """Return the report of an adaptive call of a stand-in study."""
    how = Running.checked(1, running.get("executor"), running.get("store"), running.get("progress"))
    return carry_out(study, AdaptiveSampling(depths, count, budget), how, "draws", study.clock(), study.clock)
