"""Many replications of a cell as one record, and what the page says of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy import stats

from calibration.cell import CANNOT_TELL, FAILED, Outcome

LEAST_COVERED, MOST_COVERED = 0.93, 0.98
CERTAIN = 0.95
SIGMA = stats.norm.cdf([-1.0, 1.0])
HARDLY = 1e-3
"""Standard deviation of an exponent below which an interval's length is a matter of depth, not of calls."""
NO_RULE = "no rule named"


@final
@dataclass(frozen=True)
class Summary:
    """What the replications of a cell add up to.

    Attributes:
        replications: number of calls.
        verdicts: how often each verdict was given; "failed" for calls that raised.
        right: replications with the true verdict.
        false: replications with a verdict that is neither true nor tolerated nor "cannot tell".
        known: calls of which the true exponent is known.
        covered, missed: those of them whose interval contains the truth, or does not.
        not_given: the rest of them, by the rule that left the interval out; "no rule named" where the report
            names none, and "not recorded" where the call was made before rules were.
        width: median width of the intervals.
        deviation: standard deviation of the estimates: half of what lies between their quantiles of a normal
            law's one standard deviation, so that a few outliers do not hide how long intervals are.
        bias: median of estimate minus truth.
        level: median level of the intervals.
        seconds: median processor time of a call.
        errors: the first three exceptions.
        code: digests of the library's sources that were measured.
        measured: day of the last call.
    """

    replications: int
    verdicts: dict[str, int]
    right: int
    false: int
    known: int
    covered: int
    missed: int
    not_given: dict[str, int]
    width: float | None
    deviation: float | None
    bias: float | None
    level: float | None
    seconds: float
    errors: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    measured: str = ""

    @property
    def given(self) -> int:
        """Intervals of an exponent whose truth is known."""
        return self.covered + self.missed

    @property
    def covers(self) -> tuple[float, float, float]:
        """Share of intervals that contain the truth, with its own 95 % interval; NaN where there is none."""
        return share(self.covered, self.given)

    @property
    def length(self) -> float:
        """Median length of the intervals in standard deviations of the estimate, shortened to 95 %.

        A normal law's interval has 3.9. NaN where unknown, and where estimates hardly differ: there it
        speaks of finite depth, and not of sampling.
        """
        if self.width is None or not self.deviation or self.deviation < HARDLY:
            return math.nan
        own, usual = stats.norm.ppf([0.5 + (self.level or CERTAIN) / 2, 0.5 + CERTAIN / 2])
        return float(self.width / self.deviation * usual / own)

    @property
    def wrong(self) -> tuple[float, float, float]:
        """Share of false verdicts, with its own 95 % interval."""
        return share(self.false, self.replications)

    @property
    def caught(self) -> float:
        """Share of right verdicts."""
        return self.right / self.replications

    def remarks(self, admitted: float) -> list[str]:
        """Return in words what is not as it should be.

        Args:
            admitted: share of false verdicts that is admitted.
        """
        found = []
        covered, low, high = self.covers
        if covered < LEAST_COVERED:
            found.append("**covers too little**" + ("" if high < LEAST_COVERED else " (may be chance)"))
        elif covered > MOST_COVERED and share(self.given, self.given)[1] > MOST_COVERED:
            # Fewer intervals could not show it, even if all of them contained the truth.
            found.append("covers too much" + ("" if low > MOST_COVERED else " (may be chance)"))
        false, least, _ = self.wrong
        if false > admitted:
            found.append("**false verdicts**" + ("" if least > admitted else " (may be chance)"))
        if self.verdicts.get(FAILED):
            found.append(f"**{self.verdicts[FAILED]} calls failed**")
        return found


def share(count: int, of: int) -> tuple[float, float, float]:
    """Return the share with its exact binomial interval (Clopper and Pearson) at 95 %."""
    if not of:
        return math.nan, math.nan, math.nan
    interval = stats.binomtest(count, of).proportion_ci(CERTAIN, method="exact")
    return count / of, float(interval.low), float(interval.high)


def summarise(outcomes: Iterable[Outcome], code: Iterable[str] = (), measured: str = "") -> Summary:
    """Return the record of these replications, at least one."""
    outcomes = tuple(outcomes)
    verdicts = Counter(outcome.verdict for outcome in outcomes)
    given = [outcome for outcome in outcomes if math.isfinite(outcome.low) and math.isfinite(outcome.high)]
    judged = [outcome for outcome in given if math.isfinite(outcome.truth)]
    known = [outcome for outcome in outcomes if math.isfinite(outcome.truth)]
    covered = sum(outcome.low <= outcome.truth <= outcome.high for outcome in judged)
    left_out = Counter(
        outcome.rule or (FAILED if outcome.error else NO_RULE)
        for outcome in known
        if not (math.isfinite(outcome.low) and math.isfinite(outcome.high))
    )
    away = np.array([outcome.estimate - outcome.truth for outcome in judged])
    return Summary(
        replications=len(outcomes),
        verdicts=dict(sorted(verdicts.items())),
        right=sum(outcome.verdict in outcome.right for outcome in outcomes),
        false=sum(
            outcome.verdict not in (*outcome.right, *outcome.tolerated, CANNOT_TELL, FAILED)
            for outcome in outcomes
        ),
        known=len(known),
        covered=covered,
        missed=len(judged) - covered,
        not_given=dict(sorted(left_out.items())),
        width=_rounded(np.median([outcome.high - outcome.low for outcome in given])) if given else None,
        deviation=_rounded(np.diff(np.quantile(away, SIGMA))[0] / 2) if len(away) > 1 else None,
        bias=_rounded(np.median(away)) if len(away) else None,
        level=_rounded(np.median(levels)) if (levels := _levels(judged)) else None,
        seconds=_rounded(np.median([outcome.seconds for outcome in outcomes])),
        errors=tuple(dict.fromkeys(outcome.error for outcome in outcomes if outcome.error))[:3],
        code=tuple(sorted(set(code))),
        measured=measured,
    )


def _levels(outcomes: Iterable[Outcome]) -> list[float]:
    return [outcome.level for outcome in outcomes if math.isfinite(outcome.level)]


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
