"""Every sentence of a comparison: verdict, reservations, pairing, noise, inputs, reference."""

from __future__ import annotations

import math
from typing import Any

from deeplimit import theory
from deeplimit.common.verdict import Sentences
from deeplimit.judge.convergence.pairing import Pairing, Reads
from deeplimit.judge.convergence.verdict import HEAVY, Evidence, Measured, Numbers
from deeplimit.simulation import Task
from deeplimit.statistics.power_law import NO_SAMPLING_NOISE, least_paths

OWN_GRID = "to its own finer grid, and to the limit at most in law: "
"""What converges where layers are not Gaussian, or the limit is one in law."""


def _time(e: Evidence) -> str:
    return "" if e.jump is None else f"{e.jump.time:.4g}"


def _of_deepest(e: Evidence, share: float, least: float = 0.0) -> str:
    """Say a share of their deepest square, not below `least` per cent, as one of the whole error's."""
    if e.part_of_square >= 1.0:
        return f"{max(least, 100 * share):.0f} % of the deepest squared error"
    whole = max(least, 100 * share * e.part_of_square)
    return f"{whole:{'.0f' if whole >= 1 else '.1g'}} % of the deepest squared error"


def _tends_elsewhere(e: Evidence) -> str:
    assert e.remainder is not None  # the rule asked
    return (
        f"the differences of network and limit tend to {100 * e.remainder.size:.3g} % of the deepest one, not"
        f" to 0 (one term of their expansion changes {100 * e.remainder.error:.2g} %), so the limit is"
        " another one"
    )


def _tends_to_an_error(e: Evidence) -> str:
    assert e.remainder is not None  # the rule asked
    return (
        f"the differences of network and limit tend to {100 * e.remainder.size:.3g} % of the deepest one,"
        f" which may be the reference's own error, about {e.resolution:.1e}; a smaller tolerance= would tell"
    )


def _falls(e: Evidence) -> str:
    towards = OWN_GRID * e.on_its_own_grid
    remains = f"at most {_of_deepest(e, e.floor.upper, least=1.0)} would remain at infinite depth"
    text = f"{towards}{e.what} fall with depth; {remains}"
    if e.unsettled:
        return f"{text}. Contributions of several orders mix in them at these depths"
    if not e.hidden:
        return text
    return (
        f"{text}. No order is given: the deepest local slope, {e.last_slope:.2f}, comes mostly from a"
        f" contribution that vanishes faster and hides the one of order {e.order:g}"
    )


def _where_lost(n: Numbers) -> str:
    """Return how many paths were lost at which depths, grouped by the count."""
    lost = sorted({int(count) for count in n.diverged if count > 0})
    return "; ".join(
        f"{count} of {n.paths} paths at depth "
        + ", ".join(str(depth) for depth, at in zip(n.depths, n.diverged, strict=True) if at == count)
        for count in lost
    )


BEFORE_THE_FIT: Sentences[Measured] = {
    "deep_networks_diverge": lambda m: (
        f"{m.diverged[-1]} of {m.paths} paths are not finite at depth {m.depths[-1]}, fewer at smaller"
        " depths: the networks explode with depth"
    ),
    "some_paths_diverge": lambda m: (
        f"up to {m.diverged.max()} of {m.paths} paths are not finite; averaging over the others would"
        " mislead; take smaller weights or inputs, or dtype='float64'"
    ),
    "is_swallowed": lambda m: (
        f"network and limit are equal to the last bit, but round-off reaches {m.resolution:.1e} at states of"
        " this size and may swallow every layer; take smaller inputs, or dtype='float64'"
    ),
    "equals_the_limit": lambda m: (
        "the network equals the limit at every depth, to the last bit; there is no error to fit"
    ),
    "equals_the_limit_up_to_rounding": lambda m: (
        "the network equals the limit at every depth, up to round-off and the reference's error"
        f" ({max(m.resolution, m.accumulated):.1e}); there is no error to fit"
    ),
    "lies_within_resolution": lambda m: (
        f"the errors are no larger than round-off or the reference's error ({m.resolution:.1e}), so no order"
        " can be seen; dtype='float64' or a smaller tolerance= would help"
    ),
    "falls_to_the_resolution": lambda m: (
        f"the errors fall from {m.errors[0]:.1e} to {m.errors[-1]:.1e}, as far as round-off and the"
        f" reference's error ({m.resolution:.1e}) let anybody see"
    ),
    "deepest_is_not_resolved": lambda m: (
        f"the deepest error, {m.errors[-1]:.1e}, is no larger than round-off or the reference's error"
        f" ({m.resolution:.1e}), so no order can be seen; dtype='float64', a smaller tolerance= or smaller"
        " depths would help"
    ),
    "vanishes_at_some_depths": lambda m: (
        "the error is exactly zero at some depths and not at others; take other depths or inputs"
    ),
    "has_too_few_paths": lambda m: (
        f"{m.paths} paths cannot estimate the covariance of {len(m.depths)} depths; use at least"
        f" {least_paths(len(m.depths))}"
    ),
    "rests_on_two_paths": lambda m: (
        f"the spread about the average is that of one or two of the {m.paths} paths (kurtosis"
        f" {m.kurtosis:.0f}), so no uncertainty can be estimated; more paths or a smaller p would help"
    ),
}


def _paths_or(e: Evidence) -> str:
    """Return "more paths or ", but where nothing is random, so that paths tell nothing new."""
    return "" if e.count == NO_SAMPLING_NOISE else "more paths or "


OF_THE_FIT: Sentences[Evidence] = {
    "has_two_depths": lambda e: (
        "two depths cannot tell a slow order from another limit; give at least three, better five over a"
        " factor of 16"
    ),
    "layers_miss_the_weights": lambda e: (
        "weights change between the layers of the deepest network: lines from layer to layer miss"
        f" {e.unseen:.0%} of their root mean square, so deeper networks read other weights; networks deep"
        " enough to follow them would tell"
    ),
    "is_the_limits_scheme": lambda e: (
        f"{OWN_GRID * e.on_its_own_grid}the network is the limit's own scheme on its layers, up to round-off,"
        " and its differences fall"
    ),
    "weights_jump": lambda e: (
        f"{e.what} do not fall, but weights jump at t = {_time(e)}, which layers see up to a layer late: that"
        f" alone explains errors of this size. Take depths L for which {_time(e)} L is whole"
    ),
    "stays_apart": lambda e: (
        f"at the deepest network {e.what} are {max(e.apart, e.apart_by_paths):.3g} times its distance to what"
        " the networks tend to, so the limit is another one"
    ),
    "is_far_from_a_power_law": lambda e: (
        f"{e.what} still fall, with slope {e.last_slope:.2f} between the deepest two, but by no power law"
        " in sight: the depths are too small for this equation; deeper networks would tell"
    ),
    "goes_away": lambda e: (
        f"{e.what} grow with depth, like depth^{-e.last_slope:.2f} between the deepest two and hardly less"
        " before that, so the networks go away from this limit"
    ),
    "is_still_moving": lambda e: (
        f"{e.what} do not fall, but the networks have not settled: from depth to depth they change as much,"
        " or hardly less, so they may yet come to the limit; deeper networks would tell"
    ),
    "grows_ever_more_slowly": lambda e: (
        f"{e.what} grow with depth, to {math.exp(-e.fallen):.2f} times the coarsest, but ever more slowly,"
        " so they may yet fall; deeper networks would tell"
    ),
    "falls_to_what_can_be_resolved": lambda e: (
        f"{e.what} have reached round-off or the reference's error, about {e.resolution:.1e};"
        " dtype='float64', a smaller tolerance= or smaller depths would help"
    ),
    "tends_to_what_can_be_resolved": _tends_to_an_error,
    "is_flat": lambda e: (
        f"{e.what} do not fall with depth (order at most {e.interval[1]:.3f}), so the limit is another one"
    ),
    "has_grown_and_is_level": lambda e: (
        f"{e.what} do not fall with depth: the deepest is {math.exp(-e.fallen):.2f} times the coarsest, and"
        " they stay level there, so the limit is another one"
    ),
    "levels_off": lambda e: (
        f"{e.what} level off: {_of_deepest(e, e.floor.share)} remains at infinite depth, so the limit is"
        " another one"
    ),
    "tends_elsewhere": _tends_elsewhere,
    "seems_to_level_off": lambda e: (
        f"{e.what} seem to level off, but the spread about their mean is that of a few of the {e.count} paths"
        f" (kurtosis {e.kurtosis:.0f}); more paths or a smaller p would help"
    ),
    "follows_no_power_law": lambda e: (
        f"no power law fits {e.what}, whose deepest slope is still {e.last_slope:.2f}, so they give"
        " no order; weights may vary faster than the networks resolve, or jump; deeper networks would help"
    ),
    "mixes_orders": lambda e: (
        f"contributions of several orders mix: the deepest local slope is {e.last_slope:.2f}, an"
        f" extrapolation says {e.rate:.2f}, so that {e.what} give no order; deeper networks would tell"
    ),
    "may_not_fall": lambda e: (
        f"{e.what} alone give the order an interval from {e.interval[0]:.2f} to {e.interval[1]:.2f}, which"
        f" contains 0; {_paths_or(e)}a wider range of depths would help"
    ),
    "may_level_off": lambda e: (
        f"a floor, as if the limit were another one, has probability {e.floor.probability:.2f}"
        f" ({e.levels.doubtful:g} is allowed); {_paths_or(e)}deeper networks would decide"
    ),
    "may_hide_a_floor": lambda e: (
        f"{e.what} fall, but up to {_of_deepest(e, e.floor.upper)} may be a floor, which several interfering"
        " contributions can hide; deeper networks would tell"
    ),
    "may_remain": lambda e: (
        f"{e.what} fall, but up to {e.may_remain:.2g} may remain at infinite depth,"
        f" {e.may_remain / e.movement:.0%} of how far the limit moves;"
        f" {_paths_or(e)}deeper networks would tell"
    ),
    "has_a_small_floor": lambda e: (
        f"{e.what} fall, but {_of_deepest(e, e.floor.share)} looks like a floor: the limit is slightly off,"
        " or the depths are too small; deeper networks would tell"
    ),
    "falls_too_slowly": lambda e: (
        f"{e.what} fall, but more slowly than this network reaches its limit (order {e.order:g}): the limit"
        " is slightly off, or the depths are too small; deeper networks would tell"
    ),
    "falls": _falls,
}
REASONS: Sentences[Any] = {**BEFORE_THE_FIT, **OF_THE_FIT}
"""Why a verdict is what it is."""
OF_THE_NUMBERS: Sentences[Numbers] = {
    "limit_was_lost": lambda n: (
        f"the limit itself was not finite on {n.limit_lost} of {n.paths} paths, which count as lost at every"
        " depth."
    ),
    "paths_were_lost": lambda n: (
        f"not finite: {_where_lost(n)}. The error there is infinite, not the average over the other paths."
    ),
    "paths_are_few": lambda n: (
        f"{n.paths} paths are few for covariances between depths; take paths=400 for a reliable interval."
    ),
    "medians_are_taken": lambda n: (
        "errors are medians over paths at the times that all depths share: a few paths make up every mean,"
        " or are not finite"
        f"{f' (up to {n.diverged.max()} of {n.paths}, which count as the largest)' * bool(n.diverged.any())}."
        " Convergence is judged in probability."
    ),
    "tails_are_heavy": lambda n: (
        f"the per-path errors have kurtosis {n.kurtosis.max():.0f} (over {HEAVY:g}): a few paths dominate."
        " Standard errors are too small, and the interval allows for some of it; take deeper networks, whose"
        " errors have more terms, or many more paths."
    ),
    "reference_is_coarse": lambda n: (
        f"the reference solution's error, about {n.reference_error:.1e}, is close to the smallest error"
        f" {n.smallest:.1e}; give a smaller tolerance=."
    ),
    "reference_is_worse": lambda n: (
        f"both parts fall {math.exp(n.parts_fall):.2g}-fold, and the errors"
        f" {n.errors[0] / n.errors[-1]:.2g}-fold: the network is nearer to the limit than the reference,"
        " whose error these are. Order and parts do not depend on it; a larger reference= makes it smaller."
    ),
    "reference_changes_errors": lambda n: (
        "the reference solution's error changes some errors by more than half; give a larger reference=."
    ),
    "rounding_shows": lambda n: (
        f"round-off, about {n.rounding:.1e}, is close to the smallest error {n.smallest:.1e}; "
        + ("take dtype='float64'." if n.narrow else "do not interpret differences at this level.")
    ),
    "order_is_not_the_predicted": lambda n: (
        f"the interval [{n.interval[0]:.3f}, {n.interval[1]:.3f}] excludes the predicted"
        f" order{' at least' if n.is_bound else ''} {n.predicted:g}"
        ". Either the depths are too small for the asymptotic order, which deeper networks would show, or"
        " this is a finding."
        f"{' The theorem assumes what is not known here: ' if n.unknown else ''}{' '.join(n.unknown)}"
    ),
    "theorem_is_contradicted": lambda n: (
        "this contradicts the theorem named above."
        f"{' It assumes what is not known here: ' if n.unknown else ''}{' '.join(n.unknown)}"
        " Either the depths are too small for how fast the weights vary, which deeper networks would show,"
        " or this is a finding."
    ),
    "slopes_drift": lambda n: (
        f"the local slopes still drift, by {n.drift:.2f} from the first to the last: read the order as local,"
        " or add deeper networks."
    ),
    "errors_fall_faster_than_the_order": lambda n: (
        f"at these depths the errors fall with slope {n.steepness:.2f}; the order {n.rate:.2f} is that of a"
        " smaller part, which falls more slowly and takes over at larger depth."
    ),
}


OF_THE_SENSE = (
    "the limit is read in Stratonovich's sense, where layers that add noise as Euler steps do tend to an"
    " equation in Itô's: with the same coefficients that is another one."
)
"""A caveat where such a limit is not the network's."""
PATH_BY_PATH = " path by path, though in law a step is the same"
"""What ends the reason then."""
OF_OTHER_MOTIONS = (
    "the limit's noise has the covariance of the network's and reads other Brownian motions. dB[i, j] moves"
    " entry (i, j) of a weight (out, in), as in (dB @ v.unsqueeze(2)).squeeze(2). compare_laws(resnet, limit)"
    " compares laws."
)
"""A caveat where a limit is another one path by path alone."""
OF_SINGLE_STEPS = (
    "the network is the scheme that the limit is solved with, and these depths leave its order in doubt: the"
    " order is that of single steps of lengths down to 2^-32."
)
"""A caveat where errors do not say the order."""


def pairing_notes(task: Task, pairing: Pairing, corrected: bool) -> list[str]:
    """Return what to know of how this network was paired with this limit."""
    notes = [*_limit_notes(pairing, corrected), *theory.reservations(task.network)]
    if task.statistic.looks_between_layers:
        slowly = "; its order is approached slowly, as √(log L / L)" if pairing.diffuses else ""
        notes.append(
            f"the sup over all times is taken at the {task.grid.size} points of the common grid and misses"
            f" what happens between them{slowly}."
        )
    if task.narrowed:
        notes.append(
            "float32, because the limit's parameters are float32; module.double() gives more digits."
        )
    if task.h0 is not None and len(task.h0) > task.paths:
        notes.append(
            f"only the first {task.paths} of the {len(task.h0)} inputs were used, one per path; raise paths="
            " to use all."
        )
    return notes


def _limit_notes(pairing: Pairing, corrected: bool) -> list[str]:
    notes = []
    if not pairing.gaussian and pairing.regime.convergence == "in law":
        notes.append(
            "the weights are not Gaussian: the limit holds in law, and strong convergence to it is not"
            " expected. What was measured is the distance to the same recursion on a finer grid, whose summed"
            " draws make the coarse layers. compare_laws compares the laws at time 1."
        )
    elif pairing.regime.convergence == "in law":
        notes.append(
            "the network's limit is in law only, and no theorem says that it meets this one on the same"
            " noise; compare_laws compares the laws at time 1."
        )
    if pairing.independent:
        notes.append("the limit is driven by independent noise on purpose: this control must not converge.")
    if not pairing.own and not pairing.independent:
        regime = pairing.regime
        known = f" Theory's regime of this network is {regime.name}: {regime.explanation}"
        notes.append(
            "no theorem pairs this network with this limit; the order is measured, not predicted."
            + known * (regime.theorem is not None)
        )
        if corrected and not pairing.splits:
            notes.append(
                "errors above the floor that was found are corrected for the reference solution's step size;"
                " `raw_errors` are not."
            )
    return notes


def inputs(task: Task) -> str:
    """Return where the paths start."""
    if task.h0 is None:
        return "standard normal h_0, one per path"
    count = len(task.h0)
    how = "all through each path's network" if task.same_network else "in turn"
    if task.input_size == math.prod(task.network.state_shape):
        return f"{count} given as h_0, {how}"
    return (
        f"{count} of {task.input_size} numbers each, {how}, through one input layer of N(0,"
        f" 1/{task.input_size}) entries"
    )


def coupling(task: Task, pairing: Pairing) -> str:
    """Return what the network and the limit share."""
    reads = pairing.reads
    if task.coupling == "projected":
        how = "the same noise, drawn only through its products with their states"
        if reads is Reads.INCREMENTS:
            return f"projected: every depth and the limit read {how}"
        rest = "independent noise, drawn whole" if pairing.independent else "none of it"
        if reads is Reads.FUNCTIONS:
            rest = "their functions of time"
        return f"projected: every depth reads {how}; the limit reads {rest}"
    if reads is Reads.INCREMENTS:
        return "pathwise: every depth and the limit read the same increments, all of each layer drawn"
    if reads is Reads.PATH:
        return "pathwise: every depth and the limit read the same fractional path, drawn whole"
    its = "is deterministic" if reads is Reads.NOTHING else "draws separate noise"
    if any(channel.is_separate for channel in task.network.channels):
        return f"nothing is shared: weights are made separately at each depth, and the limit {its}"
    if pairing.given:
        return "none: the weights are given functions of time; paths differ only by their inputs"
    if reads is Reads.FUNCTIONS:
        return "pathwise: every depth and the limit read the same functions of time"
    return f"pathwise: every depth reads the same path; the limit {its}"
