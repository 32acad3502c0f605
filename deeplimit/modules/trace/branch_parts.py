"""The parts of one residual branch: projection onto the stream, what scales it after that, other weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from deeplimit.modules.trace.branch_inputs import gates_at, scale_name, weights_behind
from deeplimit.modules.trace.graph import BENDING, Graph, Join, following
from deeplimit.modules.trace.operations import size
from deeplimit.modules.trace.recording import Edge, Scaling, Summand, Trace, edges_with_gradient, kind, weighs


@dataclass(frozen=True)
class BranchParts:
    """The parameters of a branch by role, each in order of the module's parameters, and what scales it.

    Attributes:
        weights: Names of all weights.
        output: Names of the weights that project onto the stream.
        inner: Names of the other weights that are applied.
        gains: Names of the parameters that scale the branch after the projection.
        biases: Names of the biases added at the projection or after it.
        gates: Names of the weights whose output, not a function of the stream, multiplies the branch.
        multiplier: Product of the numbers that scale the branch after the projection.
        gain: Product of the sizes of the gains.
        normed: Whether a normalisation follows the projection.
        owner: Name of the module that ran the projection.
        scaled: Names of the biases that a gain or a normalisation after them scales.
    """

    weights: tuple[str, ...]
    output: tuple[str, ...]
    inner: tuple[str, ...]
    gains: tuple[str, ...]
    biases: tuple[str, ...]
    gates: tuple[str, ...]
    multiplier: float
    gain: float
    normed: bool
    owner: str = ""
    scaled: tuple[str, ...] = ()


@dataclass
class _Tail:
    """What stands between a branch's end and the projections that it comes from."""

    last: list[Edge] = field(default_factory=list)
    gains: list[str] = field(default_factory=list)
    biases: list[str] = field(default_factory=list)
    scaled: list[str] = field(default_factory=list)
    gates: list[Edge] = field(default_factory=list)
    multiplier: float = 1.0
    gain: float = 1.0
    normed: bool = False

    @property
    def scales(self) -> bool:
        """Whether what is found next, on the way back from the end, is scaled by what was found before."""
        return self.normed or bool(self.gains)

    def add(self, names: Sequence[str]) -> None:
        """Take up biases."""
        self.biases += names
        if self.scales:
            self.scaled += names

    def scale(self, scaling: Scaling) -> None:
        """Take up a product: with parameters it is a gain, else a multiplier."""
        if scaling.parameters:
            self.gain *= scaling.factor
            self.gains += scaling.parameters
        else:
            self.multiplier *= scaling.factor


def _tail(graph: Graph, join: Join, sources: Sequence[Edge], bent: bool) -> _Tail:
    """Walk back from a branch's end to its last projections, also behind nonlinear functions if `bent`."""
    trace, tail = graph.trace, _Tail()
    waiting, seen = list(sources), set()
    while waiting:
        place = waiting.pop(0)
        if place in seen:
            continue
        seen.add(place)
        if place in trace.projections:
            tail.last.append(place)
            continue
        if not bent and kind(place.node) in BENDING:
            continue
        if place in trace.scalings:
            tail.scale(trace.scalings[place])
        if graph.normalises(place.node):
            scales = {
                name: edge
                for edge in edges_with_gradient(place.node)
                if (name := scale_name(graph, edge)) is not None
            }
            tail.add(
                [
                    name
                    for edge in edges_with_gradient(place.node)
                    if (name := graph.parameter(edge.node)) and name not in scales
                ]
            )
            tail.normed = True
            tail.gains += scales
            tail.gain *= math.prod(size(edge.node.variable) for edge in scales.values())
        elif kind(place.node) in ("Add", "Sub"):
            tail.add(
                [
                    name
                    for edge in edges_with_gradient(place.node)
                    for name in graph.parameters_only(edge.node) or ()
                ]
            )
        gate = gates_at(graph, join, place)
        tail.gates += gate
        waiting += [
            edge
            for edge in following(place)
            if edge.node in join.region and graph.parameters_only(edge.node) is None and edge not in gate
        ]
    return tail


def branch_parts(graph: Graph, join: Join, side: Summand) -> BranchParts:
    """Return the parts of a branch, walking back from its end: scalings and norms, projections, the rest."""
    trace = graph.trace
    data = [edge for edge in side.sources if graph.parameters_only(edge.node) is None]
    # Gates and routers reach the sum, too, but only through a nonlinear function.
    tail = _tail(graph, join, data, bent=False)
    if not tail.last:
        tail = _tail(graph, join, data, bent=True)
    if len(side.sources) > len(data) and join.addition.place in trace.scalings:  # the factors of an addcmul
        tail.scale(trace.scalings[join.addition.place])
    _, region = graph.reach(side.sources, 0, enter=lambda node: node in join.region)
    _, gating = graph.reach(tuple(tail.gates), 0, enter=lambda node: node in join.region)
    inside = [node for node in region & join.region - gating if graph.parameter(node) is not None]
    names = {str(graph.parameter(node)): node.variable.shape for node in inside}
    weights = _in_order(trace, {name for name, shape in names.items() if weighs(name, shape)})
    # A linear gate has another shape. The stream may be flattened; an expert may see a part of it.
    shape = join.addition.shape
    shapes = {place: trace.projections[place].shape for place in tail.last}
    exact = [place for place in tail.last if shapes[place] == shape]
    whole = [place for place in tail.last if math.prod(shapes[place]) == math.prod(shape)]
    wide = [place for place in tail.last if shapes[place][-1] == shape[-1]]
    shaped = exact or whole or wide or tail.last
    output = tuple(dict.fromkeys(trace.projections[place].weights[-1] for place in shaped))
    output = tuple(name for name in output if name in weights) or weights[-1:]
    applied = {
        name
        for place, made in trace.projections.items()
        if place.node in join.region
        for name in made.weights
    }
    inner = tuple(name for name in weights if name not in output and name in applied)
    projected = [name for place in shaped for name in trace.projections[place].biases]
    biases = [*projected, *tail.biases]
    return BranchParts(
        weights,
        output,
        inner,
        tuple(dict.fromkeys(tail.gains)),
        tuple(dict.fromkeys(biases)),
        tuple(dict.fromkeys(name for gate in tail.gates for name in weights_behind(trace, gate))),
        tail.multiplier,
        tail.gain,
        tail.normed,
        trace.projections[shaped[0]].owner if shaped else "",
        tuple(dict.fromkeys([*(projected if tail.scales else ()), *tail.scaled])),
    )


def _in_order(trace: Trace, names: set[str]) -> tuple[str, ...]:
    return tuple(name for name in trace.names.values() if name in names)
