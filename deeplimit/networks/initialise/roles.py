"""The roles of a model's weights: what is the same weight in every layer, and how many inputs it has."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor, nn

from deeplimit.modules.trace.branches import Part
from deeplimit.modules.trace.naming import wildcard


@dataclass
class Role:
    """One weight in every layer of a stack: positions 0 ≤ k < depth, parameter names and tensors, in order
    of depth.
    """

    name: str
    stream: int
    part: str
    depth: int
    positions: list[int] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)


def stacks_of(parts: Sequence[Part]) -> list[list[Part]]:
    """Return the branches of each kind and stream in order of execution.

    Experts that one sum adds are one layer, and each has a stack of its own: layers are theirs, not experts.
    What they share, such as a router, belongs to the first.
    """
    stacks: dict[tuple[int, str, int], list[Part]] = {}
    layers: dict[tuple[int, str], list[Part]] = {}
    for part in sorted(parts, key=lambda part: (part.branch.stream, part.branch.index)):
        kind = part.branch.stream, part.branch.kind
        layer = [] if part.counted else layers.get(kind, [])
        layers[kind] = [*layer, part]
        shared = {name for other in layer for name in other.branch.inner}
        inner = tuple(name for name in part.branch.inner if name not in shared)
        own = replace(part, branch=replace(part.branch, inner=inner))
        stacks.setdefault((*kind, len(layer)), []).append(own)
    return list(stacks.values())


def roles_of(
    stack: Sequence[Part],
    before: int,
    tensors: dict[str, Tensor],
    kinds: Sequence[str],
    left_out: Container[str],
) -> list[Role]:
    """Return the roles in one stack of branches, which follows `before` layers without a branch.

    A weight of another shape than its neighbours' is a separate role. Parameters in `left_out` have none.
    """
    roles: dict[tuple[str, str, tuple[int, ...]], Role] = {}
    depth = before + len(stack)
    outputs = [part.branch.output[0].split(".") for part in stack]
    for position, part in enumerate(stack):
        for kind in kinds:
            for parameter in getattr(part.branch, kind):
                if parameter in left_out:
                    continue
                tensor = tensors[parameter]
                name = role_name(parameter, outputs[position], outputs)
                role = roles.setdefault(
                    (kind, name, tuple(tensor.shape)), Role(name, part.branch.stream, kind, depth)
                )
                role.positions.append(before + position)
                role.parameters.append(parameter)
                role.tensors.append(tensor)
    return list(roles.values())


def role_name(parameter: str, own: Sequence[str], outputs: Sequence[Sequence[str]]) -> str:
    """Return a parameter's name with * where the output projections of its branch and of the others
    differ.

    `own` and `outputs` are the names of output projections, in words. Where they agree between layers,
    numbers are positions within the layer, and stay.

    Examples:
        >>> third, fourth = ["h", "3", "2", "weight"], ["h", "4", "2", "weight"]
        >>> role_name("h.3.0.weight", third, [third, fourth])
        'h.*.0.weight'
    """
    words = parameter.split(".")
    for place in range(min(len(words), *(len(output) for output in outputs))):
        if words[place] == own[place]:
            words[place] = wildcard(words[place], [output[place] for output in outputs])
    return ".".join(words)


def fan_in(model: nn.Module, parameter: str, tensor: Tensor) -> int:
    """Return how many inputs each output of this weight sums over; the module that owns it decides which
    dimensions they are.
    """
    path, _, own = parameter.rpartition(".")
    owner = model.get_submodule(path)
    shape = tensor.shape
    if type(owner).__name__ == "Conv1D" and hasattr(owner, "nf"):  # of transformers: x @ weight, (in, out)
        return int(shape[0])
    if isinstance(owner, (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)) and own == "weight":
        return int(shape[0]) // owner.groups * math.prod(shape[2:])
    if isinstance(owner, (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear, nn.Bilinear)) and own == "weight":
        return math.prod(shape[1:])
    # nn.MultiheadAttention's in_proj_weight, and bare parameters, which functional.linear takes as (out,
    # in).
    return int(shape[-1])
