"""Measurements judged by what was expected, and put into a report."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence

from deeplimit.depth_check.base_scale import base_of
from deeplimit.depth_check.exponent_findings import against_exponent, has_exponent
from deeplimit.depth_check.findings import Finding, biases_of
from deeplimit.depth_check.meaning import ADAPTER
from deeplimit.depth_check.measurement import Measurement
from deeplimit.depth_check.report import DepthReport, Status
from deeplimit.depth_check.rule_findings import against_rule
from deeplimit.depth_check.rules import Rule
from deeplimit.depth_check.scaling import BranchScaling, scalings, streams
from deeplimit.ground.verdict import Verdict
from deeplimit.version import versions


def report_on(
    name: str,
    levels: Sequence[int],
    taken: Sequence[Measurement],
    rule: Rule | None,
    number: float | None,
    tolerance: float,
    confidence: float,
    seed: int,
    started: float,
) -> DepthReport:
    """Judge measurements and put them into a report."""
    kinds = scalings(levels, taken, confidence)
    findings: list[Finding] = []
    statuses: list[Status] = []
    for kind in kinds:
        own: list[Finding] = []
        agreed: bool | None = True
        # A hybrid may have no such branch at a small depth.
        present = [place for place, count in enumerate(kind.counts) if count]
        own_levels = [levels[place] for place in present]
        carrying = [taken[place].streams[kind.stream] for place in present]
        totals = [stream.branches + stream.heads for stream in carrying]
        deepens = len(levels) == 1 or (len(set(kind.counts)) > 1 and len(set(totals)) > 1)
        if (
            kind.meaning == ADAPTER or not deepens
        ):  # a predictor, class attention: a law in the depth does not bind it
            agreed = True if all(kind.counts) else None
        elif rule is not None:
            own = list(against_rule(kind, kinds, rule, own_levels, totals))
            target = rule.exponent
            if len(levels) > 1 and not own:
                own, agreed = _effective(kind, target, rule, own_levels, totals, tolerance)
        elif number is not None:
            own, agreed = _effective(kind, number, None, own_levels, totals, tolerance)
        findings += own
        statuses.append(
            Verdict.NOT_AS_EXPECTED if own else Verdict.AS_EXPECTED if agreed else Verdict.CANNOT_TELL
        )
    if rule is None and number is None:
        statuses = [Verdict.MEASURED] * len(kinds)
    verdict: Status = next(
        (status for status in (Verdict.NOT_AS_EXPECTED, Verdict.CANNOT_TELL) if status in statuses),
        statuses[0],
    )
    if verdict == Verdict.AS_EXPECTED and _overlooked(taken):
        verdict = Verdict.CANNOT_TELL  # about what was not seen
    return DepthReport(
        verdict=verdict,
        model=name,
        depths=tuple(levels),
        parameters=tuple(one.parameters for one in taken),
        expected=rule.name if rule is not None else number,
        branches=kinds,
        statuses=tuple(statuses),
        streams=streams(taken),
        findings=tuple(findings),
        tolerance=tolerance,
        confidence=confidence,
        seed=seed,
        seconds=time.perf_counter() - started,
        versions=versions(),
        reservations=tuple(_reservations(kinds, statuses, rule, taken)),
    )


def _effective(
    kind: BranchScaling,
    target: float | None,
    rule: Rule | None,
    levels: Sequence[int],
    totals: Sequence[int],
    tolerance: float,
) -> tuple[list[Finding], bool | None]:
    """Return what the effective exponent of a kind says against the expected one, and whether it agrees."""
    if target is None:
        if any(size > 0 for size in kind.sizes):
            wanted = (
                f"where {rule.name if rule else ''} has updates of zero (they are of size"
                f" {kind.sizes[-1]:.3g})"
            )
            left = [
                Finding(kind.kind, part.name, None, f"is {part.sizes[-1]:.4g} at the start {wanted}.")
                for part in biases_of(kind)
            ]
            return left or [Finding(kind.kind, kind.kind, None, f"does not start at zero {wanted}.")], False
        return [], True
    agreed = has_exponent(kind, target, tolerance)
    return (list(against_exponent(kind, target, levels, totals)), False) if agreed is False else ([], agreed)


def _overlooked(taken: Sequence[Measurement]) -> list[str]:
    """Return the names, starred, of weights outside of residual branches that become more with depth."""
    first, last = ([re.sub(r"\d+", "*", name) for name in one.outside] for one in (taken[0], taken[-1]))
    return [name for name in dict.fromkeys(last) if last.count(name) > first.count(name)]


def _scattered(taken: Sequence[Measurement]) -> bool:
    """Whether a deeper network has more streams rather than longer ones."""
    return len(taken[-1].streams) > len(taken[0].streams)


def _reservations(
    kinds: Sequence[BranchScaling], statuses: Sequence[str], rule: Rule | None, taken: Sequence[Measurement]
) -> list[str]:
    told = []
    fixed = [kind.kind for kind in kinds if len(set(kind.counts)) == 1 and len(kind.counts) > 1]
    if fixed:
        told.append(f"{', '.join(fixed)}: as many at every depth, so not judged.")
    adapters = [kind.kind for kind in kinds if kind.meaning == ADAPTER]
    if adapters:
        told.append(
            f"{', '.join(adapters)}: adapters (of low rank and zero beside another branch), so not judged."
        )
    overlooked = _overlooked(taken)
    if overlooked:
        told.append(
            f"{', '.join(overlooked)}: these weights multiply with depth but belong to no residual branch"
            " that was found. If they are part of one, its output is not added with +, torch.add or"
            " addcmul, so it was not checked."
        )
    if _scattered(taken):
        told.append(
            f"{len(taken[-1].streams)} residual streams at the largest depth but {len(taken[0].streams)} at"
            " the smallest. An operation between residual sums (a concatenation, a choice between tensors,"
            " one that is not known) hides that they continue one stream, so its depth cannot be counted."
        )
    bent = [kind.kind for kind in kinds if not kind.power_law]
    if bent:
        told.append(
            f"{', '.join(bent)}: sizes do not follow one power of the depth; the exponent is the slope of the"
            " best line."
        )
    uneven = [kind.kind for kind in kinds if 3 < kind.layered < math.inf]
    if uneven:
        told.append(f"layers of one network differ by more than three times: {', '.join(uneven)}.")
    known = [kind for kind in kinds if kind.exponent is not None]
    if (
        rule is None
        and known
        and max(kind.exponent or 0 for kind in known) - min(kind.exponent or 0 for kind in known) > 0.25
    ):
        told.append(
            "kinds of branches scale differently with depth: was a rule applied to only some of them?"
        )
    if (
        rule is not None
        and rule.output.absolute
        and not rule.output.zero
        and base_of(kinds[0], kinds, rule).constant is None
    ):
        told.append("all weights depend on depth, so constant factors could not be judged.")
    if any(
        status == "cannot tell" and kind.exponent is not None and kind.power_law
        for kind, status in zip(kinds, statuses, strict=True)
    ):
        told.append(
            "an interval is too wide to tell exponents apart that differ by 1/2: add depths that are further"
            " apart, or pass a larger batch."
        )
    return told
