"""How a change grows with the depth, and the verdict that follows: identity, stable or explosion.

Let x_L = |h_L - h_0|²/|h_0|², of states or of gradients. Where states can be scaled, E log(1 + x_L) is the
average. Where they cannot, it is E log x_L if its explosion is a power, as where tanh saturates. Independent
layers need the time L^γ, γ = 1 - 2β, for their change, and the curve of change by time is known
(`layer_time`). Then the growth of the time is fitted. For other weights the averages themselves are fitted as
powers L^γ. Either way γ < 0 is the identity, γ = 0 stable, γ > 0 explosion.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from deeplimit import theory
from deeplimit.common import verdict
from deeplimit.common.verdict import StabilityVerdict
from deeplimit.signal import wording
from deeplimit.signal.growth_fit import GRID_SCALE, Averages, of_power, of_time
from deeplimit.signal.growth_verdict import (
    CANNOT_TELL,
    CLOSE,
    EXPLOSION,
    STABLE,
    SURE,
    WITHOUT_LAW,
    Changes,
    Evidence,
    failed_preconditions,
    rules,
)
from deeplimit.signal.layer_time import Curve
from deeplimit.signal.sizes import Sizes
from deeplimit.statistics.power_law import MODEL_ERROR, NO_SAMPLING_NOISE, line, slopes_between


@dataclass(frozen=True)
class Growth:
    """The fitted exponent γ of a change's growth with depth, with its interval and what follows.

    `sure` is the interval at the level `certainty`, on which the verdicts "identity" and "explosion" rest. It
    is SURE, or sharper where several interim analyses share the level. `rule` is the name of the rule that
    decided, and `sizes` the medians at the coarsest and the deepest networks, None where they are not known.
    """

    exponent: float
    interval: tuple[float, float]
    confidence: float
    verdict: StabilityVerdict
    reason: str
    sure: tuple[float, float] = (np.nan, np.nan)
    certainty: float = SURE
    rule: str = ""
    sizes: Sizes | None = None

    @property
    def law_is_resolved(self) -> bool:
        """Whether the verdict rests on γ, and not on sizes alone."""
        return self.verdict != CANNOT_TELL and np.isfinite(self.exponent) and self.rule not in WITHOUT_LAW

    def __str__(self) -> str:
        low, high = self.interval
        if not np.isfinite(self.exponent):
            return f"{self.verdict}: {self.reason}{self._effect}"
        interval = f"{100 * self.confidence:g} % [{low:.3f}, {high:.3f}]"
        if self.confidence != self.certainty:
            interval += f", {100 * self.certainty:g} % [{self.sure[0]:.3f}, {self.sure[1]:.3f}]"
        return (
            f"{self.verdict}: growth exponent {self.exponent:.3f}, {interval}; {self.reason}".replace(
                "-0.000", "0.000"
            )
            + self._effect
        )

    @property
    def _effect(self) -> str:
        """What is said of the sizes where the law is not resolved."""
        return "" if self.law_is_resolved or self.sizes is None else f"; {wording.sizes(self.sizes)}"


def measure_growth(
    depths: np.ndarray,
    log_change: np.ndarray,
    log_ratio: np.ndarray,
    confidence: float,
    known: theory.Growth,
    residual_exponent: float,
    *,
    exponential: bool,
    exact: int = 0,
    curve: Curve | None = None,
    grid_scale: float = GRID_SCALE,
    undefined: str = "",
    spent: float = 1.0,
    one_of: tuple[float, ...] = (),
) -> Growth:
    """Fit γ to log |h_L - h_0|/|h_0| (depths, draws), and judge.

    Args:
        depths: numbers of layers (m,).
        log_change: log |h_L - h_0|/|h_0| (m, draws).
        log_ratio: log |h_L|/|h_0| (m, draws), which tells a state that dies from one that is stable.
        confidence: confidence level of the interval.
        known: what theory says of γ.
        residual_exponent: the network's.
        exponential: whether an explosion is exponential in the depth; else it is a power.
        exact: how many draws differ where nothing is random, so that these are enough: the interval then
            holds only what finite depth leaves open. 0 where draws are random.
        curve: how the change depends on the time of independent layers; None where that is not known.
        grid_scale: expected size of the coefficient of 1/L, where no curve is known.
        undefined: what made the NaN among the changes; empty if overflow did.
        spent: part of each error rate of the verdict that may be spent here, where several analyses share it.
        one_of: the γ that theory leaves open where it has two parts of which one may be missing.
    """
    certainty = 1.0 - spent * (1.0 - SURE)
    sizes = Sizes.of(depths, log_change[:, :exact] if exact else log_change, certainty)
    changes = Changes(depths, log_change, exponential, bool(exact), undefined, sizes, known)
    failed = verdict.first(failed_preconditions, changes)
    if failed is not None:
        nothing = (np.nan, np.nan)
        return Growth(
            np.nan, nothing, confidence, failed.code, wording.reason(failed), rule=failed.rule, sizes=sizes
        )
    if exact:
        log_change, log_ratio = log_change[:, :exact], log_ratio[:, :exact]
    log_means, variances = _moments(log_change, exponential=exponential)
    variances = np.zeros_like(variances) if exact else variances
    averages = Averages(depths, log_means, variances, NO_SAMPLING_NOISE if exact else log_change.shape[1])
    found = (
        of_power(averages, known, grid_scale)
        if curve is None
        else of_time(averages, curve, residual_exponent)
    )
    evidence = Evidence(
        usual=found.interval(1.0 - spent * 0.05),
        close=found.interval(1.0 - spent * (1.0 - CLOSE)),
        sure=found.interval(certainty),
        change=float(np.median(log_change[-1])),
        left=float(np.median(log_ratio[-1])),
        turns=_turns(depths, log_means, variances),
        theory=known,
        exponent=residual_exponent,
        exponential=exponential,
        sizes=sizes,
        one_of=one_of,
    )
    judged = verdict.judge(rules, evidence)
    return Growth(
        found.exponent,
        found.interval(confidence),
        confidence,
        judged.code,
        wording.reason(judged),
        evidence.sure,
        certainty,
        judged.rule,
        sizes,
    )


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


def is_straighter_as_an_exponential(depths: np.ndarray, log_change: np.ndarray) -> bool:
    """Whether large changes grow rather like exp(L^γ) than like L^γ, by the lines through both logarithms.

    Where σ saturates an explosion is a power, and where it does not (GELU, SiLU) one is exponential. What
    the blocks of a module do nobody knows. Below the size of the state both are one line.
    """
    if len(depths) < 3 or not np.isfinite(log_change).all() or np.median(log_change[-1]) <= 0.0:
        return False
    logs, apart = np.log(depths), []
    for exponential in (True, False):
        values, variances = _moments(log_change, exponential=exponential)
        fitted = line(logs, values, 1.0 / (variances + MODEL_ERROR**2))
        apart.append(math.inf if fitted is None else fitted.chi2)
    return apart[0] < apart[1]


def _turns(depths: np.ndarray, log_means: np.ndarray, variances: np.ndarray) -> bool:
    """Whether the change rises between some depths and falls between others, beyond noise."""
    falls, errors = slopes_between(np.log(depths), log_means, np.diag(variances))
    clear = np.abs(falls) > 5.0 * errors + 0.02
    return bool((falls[clear] < 0).any() and (falls[clear] > 0).any())


def together(hidden: Growth, gradient: Growth) -> StabilityVerdict:
    """Return the verdict on the network: what signal and gradient agree on; explosion of either decides."""
    verdicts = {hidden.verdict, gradient.verdict}
    if EXPLOSION in verdicts:
        return EXPLOSION
    if CANNOT_TELL in verdicts:
        return CANNOT_TELL
    return verdicts.pop() if len(verdicts) == 1 else STABLE
