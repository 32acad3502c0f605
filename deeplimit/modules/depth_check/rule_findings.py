"""Findings against a published rule: which part of a branch departs from it, where, and by what factor."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from deeplimit.modules.depth_check.base_scale import TORCH_DEFAULT, Base, bases_elsewhere, bases_of, beside
from deeplimit.modules.depth_check.departures import (
    DRAWN,
    EXACT,
    Departure,
    count_in_words,
    departure,
    drift,
    drifted,
    mean,
    mixed,
    near,
)
from deeplimit.modules.depth_check.findings import (
    FACTOR,
    ROLES,
    Finding,
    layers_in_words,
    part_name,
    spread_among_layers,
    times,
)
from deeplimit.modules.depth_check.fixes import ADD_GATE, Fixes, in_forward
from deeplimit.modules.depth_check.part_rules import FREE, PartRule, Place
from deeplimit.modules.depth_check.rules import Rule
from deeplimit.modules.depth_check.scaling import BranchScaling, PartScaling

QUERY_OR_KEY = re.compile(
    r"(^|[._])(q|k|query|key|to_q|to_k|wq|wk)(_?proj|_lin|_linear)?([._]|$)", re.IGNORECASE
)
_FROM_ZERO = {
    "gain": "a parameter that starts at zero",
    "gate": "the output of a linear layer of the conditioning, whose weight starts at zero",
}
FUSED = re.compile(r"qkv|in_proj|c_attn|query_key_value|w_?pack", re.IGNORECASE)


def against_rule(
    scaling: BranchScaling,
    every: Sequence[BranchScaling],
    rule: Rule,
    depths: Sequence[int],
    totals: Sequence[int],
    everything: Sequence[int] = (),
    exact: float = EXACT,
) -> Iterator[Finding]:
    """Yield where a kind of branch, one of `every`, departs from a published rule, part by part.

    `totals` are the numbers of branches on the kind's stream at `depths`, `everything` those on all streams.
    Numbers that are read exactly are judged up to the relative error `exact`.
    """
    bases, elsewhere = bases_of(scaling, every, rule), bases_elsewhere(scaling, every, rule)
    others = (everything,) if everything else ()
    return _Judged(scaling, rule, depths, totals, bases, elsewhere, others, exact).findings()


@dataclass(frozen=True)
class _Judged:
    """One kind of branch, held against one rule."""

    scaling: BranchScaling
    rule: Rule
    depths: Sequence[int]
    totals: Sequence[int]
    bases: Sequence[Base]
    elsewhere: Sequence[Base]  # what the other branches' weights say
    others: Sequence[Sequence[int]]  # what else a rule may count
    exact: float

    def findings(self) -> Iterator[Finding]:
        for part in self._parts():
            if part.role == "output" and (self.rule.output.zero or not self.scaling.normed):
                # Under a norm the size of the projection does not count, only whether it is zero.
                yield from self._weight(part, self.rule.output)
            elif part.role == "inner":
                yield from self._inner(part)
            elif part.role in self._zeros() and any(self.scaling.sizes):
                yield from self._zero(part, "is", ", so that the branch starts from nothing")
            elif part.role in ("skip", "entry", "gain"):
                asked = {"skip": self.rule.skip, "entry": self.rule.entry, "gain": self.rule.gain}[part.role]
                yield from self._number(replace(part, weight=None), asked)
        if (
            self.rule.gain.absolute
            and not self._zeros()
            and not any(part.role == "gain" for part in self.scaling.parts)
        ):
            yield Finding(
                self.scaling.kind,
                f"gain of {self.scaling.kind}",
                None,
                f"is missing: {self.rule.name} multiplies the branch by a parameter ({self.rule.formula}).",
                fix=self._fixes.add_gain(self._code(self.rule.gain, self._fixes.projection)),
                about="gain",
            )
        if self._zeros() and not any(part.role in self._zeros() for part in self.scaling.parts):
            yield Finding(
                self.scaling.kind,
                f"{self._zeros()[-1]} of {self.scaling.kind}",
                None,
                f"is missing: {self.rule.name} multiplies the branch by {_FROM_ZERO[self._zeros()[-1]]}.",
                fix=self._fixes.add_gain("0.0") if self.rule.gain.zero else ADD_GATE,
                about=self._zeros()[-1],
            )
        yield from self._scale()

    @property
    def _fixes(self) -> Fixes:
        return Fixes.of(self.scaling, self.depths, self.totals)

    def _code(self, asked: PartRule, parameter: str) -> str:
        weights = sum(part.role in ("output", "inner") for part in self.scaling.parts)
        return asked.code(self._fixes.names(parameter), weights)

    def _parts(self) -> tuple[PartScaling, ...]:
        """Return the branch's parts, with an input multiplier of one where there is none."""
        parts = self.scaling.parts
        if any(part.role == "entry" for part in parts):
            return parts
        skip = next(part for part in parts if part.role == "skip")
        layers = tuple((1.0,) * len(sizes) for sizes in skip.layers)
        one = replace(skip, name="input multiplier", role="entry", sizes=(1.0,) * len(layers), layers=layers)
        return (*parts, one)

    def _zeros(self) -> tuple[str, ...]:
        """Return the roles of which one must be there and zero; a gate is a gain that a condition makes."""
        return ("gate", "gain") if self.rule.gain.zero else ("gate",) if self.rule.gate.zero else ()

    def _shape(self, asked: PartRule, part: PartScaling, counted: Sequence[int]) -> list[list[float]] | None:
        """Return the size that a rule asks for in each layer at each depth; None if it asks for none."""
        weights = sum(other.role in ("output", "inner") for other in self.scaling.parts)
        shape = [
            [asked.size(Place(layer + 1, len(layers), total, weights)) for layer in range(len(layers))]
            for layers, total in zip(part.layers, counted, strict=True)
        ]
        known = [[size for size in sizes if size is not None] for sizes in shape]
        return known if list(map(len, known)) == list(map(len, shape)) else None

    def _zero(self, part: PartScaling, verb: str, why: str = "") -> Iterator[Finding]:
        """Yield a finding if a part that should be zero is not, in all layers or in some."""
        last = part.layers[-1]
        bad = tuple(place for place, size in enumerate(last) if size)
        if not any(part.sizes):
            return
        some = 0 < len(bad) < len(last)
        size = mean([last[place] for place in bad]) if bad else part.sizes[-1]
        yield self._finding(
            part,
            Departure(None, bad if some else ()),
            f"{verb} {size:.4g}{self._in_layers(bad if some else ())} at initialisation where"
            f" {self.rule.name} has it zero{why}.",
            self._fixes.zero_module(part.name) if part.role == "gate" else self._fixes.fill(part.name, "0"),
        )

    def _inner(self, part: PartScaling) -> Iterator[Finding]:
        asked = self.rule.inner
        if self.rule.attends:
            yield from self._weight(part, asked)
        elif QUERY_OR_KEY.search(part.name):
            yield from self._weight(part, FREE)
        elif FUSED.search(part.name) and all(part.thirds):
            yield from self._fused(part)
        else:
            yield from self._weight(part, asked)

    def _fused(self, part: PartScaling) -> Iterator[Finding]:
        """Yield findings of queries, keys and values in one weight, of which a rule binds the values only.

        They may lie in thirds, or interleaved by heads; and each may be initialised as a matrix of its own,
        or all as one.
        """
        whole = part.weight
        assert whole is not None  # that has thirds
        alone = replace(whole, entries=whole.entries // 3, fan_out=whole.fan_out // 3)
        told: list[list[Finding]] = []
        for weight in (alone, replace(whole, entries=alone.entries)):
            queries, keys, values = (
                replace(part, sizes=sizes, layers=tuple((size,) for size in sizes), weight=weight, spread=1.0)
                for sizes in zip(*part.thirds, strict=True)
            )
            found = [
                (name, finding)
                for name, third, asked in (
                    ("queries", queries, FREE),
                    ("keys", keys, FREE),
                    ("values", values, self.rule.inner),
                )
                for finding in self._weight(third, asked)
            ]
            shape, plain = self._shape(self.rule.inner, values, self.totals), self.bases[0].of(values)
            if not found or (plain and shape and mixed(part, plain, [scales[0] for scales in shape])):
                return
            told.append(
                [
                    replace(
                        finding,
                        message=f"its {name}: {finding.message}",
                        fix=self._fixes.third(
                            finding.fix, part.name, ("queries", "keys", "values").index(name)
                        ),
                    )
                    for name, finding in found
                ]
            )
        yield from min(told, key=_departs_by)

    def _weight(self, part: PartScaling, asked: PartRule) -> Iterator[Finding]:
        """Yield findings of a weight unless one of the alternatives that a rule leaves has none."""
        found = [list(self._one_weight(part, one)) for one in asked.alternatives]
        if all(found):
            yield from min(found, key=_departs_by)

    def _one_weight(self, part: PartScaling, asked: PartRule) -> Iterator[Finding]:
        if asked.zero:
            yield from self._zero(part, "has standard deviation")
        shape = self._shape(asked, part, self.totals)
        if shape is None:
            return
        bases = [base for base in self.bases if base.of(part) is not None]
        if asked.absolute and bases:
            yield from self._absolute(part, asked, shape, bases)
            return
        for finding in self._number(part, asked):
            if asked == FREE and bases and part.sizes[-1] > 0:
                factor = part.sizes[-1] / (bases[0].of(part) or 1.0)
                told = f"{finding.message[:-1]}: {times(factor)} the std {bases[0]} of other weights."
                fix = self._fixes.initialise(part.name, bases[0].of(part) or math.nan, "1")
                yield replace(finding, factor=factor, message=told, fix=fix)
            else:
                yield finding

    def _absolute(
        self, part: PartScaling, asked: PartRule, shape: Sequence[Sequence[float]], bases: Sequence[Base]
    ) -> Iterator[Finding]:
        """Yield a finding if a weight's standard deviation is not what the rule states, at every depth.

        Where the other weights leave open how it would be without the rule, it must depart from all of that.
        """
        # A projection may be left as torch makes it beside weights that are initialised otherwise
        # (nn.MultiheadAttention is), whether or not the rule scales it.
        untouched = TORCH_DEFAULT.of(part)
        if (
            self.rule.base == "siblings"
            and untouched
            and (
                near(part.sizes, [untouched] * len(shape))
                or near(part.sizes, [untouched * mean(scales) for scales in shape])
            )
        ):
            bases = [TORCH_DEFAULT]
        departures = [self._departure(part, shape, base) for base in bases]
        found = departures[0]
        if found is None or None in departures:
            return
        fitting = [base for base in self.elsewhere if self._departure(part, shape, base) is None]
        if fitting and part.role == "output" and (others := list(self._beside(part, fitting[0]))):
            yield from others
            return
        plains = [base.of(part) or math.nan for base in bases]
        fix = self._fixes.initialise(part.name, plains[0], self._code(asked, part.name))
        unscaled = any(near(part.sizes, [plain] * len(shape)) for plain in plains)
        constant_in_depth = drift(shape) and max(part.sizes) < FACTOR * min(part.sizes)
        if constant_in_depth and not unscaled and not found.layers:
            yield replace(self._stuck(part, shape, bases[0]), fix=fix)
            return
        chosen = found.layers or range(len(shape[-1]))
        wanted = plains[0] * mean([shape[-1][place] for place in chosen])
        size = mean([part.layers[-1][place] for place in chosen])
        constant = [
            f"; {other.times.removesuffix(' for')} if that std is a constant"
            for base, other in zip(bases[1:], departures[1:], strict=True)
            if base.law == "constant" and other is not None and not other.near(found)
        ]
        yield self._finding(
            part,
            found,
            f"std {size:.4g}{self._in_layers(found.layers)} at depth {self.depths[-1]} is {found.times}"
            f" {self.rule.formula}, which asks for {wanted:.4g} {beside(bases[0])}{''.join(constant)}"
            f"{', and by as much at every depth' if found.everywhere and not constant else ''}"
            f"{'; the other layers follow it' if found.layers else spread_among_layers(part)}.",
            fix,
        )

    def _stuck(self, part: PartScaling, shape: Sequence[Sequence[float]], base: Base) -> Finding:
        """Return the finding of a weight that should change with depth and does not."""
        wanted = [(base.of(part) or math.nan) * mean(scales) for scales in shape]
        factors = [size / want for size, want in zip(part.sizes, wanted, strict=True)]
        # A constant depth may be the deepest one's.
        place = max(range(len(factors)), key=lambda place: abs(math.log(factors[place])))
        if max(factors[-1], 1 / factors[-1]) > FACTOR:
            place = len(factors) - 1
        return self._finding(
            part,
            Departure(factors[place]),
            f"std {part.sizes[place]:.4g} does not change with depth: at depth {self.depths[place]} it is"
            f" {times(factors[place])} {self.rule.formula}, which asks for {wanted[place]:.4g}"
            f" {beside(base)}. The depth may be read from a field that is not the number of layers.",
        )

    def _beside(self, output: PartScaling, base: Base) -> Iterator[Finding]:
        """Yield the weights at odds with all other branches'; beside these the projection is right."""
        for part in self.scaling.parts:
            plain = base.of(part)
            if part.role != "inner" or plain is None:
                continue
            found = departure(part, [[plain] * len(sizes) for sizes in part.layers])
            if found is not None:
                yield self._finding(
                    part,
                    found,
                    f"std {part.sizes[-1]:.4g}{self._in_layers(found.layers)} is {found.times} the std"
                    f" {base} of the other branches, beside which {output.name} follows {self.rule.formula}.",
                    self._fixes.initialise(part.name, plain, "1"),
                )

    def _departure(self, part: PartScaling, shape: Sequence[Sequence[float]], base: Base) -> Departure | None:
        plain = base.of(part)
        if plain is None:
            return None
        return departure(part, [[plain * scale for scale in scales] for scales in shape])

    def _number(self, part: PartScaling, asked: PartRule) -> Iterator[Finding]:
        """Yield a finding if the sizes of a part over depths do not follow what a rule asks for.

        Numbers in the forward are exact. Whether they count branches, layers of their kind, or what the
        factory calls the depth, is for the network to say.
        """
        if any(not 0 < size < math.inf for size in part.sizes):
            return
        stated = asked.absolute and part.weight is None  # a weight's size is stated beside others' only
        found, shape = None, None
        layers = [len(sizes) for sizes in part.layers]
        for counted in (
            (self.totals, layers, self.depths, *self.others) if part.weight is None else (self.totals,)
        ):
            shapes = self._shape(asked, part, counted)
            if shapes is None:
                return
            odd = drifted(part, stated, shapes, self.totals, self.exact)
            if odd is None:
                return
            found, shape = (found, shape) if found is not None else (odd, shapes)
            if stated:
                break
        assert found is not None
        assert shape is not None
        fits = count_in_words(part, partial(self._shape, asked, part), self.depths, self.exact)
        fits = "" if stated or part.weight is not None else fits
        told = f"{self._number_in_words(part, stated, shape, found)}{fits}."
        yield self._finding(part, found, told, self._number_fixed(part, asked, shape, found))

    def _number_fixed(
        self, part: PartScaling, asked: PartRule, shape: Sequence[Sequence[float]], found: Departure
    ) -> str:
        """Return the line that sets right a number in the forward, a gain, or a weight of no known law."""
        stated = asked.absolute and part.weight is None
        code = self._code(asked, self._fixes.projection) if stated else f"{part.sizes[0]:.4g}"
        if part.role == "skip":
            return self._fixes.pass_on(part.sizes[-1], code)
        if part.role == "entry":
            return in_forward(f"x = x + branch({code} * norm(x))")
        if part.role == "gain" and asked is self.rule.gain:
            return self._fixes.fill(part.name, code)
        wanted = [mean(scales) for scales in shape]
        anchor = 1.0 if stated else part.sizes[0] / wanted[0]
        factors = [anchor * want / size for want, size in zip(wanted, part.sizes, strict=True)]
        places: Sequence[Sequence[int]] = ()
        if found.layers and found.factor:
            known = bool(found.places) and all(found.places)  # in some layers of every depth
            places = found.places or (found.layers,)
            factors = [1 / factor for factor in found.factors] if known else [1 / found.factor]
            stated = True
        elif part.role == "multiplier" and max(part.layers[-1]) > min(part.layers[-1]) * (1 + self.exact):
            code = self._code(asked, self._fixes.projection)
            return in_forward(f"x = x + {code} * branch(x)  # alike in all layers")
        if part.role == "multiplier":
            return self._fixes.multiply_output(factors, places, stated)
        return self._fixes.multiply(part.name, factors, places, stated)

    def _number_in_words(
        self, part: PartScaling, stated: bool, shape: Sequence[Sequence[float]], found: Departure
    ) -> str:
        first, last = part.sizes[0], part.sizes[-1]
        start, end = self.depths[0], self.depths[-1]
        several = len(self.depths) > 1
        assert found.factor is not None
        if not stated and not drift(shape):
            return (
                f"{'' if part.weight is None else 'std '}goes from {first:.4g} at depth {start} to {last:.4g}"
                f" at depth {end}, but {self.rule.name} leaves it alone{spread_among_layers(part)}"
            )
        chosen = found.layers or range(len(shape[-1]))
        size = mean([part.layers[-1][place] for place in chosen])
        counted = "" if stated or not several else f", counted from depth {start}"
        if found.layers:
            return (
                f"is {size:.4g}{self._in_layers(found.layers)} at depth {end}, {found.times}"
                f" {self.rule.name}, which the other layers follow"
            )
        if several and drift(shape) and abs(last - first) <= 1e-6 * first:
            asks = self.rule.formula if part.role != "skip" else f"{mean(shape[-1]):.4g} there"
            return (
                f"does not change with depth: it is {last:.4g} at every depth. At depth {end} it is"
                f" {found.times} {self.rule.name}, which has {asks}{counted}"
            )
        wanted = last / found.factor
        over = " over its layers (root mean square)" if len(set(shape[-1])) > 1 else ""
        return (
            f"is {last:.4g}{over} at depth {end}, {found.times} {self.rule.name}, which asks for"
            f" {wanted:.4g}{counted}{spread_among_layers(part)}"
        )

    def _scale(self) -> Iterator[Finding]:
        """Yield a finding if gain and multipliers together do not follow the rule.

        It names the gain if only the gain differs from 1, else the multiplier.
        """
        multiplier = next(part for part in self.scaling.parts if part.role == "multiplier")
        gains = [part for part in self.scaling.parts if part.role == "gain"][:1]
        named = multiplier
        if (
            gains
            and any(abs(size - 1) > 1e-6 for size in gains[0].sizes)
            and all(abs(size - 1) <= 1e-6 for size in multiplier.sizes)
        ):
            named = gains[0]
        layers = multiplier.layers
        for gain in gains:
            layers = tuple(
                tuple(one * other for one, other in zip(*pair, strict=True))
                for pair in zip(layers, gain.layers, strict=True)
            )
        sizes = tuple(map(mean, layers))
        drawn = any(gain.spread > 1 + 1e-6 for gain in gains)
        judged = replace(self, exact=max(self.exact, DRAWN)) if drawn else self
        yield from judged._number(replace(named, sizes=sizes, layers=layers, weight=None), self.rule.scale)

    def _in_layers(self, places: Sequence[int]) -> str:
        return f" in {layers_in_words(self._numbers(places))}" if places else ""

    def _numbers(self, places: Sequence[int]) -> tuple[int, ...]:
        numbers = self.scaling.numbers
        return tuple(numbers[place] if place < len(numbers) else place for place in places)

    def _finding(self, part: PartScaling, found: Departure, message: str, fix: str = "") -> Finding:
        name = part_name(part, self.scaling)
        about = ROLES.get(part.role, part.role)
        layers = self._numbers(found.layers)
        return Finding(self.scaling.kind, name, found.factor, message, layers, fix, about)


def _departs_by(findings: Sequence[Finding]) -> float:
    return sum(abs(math.log(finding.factor)) for finding in findings if finding.factor)
