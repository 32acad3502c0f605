"""Tensors cut into parts and put together again, by the shapes that the autograd graph keeps."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from deeplimit.modules.trace.recording import Edge, edges, kind

CUTTING = {"Slice", "Select", "Split", "SplitWithSizes", "Unbind", "UnsafeSplit", "UnsafeSplitWithSizes"}
Window = tuple[Edge, int, int, int]
"""What a part was cut from, and axis, start and length of the cut."""


def same_elsewhere(place: Edge) -> Edge | None:
    """Return where the same tensor is elsewhere in the graph; None if `place` is neither of the two.

    It is a tensor that was put together with others and is cut off again, or one whose parts, all of them and
    in their order, are put together again.
    """
    name = kind(place.node)
    if name in CUTTING:
        window = _window(place, name)
        return None if window is None else _piece(*window)
    if name == "Cat":
        return _whole(place)
    return None


def _window(place: Edge, name: str) -> Window | None:
    node = place.node
    source = _behind_whole_slices(edges(node)[0])
    shape = None if source is None else shape_at(source)
    if source is None or shape is None:
        return None
    axis = _signed(node._saved_dim) % len(shape)
    length = shape[axis]
    if name == "Slice":
        start, end = (_signed(value) for value in (node._saved_start, node._saved_end))
        start, end = (value + length if value < 0 else value for value in (start, end))
        return (source, axis, start, min(end, length) - start) if node._saved_step == 1 else None
    if name in ("Select", "Unbind"):
        index = _signed(node._saved_index) % length if name == "Select" else place.output
        return source, axis, index, 1
    if name.endswith("Sizes"):
        sizes = [int(size) for size in node._saved_split_sizes]
        return source, axis, sum(sizes[: place.output]), sizes[place.output]
    start = int(node._saved_split_size) * place.output
    return source, axis, start, min(int(node._saved_split_size), length - start)


def _behind_whole_slices(place: Edge | None) -> Edge | None:
    """Return where a tensor is before it was cut along whole axes: torch 2.6 cuts x[:, :2] along both."""
    while place is not None and kind(place.node) == "Slice":
        node, source = place.node, edges(place.node)[0]
        shape = None if source is None else shape_at(source)
        if shape is None or (node._saved_start, node._saved_step) != (0, 1):
            break
        if _signed(node._saved_end) < shape[_signed(node._saved_dim) % len(shape)]:
            break
        place = source
    return place


def _piece(source: Edge, axis: int, start: int, length: int) -> Edge | None:
    """Return which of the tensors that make up `source` this part of it is."""
    if kind(source.node) not in ("Cat", "Stack"):
        return None
    joined = _joined(source)
    if joined is None or joined[0] != axis:
        return None
    ends = list(accumulate(joined[1]))
    bounds = [(end - size, size) for end, size in zip(ends, joined[1], strict=True)]
    return edges(source.node)[bounds.index((start, length))] if (start, length) in bounds else None


def _whole(place: Edge) -> Edge | None:
    """Return what the tensors put together here were cut from, if they are all of its parts."""
    parts = [edge for edge in edges(place.node) if edge is not None]
    windows = [
        _window(part, name) if (name := kind(part.node)) in CUTTING - {"Select", "Unbind"} else None
        for part in parts
    ]
    joined = _joined(place)
    if joined is None or len(parts) != len(joined[1]) or None in windows:
        return None
    axis, sizes = joined
    source = windows[0][0]  # type: ignore[index]
    starts = [end - size for end, size in zip(accumulate(sizes), sizes, strict=True)]
    wanted = [(source, axis, start, size) for start, size in zip(starts, sizes, strict=True)]
    return source if windows == wanted and shape_at(source) == shape_at(place) else None


def _joined(place: Edge) -> tuple[int, list[int]] | None:
    """Return the axis along which tensors are put together here, and how long each is along it."""
    shape = shape_at(place)
    if shape is None:
        return None
    axis, parts = _signed(place.node._saved_dim) % len(shape), edges(place.node)
    if kind(place.node) == "Stack":
        return axis, [1] * len(parts)
    shapes = [None if part is None else shape_at(part) for part in parts]
    known = [0 if one is None else one[axis] for one in shapes]
    if shapes.count(None) > 1:
        return None
    return axis, [shape[axis] - sum(known) if one is None else one[axis] for one in shapes]


def shape_at(place: Edge) -> tuple[int, ...] | None:
    """Return the shape of the tensor at a place; None where the graph does not keep it."""
    variable = getattr(place.node, "variable", None)
    if variable is not None:
        return tuple(variable.shape)
    metadata = place.node._input_metadata
    return tuple(map(int, metadata[place.output].shape)) if place.output < len(metadata) else None


def _signed(value: Any) -> int:
    """Return a number that autograd stores without its sign."""
    number = int(value)
    return number - 2**64 if number >= 2**63 else number
