"""Findings against a published rule: which part of a branch departs from it, and by what factor."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deeplimit.depth_check.base_scale import SAME, TORCH_DEFAULT, Base, base_of
from deeplimit.depth_check.findings import FACTOR, Finding, part_name, spread_among_layers, times
from deeplimit.depth_check.rules import FREE, PartRule, Power, Rule
from deeplimit.depth_check.scaling import BranchScaling, PartScaling

QUERY_OR_KEY = re.compile(
    r"(^|[._])(q|k|query|key|to_q|to_k|wq|wk)(_?proj|_lin|_linear)?([._]|$)", re.IGNORECASE
)


def against_rule(
    scaling: BranchScaling,
    every: Sequence[BranchScaling],
    rule: Rule,
    depths: Sequence[int],
    totals: Sequence[int],
) -> Iterator[Finding]:
    """Yield where a kind of branch, one of `every`, departs from a published rule, part by part.

    `totals` are the numbers of branches at `depths`.
    """
    return _Judged(scaling, rule, depths, totals, base_of(scaling, every, rule)).findings()


@dataclass(frozen=True)
class _Judged:
    """One kind of branch, held against one rule."""

    scaling: BranchScaling
    rule: Rule
    depths: Sequence[int]
    totals: Sequence[int]
    base: Base

    def findings(self) -> Iterator[Finding]:
        weights = sum(part.role in ("output", "inner") for part in self.scaling.parts)
        for part in self.scaling.parts:
            if part.role == "output" and (self.rule.output.zero or not self.scaling.normed):
                # Under a norm the size of the projection does not count, only whether it is zero.
                yield from self._weight(part, self.rule.output, weights)
            elif part.role == "inner":
                free = not self.rule.attends and QUERY_OR_KEY.search(part.name)
                yield from self._weight(part, FREE if free else self.rule.inner, weights)
            elif part.role == "gain" and self.rule.gain.zero and any(part.sizes):
                yield self._finding(
                    part,
                    None,
                    f"is {part.sizes[-1]:.4g} at initialisation where {self.rule.name} has it zero, so that"
                    " the branch starts from nothing.",
                )
            elif part.role == "skip" and (power := self.rule.skip.power(weights)) is not None:
                yield from self._number(part, power)
        if self.rule.gain.zero and not any(part.role == "gain" for part in self.scaling.parts):
            yield Finding(
                self.scaling.kind,
                f"gain of {self.scaling.kind}",
                None,
                f"is missing: {self.rule.name} multiplies the branch by a parameter that starts at zero.",
            )
        if (power := self.rule.scale.power(weights)) is not None:
            yield from self._scale(power)

    def _weight(self, part: PartScaling, asked: PartRule, weights: int) -> Iterator[Finding]:
        if asked.zero and any(part.sizes):
            yield self._finding(
                part,
                None,
                f"has standard deviation {part.sizes[-1]:.4g} at initialisation where {self.rule.name} has it"
                " zero.",
            )
        power = asked.power(weights)
        if power is None:
            return
        plain = self.base.of(part)
        if power.constant is not None and plain is not None:
            yield from self._absolute(part, power.constant, power.exponent, plain)
            return
        for finding in self._number(part, Power(None, power.exponent)):
            if power.exponent == 0 and plain is not None and part.sizes[-1] > 0:
                factor = part.sizes[-1] / plain
                told = f"{finding.message[:-1]}: {times(factor)} the std {self.base} of other weights."
                yield self._finding(part, factor, told)
            else:
                yield finding

    def _absolute(
        self, part: PartScaling, constant: float, exponent: float, plain: float
    ) -> Iterator[Finding]:
        """Yield a finding if a weight's standard deviation is not what the rule states, at every depth."""
        base = self.base
        scales = [constant * total**-exponent for total in self.totals]
        # A projection may be left as torch makes it beside weights that are initialised otherwise
        # (nn.MultiheadAttention is), whether or not the rule scales it.
        untouched = TORCH_DEFAULT.of(part)
        if (
            self.rule.base == "siblings"
            and untouched
            and (
                _near(part.sizes, [untouched] * len(scales))
                or _near(part.sizes, [untouched * scale for scale in scales])
            )
        ):
            base, plain = TORCH_DEFAULT, untouched
        wanted = [plain * scale for scale in scales]
        factors = [
            size / want if want > 0 else math.inf for size, want in zip(part.sizes, wanted, strict=True)
        ]
        entries = max(part.weight.entries if part.weight else 1, 1)
        noise = 4 / math.sqrt(2 * entries * max(self.scaling.counts[-1], 1))
        off = max(abs(math.log(factor)) if factor > 0 else math.inf for factor in factors)
        if off <= math.log(FACTOR) + noise:
            return
        everywhere = max(factors) / min(factors) < FACTOR**2 if min(factors) > 0 else False
        yield self._finding(
            part,
            factors[-1],
            f"std {part.sizes[-1]:.4g} at depth {self.depths[-1]} is {times(factors[-1])}"
            f" {self.rule.formula}, which asks for {wanted[-1]:.4g} {_beside(base)}"
            f"{', and by as much at every depth' if everywhere else ''}{spread_among_layers(part)}.",
        )

    def _number(self, part: PartScaling, power: Power) -> Iterator[Finding]:
        """Yield a finding if the sizes of a part over depths do not follow a power of their number."""
        if any(not 0 < size < math.inf for size in part.sizes):
            return
        shape = [size * total**power.exponent for size, total in zip(part.sizes, self.totals, strict=True)]
        anchor = power.constant if power.constant is not None else shape[0]
        factor = shape[-1] / anchor
        # A size that the rule states is exact; if it states an exponent only, that may be a little off.
        slack = 0.0 if power.constant is not None else SAME * math.log(self.totals[-1] / self.totals[0])
        if max(abs(math.log(value / anchor)) for value in shape) <= math.log(FACTOR) + slack:
            return
        if power.exponent == 0 and power.constant is None:
            told = (
                f"goes from {part.sizes[0]:.4g} at depth {self.depths[0]} to {part.sizes[-1]:.4g} at depth"
                f" {self.depths[-1]}, but {self.rule.name} leaves it alone"
            )
        else:
            wanted = anchor * self.totals[-1] ** -power.exponent
            relative = power.constant is None and len(self.depths) > 1
            told = (
                f"is {part.sizes[-1]:.4g} at depth {self.depths[-1]}, {times(factor)} {self.rule.name}, which"
                f" asks for {wanted:.4g}{f', counted from depth {self.depths[0]}' if relative else ''}"
            )
        yield self._finding(part, factor, f"{told}{spread_among_layers(part)}.")

    def _scale(self, power: Power) -> Iterator[Finding]:
        """Yield a finding if gain and multipliers together do not follow the rule.

        It names the gain if only the gain differs from 1, else the multiplier.
        """
        multiplier = next(part for part in self.scaling.parts if part.role == "multiplier")
        gains = [part for part in self.scaling.parts if part.role == "gain"][:1]
        sizes = tuple(
            size * math.prod(part.sizes[place] for part in gains)
            for place, size in enumerate(multiplier.sizes)
        )
        named = multiplier
        if (
            gains
            and any(abs(size - 1) > 1e-6 for size in gains[0].sizes)
            and all(abs(size - 1) <= 1e-6 for size in multiplier.sizes)
        ):
            named = gains[0]
        whole = PartScaling(named.name, named.role, sizes, None, named.spread, None)
        constant = all(abs(size - sizes[0]) <= 1e-6 * sizes[0] for size in sizes)
        if not (power.exponent and constant and len(sizes) > 1):
            yield from self._number(whole, power)
            return
        factor = (self.totals[-1] / self.totals[0]) ** power.exponent
        yield self._finding(
            whole,
            factor,
            f"is {sizes[-1]:.4g} at every depth where {self.rule.name} has {self.rule.formula}: at depth"
            f" {self.depths[-1]} it is {times(factor)} that, counted from depth {self.depths[0]}.",
        )

    def _finding(self, part: PartScaling, factor: float | None, message: str) -> Finding:
        return Finding(self.scaling.kind, part_name(part, self.scaling), factor, message)


def _beside(base: Base) -> str:
    if base is TORCH_DEFAULT:
        return "where torch alone gives 0.5774/sqrt(fan-in)"
    return f"where other weights have std {base}"


def _near(sizes: Sequence[float], targets: Sequence[float]) -> bool:
    """Whether sizes are as large as targets, up to half of the factor that is reported."""
    near = 0.5 * math.log(FACTOR)
    return all(
        size > 0 and abs(math.log(size / target)) < near for size, target in zip(sizes, targets, strict=True)
    )
