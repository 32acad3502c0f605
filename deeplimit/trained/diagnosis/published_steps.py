"""What Steps 1 to 5 of Cohen et al. (2021), Section 2, say of the same weights, taken literally."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from deeplimit.common.verdict import RegimeVerdict

VANISHES = -0.1
"""A slope of the β-scaled increments below this reads "vanishes"."""
FLAT = 0.1
"""A slope of the root sum of squares, or of the maximum, within this reads "bounded", or "constant"."""


@final
@dataclass(frozen=True)
class PublishedSteps:
    """The published steps, with their numbers.

    Attributes:
        verdict: what they decide.
        alpha: minus the slope of the largest residual factor; None where none is given.
        beta: one minus the slope of the cumulative sum.
        scaled_increments: slope of L^β max |A_{k+1} - A_k|.
        root_sum: slope of the root sum of squares.
        steps: the five steps, in words.
        difference: why the report's verdict is another one; empty where it is not.
    """

    verdict: RegimeVerdict
    alpha: float | None
    beta: float
    scaled_increments: float
    root_sum: float
    steps: tuple[str, ...]
    difference: str


def follow(
    depths: np.ndarray,
    values: Mapping[str, np.ndarray],
    factors: np.ndarray | None,
    decided: RegimeVerdict,
) -> PublishedSteps:
    """Return what the steps say, with slopes by least squares of logarithms as in the paper.

    Args:
        depths: depth of each network (n,).
        values: quantities by the names of `PUBLISHED`, (n,) each.
        factors: the largest residual factor of each network (n,); None where none are given.
        decided: the verdict beside which they are shown.

    Returns:
        The steps.

    Not checked: that values are positive.

    Examples:
        >>> depths = np.array([8, 16, 32])
        >>> powers = {"maximum": -0.3, "increments": -0.54, "cumulative sum": 0.7, "root sum of squares": 0.2}
        >>> values = {name: depths**power for name, power in powers.items()}
        >>> follow(depths, values, None, RegimeVerdict.SDE).verdict
        'linear-ode'
    """
    slopes = {name: _slope(depths, numbers) for name, numbers in values.items()}
    alpha = None if factors is None else -_slope(depths, factors)
    beta = 1 - slopes["cumulative sum"]
    still = not np.any(values["increments"])  # layers that are one: any norm of what they change by vanishes
    scaled = -math.inf if still else slopes["increments"] + beta
    root, maximum = slopes["root sum of squares"], slopes["maximum"]
    if scaled < VANISHES:
        word, third = RegimeVerdict.LINEAR_ODE, "vanishes: Hypothesis 1"
    elif abs(maximum) < FLAT:
        word, third = RegimeVerdict.SPARSE, "does not vanish, and the maximum is constant: neither"
    elif abs(root) < FLAT and beta >= 0.5 - FLAT:
        word, third = RegimeVerdict.SDE, "does not vanish: Hypothesis 2"
    elif math.isnan(beta):
        word, third = RegimeVerdict.CANNOT_TELL, ""
    else:
        word, third = RegimeVerdict.CANNOT_TELL, "does not vanish, but steps 4 and 5 do not give Hypothesis 2"
    steps = (
        ("Steps 1 to 5 read powers of the depth, which one depth does not have",)
        if len(np.unique(depths)) < 2
        else _in_words(slopes, alpha, beta, scaled, third)
    )
    return PublishedSteps(
        word,
        alpha,
        beta,
        scaled,
        root,
        steps,
        _difference(word, decided, beta),
    )


def _in_words(
    slopes: Mapping[str, float], alpha: float | None, beta: float, scaled: float, third: str
) -> tuple[str, ...]:
    """Return the five steps as sentences."""
    root = slopes["root sum of squares"]
    return (
        "Step 1: no residual factors are given"
        if alpha is None
        else f"Step 1: the largest residual factor is L^{-alpha:.2f}, α = {alpha:.2f}",
        *(
            (
                "Step 2: the layers add up to 0, which has no power, so that no β is read off it",
                "Step 3: without β no norm is scaled",
            )
            if math.isnan(beta)
            else (
                f"Step 2: the cumulative sum is L^{slopes['cumulative sum']:.2f}, β = {beta:.2f}",
                f"Step 3: the β-scaled norm of increments is {_norm(scaled)} and {third}",
            )
        ),
        "Step 4: the noise is drawn as L^(β - 1) W, which vanishes for every β below 1",
        "Step 5: the root sum of squares is 0, which has no power"
        if math.isnan(root)
        else f"Step 5: the root sum of squares is L^{root:.2f}",
    )


def _norm(power: float) -> str:
    return "0" if power == -math.inf else f"L^{power:.2f}"


def _slope(depths: np.ndarray, values: np.ndarray) -> float:
    """Return the slope of log values in log depth by least squares; NaN for one depth, or for zeros."""
    if len(np.unique(depths)) < 2 or not (values > 0).all():
        return float("nan")
    return float(np.polyfit(np.log(depths), np.log(values), 1)[0])


def _difference(word: RegimeVerdict, decided: RegimeVerdict, beta: float) -> str:
    if word == decided:
        return ""
    if decided is RegimeVerdict.CANNOT_TELL:
        return "the published steps have no intervals"
    if decided is RegimeVerdict.SDE and word is RegimeVerdict.LINEAR_ODE:
        return (
            "Step 3 is blind: noise makes the β-scaled norm of increments L^(β - 1/2) ="
            f" L^{beta - 0.5:.2f}, which vanishes for every β below 1/2"
        )
    if decided is RegimeVerdict.NO_TREND:
        return "β is read off a sum in which no trend is found"
    if decided is RegimeVerdict.NEURAL_ODE:
        return "the published steps have no class for weights that are smooth and keep their size"
    return "β is read off the sum of all layers, and noise off a maximum"
