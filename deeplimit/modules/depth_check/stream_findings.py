"""Findings about residual streams: a skip that does not pass the state on, a state that explodes."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence

from deeplimit.common.verdict import DepthVerdict
from deeplimit.modules.depth_check.findings import Finding, layers_in_words, part_name
from deeplimit.modules.depth_check.fixes import IN_FORWARD, Fixes
from deeplimit.modules.depth_check.report import Status
from deeplimit.modules.depth_check.rules import Rule
from deeplimit.modules.depth_check.scaling import BranchScaling
from deeplimit.modules.depth_check.stream_meaning import DAMPED, EXPLODING, MULTIPLIED
from deeplimit.modules.depth_check.stream_scaling import StreamScaling
from deeplimit.modules.trace.naming import wildcard


def about_skip(
    scaling: BranchScaling,
    stream: StreamScaling,
    rule: Rule | None,
    number: float | None,
    depth: int,
    fixes: Fixes,
) -> list[Finding]:
    """Return what speaks against the skip of a kind of branch where no rule states its size.

    A skip above one lets the state explode. One below one forgets the input; that is expected only where the
    exponent 0 is, at which each layer turns the state as far at any depth.
    """
    if rule is not None:
        if rule.skip.absolute:
            return []  # judged among the parts
        number = rule.exponent if rule.exponent is not None else 1.0
    if number is None or stream.meaning not in (MULTIPLIED, DAMPED):
        return []
    if stream.meaning == DAMPED and number == 0.0:
        return []
    part = next(part for part in scaling.parts if part.role == "skip")
    gain = part.sizes[-1]
    if abs(gain - 1) < 1e-6:  # another kind on the stream scales it
        return []
    return [
        Finding(
            scaling.kind,
            part_name(part, scaling),
            gain,
            f"is {gain:.4g} at depth {depth} where a residual network has 1: {stream.follows}.",
            fix=fixes.pass_on(gain),
            about="skip",
        )
    ]


def about_missing_skips(branches: Sequence[BranchScaling], replacing: Sequence[str]) -> list[Finding]:
    """Return what speaks against layers whose output takes the place of the state, by their weights."""
    layers: dict[str, list[int]] = {}
    kinds: dict[str, str] = {}
    for name in replacing:
        likes = [
            (scaling.kind, part.name if "*" in part.name else wildcard(name, [name, part.name]))
            for scaling in branches
            for part in scaling.parts
            if part.role == "output"
        ]
        for kind, like in likes:
            if found := re.fullmatch(re.escape(like).replace(r"\*", r"(\d+)"), name):
                layers.setdefault(like, []).append(int(found[1]))
                kinds.setdefault(like, kind)
                break
    return [
        Finding(
            kinds[like],
            like,
            None,
            f"has no skip in {layers_in_words(numbers)}: its output takes the state's place, where the other"
            " layers add to the state.",
            tuple(numbers),
            f"{IN_FORWARD}x = x + branch(x)  # in {layers_in_words(numbers)}, too",
            "skip",
        )
        for like, numbers in layers.items()
    ]


def about_streams(
    streams: Sequence[StreamScaling],
    branches: Sequence[BranchScaling],
    findings: Sequence[Finding],
    dying: Container[int] = (),
) -> tuple[list[Finding], list[Status]]:
    """Return what speaks against streams though nothing speaks against their branches, and their verdicts.

    `dying` are the numbers of streams whose state must not shrink, and does.
    """
    found: list[Finding] = []
    statuses: list[Status] = []
    for stream in streams:
        own = {kind.kind for kind in branches if kind.stream == stream.stream}
        # A velocity adds each update in several layers, so the state may grow by more until they are few.
        carries = any(kind.stream == stream.stream and any(kind.kept) for kind in branches)
        outgrows = stream.outgrows_its_branches and not carries
        blamed = [finding for finding in findings if finding.branch in own]
        skips = any(finding.parameter.startswith("skip of ") for finding in blamed)
        statuses.append(
            DepthVerdict.NOT_AS_EXPECTED
            if skips or stream.explodes or outgrows or stream.stream in dying
            else DepthVerdict.CANNOT_TELL
            if stream.outgrows_its_branches or stream.is_open
            else DepthVerdict.AS_EXPECTED
        )
        if stream.stream in dying:
            kind = next(kind.kind for kind in branches if kind.stream == stream.stream)
            told = f"dies out with depth: {stream.follows}."
            found.append(
                Finding(kind, f"stream {stream.stream + 1}", stream.growth[-1], told, about="growth")
            )
        if outgrows and not blamed:
            kind = next(kind.kind for kind in branches if kind.stream == stream.stream)
            told = f"grows {stream.growth[-1]:.3g}x at the largest depth: {stream.follows}."
            found.append(
                Finding(kind, f"stream {stream.stream + 1}", stream.growth[-1], told, about="growth")
            )
        if stream.explodes and not blamed:
            name = f"stream {stream.stream + 1}"
            kind = next(kind.kind for kind in branches if kind.stream == stream.stream)
            rate = stream.growth_per_sum[-1]
            # Branches that read a state of one size add no more to a larger one.
            calms = stream.meaning == EXPLODING and not stream.normalised
            fix = f"{IN_FORWARD}x = x + branch(norm(x))" if calms else ""
            found.append(
                Finding(kind, name, rate, f"explodes with depth: {stream.follows}.", fix=fix, about="growth")
            )
    return found, statuses
