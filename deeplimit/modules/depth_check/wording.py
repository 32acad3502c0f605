"""What becomes of a residual stream, and why, as sentences."""

from __future__ import annotations

from typing import Any

from deeplimit.common.verdict import Judgement, Sentences, said
from deeplimit.modules.depth_check.stream_meaning import Evidence, power

OUTGROWING = 0.1
"""How much faster what updates add must grow than the state to be told: intervals are half of it."""

SLOW = 0.05
"""Powers of the depth below this change all updates together by less than an eighth where it is tenfold."""


def reason(judgement: Judgement[Any]) -> str:
    """Return why the meaning is what it is."""
    return said(judgement, OF_A_STREAM)


def _per_sum(e: Evidence) -> str:
    whole = power(e.skip[-1], e.sums[-1])
    return f"the skips multiply the state by {e.skip[-1]:.4g} per sum, by {whole:.3g} over {e.sums[-1]} sums"


def _power_of_depth(e: Evidence) -> str:
    exponent, added = e.growth_exponent or 0.0, e.added_exponent
    if not exponent > 0.05:
        return "the state hardly grows yet"
    told = f"the state grows like depth^{exponent:.2f}"
    if added is None or not added > exponent + OUTGROWING:
        return told
    return f"{told} so far (what updates add to it, like depth^{added:.2f})"


def _all_together(e: Evidence) -> str:
    """Return how all updates together change with the depth, as far as that is beyond chance."""
    if e.excess is None or e.excess.low <= 0 <= e.excess.high or abs(e.excess.value) < SLOW:
        return "are as large at any depth"
    return f"{'fall' if e.excess.value > 0 else 'grow'} like depth^{-e.excess.value:.2f}"


def _share(value: float) -> str:
    """Return a share in percent with two digits, at most all: "100 %", "4.7 %"."""
    percent = 100 * min(value, 1.0)
    return f"{percent:.0f} %" if percent >= 99.5 else f"{percent:.2g} %"


OF_A_STREAM: Sentences[Evidence] = {
    "dies_out": lambda e: (
        f"the last state is {e.growth[0]:.3g} times as large as the first at the smallest depth and"
        f" {e.growth[-1]:.3g} times at the largest: every layer takes a part of the state away"
    ),
    "is_forgotten": lambda e: (
        f"the gradient at the first state is {e.gradient_growth[0]:.3g} times that at the last at the"
        f" smallest depth and {e.gradient_growth[-1]:.3g} times at the largest: branches replace the state,"
        " and the last one does not depend on the first"
    ),
    "grows_by_earlier_states": lambda e: (
        f"{_power_of_depth(e)}, and its branches do not explain that: earlier states, or something else, are"
        f" added between sums (up to {_share(max(*e.mixed, e.bent))} of a state)"
    ),
    "holds_by_earlier_states": lambda e: (
        "earlier states, or something else, are added between sums, the last state has cosine"
        f" {e.turned[-1]:.2f} with the first"
    ),
    "is_mixed": lambda e: (
        "earlier states, or something else, are added between sums (up to"
        f" {_share(max(e.mixed))} of a state), so that skip and updates are not the whole"
    ),
    "is_bent": lambda e: (
        f"a function of the state stands between sums (and changes up to {_share(e.bent)} of it), so that"
        " skip and updates are not the whole"
    ),
    "is_multiplied": lambda e: f"{_per_sum(e)}, so the state grows exponentially",
    "is_damped": lambda e: f"{_per_sum(e)}, so the input is forgotten exponentially",
    "grows_exponentially": lambda e: (
        f"the state grows {power(e.growth[-1], 1 / e.sums[-1]):.3g}x per sum, faster than any power of the"
        " depth"
    ),
    "gradient_grows_exponentially": lambda e: (
        f"the gradient grows {power(e.gradient_growth[-1] or 0.0, 1 / e.sums[-1]):.3g}x per sum backwards,"
        " faster than any power of the depth"
    ),
    "is_one_depth": lambda e: (
        f"{_share(e.kept[-1])} of the last state came through the skips alone"
        if e.turned[-1] is None
        else f"the last state is {e.growth[-1]:.3g} times as large as the first, at cosine {e.turned[-1]:.2f}"
    ),
    "is_scaled_as_a_whole": lambda e: (
        f"the skips multiply the state by {power(e.skip[0], e.sums[0]):.3g} in all at the smallest depth, by"
        f" {power(e.skip[-1], e.sums[-1]):.3g} at the largest: a drift"
    ),
    "moves_all_the_same": lambda e: (
        f"each layer's update falls, and yet the state moves by {e.changes[0]:.2g} of itself in the"
        f" shallowest network and by {e.changes[-1]:.2g} in the deepest: something else adds updates up, as"
        " a velocity does"
    ),
    "stands_still": lambda e: "all updates together vanish as depth grows",
    "outgrows": lambda e: f"{_power_of_depth(e)}, though all updates together {_all_together(e)}",
    "has_a_finite_clock": lambda e: f"all updates together {_all_together(e)}",
    "is_turned_at_any_depth": lambda e: (
        f"each sum is normalised again; {_share(e.kept[-1])} of the last state came through the skips"
    ),
    "has_a_logarithmic_clock": lambda e: (
        f"{_power_of_depth(e)}, and no update grows with it: later layers turn the state ever less, all"
        " together by the logarithm of the depth"
    ),
    "grows": _power_of_depth,
}
