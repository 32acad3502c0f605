"""Which normalisation stands before or after each weight of a module, read off one forward, not its names."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, final

from deeplimit.modules.trace.graph import Graph
from deeplimit.modules.trace.orientation import signed
from deeplimit.modules.trace.recording import Edge, Trace, edges_with_gradient, kind

STEPS = 12
"""So many reshapes and scalings may stand between a normalisation and the weight that reads it."""
HOMOGENEOUS = {"Relu", "LeakyRelu", "Threshold"}
"""Activations that hand on a positive gain: φ(g x) = g φ(x)."""
CHANNELS = re.compile(r"(Batch|Group|Instance)_?Norm", re.IGNORECASE)
"""Normalisations whose gains lie along the second axis; those of others lie along the last."""
CASTS = {"ToCopy", "Alias", "View"}
"""What may stand between a normalisation by hand, which is done in float32, and the gain."""
SPLIT = 256
"""So many nodes of an attention that runs in one call are looked through for the normalisation before it."""


@final
@dataclass(frozen=True)
class Before:
    """The gain of the normalised input of a weight.

    Attributes:
        gain: name of the parameter.
        along: whether its entries are those that the weight reads; an MLP over tokens reads another axis.
        bent: whether an activation stands between, which hands on the gain's size but not its sign.
    """

    gain: str
    along: bool = True
    bent: bool = False


def norms_before(trace: Trace, owned: Collection[str] = ()) -> dict[str, Before]:
    """Return, by the name of a weight, the gain that multiplies its normalised input.

    Args:
        trace: one recorded forward of a module.
        owned: names of gains that belong to the weight before them, and not to the one after.

    Not checked: gains that are no parameter, such as one plus a parameter; such weights have no entry.

    Examples:
        >>> import torch
        >>> from deeplimit.modules.trace.batches import as_batch
        >>> from deeplimit.modules.trace.branches import record
        >>> network = torch.nn.Sequential(torch.nn.LayerNorm(4), torch.nn.Linear(4, 4))
        >>> norms_before(record(network, as_batch(network, torch.ones(2, 4))))["1.weight"].gain
        '0.weight'
    """
    graph = Graph(trace)
    found = {}
    for place, projection in trace.projections.items():
        norm = _before(graph, place) if len(projection.weights) == 1 else _before_all(graph, place)
        if norm is None or norm.gain in owned:
            continue
        for name in projection.weights if len(projection.weights) == 1 else projection.weights[:-1]:
            found[name] = norm
    return found


def batch_norms_after(trace: Trace) -> dict[str, str]:
    """Return, by the name of a weight, the gain of the batch normalisation that reads its output.

    With running statistics it multiplies each row of the weight by a number.
    """
    graph = Graph(trace)
    found = {}
    waiting: list[Any] = [addition.place.node for addition in trace.additions if addition.place.node]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        following = edges_with_gradient(node)
        if "BatchNorm" in kind(node) and following:
            names = [name for edge in following[1:] if (name := graph.parameter(edge.node))]
            place: Edge | None = following[0]
            while place is not None and place not in trace.projections:
                place = graph.onward(place)
            if place is not None and names:
                found[trace.projections[place].weights[-1]] = names[0]
        new = [edge.node for edge in following if edge.node not in seen]
        seen.update(new)
        waiting += new
    return found


def input_of(graph: Graph, projection: Edge) -> Edge | None:
    """Return what a projection applies its weight to; None where that is not one tensor."""
    place = applied_at(graph, projection)
    return None if place is None else _data(graph, place)


def _before(graph: Graph, projection: Edge) -> Before | None:
    place = input_of(graph, projection)
    shape = _shape(place)
    axis = None if not shape else 1 if _convolves(graph, projection) else len(shape) - 1
    bent = False
    for _ in range(STEPS):
        if place is None:
            return None
        if (gain := _gain(graph, place)) is not None:
            last = len(_shape(place)) - 1
            along = axis == (1 if CHANNELS.search(kind(place.node)) else last)
            return Before(gain, along or axis is None, bent) if gain else None
        bent = bent or kind(place.node) in HOMOGENEOUS
        before = graph.onward(place, HOMOGENEOUS)
        axis = None if before is None or axis is None else _axis_before(place, before, axis)
        place = before
    return None


def _before_all(graph: Graph, projection: Edge) -> Before | None:
    """Return the one normalisation whose output a call with several weights, as an attention, reads."""
    waiting, seen, gains = [projection], {projection}, set()
    while waiting:
        place = waiting.pop()
        if len(seen) > SPLIT or (place is not projection and place in graph.trace.projections):
            return None
        if (gain := _gain(graph, place)) is not None:
            gains.add(gain)
            continue
        data = [edge for edge in edges_with_gradient(place.node) if graph.parameters_only(edge.node) is None]
        new = [edge for edge in data if edge not in seen]
        seen.update(new)
        waiting += new
    return Before(gains.pop()) if len(gains) == 1 and "" not in gains else None


def _gain(graph: Graph, place: Edge) -> str | None:
    """Return the gain of a normalisation, "" where it has none; None where a place is no normalisation."""
    gains = [
        name
        for edge in edges_with_gradient(place.node)
        if (name := _one_parameter(graph, edge.node)) is not None and not name.endswith("bias")
    ]
    data = _data(graph, place)
    while data is not None and kind(data.node) in CASTS:
        data = graph.onward(data)
    by_hand = bool(gains) and data is not None and graph.normalises(data.node)
    if graph.normalises(place.node) or by_hand:
        return gains[0] if gains else ""
    return None


def _one_parameter(graph: Graph, node: Any) -> str | None:
    """Return the name of the parameter at a node, or of the stack of which one layer's is taken there."""
    only = graph.parameters_only(node) if graph.cuts_a_parameter(node) else None
    return only[0] if only and len(only) == 1 else graph.parameter(node)


def _convolves(graph: Graph, projection: Edge) -> bool:
    place = applied_at(graph, projection)
    return place is not None and "Convolution" in kind(place.node)


def _axis_before(place: Edge, before: Edge, axis: int) -> int | None:
    """Return where an axis of a place lies in what it was reshaped from; None if nowhere."""
    node, shape, other = place.node, _shape(place), _shape(before)
    if kind(node) == "Transpose":
        ends = [signed(node._saved_dim0) % len(other), signed(node._saved_dim1) % len(other)]
        return ends[1 - ends.index(axis)] if axis in ends else axis
    if kind(node) == "T":
        return len(other) - 1 - axis
    if kind(node) == "Permute":
        return int(signed(node._saved_dims[axis]) % len(other))
    if shape == other:
        return axis
    behind = math.prod(shape[axis + 1 :])
    same = [
        place
        for place, size in enumerate(other)
        if size == shape[axis] and math.prod(other[place + 1 :]) == behind
    ]
    return same[-1] if same else None


def _shape(place: Edge | None) -> tuple[int, ...]:
    """Return the shape of the tensor at a place; empty where autograd does not tell it."""
    known = getattr(place.node, "_input_metadata", None) if place is not None else None
    return tuple(known[place.output].shape) if known and place is not None else ()


def applied_at(graph: Graph, projection: Edge) -> Edge | None:
    """Return the operation with the weight of a projection, whose result was reshaped or got a bias."""
    weights = {*graph.trace.projections[projection].weights}
    place: Edge | None = projection
    while place is not None and not any(
        weights & {*(graph.parameters_only(edge.node) or ())} for edge in edges_with_gradient(place.node)
    ):
        place = graph.onward(place)
    return place


def _data(graph: Graph, place: Edge) -> Edge | None:
    """Return the one input of a node that depends on data."""
    data = [edge for edge in edges_with_gradient(place.node) if graph.parameters_only(edge.node) is None]
    return data[0] if len(data) == 1 else None
