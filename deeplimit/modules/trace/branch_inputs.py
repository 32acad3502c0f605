"""What enters a branch beside the stream: gates of a condition, and what scales its normalised input."""

from __future__ import annotations

import math

from deeplimit.modules.trace.graph import Graph, Join, age_of
from deeplimit.modules.trace.operations import size
from deeplimit.modules.trace.recording import Edge, Trace, edges_with_gradient, kind


def entry_scale(graph: Graph, join: Join) -> float:
    """Return what multiplies a branch's normalised input on its way to its first projection; 1 if nothing."""
    trace = graph.trace
    for place in trace.projections:
        if place.node not in join.region:
            continue
        scale, normed, rooted, seen = 1.0, False, False, [place]
        for edge in seen:  # which grows
            if edge in trace.projections and edge is not place:
                break
            scaling = trace.scalings.get(edge)
            scale *= scaling.factor if scaling is not None else 1.0
            if graph.normalises(edge.node):
                normed = True
                scale *= math.prod(
                    size(other.node.variable)
                    for other in edges_with_gradient(edge.node)
                    if scale_name(graph, other) is not None
                )
                continue
            rooted = rooted or join.root in edges_with_gradient(edge.node)
            seen += [
                other
                for other in edges_with_gradient(edge.node)
                if other.node in join.region
                and other not in seen
                and graph.parameters_only(other.node) is None
            ]
        else:
            if normed or rooted:
                return scale if normed else 1.0
    return 1.0


def gates_at(graph: Graph, join: Join, place: Edge) -> list[Edge]:
    """Return the factor of a product that is no function of the stream, while the other factor is one."""
    factors = [edge for edge in edges_with_gradient(place.node) if graph.parameters_only(edge.node) is None]
    if kind(place.node) != "Mul" or len(factors) != 2:
        return []
    age = age_of(join.root)
    free = [edge for edge in factors if join.root.node not in graph.reach((edge,), age)[1]]
    return free if len(free) == 1 else []


def weights_behind(trace: Trace, place: Edge) -> list[str]:
    """Return the weights of the projections that a place is computed from, nearest first."""
    waiting, seen = [place], {place}
    found: list[str] = []
    while waiting and len(seen) < 64:
        edge = waiting.pop(0)
        if edge in trace.projections:
            found.append(trace.projections[edge].weights[-1])
            continue
        following = [other for other in edges_with_gradient(edge.node) if other not in seen]
        seen.update(following)
        waiting += following
    return found


def scale_name(graph: Graph, edge: Edge) -> str | None:
    """Return the name of a normalisation's scale: its parameter that is not called a bias."""
    name = graph.parameter(edge.node)
    return (
        name
        if name is not None and not name.rsplit(".", maxsplit=1)[-1].startswith(("bias", "beta", "b_"))
        else None
    )
