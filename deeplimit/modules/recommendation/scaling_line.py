"""Lines of code that scale residual branches with depth: written from names, and run on a model."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import nn

from deeplimit.modules.depth_check.fixes import expression, pattern
from deeplimit.modules.depth_check.meaning import critical_exponent
from deeplimit.modules.depth_check.part_rules import power_in_code
from deeplimit.modules.depth_check.scaling import BranchScaling

SMALL = 0.15
"""Distance of an exponent from the wanted one that needs no line: intervals of a few depths are as wide."""


LARGEST = 1.0
"""The largest exponent that branches have on purpose: with 1/L, what layers learn adds up to an ODE."""


@dataclass(frozen=True)
class Wanted:
    """A kind of branch with the exponent that its layers ask for.

    Attributes:
        kind: the kind, measured.
        exponent: 1/2 if its layers are independent, 1 if they are aligned, or what the caller asks for.
        asked: whether the caller does.
    """

    kind: BranchScaling
    exponent: float
    asked: bool

    @classmethod
    def of(cls, kind: BranchScaling, asked: float | None) -> Wanted:
        """Return a kind with the exponent asked for, or the critical one of its layers."""
        if asked is not None:
            return cls(kind, asked, True)
        interval = kind.alignment_interval
        aligned = None if kind.alignment is None or interval is None else (kind.alignment, *interval)
        return cls(kind, 1.0 if critical_exponent(aligned).value > 0.75 else 0.5, False)

    @property
    def lacks(self) -> bool:
        """Whether its updates are too large, or smaller than any rule has them."""
        found = self.kind.exponent
        if found is None:
            return False
        most = self.exponent if self.asked else max(self.exponent, LARGEST)
        return self.exponent - found > SMALL or found - most > SMALL

    @property
    def power(self) -> float:
        """The power of the depth that code divides it by: the nearest quarter, unless that is 0."""
        if not self.lacks or self.kind.exponent is None:
            return 0.0
        lacking = self.exponent - self.kind.exponent
        return round(4 * lacking) / 4 or lacking

    @property
    def afterwards(self) -> float | None:
        """The exponent that it has after the code."""
        return None if self.kind.exponent is None else self.kind.exponent + self.power


def common_exponent(every: Sequence[Wanted]) -> float:
    """Return the exponent that most kinds ask for; of equally many the larger one, which none outgrows."""
    counts = Counter(each.exponent for each in every)
    return max(counts, key=lambda exponent: (counts[exponent], exponent))


def scaled_names(kind: BranchScaling) -> list[str]:
    """Return the names, starred, of the parameters whose product with a factor is the branch times it.

    These are the projection with its biases; where a norm follows the projection the last gain, with the
    biases after it.
    """
    roles = ("output", "gain", "bias")
    outputs, gains, biases = ([part for part in kind.parts if part.role == role] for role in roles)
    normed = [*gains[:1], *(bias for bias in biases if not bias.scaled)]
    return [part.name for part in (normed if kind.normed else [*outputs, *biases])]


def count_in_code(depths: Sequence[int], totals: Sequence[int]) -> str | None:
    """Return the number of residual branches as code in `depth`; None where it is not linear in it."""
    slope = (totals[-1] - totals[0]) / (depths[-1] - depths[0])
    constant = totals[0] - slope * depths[0]
    if slope <= 0 or slope != int(slope) or constant != int(constant):
        return None
    if any(slope * depth + constant != total for depth, total in zip(depths, totals, strict=True)):
        return None
    times = "depth" if slope == 1 else f"{int(slope)} * depth"
    return times if constant == 0 else f"{times} {'+' if constant > 0 else '-'} {int(abs(constant))}"


def by_names(every: Sequence[Wanted], depths: Sequence[int], totals: Sequence[int]) -> str:
    """Return the code that multiplies the branches' last weights to give these exponents; "" if none."""
    count = count_in_code(depths, totals)
    groups: dict[str, list[str]] = {}
    for each in every:
        kind = each.kind
        if kind.exponent is None or not each.lacks or count is None:
            continue
        # The size of an update of all layers together, per root (or number) of layers, is brought down to 1.
        size = kind.sizes[-1] * totals[-1] ** kind.exponent
        constant = 1.0 if size < 1.5 else float(f"{1 / size:.2g}")
        names = scaled_names(kind)
        if not names:
            return ""
        groups.setdefault(power_in_code(constant, count, each.power), []).extend(names)
    if not groups:
        return ""
    lines = []
    for factor, names in groups.items():
        matched = pattern(*dict.fromkeys(names))
        lines.append(
            f"[p.data.mul_({factor}) for n, p in model.named_parameters() if re.fullmatch({matched}, n)]"
        )
    return "\n".join(["import re", *lines])


def by_initialiser(wanted: float) -> str:
    """Return the code that draws the branches' weights again with this exponent."""
    return f"import deeplimit as dl\ndl.init.residual_(model, exponent={wanted:g}, batch=batch)"


def executed(code: str, model: nn.Module, depth: int, batch: object) -> nn.Module:
    """Return the model after the code, which sees nothing but it, the depth and the batch."""
    exec(code, {"model": model, "depth": depth, "batch": batch})  # noqa: S102  # written here, from names
    return model


def learning_rates(
    branches: Sequence[BranchScaling],
    afterwards: Mapping[str, float | None],
    shallow: nn.Module,
    deep: nn.Module,
) -> dict[str, str]:
    """Return, by optimizer, the powers of the depth by which learning rates inside branches are multiplied.

    A step must change what each of N branches adds by 1/N of the stream. Branches have the exponent b, and a
    weight of a branch a part w of it, by its own size. A branch is a multiple of each of its weights, which
    so acts through the others, N^-a with a = b - w. Adam's steps are its rates: N^(a - 1) is wanted. SGD's
    are the gradients, which are N^-a as well: N^(2a - 1). A weight that all layers share gets the sum of N
    gradients, and wants N^-1 of that. Queries and keys, of which attention is no multiple, count like others.
    A bias of the projection acts through multipliers and gains alone. Where it is not 0 the branch is no
    multiple of what is before it, and b is the sum of the parts' exponents instead.

    `afterwards` are the exponents that kinds have after the code, by name. The modules, at the least and at
    the largest depth, tell which weights are shared.
    """
    found: dict[str, dict[str, str]] = {}
    for kind in branches:
        whole = afterwards[kind.kind]
        if whole is None or kind.exponent is None or not 0 < kind.counts[0] < kind.counts[-1]:
            continue
        last = scaled_names(kind)
        after = sum(_exponent(kind, role) for role in ("multiplier", *([] if kind.normed else ["gain"])))
        added = whole - kind.exponent  # by the code, which scales what is last, so that this acts as before
        if any(part.role == "bias" for part in kind.parts) and not kind.normed:
            whole = after + _own(kind, last) + _exponent(kind, "inner") + added
        places = [("projection", last, whole - added - _own(kind, last))]
        biases = [f"{name.removesuffix('weight')}bias" for name in last if name.endswith("weight")]
        if _in_quarters(after) != _in_quarters(places[0][2]) and _count(biases, deep):
            places.append(("bias of the projection", biases, after))
        before: dict[float, list[str]] = {}
        for part in kind.parts:
            if part.role == "inner":
                before.setdefault(_in_quarters(part.exponent or 0.0), []).append(part.name)
        for own, names in sorted(before.items()):
            alike = "other weights of a branch" if len(before) == 1 else ", ".join(names)
            places.append((alike, names, whole - own))
        deeper = math.log(kind.counts[-1] / kind.counts[0])
        powers = {
            place: (_in_quarters(exponent), 1 - round(_growth(names, shallow, deep) / deeper))
            for place, names, exponent in places
            if names
        }
        rates = {f"Adam, {place}": _power(power - 1) for place, (power, _) in powers.items()}
        rates |= {
            f"SGD, {place}": _power(2 * power - 1 - shared) for place, (power, shared) in powers.items()
        }
        found[kind.kind] = rates
    if not found:
        return {"any": "as the rule that the module follows states"}
    first, *others = found.values()
    if all(rates == first for rates in others):
        found = {"": first}
    told = {
        f"{place} of {kind}" if kind else place: rate
        for kind, rates in found.items()
        for place, rate in rates.items()
    }
    return {**told, "outside of branches": _power(0.0)}


def _exponent(kind: BranchScaling, role: str) -> float:
    return sum(part.exponent or 0.0 for part in kind.parts if part.role == role)


def _own(kind: BranchScaling, names: Sequence[str]) -> float:
    """Return the exponent of the first weight or gain of these names."""
    sized = [part for part in kind.parts if part.role in ("output", "gain") and part.name in names]
    return (sized[0].exponent or 0.0) if sized else 0.0


def _in_quarters(exponent: float) -> float:
    """Return the quarter that an exponent is near, as rules have them, or itself with two digits."""
    near = round(4 * exponent) / 4
    return near if abs(near - exponent) < SMALL / 2 else round(exponent, 2)


def _growth(names: Sequence[str], shallow: nn.Module, deep: nn.Module) -> float:
    """Return log of how many times as many parameters match the names in the deeper module."""
    return math.log(max(_count(names, deep), 1) / max(_count(names, shallow), 1))


def _count(names: Sequence[str], model: nn.Module) -> int:
    matched = re.compile(expression(*names)) if names else None
    named = [name for name, _ in model.named_parameters()]
    return sum(matched is not None and matched.fullmatch(name) is not None for name in named)


def _power(value: float) -> str:
    return "as it is" if math.isclose(value, 0.0) else f"× (depth / tuned depth) ** {value:g}"
