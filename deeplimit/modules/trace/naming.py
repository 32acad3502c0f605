"""Names of branches and of their kinds, made from those of their weights."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence


def names_of(groups: Sequence[Sequence[str]]) -> list[str]:
    """Return a name per group of weights: their common module, or {a,b} if another group is inside it.

    Examples:
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


def familiar(groups: Sequence[Sequence[str]], kinds: Sequence[str]) -> list[list[str]]:
    """Return the weights of each branch that all branches of its kind have, numbers aside; all if none is.

    The first branch of a kind may contain what is computed in front of all, such as a bias of positions.

    Examples:
        >>> familiar([["bias.weight", "h.0.attn.weight"], ["h.1.attn.weight"]], ["h.*.attn", "h.*.attn"])
        [['h.0.attn.weight'], ['h.1.attn.weight']]
    """
    plain = [[re.sub(r"\d+", "*", name) for name in group] for group in groups]
    shared = {
        kind: set.intersection(*(set(group) for group, own in zip(plain, kinds, strict=True) if own == kind))
        for kind in set(kinds)
    }
    return [
        [name for name, star in zip(group, stars, strict=True) if star in shared[kind]] or list(group)
        for group, stars, kind in zip(groups, plain, kinds, strict=True)
    ]


def _common(paths: Sequence[Sequence[str]]) -> list[str]:
    """Return the modules that all of these parameters are in."""
    common: list[str] = []
    for level in zip(*(path[:-1] for path in paths), strict=False):
        if len(set(level)) > 1:
            break
        common.append(level[0])
    return common


def kinds_of(
    streams: Sequence[int],
    weights: Sequence[Sequence[str]],
    outputs: Sequence[Sequence[str]],
    shapes: Mapping[str, tuple[int, ...]],
) -> tuple[list[str], list[str]]:
    """Name the kinds of branches: same stream, output projections that differ only in numbers.

    Takes each branch's stream, its weights, its output projections. The second list that it returns
    identifies the kinds in the same way at every depth.
    """
    keys = [
        # Each once: a small batch may not reach all the experts in one list.
        (stream, tuple(dict.fromkeys((re.sub(r"\d+", "*", name), shapes[name]) for name in output)))
        for output, stream in zip(outputs, streams, strict=True)
    ]
    groups = list(dict.fromkeys(keys))
    # By the last: the first may begin with the layers that make another input, such as a condition.
    last = [weights[len(keys) - 1 - keys[::-1].index(key)] for key in groups]
    likes = [[output[0] for output, own in zip(outputs, keys, strict=True) if own == key] for key in groups]
    starred = [[_starred(name, like) for name in own] for own, like in zip(last, likes, strict=True)]
    names = names_of(starred)
    # Two kinds may share a name (a channel mixer and a token mixer in one list); their order tells them
    # apart.
    distinct = [
        name if names.count(name) == 1 else f"{name} ({names[:place].count(name) + 1})"
        for place, name in enumerate(names)
    ]
    plain = [(stream, tuple(name for name, _ in output)) for stream, output in groups]
    lasting = [
        " ".join([str(key[0]), *key[1], str(plain[:place].count(key))]) for place, key in enumerate(plain)
    ]
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


def alike(name: str, other: str) -> bool:
    """Whether two names differ in numbers alone.

    Examples:
        >>> alike("h.3.fc.weight", "h.4.fc.weight"), alike("h.3.fc.weight", "h.3.out.weight")
        (True, False)
    """
    return re.sub(r"\d+", "*", name) == re.sub(r"\d+", "*", other)


def wildcard(name: str, likes: Iterable[str]) -> str:
    """Return `name` with a star for every number in which its likes differ.

    Examples:
        >>> wildcard("h.3.mlp.0.weight", ["h.3.mlp.0.weight", "h.4.mlp.0.weight"])
        'h.*.mlp.0.weight'
    """
    pieces = [re.split(r"(\d+)", like) for like in dict.fromkeys(likes)]
    own = re.split(r"(\d+)", name)
    return "".join(
        "*" if position % 2 and len({other[position] for other in pieces}) > 1 else piece
        for position, piece in enumerate(own)
    )
