"""The parts of one residual branch: projection onto the stream, what scales it after that, other weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

from deeplimit.trace.graph import Graph, Join, kind
from deeplimit.trace.operations import size
from deeplimit.trace.recording import Edge, Summand, Trace, edges_with_gradient, matrix


@dataclass(frozen=True)
class BranchParts:
    """The parameters of a branch by role, each in order of the module's parameters, and what scales it.

    Attributes:
        weights: Names of all weights.
        output: Names of the weights that project onto the stream.
        inner: Names of the other weights that are applied.
        gains: Names of the parameters that scale the branch after the projection.
        biases: Names of the biases added at the projection or after it.
        multiplier: Product of the numbers that scale the branch after the projection.
        gain: Product of the sizes of the gains.
        normed: Whether a normalisation follows the projection.
    """

    weights: tuple[str, ...]
    output: tuple[str, ...]
    inner: tuple[str, ...]
    gains: tuple[str, ...]
    biases: tuple[str, ...]
    multiplier: float
    gain: float
    normed: bool


def branch_parts(graph: Graph, join: Join, side: Summand) -> BranchParts:
    """Return the parts of a branch, walking back from its end: scalings and norms, projections, the rest."""
    trace = graph.trace
    last: list[Edge] = []
    gains: list[str] = []
    biases: list[str] = []
    multiplier, gain, normed = 1.0, 1.0, False
    data = [edge for edge in side.sources if graph.parameters_only(edge.node) is None]
    if len(side.sources) > len(data):  # the factors of an addcmul
        scaling = trace.scalings.get(join.addition.place)
        if scaling is not None:
            gain, gains = gain * scaling.factor, [*gains, *scaling.parameters]
    waiting, seen = list(data), set()
    while waiting:
        place = waiting.pop(0)
        if place in seen:
            continue
        seen.add(place)
        if place in trace.projections:
            last.append(place)
            continue
        scaling = trace.scalings.get(place)
        if scaling is not None and scaling.parameters:
            gain, gains = gain * scaling.factor, [*gains, *scaling.parameters]
        elif scaling is not None:
            multiplier *= scaling.factor
        if graph.normalises(place.node):
            normed = True
            scales = {
                name: edge
                for edge in edges_with_gradient(place.node)
                if (name := _scale_name(graph, edge)) is not None
            }
            gains += scales
            gain *= math.prod(size(edge.node.variable) for edge in scales.values())
            biases += [
                name
                for edge in edges_with_gradient(place.node)
                if (name := graph.parameter(edge.node)) and name not in scales
            ]
        elif kind(place.node) in ("Add", "Sub"):
            biases += [
                name
                for edge in edges_with_gradient(place.node)
                for name in graph.parameters_only(edge.node) or ()
            ]
        waiting += [
            edge
            for edge in edges_with_gradient(place.node)
            if edge.node in join.region and graph.parameters_only(edge.node) is None
        ]
    _, region = graph.reach(side.sources, 0, enter=lambda node: node in join.region)
    inside = [node for node in region & join.region if graph.parameter(node) is not None]
    weights = _in_order(trace, {str(graph.parameter(node)) for node in inside if matrix(node.variable.shape)})
    # A router ends in a projection, too; the one onto the stream has the stream's size or at least its width.
    shape = join.addition.shape
    whole = [place for place in last if math.prod(trace.projections[place].shape) == math.prod(shape)]
    shaped = whole or [place for place in last if trace.projections[place].shape[-1] == shape[-1]] or last
    output = tuple(dict.fromkeys(trace.projections[place].weights[-1] for place in shaped))
    if not output and weights:
        output = weights[-1:]
    output = tuple(name for name in output if name in weights) or weights[-1:]
    applied = {
        name
        for place, made in trace.projections.items()
        if place.node in join.region
        for name in made.weights
    }
    inner = tuple(name for name in weights if name not in output and name in applied)
    biases = [*(name for place in shaped for name in trace.projections[place].biases), *biases]
    return BranchParts(
        weights,
        output,
        inner,
        tuple(dict.fromkeys(gains)),
        tuple(dict.fromkeys(biases)),
        multiplier,
        gain,
        normed,
    )


def _scale_name(graph: Graph, edge: Edge) -> str | None:
    """Return the name of a normalisation's scale: its parameter that is not called a bias."""
    name = graph.parameter(edge.node)
    return (
        name
        if name is not None and not name.rsplit(".", maxsplit=1)[-1].startswith(("bias", "beta", "b_"))
        else None
    )


def _in_order(trace: Trace, names: set[str]) -> tuple[str, ...]:
    return tuple(name for name in trace.names.values() if name in names)
