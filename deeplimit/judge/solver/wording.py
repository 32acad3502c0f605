"""What `order` and `check_solver` say: one sentence per rule of `verdict`, and nothing decided here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from deeplimit.judge.solver.verdict import grow, odd_level

Sentences = Mapping[str, Callable[[Any], str]]


def _interval(report: Any) -> str:
    low, high = report.rate_interval
    return f"[{low:.3f}, {high:.3f}]"


BLOWN = 100.0
"""Changes of means scatter this many times as much as those of the next steps where a scheme blows up on a
few paths: between neighbours, weak orders of 1 and 2 leave factors of 2 to 4."""
CLEAR = 0.1
"""Changes of means with a relative standard error below this are known: more paths tell nothing more."""
COARSEST = 4
"""From so few steps on, coarser ones are no advice."""


def _for_weak_orders(r: Any) -> str:
    """Return what would resolve a weak order: other steps, or more paths."""
    errors = [float(error) for error in r.standard_errors]
    blown = [k for k in range(len(errors) - 1) if errors[k] > BLOWN * errors[k + 1] > 0]
    if blown:
        steps = [int(r.steps[blown[-1] + 1]) * 2**k for k in range(len(r.steps))]
        return (
            f"At {r.steps[blown[-1]]} steps a few paths that the solver throws far away make up the means:"
            f" take steps={(*steps,)}"
        )
    if errors and errors[-1] < CLEAR * abs(float(r.differences[-1])):
        return f"Take more numbers of steps: steps={(*map(int, r.steps), 2 * int(r.steps[-1]))}, say"
    coarser = ", or coarser steps, whose errors stand out of the noise first" if r.steps[0] > COARSEST else ""
    return f"Take paths={4 * r.paths}, say{coarser}"


def _odd(r: Any) -> str:
    level, factor = odd_level(r.steps, r.errors) or (0, 1.0)
    return (
        f"the error at {r.steps[level]} steps is {factor:.2g} times what the other numbers of steps say: see"
        " what is wrong there, or leave it out."
    )


def _paths_or(r: Any) -> str:
    """Return "more paths or ", but of one vector of errors, which has none."""
    return "" if r.average == "single" else "more paths or "


def order_line(report: Any) -> list[str]:
    """Return the order with its interval in a line; nothing where there is none."""
    if not math.isfinite(report.rate):
        return []
    documented = getattr(report, "documented", None)
    told = "" if documented is None else f", documented {documented:g}"
    return [f"order {report.rate:.3f}, {100 * report.confidence:g} % interval {_interval(report)}{told}"]


def function_line(each: Any) -> str:
    """Return the weak order of one test function in a line."""
    if not each.resolved:
        return f"{each.name}: its weak error is noise, or does not fall yet"
    low, high = each.rate_interval
    gap = "" if math.isnan(each.gap) else f"; {each.gap:.2g} from the reference, {each.allowed:.2g} allowed"
    return f"{each.name}: weak order {each.rate:.3f} [{low:.3f}, {high:.3f}]{gap}"


def resolvable_line(report: Any) -> list[str]:
    """Return what the number of paths resolves, in a line; nothing for strong convergence."""
    if not report.resolvable:
        return []
    ends = f"{report.resolvable[0]:.2g} at {report.steps[0]} steps, {report.resolvable[-1]:.2g} at"
    return [f"changes of means above {ends} {report.steps[-2]} (two standard errors, from a pilot)"]


def _floor(report: Any) -> str:
    return f"{100 * report.floor:.0f} % of the squared error at {report.steps[-1]} steps"


def _deepest(report: Any) -> str:
    allowed = report.remaining + report.reference_error
    return (
        f"the distance to the solution is {report.distances[-1]:.3g} at {report.steps[-1]} steps, where"
        f" further steps and the reference's error allow {allowed:.2g}"
    )


def _span(ends: tuple[float, float]) -> str:
    return f"[{ends[0]:.2f}, {ends[1]:.2f}]"


def work_lines(report: Any) -> list[str]:
    """Return the exponents of the tolerance and of the work, a line each; nothing where there are none."""
    lines = []
    level = f"{100 * report.confidence:g} % interval"
    if math.isfinite(report.exponent):
        lines.append(f"error ~ tolerance^{report.exponent:.2f}, {level} {_span(report.exponent_interval)}")
    if math.isfinite(report.work_order):
        known = "" if report.documented is None else f"; the method's order is {report.documented:g}"
        lines.append(
            f"order {report.work_order:.2f} in evaluations, {level}"
            f" {_span(report.work_order_interval)}{known}"
        )
    return lines


WORK: Sentences = {
    "runs_are_lost": lambda r: f"{r.lost} of {r.paths} runs are not finite; take finer tolerances",
    "tolerances_are_few": lambda r: (
        f"only {r.levels} of {len(r.tolerances)} tolerances have errors above the reference's own"
        f" ({r.reference_error:.1e}); take looser tolerances, or an equation with solution="
    ),
    "tolerances_are_met": lambda r: (
        f"every error is below its tolerance ({r.errors[r.levels - 1]:.2g} at"
        f" {r.tolerances[r.levels - 1]:.0e}) and hardly falls with it: steps may be short for another reason;"
        " take finer tolerances"
    ),
    "hardly_moves": lambda r: (
        f"the error is {r.errors[0]:.2g} at tolerance {r.tolerances[0]:.0e} and {r.errors[-1]:.2g} at"
        f" {r.tolerances[-1]:.0e}"
    ),
    "levels_off": lambda r: (
        f"the error stays near {r.errors[r.levels - 1]:.2g} from tolerance"
        f" {r.tolerances[r.levels - 3]:.0e} on, and the reference's own is {r.reference_error:.1e}: see that"
        " the solver ends at time 1, and solves this equation"
    ),
    "lags_behind": lambda r: (
        f"the error falls with the power {r.exponent:.2f} {_span(r.exponent_interval)} of the tolerance; at"
        f" {r.tolerances[-1]:.0e} it is {r.errors[-1] / r.tolerances[-1]:.2g} times as large"
    ),
    "exponent_is_open": lambda r: (
        f"the power {r.exponent:.2f} {_span(r.exponent_interval)} of the tolerance may be below 0.75, or"
        " above; take more tolerances, or more runs"
    ),
    "follows": lambda r: (
        f"the error falls with the power {r.exponent:.2f} {_span(r.exponent_interval)} of the tolerance; at"
        f" {r.tolerances[r.levels - 1]:.0e} it is"
        f" {r.errors[r.levels - 1] / r.tolerances[r.levels - 1]:.2g} times as large"
    ),
}
ORDER: Sentences = {
    "some_are_not_finite": lambda r: (
        f"{r.lost} of {r.paths} paths have an error that is not finite, and averages over the others would"
        " mislead; find out why they are lost"
    ),
    "all_vanish": lambda r: "all errors are exactly 0, so no order can be seen",
    "vanish_on_every_path": lambda r: (
        "every path has an error of exactly 0 at some number of steps; leave these numbers of steps out"
    ),
    "have_few_levels": lambda r: (
        "two numbers of steps cannot tell a slow order from errors that level off; give at least three,"
        " better five over a factor of 16"
    ),
    "are_round_off": lambda r: (
        f"only {r.levels} of {len(r.steps)} numbers of steps have errors above round-off"
        f" ({r.resolution:.1e}); take fewer steps, or float64"
    ),
    "have_few_paths": lambda r: (
        f"{r.paths - r.vanished} paths with errors cannot estimate the covariance of {r.levels} numbers of"
        f" steps; take at least {r.levels + 3}, better 400"
    ),
    "level_off_near_round_off": lambda r: (
        f"the errors level off at {r.smallest:.1e}, near round-off; take fewer steps, or float64"
    ),
    "level_off": lambda r: f"{_floor(r)} would remain at infinitely many steps",
    "are_flat": lambda r: (
        f"the errors {'grow' if grow(r.steps, r.local_slopes) else 'do not fall'}: the order is at most"
        f" {r.rate_interval[1]:.3f}"
    ),
    "follow_no_power_law": lambda r: (
        "no power law is in sight: local slopes change too much; take more steps at the fine end"
    ),
    "may_not_fall": lambda r: (
        f"the interval of the order contains 0; take {_paths_or(r)}a wider range of steps"
    ),
    "may_level_off": lambda r: (
        f"up to {100 * r.floor_upper:.0f} % of the squared error at {r.steps[-1]} steps may remain at"
        f" infinitely many; take {_paths_or(r)}more steps"
    ),
    "keep_slowing_down": lambda r: (
        f"the errors fall more and more slowly, with slope {r.local_slopes[0]:.2f} between the first two"
        f" levels and {r.local_slopes[-1]:.2f} between the last two: something remains, or another order"
        " takes over; take more steps"
    ),
    "fall": lambda r: (
        f"{'a part of the errors falls' if 'order_is_of_a_part' in r.caveats else 'errors fall'} at order"
        f" {r.rate:.3f}, and at most {100 * r.floor_upper:.0f} % of the squared error at"
        f" {r.steps[-1]} steps remains at infinitely many"
    ),
}
ORDER_CAVEATS: Sentences = {
    "one_level_is_odd": _odd,
    "slopes_keep_drifting": lambda r: (
        f"local slopes keep drifting, from {r.local_slopes[0]:.2f} to {r.local_slopes[-1]:.2f}: the order is"
        " that of these steps, and may be another one at more. Small noise shows its order of 1/2 only there."
    ),
    "some_paths_vanish": lambda r: (
        f"{r.vanished} of {r.paths} paths have an error of exactly 0 and are left out of the order."
    ),
    "coarse_levels_are_left_out": lambda r: (
        f"errors at {', '.join(map(str, r.steps[: r.left_out]))} steps follow no power law with the others,"
        " and are left out of the order: steps may be too long there."
    ),
    "levels_are_left_out": lambda r: (
        f"the order is that of the first {r.levels} numbers of steps; errors at the others are round-off."
    ),
    "tails_are_heavy": lambda r: (
        f"a few paths make up the mean (kurtosis {r.kurtosis:.0f}); its standard errors are too small. The"
        f" order is fitted to {r.average}."
    ),
    "round_off_is_near": lambda r: (
        f"the smallest error ({r.smallest:.1e}) is close to round-off for states of size 1; do not interpret"
        " differences at this level."
    ),
    "order_is_of_a_part": lambda r: (
        f"errors of slope {r.local_slopes[-1]:.2f} are mostly what every path has at all levels; what is left"
        " falls more slowly, and is the larger part at more steps. The order is that of what is left, or of"
        " either where the two may be the same."
    ),
    "paths_are_few": lambda r: f"{r.paths} paths are few for covariances between levels; take 400.",
}


SOLVER: Sentences = {
    "steps_are_too_long": lambda r: (
        f"states grow without bound ({r.distances[-1]:.3g} from the solution), and {r.steps[-1]} steps are"
        " longer than the equation's time scale: any explicit solver is unstable there. Take more steps"
    ),
    "may_be_float32": lambda r: (
        f"distances of {r.distances[-1]:.2g} no longer fall, and are no larger than round-off of float32: if"
        " the solver computes in it, take fewer steps, or float64"
    ),
    "paths_are_lost": lambda r: (
        f"{r.lost} of {r.paths} paths are not finite; take more steps at the coarse end, or smaller states"
    ),
    "few_steps_are_stable": lambda r: (
        f"the solver is unstable at {r.steps[0]} steps, and too few larger numbers of steps are left for an"
        " order; take more steps"
    ),
    "equals_the_solution": lambda r: (
        "the solver equals the solution at every number of steps, up to round-off"
    ),
    "does_not_move": lambda r: (
        f"more steps change nothing, and the solution is {r.distances[-1]:.3g} away: see that the solver"
        " reads its times"
    ),
    "stays_apart": _deepest,
    "distance_levels_off": lambda r: (
        f"{_floor(r)} would remain at infinitely many steps, {r.distances[-1] * r.floor**0.5:.3g} from the"
        " solution"
    ),
    "distance_does_not_fall": lambda r: (
        f"the distance to the solution does not fall: it is {r.distances[0]:.3g} at {r.steps[0]} steps and"
        f" {r.distances[-1]:.3g} at {r.steps[-1]}: see that the drift is multiplied by its"
        f" time step, and that the solver reads the {'path' if r.random else 'times'} that it is given"
    ),
    "order_is_not_fitted": lambda r: (
        "fewer than two changes are above round-off, or there are too few paths; take fewer steps or more"
        " paths"
        if r.random
        else "fewer than two changes are above round-off; take fewer steps"
    ),
    "has_no_power_law": lambda r: (
        "no power law is in sight: local slopes change too much; take more steps at the fine end"
    ),
    "falls_more_slowly": lambda r: (
        f"the interval {_interval(r)} lies below the documented order {r.documented:g}"
    ),
    "may_fall_more_slowly": lambda r: (
        f"the interval {_interval(r)} lies below the documented order {r.documented:g}, but not surely; take"
        f" {'more paths' if r.random else 'more steps'}"
    ),
    "equation_jumps": lambda r: (
        "the equation jumps in time, which steps see up to one step late: that alone explains the distance to"
        " the solution. Take numbers of steps for which the jump falls on a step's end"
    ),
    "diffusion_jumps": lambda r: (
        "the diffusion jumps as a function of the state. Then there may be no solution on a given path, as of"
        " Tanaka's equation, and no documented order is about it; kind='weak' compares laws"
    ),
    "diffusion_is_steep": lambda r: (
        f"the diffusion is so steep as a function of the state that {r.steps[-1]} steps do not resolve it,"
        " and a scheme that is known to be right is not seen to converge either; take more steps"
    ),
    "drift_jumps": lambda r: (
        "the distance to the reference levels off, but the drift jumps as a function of the state, where the"
        " reference's own error is not known; an equation with solution= decides more"
    ),
    "slopes_keep_rising": lambda r: (
        f"the interval {_interval(r)} lies below the documented order {r.documented:g}, but local slopes keep"
        " rising: a singularity may be near; take more steps"
    ),
    "drift_jumps_slowly": lambda r: (
        f"the interval {_interval(r)} lies below the documented order {r.documented:g}, but the drift jumps"
        " as a function of the state, and documented orders are those of Lipschitz ones"
    ),
    "may_fall_faster": lambda r: (
        f"the interval {_interval(r)} lies above the documented order {r.documented:g}, but not surely: the"
        " coarsest steps may be too long for this equation; take more"
    ),
    "does_not_settle": lambda r: (
        f"doubling the steps changes as much as before: the order is at most {r.rate_interval[1]:.3f}"
    ),
    "interval_is_wide": lambda r: (
        f"the interval {_interval(r)} does not exclude the next lower order; take more"
        f" {'paths or ' if r.random else ''}steps"
    ),
    "limit_is_open": lambda r: (
        f"the order is {r.rate:.3f}, but a distance to the solution may remain; take more"
        f" {'paths or ' if r.random else ''}steps"
    ),
    "falls_faster": lambda r: f"the interval {_interval(r)} lies above the documented order {r.documented:g}",
    "has_no_documented_order": lambda r: f"the order is {r.rate:.3f} {_interval(r)}; give order= to judge it",
    "has_its_order": lambda r: (
        f"the interval {_interval(r)} "
        + (
            f"contains {r.documented:g}"
            if r.rate_interval[0] <= r.documented
            else f"is not below {r.documented:g}"
        )
        + ("" if math.isnan(r.distances[-1]) else ", and the solver tends to the solution")
    ),
    "weak_paths_are_lost": lambda r: (
        f"{r.lost} of {r.paths} paths are not finite; take more steps at the coarse end, or smaller states"
    ),
    "means_stay_apart": lambda r: (
        "means tend to other values than the reference's: "
        + ", ".join(
            f"{f.name} by {f.gap:.2g} ({f.allowed:.1g} allowed)" for f in r.functions if f.gap > f.allowed
        )
    ),
    "functions_are_constant": lambda r: (
        "the test functions have one value on all paths at all numbers of steps, and so say nothing of the"
        " states; give others"
    ),
    "equals_the_means": lambda r: (
        "the solver gives the same values of the test functions at every number of steps"
    ),
    "weak_error_is_noise": lambda r: (
        f"with {r.paths} paths every test function's weak error is noise, or grows with the steps. "
        + _for_weak_orders(r)
    ),
    "means_fall_more_slowly": lambda r: (
        f"the interval {_interval(r)} lies below the documented weak order {r.documented:g}"
    ),
    "means_may_fall_more_slowly": lambda r: (
        f"the interval {_interval(r)} lies below the documented weak order {r.documented:g}, but not surely;"
        " take more paths"
    ),
    "weak_intervals_are_wide": lambda r: (
        f"no interval excludes the next lower weak order. {_for_weak_orders(r)}"
    ),
    "means_fall_faster": lambda r: f"all intervals lie above the documented weak order {r.documented:g}",
    "has_no_documented_weak_order": lambda r: (
        f"the weak order is {r.rate:.3f} {_interval(r)}; give order= to judge it"
    ),
    "has_its_weak_order": lambda r: (
        f"no interval lies below the documented weak order {r.documented:g}"
        + ("" if math.isnan(r.functions[0].gap) else f", and means tend to the reference's{_within(r)}")
    ),
}


def _within(r: Any) -> str:
    """Return the largest difference of two limits that these means do not exclude, in words."""
    allowed = [each.allowed for each in r.functions if each.resolved and math.isfinite(each.allowed)]
    return f" within {max(allowed):.2g}" if allowed else ""


SOLVER_CAVEATS: Sentences = {
    "reference_is_coarse": lambda r: (
        f"the reference's own error, about {r.reference_error:.1e}, is not far below the finest distance"
        f" {r.distances[-1]:.1e}; an equation with solution= decides more."
        if r.reference_error < r.distances[-1]
        else f"the reference's own error, about {r.reference_error:.1e}, exceeds the finest distance"
        f" {r.distances[-1]:.1e}; an equation with solution= decides more."
    ),
    "functions_are_noise": lambda r: (
        "some test functions' weak errors are noise, or do not fall yet, and say nothing: "
        + ", ".join(each.name for each in r.functions if not each.resolved)
        + "."
    ),
    "order_is_of_medians": lambda r: (
        "a few paths make up the means of differences; the order is that of medians."
    ),
    "order_is_of_a_part": lambda r: (
        f"the order {r.rate:.3f} lies outside of the local slopes, which are those of all differences: they"
        " have two parts, and the order is that of the one that is left at more steps."
    ),
    "order_is_of_single_steps": lambda r: (
        f"the order {r.rate:.3f} is that of what fluctuates of single steps, of lengths down to 2^-32."
        " At these numbers of steps that part is hidden: the last local slope is"
        f" {[slope for slope in r.local_slopes if math.isfinite(slope)][-1]:.2f}."
    ),
    "few_paths_were_run": lambda r: f"{r.paths} paths are few for covariances between levels; take 400.",
}
