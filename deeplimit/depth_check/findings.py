"""What is wrong with a scaling, in terms of parameters: which one, by what factor, and what it should have
been.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deeplimit.depth_check.base_scale import SAME, UNTOUCHED, Base, base_of
from deeplimit.depth_check.exponents import Exponent
from deeplimit.depth_check.rules import Fixup, Law, Power, Rule, Zero
from deeplimit.depth_check.scaling import BranchScaling, PartScaling

# Factors closer to one than this are not worth a word; published rules differ by more.
FACTOR = 1.1
QUERY_OR_KEY = re.compile(
    r"(^|[._])(q|k|query|key|to_q|to_k|wq|wk)(_?proj|_lin|_linear)?([._]|$)", re.IGNORECASE
)


@dataclass(frozen=True)
class Finding:
    """Something that is not as expected: of which kind of branch, which parameter, by how much too large at
    the deepest network.

    factor None: no factor tells it (a parameter is not zero that should be, a branch has no such part).
    """

    branch: str
    parameter: str
    factor: float | None
    message: str

    def __str__(self) -> str:
        return f"{self.parameter}: {self.message}"


def against_number(
    scaling: BranchScaling, expected: float, depths: Sequence[int], totals: Sequence[int]
) -> Iterator[Finding]:
    """Yield what makes the effective exponent of a kind of branch differ from `expected`; `totals` are
    branches at `depths`.
    """
    if scaling.exponent is None:
        dead = next((part for part in scaling.parts if part.sizes and not any(part.sizes)), _closest(scaling))
        yield Finding(
            scaling.kind,
            dead.name,
            0.0,
            f"{'is zero, so that ' if not any(dead.sizes) else ''}updates are zero at the start and no"
            f" exponent is there to compare with {expected:g}; if that is meant, pass expected='rezero' or"
            " 'fixup'.",
        )
        return
    ends = totals[-1] / totals[0]
    factor = ends ** (expected - scaling.exponent)
    so_far = (
        f"at depth {depths[-1]} the update is {_times(factor)} depth^-{expected:g}, counted from depth"
        f" {depths[0]}"
    )
    moving = [
        part
        for part in scaling.parts
        if part.exponent is not None and abs(part.exponent) > SAME and not _ignored(scaling, part)
    ]
    if scaling.exponent < expected:
        part = _closest(scaling)
        left = [
            other
            for other in biases_of(scaling)
            if other.exponent is None or other.exponent < expected - SAME
        ]
        if left and part.exponent is not None and part.exponent > expected - SAME:
            for bias in left:
                yield Finding(
                    scaling.kind,
                    bias.name,
                    factor,
                    f"is {bias.sizes[-1]:.4g} at depth {depths[-1]} and {bias.sizes[0]:.4g} at depth"
                    f" {depths[0]}, not scaled like {part.name} (depth^-{part.exponent:.2f}), so that the"
                    f" branch's effective exponent is {scaling.exponent:.2f} where {expected:g} is expected:"
                    f" {so_far}.",
                )
            return
        stray = [other for other in moving if other is not part and other.role == "inner"]
        strayed = (
            f" (what does fall with depth is {stray[0].name}, like depth^-{stray[0].exponent:.2f})"
            if stray
            else ""
        )
        own = (
            "does not depend on depth"
            if part.exponent is not None and abs(part.exponent) <= SAME
            else f"falls like depth^-{part.exponent or 0:.2f}"
        )
        yield Finding(
            scaling.kind,
            _called(part, scaling),
            factor,
            f"{own}{strayed}; the branch's effective exponent is {scaling.exponent:.2f} where {expected:g} is"
            f" expected: {so_far}.",
        )
        return
    falling = [part for part in moving if (part.exponent or 0) > 0] or [_closest(scaling)]
    both = " and ".join(f"{_called(part, scaling)} (depth^-{part.exponent or 0:.2f})" for part in falling)
    for part in falling:
        if part.role == "inner" and any(other.role != "inner" for other in falling):
            continue
        yield Finding(
            scaling.kind,
            _called(part, scaling),
            factor,
            f"scaled down too much: {both} give the effective exponent {scaling.exponent:.2f} where"
            f" {expected:g} is expected{'; applied twice?' if scaling.exponent > 1.5 * expected else ''}:"
            f" {so_far}.",
        )


def against_rule(
    scaling: BranchScaling,
    every: Sequence[BranchScaling],
    rule: Rule,
    depths: Sequence[int],
    totals: Sequence[int],
) -> Iterator[Finding]:
    """Yield where a kind of branch, one of `every`, departs from a published rule, part by part."""
    base = base_of(scaling, every, rule)
    for part in scaling.parts:
        if part.role in ("output", "inner"):
            if part.role == "output" and scaling.normed and isinstance(rule.output, Power):
                continue  # a norm comes after: its size does not count
            law = rule.output if part.role == "output" else rule.inner
            if part.role == "inner" and not rule.attends and QUERY_OR_KEY.search(part.name):
                law = Power(None, 0.0)
            yield from _weight(scaling, part, law, rule, depths, totals, base)
        elif part.role == "gain" and isinstance(rule.gain, Zero):
            if any(size != 0 for size in part.sizes):
                yield Finding(
                    scaling.kind,
                    part.name,
                    None,
                    f"is {part.sizes[-1]:.4g} at the start where {rule.name} has it zero, so that the branch"
                    " starts from nothing.",
                )
        elif part.role == "skip" and isinstance(rule.skip, Power):
            yield from _number(scaling, part, rule.skip, rule, depths, totals)
    if isinstance(rule.gain, Zero) and not any(part.role == "gain" for part in scaling.parts):
        yield Finding(
            scaling.kind,
            f"gain of {scaling.kind}",
            None,
            f"there is none: {rule.name} multiplies the branch by a parameter that starts at zero.",
        )
    if isinstance(rule.scale, Power):
        yield from _scale(scaling, rule.scale, rule, depths, totals)


def _weight(
    scaling: BranchScaling,
    part: PartScaling,
    law: Law,
    rule: Rule,
    depths: Sequence[int],
    totals: Sequence[int],
    base: Base,
) -> Iterator[Finding]:
    if isinstance(law, Zero):
        if any(size != 0 for size in part.sizes):
            yield Finding(
                scaling.kind,
                part.name,
                None,
                f"has standard deviation {part.sizes[-1]:.4g} at the start where {rule.name} has it zero.",
            )
        return
    if isinstance(law, Fixup):
        weights = sum(other.role in ("output", "inner") for other in scaling.parts)
        if weights < 2:
            return
        law = Power(None, 1 / (2 * weights - 2))
    if not isinstance(law, Power):
        return
    plain = base.of(part)
    if law.constant is not None and plain is not None:
        scales = [law.constant * total**-law.exponent for total in totals]
        # A projection may be left as torch makes it beside weights that are initialised otherwise
        # (nn.MultiheadAttention is), be it scaled by the rule or not.
        own = UNTOUCHED.of(part)
        if (
            rule.base == "siblings"
            and own
            and (_near(part.sizes, [own] * len(totals)) or _near(part.sizes, [own * x for x in scales]))
        ):
            base, plain = UNTOUCHED, own
        wanted = [plain * scale for scale in scales]
        factors = [
            size / want if want > 0 else math.inf for size, want in zip(part.sizes, wanted, strict=True)
        ]
        noise = 4 / math.sqrt(
            2 * max(part.weight.entries if part.weight else 1, 1) * max(scaling.counts[-1], 1)
        )
        if (
            max(abs(math.log(factor)) if factor > 0 else math.inf for factor in factors)
            > math.log(FACTOR) + noise
        ):
            everywhere = max(factors) / min(factors) < FACTOR**2 if min(factors) > 0 else False
            yield Finding(
                scaling.kind,
                part.name,
                factors[-1],
                f"std {part.sizes[-1]:.4g} at depth {depths[-1]} is {_times(factors[-1])} {rule.formula},"
                f" which asks for {wanted[-1]:.4g}"
                f" {_beside(base)}{', and by as much at every depth' if everywhere else ''}{_layers(part)}.",
            )
        return
    free = law.exponent == 0 and plain is not None and part.sizes[-1] > 0
    for finding in _number(scaling, part, Power(None, law.exponent), rule, depths, totals):
        if free and plain is not None:
            factor = part.sizes[-1] / plain
            told = f"{finding.message[:-1]}: {_times(factor)} the std {base} of other weights."
            yield Finding(finding.branch, finding.parameter, factor, told)
        else:
            yield finding


def _beside(base: Base) -> str:
    return (
        "where torch alone gives 0.5774/sqrt(fan-in)"
        if base is UNTOUCHED
        else f"where other weights have std {base}"
    )


def _near(sizes: Sequence[float], targets: Sequence[float]) -> bool:
    """Whether sizes are as large as targets, up to half of what is worth a word."""
    near = 0.5 * math.log(FACTOR)
    return all(
        size > 0 and abs(math.log(size / target)) < near for size, target in zip(sizes, targets, strict=True)
    )


def _number(
    scaling: BranchScaling,
    part: PartScaling,
    law: Power,
    rule: Rule,
    depths: Sequence[int],
    totals: Sequence[int],
) -> Iterator[Finding]:
    """Yield a finding if the sizes of a part over depths do not follow a power of the number of branches."""
    if any(not 0 < size < math.inf for size in part.sizes):
        return
    shape = [size * total**law.exponent for size, total in zip(part.sizes, totals, strict=True)]
    anchor = law.constant if law.constant is not None else shape[0]
    factor = shape[-1] / anchor
    # What a rule fixes wholly is a number, without noise; of the rest the exponent may be a little off.
    slack = 0.0 if law.constant is not None else SAME * math.log(totals[-1] / totals[0])
    if max(abs(math.log(value / anchor)) for value in shape) <= math.log(FACTOR) + slack:
        return
    if law.exponent == 0 and law.constant is None:
        told = (
            f"goes from {part.sizes[0]:.4g} at depth {depths[0]} to {part.sizes[-1]:.4g} at depth"
            f" {depths[-1]}, but {rule.name} leaves it alone"
        )
    else:
        wanted = anchor * totals[-1] ** -law.exponent
        told = (
            f"is {part.sizes[-1]:.4g} at depth {depths[-1]}, {_times(factor)} {rule.name}, which asks for"
            f" {wanted:.4g}"
        )
        told += f", counted from depth {depths[0]}" if law.constant is None and len(depths) > 1 else ""
    yield Finding(scaling.kind, _called(part, scaling), factor, f"{told}{_layers(part)}.")


def _scale(
    scaling: BranchScaling, law: Power, rule: Rule, depths: Sequence[int], totals: Sequence[int]
) -> Iterator[Finding]:
    """Yield a finding if gains and multipliers together do not follow the rule; it names the gain if there is
    one that moves.
    """
    multiplier = next(part for part in scaling.parts if part.role == "multiplier")
    gains = [part for part in scaling.parts if part.role == "gain"]
    sizes = tuple(
        size * math.prod(part.sizes[place] for part in gains[:1])
        for place, size in enumerate(multiplier.sizes)
    )
    named = multiplier
    if gains and (
        any(abs(size - 1) > 1e-6 for size in gains[0].sizes)
        and all(abs(size - 1) <= 1e-6 for size in multiplier.sizes)
    ):
        named = gains[0]
    whole = PartScaling(named.name, named.role, sizes, None, named.spread, None)
    if law.exponent and all(abs(size - sizes[0]) <= 1e-6 * sizes[0] for size in sizes) and len(sizes) > 1:
        factor = (totals[-1] / totals[0]) ** law.exponent
        yield Finding(
            scaling.kind,
            _called(whole, scaling),
            factor,
            f"is {sizes[-1]:.4g} at every depth where {rule.name} has {rule.formula}: at depth {depths[-1]}"
            f" it is {_times(factor)} that, counted from depth {depths[0]}.",
        )
        return
    yield from _number(scaling, whole, law, rule, depths, totals)


def _closest(scaling: BranchScaling) -> PartScaling:
    """Return the part that a depth scaling would be in: the gain or multiplier if there is one, else the
    output projection.
    """
    gains = [part for part in scaling.parts if part.role == "gain"]
    if gains:
        return gains[0]
    multiplier = next(part for part in scaling.parts if part.role == "multiplier")
    if any(abs(size - 1) > 1e-6 for size in multiplier.sizes):
        return multiplier
    return next((part for part in scaling.parts if part.role == "output"), multiplier)


def _ignored(scaling: BranchScaling, part: PartScaling) -> bool:
    return part.role in ("skip", "bias") or (part.role == "output" and scaling.normed)


def biases_of(scaling: BranchScaling) -> list[PartScaling]:
    """Return the biases at the end of a kind of branch that are not zero."""
    return [part for part in scaling.parts if part.role == "bias"]


def _called(part: PartScaling, scaling: BranchScaling) -> str:
    return f"{part.name} of {scaling.kind}" if part.role in ("multiplier", "skip") else part.name


def _layers(part: PartScaling) -> str:
    return (
        f"; layers differ among themselves by up to {part.spread:.3g} times"
        if part.spread > FACTOR**2
        else ""
    )


def _times(factor: float) -> str:
    """Return a factor in words.

    Examples:
        >>> _times(4.9), _times(0.5)
        ('4.9 times too large for', '2 times too small for')
    """
    return (
        f"{factor:.2g} times too large for"
        if factor >= 1
        else f"{1 / factor:.2g} times too small for"
        if factor > 0
        else "zero instead of"
    )


def agrees(scaling: BranchScaling, expected: float, tolerance: float) -> bool | None:
    """Return whether a kind's effective exponent is the expected one; None if that cannot be told."""
    if scaling.exponent is None or scaling.exponent_interval is None:
        return False if scaling.meaning.startswith(("identity", "no exponent")) else None
    low, high = scaling.exponent_interval
    return Exponent(scaling.exponent, 0.0, low, high, scaling.power_law).within(expected, tolerance)
