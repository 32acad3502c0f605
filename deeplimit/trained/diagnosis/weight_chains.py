"""How the weights of a residual branch follow each other, read off one forward instead of names and shapes.

Hidden units between two weights may be permuted and rescaled as long as nothing but functions of single units
stands between them. Then the branch is a chain: weights that read the stream, others, one that writes to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from operator import itemgetter
from typing import TypeVar, final

from deeplimit.modules.trace.branches import Part, layout
from deeplimit.modules.trace.graph import PASSING, Graph
from deeplimit.modules.trace.orientation import signed
from deeplimit.modules.trace.recording import Edge, Trace, edges_with_gradient, kind
from deeplimit.trained.diagnosis.normalisations import (
    Before,
    applied_at,
    batch_norms_after,
    input_of,
    norms_before,
)

MIXING = {"Bmm", "Mm", "Baddbmm", "Addmm", "Cat", "Cumsum"}
"""Operations that mix hidden units, or put units of several weights beside each other."""
PRODUCTS = {"Mul", "Div", "Bmm", "Mm", "Baddbmm", "Addmm"}
"""Operations that are no linear function of the state where two factors depend on it."""
HOMOGENEOUS = {"Abs", "LeakyRelu", "Prelu", "Relu", "Threshold"}
"""Activations with a kink at 0, so that they are linear at no size of what they get."""
LINEAR = PASSING | PRODUCTS | {
    "Add", "Cat", "Convolution", "Cumsum", "Mean", "MkldnnConvolution", "Mv", "Stack", "Sub", "Sum",
}  # fmt: skip
"""Operations that are linear in one state. Of all others, known or not, it is assumed that they are not."""
CUTS = {"Split", "SplitWithSizes", "UnsafeSplit"}
"""Operations that cut the units of one weight into kinds."""
SUMS = {"Add", "Sub"}
"""Operations between whose operands no size of a unit can move."""


T = TypeVar("T")
NOT_KNOWN = -(2**62)
"""The layer of a weight that is taken from no stack."""


class Bends(Enum):
    """How a branch is not linear in the stream, if what its first weights give is small, too."""

    NOTHING = auto()
    ALWAYS = auto()
    """A kink, a normalisation, a product of states, or an activation of the stream itself."""
    BY_SIZE = auto()
    """An activation of what weights give, which is nearly linear where that is small."""


@final
@dataclass(frozen=True)
class Chain:
    """The weights of one branch, by name.

    Attributes:
        reads: those that read the stream; their outputs are multiplied, where there are several.
        middle: those between hidden units, in the order in which they run.
        write: the one that writes to the stream.
        entry: a depthwise convolution of the stream before what reads; empty where there is none.
        linear: the one of several that read which no activation follows; empty where it is not one.
    """

    reads: tuple[str, ...]
    middle: tuple[str, ...]
    write: str
    entry: str = ""
    linear: str = ""


@final
@dataclass(frozen=True)
class Seen:
    """What one forward of a module tells of its weights, in place of names.

    Attributes:
        before: gain of the normalised input of a weight, by the weight's name.
        after: gain of the batch normalisation of a weight's output.
        scales: what multiplies the output of a weight that writes to the stream, each time that it is used:
            a parameter's name, empty for a number, and its root mean square.
        chains: the first branch of each kind that is a chain.
        tangled: names of the weights of other branches.
        bends: how a branch is not linear in the stream, by the names of its weights that write.
        in_out: whether a weight is stored as (in, out), where that is known.
        factors: the numbers that multiply a weight, what it is applied to, or what it gives to an activation,
            each time that it is used.
    """

    before: Mapping[str, Before] = field(default_factory=dict)
    after: Mapping[str, str] = field(default_factory=dict)
    scales: Mapping[str, list[list[tuple[str, float]]]] = field(default_factory=dict)
    chains: tuple[Chain, ...] = ()
    tangled: frozenset[str] = frozenset()
    bends: Mapping[str, Bends] = field(default_factory=dict)
    in_out: Mapping[str, bool] = field(default_factory=dict)
    factors: Mapping[str, list[float]] = field(default_factory=dict)


def seen_in(trace: Trace, blocks: str | Sequence[str] | None = None) -> Seen:
    """Return what a recorded forward tells of the weights; chains are none where it has no residual sum."""
    try:
        every_part = layout(trace, blocks).parts
    except ValueError:
        every_part = ()
    parts = [part for part in every_part if part.counted]
    mixtures = {every_part[part.among].branch.kind for part in every_part if part.among is not None}
    graph = Graph(trace)
    first = {part.branch.kind: part for part in reversed(parts)}
    chains: list[Chain] = []
    tangled = {
        name
        for part in every_part
        if part.branch.kind in mixtures
        for name in (*part.branch.inner, *part.branch.output)
    }
    for part in reversed(first.values()):
        if part.branch.kind in mixtures:  # experts may change places: only their sum has a counterpart
            continue
        chain = _chain(graph, part)
        if chain is not None:
            chains.append(chain)
        else:
            tangled.update(part.branch.inner, part.branch.output if part.branch.inner else ())
    inside = {name for part in parts for name in (*part.branch.inner, *part.branch.output)}
    # A normalisation that opens a branch behind a stem belongs to what reads it, as in all other layers.
    after = {name: gain for name, gain in batch_norms_after(trace).items() if name in inside}
    at_gain = {place.node: gain for place, gain in trace.scalings.items() if len(gain.parameters) == 1}
    every = {gain.parameters[0]: gain.factor for gain in at_gain.values()}
    at = {place.node: place for place, made in trace.projections.items() if len(made.weights) == 1}
    scales: dict[str, list[tuple[int, list[tuple[str, float]]]]] = {}
    factors: dict[str, list[tuple[int, float]]] = {}
    for part in parts:
        places = [at[node] for node in part.join.region & at.keys()]
        layers = {trace.projections[place].weights[0]: _layer(graph, place) for place in places}
        for name, factor in _factors(graph, part, places):
            factors.setdefault(name, []).append((layers[name], factor))
        scaled = [at_gain[node] for node in part.join.region & at_gain.keys()]
        sizes = every | {gain.parameters[0]: gain.factor for gain in scaled}
        gains = [(name, sizes[name]) for name in part.branch.gains if name in sizes]
        for name in part.branch.output:
            scales.setdefault(name, []).append((layers.get(name, NOT_KNOWN), [("", part.multiplier), *gains]))
    bends = {name: _bends(graph, part) for part in parts for name in part.branch.output}
    in_out = {name: stored for made in trace.projections.values() for name, stored in made.in_out.items()}
    before = norms_before(trace, after.values())
    return Seen(
        before,
        after,
        _by_layer(scales),
        tuple(chains),
        frozenset(tangled),
        bends,
        in_out,
        _by_layer(factors),
    )


def _by_layer(uses: Mapping[str, list[tuple[int, T]]]) -> dict[str, list[T]]:
    """Return what is known of each use of a tensor: by its layers, where it is a stack, else as they ran."""
    found = {}
    for name, every in uses.items():
        layers = [layer for layer, _ in every]
        by_index = NOT_KNOWN not in layers and len({*layers}) == len(layers)
        found[name] = [known for _, known in (sorted(every, key=itemgetter(0)) if by_index else every)]
    return found


def _layer(graph: Graph, projection: Edge) -> int:
    """Return which layer's weight is taken from a stack."""
    for place in _to_the_leaf(graph, projection):
        if kind(place.node) == "Unbind" and place.node._saved_dim == 0:
            return place.output
        if kind(place.node) == "Select" and place.node._saved_dim == 0:
            return signed(place.node._saved_index)
    return NOT_KNOWN


def _factors(graph: Graph, part: Part, places: Sequence[Edge]) -> Iterator[tuple[str, float]]:
    """Yield the weights of a branch and by which numbers each is multiplied, but for those after the last."""
    trace = graph.trace
    found = {place: _times(graph, place) for place in places}
    for later in found:
        current, among, bent = input_of(graph, later), 1.0, False
        while current is not None and current != part.join.root and current not in trace.projections:
            scaling = trace.scalings.get(current)
            among *= scaling.value if scaling is not None and scaling.single else 1.0
            following = graph.onward(current)
            if following is None:  # an activation stands here, or the end of what is one after the other
                data = _data_of(graph, current)
                following = data[0] if len(data) == 1 else None
                found[later] *= 1.0 if bent else among
                among, bent = 1.0, True
            current = following
        if not bent:
            found[later] *= among
        elif current in found:
            found[current] *= among
    yield from ((trace.projections[place].weights[0], factor) for place, factor in found.items())


def _times(graph: Graph, projection: Edge) -> float:
    """Return the numbers that multiply a weight before it is applied."""
    scalings = [graph.trace.scalings.get(place) for place in _to_the_leaf(graph, projection)]
    return math.prod(scaling.value for scaling in scalings if scaling is not None and scaling.single)


def _is_stored(graph: Graph, projection: Edge) -> bool:
    """Whether a weight is applied as it is stored, but for numbers and its axes: not standardised, say."""
    places = [place.node for place in _to_the_leaf(graph, projection)]
    return all(kind(node) in PASSING and len(edges_with_gradient(node)) == 1 for node in places)


def _to_the_leaf(graph: Graph, projection: Edge) -> Iterator[Edge]:
    """Yield the places from where a weight is applied back to the parameter, but for the parameter itself."""
    applied = applied_at(graph, projection)
    weights = () if applied is None else edges_with_gradient(applied.node)
    names = (graph.trace.projections[projection].weights,)
    place = next((edge for edge in weights if graph.parameters_only(edge.node) in names), None)
    while place is not None and edges_with_gradient(place.node):
        yield place
        place = edges_with_gradient(place.node)[0]


def _data_of(graph: Graph, place: Edge) -> list[Edge]:
    return [edge for edge in edges_with_gradient(place.node) if graph.parameters_only(edge.node) is None]


def _bends(graph: Graph, part: Part) -> Bends:
    """Return how a branch is not linear in the stream; batch normalisation with running statistics is."""
    curved = []
    for node in part.join.region:
        name = kind(node)
        data = [edge for edge in edges_with_gradient(node) if graph.parameters_only(edge.node) is None]
        normalises = graph.normalises(node) and "Batch" not in name
        if normalises or "Attention" in name or (name in PRODUCTS and len(data) > 1):
            return Bends.ALWAYS
        if data and name not in LINEAR and "Batch" not in name:
            curved.append(node)
    if not curved:
        return Bends.NOTHING
    if any(kind(node) in HOMOGENEOUS for node in curved):
        return Bends.ALWAYS
    weights = {place.node for place in graph.trace.projections}
    waiting, seen = [*curved], set(curved)
    while waiting:
        for edge in edges_with_gradient(waiting.pop()):
            if edge == part.join.root:
                return Bends.ALWAYS
            if edge.node in part.join.region and edge.node not in weights | seen:
                seen.add(edge.node)
                waiting.append(edge.node)
    return Bends.BY_SIZE


def _chain(graph: Graph, part: Part) -> Chain | None:
    """Return the chain of weights that a branch is; None where it is something else."""
    trace, branch = graph.trace, part.branch
    places = {
        place: made.weights[0]
        for place, made in trace.projections.items()
        if place.node in part.join.region and len(made.weights) == 1
    }
    write = [place for place, name in places.items() if (name,) == branch.output]
    if len(write) != 1 or not all(_is_stored(graph, place) for place in places):
        return None
    middle: list[Edge] = []
    current = _inputs(graph, part, write[0])
    last = write[0]
    while current is not None:
        sources, from_stream = current
        if from_stream or not sources or not sources <= {*places}:
            return None
        ends = [_inputs(graph, part, place) for place in sorted(sources, key=lambda place: places[place])]
        if all(end == (set(), True) for end in ends):
            break
        if len(ends) > 1:
            return None
        last = next(iter(sources))
        middle.insert(0, last)
        current = ends[0]
    if current is None:
        return None
    order = {name: number for number, name in enumerate(trace.names.values())}
    reads = sorted((places[place] for place in sources), key=order.__getitem__)
    named, entry = [places[place] for place in middle], ""
    if len(reads) == 1 and named and depthwise(trace.shapes[reads[0]]):
        (entry,), reads, named = reads, named[:1], named[1:]
    known = [*reads, *named, *([entry] if entry else [])]
    if sorted(known) != sorted(branch.inner) or (
        len(reads) > 1 and _adds_several(graph, part, last, sources)
    ):
        return None
    plain = _untouched(graph, last) & sources if len(reads) > 1 else set()
    linear = places[plain.pop()] if len(plain) == 1 else ""
    return Chain(tuple(reads), tuple(named), branch.output[0], entry, linear)


def depthwise(shape: Sequence[int]) -> bool:
    """Whether a weight of this shape is a convolution of each channel with itself."""
    return len(shape) > 2 and shape[1] == 1 < shape[0]


def _inputs(graph: Graph, part: Part, projection: Edge) -> tuple[set[Edge], bool] | None:
    """Return the nearest projections that one reads, and whether it reads the stream.

    None where something between them mixes hidden units.
    """
    place = input_of(graph, projection)
    if place is None:
        return None
    waiting, seen = [place], {place}
    found, from_stream = set(), False
    while waiting:
        edge = waiting.pop()
        if edge == part.join.root:  # first: the stream may begin with a projection
            from_stream = True
            continue
        if edge in graph.trace.projections:
            found.add(edge)
            continue
        data = [
            other for other in edges_with_gradient(edge.node) if graph.parameters_only(other.node) is None
        ]
        name = kind(edge.node)
        mixes = (name in MIXING and len(data) > 1) or name in CUTS or "Attention" in name
        if mixes or edge.node not in part.join.region:
            return None
        waiting += [other for other in data if other not in seen]
        seen.update(data)
    return found, from_stream


def _adds_several(graph: Graph, part: Part, projection: Edge, sources: set[Edge]) -> bool:
    """Whether a projection's input is made by adding what two projections give, of those that it reads.

    A size may move from one factor of a product to the other, and not between summands.
    """
    reached: dict[Edge, set[Edge]] = {}

    def reads(edge: Edge) -> set[Edge]:
        if edge not in reached:
            reached[edge] = {edge} & sources
            if edge not in sources and edge.node in part.join.region:
                reached[edge] = set().union(*map(reads, edges_with_gradient(edge.node)))
        return reached[edge]

    place = input_of(graph, projection)
    if place is None or not reads(place):
        return False
    summands = [edges_with_gradient(edge.node) for edge in reached if kind(edge.node) in SUMS]
    return any(len({frozenset(reads(edge)) for edge in edges if reads(edge)}) > 1 for edges in summands)


def _untouched(graph: Graph, projection: Edge) -> set[Edge]:
    """Return the projections that the factors of a projection's input are, with no activation after them."""
    place = input_of(graph, projection)
    found: set[Edge] = set()
    for _ in range(8):
        if place is None:
            break
        data = [edge for edge in edges_with_gradient(place.node) if graph.parameters_only(edge.node) is None]
        if kind(place.node) == "Mul" and len(data) == 2:
            found.update(
                above for edge in data for above in graph.climb((edge,)) if above in graph.trace.projections
            )
            break
        place = graph.onward(place)
    return found
