"""Which normalisation stands before each weight of a module, read off one forward instead of its names."""

from __future__ import annotations

from deeplimit.modules.trace.graph import Graph
from deeplimit.modules.trace.recording import Edge, Trace, edges_with_gradient

STEPS = 12
"""So many reshapes and scalings may stand between a normalisation and the weight that reads it."""


def gains_before(trace: Trace) -> dict[str, str]:
    """Return, by the name of a weight, the name of the gain that multiplies its normalised input.

    Args:
        trace: one recorded forward of a module.

    Not checked: gains that are no parameter, such as one plus a parameter; such weights have no entry.

    Examples:
        >>> import torch
        >>> from deeplimit.modules.trace.batches import as_batch
        >>> from deeplimit.modules.trace.branches import record
        >>> network = torch.nn.Sequential(torch.nn.LayerNorm(4), torch.nn.Linear(4, 4))
        >>> gains_before(record(network, as_batch(network, torch.ones(2, 4))))
        {'1.weight': '0.weight'}
    """
    graph = Graph(trace)
    found = {}
    for place, projection in trace.projections.items():
        gain = _gain(graph, place)
        for name in projection.weights:
            if gain is not None:
                found[name] = gain
    return found


def _gain(graph: Graph, projection: Edge) -> str | None:
    place: Edge | None = projection
    while place is not None and not _applies_parameters(graph, place):
        place = graph.onward(place)  # a product of matrices, reshaped
    place = None if place is None else _data(graph, place)
    for _ in range(STEPS):
        if place is None:
            return None
        gains = [
            name
            for edge in edges_with_gradient(place.node)
            if (name := graph.parameter(edge.node)) is not None and not name.endswith("bias")
        ]
        data = _data(graph, place)
        by_hand = bool(gains) and data is not None and graph.normalises(data.node)
        if graph.normalises(place.node) or by_hand:
            return gains[0] if gains else None
        place = graph.onward(place)
    return None


def _applies_parameters(graph: Graph, place: Edge) -> bool:
    return any(graph.parameters_only(edge.node) for edge in edges_with_gradient(place.node))


def _data(graph: Graph, place: Edge) -> Edge | None:
    """Return the one input of a node that depends on data."""
    data = [edge for edge in edges_with_gradient(place.node) if graph.parameters_only(edge.node) is None]
    return data[0] if len(data) == 1 else None
