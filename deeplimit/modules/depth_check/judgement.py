"""What was measured at each depth, judged by what was expected, and put into a report."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence

from deeplimit.common.report import one_line
from deeplimit.common.verdict import DepthVerdict
from deeplimit.modules.depth_check.base_scale import bases_of
from deeplimit.modules.depth_check.departures import EXACT
from deeplimit.modules.depth_check.exponent_findings import against_exponent, has_exponent
from deeplimit.modules.depth_check.findings import Finding, biases_of, number as in_words, once
from deeplimit.modules.depth_check.fixes import Fixes
from deeplimit.modules.depth_check.meaning import ADAPTER
from deeplimit.modules.depth_check.one_depth import AtOneDepth
from deeplimit.modules.depth_check.report import DepthReport, Status
from deeplimit.modules.depth_check.rule_findings import against_rule
from deeplimit.modules.depth_check.rules import Rule
from deeplimit.modules.depth_check.scaling import UNEVEN, BranchScaling, excess, scalings
from deeplimit.modules.depth_check.stream_findings import about_missing_skips, about_skip, about_streams
from deeplimit.modules.depth_check.stream_scaling import StreamScaling, streams
from deeplimit.modules.depth_check.uneven_layers import against_layers
from deeplimit.modules.depth_check.whole_findings import (
    about_copies,
    about_dropout,
    about_few_layers,
    as_profiles,
    is_one_layer,
    may_add_up,
    of_the_sum,
    suits_copies,
    undo_each_other,
)
from deeplimit.modules.trace.naming import alike
from deeplimit.version import versions


def report_on(
    name: str,
    depths: Sequence[int],
    taken: Sequence[AtOneDepth],
    rule: Rule | None,
    number: float | None,
    tolerance: float,
    confidence: float,
    seed: int,
    started: float,
) -> DepthReport:
    """Judge what was measured at each depth, by a rule or by an expected exponent, and report it."""
    branches = scalings(taken, confidence)
    flows = streams(taken, excess(branches))
    dying = _dying(flows, rule, number)
    level = 1 - (1 - confidence) / len(branches)
    findings: list[Finding] = []
    statuses: list[Status] = []
    withheld: list[str] = []  # findings that branches which were not found would explain
    asked, target = rule is not None or number is not None, number if rule is None else rule.exponent
    broken = about_missing_skips(branches, taken[-1].replacing) if asked else []
    for scaling in branches:
        found: list[Finding] = []
        agreed: bool | None = True
        # A hybrid may have no such branch at a small depth.
        present = [index for index, count in enumerate(scaling.counts) if count]
        present_depths = [depths[index] for index in present]
        carrying = [taken[index].streams[scaling.stream] for index in present]
        totals = [stream.branches + stream.heads for stream in carrying]
        deepens = len(depths) == 1 or (len(set(scaling.counts)) > 1 and len(set(totals)) > 1)
        if scaling.meaning == ADAPTER or not deepens or _remembers_longer(scaling):
            # A predictor, class attention: a rule about depth does not bind it.
            agreed = True if all(scaling.counts) and not _remembers_longer(scaling) else None
        elif rule is not None:
            everything = [_everywhere(taken[index]) for index in present]
            exact = max(EXACT, *(one.epsilon for one in taken))
            found = list(against_rule(scaling, branches, rule, present_depths, totals, everything, exact))
            for possible in _with_hidden(totals, scaling.counts[-1], [taken[index] for index in present]):
                others = {
                    item.parameter for item in against_rule(scaling, branches, rule, present_depths, possible)
                }
                withheld += [item.parameter for item in found if item.parameter not in others]
                found = [item for item in found if item.parameter in others]
            if any(part.name in withheld for part in scaling.parts) and not found:
                agreed = None
            elif len(depths) > 1 and not found and (rule.exponent is not None or rule.starts_at_zero):
                found, agreed = _effective(
                    scaling, rule.exponent, rule, present_depths, totals, tolerance, level
                )
        elif number is not None:
            found, agreed = _effective(scaling, number, None, present_depths, totals, tolerance, level)
        if deepens and scaling.stream < len(flows):
            fixes = Fixes.of(scaling, present_depths, totals)
            found += about_skip(scaling, flows[scaling.stream], rule, number, depths[-1], fixes)
        if asked and deepens and not _remembers_longer(scaling) and scaling.meaning != ADAPTER:
            found = _of_the_whole(scaling, target, found, present_depths, totals, taken[-1].likeness)
        # Another size of its branches mends no stream that dies out.
        found, agreed = _unless_broken(scaling, broken, [] if scaling.stream in dying else found, agreed)
        findings += found
        statuses.append(
            DepthVerdict.NOT_AS_EXPECTED
            if found
            else DepthVerdict.AS_EXPECTED
            if agreed
            else DepthVerdict.CANNOT_TELL
        )
    statuses, adding = _unless_adding(branches, statuses, target)
    if not asked:
        statuses = [DepthVerdict.MEASURED] * len(branches)
        stream_statuses = [DepthVerdict.MEASURED] * len(flows)
    else:
        more, stream_statuses = about_streams(flows, branches, findings, dying)
        findings += [] if broken else more  # a stream that does not go on says nothing about growth
    verdict: Status = next(
        (
            status
            for status in (DepthVerdict.NOT_AS_EXPECTED, DepthVerdict.CANNOT_TELL)
            if status in (*statuses, *stream_statuses)
        ),
        statuses[0],
    )
    if verdict == DepthVerdict.AS_EXPECTED and (_overlooked(taken) or _scattered(taken)):
        verdict = DepthVerdict.CANNOT_TELL  # about what was not seen, or not followed
    return DepthReport(
        verdict=verdict,
        model=name,
        depths=tuple(depths),
        parameters=tuple(one.parameters for one in taken),
        expected=rule.name if rule is not None else number,
        branches=branches,
        statuses=tuple(statuses),
        streams=flows,
        stream_statuses=tuple(stream_statuses),
        findings=once(findings),
        tolerance=tolerance,
        confidence=confidence,
        seed=seed,
        seconds=time.perf_counter() - started,
        versions=versions(),
        reservations=tuple(
            map(one_line, _reservations(branches, statuses, rule, taken, withheld, depths, dying, adding))
        ),
        citations=(rule.citation,) if rule is not None and rule.citation else (),
    )


def _unless_adding(
    branches: Sequence[BranchScaling], statuses: Sequence[Status], target: float | None
) -> tuple[list[Status], set[str]]:
    """Return the statuses, open for kinds whose sum may be of another size than the root of its terms' number
    says, and the names of those kinds.
    """
    adding = {
        scaling.kind
        for scaling, status in zip(branches, statuses, strict=True)
        if status == DepthVerdict.AS_EXPECTED and (may_add_up(scaling, target) or undo_each_other(scaling))
    }
    known = [
        DepthVerdict.CANNOT_TELL if scaling.kind in adding else status
        for scaling, status in zip(branches, statuses, strict=True)
    ]
    return known, adding


def _dying(flows: Sequence[StreamScaling], rule: Rule | None, number: float | None) -> set[int]:
    """Return the streams whose state shrinks, and must not.

    At exponent 0 every layer turns the state as far at any depth, and a state that shrinks is expected.
    """
    turns = number == 0.0 or (rule is not None and rule.exponent == 0.0)
    return set() if turns else {stream.stream for stream in flows if stream.dies_out}


def _effective(
    scaling: BranchScaling,
    target: float | None,
    rule: Rule | None,
    depths: Sequence[int],
    totals: Sequence[int],
    tolerance: float,
    level: float,
) -> tuple[list[Finding], bool | None]:
    """Return what the effective exponent of a kind of branch says against `target`, and whether it agrees.

    A target of None expects updates of zero.
    """
    if target is None:
        if any(size > 0 for size in scaling.sizes):
            wanted = (
                f"where {rule.name if rule else ''} has updates of zero (they are of size"
                f" {scaling.sizes[-1]:.3g})"
            )
            fixes = Fixes.of(scaling, depths, totals)
            left = [
                Finding(
                    scaling.kind,
                    part.name,
                    None,
                    f"is zero, but the gate that it makes is not, {wanted}. Is its layer's bias zero?",
                    fix=fixes.zero_module(part.name),
                    about="zero start",
                )
                for part in scaling.parts
                if part.role == "gate"
            ] or [
                Finding(
                    scaling.kind,
                    part.name,
                    None,
                    f"is {part.sizes[-1]:.4g} at the start {wanted}.",
                    fix=fixes.fill(part.name, "0"),
                    about="zero start",
                )
                for part in biases_of(scaling)
            ]
            whole = Finding(
                scaling.kind, scaling.kind, None, f"does not start at zero {wanted}.", about="zero start"
            )
            return left or [whole], False
        return [], True
    if uneven := list(against_layers(scaling, target, tolerance, level, depths, totals)):
        return uneven, False
    if scaling.few is not None:
        return [about_few_layers(scaling, target, depths, totals)], False
    agreed = has_exponent(scaling, target, tolerance)
    if agreed is False:
        return list(against_exponent(scaling, target, depths, totals)), False
    return [], agreed


def _of_the_whole(
    scaling: BranchScaling,
    target: float | None,
    found: Sequence[Finding],
    depths: Sequence[int],
    totals: Sequence[int],
    likeness: Mapping[str, float],
) -> list[Finding]:
    """Return the findings of a kind of branch with those that no single part shows."""
    of_biases = any(finding.parameter == part.name for finding in found for part in biases_of(scaling))
    # A bias that is too large makes layers alike: that is said first, unless they are copies of one layer.
    biased = of_biases and not is_one_layer(scaling)
    copies = [] if biased else about_copies(scaling, target, depths, totals, likeness)
    told = [] if suits_copies(copies) else as_profiles(scaling, target, found, depths, totals)
    return told + copies + about_dropout(scaling)


def _unless_broken(
    scaling: BranchScaling, broken: Sequence[Finding], found: list[Finding], agreed: bool | None
) -> tuple[list[Finding], bool | None]:
    """Return what is found of a kind of branch, or that layers of it lack their skip.

    Its layers are then on several streams, of which each shows a few.
    """
    if not any(alike(finding.parameter, part.name) for finding in broken for part in scaling.parts):
        return found, agreed
    return [finding for finding in broken if finding.branch == scaling.kind], None


def _remembers_longer(scaling: BranchScaling) -> bool:
    """Whether branches add to a velocity that keeps another share of itself at another depth."""
    return bool(scaling.kept) and max(scaling.kept) - min(scaling.kept) > EXACT


def _everywhere(one: AtOneDepth) -> int:
    """Return the number of branches on all streams."""
    return sum(stream.branches + stream.heads for stream in one.streams)


def _overlooked(taken: Sequence[AtOneDepth]) -> list[str]:
    """Return the names, starred, of weights outside of residual branches that become more with depth."""
    first, last = ([re.sub(r"\d+", "*", name) for name in one.outside] for one in (taken[0], taken[-1]))
    return [name for name in dict.fromkeys(last) if last.count(name) > first.count(name)]


def _with_hidden(totals: Sequence[int], likes: int, taken: Sequence[AtOneDepth]) -> Iterator[list[int]]:
    """Yield how many branches there may be if overlooked weights make up branches that were not found.

    `likes` is the number of branches of one kind in the deepest network: there may be as many hidden ones,
    each of one or more weights.
    """
    overlooked = _overlooked(taken)
    hidden = [sum(re.sub(r"\d+", "*", name) in overlooked for name in one.outside) for one in taken]
    most = round(hidden[-1] / likes)
    for kinds in range(1, most + 1):
        yield [total + round(count * kinds / most) for total, count in zip(totals, hidden, strict=True)]


def _scattered(taken: Sequence[AtOneDepth]) -> bool:
    """Whether a deeper network has more streams rather than longer ones."""
    return len(taken[-1].streams) > len(taken[0].streams)


def _reservations(
    branches: Sequence[BranchScaling],
    statuses: Sequence[str],
    rule: Rule | None,
    taken: Sequence[AtOneDepth],
    withheld: Sequence[str],
    depths: Sequence[int],
    dying: set[int],
    adding: set[str],
) -> list[str]:
    """Return what to keep in mind when reading the verdict, as sentences."""
    told = []
    fixed = [
        scaling.kind for scaling in branches if len(set(scaling.counts)) == 1 and len(scaling.counts) > 1
    ]
    if fixed:
        told.append(f"{', '.join(fixed)}: as many at every depth, so not judged.")
    adapters = [scaling.kind for scaling in branches if scaling.meaning == ADAPTER]
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
    if withheld:
        told.append(
            f"{', '.join(dict.fromkeys(withheld))}: not judged by {rule.name if rule else 'the rule'}, which"
            " counts the branches. If those weights are branches, there are more than were found."
        )
    if _scattered(taken):
        told.append(
            f"{len(taken[-1].streams)} residual streams at the largest depth but {len(taken[0].streams)} at"
            " the smallest. An operation between residual sums (a concatenation, a choice between tensors,"
            " one that is not known) hides that they continue one stream, so its depth cannot be counted."
        )
    if any(stream.gradient_end == 0 for at in taken for stream in at.streams):
        told.append(
            "the loss has gradient 0 at the end of a stream (a head that starts at zero, or a loss that does"
            " not depend on it), so nothing is known of gradients there."
        )
    if further := len(taken[0].redrawn):
        told.append(
            f"each depth was built from {1 + further} seeds, since one left an interval too wide. Exponents"
            " rest on all of them, unless layers follow a profile; other numbers rest on the first."
        )
    told += _of_velocities(branches)
    told += [f"{scaling.kind} {of_the_sum(scaling)}." for scaling in branches if scaling.kind in adding]
    told += [
        f"{scaling.kind}: the update at depth {depths[scaling.odd.place]} is {scaling.odd.factor:.2g} times"
        f" that on the line of the other depths, depth^-{scaling.odd.exponent:.2f}. Look at what that depth"
        " does otherwise, or leave it out."
        for scaling in branches
        if scaling.odd is not None
    ]
    bent = [scaling.kind for scaling in branches if not scaling.power_law and scaling.odd is None]
    if bent:
        told.append(
            f"{', '.join(bent)}: sizes do not follow one power of the depth; the exponent is the slope of the"
            " best line."
        )
    uneven = [scaling.kind for scaling in branches if UNEVEN < scaling.layered < math.inf]
    if uneven:
        told.append(f"layers of one network differ by more than three times: {', '.join(uneven)}.")
    known = [scaling for scaling in branches if scaling.exponent is not None]
    exponents = [scaling.exponent or 0.0 for scaling in known]
    if rule is None and known and max(exponents) - min(exponents) > 0.25:
        told.append(
            "kinds of branches scale differently with depth: was a rule applied to only some of them?"
        )
    if (
        rule is not None
        and rule.output.absolute
        and not rule.output.zero
        and bases_of(branches[0], branches, rule)[0].constant is None
    ):
        told.append("all weights depend on depth, so constant factors could not be judged.")
    if any(
        status == DepthVerdict.CANNOT_TELL
        and scaling.exponent is not None
        and scaling.power_law
        and not _remembers_longer(scaling)
        and scaling.stream not in dying
        and scaling.kind not in adding
        for scaling, status in zip(branches, statuses, strict=True)
    ):
        told.append(
            "an interval is too wide: it reaches what is expected, or what the tolerance allows, and what is"
            " too far from it; add depths that are further apart, or pass a larger batch."
        )
    return told


def _of_velocities(branches: Sequence[BranchScaling]) -> Iterator[str]:
    """Yield what a reader must know of branches that add to a velocity."""
    for scaling in branches:
        first, last = (scaling.kept[0], scaling.kept[-1]) if any(scaling.kept) else (0.0, 0.0)
        if _remembers_longer(scaling):
            yield (
                f"{scaling.kind}: not judged. It adds to a velocity that keeps {first:.4g} of itself from"
                f" layer to layer at the smallest depth and {last:.4g} at the largest, so how often an update"
                " is added depends on the depth."
            )
        elif last > 1 - EXACT:
            yield (
                f"{scaling.kind}: adds to a velocity that forgets nothing, as momenta of leapfrog steps do."
                " Each update is added in all later layers, half of all on average: update and exponent are"
                " those of all these additions together."
            )
        elif last:
            memory = f"about {in_words(1 / (1 - last))} layers"
            yield (
                f"{scaling.kind}: adds to a velocity that keeps {last:.4g} of itself from layer to layer."
                " Update, exponent and alignment are those of what a layer adds to it. Each is added in"
                f" {memory}, so networks should be much deeper than that."
            )
