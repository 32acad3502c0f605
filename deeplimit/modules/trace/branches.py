"""The residual branches of a module: their names, which weight projects them back onto the stream, what
scales them after.
"""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from deeplimit.common.global_state import alone, by_default
from deeplimit.common.validation import named
from deeplimit.modules.trace.batches import Batch, as_batch
from deeplimit.modules.trace.branch_inputs import entry_scale
from deeplimit.modules.trace.branch_parts import BranchParts, branch_parts
from deeplimit.modules.trace.copies import refuse_mixed_copies
from deeplimit.modules.trace.forwards import recorded
from deeplimit.modules.trace.graph import (
    ACTIVATING,
    Graph,
    Join,
    acts_on_one_sum,
    age_of,
    carried_by,
    carried_from,
    find_joins,
    origin_of,
    stream_of,
)
from deeplimit.modules.trace.naming import alike, familiar, kinds_of, names_of
from deeplimit.modules.trace.recording import (
    Addition,
    Edge,
    Summand,
    Trace,
    edges_with_gradient,
    kind,
    matrix,
)
from deeplimit.modules.trace.side_effects import undisturbed


@dataclass(frozen=True)
class Branch:
    """One residual branch of a module, x + branch(x): its name, place and the parameters that set its size.

    Attributes:
        kind: Name that the branch shares with the same branch of other layers ("h.*.attn").
        name: Name of this branch ("h.3.attn").
        stream: Number of the residual stream that the branch adds to, from 0.
        index: Position among all branches of that stream, in order of execution, from 0.
        output: Names of the weights that project the branch back onto the stream.
        inner: Names of the branch's other weights (parameters with two or more axes).
        gains: Names of the parameters that scale the branch after the projection (LayerScale, ReZero, the
            scale of a last normalisation).
        biases: Names of the biases added at the projection or after it, which a scaled projection does not
            scale.
        gates: Names of the weights that multiply the branch by a function of something other than the stream
            (the last linear layer of adaLN).
    """

    kind: str
    name: str
    stream: int
    index: int
    output: tuple[str, ...]
    inner: tuple[str, ...]
    gains: tuple[str, ...]
    biases: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """A branch, and where a forward's record has it: which side of which addition, cut at which join."""

    branch: Branch
    key: str  # the same for its likes in other layers, and in the same module at other depths
    join: Join
    ordinal: int  # of the addition that holds the branch's own update
    side: int
    multiplier: float  # numbers that scale it after the projection
    gain: float  # what the parameters in `gains` scale it by
    entry: float  # what scales the branch's input after its norm
    skip: float  # numbers that scale the skip, from where the sum before it ends
    passed: float  # the same from the branch's root on
    dropped: float  # probability with which dropout, in training, drops an entry of the stream on its way
    opens: bool  # whether no sum of its stream comes before, so that numbers between sums are not known
    renormed: bool  # whether the stream that the branch reads was normalised as a whole after the last sum
    # Whether what stands between the sum before and this one, if anything does, acts on that sum alone.
    follows_one: bool
    # Whether a normalisation stands between projection and sum, so that the projection's size does not count.
    normed: bool
    # As one of its stream's branches, which an expert after the first in one sum and an adapter are not.
    counted: bool
    # Position in the layout of the part that it counts with: of a sum's experts, the first. None for others.
    among: int | None = None
    # Share that a velocity keeps of what earlier branches added to it, where the branch adds to one; else 0.
    kept: float = 0.0
    # The module whose output is the projection's; none where that module adds the branch to its stream, too.
    hooked: str = ""
    scaled: tuple[str, ...] = ()  # the biases that a gain or a normalisation after them scales
    outer: float = 1.0  # numbers, with their signs, that scale the sum of branches which holds the update
    # How often it is added, on average: by a velocity that forgets nothing, in later layers again.
    additions: float = 1.0


@dataclass(frozen=True)
class Layout:
    """All parts of a module in order of execution, and the joins to cut."""

    parts: tuple[Part, ...]
    joins: tuple[Join, ...]
    # Blocks with a projected shortcut that open each stream: they count in its depth, but are not joins.
    heads: tuple[int, ...]
    # Where each stream begins, before any sum that adds its first state once more.
    origins: tuple[Edge, ...]
    # Projections like those of branches whose output takes the state's place: a layer without its skip.
    replacing: tuple[str, ...] = ()
    # Streams that begin with what one of their layers returns, as 0 + f(x) is: they have no size before it.
    from_zero: frozenset[int] = frozenset()

    @property
    def first_size(self) -> float:
        """Size of the first state of the network's first stream."""
        first = self.parts[0].join
        return first.addition.sides[first.skip].size


@by_default
@alone()
def find_branches(
    model: nn.Module, batch: Any = None, *, blocks: str | Sequence[str] | None = None
) -> tuple[Branch, ...]:
    """Return the residual branches that one forward of `model` on `batch` runs through, in order.

    The model is left as it was. Not checked: whether the same branches run for other inputs.

    Args:
        model: Any module whose operations autograd records.
        batch: Input of the forward: a tensor, a tuple of positional arguments or a dict of keyword arguments.
            If left out, a batch is made up from the model's configuration or its first layer.
        blocks: Patterns of module names ("model.layers.*"); only additions inside matching modules count.

    Raises:
        TypeError: If `model` is not a module, or `batch` or `blocks` has the wrong type.
        ValueError: If parameters are on the meta device, no batch can be made up, or no residual branch is
            found.

    Examples:
        >>> import torch, deeplimit as dl
        >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        >>> print(*(branch.name for branch in dl.find_branches(layer, torch.ones(2, 4, 8))))
        self_attn {linear1,linear2}
    """
    trace = record(model, as_batch(model, batch))
    return tuple(part.branch for part in layout(trace, blocks).parts)


@alone()
def record(model: nn.Module, batch: Batch, *, trained: bool = False) -> Trace:
    """Return the trace of one forward; a `trained` model normalises with its running statistics."""
    with alone(keeping=True), undisturbed(model, trained=trained):  # a forward may draw, also in evaluation
        return recorded(model, batch)[1]


def layout(trace: Trace, blocks: str | Sequence[str] | None = None) -> Layout:
    """Return the branches of a recorded forward."""
    if blocks is not None and not (
        isinstance(blocks, Sequence) and all(isinstance(pattern, str) for pattern in blocks)
    ):
        raise TypeError(
            "blocks must be a pattern of module names such as 'model.layers.*', or a list of them; got"
            f" {named(blocks)}."
        )
    graph = Graph(trace)
    joins = [join for join in find_joins(trace) if _wanted(join.addition.owner, blocks)]
    refuse_mixed_copies(graph, joins)
    if not joins:
        raise ValueError(_nothing_found(trace, blocks))
    streams = _streams(graph, joins)
    velocities = _velocities(graph, joins)
    pieces = [
        piece
        for join, stream in zip(joins, streams, strict=True)
        for piece in _pieces(graph, join, stream, velocities)
    ]
    pieces = _with_additions(pieces)
    dissected = [
        branch_parts(graph, piece.join, trace.additions[piece.ordinal].sides[piece.side]) for piece in pieces
    ]
    weights, outputs = [made.weights for made in dissected], [made.output for made in dissected]
    kinds, keys = kinds_of([piece.stream for piece in pieces], weights, outputs, trace.shapes)
    names = names_of(familiar(weights, kinds))
    carried = [carried_by(graph, join, joins[:position]) for position, join in enumerate(joins)]
    carries = dict(zip((join.addition.ordinal for join in joins), carried, strict=True))
    parts: list[Part] = []
    for piece, made, name, kind_, key in zip(pieces, dissected, names, kinds, keys, strict=True):
        join = piece.join
        index = sum(part.branch.stream == piece.stream for part in parts)
        skipped, carry = join.addition.sides[join.skip], carries[join.addition.ordinal]
        passed = skipped.factor * _scale(graph, skipped.sources, until=join.root)
        beside = max(
            trace.additions[other.ordinal].sides[other.side].size for other in pieces if other.join is join
        )
        adapter = trace.additions[piece.ordinal].sides[piece.side].size == 0 < beside and _narrows(
            trace, made.output
        )
        among = next(
            (
                position
                for position, part in enumerate(parts)
                if part.join is join and (part.key == key or _one_mixture(trace, part, piece, made))
            ),
            None,
        )
        parts.append(
            Part(
                branch=Branch(
                    kind_,
                    name,
                    piece.stream,
                    index,
                    made.output,
                    made.inner,
                    made.gains,
                    made.biases,
                    made.gates,
                ),
                key=key,
                join=join,
                ordinal=piece.ordinal,
                side=piece.side,
                multiplier=made.multiplier * piece.scale * piece.additions,
                gain=made.gain,
                entry=entry_scale(graph, join),
                skip=(1.0 if carry is None else carry) * passed,
                passed=passed,
                dropped=_dropped(graph, join, joins[: joins.index(join)]),
                opens=carry is None,
                renormed=any(graph.normalises(place.node) for place in graph.climb((join.root,))),
                follows_one=acts_on_one_sum(graph, join, joins[: joins.index(join)]),
                normed=made.normed,
                counted=not adapter and among is None,
                among=among,
                kept=piece.kept,
                hooked=_hooked(trace.additions[piece.ordinal].owner, made.owner),
                scaled=made.scaled,
                outer=piece.outer,
                additions=piece.additions,
            )
        )
    firsts = [
        next(join for join, own in zip(joins, streams, strict=True) if own == number)
        for number in sorted(set(streams))
    ]
    heads = tuple(_opened(graph, join) for join in firsts)
    origins = tuple(origin_of(graph, join) for join in firsts)
    return Layout(
        tuple(parts), tuple(joins), heads, origins, tuple(_replacing(graph, parts)), _from_zero(graph, parts)
    )


def _first_projection(
    graph: Graph,
    parts: Sequence[Part],
    stream: int,
    also: set[str] = frozenset(),  # type: ignore[assignment]
) -> tuple[Part, str]:
    """Return a stream's first part, and the weight from whose output it begins; "" if from that of none.

    Between the two are operations that reshape and scale, and the kinds in `also`.
    """
    first = next(part for part in parts if part.branch.stream == stream)
    place: Edge | None = first.join.root
    for _ in range(64):
        if place is None or place in graph.trace.projections:
            break
        place = graph.onward(place, also)
    return first, graph.trace.projections[place].weights[-1] if place in graph.trace.projections else ""


def _from_zero(graph: Graph, parts: Sequence[Part]) -> frozenset[int]:
    """Return the streams after the first that begin with the output of a layer like those that follow."""
    shapes = graph.trace.shapes
    found = set()
    for number in {part.branch.stream for part in parts} - {0}:
        name = _first_projection(graph, parts, number, ACTIVATING)[1]
        likes = [output for part in parts if part.branch.stream == number for output in part.branch.output]
        if any(alike(name, other) and shapes[name] == shapes[other] for other in likes):
            found.add(number)
    return frozenset(found)


def _replacing(graph: Graph, parts: Sequence[Part]) -> Iterator[str]:
    """Yield the weights from whose output a stream begins though they are those of a layer of an earlier one.

    Such a layer has the weights of layers that add to a state of the same shape, and does not add.
    """
    trace = graph.trace
    for number in sorted({part.branch.stream for part in parts} - {0}):
        first, name = _first_projection(graph, parts, number)
        likes = (
            output
            for part in parts
            if part.branch.stream < number and part.join.addition.shape == first.join.addition.shape
            for output in part.branch.output
        )
        if any(alike(name, other) and trace.shapes[name] == trace.shapes[other] for other in likes):
            yield name


def _hooked(adds: str, projects: str) -> str:
    """Return the module that projects, unless it adds as well: what it returns is no longer the update."""
    return "" if adds == projects or adds.startswith(f"{projects}.") else projects


def _one_mixture(trace: Trace, part: Part, piece: _Piece, made: BranchParts) -> bool:
    """Whether two summands are experts of one module, as routed experts and a shared one are."""
    owners = {trace.additions[ordinal].owner for ordinal in (part.ordinal, piece.ordinal)}
    inside = owners != {part.join.addition.owner} and len(owners) == 1
    return inside and any("expert" in name for name in (*part.branch.output, *made.output))


def _narrows(trace: Trace, weights: Sequence[str]) -> bool:
    """Whether weights (out, in, ...) have fewer inputs than outputs, as the last one of a low-rank adapter
    has.
    """
    return all(
        trace.shapes[name][1] < trace.shapes[name][0] for name in weights if len(trace.shapes[name]) > 1
    )


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


def _projected(graph: Graph, side: Summand) -> Edge | None:
    """Return the projection that a side of a sum comes from by scalings and normalisations alone."""
    place = side.sources[0] if side.sources else None
    for _ in range(16):
        if place is None:
            return None
        if place in graph.trace.projections:
            # A sum of embeddings is no block.
            return None if kind(place.node).startswith("Embedding") else place
        data = [edge for edge in edges_with_gradient(place.node) if graph.parameters_only(edge.node) is None]
        place = data[0] if data else None
    return None


def _wanted(owner: str, blocks: str | Sequence[str] | None) -> bool:
    if blocks is None:
        return True
    patterns = [blocks] if isinstance(blocks, str) else list(blocks)
    return any(
        fnmatch.fnmatchcase(owner, pattern) or fnmatch.fnmatchcase(owner, pattern + ".*")
        for pattern in patterns
    )


def _nothing_found(trace: Trace, blocks: str | Sequence[str] | None) -> str:
    adding = sorted({addition.owner for addition in trace.additions if addition.owner})
    where = (
        " Modules that add two activations of one shape:"
        f" {', '.join(adding[:8])}{' ...' if len(adding) > 8 else ''}."
        if adding
        else ""
    )
    scripted = (
        f" Inside of scripted modules nothing is seen ({trace.scripted[0]} is one)." if trace.scripted else ""
    )
    pattern = f" inside modules matching blocks={blocks!r}" if blocks is not None else ""
    hidden = sum(addition.place.node is None for addition in trace.additions)
    if hidden:
        where += (
            f" {hidden} of them ran where autograd records nothing or values cannot be read (torch.no_grad, a"
            " detached input, a reversible network's layers, torch.func.vmap): measure it without that."
        )
    flat = [name for name, shape in trace.shapes.items() if len(shape) > 1 and not matrix(shape)]
    if flat and not trace.projections:
        where += (
            f" {flat[0]} has shape {tuple(trace.shapes[flat[0]])}, read as a gain: no branch is seen in"
            " streams or hidden layers of width 1; take a width of 2 or more."
        )
    gated = _gated(Graph(trace))
    if gated:
        where += (
            f" {', '.join(gated[:4])}: the stream is multiplied by a gate that is computed from data, as in"
            " (1 - g) * x + g * f, so that no side of it is a skip. Write the same sum as x + g * (f - x)."
        )
    return (
        f"no residual branch was found{pattern}: looked through {len(trace.additions)} additions of two"
        " activations for one whose one side comes unchanged (reshaped or scaled) from where the other"
        f" side's weights begin.{where}{scripted} Point at the residual blocks with blocks='model.layers.*'"
        " (names as in model.named_modules())."
    )


def _gated(graph: Graph) -> list[str]:
    """Return the modules that add a branch of a tensor to that tensor times a gate."""
    found = []
    for addition in graph.trace.additions:
        for skip in (0, 1):
            skipped, branch = addition.sides[skip].sources, addition.sides[1 - skip].sources
            ends = list(graph.climb(skipped))[-1:] if branch else []
            factors = edges_with_gradient(ends[0].node) if ends and kind(ends[0].node) == "Mul" else []
            states = [place for factor in factors for place in graph.climb((factor,))]
            if states and set(states) & graph.reach(branch, min(map(age_of, states)))[0]:
                found.append(addition.owner or "the module itself")
    return sorted(set(found))


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


@dataclass(frozen=True)
class _Piece:
    """One of the branches that a join adds: the addition and the side that hold it, what scales it after
    that, the share that a velocity keeps if the addition makes one, and with its sign what scales the sum.
    """

    join: Join
    stream: int
    ordinal: int
    side: int
    scale: float
    kept: float = 0.0
    outer: float = 1.0
    additions: float = 1.0

    @property
    def forgets_nothing(self) -> bool:
        return abs(self.kept - 1) < WHOLE


WHOLE = 1e-6
"""Round-off of numbers in single precision."""


@dataclass(frozen=True)
class _Velocity:
    """A sum of what earlier branches have added and a new force, v = 0.9 v + f(x), which a join adds.

    Attributes:
        force: The side that is new in this layer.
        kept: What scales the other side.
    """

    force: int
    kept: float


def _velocities(graph: Graph, joins: Sequence[Join]) -> dict[int, _Velocity]:
    """Return the sums of joins' branches that go on from the branch of an earlier join, by ordinal.

    The first such sum adds its force to zeros, which no operation has made, or to a part of the input.
    """
    sums = {addition.place: addition for addition in graph.trace.additions}
    found: dict[int, _Velocity] = {}
    # What earlier joins add, the sum inside that makes it, and the join.
    added: dict[Edge, tuple[Addition | None, Join]] = {}
    for join in joins:
        places = [*graph.climb(join.addition.sides[join.branch].sources)]
        inner = next((sums[place] for place in places if place in sums), None)
        for side, one in enumerate(inner.sides if inner is not None else ()):
            before = next((place for place in graph.climb(one.sources) if place in added), None)
            if inner is None or before is None:
                continue
            found[inner.ordinal] = _Velocity(1 - side, one.factor * _scale(graph, one.sources, until=before))
            kept, (first, holding) = found[inner.ordinal].kept, added[before]
            forces = [] if first is None else [_applies_weights(graph, holding, side) for side in first.sides]
            if first is not None and sum(forces) == 1:
                found.setdefault(first.ordinal, _Velocity(forces.index(True), kept))
        added.update(dict.fromkeys(places, (inner, join)))
    return found


def _pieces(graph: Graph, join: Join, stream: int, velocities: Mapping[int, _Velocity]) -> list[_Piece]:
    """Return the branches that a join adds at once, x + (attention(x) + mlp(x)).

    Of a velocity that is its force, the rest are branches of earlier joins.
    """
    sums = {
        addition.place: addition for addition in graph.trace.additions if addition.place.node in join.region
    }
    waiting = [
        _Piece(join, stream, join.addition.ordinal, join.branch, join.addition.sides[join.branch].factor)
    ]
    found = []
    while waiting:
        piece = waiting.pop()
        whole = graph.trace.additions[piece.ordinal].sides[piece.side]
        sources = whole.sources
        inner = next((sums[place] for place in graph.climb(sources) if place in sums), None)
        if inner is not None and (velocity := velocities.get(inner.ordinal)) is not None:
            scale = piece.scale * _scale(graph, sources, until=inner.place)
            scale *= inner.sides[velocity.force].factor
            outer = piece.outer * whole.value * _signed_scale(graph, sources, until=inner.place)
            waiting.append(_Piece(join, stream, inner.ordinal, velocity.force, scale, velocity.kept, outer))
        elif inner is not None and all(_applies_weights(graph, join, side) for side in inner.sides):
            scale = piece.scale * _scale(graph, sources, until=inner.place)
            outer = piece.outer * whole.value * _signed_scale(graph, sources, until=inner.place)
            waiting += [
                _Piece(join, stream, inner.ordinal, place, scale * side.factor, piece.kept, outer)
                for place, side in ((1, inner.sides[1]), (0, inner.sides[0]))
            ]
        else:
            found.append(piece)
    return found


def _with_additions(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Return the branches with how often each is added where a velocity forgets nothing.

    Momenta in leapfrog steps do so: each force is added in all later layers, in half of all in the mean.
    """
    layers = Counter(piece.stream for piece in pieces if piece.forgets_nothing)
    return [
        replace(piece, additions=(layers[piece.stream] + 1) / 2) if piece.forgets_nothing else piece
        for piece in pieces
    ]


def _applies_weights(graph: Graph, join: Join, side: Summand) -> bool:
    """Whether a side of a sum inside a branch applies weights between the root and the sum."""
    if not side.sources:
        return False
    _, region = graph.reach(side.sources, 0, enter=lambda node: node in join.region)
    names = {name for node in region & join.region if (name := graph.parameter(node)) is not None}
    return any(
        place.node in region and set(made.weights) & names for place, made in graph.trace.projections.items()
    )


def _dropped(graph: Graph, join: Join, earlier: Sequence[Join]) -> float:
    """Return the probability with which dropout drops an entry of the stream between two of its sums.

    Dropout before the first sum, as after an embedding, is no part of what repeats with depth.
    """
    kept = 1.0
    for place in graph.climb(join.addition.sides[join.skip].sources):
        if place == join.root:
            break
        kept *= 1 - graph.trace.dropped.get(place, 0.0)
    sums, before = {other.addition.place for other in earlier}, 1.0
    for place in graph.climb((join.root,)):
        if place in sums:
            return 1 - kept * before
        before *= 1 - graph.trace.dropped.get(place, 0.0)
    return 1 - kept


def _scale(graph: Graph, sources: tuple[Edge, ...], until: Edge) -> float:
    """Return the product of the numbers, without sign, that scale `until` on its way to `sources`."""
    return abs(_signed_scale(graph, sources, until))


def _signed_scale(graph: Graph, sources: tuple[Edge, ...], until: Edge) -> float:
    scale = 1.0
    for place in graph.climb(sources):
        if place == until:
            break
        scaling = graph.trace.scalings.get(place)
        if scaling is not None:
            scale *= scaling.value
    return scale
