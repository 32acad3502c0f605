"""How a change grows with the depth, and the verdict that follows: identity, stable or explosion.

Of x_L = |h_L - h_0|²/|h_0|² (or of the gradient's), where states can be scaled, E log(1 + x_L) ~ L^γ is
fitted: for independent layers γ = 1 - 2β on both sides of the critical exponent, since there log(1 + x) ≈
    log
E(1 + x) ~ L^{1-2β}/2. Where they cannot (tanh saturates, so that explosion is a power), E log x_L ~ γ log
L. Either way γ < 0 is the identity, γ = 0 stable, γ > 0 explosion.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from deeplimit.inference.power_law import ErrorEstimates, enough_paths, fit_rate

IDENTITY, STABLE, EXPLOSION, CANNOT_TELL = "identity", "stable", "explosion", "cannot tell"
VERDICTS = (IDENTITY, STABLE, EXPLOSION, CANNOT_TELL)
SURE = 0.999
"""Confidence of the interval that must exclude 0 before growth or decay is claimed."""
STABLE_WITHIN = 0.2
"""Half-width of γ's 95 % interval up to which "stable" is claimed, if 0 is in it: exponents closer than
0.1 look alike.
"""
DEFAULT_CORRECTIONS = (0.5, 1.0)
MOST_OF_THE_DYING = 2.0
"""A state that dies has changed by 1, one that turns round by 2: only a larger change, growing, is an
explosion.
"""
SMALL = 0.5
"""Median change of the deepest networks below which the identity may be claimed."""
DEAD = 0.1
"""Median ratio of norms at the deepest network below which a signal or gradient is said to die, not to be
stable.
"""


@dataclass(frozen=True)
class Growth:
    """The fitted exponent γ of a change's growth with depth, with its interval and what follows.

    `sure` is the interval at SURE, on which the verdicts "identity" and "explosion" rest.
    """

    exponent: float
    interval: tuple[float, float]
    confidence: float
    verdict: str
    reason: str
    sure: tuple[float, float] = (np.nan, np.nan)

    def __str__(self) -> str:
        low, high = self.interval
        if not np.isfinite(self.exponent):
            return f"{self.verdict}: {self.reason}"
        interval = f"{100 * self.confidence:g} % [{low:.3f}, {high:.3f}]"
        if self.confidence != SURE:
            interval += f", {100 * SURE:g} % [{self.sure[0]:.3f}, {self.sure[1]:.3f}]"
        return f"{self.verdict}: growth exponent {self.exponent:.3f}, {interval}; {self.reason}".replace(
            "-0.000", "0.000"
        )


def corrections(predicted: float | None, *, exponential: bool) -> tuple[float, ...]:
    """Return the powers of 1/L by which the statistic bends.

    |γ| is one of them where states can be scaled, from log(1 + x) against x; half of it where they cannot,
    since σ is bent by a state that itself moves like L^{γ/2}.
    """
    if predicted is None:
        return DEFAULT_CORRECTIONS
    power = abs(predicted) if exponential else abs(predicted) / 2
    return (1.0,) if power < 0.05 else tuple(sorted({min(power, 1.0), 1.0}))


@dataclass(frozen=True)
class Theory:
    """What theory says of a change: its γ, the power by which a second part is smaller, and up to which
    exponent it stays.

    None each where it says nothing; `exponent` is the network's own.
    """

    predicted: float | None = None
    faster: float | None = None
    vanishes_beyond: float | None = None
    exponent: float = 0.0


def measure_growth(
    depths: np.ndarray,
    log_change: np.ndarray,
    log_ratio: np.ndarray,
    confidence: float,
    theory: Theory,
    *,
    exponential: bool,
) -> Growth:
    """Fit γ to log |h_L - h_0|/|h_0| (depths, draws); `exponential` where explosion is exponential, else
    it is a power.

    `log_ratio` is log |h_L|/|h_0|, by which a state that dies is told from one that is stable.
    """
    nothing = (np.nan, np.nan)
    lost = int((~(log_change < np.inf)).sum())  # NaN counts
    if lost:
        share = lost / log_change.size
        deepest = ~(log_change[-1] < np.inf)
        if deepest.mean() > 0.5:
            return Growth(
                np.nan,
                nothing,
                confidence,
                EXPLOSION,
                f"{deepest.mean():.0%} of the deepest networks overflowed",
            )
        return Growth(np.nan, nothing, confidence, CANNOT_TELL, f"{share:.1%} of the networks overflowed")
    unchanged = log_change == -np.inf
    if unchanged.any():
        if unchanged[-1].all():
            return Growth(np.nan, nothing, confidence, IDENTITY, "the deepest networks change nothing at all")
        if unchanged.all(axis=1).any():
            return Growth(
                np.nan, nothing, confidence, CANNOT_TELL, "at some depth the networks change nothing at all"
            )
        if not exponential:
            return Growth(
                np.nan,
                nothing,
                confidence,
                CANNOT_TELL,
                "some networks change nothing at all: logarithms have no mean",
            )
    count = log_change.shape[1]
    if len(depths) < 3:
        return Growth(
            np.nan, nothing, confidence, CANNOT_TELL, "growth with depth needs at least three depths"
        )
    if not enough_paths(count, len(depths)):
        why = f"{count} draws are too few for an interval; take {2 * len(depths) + 4} or more"
        return Growth(np.nan, nothing, confidence, CANNOT_TELL, why)
    if exponential:
        logs = 2.0 * log_change
        # log log(1 + x), which is log x where x is small: that does not underflow.
        logs = np.where(logs < -40.0, logs, np.log(np.logaddexp(0.0, np.maximum(logs, -40.0))))
        top = logs.max(axis=1)
        values = np.exp(logs - top[:, None])
        means = values.mean(axis=1)
        log_means, variances = top + np.log(means), values.var(axis=1, ddof=1) / count / means**2
    else:
        log_means, variances = 2.0 * log_change.mean(axis=1), 4.0 * log_change.var(axis=1, ddof=1) / count
    # The overall slope is taken out and put back, so that no size of it overflows.
    slope = float((log_means[-1] - log_means[0]) / np.log(depths[-1] / depths[0]))
    # Two parts of a squared change are two parts of its root whose squares add, which is what the fit
    # knows of.
    halved = 0.5 if theory.faster is not None and theory.predicted is not None else 1.0
    estimates = ErrorEstimates(
        depths=depths,
        log_errors=halved * (log_means - slope * np.log(depths)),
        covariance=np.diag(np.maximum(variances, 1e-20)) * halved**2,
        log_bias=np.zeros(len(depths)),
        count=count,
        corrections=corrections(theory.predicted, exponential=exponential),
        seconds=() if theory.faster is None or halved == 1.0 else (theory.faster,),
    )
    fit = fit_rate(estimates)

    def interval(level: float) -> tuple[float, float]:
        slowest, fastest = fit.interval(level)
        return slope - fastest / halved, slope - slowest / halved

    verdict, reason = _judge(interval(0.95), interval(SURE))
    if (doubt := _doubt(verdict, interval(SURE), theory, log_change[-1], log_ratio[-1])) or (
        doubt := _turns(depths, log_means, variances)
    ):
        verdict, reason = CANNOT_TELL, doubt
    return Growth(
        slope - fit.rate / halved, interval(confidence), confidence, verdict, reason, interval(SURE)
    )


def _doubt(
    verdict: str, sure: tuple[float, float], theory: Theory, log_change: np.ndarray, log_ratio: np.ndarray
) -> str:
    """Return why a verdict on the fitted growth must not be given, from the deepest networks and theory;
    empty if it may.
    """
    change, left = float(np.median(log_change)), float(np.median(log_ratio))
    if left < math.log(DEAD):
        return (
            f"it dies: at the deepest network a median share of {math.exp(left):.2g} is left, so that its"
            " change is 1"
        )
    if verdict == EXPLOSION and change < math.log(MOST_OF_THE_DYING):
        return "the change grows, but is no larger than that of a state that dies or turns round"
    if verdict == IDENTITY and change > math.log(SMALL):
        return "the change falls, but is not small yet: take deeper networks"
    predicted = theory.predicted
    if predicted is not None and not sure[0] <= predicted <= sure[1] and verdict != _expected(predicted):
        return (
            f"theory has {predicted:g}, which is {_expected(predicted)}: these depths are still far from"
            " infinite depth"
        )
    if (
        verdict == IDENTITY
        and theory.vanishes_beyond is not None
        and theory.exponent <= theory.vanishes_beyond
    ):
        return (
            f"theory has a change that stays up to the exponent {theory.vanishes_beyond:g}: these depths are"
            " far from infinite"
        )
    return ""


def _turns(depths: np.ndarray, log_means: np.ndarray, variances: np.ndarray) -> str:
    """Return a doubt where the change rises between some depths and falls between others, beyond noise;
    empty if it does not.
    """
    rises = np.diff(log_means) / np.diff(np.log(depths))
    errors = np.sqrt(variances[1:] + variances[:-1]) / np.diff(np.log(depths))
    clear = np.abs(rises) > 5.0 * errors + 0.02
    if (rises[clear] > 0).any() and (rises[clear] < 0).any():
        return (
            "the change follows no power of the depth: it rises between some depths and falls between others"
        )
    return ""


def _expected(predicted: float) -> str:
    return STABLE if predicted == 0.0 else EXPLOSION if predicted > 0.0 else IDENTITY


def _judge(usual: tuple[float, float], sure: tuple[float, float]) -> tuple[str, str]:
    if sure[1] < 0:
        return IDENTITY, "the change vanishes as the depth grows"
    if sure[0] > 0:
        return EXPLOSION, "the change grows without bound with the depth"
    if not usual[0] <= 0.0 <= usual[1]:
        likely = "likely (95 %) but not certain (99.9 %)"
        return CANNOT_TELL, f"growth or decay is {likely}: take more draws, or depths over a larger range"
    if usual[1] - usual[0] <= 2 * STABLE_WITHIN:
        return STABLE, "no growth or decay with depth is seen"
    return CANNOT_TELL, "the interval is too wide: take more draws, or depths over a larger range"


def together(hidden: Growth, gradient: Growth) -> str:
    """Return the verdict on the network: what signal and gradient agree on; explosion of either is
    explosion.
    """
    verdicts = {hidden.verdict, gradient.verdict}
    if EXPLOSION in verdicts:
        return EXPLOSION
    if CANNOT_TELL in verdicts:
        return CANNOT_TELL
    return verdicts.pop() if len(verdicts) == 1 else STABLE
