"""Which additions of a forward are residual joins: decided by the autograd graph, not by module names.

An addition is a residual join if one side, the skip, comes from a tensor (the root) by reshaping and scaling
alone. The other side, the branch, must come from the same tensor through at least one weight.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from deeplimit.modules.trace.recording import (
    Addition,
    Edge,
    Scaling,
    Summand,
    Trace,
    edges,
    edges_with_gradient,
    kind,
    weighs,
)
from deeplimit.modules.trace.slices import same_elsewhere

# Nodes that hand on their one input, reshaped, cast, scaled or partly dropped.
PASSING = {
    "Alias", "AsStrided", "AvgPool1D", "AvgPool2D", "AvgPool3D", "Clone", "ConstantPadNd", "Contiguous",
    "Div", "Expand", "Flatten", "Flip", "Gather", "Identity", "Index", "IndexSelect", "MaskedFill", "Mul",
    "NanToNum", "NativeDropout", "Neg", "Permute", "Reshape", "ReshapeAlias", "Roll", "Select", "Slice",
    "SplitWithSizes", "Split", "Squeeze", "ToCopy", "Transpose", "T", "Unbind", "UnsafeSplit",
    "UnsafeView", "Unsqueeze", "View", "Movedim", "Where",
}  # fmt: skip
# Nodes that hand on parts of a tensor.
CUTTING = {"Select", "Slice", "Split", "SplitWithSizes", "Unbind", "UnsafeSplit"}
# Nodes after which a tensor is still the same stream, normalised or passed through an activation.
ACTIVATING = {
    "Relu", "Gelu", "Silu", "LeakyRelu", "Elu", "Threshold", "Hardtanh", "Hardswish", "Tanh", "Mish",
    "Clamp", "ClampMin", "ClampMax",
}  # fmt: skip
# Nodes whose output is no linear function of their input: what is behind them is not added as it is.
BENDING = ACTIVATING | {
    "Exp", "LogSigmoid", "LogSoftmax", "Max", "Sigmoid", "Softmax", "Softplus", "Sort", "Topk",
}  # fmt: skip
NORMALISING = re.compile(r"(Layer|Batch|Group|Instance|Rms)_?Norm|FusedRmsNorm", re.IGNORECASE)
ROOTS = {"Rsqrt", "Sqrt", "LinalgVectorNorm", "Norm", "Reciprocal", "Std"}
# A skip may pass earlier joins of the same root: x + attention(x) + mlp(x).
EARLIER_JOINS = 4


@dataclass(frozen=True)
class Join:
    """out = skip + branch: the addition, where its branch begins (`root`), and what lies on the way."""

    addition: Addition
    skip: int  # which side of the addition
    root: Edge
    region: frozenset[Any] = field(repr=False)  # the nodes between the root and the branch's end
    parameters: tuple[str, ...]
    normalised: bool  # whether nothing of the root reaches the branch but through a normalisation

    @property
    def branch(self) -> int:
        """Which side of the addition is the branch."""
        return 1 - self.skip


@dataclass(frozen=True)
class Graph:
    """The autograd graph of one forward, as far as joins are concerned."""

    trace: Trace
    _leaves: dict[Any, tuple[str, ...] | None] = field(default_factory=dict)

    def parameters_only(self, node: Any) -> tuple[str, ...] | None:
        """Return the parameters of a small subgraph; None if it depends on data or is not small."""
        if node not in self._leaves:
            found: list[str] = []
            waiting, seen = [node], 0
            while waiting:
                item = waiting.pop()
                seen += 1
                name = self.parameter(item)
                if name is not None:
                    found.append(name)
                sources = [edge.node for edge in edges(item) if edge is not None]
                if (
                    seen > 24
                    or kind(item).startswith(("Embedding", "Index"))
                    or (not sources and name is None)
                ):
                    self._leaves[node] = None
                    break
                waiting += sources
            else:
                self._leaves[node] = tuple(dict.fromkeys(found))
        return self._leaves[node]

    def parameter(self, node: Any) -> str | None:
        """Return the name of the parameter behind a leaf of the graph."""
        variable = getattr(node, "variable", None)
        return None if variable is None else self.trace.names.get(id(variable))

    def cuts_a_parameter(self, node: Any) -> bool:
        """Whether a node cuts a stack of parameters into those of single layers."""
        return kind(node) in CUTTING and bool(self.parameters_only(node))

    def onward(self, place: Edge, also: set[str] = frozenset()) -> Edge | None:  # type: ignore[assignment]
        """Return what `place` was reshaped or scaled from, or None; `also` names further kinds that pass."""
        if place in self.trace.continued:
            return self.trace.continued[place]
        if (elsewhere := same_elsewhere(place)) is not None:
            return elsewhere
        name = kind(place.node)
        data = [
            edge for edge in edges(place.node) if edge is not None and self.parameters_only(edge.node) is None
        ]
        if name in PASSING or name in also:
            return data[0] if len(data) == 1 else None
        if name in ("Add", "Sub") and len(data) == 1:
            return data[0]  # a bias, a constant
        return None

    def climb(
        self, sources: tuple[Edge, ...], through: dict[Edge, Edge] | None = None, joins: int = EARLIER_JOINS
    ) -> Iterator[Edge]:
        """Yield the places that `sources` come from by reshaping and scaling alone, nearest first.

        `through` says where to go on from a join: to its skip; past at most `joins` joins.
        """
        data = [edge for edge in sources if self.parameters_only(edge.node) is None] or list(sources)
        place: Edge | None = data[0] if len(data) == 1 else None
        passed = 0
        for _ in range(64 + 8 * joins):
            if place is None:
                return
            yield place
            if through is not None and place in through:
                passed += 1
                place = through[place] if passed <= joins else None
            else:
                place = self.onward(place)

    def normalises(self, node: Any) -> bool:
        """Whether a node normalises its input: a norm, or a product with one over its root mean square."""
        name = kind(node)
        if NORMALISING.search(name):
            return True
        if name not in ("Mul", "Div"):
            return False
        return any(_is_root(edge) for edge in edges(node))

    def reach(
        self, sources: tuple[Edge, ...], bound: int, enter: Callable[[Any], bool] | None = None
    ) -> tuple[set[Edge], set[Any]]:
        """Return the places and nodes that `sources` are computed from, back to `bound` (sequence number).

        Leaves have no age and are always included. `enter` says whether to look behind a node.
        """
        places, nodes = set(sources), set()
        waiting, seen = list(sources), set()
        while waiting:
            place = waiting.pop()
            # Nodes that cut a tensor have several places, each of which may come from another tensor.
            if place in seen:
                continue
            seen.add(place)
            nodes.add(place.node)
            if enter is not None and not enter(place.node):
                continue
            for edge in following(place):
                # Parameters may have been cut into layers before the state was there: zip(w.unbind(0), ...).
                if edge.node._sequence_nr() >= bound or self.cuts_a_parameter(edge.node):
                    places.add(edge)
                    waiting.append(edge)
        return places, nodes

    def region(self, sources: tuple[Edge, ...], root: Edge, sums: Mapping[Edge, Edge]) -> set[Any]:
        """Return the nodes between `root` and `sources`, without what is behind `sums` of other streams.

        `sums` says of each where its skip comes from. In joint attention a branch reads two streams: what
        made the other one is no part of the branch. Nor is it in a reversible block, whose streams read each
        other by turns, unless nothing but that sum would be left, as of a velocity.
        """
        nodes = self.reach(sources, age_of(root), enter=partial(_other_than, root.node))[1]
        others = {place.node for place in sums} & nodes - {root.node}
        if others:
            others -= _made_from(root.node, nodes)
            enter = partial(_none_of, others | {root.node})
            nodes = self.reach(sources, age_of(root), enter=enter)[1] - others
        crossed = {place.node for place in sums if place.node in nodes} - {root.node}
        if crossed:
            made = _made_from(root.node, nodes)
            # Two parts of one tensor that was cut have the same node and are different streams.
            places = {
                place
                for place, skip in sums.items()
                if place.node in crossed
                and skip != root
                and skip.node not in made
                and self._weighs_between(place, root)
            }
            for place, skip in sums.items():  # and what goes on from there, in order of execution
                if place.node in crossed and any(above in places for above in self.climb((skip,))):
                    places.add(place)
            crossed = {place.node for place in places}
            enter = partial(_none_of, crossed | {root.node})
            nearer = self.reach(sources, age_of(root), enter=enter)[1] - crossed if crossed else set()
            if any(_is_weight(self, node) for node in nearer):
                nodes = nearer
        return nodes - {root.node}

    def _weighs_between(self, place: Edge, root: Edge) -> bool:
        """Whether there is a weight on the way from `root` to a place."""
        between = self.reach((place,), age_of(root), enter=partial(_other_than, root.node))[1]
        return any(_is_weight(self, node) for node in between - {root.node})


def following(place: Edge) -> list[Edge]:
    """Return what a place was computed from: of a part cut off, that part alone."""
    elsewhere = same_elsewhere(place)
    return edges_with_gradient(place.node) if elsewhere is None else [elsewhere]


def _made_from(root: Any, nodes: set[Any]) -> set[Any]:
    """Return those of `nodes` that depend on `root`."""
    users: dict[Any, list[Any]] = {}
    for node in nodes - {root}:
        for edge in edges_with_gradient(node):
            users.setdefault(edge.node, []).append(node)
    waiting, found = [root], set()
    while waiting:
        for user in users.get(waiting.pop(), ()):
            if user not in found:
                found.add(user)
                waiting.append(user)
    return found


def _is_root(place: Edge | None) -> bool:
    """Whether a place holds a root of a sum of squares, reshaped or kept away from zero."""
    for _ in range(6):
        if place is None or kind(place.node) in ROOTS:
            break
        if kind(place.node) == "Pow" and getattr(place.node, "_saved_exponent", None) in (0.5, -0.5):
            return True
        further = kind(place.node) in PASSING | {"Add", "Clamp", "ClampMin", "Pow"}
        place = next((item for item in edges(place.node) if item is not None), None) if further else None
    return place is not None and kind(place.node) in ROOTS


def _centred(place: Edge) -> Edge | None:
    """Return x where a place holds x - mean(x)."""
    sources = edges(place.node)
    if kind(place.node) != "Sub" or len(sources) != 2 or sources[1] is None:
        return None
    mean = sources[1].node
    return sources[0] if kind(mean) == "Mean" and sources[0] in edges(mean) else None


def find_joins(trace: Trace) -> tuple[Join, ...]:
    """Return a forward's residual joins in order of execution, without those inside another's branch."""
    graph = Graph(trace)
    joins = _joins(graph, trace.additions)
    shared = {join.addition.ordinal for join in joins if _is_shared(graph, join, joins)}
    if shared:
        joins = _joins(graph, [addition for addition in trace.additions if addition.ordinal not in shared])
    through = {join.addition.place: join.addition.sides[join.skip].sources[0] for join in joins}
    ends = [join for join in joins if _joins_two_streams(graph, join, through)]
    if ends and ends == joins[-1:]:  # a velocity is added to its stream in every layer
        joins = joins[:-1]
    return _outermost(graph, joins)


def _joins_two_streams(graph: Graph, join: Join, through: dict[Edge, Edge]) -> bool:
    """Whether what is added is a stream of its own, as where a reversible network ends with (a + b) / 2."""
    passed = 0
    for place in graph.climb(join.addition.sides[join.branch].sources, through, joins=len(through)):
        if place == join.root:
            return False
        passed += place in through
    return passed > 1


def _joins(graph: Graph, additions: Sequence[Addition]) -> list[Join]:
    through: dict[Edge, Edge] = {}
    joins: list[Join] = []
    for addition in additions:
        join = _join(graph, addition, through)
        if join is not None:
            joins.append(join)
            # f(x) - x and -a x + f(x), as in x + (f(x) - x) / 2, do not go on from x.
            if not _is_negative(graph, addition, join.skip, join.root, through):
                through[addition.place] = join.addition.sides[join.skip].sources[0]
    return joins


def _join(graph: Graph, addition: Addition, through: dict[Edge, Edge]) -> Join | None:
    for skip in (0, 1):
        skipped, branch = addition.sides[skip].sources, addition.sides[1 - skip].sources
        if not skipped or not branch:
            continue
        candidates = list(graph.climb(skipped, through))
        if not candidates:
            continue
        places, _ = graph.reach(branch, min(age_of(place) for place in candidates))
        root = next((place for place in candidates if place in places), None)
        if root is None:
            continue
        if addition.sides[1 - skip].negative and branch == (root,):
            # (x + f(x)) - x is a branch, as in x + ((x + f(x)) - x) / 2
            last = next((place for place in candidates if place in through), None)
            if last is not None and _note_multiple(graph, addition, skip, last, root):
                graph.trace.continued.setdefault(addition.place, skipped[0])  # 2 x - (the state before)
            return None
        region = graph.region(branch, root, through)
        parameters = tuple(
            dict.fromkeys(name for node in region if (name := graph.parameter(node)) is not None)
        )
        if not any(_is_weight(graph, node) for node in region):
            later = max((skipped, branch), key=partial(_age_of_sum, graph, through))
            graph.trace.continued.setdefault(addition.place, later[0])  # x + 0.1 x, x + fourier(x)
            _note_multiple(graph, addition, skip, root, root)
            continue
        if _is_negative(graph, addition, 1 - skip, root, through) is False:
            # The stream itself, to which an earlier state of it is added once more: no branch.
            graph.trace.continued[addition.place] = branch[0]
            graph.trace.injected[addition.ordinal] = 1 - skip
            return None
        unnormalised = graph.reach(branch, age_of(root), enter=partial(_unnormalised, graph, root.node))[1]
        graph.trace.continued.pop(addition.place, None)
        return Join(addition, skip, root, frozenset(region), parameters, root.node not in unnormalised)
    return None


def _age_of_sum(graph: Graph, through: dict[Edge, Edge], sources: tuple[Edge, ...]) -> int:
    """Return the age of the last sum of a stream that one side of a sum is a multiple of; 0 if of none."""
    return next((age_of(place) for place in graph.climb(sources) if place in through), 0)


def _note_multiple(graph: Graph, addition: Addition, skip: int, root: Edge, other: Edge) -> bool:
    """Note a sum of two multiples of one tensor, x - x / L, as the multiple of it that the sum is.

    Or of two states, 2 x - (the state before), of which the second comes from `other`. Returns whether it is
    a multiple, other than 0.
    """
    first, second = (
        _multiple(graph, addition.sides[skip], root),
        _multiple(graph, addition.sides[1 - skip], other),
    )
    beyond = _multiple(graph, replace(addition.sides[skip], factor=1.0, negative=False), root)
    if first == second == 1.0:
        return False  # an earlier state that is added as it is, as in a U-Net, where it may be the same one
    if first is None or second is None or not beyond:
        return False
    factor = (first + second) / beyond  # what lies beyond the sum is found on the way back
    graph.trace.scalings.setdefault(addition.place, Scaling(abs(factor), (), factor < 0, True))
    return factor != 0


def _multiple(graph: Graph, side: Summand, root: Edge) -> float | None:
    """Return the number of which one side of a sum is the multiple of a tensor; None if it is none."""
    factor = -side.factor if side.negative else side.factor
    for place in graph.climb(side.sources):
        if place == root:
            return factor
        scaling = graph.trace.scalings.get(place)
        if kind(place.node) == "Neg":
            factor = -factor
        elif scaling is not None:
            if scaling.parameters:
                return None
            factor *= -scaling.factor if scaling.negative else scaling.factor
        elif kind(place.node) in ("Mul", "Div", "Where", "MaskedFill", "NativeDropout", "Slice", "Select"):
            return None
    return None


def _is_negative(
    graph: Graph, addition: Addition, side: int, root: Edge, through: dict[Edge, Edge]
) -> bool | None:
    """Whether one side of a sum is a negative multiple of the root; None if it is no multiple of it."""
    negative = addition.sides[side].negative
    for place in graph.climb(addition.sides[side].sources, through, joins=len(through)):
        if place == root:
            return negative
        scaling = graph.trace.scalings.get(place)
        negative ^= kind(place.node) == "Neg" or (scaling is not None and scaling.negative)
    return None


def _unnormalised(graph: Graph, root: Any, node: Any) -> bool:
    return node is not root and not graph.normalises(node)


def _other_than(root: Any, node: Any) -> bool:
    return node is not root


def _none_of(stops: set[Any], node: Any) -> bool:
    return node not in stops


def age_of(place: Edge) -> int:
    """Return the sequence number of a place's node, which grows as the forward runs; a leaf is oldest."""
    return 0 if getattr(place.node, "variable", None) is not None else int(place.node._sequence_nr())


def _is_weight(graph: Graph, node: Any) -> bool:
    name = graph.parameter(node)
    return name is not None and weighs(name, node.variable.shape)


def _outermost(graph: Graph, joins: list[Join]) -> tuple[Join, ...]:
    """Drop joins inside another's branch.

    If a branch holds a chain of joins, its own join skips a whole stack and is dropped instead.
    """
    kept = [join for join in joins if not _is_buffer(graph, join, joins)]
    for outer in sorted(joins, key=lambda join: len(join.region)):
        if outer not in kept:
            continue
        inner = [join for join in kept if join is not outer and join.addition.place.node in outer.region]
        chained = [
            join
            for join in inner
            if any(stream_of(graph, join, [other]) is not None for other in inner if other is not join)
        ]
        if chained:
            kept.remove(outer)
        else:
            kept = [join for join in kept if join not in inner]
    return tuple(kept)


def _is_buffer(graph: Graph, join: Join, joins: Sequence[Join]) -> bool:
    """Whether a sum goes on from a velocity that another sum adds to the stream: v = 0.9 v + f(x); x = x + v.

    Its branch then reads the velocity through the stream alone, which is what is residual.
    """
    return any(
        other is not join
        and other.addition.place.node in join.region
        and join.root in graph.climb(other.addition.sides[other.branch].sources)
        for other in joins
    )


def _is_shared(graph: Graph, join: Join, joins: Sequence[Join]) -> bool:
    """Whether a sum adds what other layers add, too, as a position bias to scores, and so is of no stream.

    One of their branches reads it, and it reads what it adds to through other streams alone. No sum continues
    it, and if it continues one, so does another.
    """
    others = [other for other in joins if other is not join]
    if any(join.root in edges(node) for node in join.region) or not any(
        join.addition.place in edges(node) for other in others for node in other.region
    ):
        return False
    before = stream_of(graph, join, others)
    beside = () if before is None else [other for other in others if stream_of(graph, other, [before])]
    return (before is None or bool(beside)) and not any(stream_of(graph, other, [join]) for other in others)


def stream_of(graph: Graph, join: Join, earlier: list[Join]) -> Join | None:
    """Return the latest of `earlier` joins whose sum `join` continues, maybe normalised or activated."""
    sums = {other.addition.place: other for other in earlier}
    for above in graph.climb(join.addition.sides[join.skip].sources):
        if above in sums:  # x + attention(x) + mlp(x): both begin at x, the second sum goes on from the first
            return sums[above]
    place: Edge | None = join.root
    for _ in range(64):
        if place is None:
            return None
        if place in sums:
            return sums[place]
        following = graph.onward(place, ACTIVATING) or _centred(place)
        if following is None and graph.normalises(place.node):
            following = _normalised(graph, place)
        place = following
    return None


def carried_by(graph: Graph, join: Join, earlier: Sequence[Join]) -> float | None:
    """Return the product of the numbers that scale the stream between the sum before and `join`'s root.

    Numbers before a normalisation do not count. None if no sum comes before.
    """
    sums = {other.addition.place for other in earlier}
    for above in graph.climb(join.addition.sides[join.skip].sources):
        if above == join.root:
            break
        if above in sums:
            return 1.0  # x + attention(x) + mlp(x): what scales the second skip is found there
    factor = 1.0
    place: Edge | None = join.root
    for _ in range(64):
        if place is None:
            break
        if place in sums:
            return factor
        if sums and graph.normalises(place.node):
            return 1.0
        scaling = graph.trace.scalings.get(place)
        factor *= 1.0 if scaling is None else scaling.factor
        place = graph.onward(place, ACTIVATING)
    return None


def origin_of(graph: Graph, join: Join) -> Edge:
    """Return where the stream of its first join begins: the root, or x0 where that is 0.6 x0 + 0.4 x0."""
    origin = join.root
    sides = {addition.place: addition.sides for addition in graph.trace.additions}
    for _ in range(EARLIER_JOINS):
        if origin not in graph.trace.continued or origin not in sides:
            break
        first, second = (side.sources for side in sides[origin])
        reached = graph.reach(second, 0)[0]
        origin = next((place for place in graph.climb(first) if place in reached), origin)
        if origin == join.root:
            break
    return origin


def carried_from(graph: Graph, join: Join, earlier: Sequence[Join]) -> Join | None:
    """Return the latest of `earlier` joins whose sum reaches `join`'s root in its shape, through no weight.

    So 0.9 x + 0.1 x0, a sum with an earlier state, or parts put together again continue a stream. A stage
    behind a projection or a pooling does not.
    """
    sums = {other.addition.place: other for other in earlier if other.addition.shape == join.addition.shape}
    waiting, seen = [join.root], {join.root}
    found: list[Join] = []
    while waiting and len(seen) < 256:
        place = waiting.pop(0)
        if place in sums:
            found.append(sums[place])
        elif place not in graph.trace.projections:
            following = [edge for edge in edges(place.node) if edge is not None and edge not in seen]
            seen.update(following)
            waiting += following
    return max(found, key=lambda other: other.addition.ordinal, default=None)


def acts_on_one_sum(graph: Graph, join: Join, earlier: Sequence[Join]) -> bool:
    """Whether what lies between `join`'s skip and the sums before is a function of the last of them alone.

    So an activation of the stream is, and 0.9 x + 0.1 x0 is not.
    """
    sums = {other.addition.place: other.addition.ordinal for other in earlier}
    waiting = [*join.addition.sides[join.skip].sources]
    seen, found = {*waiting}, set()
    while waiting and len(seen) < 256:
        place = waiting.pop()
        if place in sums:
            found.add(sums[place])
            continue
        following = edges_with_gradient(place.node)
        # A first layer's output, which may depend on parameters alone for autograd; or the input itself.
        is_input = not following and graph.parameters_only(place.node) is None
        if place in graph.trace.projections or is_input:
            return False
        waiting += [edge for edge in following if edge not in seen]
        seen.update(following)
    return len(found) == 1 and not waiting


def _normalised(graph: Graph, place: Edge) -> Edge | None:
    """Return the data that a normalisation normalises: its first input, or for x * rsqrt(mean(x^2)) the x."""
    data = [
        edge for edge in edges(place.node) if edge is not None and graph.parameters_only(edge.node) is None
    ]
    if not data:
        return None
    if len(data) == 1 or NORMALISING.search(kind(place.node)):
        return data[0]
    plain = [edge for edge in data if not _is_root(edge)]
    return plain[0] if plain else data[0]
