"""A hundred and fifty faults in the bases of `depth_bases`, by what goes wrong in people's code.

Numbers in the forward, weights and gains are faulted alike: a fault changes the factor that a kind of branch
has in a layer at a depth. Others change the stream, the layers as a whole, or a weight beside the rule.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from depth_bases import BASES, DepthBase, Kind, Number, by_gains, by_numbers, by_weights, on_output
from planted import CONSTANT, DEEPEST, DEPTHS, SOME, Layers, chosen, everywhere
from planted_faults import deep
from stand_in_stacks import vectors
from torch import nn
from torch.nn import functional as F

Apply = Callable[[DepthBase, Number, nn.Module, int], nn.Module]


@dataclass(frozen=True)
class Told:
    """What a finding must say: one of these names, this factor, these layers."""

    names: tuple[str, ...]
    factor: float | None = None
    layers: tuple[int, ...] = ()


@dataclass(frozen=True)
class DepthFault:
    """A network with a fault of some kind, what it is held to, and what must be told.

    Attributes:
        exponent: The exponent that the network without the fault has; None where it has none.
    """

    kind: str
    name: str
    factory: Callable[[int], nn.Module]
    batch: Callable[[], Any]
    expected: Any
    told: tuple[Told, ...]
    exponent: float | None = None
    pending: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}"


def root_mean_square(number: Number, depth: int, kind: str) -> float:
    return math.sqrt(sum(number(depth, layer, kind) ** 2 for layer in range(depth)) / depth)


def star(base: DepthBase, name: str) -> str:
    return f"{base.stem}.{name}" if name else base.stem


def named(base: DepthBase, kind: Kind, by: Apply) -> tuple[str, ...]:
    """What may be named where the factor on a kind of branch is wrong."""
    weight = star(base, kind.output)
    return {
        by_numbers: (f"multiplier of {star(base, kind.name)}", weight),
        by_weights: (weight,),
        by_gains: (star(base, kind.gain),),
    }[by]


def on_factors(
    what: str,
    name: str,
    expected: Any,
    exponent: float,
    wrong: Number,
    by: Apply = by_numbers,
    where: Layers = everywhere,
    only: Sequence[int] | None = None,
) -> DepthFault:
    """The factor of some kinds of branches, by their places, is wrong in some layers."""
    base = BASES[name]
    hit = base.kinds if only is None else [base.kinds[place] for place in only]

    def right(depth: int, layer: int, kind: str) -> float:
        return depth**-exponent

    def number(depth: int, layer: int, kind: str) -> float:
        bad = any(kind == each.name for each in hit) and where(layer, depth)
        return (wrong if bad else right)(depth, layer, kind)

    def factory(depth: int) -> nn.Module:
        return by(base, number, base.unscaled(depth), depth)

    def factor(kind: Kind) -> float:
        if where is not everywhere:
            return number(DEEPEST, chosen(where)[0], kind.name) / right(DEEPEST, 0, kind.name)
        over = [root_mean_square(number, depth, kind.name) * depth**exponent for depth in DEPTHS]
        return over[-1] / over[0]

    told = tuple(Told(named(base, kind, by), factor(kind), chosen(where)) for kind in hit)
    how = {by_numbers: "numbers", by_weights: "weights", by_gains: "gains"}[by]
    return DepthFault(what, f"{name}, {how}, {expected}", factory, base.batch, expected, told, exponent)


HALF, ONE = (0.5, "depth-mup"), (1.0, "completep")
PAIRED = ("gpt2", "llama", "opt", "gpt-neox", "falcon", "mpt", "t5-encoder", "whisper", "vit", "mixer", "own")
ALL = tuple(BASES)


def turns(names: Sequence[str], count: int, start: int = 0) -> Iterator[tuple[str, Any, float]]:
    """Return `count` bases that alternate between the two exponents and the two rules."""
    ways = [(HALF[0], 0.5), (ONE[0], 1.0), (HALF[1], 0.5), (ONE[1], 1.0)]
    for place in range(start, start + count):
        yield names[place % len(names)], *ways[place % len(ways)]


def of_factors() -> Iterator[DepthFault]:
    for name, expected, power in turns(ALL, 8):
        yield on_factors("index for depth", name, expected, power, lambda d, i, k, p=power: (i + 1) ** -p)
    for name, expected, power in turns(ALL, 6, 8):
        yield on_factors("last layer", name, expected, power, lambda *_: 1.0, where=SOME["the last layer"])
    for name, expected, power in turns(ALL, 4, 14):
        yield on_factors("first layer", name, expected, power, lambda *_: 1.0, where=SOME["the first layer"])
    for name, expected, power in turns(PAIRED, 6):
        yield on_factors("attention only", name, expected, power, lambda *_: 1.0, only=(1,))
    for name, expected, power in turns(PAIRED, 6, 5):
        yield on_factors("MLP only", name, expected, power, lambda *_: 1.0, only=(0,))
    for name, expected, power in turns(ALL, 6, 17):
        yield on_factors("twice", name, expected, power, lambda d, i, k, p=power: d ** (-2 * p))
    for name, expected, power in turns(ALL, 6, 3):
        other = 1.5 - power if power == 1 else 0.25
        yield on_factors("wrong exponent", name, expected, power, lambda d, i, k, q=other: d**-q)
    for name, expected, power in turns(ALL, 8, 9):
        yield on_factors("a constant", name, expected, power, lambda d, i, k, p=power: CONSTANT**-p)
    for name, expected, power in turns(ALL, 6, 18):
        yield on_factors("left out", name, expected, power, lambda *_: 1.0)
    for (name, expected, power), where in zip(turns(ALL, 6, 6), [*SOME][:3] * 2, strict=True):
        yield on_factors("some layers", name, expected, power, lambda *_: 1.0, where=SOME[where])
    for name, expected, power in turns(ALL, 4, 12):
        yield on_factors("inverse", name, expected, power, lambda d, i, k, p=power: d**p)
    for name, expected, power in turns(ALL, 4, 2):
        yield on_factors("falls over layers", name, expected, power, lambda d, i, k: 1 - i / (d + 1))
    for name in ("resmlp", "dinov2", "convnext"):
        yield on_factors("gains", name, 0.5, 0.5, lambda *_: 0.1, by_gains)
        yield on_factors("gains by layer", name, 1.0, 1.0, lambda d, i, k: 1 / (i + 1), by_gains)


def weighed(
    what: str,
    name: str,
    change: Callable[[DepthBase, nn.Module, int], None],
    told: Callable[[DepthBase], Sequence[Told]],
    expected: Any = "gpt-2",
    exponent: float | None = 0.5,
) -> DepthFault:
    """GPT-2's rule on the weights, and then a change of the model."""
    base = BASES[name]

    def factory(depth: int) -> nn.Module:
        model = by_weights(base, lambda d, i, k: (len(base.kinds) * d) ** -0.5, base.unscaled(depth), depth)
        with torch.no_grad():
            change(base, model, depth)
        return model

    return DepthFault(what, f"{name}, {expected}", factory, base.batch, expected, (*told(base),), exponent)


def of_weights() -> Iterator[DepthFault]:
    def inner(base: DepthBase, model: nn.Module, depth: int) -> None:
        for layer in base.of(model):
            layer.get_parameter(base.kinds[0].inner).mul_((len(base.kinds) * depth) ** -0.5)

    for name in ("opt", "llama", "whisper", "dinov2", "mixer", "own"):
        factor = (2 * DEEPEST) ** -0.5
        yield weighed("one matrix", name, inner, lambda b, f=factor: [Told((star(b, b.kinds[0].inner),), f)])

    def one_layer(base: DepthBase, model: nn.Module, depth: int) -> None:
        if depth == DEEPEST:
            base.of(model)[5].get_parameter(base.kinds[-1].output).mul_(8.0)

    for name in ("gpt2", "t5-encoder", "vit", "torchvision-swin", "graph"):
        yield weighed(
            "one layer", name, one_layer, lambda b: [Told((star(b, b.kinds[-1].output),), 8.0, (5,))]
        )

    def again(base: DepthBase, model: nn.Module, depth: int) -> None:
        for layer in base.of(model):
            layer.get_parameter(base.kinds[-1].output).mul_((len(base.kinds) * depth) ** 0.5)

    for name in ("mpt", "falcon", "decoder", "mamba"):
        yield weighed(
            "initialised again",
            name,
            again,
            lambda b: [Told((star(b, b.kinds[-1].output),), (len(b.kinds) * DEEPEST) ** 0.5)],
        )

    def instead(base: DepthBase, model: nn.Module, depth: int) -> None:
        again(base, model, depth)
        for layer in base.of(model):
            layer.get_parameter(base.kinds[-1].inner).mul_((len(base.kinds) * depth) ** -0.5)

    for name in ("gpt2", "encoder", "mixer", "own"):
        yield weighed(
            "inside instead",
            name,
            instead,
            lambda b: [
                Told((star(b, b.kinds[-1].output),), (2 * DEEPEST) ** 0.5),
                Told((star(b, b.kinds[-1].inner),), (2 * DEEPEST) ** -0.5),
            ],
        )

    def layers_counted(base: DepthBase, model: nn.Module, depth: int) -> None:
        for layer in base.of(model):
            for kind in base.kinds:
                layer.get_parameter(kind.output).mul_(len(base.kinds) ** 0.5)

    for name in ("llama", "whisper", "torchvision-vit", "decoder"):
        yield weighed(
            "layers for branches",
            name,
            layers_counted,
            lambda b: [Told((star(b, kind.output),), len(b.kinds) ** 0.5) for kind in b.kinds],
        )

    def by_index(base: DepthBase, model: nn.Module, depth: int) -> None:
        for place, layer in enumerate(base.of(model)):
            for kind in base.kinds:
                layer.get_parameter(kind.output).mul_((depth / (place + 1)) ** 0.5)

    for name in ("opt", "llama", "vit", "own"):
        yield weighed(
            "index for depth",
            name,
            by_index,
            lambda b: [Told((star(b, kind.output),), 2.0) for kind in b.kinds],
        )

    def nothing(base: DepthBase, model: nn.Module, depth: int) -> None:
        pass

    for name in ("gpt2", "mpt", "vit", "whisper"):
        yield weighed(
            "depth for index",
            name,
            nothing,
            lambda b: [Told((star(b, kind.output),), 0.6) for kind in b.kinds],
            "mitchell",
            None,
        )

    def biased(base: DepthBase, model: nn.Module, depth: int) -> None:
        for layer in base.of(model):
            nn.init.constant_(layer.get_parameter(base.kinds[-1].output.removesuffix("weight") + "bias"), 1.0)

    for name in ("opt", "vit", "encoder", "perceptron"):
        yield weighed(
            "bias",
            name,
            biased,
            lambda b: [Told((star(b, b.kinds[-1].output.removesuffix("weight") + "bias"),), None)],
            0.5,
        )


def streamed(
    what: str,
    name: str,
    before: Callable[[torch.Tensor, bool, int], torch.Tensor],
    told: Callable[[DepthBase], Sequence[Told]],
    expected: Any = 0.5,
    exponent: float = 0.5,
) -> DepthFault:
    """Something happens to the stream before every layer of a network that is scaled rightly."""
    base = BASES[name]

    def factory(depth: int) -> nn.Module:
        model = by_numbers(base, lambda d, i, k: d**-exponent, base.unscaled(depth), depth)
        for layer in base.of(model):

            def hook(module: nn.Module, args: Any, kwargs: Any) -> Any:
                if args:
                    return (before(args[0], module.training, depth), *args[1:]), kwargs
                first = next(key for key, value in kwargs.items() if isinstance(value, torch.Tensor))
                return args, {**kwargs, first: before(kwargs[first], module.training, depth)}

            layer.register_forward_pre_hook(hook, with_kwargs=True)
        return model

    return DepthFault(what, f"{name}, {expected}", factory, base.batch, expected, (*told(base),), exponent)


def as_copies(base: DepthBase, model: nn.Module, tied: bool) -> nn.Module:
    """The model with the first layer's weights in all layers, or with its parameters themselves."""
    first, *others = base.of(model)
    for layer in others:
        if tied:
            for path, parameter in first.named_parameters():
                owner, _, last = path.rpartition(".")
                setattr(layer.get_submodule(owner), last, parameter)
        else:
            layer.load_state_dict(copy.deepcopy(first.state_dict()), strict=False)
    return model


def copied(name: str, tied: bool = False) -> DepthFault:
    base = BASES[name]

    def factory(depth: int) -> nn.Module:
        model = by_numbers(base, lambda d, i, k: d**-0.5, base.unscaled(depth), depth)
        return as_copies(base, model, tied)

    grown = (DEEPEST / DEPTHS[0]) ** 0.5
    told = tuple(
        Told((star(base, kind.output), star(base, kind.output).replace("*", "0")), grown)
        for kind in base.kinds
    )
    what = "tied layers" if tied else "copies"
    return DepthFault(what, f"{name}, 0.5", factory, base.batch, 0.5, told, 0.5)


class Chain(nn.Module):
    """Pre-norm branches, and a function of the first state and the branches that makes the last one."""

    def __init__(self, depth: int, exponent: float, stream: Callable[..., torch.Tensor], norm: bool) -> None:
        super().__init__()
        self.first, self.stream, self.scale = nn.Linear(16, 16), stream, depth**-exponent
        self.norm = norm
        self.blocks = nn.ModuleList(
            nn.ModuleDict({"norm": nn.LayerNorm(16), "up": nn.Linear(16, 32), "down": nn.Linear(32, 16)})
            for _ in range(depth)
        )
        for block in self.blocks:
            nn.init.kaiming_normal_(block["up"].weight)
            nn.init.kaiming_normal_(block["down"].weight)
            nn.init.zeros_(block["down"].bias)

    def branch(self, place: int, h: torch.Tensor) -> torch.Tensor:
        block = self.blocks[place]
        h = block["norm"](h) if self.norm else h
        return self.scale * block["down"](torch.relu(block["up"](h)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.stream(self, self.first(x), len(self.blocks))


def summed(net: Chain, h: torch.Tensor, depth: int) -> torch.Tensor:
    for place in range(depth):
        h = h + net.branch(place, h)
    return h


def additive_unet(net: Chain, h: torch.Tensor, depth: int) -> torch.Tensor:
    skips = []
    for place in range(depth):
        h = h + skips.pop() if 2 * place >= depth else h
        h = h + net.branch(place, h)
        skips += [h] if 2 * place < depth else []
    return h


def with_first(net: Chain, h: torch.Tensor, depth: int) -> torch.Tensor:
    first = h
    for place in range(depth):
        h = h + 0.5 * first
        h = h + net.branch(place, h)
    return h


def with_sum_of_all(net: Chain, h: torch.Tensor, depth: int) -> torch.Tensor:
    states = [h]
    for place in range(depth):
        h = h + net.branch(place, h)
        h = h + 0.3 * sum(states) / len(states)
        states.append(h)
    return h


def with_velocity(net: Chain, h: torch.Tensor, depth: int) -> torch.Tensor:
    velocity = torch.zeros_like(h)
    for place in range(depth):
        velocity = 0.5 * velocity + net.branch(place, h)
        h = h + velocity
    return h


def without_skip_in_one(net: Chain, h: torch.Tensor, depth: int) -> torch.Tensor:
    for place in range(depth):
        update = net.branch(place, h)
        h = update if place == depth // 2 else h + update
    return h


def without_every_other_skip(net: Chain, h: torch.Tensor, depth: int) -> torch.Tensor:
    for place in range(depth):
        update = net.branch(place, h)
        h = update if place % 2 else h + update
    return h


def sum_over_root(net: Chain, h: torch.Tensor, depth: int) -> torch.Tensor:
    for place in range(depth):
        h = (h + net.branch(place, h)) / 2**0.5
    return h


def chain(
    what: str,
    name: str,
    stream: Callable[..., torch.Tensor],
    exponent: float,
    expected: Any,
    *told: Told,
    norm: bool = True,
) -> DepthFault:
    def factory(depth: int) -> nn.Module:
        return Chain(depth, exponent, stream, norm)

    right = expected if isinstance(expected, float) else None
    return DepthFault(what, f"{name}, {expected}", factory, flat, expected, told, right)


def flat() -> torch.Tensor:
    return torch.randn(24, 16, generator=torch.Generator().manual_seed(0))


BRANCH = "blocks.*"
FIRST_STREAM = Told(("stream 1",))


def of_streams() -> Iterator[DepthFault]:
    for name in ("llama", "gpt2", "vit", "encoder", "opt", "own"):
        yield streamed(
            "dropout on the skip",
            name,
            lambda h, training, depth: F.dropout(h, 0.08, training),
            lambda b: [Told((f"skip of {star(b, b.kinds[0].name)}",))],
        )
    for name, factor in (
        ("llama", 0.9),
        ("vit", 1.1),
        ("mixer", 0.8),
        ("gpt2", 1.2),
        ("opt", 2**-0.5),
        ("own", 0.95),
    ):
        yield streamed(
            "a factor on the skip",
            name,
            lambda h, training, depth, c=factor: c * h,
            lambda b, c=factor: [Told((f"skip of {star(b, b.kinds[0].name)}",), c)],
        )
    for name in ("gpt2", "llama", "opt", "t5-encoder", "whisper", "vit", "perceptron", "tower"):
        yield copied(name)
    for name in ("mpt", "mixer", "own"):
        yield copied(name, tied=True)
    yield chain("earlier states", "additive U-Net", additive_unet, 0.5, 0.5, FIRST_STREAM)
    yield chain("earlier states", "the first state", with_first, 0.5, 0.5, FIRST_STREAM)
    yield chain("earlier states", "the mean of all", with_sum_of_all, 0.5, 0.5, FIRST_STREAM)
    left_out = Told((f"multiplier of {BRANCH}", "blocks.*.down.weight"), 2.0)
    yield chain("momentum", "left out", with_velocity, 0.0, 0.5, left_out)
    yield chain("momentum", "twice", with_velocity, 1.0, 0.5, Told(left_out.names, 0.5))
    skip = Told((f"skip of {BRANCH}", "stream 1", "blocks.*.down.weight"))
    yield chain("no skip", "in the middle", without_skip_in_one, 0.5, 0.5, skip)
    yield chain("no skip", "every other", without_every_other_skip, 0.5, 0.5, skip)
    yield chain("no skip", "in the middle", without_skip_in_one, 0.0, 0.0, skip)
    yield chain("no skip", "in the middle", without_skip_in_one, 1.0, 1.0, skip)
    yield chain(
        "a factor on the sum", "over a root", sum_over_root, 0.5, 0.5, Told((f"skip of {BRANCH}",), 2**-0.5)
    )
    yield chain("no norm", "a ReLU chain", summed, 0.0, 0.0, FIRST_STREAM, norm=False)
    yield DepthFault(
        "no norm",
        "convolutions, 0.0",
        lambda depth: hot(BASES["tower"], depth),
        BASES["tower"].batch,
        0.0,
        (FIRST_STREAM,),
        0.0,
    )
    yield hooked_projection("encoder")
    yield hooked_projection("torchvision-vit")
    beta = (8 * DEEPEST) ** -0.25
    for what, wrong in (("beta of layers for branches", lambda d: d**-0.25), ("no beta", lambda d: 1.0)):
        factor = wrong(DEEPEST) / beta
        names = ("attn.value.weight", "attn.out.weight", "mlp.fc1.weight", "mlp.fc2.weight")
        yield DepthFault(
            "init std",
            f"deepnorm, {what}",
            lambda depth, w=wrong: deep(depth, lambda d: ((2 * d) ** 0.25,) * 2, w),
            vectors,
            "deepnorm",
            tuple(Told((f"blocks.*.{name}",), factor) for name in names),
        )


def hot(base: DepthBase, depth: int) -> nn.Module:
    model = base.unscaled(depth)
    with torch.no_grad():
        for layer in base.of(model):
            layer.get_parameter(base.kinds[0].output).mul_(3.0)
    return model


def hooked_projection(name: str) -> DepthFault:
    """The factor on attention is put where torch's attention never calls: on its projection's module."""
    base = BASES[name]

    def factory(depth: int) -> nn.Module:
        model = base.unscaled(depth)
        for layer in base.of(model):
            for kind in base.kinds:
                on_output(layer.get_submodule(kind.output.rpartition(".")[0]), depth**-0.5)
        return model

    told = (Told(named(base, base.kinds[0], by_numbers), 2.0),)
    return DepthFault("a hook that never runs", name, factory, base.batch, "depth-mup", told, 0.5)


PENDING = {
    "index for depth: falcon, numbers, 0.5": "an interval of attention holds 1/2 and what 1/sqrt(l) gives",
    "falls over layers: falcon, numbers, 0.5": "after the line the interval of attention is too wide",
    "falls over layers: mpt, numbers, 1.0": "after the line exponents are 0.88 and 1.12 at depths 4 to 16",
}
DEPTH_FAULTS = [
    replace(fault, pending=PENDING.get(str(fault), ""))
    for fault in (*of_factors(), *of_weights(), *of_streams())
]
