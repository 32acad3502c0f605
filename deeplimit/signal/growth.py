"""How a change grows with the depth, and the verdict that follows: identity, stable or explosion.

Let x_L = |h_L - h_0|²/|h_0|², of states or of gradients. Where states can be scaled, E log(1 + x_L) ~ L^γ is
fitted. For independent layers γ = 1 - 2β on both sides of the critical exponent, because there log(1 + x) ≈
log E(1 + x) ~ L^{1-2β}/2. Where they cannot be scaled, E log x_L ~ γ log L is fitted: tanh saturates, so that
an explosion is a power. Either way γ < 0 is the identity, γ = 0 stable, γ > 0 explosion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from deeplimit import theory
from deeplimit.ground.fields import OneOf
from deeplimit.ground.verdict import Verdict
from deeplimit.inference import verdict
from deeplimit.inference.power_law import ErrorEstimates, fit_rate, slopes_between
from deeplimit.signal.growth_verdict import (
    CANNOT_TELL,
    EXPLOSION,
    OBSTACLES,
    RULES,
    STABLE,
    SURE,
    VERDICTS,
    Changes,
    Evidence,
)

EXACTLY = 10**6
"""Number of draws that stands for no sampling noise, in quantiles of Student's distribution."""
DEFAULT_CORRECTIONS = (0.5, 1.0)
"""Powers of 1/L in the correction where theory says nothing of γ."""


@dataclass(frozen=True)
class Growth:
    """The fitted exponent γ of a change's growth with depth, with its interval and what follows.

    `sure` is the interval at SURE, on which the verdicts "identity" and "explosion" rest.
    """

    exponent: float
    interval: tuple[float, float]
    confidence: float
    verdict: Annotated[Verdict, OneOf(VERDICTS)]
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


def measure_growth(
    depths: np.ndarray,
    log_change: np.ndarray,
    log_ratio: np.ndarray,
    confidence: float,
    known: theory.Growth,
    residual_exponent: float,
    *,
    exponential: bool,
    exact: bool = False,
) -> Growth:
    """Fit γ to log |h_L - h_0|/|h_0| (depths, draws), and judge.

    Args:
        depths: numbers of layers (m,). log_change: log |h_L - h_0|/|h_0| (m, draws).
        log_ratio: log |h_L|/|h_0| (m, draws), which tells a state that dies from one that is stable.
        confidence: confidence level of the interval. known: what theory says of γ.
        residual_exponent: the network's.
        exponential: whether an explosion is exponential in the depth; else it is a power.
        exact: whether all draws are the same, so that one is enough: the interval then holds only what
            finite depth leaves open.
    """
    obstacle = verdict.first(OBSTACLES, Changes(depths, log_change, exponential, exact))
    if obstacle is not None:
        nothing = (np.nan, np.nan)
        return Growth(np.nan, nothing, confidence, obstacle.word, obstacle.reason)
    if exact:
        log_change, log_ratio = log_change[:, :1], log_ratio[:, :1]
    log_means, variances = _moments(log_change, exponential=exponential)
    # The overall slope is taken out and put back, so that no size of it overflows.
    slope = float((log_means[-1] - log_means[0]) / np.log(depths[-1] / depths[0]))
    # Two parts of a squared change are two parts of its root whose squares add, as the fit expects.
    halved = 0.5 if known.faster is not None and known.predicted is not None else 1.0
    estimates = ErrorEstimates(
        depths=depths,
        log_errors=halved * (log_means - slope * np.log(depths)),
        covariance=np.diag(np.maximum(variances, 1e-20)) * halved**2,
        log_bias=np.zeros(len(depths)),
        count=EXACTLY if exact else log_change.shape[1],
        corrections=corrections(known.predicted, exponential=exponential),
        second_orders=() if known.faster is None or halved == 1.0 else (known.faster,),
    )
    fit = fit_rate(estimates)

    def interval(level: float) -> tuple[float, float]:
        slowest, fastest = fit.interval(level)
        return slope - fastest / halved, slope - slowest / halved

    evidence = Evidence(
        usual=interval(0.95),
        sure=interval(SURE),
        change=float(np.median(log_change[-1])),
        left=float(np.median(log_ratio[-1])),
        turns=_turns(depths, log_means, variances),
        theory=known,
        exponent=residual_exponent,
    )
    found = verdict.judge(RULES, evidence)
    exponent = slope - fit.rate / halved
    return Growth(exponent, interval(confidence), confidence, found.word, found.reason, evidence.sure)


def _moments(log_change: np.ndarray, *, exponential: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the logs (m,) whose growth is fitted, and their variances (m,), which are 0 for one draw."""
    count = log_change.shape[1]
    spread = 1 if count > 1 else 0
    if not exponential:
        return 2.0 * log_change.mean(axis=1), 4.0 * log_change.var(axis=1, ddof=spread) / count
    logs = 2.0 * log_change
    # log log(1 + x), which is log x where x is small: that does not underflow.
    logs = np.where(logs < -40.0, logs, np.log(np.logaddexp(0.0, np.maximum(logs, -40.0))))
    top = logs.max(axis=1)
    values = np.exp(logs - top[:, None])
    means = values.mean(axis=1)
    return top + np.log(means), values.var(axis=1, ddof=spread) / count / means**2


def _turns(depths: np.ndarray, log_means: np.ndarray, variances: np.ndarray) -> bool:
    """Whether the change rises between some depths and falls between others, beyond noise."""
    falls, errors = slopes_between(np.log(depths), log_means, np.diag(variances))
    clear = np.abs(falls) > 5.0 * errors + 0.02
    return bool((falls[clear] < 0).any() and (falls[clear] > 0).any())


def together(hidden: Growth, gradient: Growth) -> Verdict:
    """Return the verdict on the network: what signal and gradient agree on; explosion of either decides."""
    verdicts = {hidden.verdict, gradient.verdict}
    if EXPLOSION in verdicts:
        return EXPLOSION
    if CANNOT_TELL in verdicts:
        return CANNOT_TELL
    return verdicts.pop() if len(verdicts) == 1 else STABLE
