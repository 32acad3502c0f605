"""Weights as objects that do not depend on the order of hidden units or on the basis of attention heads.

Hidden units of an MLP may be permuted, and rescaled where the activation allows it, and attention heads
permuted and turned, layer by layer, without any change of the function. What maps the stream to the stream
has no such freedom. Let hidden unit j read by rows w_j and write by the column v_j, and put
s_j = |v_j| ∏ |w_j|, a product over the matrices that read; hats are unit vectors. An MLP has

    a product Σ_j s_j v̂_j ŵ_jᵀ per matrix that reads (V W where one does), a read Gram Σ_j s_j ŵ_j ŵ_jᵀ, and
    a write Gram Σ_j s_j v̂_j v̂_jᵀ;

both Grams less their part along the identity, which is positive in independent layers, too;
attention has W_Qᵀ W_K and W_O W_V, sums over heads. Gains of the normalisation before a branch belong to what
reads, layer scale to what writes. A layer normalisation also removes the mean over coordinates.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import final

import torch
from torch import Tensor

from deeplimit.trained.diagnosis.layer_families import Families, Family, SameLayersError, refuse_copies, stack
from deeplimit.trained.diagnosis.sources import Source
from deeplimit.trained.diagnosis.stacks import Stack

ATTENTION = {
    "query": r"q|q_proj|query|to_q|wq|q_lin",
    "key": r"k|k_proj|key|to_k|wk|k_lin",
    "value": r"v|v_proj|value|to_v|wv|v_lin",
    "fused": r"c_attn|qkv|in_proj|qkv_proj|Wqkv|to_qkv",
    "output": r"o|o_proj|out_proj|to_out\.0|wo|out_lin|c_proj|proj|dense|output\.dense",
}
"""Names of attention's weights. A fused one holds queries, keys and values one after the other."""
BEFORE = {
    "attention": r"ln_?1|norm_?1|layer_?norm_?1|input_layernorm|attention_norm|attn_norm|layernorm_before",
    "mlp": r"ln_?2|norm_?2|layer_?norm_?2|post_attention_layernorm|ffn_norm|mlp_norm|layernorm_after",
}
"""Names of the normalisation before a branch."""
AFTER = {
    "attention": r"(ls1|layer_scale1)\.\w+|gamma_1",
    "mlp": r"(ls2|layer_scale2)\.\w+|gamma_2",
}
"""Names of the gains after a branch: layer scale."""
Pieces = dict[str, Tensor]


def invariants(
    source: Source, found: Families, left_out: dict[str, str], gains: Mapping[str, str] | None = None
) -> Iterator[Stack]:
    """Yield the objects of all blocks that can be compared over depth, one at a time.

    Weights that were given as stacks are yielded as they are, and so is the one square weight of a block that
    has no other: it maps the stream to the stream.

    Args:
        source: named tensors.
        found: the weights that layers share.
        left_out: takes, by name, the reason why a weight is in no object.
        gains: name of the gain of the normalised input of a weight, by the weight's name; told by the names
            of modules if left out.

    Raises:
        ValueError: for numbers that are not finite; the message names the tensor.

    Not checked: that modules do what their names say, and that a gain multiplies as it stands; some networks
    store it less one.

    Examples:
        >>> from deeplimit.trained.diagnosis.layer_families import families
        >>> from deeplimit.trained.diagnosis.sources import source_of
        >>> stream = torch.Generator().manual_seed(0)
        >>> shapes = {"ln_2.weight": (4,), "mlp.fc1.weight": (6, 4), "mlp.fc2.weight": (4, 6)}
        >>> weights = {
        ...     f"h.{k}.{name}": torch.randn(shape, generator=stream)
        ...     for k in range(5)
        ...     for name, shape in shapes.items()
        ... }
        >>> source = source_of(weights)
        >>> for made in invariants(source, families(source), {}):
        ...     print(made.name, tuple(made.values.shape))
        h.*.mlp: product (5, 4, 4)
        h.*.mlp: read Gram (5, 4, 4)
        h.*.mlp: write Gram (5, 4, 4)
    """
    blocks: dict[str, dict[str, Family]] = {}
    for family in found.found:
        prefix, star, rest = family.name.partition("*")
        if not star:
            yield from _plain(source, family, left_out)
        else:
            blocks.setdefault(prefix + star, {})[rest.lstrip(".")] = family
    for prefix, tensors in blocks.items():
        yield from _Block(source, prefix, tensors, left_out, gains or {}).objects()


def _plain(source: Source, family: Family, left_out: dict[str, str]) -> Iterator[Stack]:
    try:
        yield stack(source, family)
    except SameLayersError as error:
        left_out[family.name] = str(error)


@final
class _Block:
    """The weights of one block of layers, by what follows the layer's number in their names."""

    def __init__(
        self,
        source: Source,
        prefix: str,
        tensors: dict[str, Family],
        left_out: dict[str, str],
        gains: Mapping[str, str],
    ) -> None:
        self.source, self.prefix, self.left_out, self.gains = source, prefix, left_out, gains
        # Weights of a few layers only cannot be put together with the others.
        self.numbers = Counter(family.numbers for family in tensors.values()).most_common(1)[0][0]
        self.tensors = {rest: family for rest, family in tensors.items() if family.numbers == self.numbers}
        self.shapes = {rest: source.shapes[family.members[0]] for rest, family in self.tensors.items()}
        self.groups = next((each.groups for each in self.tensors.values() if each.groups), ())
        self.used: set[str] = set()
        # (in, out), as GPT-2 stores weights, where a bias has the length of the second axis.
        self.transposed = any(
            len(shape) == 2 and shape[0] != shape[1] and self.shapes.get(_bias(rest)) == (shape[1],)
            for rest, shape in self.shapes.items()
        )

    def objects(self) -> Iterator[Stack]:
        weights = [rest for rest, shape in self.shapes.items() if len(shape) > 1]
        if len(weights) == 1 and len(set(self.shapes[weights[0]])) == 1 and len(self.shapes[weights[0]]) == 2:
            self.used.add(weights[0])
            yield from _plain(self.source, self.tensors[weights[0]], self.left_out)
        else:
            yield from self._attention()
            yield from self._mlps()
        for rest in weights:
            if rest not in self.used:
                self.left_out[self.tensors[rest].name] = (
                    "has entries without a counterpart in the next layer, and is part of no product that is"
                    " known by its name"
                )

    def _attention(self) -> Iterator[Stack]:
        roles: dict[str, dict[str, str]] = {}
        for rest in self.shapes:
            for role, pattern in ATTENTION.items():
                match = re.fullmatch(rf"(?:(.*)\.)?(?:{pattern})[._]weight", rest)
                if match and len(self.shapes[rest]) == 2:
                    roles.setdefault((match[1] or "").partition(".")[0], {}).setdefault(role, rest)
        for parent, named in roles.items():
            inner = [role for role in ("query", "key", "value", "fused") if role in named]
            if "output" not in named or inner not in (["query", "key", "value"], ["fused"]):
                continue
            rows = {role: self._rows(named[role]) for role in named}
            heads = {rows[role] // (3 if role == "fused" else 1) for role in inner}
            columns = self._columns(named["output"])
            if heads != {columns} or any(self._columns(named[role]) != rows["output"] for role in inner):
                self.left_out[f"{self.prefix}.{parent}".rstrip(".")] = (
                    "is no attention with as many keys as queries, and how heads share them is not in names"
                )
                self.used.update(named.values())
                continue
            yield from self._made(parent, "attention", named, inner, _heads)

    def _mlps(self) -> Iterator[Stack]:
        width = self._width()
        pairs: dict[int, list[str]] = {}
        for rest, shape in self.shapes.items():
            if len(shape) == 2 and rest not in self.used and width in shape and shape[0] != shape[1]:
                pairs.setdefault(sum(shape) - width, []).append(rest)
        for names in pairs.values():
            writes = [rest for rest in names if self._rows(rest) == width]
            reads = [rest for rest in names if self._columns(rest) == width]
            if len(writes) == 1 and reads:
                named = {f"reads {place}": rest for place, rest in enumerate(reads)} | {"output": writes[0]}
                parent = _common([*reads, *writes])
                yield from self._made(parent, "mlp", named, list(named)[:-1], _units)

    def _made(
        self,
        parent: str,
        branch: str,
        named: dict[str, str],
        inner: Sequence[str],
        combine: Callable[[Pieces, bool], Pieces],
    ) -> Iterator[Stack]:
        """Yield what `combine` makes of the weights of each layer, gains multiplied in."""
        self.used.update(named.values())
        title = f"{self.prefix}.{parent}".rstrip(".")
        norm = self._before(named[inner[0]]) or self._gain(BEFORE[branch])
        scale = self._gain(AFTER[branch])
        if norm is None:
            self.left_out[f"{title}, normalisation"] = (
                "has no name that is known, if there is one: no gains are multiplied into the weights"
            )
        centred = norm is not None and self._centres(norm)
        layers: dict[str, list[Tensor]] = {}
        for place, _ in enumerate(self.numbers):
            pieces = {role: self._matrix(rest, place) for role, rest in named.items()}
            for role in inner:
                pieces[role] = self._normalised(pieces[role], norm, centred, place)
            if scale is not None:
                pieces["output"] = self._read(scale, place)[:, None] * pieces["output"]
            for name, value in combine(pieces, centred).items():
                layers.setdefault(name, []).append(value)
        for name in list(layers):
            values = layers.pop(name)
            try:
                refuse_copies(self.numbers, values)
            except SameLayersError as error:
                self.left_out[f"{title}: {name}"] = str(error)
            else:
                yield Stack(f"{title}: {name}", torch.stack(values), self.groups)

    def _normalised(self, reads: Tensor, norm: str | None, centred: bool, place: int) -> Tensor:
        """Return what reads the stream with the gain of the normalisation before it multiplied in."""
        if norm is None:
            return reads
        reads = reads * self._read(norm, place)
        return reads - reads.mean(1, keepdim=True) if centred else reads

    def _centres(self, norm: str) -> bool:
        """Whether a normalisation takes off the mean over coordinates, as those with a bias do."""
        said = self.source.settings.get(self.tensors[norm].members[0], "")
        return said.startswith("LayerNorm") or _bias(norm) in self.shapes

    def _before(self, rest: str) -> str | None:
        """Return the gain that was seen before a weight."""
        gain = self.gains.get(self.tensors[rest].members[0])
        return next((other for other, each in self.tensors.items() if each.members[0] == gain), None)

    def _gain(self, pattern: str) -> str | None:
        gains = [
            rest
            for rest, shape in self.shapes.items()
            if len(shape) == 1 and re.fullmatch(rf"(?:.*\.)?(?:{pattern})(?:\.weight)?", rest)
        ]
        return gains[0] if len(gains) == 1 else None

    def _read(self, rest: str, place: int) -> Tensor:
        name = self.tensors[rest].members[place]
        values = self.source.read(name).detach().to(torch.float32)
        if not bool(torch.isfinite(values).all()):
            raise ValueError(f"{name!r} in {self.source.name} must be finite, but holds NaN or infinity.")
        return values

    def _matrix(self, rest: str, place: int) -> Tensor:
        values = self._read(rest, place)
        return values.T if self.transposed else values

    def _rows(self, rest: str) -> int:
        return self.shapes[rest][1 if self.transposed else 0]

    def _columns(self, rest: str) -> int:
        return self.shapes[rest][0 if self.transposed else 1]

    def _width(self) -> int:
        """Return the width of the stream: the length of most vectors, or else of all matrices; 0 if none."""
        vectors = Counter(shape[0] for shape in self.shapes.values() if len(shape) == 1)
        if vectors:
            return vectors.most_common(1)[0][0]
        shared = set.intersection(*({*shape} for shape in self.shapes.values()))
        return shared.pop() if len(shared) == 1 else 0


def _heads(pieces: Pieces, _centred: bool) -> Pieces:
    """Return the two products of one layer's attention, sums over its heads."""
    if "fused" in pieces:
        query, key, value = pieces["fused"].chunk(3)
    else:
        query, key, value = pieces["query"], pieces["key"], pieces["value"]
    return {"queries and keys": query.T @ key, "values and output": pieces["output"] @ value}


def _units(pieces: Pieces, centred: bool) -> Pieces:
    """Return the products and Grams of one layer's MLP, sums over its hidden units."""
    writes = torch.nn.functional.normalize(pieces["output"], dim=0)
    strength = pieces["output"].norm(dim=0)
    reads = {}
    for role, matrix in pieces.items():
        if role != "output":
            reads[role] = torch.nn.functional.normalize(matrix, dim=1)
            strength = strength * matrix.norm(dim=1)
    made = {}
    for place, matrix in enumerate(reads.values()):
        number = f" {place + 1}" if len(reads) > 1 else ""
        made[f"product{number}"] = (writes * strength) @ matrix
        made[f"read Gram{number}"] = _remainder(matrix.T @ (strength[:, None] * matrix), centred)
    return made | {"write Gram": _remainder((writes * strength) @ writes.T, False)}


def _remainder(gram: Tensor, centred: bool) -> Tensor:
    """Return a Gram less the multiple of the identity, or of the projection that centres, of its trace."""
    width = len(gram)
    mean = gram.trace() / (width - 1 if centred else width)
    gram.diagonal().sub_(mean)
    return gram + mean / width if centred else gram


def _bias(rest: str) -> str:
    return re.sub(r"weight$", "bias", rest)


def _common(names: Sequence[str]) -> str:
    """Return the modules that all of these tensors are in."""
    paths = [name.split(".")[:-1] for name in names]
    common = []
    for level in zip(*paths, strict=False):
        if len(set(level)) > 1:
            break
        common.append(level[0])
    return ".".join(common)
