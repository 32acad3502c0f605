"""The residual branches of a module: their names, which weight projects them back onto the stream, what scales them after."""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from deeplimit.modules.batches import Batch, as_batch, outputs, run
from deeplimit.modules.graph import Graph, Join, carried_from, find_joins, kind, stream_of
from deeplimit.modules.tracing import Addition, Edge, Recorder, Side, Trace, matrix, module_names, size
from deeplimit.modules.untouched import undisturbed
from deeplimit.validation import named


@dataclass(frozen=True)
class Branch:
    """One residual branch of a module, x + branch(x): its name, its place, and the parameters that set its size.

    kind: the name that it shares with its likes in other layers ("h.*.attn"); name: its own ("h.3.attn"); stream: which
    residual stream of the module; index: its position among all branches of that stream, in order of execution. output:
    names of the weight(s) that project back onto the stream; inner: its other weights (two or more axes); gains: parameters
    that scale it after the projection (LayerScale, ReZero, the scale of a last normalisation); biases: those added at the
    projection or after it, which its scale does not reach.
    """

    kind: str
    name: str
    stream: int
    index: int
    output: tuple[str, ...]
    inner: tuple[str, ...]
    gains: tuple[str, ...]
    biases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """A branch, and where a forward's record has it: which side of which addition, cut at which join."""

    branch: Branch
    key: tuple[Any, ...]  # the same for its likes in other layers, and in the same module at other depths
    join: Join
    ordinal: int  # of the addition that holds the branch's own update
    side: int
    multiplier: float  # numbers that scale it after the projection
    gain: float  # what the parameters in `gains` scale it by
    skip: float  # numbers that scale the skip
    renormed: bool  # whether the stream that the branch reads was normalised as a whole after the last sum
    normed: bool  # whether a normalisation stands between projection and sum, so that the projection's size does not count
    counted: (
        bool  # whether it is one of its stream's number of branches: not an expert after the first in one sum, nor an adapter
    )


@dataclass(frozen=True)
class Layout:
    """All parts of a module in order of execution, and the joins to cut."""

    parts: tuple[Part, ...]
    joins: tuple[Join, ...]
    heads: tuple[int, ...]  # blocks with a projected shortcut that open each stream: of its depth, but no join


def find_branches(model: nn.Module, batch: Any = None, *, blocks: str | Sequence[str] | None = None) -> tuple[Branch, ...]:
    """Return the residual branches that one forward of `model` on `batch` runs through, in order.

    batch: a tensor, a tuple of positional arguments, or a dict of keyword arguments; left out, it is made up from the
    model's configuration or first layer. blocks: patterns of module names ("model.layers.*"); only additions inside matching
    modules count. The model is left as it was. Not checked: whether the same branches run for other inputs.

    Raises TypeError for what is no module, ValueError for parameters on the meta device, for a batch that cannot be made up,
    and where no residual branch is found.

    Example:
        >>> import torch, deeplimit as dl
        >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        >>> [branch.name for branch in dl.find_branches(layer, torch.ones(2, 4, 8))]
        ['self_attn', '{linear1,linear2}']
    """
    trace = record(model, as_batch(model, batch))
    return tuple(part.branch for part in layout(trace, blocks).parts)


def record(model: nn.Module, batch: Batch) -> Trace:
    """Return the trace of one forward."""
    with undisturbed(model), module_names(model) as owners, Recorder(model, owners) as recorder:
        refuse_hidden(model, run(model, batch))
    trace: Trace = recorder.trace
    return trace


def refuse_hidden(model: nn.Module, output: Any) -> None:
    """Raise ValueError if parts of a forward were hidden from autograd, and so from the trace, by reentrant checkpointing."""
    waiting, seen = [tensor.grad_fn for tensor in outputs(output)], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        if kind(node) == "CheckpointFunction":
            raise ValueError(
                f"{type(model).__name__} runs parts of itself under activation checkpointing with use_reentrant=True, which "
                "hides the residual branches in them: switch checkpointing off for the check, or pass use_reentrant=False."
            )
        seen.add(node)
        waiting += [following for following, _ in node.next_functions]


def layout(trace: Trace, blocks: str | Sequence[str] | None = None) -> Layout:
    """Return the branches of a recorded forward."""
    if blocks is not None and not (isinstance(blocks, Sequence) and all(isinstance(pattern, str) for pattern in blocks)):
        raise TypeError(
            f"blocks must be a pattern of module names such as 'model.layers.*', or a list of them; got {named(blocks)}."
        )
    graph = Graph(trace)
    joins = [join for join in find_joins(trace) if _wanted(join.addition.owner, blocks)]
    if not joins:
        raise ValueError(_nothing_found(trace, blocks))
    streams = _streams(graph, joins)
    pieces = [
        (join, stream, ordinal, side, scale)
        for join, stream in zip(joins, streams, strict=True)
        for ordinal, side, scale in _pieces(graph, join)
    ]
    described = [_describe(graph, join, trace.additions[ordinal].sides[side]) for join, _, ordinal, side, _ in pieces]
    names = names_of([found.weights for found in described])
    kinds, keys = _kinds(described, [stream for _, stream, *_ in pieces], trace)
    counts: dict[int, int] = {}
    parts: list[Part] = []
    for (join, stream, ordinal, side, scale), found, name, likes, key in zip(pieces, described, names, kinds, keys, strict=True):
        index = counts.get(stream, 0)
        counts[stream] = index + 1
        branch = Branch(likes, name, stream, index, found.output, found.inner, found.gains, found.biases)
        skipped = join.addition.sides[join.skip]
        skip = skipped.factor * _scale(graph, skipped.sources, until=join.root)
        renormed = any(graph.normalises(place.node) for place in graph.climb((join.root,)))
        beside = max(trace.additions[at].sides[on].size for other, _, at, on, _ in pieces if other is join)
        adapter = trace.additions[ordinal].sides[side].size == 0 < beside and _narrows(trace, found.output)
        counted = not adapter and not any(part.join is join and part.key == key for part in parts)
        parts.append(
            Part(branch, key, join, ordinal, side, found.multiplier * scale, found.gain, skip, renormed, found.normed, counted)
        )
    heads = [
        _opened(graph, next(join for join, own in zip(joins, streams, strict=True) if own == number))
        for number in sorted(set(streams))
    ]
    return Layout(tuple(parts), tuple(joins), tuple(heads))


def _narrows(trace: Trace, weights: Sequence[str]) -> bool:
    """Whether weights (out, in, ...) have fewer inputs than outputs, as the last one of a low-rank adapter has."""
    return all(trace.shapes[name][1] < trace.shapes[name][0] for name in weights if len(trace.shapes[name]) > 1)


def _opened(graph: Graph, join: Join) -> int:
    """Return 1 if a stream begins with the sum of two projections, as a stage of a ResNet does, else 0."""
    sums = {addition.place: addition for addition in graph.trace.additions}
    opening = stream_of(graph, join, [_as_join(addition) for addition in sums.values()])
    if opening is None or opening.addition.place.node is None:
        return 0
    projections = {_projected(graph, side) for side in opening.addition.sides}
    return int(None not in projections and len(projections) == 2)


def _as_join(addition: Addition) -> Join:
    return Join(addition, 0, addition.place, frozenset(), (), False)


def _projected(graph: Graph, side: Side) -> Edge | None:
    """Return the projection that a side of a sum comes from by scalings and normalisations alone."""
    place = side.sources[0] if side.sources else None
    for _ in range(16):
        if place is None:
            return None
        if place in graph.trace.projections:
            return None if kind(place.node).startswith("Embedding") else place  # a sum of embeddings is no block
        data = [edge for edge in edges_of(place) if graph.parameters_only(edge.node) is None]
        place = data[0] if data else None
    return None


def _wanted(owner: str, blocks: str | Sequence[str] | None) -> bool:
    if blocks is None:
        return True
    patterns = [blocks] if isinstance(blocks, str) else list(blocks)
    return any(fnmatch.fnmatchcase(owner, pattern) or fnmatch.fnmatchcase(owner, pattern + ".*") for pattern in patterns)


def _nothing_found(trace: Trace, blocks: str | Sequence[str] | None) -> str:
    adding = sorted({addition.owner for addition in trace.additions if addition.owner})
    where = (
        f" Modules that add two activations of one shape: {', '.join(adding[:8])}{' ...' if len(adding) > 8 else ''}."
        if adding
        else ""
    )
    scripted = f" Inside of scripted modules nothing is seen ({trace.scripted[0]} is one)." if trace.scripted else ""
    pattern = f" inside modules matching blocks={blocks!r}" if blocks is not None else ""
    hidden = sum(addition.place.node is None for addition in trace.additions)
    if hidden:
        where += (
            f" {hidden} of them ran where autograd records nothing (torch.no_grad, a detached input): measure the "
            "module without that."
        )
    return (
        f"no residual branch was found{pattern}: looked through {len(trace.additions)} additions of two activations for "
        f"one whose one side comes unchanged (reshaped or scaled) from where the other side's weights begin.{where}{scripted} "
        "Point at the residual blocks with blocks='model.layers.*' (names as in model.named_modules())."
    )


def _streams(graph: Graph, joins: Sequence[Join]) -> list[int]:
    """Number the streams: a join goes on with the stream of the join whose sum it continues."""
    number: dict[Edge, int] = {}
    streams = []
    for position, join in enumerate(joins):
        before = stream_of(graph, join, list(joins[:position])) or carried_from(graph, join, joins[:position])
        stream = number[before.addition.place] if before is not None else len(set(number.values()))
        number[join.addition.place] = stream
        streams.append(stream)
    return streams


def _pieces(graph: Graph, join: Join) -> list[tuple[int, int, float]]:
    """Return the branches that a join adds at once, x + (attention(x) + mlp(x)): addition, side, and the scale after it."""
    sums = {addition.place: addition for addition in graph.trace.additions if addition.place.node in join.region}
    waiting = [(join.addition.ordinal, join.branch, join.addition.sides[join.branch].factor)]
    found = []
    while waiting:
        ordinal, side, scale = waiting.pop()
        sources = graph.trace.additions[ordinal].sides[side].sources
        inner = None
        for place in graph.climb(sources):
            if place in sums:
                inner = sums[place]
                break
        if inner is not None and all(_own_weights(graph, join, side_) for side_ in inner.sides):
            further = scale * _scale(graph, sources, until=inner.place)
            waiting += [(inner.ordinal, place, further * inner.sides[place].factor) for place in (1, 0)]
        else:
            found.append((ordinal, side, scale))
    return found


def _own_weights(graph: Graph, join: Join, side: Side) -> bool:
    """Whether a side of a sum inside a branch has weights of its own between the root and the sum."""
    if not side.sources:
        return False
    _, region = graph.reach(side.sources, 0, enter=lambda node: node in join.region)
    names = {name for node in region & join.region if (name := graph.parameter(node)) is not None}
    return any(place.node in region and set(made.weights) & names for place, made in graph.trace.projections.items())


def _scale(graph: Graph, sources: tuple[Edge, ...], until: Edge) -> float:
    """Return the product of the numbers that scale what comes from `until` on its way to `sources`."""
    factor = 1.0
    for place in graph.climb(sources):
        if place == until:
            break
        scaling = graph.trace.scalings.get(place)
        if scaling is not None:
            factor *= scaling.factor
    return factor


@dataclass(frozen=True)
class _Found:
    weights: tuple[str, ...]
    output: tuple[str, ...]
    inner: tuple[str, ...]
    gains: tuple[str, ...]
    biases: tuple[str, ...]
    multiplier: float
    gain: float
    normed: bool


def _describe(graph: Graph, join: Join, side: Side) -> _Found:
    """Walk back from the end of a branch: scalings and norms first, then the projection(s), then all the rest."""
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
            scales = {name: edge for edge in edges_of(place) if (name := _scale_name(graph, edge)) is not None}
            gains += scales
            gain *= math.prod(size(edge.node.variable) for edge in scales.values())
            biases += [name for edge in edges_of(place) if (name := graph.parameter(edge.node)) and name not in scales]
        elif kind(place.node) in ("Add", "Sub"):
            biases += [name for edge in edges_of(place) for name in graph.parameters_only(edge.node) or ()]
        waiting += [edge for edge in edges_of(place) if edge.node in join.region and graph.parameters_only(edge.node) is None]
    _, region = graph.reach(side.sources, 0, enter=lambda node: node in join.region)
    inside = [node for node in region & join.region if graph.parameter(node) is not None]
    weights = _in_order(trace, {str(graph.parameter(node)) for node in inside if matrix(node.variable.shape)})
    # A router, too, ends in a projection; the one onto the stream has the stream's size, or at least its width.
    shape = join.addition.shape
    whole = [place for place in last if math.prod(trace.projections[place].shape) == math.prod(shape)]
    shaped = whole or [place for place in last if trace.projections[place].shape[-1] == shape[-1]] or last
    output = tuple(dict.fromkeys(trace.projections[place].weights[-1] for place in shaped))
    if not output and weights:
        output = weights[-1:]
    output = tuple(name for name in output if name in weights) or weights[-1:]
    applied = {name for place, made in trace.projections.items() if place.node in join.region for name in made.weights}
    inner = tuple(name for name in weights if name not in output and name in applied)
    biases = [*(name for place in shaped for name in trace.projections[place].biases), *biases]
    return _Found(weights, output, inner, tuple(dict.fromkeys(gains)), tuple(dict.fromkeys(biases)), multiplier, gain, normed)


def edges_of(place: Edge) -> list[Edge]:
    """Return the inputs of a place's node that require a gradient."""
    return [Edge(*item) for item in place.node.next_functions if item[0] is not None]


def _scale_name(graph: Graph, edge: Edge) -> str | None:
    """Return the name of a normalisation's scale: its parameter that is not called a bias."""
    name = graph.parameter(edge.node)
    return name if name is not None and not name.rsplit(".", maxsplit=1)[-1].startswith(("bias", "beta", "b_")) else None


def _in_order(trace: Trace, names: set[str]) -> tuple[str, ...]:
    return tuple(name for name in trace.names.values() if name in names)


def names_of(groups: Sequence[Sequence[str]]) -> list[str]:
    """Return a name for each group of weights: their common module, or {a,b} of its children where another group is inside it.

    Example:
        >>> names_of([["h.3.attn.qkv.weight", "h.3.attn.proj.weight"], ["h.3.fc1.weight", "h.3.fc2.weight"]])
        ['h.3.attn', 'h.3.{fc1,fc2}']
    """
    plain = [_common([name.split(".") for name in group]) for group in groups]
    names = []
    for own, group in zip(plain, groups, strict=True):
        shared = any(other != own and other[: len(own)] == own for other in plain)
        if own and not shared:
            names.append(".".join(own))
            continue
        rests = list(dict.fromkeys(name.split(".")[len(own)] for name in group))
        names.append(".".join([*own, "{" + ",".join(rests) + "}" if len(rests) > 1 else rests[0]]))
    return names


def _common(paths: Sequence[Sequence[str]]) -> list[str]:
    """Return the modules that all of these parameters are in."""
    common: list[str] = []
    for level in zip(*(path[:-1] for path in paths), strict=False):
        if len(set(level)) > 1:
            break
        common.append(level[0])
    return common


def _kinds(described: Sequence[_Found], streams: Sequence[int], trace: Trace) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Name the kinds: branches of one stream whose output projections differ in numbers of their names only are of one kind.

    The second list tells the kinds apart in the same way at every depth.
    """
    keys = [
        # Each once: of the experts in one list a small batch may not reach them all.
        (stream, tuple(dict.fromkeys((re.sub(r"\d+", "*", name), trace.shapes[name]) for name in found.output)))
        for found, stream in zip(described, streams, strict=True)
    ]
    groups = list(dict.fromkeys(keys))
    first = [described[keys.index(key)].weights for key in groups]
    outputs = [[found.output[0] for found, own in zip(described, keys, strict=True) if own == key] for key in groups]
    starred = [[_starred(name, likes) for name in weights] for weights, likes in zip(first, outputs, strict=True)]
    names = names_of(starred)
    # Two kinds may share a name (a channel mixer and a token mixer in one list); their order tells them apart.
    distinct = [
        name if names.count(name) == 1 else f"{name} ({names[:place].count(name) + 1})" for place, name in enumerate(names)
    ]
    plain = [(stream, tuple(name for name, _ in weights)) for stream, weights in groups]
    lasting = [(*key, plain[:place].count(key)) for place, key in enumerate(plain)]
    return [distinct[groups.index(key)] for key in keys], [lasting[groups.index(key)] for key in keys]


def _starred(name: str, likes: Sequence[str]) -> str:
    """Return `name` with stars where the likes of a weight beside it differ."""
    pieces = [like.split(".") for like in dict.fromkeys(likes)]
    own = name.split(".")
    for position in range(min(len(own), *(len(piece) for piece in pieces))):
        differ = len({piece[position] for piece in pieces}) > 1
        if differ:
            own[position] = wildcard(own[position], [piece[position] for piece in pieces])
        if not differ and own[position] != pieces[0][position]:
            break
    return ".".join(own)


def wildcard(name: str, likes: Iterable[str]) -> str:
    """Return `name` with a star for every number in which its likes differ.

    Example:
        >>> wildcard("h.3.mlp.0.weight", ["h.3.mlp.0.weight", "h.4.mlp.0.weight"])
        'h.*.mlp.0.weight'
    """
    pieces = [re.split(r"(\d+)", like) for like in dict.fromkeys(likes)]
    own = re.split(r"(\d+)", name)
    return "".join(
        "*" if position % 2 and len({other[position] for other in pieces}) > 1 else piece for position, piece in enumerate(own)
    )
