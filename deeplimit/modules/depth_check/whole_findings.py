"""Findings about what no single part shows: copies of a layer, profiles over layers, dropout on the skip."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from deeplimit.modules.depth_check.findings import Finding, biases_of, part_name
from deeplimit.modules.depth_check.fixes import IN_FORWARD, Fixes, expression, in_forward, pattern
from deeplimit.modules.depth_check.meaning import ADAPTER, NOT_DEEPENED
from deeplimit.modules.depth_check.part_rules import power_in_code
from deeplimit.modules.depth_check.scaling import ALIKE, BranchScaling, PartScaling, is_shared

ALIGNED, TOLD_APART = 0.9, 0.6
"""Alignment from which updates add up like copies, and the least lower end of the interval of one that is
not independent layers' 0.5. Means of GELU, SiLU, ELU or leaky ReLU lie between at the depths of a check; in
deeper networks they outgrow what is drawn apart, and the alignment tends to 1."""
BEYOND = 0.1
"""So much above the expected exponent an alignment must surely be: fractional layers are right where both are
their Hurst index."""
UNLIKE = 0.5
"""Cosine of weights of neighbouring layers up to which they are no copies: of n entries drawn apart it is
1/√n, of copies 1."""
COPIES, MANY = 0.99, 0.25
"""Such a cosine from which layers are copies, and the part of the layers that many copies are."""
INDEPENDENT = (0.25, 0.75)
"""Exponents between these are asked for because layers are independent."""
SUITS = 0.1
"""Layers that share their weights are rightly scaled where the exponent is within this of 1."""
UNDONE = -0.25
"""Mean cosine of neighbours' updates, half of that of pairs W, -W; independent layers' is 0."""
FIRST_LAYERS = 4
"""Fewer layers follow any profile."""
EXACT = 1e-4
"""Relative error of a profile of numbers in the forward, which float32 arithmetic leaves exact to 1e-6."""


def about_copies(
    scaling: BranchScaling,
    target: float | None,
    depths: Sequence[int],
    totals: Sequence[int],
    likeness: Mapping[str, float],
) -> list[Finding]:
    """Return what speaks against an exponent for independent layers where layers are copies.

    Updates of layers whose weights are not alike have a mean in common, which is said instead.
    """
    interval = scaling.alignment_interval
    if target is None or interval is None or scaling.alignment is None or len(depths) < 2:
        return []
    if not INDEPENDENT[0] < target < INDEPENDENT[1] or not any(scaling.sizes):
        return []
    outputs = [part for part in scaling.parts if part.role in ("output", "inner")]
    if not outputs or interval[0] < max(TOLD_APART, target + BEYOND):
        return []
    projection, layers = outputs[0], scaling.counts[-1]
    alike = [cosine for part in outputs for cosine in _cosines(part, likeness)]
    copies = sum(cosine > COPIES for cosine in _cosines(projection, likeness)) + 1
    some = MANY * layers <= copies < layers
    power = 1.0 if some or scaling.alignment >= ALIGNED else scaling.alignment
    grown = (totals[-1] / totals[0]) ** (power - target)
    told = (
        f"in {f'{copies} of' if some else 'all'} {layers} layers (alignment {scaling.alignment:.2f} where"
        f" independent layers have 0.5): the sum of the updates grows like depth^{power - target:.2g} at"
        f" exponent {target:g}, {grown:.3g} times from depth {depths[0]} to {depths[-1]}"
    )
    if alike and max(alike) < UNLIKE and not is_one_layer(scaling) and not is_shared(scaling):
        return [_of_a_mean(scaling, grown, told, likeness, Fixes.of(scaling, depths, totals))]
    told = f"is alike {told}"
    drawn = [*outputs, *(part for part in scaling.parts if part.role == "bias")]
    if "*" in projection.name and not is_shared(scaling):
        fix = (
            "[torch.nn.init.normal_(p, std=float(p.detach().std())) for n, p in model.named_parameters() if"
            f' __import__("re").fullmatch({pattern(*(part.name for part in drawn))}, n)]'
        )
        return [
            Finding(
                scaling.kind,
                projection.name,
                grown,
                f"{told}. Draw the layers apart.",
                fix=fix,
                about="copies",
            )
        ]
    if scaling.exponent is not None and abs(scaling.exponent - 1) < SUITS:
        number = "one weight" if scaling.distinct < 2 else f"{scaling.distinct} weights"
        told = (
            f"is {number} of all {layers} layers. Layers that share their weights ask for exponent 1, which"
            f" this branch has ({scaling.exponent:.2f}): expected={target:g} is for layers that are drawn"
            " apart. Pass expected=1"
        )
        return [Finding(scaling.kind, projection.name, None, f"{told}.", about="copies")]
    factor = power_in_code(1.0, "depth", 1 - target)
    fix = f"{IN_FORWARD}x = x + {factor} * branch(x)  # depth: the number of layers"
    told = f"{told}. Layers that share their weights ask for exponent 1, a further factor on the branch."
    return [Finding(scaling.kind, projection.name, grown, told, fix=fix, about="copies")]


def undo_each_other(scaling: BranchScaling) -> bool:
    """Whether neighbouring layers take away what the other adds, so that their sum is less than its parts."""
    return scaling.neighbours is not None and scaling.neighbours < UNDONE


def may_add_up(scaling: BranchScaling, target: float | None) -> bool:
    """Whether updates seem to have a part in common with which their sum outgrows an expected exponent."""
    interval = scaling.alignment_interval
    if target is None or interval is None or scaling.meaning in (ADAPTER, NOT_DEEPENED):
        return False
    return INDEPENDENT[0] < target < INDEPENDENT[1] and interval[0] > target


def of_the_sum(scaling: BranchScaling) -> str:
    """Return what is said of updates whose sum is not of the size that its terms' number says."""
    if undo_each_other(scaling):
        return (
            f"has neighbouring layers that undo each other (mean cosine {scaling.neighbours:.2f} of their"
            " updates), so that their sum is less than its parts, and what is left follows another equation;"
            " dl.identify(factory, x) measures it"
        )
    low, high = scaling.alignment_interval or (0.0, 1.0)
    return (
        f"has updates that seem to have a part in common (alignment {scaling.alignment:.2f}, {low:.2f} to"
        f" {high:.2f}, where independent layers have 0.5), with which their sum grows with depth; deeper"
        " networks would tell"
    )


def _cosines(part: PartScaling, likeness: Mapping[str, float]) -> list[float]:
    """Return the cosines of a parameter with that of the layer before, of all layers but the first."""
    return [cosine for name, cosine in likeness.items() if re.fullmatch(expression(part.name), name)]


def _of_a_mean(
    scaling: BranchScaling, grown: float, told: str, likeness: Mapping[str, float], fixes: Fixes
) -> Finding:
    """Return the finding of what updates have in common though their weights are drawn apart."""
    for part in biases_of(scaling):
        if min(_cosines(part, likeness), default=0.0) > ALIGNED:
            told = f"is alike {told}. Let it begin at zero."
            return Finding(
                scaling.kind, part.name, grown, told, fix=fixes.fill(part.name, "0"), about="copies"
            )
    told = (
        f"has a mean in common {told}, though the layers are drawn apart: an activation with a mean at the"
        " branch's end, such as ReLU or GELU, a bias, or a part that all weights share gives it one. End with"
        " a projection that is drawn apart, or pass expected=1"
    )
    return Finding(scaling.kind, scaling.kind, grown, f"{told}.", about="copies")


def is_one_layer(scaling: BranchScaling) -> bool:
    """Whether all layers of each depth do the same to the same stream, as copies of one layer do."""
    return all(len(each) > 1 and max(each) - min(each) <= ALIKE * max(each) for each in scaling.probed)


def suits_copies(found: Sequence[Finding]) -> bool:
    """Whether layers share their weights and are scaled as that asks: then nothing else is wrong."""
    return any(finding.about == "copies" and finding.factor is None for finding in found)


def profile_of(part: PartScaling) -> tuple[float, tuple[float, ...]] | None:
    """Return p and c, one per depth, where layer i of every depth has size c (i + 1)^-p; else None."""
    if part.role not in ("multiplier", "gain") or len(part.layers) < 2:
        return None
    powers, constants = [], []
    for sizes in part.layers:
        values = np.asarray(sizes)
        if len(values) < FIRST_LAYERS or not np.all((values > 0) & np.isfinite(values)):
            return None
        numbers, logs = np.log(np.arange(1, len(values) + 1)), np.log(values)
        slope = float((logs[-1] - logs[0]) / numbers[-1])
        if abs(slope) < 0.05 or np.abs(logs - logs[0] - slope * numbers).max() > EXACT:
            return None
        powers.append(-slope)
        constants.append(float(values[0]))
    return (powers[-1], tuple(constants)) if max(powers) - min(powers) < EXACT else None


def as_profiles(
    scaling: BranchScaling,
    target: float | None,
    findings: Sequence[Finding],
    depths: Sequence[int],
    totals: Sequence[int],
) -> list[Finding]:
    """Return findings in which parts that are a function of the layer's number are named as such."""
    if target is None:
        return [*findings]
    profiles = {part_name(part, scaling): (part, profile_of(part)) for part in scaling.parts}
    told: list[Finding] = []
    for finding in findings:
        part, profile = profiles.get(finding.parameter, (None, None))
        if part is None or profile is None:
            told.append(finding)
        elif all(other.parameter != finding.parameter for other in told):
            told.append(_profile(scaling, part, *profile, target, depths, totals))
    return told


def about_few_layers(
    scaling: BranchScaling, target: float, depths: Sequence[int], totals: Sequence[int]
) -> Finding:
    """Return that a few layers make up the updates, with the profile that makes them, if a part has one."""
    for part in scaling.parts:
        if (profile := profile_of(part)) is not None:
            return _profile(scaling, part, *profile, target, depths, totals)
    return Finding(scaling.kind, scaling.kind, None, f"{in_few_layers(scaling)}.", about="few layers")


def in_few_layers(scaling: BranchScaling) -> str:
    """Return what is said of layers that make up the updates."""
    carrying, layers, share = scaling.few or (0, 0, 0.0)
    return (
        f"has {share:.0%} of the squares of all updates in {carrying} of {layers} layers, as few as at any"
        " depth: a sum of few terms, with no SDE or ODE in the limit, whatever exponent they have on average"
    )


def _profile(
    scaling: BranchScaling,
    part: PartScaling,
    power: float,
    constants: Sequence[float],
    target: float,
    depths: Sequence[int],
    totals: Sequence[int],
) -> Finding:
    fixes = Fixes.of(scaling, depths, totals)
    exact = round(power * 4) / 4 if abs(power * 4 - round(power * 4)) < 1e-2 else power
    # The first layer's number may fall with depth as well, by a part of what is wanted.
    falls = math.log(constants[0] / constants[-1]) / math.log(totals[-1] / totals[0])
    lacking = round(4 * (target - falls)) / 4
    factor = f"(i + 1) ** {exact:g}" if exact != 1 else "(i + 1)"
    if lacking:
        factor += f" * {power_in_code(1.0, fixes.names(fixes.projection).branches, lacking)}"
    if list(scaling.numbers) == sorted(scaling.numbers):
        line = fixes.multiply_each(part.name if part.role == "gain" else "", factor)
    else:  # layers are not called in the order of their numbers
        line = f"{in_forward(f'x = x + {factor} * branch(x)')}; i: the layer's place in the forward, from 0"
    over = part.sizes[-1] / (part.sizes[0] * (totals[-1] / totals[0]) ** -target)
    return Finding(
        scaling.kind,
        part_name(part, scaling),
        over,
        f"is a profile over layers, {constants[-1]:.3g} * (i + 1)^-{exact:g} in layer i at depth {depths[-1]}"
        f" and {constants[0]:.3g} * (i + 1)^-{exact:g} at depth {depths[0]}: a function of the layer's"
        f" number, where depth^-{target:g} is a function of the depth.",
        fix=line,
        about="profile",
    )


def about_dropout(scaling: BranchScaling) -> list[Finding]:
    """Return what dropout on the skip does in training, which evaluation mode does not show."""
    share, sums = scaling.dropped, scaling.counts[-1]
    if share <= 0:
        return []
    return [
        Finding(
            scaling.kind,
            f"skip of {scaling.kind}",
            (1 - share) ** (-sums / 2),
            f"passes dropout with probability {share:.3g} in training: over {sums} sums a part"
            f" {(1 - share) ** sums:.2g} of the first state's entries is left, and its mean square grows"
            f" {(1 - share) ** -sums:.3g} times. Everything else here is measured in evaluation mode.",
            fix=f"{IN_FORWARD}x = x + dropout(branch(x))  # no dropout on x",
            about="dropout",
        )
    ]
