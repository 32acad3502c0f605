"""From fits to one of three verdicts, with the reason in a sentence."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from deeplimit.inference.power_law import UNSETTLED, ErrorEstimates, Fit, Floor, local_slopes

CONVERGES = "converges"
DOES_NOT = "does not converge"
CANNOT_TELL = "cannot tell"
FLAT = 0.05
"""An order whose whole interval lies below this (or below half the predicted one, if that is smaller) is
no convergence.
"""
CERTAIN = 0.999
"""Probability of a floor holding most of the deepest squared error from which "does not converge" is said.
"""
DOUBTFUL = 0.05
"""Probability of such a floor up to which "converges" is said."""
LEVEL = 0.02
"""Errors that are no smaller at the deepest network than at the coarsest, and fall no faster than this
there, do not fall.
"""
CLEAR = 0.1
"""Where contributions interfere, a wrong limit's may too: an upper bound of the floor above this forbids
"converges".
"""
NEGLIGIBLE = 0.02
"""A floor whose lower bound exceeds this share of the deepest squared error forbids "converges"."""


@dataclass(frozen=True)
class Verdict:
    """One of the three verdicts, and why."""

    name: str
    reason: str
    fits: bool = True  # whether a power law, with or without a floor, describes the errors at all


@dataclass(frozen=True)
class Evidence:
    """What a verdict rests on.

    Attributes:
        interval: Of the order, at 95 % whatever confidence is asked for, assuming a pure power.
        sure_upper: Upper end of its 99.9 % interval.
        floor: The fit with a floor.
        last_slope, last_slope_error: The order between the two deepest depths alone.
        previous_slope: The order between the two depths before.
        fallen, fallen_error: log of the coarsest error over the deepest one: how far errors have come
            down.
        rate, reach: The fitted order, and how far it is extrapolated beyond the deepest slope.
        order: The network's order if the limit is right, by its theorem; None where no theorem says.
        kurtosis, count: Of the per-path errors, and how many there are.
        interfere: Whether several contributions may cancel in part.
        hidden: Whether a second contribution, known to be larger at small depth, makes up most of the
            deepest slope.
    """

    interval: tuple[float, float]
    sure_upper: float
    floor: Floor
    last_slope: float
    last_slope_error: float
    previous_slope: float
    fallen: float
    fallen_error: float
    rate: float
    reach: float
    order: float | None
    kurtosis: float
    count: int
    interfere: bool = False
    hidden: bool = False

    @property
    def nears_a_floor(self) -> bool:
        """Whether errors that grow do so as they would towards a wrong limit.

        There the slope shrinks by a factor L^-s, s at most 1, from depth to depth, not below half when
        depths double. Where two contributions partly cancel, errors pass a maximum, at which the slope
        falls to 0 at once.
        """
        return (
            not self.previous_slope < 0
            or self.last_slope - 2 * self.last_slope_error <= 0.45 * self.previous_slope
        )

    @classmethod
    def of(cls, estimates: ErrorEstimates, fit: Fit, floor: Floor, order: float | None) -> Evidence:
        """Return what the fits of one set of errors say."""
        logs, variances = estimates.log_errors - estimates.log_bias, np.diag(estimates.covariance)
        slopes, slope_errors = local_slopes(estimates)
        return cls(
            interval=fit.interval(0.95),
            sure_upper=fit.interval(CERTAIN)[1],
            floor=floor,
            last_slope=float(slopes[-1]),
            last_slope_error=float(slope_errors[-1]),
            previous_slope=float(slopes[-2]) if len(slopes) > 1 else np.nan,
            fallen=float(logs[0] - logs[-1]),
            fallen_error=math.sqrt(max(0.0, variances[0] + variances[-1] - 2 * estimates.covariance[0, -1])),
            rate=fit.rate,
            reach=fit.reach,
            order=order,
            kurtosis=estimates.kurtosis,
            count=estimates.count,
            interfere=estimates.interfere,
            hidden=_hidden(estimates, float(slopes[-1] - 2 * slope_errors[-1]), order),
        )


def _hidden(estimates: ErrorEstimates, slope: float, order: float | None) -> bool:
    """Whether the deepest slope is nearer to a second contribution's order than to the network's own.

    Of squared errors u^2r (1 + κ² u^2s), u = 1/L, the local slope is r + s κ²u^2s / (1 + κ²u^2s): beyond r
    + s/2 the second contribution is the larger one.
    """
    return order is not None and estimates.hides and slope > order + min(estimates.seconds) / 2


def judge(evidence: Evidence) -> Verdict:
    """Return the verdict on finite, positive errors; without an order where a faster contribution hides
    it.
    """
    verdict = _judge(evidence)
    return dataclasses.replace(verdict, fits=False) if evidence.hidden else verdict


def _judge(evidence: Evidence) -> Verdict:
    low, high = evidence.interval
    floor, order = evidence.floor, evidence.order
    grown = evidence.fallen + 4 * evidence.fallen_error <= 0
    if grown and not evidence.nears_a_floor:
        return Verdict(
            CANNOT_TELL,
            f"the errors grow with depth, to {math.exp(-evidence.fallen):.2f} times the coarsest, but ever"
            " more slowly: they may yet fall; deeper networks would tell",
            fits=False,
        )
    if high <= (FLAT if order is None else min(FLAT, order / 2)):
        return Verdict(DOES_NOT, f"the errors do not fall with depth: order at most {high:.3f}")
    level = LEVEL if order is None else min(LEVEL, order / 10)
    if grown and evidence.last_slope + 4 * evidence.last_slope_error <= level:
        return Verdict(
            DOES_NOT,
            f"the errors do not fall with depth: the deepest is {math.exp(-evidence.fallen):.2f} times the"
            " coarsest, and level",
        )
    if floor.probability >= CERTAIN:
        # A floor of half the deepest square leaves at most two thirds of the order in the deepest slope,
        # when depths double; where it is steeper, the floor model does not fit and proves nothing.
        flat = evidence.last_slope + 2 * evidence.last_slope_error < (
            0.33 if order is None else 2 * order / 3
        )
        if flat and evidence.kurtosis <= evidence.count / 4:
            return Verdict(
                DOES_NOT,
                f"the errors level off: {100 * floor.share:.0f} % of the deepest squared error remains at"
                " infinite depth, so the limit is another one",
            )
        if evidence.kurtosis > evidence.count / 4:
            return Verdict(
                CANNOT_TELL,
                f"the errors seem to level off, but a few of the {evidence.count} paths make up the average"
                f" (kurtosis {evidence.kurtosis:.0f}); more paths or a smaller p would help",
            )
        return Verdict(
            CANNOT_TELL,
            f"no power law fits the errors, whose deepest slope is still {evidence.last_slope:.2f}, so no"
            " order is given; weights may vary faster than the networks resolve, or jump; deeper networks"
            " would help",
            fits=False,
        )
    if evidence.reach > UNSETTLED and not evidence.hidden:
        return Verdict(
            CANNOT_TELL,
            f"contributions of several orders mix: the deepest local slope is {evidence.last_slope:.2f}, an"
            f" extrapolation says {evidence.rate:.2f}, and no order is given; deeper networks would tell",
            fits=False,
        )
    if low <= 0:
        return Verdict(
            CANNOT_TELL,
            "the interval of the order contains 0; more paths or a wider range of depths would help",
        )
    if floor.probability > DOUBTFUL:
        return Verdict(
            CANNOT_TELL,
            f"a floor, as if the limit were another one, has probability {floor.probability:.2f}"
            f" ({DOUBTFUL:g} is allowed); more paths or deeper networks would decide",
        )
    if evidence.interfere and floor.upper > CLEAR:
        return Verdict(
            CANNOT_TELL,
            f"the errors fall, but up to {100 * floor.upper:.0f} % of the deepest squared error may be a"
            " floor, which several interfering contributions can hide; deeper networks would tell",
        )
    if floor.lower > NEGLIGIBLE:
        return Verdict(
            CANNOT_TELL,
            f"the errors fall, but {100 * floor.share:.0f} % of the deepest squared error looks like a floor:"
            " the limit is slightly off, or the depths are too small; deeper networks would tell",
        )
    if order is not None and evidence.sure_upper < order:
        return Verdict(
            CANNOT_TELL,
            f"the errors fall, but more slowly than this network reaches its limit (order {order:g}): the"
            " limit is slightly off, or the depths are too small; deeper networks would tell",
        )
    return _converges(evidence)


def _converges(evidence: Evidence) -> Verdict:
    most = max(1.0, 100 * evidence.floor.upper)
    fall = (
        f"the errors fall with depth; at most {most:.0f} % of the deepest squared error would remain at"
        " infinite depth"
    )
    if not evidence.hidden:
        return Verdict(CONVERGES, fall)
    return Verdict(
        CONVERGES,
        f"{fall}. No order is given: the deepest local slope, {evidence.last_slope:.2f}, is mostly that of a"
        f" contribution which vanishes faster, and hides the one of order {evidence.order:g}",
    )
