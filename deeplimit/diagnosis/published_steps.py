"""What Steps 1 to 5 of Cohen et al. (2021), Section 2, say of the same weights, taken literally."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from deeplimit.diagnosis.slopes import Slope
from deeplimit.ground.verdict import Verdict

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

    verdict: Verdict
    alpha: float | None
    beta: float
    scaled_increments: float
    root_sum: float
    steps: tuple[str, ...]
    difference: str


def follow(slopes: Mapping[str, Slope], alpha: Slope | None, decided: Verdict) -> PublishedSteps:
    """Return what the steps say of slopes by the names of `QUANTITIES`, beside what was `decided`.

    Examples:
        >>> flat = {name: Slope(s, (s, s), (s, s)) for name, s in {"maximum": -0.3, "increments": -0.54,
        ...     "cumulative sum": 0.7, "root sum of squares": 0.2}.items()}
        >>> follow(flat, None, Verdict.SDE).verdict
        'linear-ode'
    """
    beta = 1 - slopes["cumulative sum"].value
    scaled = slopes["increments"].value + beta
    root, maximum = slopes["root sum of squares"].value, slopes["maximum"].value
    if scaled < VANISHES:
        word, third = Verdict.LINEAR_ODE, "vanishes: Hypothesis 1"
    elif abs(maximum) < FLAT:
        word, third = Verdict.SPARSE, "does not vanish, and the maximum is constant: neither"
    elif abs(root) < FLAT and beta >= 0.5 - FLAT:
        word, third = Verdict.SDE, "does not vanish: Hypothesis 2"
    else:
        word, third = Verdict.CANNOT_TELL, "does not vanish, but steps 4 and 5 do not give Hypothesis 2"
    steps = (
        "Step 1: no residual factors are given"
        if alpha is None
        else f"Step 1: the largest residual factor is L^{-alpha.value:.2f}, α = {alpha.value:.2f}",
        f"Step 2: the cumulative sum is L^{slopes['cumulative sum'].value:.2f}, β = {beta:.2f}",
        f"Step 3: the β-scaled norm of increments is L^{scaled:.2f} and {third}",
        "Step 4: the noise is drawn as L^(β - 1) W, which vanishes for every β below 1",
        f"Step 5: the root sum of squares is L^{root:.2f}",
    )
    return PublishedSteps(
        word,
        None if alpha is None else alpha.value,
        beta,
        scaled,
        root,
        steps,
        _difference(word, decided, beta),
    )


def _difference(word: Verdict, decided: Verdict, beta: float) -> str:
    if word == decided:
        return ""
    if decided is Verdict.CANNOT_TELL:
        return "the published steps have no intervals"
    if decided is Verdict.SDE and word is Verdict.LINEAR_ODE:
        return (
            "Step 3 is blind: noise makes the β-scaled norm of increments L^(β - 1/2) ="
            f" L^{beta - 0.5:.2f}, which vanishes for every β below 1/2"
        )
    if decided is Verdict.NO_TREND:
        return "β is read off a sum in which no trend is found"
    if decided is Verdict.NEURAL_ODE:
        return "the published steps know no weights that keep their size and are smooth"
    return "β is read off the sum of all layers, and noise off a maximum"
