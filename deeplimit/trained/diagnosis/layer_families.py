"""Which tensors are one weight of all layers: their names differ in one running number.

Names of real networks hold several numbers: "h.3.mlp.0.weight", "layer2.5.conv1.weight". The number that
counts the layers is the one over which most tensors of one shape run.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import torch

from deeplimit.common import validation
from deeplimit.trained.diagnosis.sources import Source
from deeplimit.trained.diagnosis.stacks import Stack

LEAST = 4
"""Fewer layers have no second difference to average, so their statistics would be empty."""
PLAIN = ("weight", "bias")
"""Ends of names that torch gives to one layer's tensors; other tensors without a number may be stacks."""


@final
@dataclass(frozen=True)
class Family:
    """The names of one weight in all layers.

    Attributes:
        name: name with a star for the number of the layer: "h.*.mlp.0.weight".
        members: names of the tensors in the order of depth (L,); one name if that tensor holds all layers.
        numbers: number of each layer in its name (L,).
        groups: number of each layer's group (L,); empty where all layers are set alike.
    """

    name: str
    members: tuple[str, ...]
    numbers: tuple[int, ...]
    groups: tuple[int, ...] = ()


@final
@dataclass(frozen=True)
class Families:
    """All weights that layers share, and why other tensors do not count.

    Attributes:
        found: families in the order in which the source has them.
        left_out: reason by name, or by name with a star, of tensors that are layered and yet no family.
    """

    found: tuple[Family, ...]
    left_out: dict[str, str]

    @property
    def numbered(self) -> bool:
        """Whether numbers in names tell layers, so that no tensor holds all of them."""
        return any(len(family.members) > 1 for family in self.found)


class NoNumberedWeightsError(ValueError):
    """No name among the tensors has a number that runs over layers."""


FEW = 1 / 8
"""Share of layers that may be copies of others, such as pruned ones: the others still tell."""
SAME = "hold the same numbers"
"""What a reason says of layers that are copies."""
COPIES = (
    "Copies do not differ over depth: they are neither smooth nor independent. dl.check_depth(factory,"
    " batch=x) says how their depth is scaled."
)
"""What to do with a network whose layers are all copies."""


class SameLayersError(ValueError):
    """Several layers of a family hold the same numbers: they are tied, copied, or never trained."""

    @property
    def reason(self) -> str:
        """The message without the name of an argument, which is that of another call in a report."""
        return str(self).partition(": ")[2].rstrip(".")


def families(source: Source, layers: str | None = None, groups: Sequence[int] | None = None) -> Families:
    """Return the weights that a network has once per layer.

    Args:
        source: named tensors.
        layers: name of the layers with {} for their number, such as "encoder.layers.{}". Found from the names
            if left out.
        groups: number of each layer's group (L,), where layers come in kinds that names do not show: stages,
            dilations. Layers of a module are told apart by what their modules print of their settings.

    Raises:
        TypeError: for a pattern or groups of another type.
        ValueError: where names have two running numbers either of which may count layers, no tensor is
            layered, or groups are of another number than the layers.

    Not checked: whether the order of the numbers is the order in which layers run.

    Examples:
        >>> import torch
        >>> from deeplimit.trained.diagnosis.sources import source_of
        >>> network = torch.nn.Sequential(*(torch.nn.Linear(3, 3) for _ in range(6)))
        >>> [family.name for family in families(source_of(network)).found]
        ['*.weight', '*.bias']
    """
    pattern = _pattern(layers)
    buckets: dict[str, list[tuple[int, str]]] = defaultdict(list)
    if pattern is None:
        runs = _runs(source)
        for name in source.shapes:
            position = _position(name, source, runs)
            if position is not None:
                template, number = _starred(name, position)
                buckets[template].append((number, name))
    else:
        for name in source.shapes:
            if match := pattern.match(name):
                template = f"{name[: match.start(1)]}*{name[match.end(1) :]}"
                buckets[template].append((int(match[1]), name))
    left_out: dict[str, str] = {}
    found = [
        family
        for template, members in buckets.items()
        if (family := _family(source, template, members, left_out))
    ]
    if not found and pattern is None:
        found = list(_stacked(source))
    if not found:
        names = ", ".join([*source.shapes][:6]) + (", ..." if len(source.shapes) > 6 else "")
        raise NoNumberedWeightsError(
            f"{source.name} has no weight of at least {LEAST} layers of one shape; its names are"
            f" {names or 'none'}. Pass layers='...{{}}...' with {{}} for the number of the layer."
        )
    if groups is not None:
        found = [_grouped(family, groups, source) for family in found]
    return Families(tuple(found), left_out)


def stack(source: Source, family: Family) -> Stack:
    """Return one weight of all layers, on the CPU, in the precision in which it is given.

    Raises:
        SameLayersError: where several layers hold the same numbers: they are tied, copied, or never trained.
        ValueError: for numbers that are not finite; the message names the tensor.
    """
    if len(family.members) == 1:
        layers = list(_floating(source, family.members[0]))
    else:
        layers = [_floating(source, member) for member in family.members]
    for number, layer in zip(family.numbers, layers, strict=True):
        if not bool(torch.isfinite(layer).all()):
            member = family.members[0] if len(family.members) == 1 else family.name.replace("*", str(number))
            where = f"{member!r}, layer {number}," if len(family.members) == 1 else f"{member!r}"
            raise ValueError(
                f"{where} in {source.name} must be finite, but holds NaN or infinity. Take a checkpoint from"
                " before training diverged."
            )
    refuse_copies(family.numbers, layers)
    return Stack(family.name, torch.stack(layers), family.groups)


def _floating(source: Source, name: str) -> torch.Tensor:
    tensor = source.read(name).detach()
    known = tensor.dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    return tensor if known else tensor.to(torch.float32)


def refuse_copies(numbers: Sequence[int], layers: Sequence[torch.Tensor]) -> None:
    """Raise SameLayersError where more than FEW layers are copies of others; `numbers` name the layers."""
    seen: dict[bytes, int] = {}
    twins: list[tuple[int, int]] = []
    for number, layer in zip(numbers, layers, strict=True):
        content = layer.contiguous().reshape(-1).view(torch.uint8).numpy()
        before = seen.setdefault(hashlib.blake2b(content.data, digest_size=16).digest(), number)
        if before != number:
            twins.append((before, number))
    if len(seen) == 1 and not layers[0].any():
        raise SameLayersError(f"all layers {SAME}, 0: they add nothing, as before training")
    if len(seen) == 1:
        raise SameLayersError(f"all layers {SAME}: they are tied, a constant, or never trained")
    if len(twins) > FEW * len(layers):
        first, second = twins[0]
        more = f", and {len(twins) - 1} more pairs" if len(twins) > 1 else ""
        raise SameLayersError(f"layers {first} and {second} {SAME}{more}: tied, or copies")


def _pattern(layers: str | None) -> re.Pattern[str] | None:
    if layers is None:
        return None
    if not isinstance(layers, str):
        raise TypeError(f"layers must be a name with {{}} for the number, got {validation.named(layers)}.")
    if layers.count("{}") != 1:
        raise ValueError(
            f"layers must have one {{}} where names have the layer's number, got {layers!r};"
            " 'model.layers.{}', say."
        )
    before, after = layers.split("{}")
    return re.compile(f"{re.escape(before)}(\\d+){re.escape(after)}(?!\\d)")


def _runs(source: Source) -> dict[str, Counter[tuple[int, ...]]]:
    """Return how many tensors of each shape a name has, for every number in it replaced by a star."""
    runs: dict[str, Counter[tuple[int, ...]]] = defaultdict(Counter)
    for name, shape in source.shapes.items():
        for position in range(_numbers(name)):
            runs[_starred(name, position)[0]][shape] += 1
    return runs


def _numbers(name: str) -> int:
    return len(re.findall(r"\d+", name))


def _starred(name: str, position: int) -> tuple[str, int]:
    """Return a name with a star for one of its numbers, counted from the left, and that number."""
    pieces = re.split(r"(\d+)", name)
    number = int(pieces[2 * position + 1])
    pieces[2 * position + 1] = "*"
    return "".join(pieces), number


def _position(name: str, source: Source, runs: dict[str, Counter[tuple[int, ...]]]) -> int | None:
    """Return which number of a name counts layers; None if none does."""
    shape = source.shapes[name]
    counts = {position: runs[_starred(name, position)[0]][shape] for position in range(_numbers(name))}
    running = [position for position, count in counts.items() if count > 1]
    long = [position for position in running if counts[position] >= LEAST]
    if len(long) > 1:
        choices = " or ".join(f"layers={_up_to(name, position)!r}" for position in long)
        raise ValueError(
            f"{name!r} in {source.name} has two running numbers, and either may count layers: pass {choices}."
        )
    # A layer of another shape than its likes belongs to them all the same, and is named.
    alike = [position for position in counts if max(runs[_starred(name, position)[0]].values()) >= LEAST]
    return next(iter(long or running or alike), None)


def _up_to(name: str, position: int) -> str:
    """Return a name up to one of its numbers, with {} in its place."""
    return _starred(name, position)[0].partition("*")[0] + "{}"


def _family(
    source: Source, template: str, members: list[tuple[int, str]], left_out: dict[str, str]
) -> Family | None:
    """Return the members of the most frequent shape as a family, if they are enough; note the others."""
    shapes = Counter(source.shapes[name] for _, name in members)
    shape, count = shapes.most_common(1)[0]
    if count < LEAST:
        if len(members) > 1:
            left_out[template] = f"has {count} layers of one shape, fewer than {LEAST}"
        return None
    first = source.read(members[0][1])
    if not first.is_floating_point():
        if first.ndim == 0:  # a counter, such as that of the batches of a batch normalisation
            return None
        left_out[template] = f"holds no floating-point numbers, but {first.dtype}"
        return None
    kept = sorted((number, name) for number, name in members if source.shapes[name] == shape)
    for _, name in members:
        if source.shapes[name] != shape:
            left_out[name] = f"has shape {source.shapes[name]}, unlike the other layers' {shape}"
    numbers = tuple(number for number, _ in kept)
    gaps = sorted({after - before for before, after in itertools.pairwise(numbers)})
    if len(gaps) > 1:
        between = set(range(numbers[0], numbers[-1], gaps[0])) - set(numbers)
        missing = ", ".join(map(str, sorted(between)[:6]))
        left_out[f"{template}, numbers {missing}"] = "are not there: its layers are not evenly spaced"
    said = [source.settings.get(name, "") for _, name in kept]
    known = list(dict.fromkeys(said))
    groups = tuple(known.index(text) for text in said) if len(known) > 1 else ()
    return Family(template, tuple(name for _, name in kept), numbers, groups)


def _stacked(source: Source) -> Iterator[Family]:
    """Yield tensors that each hold all layers: no name has a number, and all have the same first axis."""
    shapes = {name: shape for name, shape in source.shapes.items() if shape}
    depths = {shape[0] for shape in shapes.values()}
    plain = any(name.rpartition(".")[2] in PLAIN for name in shapes)
    if len(depths) == 1 and not plain and (depth := depths.pop()) >= LEAST:
        for name in shapes:
            yield Family(name, (name,), tuple(range(depth)))


def _grouped(family: Family, groups: Sequence[int], source: Source) -> Family:
    if isinstance(groups, (str, bytes)) or not isinstance(groups, Sequence):
        raise TypeError(f"groups must be a list of integers, one per layer, got {validation.named(groups)}.")
    checked = tuple(validation.integer(group, "every group", minimum=0) for group in groups)
    if len(checked) != len(family.numbers):
        raise ValueError(
            f"groups must have one number per layer, got {len(checked)} for the {len(family.numbers)} layers"
            f" of {family.name!r} in {source.name}; give [0, 0, 1, 1] for four layers of two kinds, say."
        )
    return Family(family.name, family.members, family.numbers, checked)
