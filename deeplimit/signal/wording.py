"""Why a signal's or a gradient's growth has its verdict, as sentences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from deeplimit.common.verdict import Judgement, Sentences, said
from deeplimit.signal.bounds import power_of_ten
from deeplimit.signal.growth_verdict import RESOLUTION, Changes, Evidence
from deeplimit.signal.sizes import Sizes
from deeplimit.statistics.power_law import least_paths


def reason(judgement: Judgement[Any]) -> str:
    """Return why the verdict is what it is."""
    return said(judgement, {**BEFORE_THE_FIT, **OF_THE_FIT})


NO_LAW = "its law is not resolved"


def sizes(s: Sizes) -> str:
    """Return how large the change is at the deepest network, and how much of that came with the depth."""
    (shallow, deep), factor = s.depths, s.log_factor
    median = f"the median change is {power_of_ten(s.log_medians[1])} at depth {deep}"
    if not math.isfinite(factor):
        return median
    return f"{median}, {power_of_ten(factor)} times that at depth {shallow}"


BEFORE_THE_FIT: Sentences[Changes] = {
    "are_undefined": lambda c: f"{np.isnan(c.log_change).mean():.1%} of the networks gave NaN: {c.undefined}",
    "deepest_overflowed": lambda c: f"{c.overflowed[-1].mean():.0%} of the deepest networks overflowed",
    "explodes_without_a_fit": lambda c: f"the change is large, and by theory grows with the depth; {NO_LAW}",
    "vanishes_without_a_fit": lambda c: (
        f"the change is small and falls with the depth, as theory says; {NO_LAW}"
    ),
    "some_overflowed": lambda c: (
        f"{c.overflowed.mean():.1%} of the networks overflowed; dtype='float64' or smaller depths would help"
    ),
    "deepest_are_unchanged": lambda c: "the deepest networks change nothing at all",
    "a_depth_is_unchanged": lambda c: (
        "at some depth the networks change nothing at all; take other depths or inputs"
    ),
    "some_are_unchanged": lambda c: (
        "some networks change nothing at all, so logarithms have no mean; take other inputs"
    ),
    "depths_are_few": lambda c: "growth with depth needs at least three depths",
    "draws_are_few": lambda c: (
        f"{'1 draw is' if c.draws == 1 else f'{c.draws} draws are'} too few for an interval; take"
        f" {least_paths(len(c.depths))} or more"
    ),
}


def _left(e: Evidence) -> str:
    return " or ".join(f"{each:g}" for each in e.one_of)


OF_THE_FIT: Sentences[Evidence] = {
    "dies": lambda e: (
        f"it dies: at the deepest network a median share of {math.exp(e.left):.2g} is left, so that its"
        " change is 1; read the ratios instead"
    ),
    "grows_no_further_than_a_turn": lambda e: (
        "the change grows, but is no larger than that of a state that dies or turns round; take deeper"
        " networks"
    ),
    "is_not_small_yet": lambda e: "the change falls, but is not small yet: take deeper networks",
    "contradicts_theory": lambda e: (
        f"theory has {e.theory.predicted:g}, which is {e.expected}: these depths are still far from infinite"
        " depth; take deeper networks"
    ),
    "should_stay": lambda e: (
        f"theory has a change that stays up to the exponent {e.theory.vanishes_beyond:g}: these depths are"
        " far from infinite; take deeper networks"
    ),
    "may_level_off": lambda e: (
        f"the change falls, but theory leaves γ = {_left(e)}: a part that stays may be too small to be seen;"
        " take deeper networks"
    ),
    "is_far_from_critical": lambda e: (
        f"theory has {e.theory.critical:g} as the critical exponent: these depths are still far from infinite"
        " depth; take deeper networks"
    ),
    "follows_no_power": lambda e: (
        "the change follows no power of the depth: it rises between some depths and falls between others;"
        " take deeper networks"
    ),
    "vanishes": lambda e: "the change vanishes as the depth grows",
    "grows": lambda e: (
        "the change grows without bound with the depth"
        if e.exponential
        else "the change itself, not log(1 + x), grows without bound like this power of the depth"
    ),
    "stays": lambda e: (
        f"no growth or decay with depth: residual exponents {RESOLUTION:g} and more from the critical one are"
        " excluded"
    ),
    "can_only_vanish": lambda e: f"the change vanishes as the depth grows: theory leaves γ = {_left(e)}",
    "can_only_stay": lambda e: (
        f"no growth or decay with depth: theory leaves γ = {_left(e)}, and the data exclude the second"
    ),
    "explodes_in_size": lambda e: f"the change is large and grows with the depth; {NO_LAW}",
    "vanishes_in_size": lambda e: f"the change is small and falls with the depth, as theory says; {NO_LAW}",
    "is_likely_to_change": lambda e: (
        "growth or decay is likely (95 %) but not certain (99.9 %): take more draws, or depths over a larger"
        " range"
    ),
    "is_too_uncertain": lambda e: "the interval is too wide: take more draws, or depths over a larger range",
}
