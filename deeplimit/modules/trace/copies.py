"""Several copies of a residual stream that are mixed between its sums (hyper-connections): found by name.

What such a sum keeps of the stream is a matrix, not a number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

from deeplimit.modules.trace.graph import Graph, Join, age_of
from deeplimit.modules.trace.operations import PARTS
from deeplimit.modules.trace.recording import Addition, edges, kind
from deeplimit.modules.trace.slices import shape_at


def refuse_mixed_copies(graph: Graph, joins: Sequence[Join]) -> None:
    """Raise ValueError if modules mix copies of the stream, by a matrix or by sums of scaled copies."""
    trace = graph.trace
    mixing = [addition for addition in trace.additions if _by_a_matrix(graph, addition)]
    mixing += _by_sums(graph, joins)
    if mixing:
        owners = sorted({addition.owner or "the module itself" for addition in mixing})
        raise ValueError(
            f"{', '.join(owners[:4])}{' ...' if len(owners) > 4 else ''}: the residual stream is several"
            " copies that are mixed with each other between its sums, as in hyper-connections. What a sum"
            " keeps of the stream is then a matrix, not a number, and no published rule says how large its"
            " branches should be. Check the network with plain residual connections in their place (one copy,"
            " no matrices): the original hyper-connections compute the same at initialisation."
        )


def _by_a_matrix(graph: Graph, addition: Addition) -> bool:
    """Whether a side is a small learned matrix times copies of a state of which the other side is made."""
    width = addition.shape[-1:]
    for side, other in permutations(addition.sides):
        places = list(graph.climb(side.sources)) if side.sources and other.sources else []
        if not places or kind(places[-1].node) not in ("Bmm", "Mm"):
            continue
        left, right = edges(places[-1].node)
        if left is None or right is None:
            continue
        for copies, matrix, axis in ((left, right, -2), (right, left, -1)):
            lengths = (shape_at(matrix) or ())[-2:]
            if len(lengths) < 2 or lengths[axis] in (1, *width) or max(lengths) > PARTS + 1:
                continue
            states = {place for place in graph.climb((copies,)) if (shape_at(place) or ())[-1:] == width}
            bound = min(map(age_of, states), default=0)
            reached = graph.reach(other.sources, bound)[0]
            whole = any(shape_at(place) == addition.shape for place in places if place in reached)
            behind = graph.reach((matrix,), bound)[1]
            learned = any(graph.parameter(node) is not None for node in behind)
            # Else they are a skip and its branch, whatever made the state where both begin.
            if learned and not whole and reached & states - set(graph.climb(other.sources)):
                return True
    return False


def _by_sums(graph: Graph, joins: Sequence[Join]) -> Iterator[Addition]:
    """Yield additions of two residual sums to which the same update was added."""
    sums = {join.addition.place: join for join in joins}
    for addition in graph.trace.additions:
        added = [
            next((sums[place] for place in graph.climb(side.sources) if place in sums), None)
            for side in addition.sides
            if side.sources
        ]
        updates = [
            set(graph.climb(join.addition.sides[join.branch].sources))
            for join in dict.fromkeys(added)
            if join is not None
        ]
        if len(updates) == 2 and updates[0] & updates[1]:
            yield addition
