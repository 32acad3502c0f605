"""Weights as objects that do not depend on the order of hidden units or on the basis of attention heads.

Hidden units of an MLP may be permuted, and rescaled where the activation allows it, and attention heads
permuted and turned, layer by layer, without any change of the function. What maps the stream to the stream
has no such freedom. Let hidden unit j read by rows w_j and write by the column v_j, and put
s_j = |v_j| ∏ |w_j|, a product over the matrices that read; hats are unit vectors. An MLP has

    a product Σ_j s_j v̂_j ŵ_jᵀ per matrix that reads (V W where one does), a read Gram Σ_j s_j ŵ_j ŵ_jᵀ, and
    a write Gram Σ_j s_j v̂_j v̂_jᵀ;

both Grams less their part along the identity, which is positive in independent layers, too;
attention has W_Qᵀ W_K and W_O W_V, sums over heads. Gains of the normalisation before a branch belong to
what reads, layer scale to what writes. A layer normalisation also removes the mean over coordinates. Norms
and Grams of convolutions are sums over taps, and products are those at frequency zero.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import torch
from torch import Tensor

from deeplimit.modules.trace.branches import layout
from deeplimit.modules.trace.recording import Trace
from deeplimit.trained.diagnosis.layer_families import Families, Family, SameLayersError, refuse_copies, stack
from deeplimit.trained.diagnosis.normalisations import gains_before
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
TINY = 1e-300
"""A hidden unit without weights is divided by this and stays 0; normal numbers go down to 1e-308."""


@final
@dataclass(frozen=True)
class Seen:
    """What one forward of a module tells of its weights, in place of names.

    Attributes:
        gains: name of the gain of the normalised input of a weight, by the weight's name.
        branches: of each branch, names of the weights that read, and of those that write to the stream.
    """

    gains: Mapping[str, str] = field(default_factory=dict)
    branches: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()


def seen_in(trace: Trace, blocks: str | Sequence[str] | None = None) -> Seen:
    """Return what a recorded forward tells of the weights; branches are none where it has no residual sum."""
    try:
        parts = [part.branch for part in layout(trace, blocks).parts if part.counted]
    except ValueError:
        parts = []
    first = {branch.kind: (branch.inner, branch.output) for branch in reversed(parts)}
    return Seen(gains_before(trace), tuple(reversed(first.values())))


def invariants(
    source: Source,
    found: Families,
    left_out: dict[str, str],
    seen: Seen | None = None,
    *,
    biases: bool = False,
) -> Iterator[Stack]:
    """Yield the objects of all blocks that can be compared over depth, one at a time.

    Weights that were given as stacks are yielded as they are, and so is the one square weight of a block that
    has no other: it maps the stream to the stream.

    Args:
        source: named tensors.
        found: the weights that layers share.
        left_out: takes, by name, the reason why a weight is in no object.
        seen: what a forward tells; names and shapes tell it if left out.
        biases: whether to yield the biases that branches add to the stream, too.

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
        block = _Block(source, prefix, tensors, left_out, seen)
        yield from block.objects()
        if biases:
            yield from block.biases()


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
        seen: Seen | None,
    ) -> None:
        self.source, self.prefix, self.left_out, self.seen = source, prefix, left_out, seen
        # Weights of a few layers only cannot be put together with the others.
        self.numbers = Counter(family.numbers for family in tensors.values()).most_common(1)[0][0]
        self.tensors = {rest: family for rest, family in tensors.items() if family.numbers == self.numbers}
        self.shapes = {rest: source.shapes[family.members[0]] for rest, family in self.tensors.items()}
        self.groups = next((each.groups for each in self.tensors.values() if each.groups), ())
        self.used: set[str] = set()
        self.writes: list[str] = []
        self.rounding = 0.0
        # (in, out), as GPT-2 stores weights, where a bias has the length of the second axis.
        self.transposed = any(
            len(shape) == 2 and shape[0] != shape[1] and self.shapes.get(_bias(rest)) == (shape[1],)
            for rest, shape in self.shapes.items()
        )

    def objects(self) -> Iterator[Stack]:
        weights = [rest for rest, shape in self.shapes.items() if len(shape) > 1]
        if len(weights) == 1 and len(set(self.shapes[weights[0]][:2])) == 1:
            self.used.add(weights[0])
            self.writes.append(weights[0])
            yield from self._square(weights[0])
        else:
            yield from self._attention()
            yield from self._seen_branches()
            yield from self._mlps()
        for rest in weights:
            if rest not in self.used:
                self.left_out.setdefault(
                    self.tensors[rest].name,
                    "has entries without a counterpart in the next layer, and is part of no product that is"
                    " known by its name",
                )

    def _square(self, rest: str) -> Iterator[Stack]:
        """Yield the one weight of a block, which maps the stream to the stream, gains multiplied in."""
        norm = self._before(rest) or self._gain(BEFORE["attention"])
        if norm is None and self._batch_norm_after(rest) is None:
            yield from _plain(self.source, self.tensors[rest], self.left_out)
            return
        centred = norm is not None and self._centres(norm)
        layers = [
            self._normalised(self._matrix(rest, place), norm, centred, place)
            for place, _ in enumerate(self.numbers)
        ]
        yield from self._stacked(self.tensors[rest].name, layers)

    def _stacked(self, name: str, layers: Sequence[Tensor]) -> Iterator[Stack]:
        try:
            refuse_copies(self.numbers, layers)
        except SameLayersError as error:
            self.left_out[name] = str(error)
        else:
            yield Stack(name, torch.stack([*layers]), self.groups, self.rounding)

    def biases(self) -> Iterator[Stack]:
        """Yield the biases of weights that write to the stream."""
        for rest in self.writes:
            bias = self.tensors.get(_bias(rest))
            if bias is not None and bias.name != self.tensors[rest].name:
                yield from _plain(self.source, bias, self.left_out)

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

    def _seen_branches(self) -> Iterator[Stack]:
        """Yield what a forward showed: branches of weights that read the stream and one that writes to it."""
        rests = {family.members[0]: rest for rest, family in self.tensors.items()}
        for inner, output in (self.seen or Seen()).branches:
            known = [rests.get(name) for name in (*inner, *output)]
            names = [rest for rest in known if rest is not None and rest not in self.used]
            if len(output) != 1 or not inner or len(names) < len(known):
                continue
            write, reads = names[-1], names[:-1]
            hidden = self._columns(write)
            if len(reads) > 1 and hidden == self._rows(write):
                continue  # shapes do not tell a chain of weights from several that read
            if all(self._rows(rest) == hidden and self._columns(rest) == self._rows(write) for rest in reads):
                yield from self._pair(reads, write)

    def _mlps(self) -> Iterator[Stack]:
        free = {
            rest: shape for rest, shape in self.shapes.items() if len(shape) > 1 and rest not in self.used
        }
        widths = self._widths(free)
        if len(widths) > 1:
            named = " or ".join(map(str, widths))
            for rest in free:
                self.left_out[self.tensors[rest].name] = (
                    f"reads or writes a stream of width {named}, which shapes do not tell. Pass the module"
                )
            return
        for reads, write in (pair for width in widths for pair in self._pairs(free, width)):
            yield from self._pair(reads, write)

    def _pairs(self, free: Mapping[str, tuple[int, ...]], width: int) -> list[tuple[list[str], str]]:
        """Return weights that read a stream of this width, with the one that writes to it."""
        pairs: dict[int, list[str]] = {}
        for rest, shape in free.items():
            if width in shape[:2] and shape[0] != shape[1]:
                pairs.setdefault(shape[0] + shape[1] - width, []).append(rest)
        found = []
        for names in pairs.values():
            writes = [rest for rest in names if self._rows(rest) == width]
            reads = [rest for rest in names if self._columns(rest) == width]
            if len(writes) == 1 and reads:
                found.append((reads, writes[0]))
        return found

    def _pair(self, reads: list[str], write: str) -> Iterator[Stack]:
        named = {f"reads {place}": rest for place, rest in enumerate(reads)} | {"output": write}
        self.writes.append(write)
        yield from self._made(_common([*reads, write]), "mlp", named, list(named)[:-1], _units)

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
        if norm is None and self.seen is None:
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
                by = self._read(scale, place).reshape(-1, *[1] * (pieces["output"].ndim - 1))
                pieces["output"] = by * pieces["output"]
            for name, value in combine(pieces, centred).items():
                layers.setdefault(name, []).append(value)
        for name in list(layers):
            yield from self._stacked(f"{title}: {name}", layers.pop(name))

    def _normalised(self, reads: Tensor, norm: str | None, centred: bool, place: int) -> Tensor:
        """Return what reads the stream with the gain of the normalisation before it multiplied in."""
        if norm is None:
            return reads
        gain = self._read(norm, place)
        reads = reads * gain.reshape(1, -1, *[1] * (reads.ndim - 2))
        return reads - reads.mean(1, keepdim=True) if centred else reads

    def _centres(self, norm: str) -> bool:
        """Whether a normalisation takes off the mean over coordinates, as those with a bias do."""
        return self._said(norm).startswith("LayerNorm") or _bias(norm) in self.shapes

    def _batch_norm_after(self, rest: str) -> str | None:
        """Return the gain of the batch normalisation that a layer has next to a weight, after it."""
        following = [*self.shapes][[*self.shapes].index(rest) + 1 :]
        after = next((other for other in following if other != _bias(rest)), None)
        if after is None or not after.endswith("weight") or not self._said(after).startswith("BatchNorm"):
            return None
        known = re.sub(r"weight$", "running_var", after) in self.shapes
        return after if known and self.shapes[after] == self.shapes[rest][:1] else None

    def _said(self, rest: str) -> str:
        """Return what the module of a weight says of itself; empty where no module is known."""
        return self.source.settings.get(self.tensors[rest].members[0], "")

    def _before(self, rest: str) -> str | None:
        """Return the gain that was seen before a weight."""
        gain = (self.seen or Seen()).gains.get(self.tensors[rest].members[0])
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
        given = self.source.read(name).detach()
        self.rounding = max(self.rounding, torch.finfo(given.dtype).eps if given.is_floating_point() else 0.0)
        values = given.to(torch.float64)
        if not bool(torch.isfinite(values).all()):
            raise ValueError(f"{name!r} in {self.source.name} must be finite, but holds NaN or infinity.")
        return values

    def _matrix(self, rest: str, place: int) -> Tensor:
        """Return a weight (out, in, ...), the batch normalisation that follows multiplied in."""
        values = self._read(rest, place)
        if (norm := self._batch_norm_after(rest)) is not None:
            variance = self._read(re.sub(r"weight$", "running_var", norm), place)
            said = re.search(r"eps=([\d.e-]+)", self._said(norm))
            gain = self._read(norm, place) / torch.sqrt(
                variance + (float(said[1].rstrip(".")) if said else 0.0)
            )
            values = values * gain.reshape(-1, *[1] * (values.ndim - 1))
        return values.T if self.transposed and values.ndim == 2 else values

    def _rows(self, rest: str) -> int:
        return self.shapes[rest][1 if self.transposed else 0]

    def _columns(self, rest: str) -> int:
        return self.shapes[rest][0 if self.transposed else 1]

    def _widths(self, free: Mapping[str, tuple[int, ...]]) -> list[int]:
        """Return the widths that the stream may have: one, where gains of norms or other tensors tell it."""
        plain = [
            shape[0]
            for rest, shape in self.shapes.items()
            if len(shape) == 1 and len(self.shapes.get(re.sub(r"bias$", "weight", rest), shape)) == 1
        ]
        if plain:
            return [Counter(plain).most_common(1)[0][0]]
        both = sorted({size for shape in free.values() for size in shape[:2]})
        possible = [width for width in both if self._pairs(free, width)]
        if len(possible) > 1:
            layered = {name for family in self.tensors.values() for name in family.members}
            others = [shape for name, shape in self.source.shapes.items() if name not in layered]
            told = [width for width in possible if any(width in shape for shape in others)]
            possible = told if len(told) == 1 else possible
        return possible


def _heads(pieces: Pieces, _centred: bool) -> Pieces:
    """Return the two products of one layer's attention, sums over its heads."""
    if "fused" in pieces:
        query, key, value = pieces["fused"].chunk(3)
    else:
        query, key, value = pieces["query"], pieces["key"], pieces["value"]
    return {"queries and keys": query.T @ key, "values and output": pieces["output"] @ value}


def _units(pieces: Pieces, centred: bool) -> Pieces:
    """Return the products and Grams of one layer's MLP, sums over its hidden units."""
    taps = {
        role: matrix.flatten(2) if matrix.ndim > 2 else matrix[..., None] for role, matrix in pieces.items()
    }
    strength = taps["output"].norm(dim=(0, 2))
    writes = taps["output"] / strength.clamp_min(TINY)[:, None]
    reads = []
    for role, matrix in taps.items():
        if role != "output":
            sizes = matrix.norm(dim=(1, 2))
            reads.append(matrix / sizes.clamp_min(TINY)[:, None, None])
            strength = strength * sizes
    made = {}
    for place, matrix in enumerate(reads):
        number = f" {place + 1}" if len(reads) > 1 else ""
        made[f"product{number}"] = (writes.sum(2) * strength) @ matrix.sum(2)
        gram = torch.einsum("jct,j,jdt->cd", matrix, strength, matrix)
        made[f"read Gram{number}"] = _remainder(gram, centred)
    gram = torch.einsum("cjt,j,djt->cd", writes, strength, writes)
    return made | {"write Gram": _remainder(gram, False)}


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
