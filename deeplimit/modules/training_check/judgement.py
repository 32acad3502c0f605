"""What was measured over depths, judged by a rule: findings, verdict, and which factor is missing."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

from deeplimit.common.verdict import DepthVerdict
from deeplimit.modules.depth_check.scaling import BranchScaling
from deeplimit.modules.training_check.findings import TrainingFinding, goes, many, power, times
from deeplimit.modules.training_check.one_network import AfterSteps
from deeplimit.modules.training_check.rule import TrainingRule
from deeplimit.modules.training_check.scaling import BranchTransfer, Networks, Power, StreamTransfer

OUTGROWN = 10.0
"""Times its first value beyond which a loss has run away: at the edge of stability it doubles, or less."""
LINEAR = 1e-3
"""Distance from linear below which a branch that starts at zero has not bent: its first step is linear."""


def judged(
    branches: Sequence[BranchTransfer],
    streams: Sequence[StreamTransfer],
    rule: TrainingRule,
    tolerance: float,
    *,
    bends: bool,
) -> tuple[tuple[BranchTransfer, ...], tuple[StreamTransfer, ...]]:
    """Return branches and streams with the exponents of the last step judged by the rule.

    `bends`: whether branches that start at zero are far enough from linear for that to be judged.
    """

    def last(powers: tuple[Power, ...], wanted: float) -> tuple[Power, ...]:
        return (*powers[:-1], powers[-1].judged(wanted, tolerance))

    return tuple(
        dataclasses.replace(
            branch,
            change=last(branch.change, _wanted(branch, rule)),
            nonlinearity=(
                last(branch.nonlinearity, rule.change)
                if branch.weights > 1 and (bends or not branch.starts_at_zero)
                else branch.nonlinearity
            ),
        )
        for branch in branches
    ), tuple(dataclasses.replace(stream, change=last(stream.change, 0.0)) for stream in streams)


def memories(branches: Sequence[BranchScaling]) -> dict[int, float]:
    """Return, by stream, the largest share that a velocity keeps of itself from layer to layer."""
    found: dict[int, float] = {}
    for branch in branches:
        found[branch.stream] = max((found.get(branch.stream, 0.0), *branch.kept))
    return {stream: kept for stream, kept in found.items() if 0 < kept < 1}


def while_velocities_fill(
    depths: Sequence[int], streams: Sequence[StreamTransfer], kept: Mapping[int, float], tolerance: float
) -> tuple[StreamTransfer, ...]:
    """Return streams of which an exponent is not judged that velocities of so few layers may have made.

    Of what a layer adds to a velocity that keeps the share k, the last state of L layers has, in the mean,
    the part c(L) = 1 - (1 - k^L) / (L (1 - k)). Changes that layers have in common grow with c(L), too.
    """

    def part(depth: int, share: float) -> float:
        return 1 - (1 - share**depth) / (depth * (1 - share))

    found = []
    for stream in streams:
        share, change = kept.get(stream.stream), stream.change[-1]
        if share is not None and change.agrees is False and change.exponent is not None and depths[0] > 1:
            grows = math.log(part(depths[-1], share) / part(depths[0], share))
            most = grows / math.log(depths[-1] / depths[0]) + tolerance
            if 0 < change.exponent <= most:
                last = dataclasses.replace(change, agrees=None)
                stream = dataclasses.replace(stream, change=(*stream.change[:-1], last))  # noqa: PLW2901
        found.append(stream)
    return tuple(found)


def _wanted(branch: BranchTransfer, rule: TrainingRule) -> float:
    """Return the power of the depth that the change of a branch is to follow.

    All layers together are to move the stream by one amount. One that starts at zero has no other size.
    """
    return -1.0 if branch.starts_at_zero else rule.change


def measured_findings(
    depths: Sequence[int],
    branches: Sequence[BranchTransfer],
    streams: Sequence[StreamTransfer],
    rule: TrainingRule,
    *,
    rates_right: bool,
) -> Iterator[TrainingFinding]:
    """Yield one finding for every measured exponent that is not the rule's.

    `rates_right`: whether all learning rates were found to follow the rule, so that they are not the cause.
    """
    rate = "" if rates_right else "learning rate or "
    ratio = depths[-1] / depths[0]
    for branch in branches:
        change, bent = branch.change[-1], branch.nonlinearity[-1]
        if change.agrees is False and change.exponent is not None:
            wanted = _wanted(branch, rule)
            factor = ratio ** (change.exponent - wanted)
            share, source = (
                ("it starts at zero and comes to a share of the stream", "forward multiplier")
                if branch.starts_at_zero
                else ("weights change the branch by a share", "initialisation")
            )
            yield TrainingFinding(
                "relative change",
                (branch.kind,),
                factor,
                f"{share} that {goes(change.exponent)}, where {rule.name} asks for"
                f" {power(wanted)}: {times(factor)} at depth {depths[-1]}, by {rate}{source}.",
            )
        elif bent.agrees is False and bent.exponent is not None:
            factor = ratio ** (bent.exponent - rule.change)
            yield TrainingFinding(
                "nonlinearity",
                (branch.kind,),
                factor,
                f"distance from linear {goes(bent.exponent)}, where {rule.name} asks for"
                f" {power(rule.change)}.",
            )
    for stream in streams:
        change = stream.change[-1]
        if change.agrees is False and change.exponent is not None:
            factor = ratio**change.exponent
            own = [branch for branch in branches if branch.stream == stream.stream]
            told = missing(own, stream, rule, rates_right=rates_right)
            yield TrainingFinding(
                "feature change",
                (f"stream {stream.stream + 1}",),
                factor,
                f"features move like {power(change.exponent)}, not by one amount at every depth:"
                f" {times(factor)} at depth {depths[-1]}; {told}.",
            )


def missing(
    branches: Sequence[BranchTransfer], stream: StreamTransfer, rule: TrainingRule, *, rates_right: bool
) -> str:
    """Return which factors of the identity depart from the rule by a quarter and more, in words.

    Change of the features = depth * size * relative change * coherence / last state. A branch that starts at
    zero has a change relative to the last state in the place of size * relative change / last state.
    """
    told: list[str] = []
    for branch in branches:
        size, change, together = (
            branch.size.exponent,
            branch.change[-1].exponent,
            branch.coherence[-1].exponent,
        )
        rate = "initialisation" if rates_right else "learning rate"
        if branch.starts_at_zero:
            rate = "forward multiplier" if rates_right else "learning rate or forward multiplier"
        for words, exponent, wanted in (
            ("forward multiplier", size, -rule.exponent),
            (rate, change, _wanted(branch, rule)),
            ("coherence of layers", together, 0.0),
        ):
            if exponent is not None and abs(exponent - wanted) > 0.25:
                told.append(f"{words} of {branch.kind} ({power(exponent)} instead of {power(wanted)})")
    grown = stream.size.exponent
    if grown is not None and grown > 0.25:
        told.append(f"growth of the state before training ({power(grown)})")
    return "what departs: " + "; ".join(told) if told else "no single factor departs by a quarter"


def diverged(depths: Sequence[int], networks: Networks, steps: Sequence[int]) -> list[TrainingFinding]:
    """Return a finding where a network is not finite after the steps."""
    bad = [
        depth
        for depth, group in zip(depths, networks, strict=True)
        if any(not math.isfinite(loss) for one in group for loss in one.losses)
    ]
    if not bad:
        return []
    return [
        TrainingFinding(
            "divergence",
            (),
            None,
            f"the loss is not finite at depth {', '.join(map(str, bad))} after {many(max(steps), 'step')}, at"
            f" learning rates at which depth {depths[0]} trains.",
        )
    ]


def outgrown(depth: int, at_given: AfterSteps, steps: Sequence[int]) -> list[TrainingFinding]:
    """Return a finding where the shallowest network's loss runs away at the given learning rates."""
    first, *later = at_given.losses
    # A log-likelihood may be negative. Relative to a loss of exactly 0, no rise is defined.
    most = first + (OUTGROWN - 1) * abs(first) if first else math.inf
    if all(math.isfinite(loss) and loss <= most for loss in later):
        return []
    to = f"from {first:.3g} to {later[-1]:.3g}" if math.isfinite(later[-1]) else "beyond all numbers"
    return [
        TrainingFinding(
            "divergence",
            (),
            None,
            f"at the given learning rates training diverges: the loss at depth {depth} goes {to} in"
            f" {many(max(steps), 'step')}. Exponents are those of smaller rates.",
        )
    ]


def verdict_of(
    rule: TrainingRule | None,
    branches: Sequence[BranchTransfer],
    streams: Sequence[StreamTransfer],
    findings: Sequence[TrainingFinding],
    *,
    also: Sequence[tuple[str, Power]],
    certain: bool,
) -> DepthVerdict:
    """Return the verdict; without a rule there is none to depart from.

    `also` holds further judged powers by name.
    """
    if rule is None:
        return DepthVerdict.MEASURED
    if findings:
        return DepthVerdict.NOT_AS_EXPECTED
    return (
        DepthVerdict.AS_EXPECTED
        if certain and not undecided(branches, streams, also)
        else DepthVerdict.CANNOT_TELL
    )


def undecided(
    branches: Sequence[BranchTransfer], streams: Sequence[StreamTransfer], also: Sequence[tuple[str, Power]]
) -> list[str]:
    """Return what was judged and does not say whether it agrees: intervals that are too wide, or missing."""
    judged_powers = [
        *((f"change of {branch.kind}", branch.change[-1]) for branch in branches),
        *((f"nonlinearity of {branch.kind}", branch.nonlinearity[-1]) for branch in branches),
        *((f"features of stream {stream.stream + 1}", stream.change[-1]) for stream in streams),
        *also,
    ]
    return [
        f"{name} {'without exponent' if each.exponent is None else each.in_words}"
        for name, each in judged_powers
        if each.wanted is not None and each.agrees is None
    ]


def meaning(branch: BranchTransfer, stream: StreamTransfer) -> str:
    """Return what the exponents say about the branch as the network deepens, in words."""
    moved, bent = stream.change[-1].exponent, branch.nonlinearity[-1].exponent
    if moved is None:
        return "unknown"
    if abs(moved) > 0.25:
        return "does not transfer: " + ("features move more" if moved > 0 else "features stop moving")
    if bent is None:
        return "transfers"
    if branch.starts_at_zero and branch.nonlinearity[-1].values[0] < LINEAR:
        return "transfers, blocks are linear as yet"
    if abs(bent) <= 0.25:
        return "transfers, blocks learn nonlinearly"
    return "transfers, blocks become linear" if bent < 0 else "transfers, blocks saturate"
