"""Why a comparison of laws has its verdict, as sentences."""

from __future__ import annotations

from typing import Any

import numpy as np

from deeplimit.common.verdict import Judgement, Sentences, said
from deeplimit.judge.in_law.verdict import SHALLOW, Evidence, more_draws


def reason(judgement: Judgement[Any]) -> str:
    """Return why the verdict is what it is."""
    return said(judgement, SENTENCES)


def _floor(e: Evidence, which: int) -> str:
    """Return a difference at infinite depth with its margin."""
    return f"{e.floors[which]:.3g} ± {e.margins[which]:.2g}"


def _grows_with_depth(e: Evidence) -> str:
    worst = int(np.argmax(np.where(e.growing, np.abs(e.deepest), 0.0)))
    return f"the difference of the {e.names[worst]} grows with depth, to {e.deepest[worst]:.3g}"


def _is_too_uncertain(e: Evidence) -> str:
    worst = int(np.argmax(e.reach))
    times = more_draws(float(e.reach[worst]), e.tolerance)
    seen = "no difference is found, but"
    if bool(e.rejected[:, -1].any()):
        seen = "laws differ at the deepest network, and may agree at infinite depth, where"
    return (
        f"{seen} the {e.names[worst]} is only known to ± {e.reach[worst]:.2g} (tolerance"
        f" {e.tolerance:g}): about {times:.0f} times as many draws would do"
    )


SENTENCES: Sentences[Evidence] = {
    "draws_were_lost": lambda e: (
        f"{e.lost} draws were not finite; dtype='float64' or shallower networks would help"
    ),
    "is_swallowed_by_rounding": lambda e: (
        "the layers change these inputs by nothing, or by less than round-off, so that laws have nothing to"
        " differ in: use other inputs, smaller ones, or dtype='float64'"
        if np.isinf(e.rounding)
        else "the inputs are so large that round-off is about"
        f" {e.rounding:.2g} times of what the layers change (tolerance {e.tolerance:g}); use smaller inputs,"
        " or dtype='float64'"
    ),
    "layers_are_coarse": lambda e: (
        f"differences are there, but layers are {e.coarse[0]:.2g} times too coarse at depth"
        f" {int(e.depths[-1])} to tell what remains at infinite depth: a layer's slope is steep, or large"
        f" weights are rare; take depths up to {e.coarse[1]} or more"
    ),
    "differs_at_infinite_depth": lambda e: (
        f"at infinite depth the {e.names[e.most_significant(e.remains)]} would still be off the limit's by"
        f" {_floor(e, e.most_significant(e.remains))}"
    ),
    "grows_with_depth": _grows_with_depth,
    "follows_no_expansion": lambda e: (
        f"the difference of the {e.names[int(np.argmin(e.fits))]} does not fall like a power of 1/depth:"
        " deeper networks would tell"
    ),
    "differs_at_small_depth": lambda e: (
        f"the {e.names[e.farthest]} seems to differ by {_floor(e, e.farthest)} at infinite depth, but from"
        f" depths below {SHALLOW} that is a guess: deeper networks would tell"
    ),
    "still_changes": lambda e: (
        f"the difference of the {e.names[e.farthest]} still changes with depth, to"
        f" {e.deepest[e.farthest]:.3g} at the deepest: deeper networks would tell"
    ),
    "is_not_shown_clearly": lambda e: (
        f"the {e.names[e.farthest]} seems to differ by {_floor(e, e.farthest)} at infinite depth, which the"
        " deepest network does not show clearly: more draws or deeper networks would decide"
    ),
    "is_too_uncertain": _is_too_uncertain,
    "differs_in_another_way": lambda e: (
        f"mean, spread and shape agree, but the laws of {e.statistics[int(np.argmax(e.unfallen))]} differ at"
        " every depth in a way these do not see; plot the distribution functions"
    ),
    "agrees": lambda e: (
        f"at infinite depth no difference is found, and none can be more than {e.reach.max():.2g} of the"
        " limit's standard deviation in location, or the like in spread and shape"
    ),
}
