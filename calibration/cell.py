"""A cell: networks of one kind with what is true of them, measured with one seed after another."""

from __future__ import annotations

import math
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, final

import numpy as np

import deeplimit as dl

CONVERGES, DIVERGES = "converges", "does not converge"
CANNOT_TELL, FAILED = "cannot tell", "failed"
NO_INTERVAL = (math.nan, math.nan, math.nan)
FIXED: Mapping[str, Any] = {"depths": (16, 32, 64, 128, 256), "paths": 512}
"""Size of a call of `compare` whose cell names none: one analysis, at the whole level."""


@final
@dataclass(frozen=True)
class Outcome:
    """What one replication found.

    Attributes:
        verdict: the report's word; "failed" where the call raised.
        right: the words that are true of the network; mostly one.
        tolerated: words that are not true, and still no error, since so small a difference may be missed.
        estimate, low, high: the exponent with its interval; NaN where none was given.
        truth: the true exponent; NaN where none is claimed.
        seconds: processor time of the call.
        error: the exception of a call that failed.
        rule: name of the rule that decided; empty where the report names none. Where no interval was given
            it is the reason.
        level: level of the interval; NaN where the call failed.
    """

    verdict: str
    right: tuple[str, ...]
    estimate: float
    low: float
    high: float
    truth: float
    seconds: float
    error: str = ""
    tolerated: tuple[str, ...] = ()
    rule: str = ""
    level: float = math.nan


class Called(NamedTuple):
    """A verdict, the exponent with its interval (NaN where there is none), the rule that decided ("" where
    none is named), and the level of the interval."""

    verdict: str
    interval: tuple[float, float, float]
    rule: str = ""
    level: float = 0.95


JUDGING = ("common", "driving", "equations", "judge", "layers", "networks", "papers/cases", "simulation")
JUDGING += ("statistics", "theory")
"""Rooms whose sources decide what `compare` and `compare_laws` find; no other is loaded by a call."""


class Trial(ABC):
    """One call of the library, with what is true of it; sources of `rooms` decide, "" for all."""

    right: tuple[str, ...]
    truth: float
    tolerated: tuple[str, ...] = ()
    rooms: ClassVar[tuple[str, ...]] = ("",)

    @abstractmethod
    def call(self, seed: int) -> Called:
        """Return what was found."""

    def run(self, seed: int) -> Outcome:
        """Make the call with this seed; one that raises is an outcome, too."""
        started = time.process_time()
        try:
            called = self.call(seed)
        except Exception as error:  # noqa: BLE001  # every failure of the library belongs on the page
            seconds = time.process_time() - started
            told = f"{type(error).__name__}: {str(error)[:200]}"
            return Outcome(FAILED, self.right, *NO_INTERVAL, self.truth, seconds, told)
        seconds = time.process_time() - started
        return Outcome(
            called.verdict,
            self.right,
            *called.interval,
            self.truth,
            seconds,
            tolerated=self.tolerated,
            rule=called.rule,
            level=called.level,
        )


@final
@dataclass(frozen=True)
class Converging(Trial):
    """A call of `compare`.

    Attributes:
        network: the network.
        truth: order in 1/L; NaN for a wrong limit, and where only the verdict is known.
        limit: None for `network.limit()`.
        right: the true verdicts.
        settings: further arguments of `compare`; FIXED depths and paths where they name none.
    """

    network: Any
    truth: float
    limit: Any = None
    right: tuple[str, ...] = (CONVERGES,)
    settings: Mapping[str, Any] = field(default_factory=dict)
    rooms: ClassVar[tuple[str, ...]] = JUDGING

    def call(self, seed: int) -> Called:
        settings = {**FIXED, **self.settings}
        report = dl.compare(self.network, self.limit, seed=seed, workers=1, **settings)
        interval = float(report.rate), *map(float, report.rate_interval)
        return Called(str(report.verdict), interval, report.rule, report.confidence)


@final
@dataclass(frozen=True)
class Growing(Trial):
    """A call of `stability`; the exponent is that of the signal's growth, γ = 1 - 2β for independent layers.

    Attributes: as of `Converging`.
    """

    network: Any
    truth: float
    right: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    tolerated: tuple[str, ...] = ()
    rooms: ClassVar[tuple[str, ...]] = (*JUDGING, "signal")

    def call(self, seed: int) -> Called:
        report = dl.stability(self.network, seed=seed, workers=1, **self.settings)
        growth = report.hidden_growth
        low, high = map(float, growth.interval)
        return Called(
            str(report.verdict), (float(growth.exponent), low, high), growth.rule, growth.confidence
        )


@final
@dataclass(frozen=True)
class InLaw(Trial):
    """A call of `compare_laws`, which fits no exponent.

    Attributes: as of `Converging`.
    """

    network: Any
    limit: Any = None
    right: tuple[str, ...] = ("same law",)
    settings: Mapping[str, Any] = field(default_factory=dict)
    truth: float = math.nan
    tolerated: tuple[str, ...] = ()
    rooms: ClassVar[tuple[str, ...]] = JUDGING

    def call(self, seed: int) -> Called:
        report = dl.compare_laws(self.network, self.limit, seed=seed, workers=1, **self.settings)
        return Called(str(report.verdict), NO_INTERVAL)


@final
@dataclass(frozen=True)
class Diagnosing(Trial):
    """A call of `diagnose` on weights at several depths.

    Attributes:
        network: law of the weights, in words.
        weights: function of a random generator that draws them.
        truth: the exponent; NaN where none is claimed.
        right: the true verdicts.
        exponent: name of that exponent in the report, "beta" or "hurst".
    """

    network: str
    weights: Callable[[np.random.Generator], Mapping[int, Any]]
    truth: float
    right: tuple[str, ...]
    exponent: str

    def call(self, seed: int) -> Called:
        report = dl.diagnose(self.weights(np.random.default_rng(seed)), seed=seed)
        low, high = map(float, getattr(report, f"{self.exponent}_interval"))
        return Called(str(report.verdict), (float(getattr(report, self.exponent)), low, high))


@final
@dataclass(frozen=True)
class Examining(Trial):
    """A call of `diagnose` on one network with one matrix per layer; the exponent is its Hurst index.

    Attributes: as of `Diagnosing`; `weights` draws layers (L, d, d), of `seeds` networks.
    """

    network: str
    weights: Callable[[np.random.Generator], np.ndarray]
    truth: float
    right: tuple[str, ...]
    seeds: int = 1

    def call(self, seed: int) -> Called:
        random = np.random.default_rng(seed)
        networks = [{"A": self.weights(random)} for _ in range(self.seeds)]
        report = dl.diagnose(networks if self.seeds > 1 else networks[0], seed=seed)
        (found,) = report.objects
        low, high = map(float, found.hurst_interval)
        return Called(str(found.verdict), (float(found.hurst), low, high))


@final
@dataclass(frozen=True)
class Cell:
    """One line of the page.

    Attributes:
        group: table in which the line stands.
        name: network and settings in a few words; another setting needs another name.
        make: function of the seed that returns the call.
        admitted: share of false verdicts that is admitted.
        size: size of the error of a wrong limit; 0 for right ones.
        family: wrong limits that differ only in size share it.
        quick: whether it may stand for its group in the tests, which make one call of one cell per group.
        calls: how many calls a full run makes.
    """

    group: str
    name: str
    make: Callable[[int], Trial]
    admitted: float = 0.01
    size: float = 0.0
    family: str = ""
    quick: bool = False
    calls: int = 100

    @property
    def key(self) -> str:
        """Group and name; no other cell has the same."""
        return f"{self.group}/{self.name}"

    @cached_property
    def rooms(self) -> tuple[str, ...]:
        """Rooms of the library whose sources decide what its calls find."""
        return self.make(0).rooms

    def run(self, number: int) -> Outcome:
        """Return what the replication of this number finds; cells share no seeds, and so no luck."""
        seed = (zlib.crc32(self.key.encode()) << 20) + number
        return self.make(seed).run(seed)
