"""What was measured over depths, judged by a rule: findings, verdict, and which factor is missing."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from deeplimit.ground.verdict import Verdict
from deeplimit.training_check.findings import TrainingFinding, power, times
from deeplimit.training_check.rule import TrainingRule
from deeplimit.training_check.scaling import BranchTransfer, Networks, Power, StreamTransfer


def judged(
    branches: Sequence[BranchTransfer],
    streams: Sequence[StreamTransfer],
    rule: TrainingRule,
    tolerance: float,
) -> tuple[tuple[BranchTransfer, ...], tuple[StreamTransfer, ...]]:
    """Return branches and streams with the exponents of the last step judged by the rule."""

    def last(powers: tuple[Power, ...], wanted: float) -> tuple[Power, ...]:
        return (*powers[:-1], powers[-1].judged(wanted, tolerance))

    return tuple(
        dataclasses.replace(
            branch,
            change=last(branch.change, rule.change),
            nonlinearity=(
                last(branch.nonlinearity, rule.change) if branch.weights > 1 else branch.nonlinearity
            ),
        )
        for branch in branches
    ), tuple(dataclasses.replace(stream, change=last(stream.change, 0.0)) for stream in streams)


def measured_findings(
    depths: Sequence[int],
    branches: Sequence[BranchTransfer],
    streams: Sequence[StreamTransfer],
    rule: TrainingRule,
) -> Iterator[TrainingFinding]:
    """Yield one finding for every measured exponent that is not the rule's."""
    ratio = depths[-1] / depths[0]
    for branch in branches:
        change, bent = branch.change[-1], branch.nonlinearity[-1]
        if change.agrees is False and change.exponent is not None:
            factor = ratio ** (change.exponent - rule.change)
            yield TrainingFinding(
                "relative change",
                (branch.kind,),
                factor,
                f"weights change the branch by a share that goes like {power(change.exponent)}, where"
                f" {rule.name} asks for {power(rule.change)}: {times(factor)} at depth {depths[-1]}, by"
                " learning rate or initialisation.",
            )
        elif bent.agrees is False and bent.exponent is not None:
            factor = ratio ** (bent.exponent - rule.change)
            yield TrainingFinding(
                "nonlinearity",
                (branch.kind,),
                factor,
                f"distance from linear goes like {power(bent.exponent)}, where {rule.name} asks for"
                f" {power(rule.change)}.",
            )
    for stream in streams:
        change = stream.change[-1]
        if change.agrees is False and change.exponent is not None:
            factor = ratio**change.exponent
            own = [branch for branch in branches if branch.stream == stream.stream]
            yield TrainingFinding(
                "feature change",
                (f"stream {stream.stream + 1}",),
                factor,
                f"features move like {power(change.exponent)}, not by one amount at every depth:"
                f" {times(factor)} at depth {depths[-1]}; {missing(own, stream, rule)}.",
            )


def missing(branches: Sequence[BranchTransfer], stream: StreamTransfer, rule: TrainingRule) -> str:
    """Return which factors of the identity depart from the rule by a quarter and more, in words.

    Change of the features = depth * size * relative change * coherence / last state.
    """
    told: list[str] = []
    for branch in branches:
        size, change, together = (
            branch.size.exponent,
            branch.change[-1].exponent,
            branch.coherence[-1].exponent,
        )
        for words, exponent, wanted in (
            ("forward multiplier", size, -rule.exponent),
            ("learning rate", change, rule.change),
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
            f"the loss is not finite at depth {', '.join(map(str, bad))} after {max(steps)} steps, at"
            f" learning rates at which depth {depths[0]} trains.",
        )
    ]


def verdict_of(
    rule: TrainingRule | None,
    branches: Sequence[BranchTransfer],
    streams: Sequence[StreamTransfer],
    findings: Sequence[TrainingFinding],
    *,
    also: Sequence[Power],
    certain: bool,
) -> Verdict:
    """Return the verdict; without a rule there is none to depart from. `also` holds further judged powers."""
    if rule is None:
        return Verdict.MEASURED
    if findings:
        return Verdict.NOT_AS_EXPECTED
    powers = [
        *(branch.change[-1] for branch in branches),
        *(branch.nonlinearity[-1] for branch in branches if branch.weights > 1),
        *(stream.change[-1] for stream in streams),
        *also,
    ]
    agreed = all(each.agrees for each in powers)
    return Verdict.AS_EXPECTED if agreed and certain else Verdict.CANNOT_TELL


def meaning(branch: BranchTransfer, stream: StreamTransfer) -> str:
    """Return what the exponents say about the branch as the network deepens, in words."""
    moved, bent = stream.change[-1].exponent, branch.nonlinearity[-1].exponent
    if moved is None:
        return "unknown"
    if abs(moved) > 0.25:
        return "does not transfer: " + ("features move more" if moved > 0 else "features stop moving")
    if bent is None:
        return "transfers"
    if abs(bent) <= 0.25:
        return "transfers, blocks learn nonlinearly"
    return "transfers, blocks become linear" if bent < 0 else "transfers, blocks saturate"
