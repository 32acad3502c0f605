"""Weights as objects that do not depend on the order of hidden units or on the basis of attention heads.

Hidden units of an MLP may be permuted, and rescaled where the activation allows it, and attention heads
permuted and turned, layer by layer, without any change of the function. What maps the stream to the stream
has no such freedom. Let hidden unit j read by rows w_j and write by the column v_j, and put
s_j = |v_j| ∏ |w_j|, a product over the matrices that read; hats are unit vectors. An MLP has

    a product Σ_j s_j v̂_j ŵ_jᵀ (V W where one matrix reads), a read Gram Σ_j s_j ŵ_j ŵ_jᵀ, and
    a write Gram Σ_j s_j v̂_j v̂_jᵀ;

both Grams less their part along the identity, which is positive in independent layers, too. Where outputs of
several matrices are multiplied, a sign of unit j may sit in v_j and in a factor that no activation follows:
only that factor has a product. With matrices M between hidden units, |v_j| is the root mean square over
paths from j to the stream, and |w_j| that over paths from the stream.

Attention has W_Qᵀ W_K and W_O W_V, sums over heads. Gains of the normalisation before a weight belong to
what it reads, residual factors, layer scale and batch normalisation to what a weight writes. A layer
normalisation also removes the mean over coordinates. Norms and Grams of convolutions are sums over taps, and
products are those at frequency zero.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TypeVar, final

import torch
from torch import Tensor

from deeplimit.trained.diagnosis.layer_families import Families, Family, SameLayersError, refuse_copies, stack
from deeplimit.trained.diagnosis.normalisations import Before
from deeplimit.trained.diagnosis.order_in_names import RENAME, Ordered, ordered
from deeplimit.trained.diagnosis.sources import Source
from deeplimit.trained.diagnosis.stacks import Stack
from deeplimit.trained.diagnosis.weight_chains import Bends, Chain, Seen, depthwise

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
POST = r"(?:.*\.)?output\.LayerNorm"
"""Names of normalisations of the whole stream after a branch, whose gains stand between no two weights."""
UNKNOWN = "may have gains in {}, whose place names do not tell. Pass the module"
NO_GAINS = ("bias", "running_mean", "running_var", "num_batches_tracked", "delta")
"""Ends of names of vectors that multiply no weight, or are read as residual factors."""
GATE = r"gate|gate_proj|wg|wi_0|w1_gate"
"""Names of the factor of a product that an activation follows."""
NORMS = ("Norm", "Norm1d", "Norm2d", "Norm3d")
"""Ends of the names of classes that normalise."""
CLOSE = 1e-5
"""A parameter of this relative distance to what multiplies the branch is that multiplier itself."""
Pieces = dict[str, Tensor]
T = TypeVar("T")
Blocks = dict[tuple[str, tuple[int, ...]], dict[str, Family]]
"""The weights of layers by what follows the layer's number in their names, or by the names of their lists.

A block's key is what comes before the number, or before the list's name, and the numbers where lists are one.
"""


class Silence(Enum):
    """What is 0 in every layer of a branch, so that none adds anything."""

    NONE = ""
    FACTORS = "residual factors"
    WEIGHTS = "weights that write to the stream"


SILENT = "are 0 in every layer, so that none adds anything, as before training: others are read without them"
"""The reason why what silences a branch is in no object."""
OF_WRITES = ("product", "write Gram", "values and output")
"""Objects that are 0 with the weights that write to the stream."""
TINY = 1e-300
"""A hidden unit without weights is divided by this and stays 0; normal numbers go down to 1e-308."""


def invariants(
    source: Source,
    found: Families,
    left_out: dict[str, str],
    seen: Seen | None = None,
    *,
    biases: bool = False,
    orders: list[str] | None = None,
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
        orders: takes, as text, which weights were read one after the other since their names say so.

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
    blocks: Blocks = {}
    for family in found.found:
        prefix, star, rest = family.name.partition("*")
        if star and rest:
            blocks.setdefault((prefix + star, ()), {})[rest.lstrip(".")] = family
        elif star or seen is not None or _has_hidden_units(source, family, found):
            # A list of parameters, or a stack: with others of its owner it makes up layers.
            owner, dot, own = prefix.rstrip(".").rpartition(".")
            blocks.setdefault((owner + dot, family.numbers), {})[own] = family
        else:
            yield from _plain(source, family, left_out)
    for (prefix, _), tensors in _joined(blocks, seen).items():
        block = _Block(source, prefix, tensors, left_out, seen)
        yield from block.objects()
        if orders is not None:
            orders += block.orders
        if biases:
            yield from block.biases()


def _joined(blocks: Blocks, seen: Seen | None) -> Blocks:
    """Return blocks of which those are one whose weights make up one branch, as two lists of modules may."""
    if seen is None:
        return blocks
    for chain in seen.chains:
        names = {*chain.reads, *chain.middle, chain.write, chain.entry}
        names |= {seen.before[name].gain for name in names & seen.before.keys()}
        names |= {seen.after[name] for name in names & seen.after.keys()}
        several = {
            key: tensors
            for key, tensors in blocks.items()
            if names & {family.members[0] for family in tensors.values()}
        }
        numbers = {family.numbers for tensors in several.values() for family in tensors.values()}
        places = {key: _list(key[0]) for key in several}
        owners = {owner for owner, _ in places.values()}
        if len(several) > 1 and len(numbers) == len(owners) == 1:
            inside = [(places[key][1], tensors) for key, tensors in several.items()]
            both = {own + rest: family for own, tensors in inside for rest, family in tensors.items()}
            blocks = {key: tensors for key, tensors in blocks.items() if key not in several}
            blocks[owners.pop(), numbers.pop()] = both
    return blocks


def _list(prefix: str) -> tuple[str, str]:
    """Return what owns a list of modules, "net.", and the list, "up."; the latter is empty of others."""
    if "*" not in prefix:
        return prefix, ""
    owner, dot, own = prefix.removesuffix("*").rstrip(".").rpartition(".")
    return owner + dot, f"{own}."


def _plain(source: Source, family: Family, left_out: dict[str, str]) -> Iterator[Stack]:
    try:
        yield stack(source, family)
    except SameLayersError as error:
        left_out[family.name] = str(error)


@final
class _Block:
    """The weights of one block of layers, by what follows the layer's number in their names.

    Or by the names of lists of parameters and of stacks, which the number follows.
    """

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
        self.shapes = {
            rest: source.shapes[family.members[0]][_is_stack(family) :]
            for rest, family in self.tensors.items()
        }
        self.groups = next((each.groups for each in self.tensors.values() if each.groups), ())
        self.stacks = {family.members[0] for family in self.tensors.values() if _is_stack(family)}
        self.used: set[str] = set()
        self.orders: list[str] = []
        self.attends = False
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
            yield from self._square(weights[0])
        else:
            yield from self._attention()
            yield from self._seen_chains()
            yield from self._mlps()
        for rest in weights:
            if rest not in self.used:
                shape = self.shapes[rest]
                alike = self.seen is None and [*self.shapes.values()].count(shape) > 1
                how = f": names do not tell what runs first. {RENAME}"
                self.left_out.setdefault(
                    self.tensors[rest].name,
                    "has entries without a counterpart in the next layer, and is part of no product that is"
                    f" known by its name{how if alike and len(shape) == 2 and shape[0] == shape[1] else ''}",
                )

    def _square(self, rest: str) -> Iterator[Stack]:
        """Yield the one weight of a block, which maps the stream to the stream, gains multiplied in."""
        before = self._before(rest, "attention")
        self.attends = before is not None
        if self.seen is None and (unknown := self._unknown_gains()):
            self.left_out[self.tensors[rest].name] = UNKNOWN.format(unknown[0])
            return
        self.writes.append(rest)
        if before is None and self._batch_norm_after(rest) is None and not self._scaled(rest):
            yield from _plain(self.source, self.tensors[rest], self.left_out)
            return
        own = [self._normalised(self._matrix(rest, k), before, k) for k, _ in enumerate(self.numbers)]
        if self._silence(rest, "mlp") is Silence.FACTORS:
            self.left_out[f"{self.tensors[rest].name}: {Silence.FACTORS.value}"] = SILENT
            layers = own
        else:
            layers = [self._written(each, rest, place) for place, each in enumerate(own)]
        yield from self._stacked(self.tensors[rest].name, layers, self._bent(rest, own))

    def _stacked(self, name: str, layers: Sequence[Tensor], bent: Tensor | None = None) -> Iterator[Stack]:
        try:
            refuse_copies(self.numbers, layers)
        except SameLayersError as error:
            self.left_out[name] = str(error)
        else:
            yield Stack(name, torch.stack([*layers]), self.groups, self.rounding, bent)

    def _bent(self, write: str, reads: Sequence[Tensor], *, named: bool = False) -> Tensor | None:
        """Return the `bent` of a branch by its weight that writes and what its first weight is.

        `named` says that it is linear at no size by its names, which count where no forward was seen.
        """
        bends = None if self.seen is None else self.seen.bends.get(self.tensors[write].members[0])
        if bends is Bends.ALWAYS or (bends is None and named):
            return torch.ones(len(reads))
        if bends is Bends.NOTHING:
            return None
        sizes = torch.stack([each.double().square().mean().sqrt() for each in reads])
        return sizes if bends is Bends.BY_SIZE else torch.full_like(sizes, math.nan)

    def biases(self) -> Iterator[Stack]:
        """Yield the biases of weights that write to the stream, with what scales them."""
        for rest in self.writes:
            bias = self.tensors.get(_bias(rest))
            if bias is None or bias.name == self.tensors[rest].name or self._batch_norm_after(rest):
                continue
            before = self._before(rest, "")
            if before is not None and not before.bent and _bias(before.gain) in self.shapes:
                continue  # the shift of that normalisation may be moved into the bias
            if not self._scaled(rest):
                yield from _plain(self.source, bias, self.left_out)
                continue
            layers = [self._written(self._read(_bias(rest), k), rest, k) for k, _ in enumerate(self.numbers)]
            yield from self._stacked(bias.name, layers)

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
            self.attends = True
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

    def _seen_chains(self) -> Iterator[Stack]:
        """Yield what a forward showed: chains of weights from the stream to the stream."""
        if self.seen is None:
            return
        rests = {family.members[0]: rest for rest, family in self.tensors.items()}
        for chain in self.seen.chains:
            names = (*chain.reads, *chain.middle, chain.write, *([chain.entry] if chain.entry else []))
            known = {name: rests[name] for name in names if rests.get(name) not in (None, *self.used)}
            if len(known) < len(names) or not chain.reads or chain.write in chain.reads:
                continue
            yield from self._chain(chain, known)
        for name in sorted(self.seen.tangled):
            if (rest := rests.get(name)) is not None and rest not in self.used:
                self.used.add(rest)
                self.left_out[self.tensors[rest].name] = (
                    "belongs to a branch that is no chain of weights from the stream to the stream"
                )

    def _chain(self, chain: Chain, rests: Mapping[str, str]) -> Iterator[Stack]:
        """Yield the objects of a chain, if the shapes of its weights follow each other."""
        write, reads = rests[chain.write], [rests[name] for name in chain.reads]
        middle = [rests[name] for name in chain.middle]
        width = self._rows(reads[0])
        fits = all(
            (self._rows(rest), self._columns(rest)) == (width, self._columns(reads[0])) for rest in reads
        )
        for rest in middle:
            alone = depthwise(self.shapes[rest])
            fits = fits and (self._rows(rest) if alone else self._columns(rest)) == width
            width = self._rows(rest)
        fits = fits and self._columns(write) == width
        if chain.entry:
            fits = fits and self._rows(rests[chain.entry]) == self._columns(reads[0])
        if not fits:
            for rest in rests.values():
                self.used.add(rest)
                self.left_out[self.tensors[rest].name] = (
                    "is followed by weights of other sizes: units of groups, say, are not matched"
                )
            return
        named = {f"reads {place}": rest for place, rest in enumerate(reads)}
        named |= {f"middle {place}": rest for place, rest in enumerate(middle)}
        # A normalisation in between fixes the sizes of channels, and the weight that follows reads them.
        if chain.entry and self._before(reads[0], "mlp") is None:
            named["entry"] = rests[chain.entry]
        elif chain.entry:
            self.used.add(rests[chain.entry])
        linear = None if len(reads) == 1 else reads.index(rests[chain.linear]) if chain.linear else -1
        yield from self._pair(named | {"output": write}, linear)

    def _mlps(self) -> Iterator[Stack]:
        free = {
            rest: shape for rest, shape in self.shapes.items() if len(shape) > 1 and rest not in self.used
        }
        widths, square = self._widths(free), self._squares(free)
        if len(widths) > 1 and self.seen is None:
            widths = self._told_by_order(free, widths)
        if len(widths) > 1:
            named = " or ".join(map(str, widths))
            for rest in free:
                self.left_out[self.tensors[rest].name] = (
                    f"reads or writes a stream of width {named}, which shapes do not tell"
                    f"{f'. {RENAME}' if self.seen is None else ', and neither does its forward'}"
                )
            return
        for reads, write in [pair for width in widths for pair in self._pairs(free, width)] + square:
            roles = {f"reads {place}": rest for place, rest in enumerate(reads)} | {"output": write}
            hidden = self._columns(write)
            if between := [rest for rest in free if rest not in roles.values() and hidden in free[rest][:2]]:
                for rest in roles.values():
                    self.left_out[self.tensors[rest].name] = (
                        f"may be followed by {between[0]}, which names do not tell. Pass the module"
                    )
                continue
            plain = [
                rest
                for rest in reads
                if not re.fullmatch(rf"(?:.*\.)?(?:{GATE})", rest.removesuffix(".weight"))
            ]
            linear = reads.index(plain[0]) if len(plain) == 1 else -1
            yield from self._pair(roles, None if len(reads) == 1 else linear)

    def _told_by_order(self, free: Mapping[str, tuple[int, ...]], widths: list[int]) -> list[int]:
        """Return the one width that follows from which weights run first by their names; else all widths."""
        pairs = ordered(free, square=False)
        told = {self._columns(pair.read) for pair in pairs}
        if len(told) != 1 or not told <= set(widths):
            return widths
        self.orders += [self._order(pair) for pair in pairs]
        return [*told]

    def _squares(self, free: Mapping[str, tuple[int, ...]]) -> list[tuple[list[str], str]]:
        """Return square weights of a branch, whose order only their names tell; none beside a forward."""
        pairs = [] if self.seen is not None else ordered(free, square=True)
        # c_fc is stored as (out, in) or as (in, out): the bias of a weight that is not square tells which.
        told = any(
            len(shape) == 2 and shape[0] != shape[1] and _bias(rest) in self.shapes
            for rest, shape in self.shapes.items()
        )
        kept = [pair for pair in pairs if told or not pair.read.endswith("c_fc.weight")]
        self.orders += [self._order(pair) for pair in kept]
        return [([pair.read], pair.write) for pair in kept]

    def _order(self, pair: Ordered) -> str:
        return f"{self.tensors[pair.read].name}, then {self.tensors[pair.write].name}"

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

    def _pair(self, named: dict[str, str], linear: int | None) -> Iterator[Stack]:
        inner = [role for role in named if role.startswith("reads")]
        combine = functools.partial(_units, linear=linear)
        for made in self._made(_common([*named.values()]), "mlp", named, inner, combine):
            yield made
            if named["output"] not in self.writes:
                self.writes.append(named["output"])

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
        title = self._title(parent, named.values())
        before = {role: self._before(rest, branch if role in inner else "") for role, rest in named.items()}
        norm = before[inner[0]]
        if self.seen is None and (unknown := self._unknown_gains()):
            self.left_out[title] = UNKNOWN.format(unknown[0])
            return
        centred = norm is not None and norm.along and self._centres(norm.gain)
        layers: dict[str, list[Tensor]] = {}
        first: list[Tensor] = []
        silence = self._silence(named["output"], branch)
        for place, _ in enumerate(self.numbers):
            pieces = {
                role: self._normalised(self._matrix(rest, place), before[role], place)
                for role, rest in named.items()
            }
            if silence is Silence.NONE:
                pieces["output"] = self._written(pieces["output"], named["output"], place, branch)
            elif silence is Silence.WEIGHTS:
                pieces["output"] = torch.ones_like(pieces["output"])
            first.append(pieces[inner[0]])
            for name, value in combine(pieces, centred).items():
                if silence is not Silence.WEIGHTS or name not in OF_WRITES:
                    layers.setdefault(name, []).append(value)
        if silence is not Silence.NONE:
            self.left_out[f"{title}: {silence.value}"] = SILENT
        bends = len(inner) > 1 or branch == "attention" or (norm is not None and norm.along)
        bent = self._bent(named["output"], first, named=bends)
        for name in list(layers):
            yield from self._stacked(f"{title}: {name}", layers.pop(name), bent)

    def _silence(self, rest: str, branch: str) -> Silence:
        """Return why no layer of a branch adds anything, as before training."""
        for place, _ in enumerate(self.numbers):
            if self._written(self._matrix(rest, place), rest, place, branch).any():
                return Silence.NONE
        for place, _ in enumerate(self.numbers):
            if self._matrix(rest, place).any():
                return Silence.FACTORS
        return Silence.WEIGHTS

    def _normalised(self, reads: Tensor, norm: Before | None, place: int) -> Tensor:
        """Return what reads a normalised input, with the gain multiplied in."""
        if norm is None:
            return reads
        gain = self._read(norm.gain, place)
        if self._said(norm.gain).startswith("BatchNorm"):
            gain = gain / self._spread(norm.gain, place)
        gain = gain.abs() if norm.bent else gain
        if not norm.along or gain.numel() != reads.shape[1]:
            return reads * gain.square().mean().sqrt()
        reads = reads * gain.reshape(1, -1, *[1] * (reads.ndim - 2))
        centred = self._centres(norm.gain) and not norm.bent
        return reads - reads.mean(1, keepdim=True) if centred else reads

    def _scaled(self, rest: str) -> bool:
        """Whether anything but ones multiplies the output of a weight of an MLP."""
        if self.seen is None:
            return self._gain(AFTER["mlp"]) is not None
        known = self.seen.scales.get(self._member(rest, 0), [])
        scaled = any(name or size != 1.0 for use in known for name, size in use)
        return scaled or any(factor != 1.0 for factor in self.seen.factors.get(self._member(rest, 0), []))

    def _written(self, values: Tensor, rest: str, place: int, branch: str = "mlp") -> Tensor:
        """Return what writes to the stream with the residual factors after it multiplied in."""
        if self.seen is None:
            scale = self._gain(AFTER[branch])
            return values if scale is None else _along_rows(self._read(scale, place), values)
        for name, size in self._use(self.seen.scales, rest, place, []):
            gain = torch.tensor(size, dtype=torch.float64)
            if name in self.source.shapes:
                if self.source.settings.get(name, "").partition(" ")[0].endswith(NORMS):
                    continue  # the normalisation after a weight is multiplied into it, or none of its size is
                whole = self.source.read(name).detach().to(torch.float64)
                layer = [whole[place]] if whole.ndim and len(whole) == len(self.numbers) else []
                for given in (whole, *layer):
                    if math.isclose(float(given.square().mean().sqrt()), size, rel_tol=CLOSE):
                        gain = given
            values = _along_rows(gain, values)
        return values

    def _centres(self, norm: str) -> bool:
        """Whether a normalisation takes off the mean over coordinates, as those with a bias do."""
        said = self._said(norm)
        return said.startswith("LayerNorm") or (
            not said.partition(" ")[0].endswith(NORMS) and _bias(norm) in self.shapes
        )

    def _batch_norm_after(self, rest: str) -> str | None:
        """Return the gain of the batch normalisation that follows a weight."""
        if self.seen is not None:
            gain = self.seen.after.get(self.tensors[rest].members[0])
            return self._rest_of(gain)
        following = [*self.shapes][[*self.shapes].index(rest) + 1 :]
        after = next((other for other in following if other != _bias(rest)), None)
        if after is None or not after.endswith("weight") or not self._said(after).startswith("BatchNorm"):
            return None
        known = re.sub(r"weight$", "running_var", after) in self.shapes
        return after if known and self.shapes[after] == self.shapes[rest][:1] else None

    def _spread(self, norm: str, place: int) -> Tensor:
        """Return the running standard deviation of a batch normalisation."""
        name = re.sub(r"weight$", "running_var", norm)
        if name not in self.shapes:
            return torch.ones((), dtype=torch.float64)
        said = re.search(r"eps=([\d.e-]+)", self._said(norm))
        return torch.sqrt(self._read(name, place) + (float(said[1].rstrip(".")) if said else 0.0))

    def _said(self, rest: str) -> str:
        """Return what the module of a weight says of itself; empty where no module is known."""
        return self.source.settings.get(self.tensors[rest].members[0], "")

    def _before(self, rest: str, branch: str) -> Before | None:
        """Return the gain before a weight: the one that was seen, or the one that names tell."""
        if self.seen is None:
            gain = self._gain(BEFORE[branch]) if branch else None
            return None if gain is None else Before(gain)
        found = self.seen.before.get(self.tensors[rest].members[0])
        gain = None if found is None else self._rest_of(found.gain)
        return None if found is None or gain is None else Before(gain, found.along, found.bent)

    def _rest_of(self, name: str | None) -> str | None:
        """Return what follows the layer's number in the name of a tensor of the first layer."""
        return next((rest for rest, each in self.tensors.items() if each.members[0] == name), None)

    def _gain(self, pattern: str) -> str | None:
        gains = [
            rest
            for rest, shape in self.shapes.items()
            if len(shape) == 1 and re.fullmatch(rf"(?:.*\.)?(?:{pattern})(?:\.weight)?", rest)
        ]
        return gains[0] if len(gains) == 1 else None

    def _unknown_gains(self) -> list[str]:
        """Return names of what may be a gain, before or after a branch, of no known name.

        A first normalisation is that of attention; where there is none, its place is not known.
        """
        branches = [*BEFORE] if self.attends else ["mlp"]
        known = "|".join([POST, *(names[branch] for names in (BEFORE, AFTER) for branch in branches)])
        lengths = {1} | {length for shape in self.shapes.values() if len(shape) > 1 for length in shape[:2]}
        return [
            rest
            for rest, shape in self.shapes.items()
            if math.prod(shape) in lengths
            and math.prod(shape) == max(shape, default=1)
            and not rest.endswith(NO_GAINS)
            and not re.fullmatch(rf"(?:.*\.)?(?:{known})(?:\.weight)?", rest)
        ]

    def _read(self, rest: str, place: int) -> Tensor:
        name = self._member(rest, place)
        given = self.source.read(name).detach()
        given = given[place] if name in self.stacks else given
        self.rounding = max(self.rounding, torch.finfo(given.dtype).eps if given.is_floating_point() else 0.0)
        values = given.to(torch.float64)
        if not bool(torch.isfinite(values).all()):
            raise ValueError(f"{name!r} in {self.source.name} must be finite, but holds NaN or infinity.")
        return values

    def _use(self, known: Mapping[str, list[T]], rest: str, place: int, otherwise: T) -> T:
        """Return what is known of a weight where one layer uses it; a stack is used once by each layer.

        What a layer uses again is scaled as the last time.
        """
        uses = known.get(self._member(rest, place), [otherwise])
        return uses[place if len(uses) == len(self.numbers) else -1]

    def _member(self, rest: str, place: int) -> str:
        """Return the name of the tensor that holds a weight of one layer."""
        members = self.tensors[rest].members
        return members[place] if len(members) > 1 else members[0]

    def _title(self, parent: str, weights: Iterable[str]) -> str:
        """Return what to call objects of these weights: what holds them, or the names of their lists."""
        if "*" in self.prefix:
            return f"{self.prefix}.{parent}".rstrip(".")
        return f"{self.prefix}{{{','.join(sorted(weights))}}}"

    def _matrix(self, rest: str, place: int) -> Tensor:
        """Return a weight (out, in, ...) with what it is multiplied by, batch normalisation after it, too."""
        values = self._read(rest, place)
        if self.seen is not None:
            values = values * self._use(self.seen.factors, rest, place, 1.0)
        if (norm := self._batch_norm_after(rest)) is not None:
            values = _along_rows(self._read(norm, place) / self._spread(norm, place), values)
        return values.T if self._in_out(rest) and values.ndim == 2 else values

    def _in_out(self, rest: str) -> bool:
        """Whether a weight is stored as (in, out): as a forward applies it, or as its bias tells."""
        seen = {} if self.seen is None else self.seen.in_out
        return seen.get(self.tensors[rest].members[0], self.transposed)

    def _rows(self, rest: str) -> int:
        return self.shapes[rest][1 if self._in_out(rest) else 0]

    def _columns(self, rest: str) -> int:
        return self.shapes[rest][0 if self._in_out(rest) else 1]

    def _widths(self, free: Mapping[str, tuple[int, ...]]) -> list[int]:
        """Return the widths that the stream may have: one, where gains of norms or other tensors tell it."""
        plain = [
            shape[0] for rest, shape in self.shapes.items() if len(shape) == 1 and not rest.endswith(NO_GAINS)
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


def _units(pieces: Pieces, centred: bool, linear: int | None) -> Pieces:
    """Return the products and Grams of one layer's MLP, sums over its hidden units.

    Args:
        pieces: what reads, what is between hidden units and what writes, by role.
        centred: whether a normalisation removed the mean of what is read.
        linear: which of several that read has a product, below zero if none; None where there is but one.
    """
    taps = {
        role: matrix.flatten(2) if matrix.ndim > 2 else matrix[..., None] for role, matrix in pieces.items()
    }
    reads = [matrix for role, matrix in taps.items() if role.startswith("reads")]
    middle = [matrix for role, matrix in taps.items() if role.startswith("middle")]
    if "entry" in taps:  # (channels, 1, taps), of which a convolution by one tap, or several, reads
        reads = [torch.einsum("jct,cs->jcts", reads[0], taps["entry"][:, 0]).flatten(2)]
    sizes = [matrix.norm(dim=(1, 2)) for matrix in reads]
    strength = functools.reduce(torch.mul, sizes)
    reads = [matrix / size.clamp_min(TINY)[:, None, None] for matrix, size in zip(reads, sizes, strict=True)]
    forth, through = strength, torch.diag(strength)  # from the stream: sizes of units, and sums over paths
    for matrix in middle:
        alone = matrix.shape[1] == 1 < matrix.shape[0]
        size = matrix.norm(dim=2)
        forth = size[:, 0] * forth if alone else (size.square() @ forth.square()).sqrt()
        through = matrix.sum(2) * through if alone else matrix.sum(2) @ through
    last = taps["output"].norm(dim=(0, 2))
    writes = taps["output"] / last.clamp_min(TINY)[:, None]
    back = last
    for matrix in reversed(middle):
        size = matrix.norm(dim=2)
        alone = matrix.shape[1] == 1 < matrix.shape[0]
        back = size[:, 0] * back if alone else (size.square().T @ back.square()).sqrt()
    made = {}
    for place, matrix in enumerate(reads):
        number = f" {place + 1}" if len(reads) > 1 else ""
        if linear is None or linear == place:
            made["product"] = taps["output"].sum(2) @ through @ matrix.sum(2)
        gram = torch.einsum("jct,j,jdt->cd", matrix, back * strength, matrix)
        made[f"read Gram{number}"] = _remainder(gram, centred)
    gram = torch.einsum("cjt,j,djt->cd", writes, last * forth, writes)
    return made | {"write Gram": _remainder(gram, False)}


def _along_rows(gain: Tensor, values: Tensor) -> Tensor:
    """Return the rows of a weight or a bias times a gain, one number or one per row."""
    return gain.reshape(-1, *[1] * (values.ndim - 1)) * values


def _remainder(gram: Tensor, centred: bool) -> Tensor:
    """Return a Gram less the multiple of the identity, or of the projection that centres, of its trace."""
    width = len(gram)
    mean = gram.trace() / (width - 1 if centred else width)
    gram.diagonal().sub_(mean)
    return gram + mean / width if centred else gram


def _has_hidden_units(source: Source, family: Family, found: Families) -> bool:
    """Whether another stack may follow this one in a branch, so that units between them may be permuted."""
    shapes = [source.shapes[each.members[0]][1:] for each in found.found if _is_stack(each)]
    own = source.shapes[family.members[0]][1:]
    return len(own) == 2 and own[0] != own[1] and own[::-1] in shapes


def _is_stack(family: Family) -> bool:
    """Whether one tensor holds all layers."""
    return len(family.members) == 1 < len(family.numbers)


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
