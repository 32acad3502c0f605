"""Lines of code that scale residual branches with depth: written from names, and run on a model."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from torch import nn

from deeplimit.modules.depth_check.fixes import expression, pattern
from deeplimit.modules.depth_check.meaning import critical_exponent
from deeplimit.modules.depth_check.part_rules import power_in_code
from deeplimit.modules.depth_check.scaling import BranchScaling

SMALL = 0.15
"""Distance of an exponent from the wanted one that needs no line: intervals of a few depths are as wide."""


def wanted_exponent(branches: Sequence[BranchScaling]) -> float:
    """Return the critical exponent of the layers: 1/2 if they are independent, 1 if aligned."""
    found = [
        critical_exponent((kind.alignment, *kind.alignment_interval))
        for kind in branches
        if kind.alignment is not None and kind.alignment_interval is not None
    ]
    return 1.0 if max(found, default=0.5) > 0.75 else 0.5


def scaled_names(kind: BranchScaling) -> list[str]:
    """Return the names, starred, of the parameters whose product with a factor is the branch times it.

    These are the projection with its biases; the gains where a norm follows the projection.
    """
    by_role = {
        role: [part.name for part in kind.parts if part.role == role] for role in ("output", "gain", "bias")
    }
    if kind.normed:
        return by_role["gain"] + by_role["bias"]
    return by_role["output"] + by_role["bias"]


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


def by_names(
    branches: Sequence[BranchScaling], wanted: float, depths: Sequence[int], totals: Sequence[int]
) -> str:
    """Return the code that multiplies the branches' last weights to give this exponent; "" if none."""
    count = count_in_code(depths, totals)
    groups: dict[str, list[str]] = {}
    for kind in branches:
        if kind.exponent is None or abs(wanted - kind.exponent) <= SMALL or count is None:
            continue
        lacking = round(4 * (wanted - kind.exponent)) / 4 or wanted - kind.exponent
        # The size of an update of all layers together, per root (or number) of layers, is brought down to 1.
        size = kind.sizes[-1] * totals[-1] ** kind.exponent
        constant = 1.0 if size < 1.5 else float(f"{1 / size:.2g}")
        names = scaled_names(kind)
        if not names:
            return ""
        groups.setdefault(power_in_code(constant, count, lacking), []).extend(names)
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
    branches: Sequence[BranchScaling], wanted: float | None, shallow: nn.Module, deep: nn.Module
) -> dict[str, str]:
    """Return, by optimizer, the powers of the depth by which learning rates inside branches are multiplied.

    A step must change what each of N branches adds by 1/N of the stream. Branches have the exponent b, and
    multipliers and gains a part a of it. A projection acts through these, N^-a, and what is before it through
    the whole, N^-b. Adam's steps are its rates: N^(a - 1) is wanted, and N^(b - 1). SGD's are the gradients,
    which are N^-a and N^-b as well: N^(2a - 1) and N^(2b - 1). A weight that all layers share gets the sum of
    N gradients, and wants N^-1 of that.

    `wanted` is the exponent that code gave all branches, None where they keep their own. The modules, at the
    least and at the largest depth, tell which weights are shared.
    """
    found: dict[str, dict[str, str]] = {}
    for kind in branches:
        if kind.exponent is None or not 0 < kind.counts[0] < kind.counts[-1]:
            continue
        through = sum(_exponent(kind, role) for role in ("multiplier", *([] if kind.normed else ["gain"])))
        before = [part.name for part in kind.parts if part.role == "inner"]
        places = (
            ("projection", scaled_names(kind), through),
            ("other weights of a branch", before, kind.exponent if wanted is None else wanted),
        )
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


def _in_quarters(exponent: float) -> float:
    """Return the quarter that an exponent is near, as rules have them, or itself with two digits."""
    near = round(4 * exponent) / 4
    return near if abs(near - exponent) < SMALL / 2 else round(exponent, 2)


def _growth(names: Sequence[str], shallow: nn.Module, deep: nn.Module) -> float:
    """Return log of how many times as many parameters match the names in the deeper module."""
    matched = re.compile(expression(*names))
    few, many = (
        sum(matched.fullmatch(name) is not None for name, _ in model.named_parameters())
        for model in (shallow, deep)
    )
    return math.log(max(many, 1) / max(few, 1))


def _power(value: float) -> str:
    return "as it is" if math.isclose(value, 0.0) else f"× (depth / tuned depth) ** {value:g}"
