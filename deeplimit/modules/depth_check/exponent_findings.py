"""Findings against an expected exponent: which part of a branch makes its effective exponent differ."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from deeplimit.modules.depth_check.base_scale import SAME
from deeplimit.modules.depth_check.exponents import Exponent
from deeplimit.modules.depth_check.findings import (
    Finding,
    biases_of,
    part_name,
    part_that_should_scale,
    power_of_depth,
    times,
)
from deeplimit.modules.depth_check.fixes import Fixes
from deeplimit.modules.depth_check.part_rules import power_in_code
from deeplimit.modules.depth_check.scaling import BranchScaling, PartScaling

REPARAMETRISED = re.compile(r"\.parametrizations\.|\.weight_(v|orig)$")
"""Parameters of which torch's reparametrisations make a weight: which function of them is not in the name."""
SAME_GAIN = 1e-3
"""A gain that acts as it is stored does so to round-off, of half precision at most."""


def has_exponent(scaling: BranchScaling, expected: float, tolerance: float) -> bool | None:
    """Return whether a kind's effective exponent is the expected one; None if that cannot be told."""
    if scaling.exponent is None or scaling.exponent_interval is None:
        return False if scaling.meaning.startswith(("identity", "no exponent")) else None
    low, high = scaling.exponent_interval
    return Exponent(scaling.exponent, 0.0, low, high, scaling.power_law).within(expected, tolerance)


def against_exponent(
    scaling: BranchScaling, expected: float, depths: Sequence[int], totals: Sequence[int]
) -> Iterator[Finding]:
    """Yield what makes the effective exponent of a kind of branch differ from `expected`.

    `totals` are the numbers of branches at `depths`.
    """
    fixes = Fixes.of(scaling, depths, totals)
    if scaling.exponent is None:
        yield _zero(scaling, expected, fixes)
        return
    lacking = round(4 * (expected - scaling.exponent)) / 4 or expected - scaling.exponent
    factors = [total**-lacking for total in totals]
    factor = (totals[-1] / totals[0]) ** (expected - scaling.exponent)
    effect = f"the branch's effective exponent is {scaling.exponent:.2f} where {expected:g} is expected"
    wanted = f"depth^-{expected:g}" if expected else "one size at every depth"
    so_far = f"at depth {depths[-1]} the update is {times(factor)} {wanted}, counted from depth {depths[0]}"
    moving = [
        part
        for part in scaling.parts
        if part.exponent is not None and abs(part.exponent) > SAME and not _ignored(scaling, part)
    ]
    if scaling.exponent > expected:
        for place, finding in enumerate(_too_much(scaling, expected, moving, factor, so_far)):
            # One line is enough: together they would set it right twice.
            yield finding if place else replace(finding, fix=_multiplied(fixes, scaling, finding, factors))
        return
    part = part_that_should_scale(scaling)
    unscaled = [
        bias
        for bias in biases_of(scaling)
        if not (bias.scaled and part.role in ("gain", "multiplier"))
        and (bias.exponent is None or bias.exponent < expected - SAME)
    ]
    if unscaled and part.exponent is not None and part.exponent > expected - SAME:
        for bias in unscaled:
            yield Finding(
                scaling.kind,
                bias.name,
                factor,
                f"is {bias.sizes[-1]:.4g} at depth {depths[-1]} and {bias.sizes[0]:.4g} at depth {depths[0]}."
                f" It is not scaled like {part.name}, which {power_of_depth(part.exponent)}, so {effect}:"
                f" {so_far}.",
                fix=fixes.fill(bias.name, "0"),
                about="exponent",
            )
        return
    stray = [other for other in moving if other is not part and other.role == "inner"]
    strayed = f" (instead {stray[0].name} {power_of_depth(stray[0].exponent or 0.0)})" if stray else ""
    told = Finding(
        scaling.kind,
        part_name(part, scaling),
        factor,
        f"{_own_power(part)}{strayed}; {effect}: {so_far}.",
        about="exponent",
    )
    yield replace(told, fix=_multiplied(fixes, scaling, told, factors))
    # The factor is the output's, which has the biases in it.
    if told.parameter != part.name or _acts_by_a_function(part):
        return
    # Experts, or branches in parallel, have a projection each.
    beside = [other for other in scaling.parts if other.role == part.role == "output" and other is not part]
    for other in (*beside, *unscaled):
        if any(other.sizes):
            yield Finding(
                scaling.kind,
                other.name,
                factor,
                f"{_own_power(other)}; it needs the factor of {part.name}.",
                fix=fixes.multiply(other.name, factors),
                about="exponent",
            )


def _own_power(part: PartScaling) -> str:
    """Return with which power of the depth a part's entries change."""
    constant = part.exponent is None or abs(part.exponent) <= SAME
    return power_of_depth(0.0 if constant else part.exponent or 0.0)


def _multiplied(fixes: Fixes, scaling: BranchScaling, found: Finding, factors: Sequence[float]) -> str:
    """Return the line that multiplies what a finding names by these factors."""
    part = next(part for part in scaling.parts if part_name(part, scaling) == found.parameter)
    if part.role in ("multiplier", "skip") or _acts_by_a_function(part):
        return fixes.multiply_output(factors)
    return fixes.multiply(part.name, factors)


def _acts_by_a_function(part: PartScaling) -> bool:
    """Whether the module uses a function of a parameter, so that a factor of it is none of the branch.

    A direction that is normalised (weight norm, spectral norm), a gate behind a sigmoid.
    """
    if REPARAMETRISED.search(part.name):
        return True
    stored = None if part.weight is None else part.weight.size
    return (
        part.role == "gain" and stored is not None and abs(stored - part.layers[-1][0]) > SAME_GAIN * stored
    )


def _zero(scaling: BranchScaling, expected: float, fixes: Fixes) -> Finding:
    zeros = (part for part in scaling.parts if part.sizes and not any(part.sizes))
    part = next(zeros, part_that_should_scale(scaling))
    scale = power_in_code(1.0, fixes.names(part.name).branches, expected)
    why = "" if any(part.sizes) else "is zero, so "
    return Finding(
        scaling.kind,
        part.name,
        0.0,
        f"{why}updates are zero at initialisation and have no exponent to compare with {expected:g}. If that"
        " is intended, pass expected='rezero' or 'fixup'.",
        fix=fixes.fill(part.name, scale)
        if part.role == "gain"
        else fixes.initialise(part.name, part.weight.fan_in**-0.5, scale)
        if part.weight is not None
        else "",
        about="exponent",
    )


def _too_much(
    scaling: BranchScaling, expected: float, moving: Sequence[PartScaling], factor: float, so_far: str
) -> Iterator[Finding]:
    """Yield the parts that fall with depth and together make a branch fall faster than expected."""
    falling = [part for part in moving if (part.exponent or 0) > 0] or [part_that_should_scale(scaling)]
    together = " and ".join(
        f"{part_name(part, scaling)} ({power_of_depth(part.exponent or 0.0)})" for part in falling
    )
    several = f"{together} together" if len(falling) > 1 else ""
    twice = "; applied twice?" if 0 < 1.5 * expected < (scaling.exponent or 0.0) else ""
    for part in falling:
        if part.role == "inner" and any(other.role != "inner" for other in falling):
            continue
        yield Finding(
            scaling.kind,
            part_name(part, scaling),
            factor,
            f"scaled down too much: {several or power_of_depth(part.exponent or 0.0)}; the branch's effective"
            f" exponent is {scaling.exponent:.2f} where {expected:g} is expected{twice}: {so_far}.",
            about="exponent",
        )


def _ignored(scaling: BranchScaling, part: PartScaling) -> bool:
    return part.role in ("skip", "bias") or (part.role == "output" and scaling.normed)
