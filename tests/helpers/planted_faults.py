"""The table of planted faults: bases of several libraries under weights' rules, stacks under the others."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from families import FAMILIES, images, vit
from planted import (
    CONSTANT,
    DEEPEST,
    DEPTHS,
    SOME,
    Base,
    Layers,
    Planted,
    Wrong,
    chosen,
    everywhere,
    on_weights,
)
from stand_in_mixers import WIDTH, Attention, FeedForward
from stand_in_networks import Around, Net, conv, pictures
from stand_in_stacks import Block, Scale, Stack, vectors
from torch import nn


def of_family(
    name: str, blocks: str, outputs: tuple[str, ...], wrong: str, own: bool = False, **options: Any
) -> Base:
    family = FAMILIES[name]
    factory = functools.partial(family.factory, **options)
    return Base(name, factory, family.batch, blocks, outputs, wrong, own)


def plain(model: nn.Module, std: float | None = 0.02) -> nn.Module:
    """N(0, 0.02²) in every linear layer and convolution, or N(0, 1/fan-in), and no bias."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            nn.init.normal_(module.weight, std=std or module.weight[0].numel() ** -0.5)
            nn.init.zeros_(module.bias)
    return model


def fan_in(weight: torch.Tensor) -> Any:
    return nn.init.normal_(weight, std=weight[0].numel() ** -0.5)


def stack(depth: int, order: str = "pre") -> nn.Module:
    return plain(Stack(depth, lambda: Block({"attn": Attention(), "mlp": FeedForward()}, order)))


def tower(depth: int) -> nn.Module:
    """Convolutions without norms, one branch per block."""
    blocks = [Around(conv(), nn.ReLU(), conv()) for _ in range(depth)]
    return plain(Net(nn.Conv2d(3, 8, 3, padding=1), blocks), None)


OWN = ("attn.out.weight", "mlp.fc2.weight")
STACK = Base("stack", stack, vectors, "blocks", OWN, "attn.value.weight")
WEIGHTS = [
    of_family(
        "gpt2", "transformer.h", ("attn.c_proj.weight", "mlp.c_proj.weight"), "attn.c_attn.weight", True
    ),
    of_family(
        "llama",
        "model.layers",
        ("self_attn.o_proj.weight", "mlp.down_proj.weight"),
        "self_attn.v_proj.weight",
        intermediate_size=128,
    ),
    of_family(
        "megatron-bert",
        "encoder.layer",
        ("attention.output.dense.weight", "output.dense.weight"),
        "attention.self.value.weight",
    ),
    Base("vit", vit, images, "blocks", ("attn.proj.weight", "mlp.fc2.weight"), "mlp.fc1.weight"),
    STACK,
    Base("post-norm", functools.partial(stack, order="post"), vectors, "blocks", OWN, "attn.value.weight"),
    Base(
        "tower", tower, pictures, "blocks", ("body.2.weight",), "body.0.weight", siblings=False, reset=fan_in
    ),
]


class Numbered(nn.Module):
    """x = skip·x + number·f(norm(x)), twice, with another number in each branch."""

    def __init__(self, numbers: tuple[float, float], skip: float = 1.0, learned: bool = False) -> None:
        super().__init__()
        self.attn, self.mlp = Attention(), FeedForward()
        self.norm_attn, self.norm_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.gain_attn, self.gain_mlp = (Scale(number, learned) for number in numbers)
        self.skip = skip

    def passed(self, x: torch.Tensor) -> torch.Tensor:
        return x if self.skip == 1.0 else self.skip * x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.passed(x) + self.gain_attn(self.attn(self.norm_attn(x)))
        return self.passed(x) + self.gain_mlp(self.mlp(self.norm_mlp(x)))


def numbered(depth: int, number: Callable[[int, int, str], float], **more: Any) -> nn.Module:
    """A stack whose branches carry a number of the depth, the layer and the branch."""
    places = iter(range(depth))

    def make() -> nn.Module:
        place = next(places)
        return Numbered((number(depth, place, "attn"), number(depth, place, "mlp")), **more)

    return plain(Stack(depth, make), None)


MULTIPLIERS = {name: f"multiplier of blocks.*.{name}" for name in ("attn", "mlp")}
WEIGHT = {"attn": "blocks.*.attn.out.weight", "mlp": "blocks.*.mlp.fc2.weight"}
GAINS = {name: f"blocks.*.gain_{name}.gain" for name in ("attn", "mlp")}


def on_numbers(rule: Any, exponent: float, learned: bool = False) -> list[Planted]:
    """A rule on numbers in the forward pass, c/L^exponent, applied wrongly; c is free."""
    named = GAINS if learned else MULTIPLIERS
    title = f"{rule} {'gains' if learned else 'numbers'}"
    counted = (DEEPEST / DEPTHS[0]) ** exponent  # what is measured from the shallowest network on

    def fault(
        what: str,
        wrong: Callable[[int], float],
        factor: float | None,
        branches: tuple[str, ...] = ("attn", "mlp"),
        where: Layers = everywhere,
    ) -> Planted:
        def number(depth: int, layer: int, branch: str) -> float:
            return wrong(depth) if branch in branches and where(layer, depth) else depth**-exponent

        told = named
        if wrong(DEEPEST) == 1.0 and where is everywhere:
            # Gains of one scale nothing: a named rule then misses a multiplier, an exponent what is scaled.
            told = MULTIPLIERS if isinstance(rule, str) else GAINS if learned else WEIGHT
        return Planted(
            f"{title}: {what}",
            lambda depth: numbered(depth, number, learned=learned),
            vectors,
            rule,
            tuple(Wrong(told[branch], factor, chosen(where)) for branch in branches),
        )

    return [
        fault("left out", lambda depth: 1.0, counted),
        fault("left out in attention", lambda depth: 1.0, counted, ("attn",)),
        fault("left out in the MLP", lambda depth: 1.0, counted, ("mlp",)),
        fault("a constant for the depth", lambda depth: CONSTANT**-exponent, counted),
        fault("applied twice", lambda depth: depth ** (-2 * exponent), 1 / counted),
        fault("half the power", lambda depth: depth ** (-exponent / 2), math.sqrt(counted)),
        fault("one and a half times the power", lambda depth: depth ** (-1.5 * exponent), counted**-0.5),
        *(
            fault(f"left out in {name}", lambda depth: 1.0, DEEPEST**exponent, where=where)
            for name, where in SOME.items()
        ),
    ]


def off_by_one(rule: str, exponent: float, more: int) -> Planted:
    """1/(L ± 1): exact numbers are read exactly."""
    return Planted(
        f"{rule}: L {'+' if more > 0 else '-'} 1",
        lambda depth: numbered(depth, lambda total, *_: (total + more) ** -exponent),
        vectors,
        rule,
        tuple(Wrong(name) for name in MULTIPLIERS.values()),
    )


def twice(rule: str, exponent: float) -> Planted:
    """The number in the forward pass and the weights, too."""

    def factory(depth: int) -> nn.Module:
        model = numbered(depth, lambda total, *_: total**-exponent)
        with torch.no_grad():
            for block in model.blocks:
                block.attn.out.weight.mul_(depth**-0.5)
        return model

    wrong = (Wrong("blocks.*.attn.out.weight", DEEPEST**-0.5),)
    return Planted(f"{rule}: in the weights, too", factory, vectors, rule, wrong)


def one(depth: int, layer: int, branch: str) -> float:
    return 1.0


def zeros(kind: str) -> list[Planted]:
    """Gains that should start from zero and do not."""

    def fault(what: str, value: float, branches: tuple[str, ...], where: Layers = everywhere) -> Planted:
        def number(depth: int, layer: int, branch: str) -> float:
            return value if branch in branches and where(layer, depth) else 0.0

        return Planted(
            f"rezero: {what}",
            lambda depth: numbered(depth, number, learned=True),
            vectors,
            "rezero",
            tuple(Wrong(GAINS[branch]) for branch in branches),
        )

    both = ("attn", "mlp")
    return [
        fault("gains of one", 1.0, both),
        fault("gains of one in attention", 1.0, ("attn",)),
        fault("gains of one in the MLP", 1.0, ("mlp",)),
        fault("small gains", 1e-3, both),
        *(fault(f"gains of one in {name}", 1.0, both, where) for name, where in SOME.items()),
    ]


class Deep(nn.Module):
    """LN(αx + f(x)) as in DeepNorm."""

    def __init__(self, alphas: tuple[float, float]) -> None:
        super().__init__()
        self.attn, self.mlp = Attention(), FeedForward()
        self.norm_attn, self.norm_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.alphas = alphas

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm_attn(self.alphas[0] * x + self.attn(x))
        return self.norm_mlp(self.alphas[1] * x + self.mlp(x))


BETA = ("attn.value.weight", "attn.out.weight", "mlp.fc1.weight", "mlp.fc2.weight")


def deep(
    depth: int,
    alpha: Callable[[int], tuple[float, float]],
    beta: Callable[[int], float],
    names: tuple[str, ...] = BETA,
    also: tuple[str, ...] = (),
    where: Layers = everywhere,
) -> nn.Module:
    """Xavier's law; `names` carry the beta, `also` too, and where a layer is left out the right one."""
    model = Stack(depth, lambda: Deep(alpha(depth)))
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_normal_(module.weight)
            nn.init.zeros_(module.bias)
    right = (8 * depth) ** -0.25
    STACK.multiply(model, (*names, *also), lambda layer: beta(depth) if where(layer, depth) else right)
    return model


def deepnorm() -> list[Planted]:
    def alpha(depth: int) -> tuple[float, float]:
        return ((2 * depth) ** 0.25,) * 2

    def beta(depth: int) -> float:
        return (8 * depth) ** -0.25

    def fault(what: str, wrong: tuple[Wrong, ...], **more: Any) -> Planted:
        how = {"alpha": alpha, "beta": beta} | more
        return Planted(f"deepnorm: {what}", functools.partial(deep, **how), vectors, "deepnorm", wrong)

    def skip(factor: float, *names: str) -> tuple[Wrong, ...]:
        return tuple(Wrong(f"skip of blocks.*.{name}", factor) for name in names or ("attn", "mlp"))

    def weights(factor: float, *names: str, layers: tuple[int, ...] = ()) -> tuple[Wrong, ...]:
        return tuple(Wrong(f"blocks.*.{name}", factor, layers) for name in names or BETA)

    a, b = alpha(DEEPEST)[0], beta(DEEPEST)
    return [
        fault("no alpha", skip(1 / a), alpha=lambda depth: (1.0, 1.0)),
        fault("alpha in attention only", skip(1 / a, "mlp"), alpha=lambda depth: (alpha(depth)[0], 1.0)),
        fault("alpha squared", skip(a), alpha=lambda depth: (alpha(depth)[0] ** 2,) * 2),
        fault(
            "alpha of the encoder and decoder",
            skip(0.81 * (DEEPEST**5) ** 0.0625 / a),
            alpha=lambda depth: (0.81 * (depth**5) ** 0.0625,) * 2,
        ),
        fault(
            "alpha of a constant depth",
            skip((2 * CONSTANT) ** 0.25 / a),
            alpha=lambda depth: ((2 * CONSTANT) ** 0.25,) * 2,
        ),
        fault("no beta", weights(1 / b), beta=lambda depth: 1.0),
        fault("beta squared", weights(b), beta=lambda depth: beta(depth) ** 2),
        fault("beta twice too large", weights(2.0), beta=lambda depth: 2 * beta(depth)),
        fault(
            "beta of a constant depth",
            weights((8 * CONSTANT) ** -0.25 / b),
            beta=lambda depth: (8 * CONSTANT) ** -0.25,
        ),
        fault("beta inverted", weights(1 / b**2), beta=lambda depth: 1 / beta(depth)),
        *(
            fault(
                f"no beta in {name}", weights(1 / b, name), names=tuple(each for each in BETA if each != name)
            )
            for name in BETA
        ),
        fault("beta in queries, too", weights(b, "attn.query.weight"), also=("attn.query.weight",)),
        fault("beta in keys, too", weights(b, "attn.key.weight"), also=("attn.key.weight",)),
        *(
            fault(
                f"no beta in {name}",
                weights(1 / b, layers=chosen(where)),
                beta=lambda depth: 1.0,
                where=where,
            )
            for name, where in SOME.items()
        ),
    ]


def without_norm(depth: int, name: str) -> nn.Module:
    """Sandwich norms of gain 1/sqrt(2L), of which one is missing: the projection under it is not scaled."""
    model = plain(Stack(depth, lambda: Block({"attn": Attention(), "mlp": FeedForward()}, "sandwich")))
    for block in model.blocks:
        for branch in ("attn", "mlp"):
            nn.init.constant_(getattr(block, f"after_{branch}").weight, (2 * depth) ** -0.5)
        setattr(block, f"after_{name}", nn.Identity())
    return model


def layer_scale(depth: int, bug: str) -> nn.Module:
    """timm's ViT with LayerScale 1/sqrt(L), for the exponent 1/2."""
    model = vit(depth, init_values=1.0)
    for place, block in enumerate(model.blocks):
        for name in ("ls1", "ls2"):
            forgotten = {
                "reset to one": True,
                "reset in the MLP": name == "ls2",
                "reset in attention": name == "ls1",
                "reset in the second half": 2 * place >= depth,
                "reset in the last layer": place == depth - 1,
            }.get(bug, False)
            value = {"a constant": 0.1, "squared": 1 / depth}.get(bug, depth**-0.5)
            nn.init.constant_(getattr(block, name).gamma, 1.0 if forgotten else value)
    return model


def gains_of_vit() -> list[Planted]:
    named = {"reset in the MLP": ("ls2",), "reset in attention": ("ls1",)}
    some = {
        f"reset in {name}": where for name, where in SOME.items() if name[4:] in ("second half", "last layer")
    }
    bugs = ("reset to one", "reset in the MLP", "reset in attention", *some, "a constant", "squared")
    return [
        Planted(
            f"vit, LayerScale: {bug}",
            functools.partial(layer_scale, bug=bug),
            images,
            0.5,
            tuple(
                Wrong(
                    f"blocks.*.{name}.gamma",
                    DEEPEST**0.5 if bug in some else None,
                    chosen(some.get(bug, everywhere)),
                )
                for name in named.get(bug, ("ls1", "ls2"))
            ),
        )
        for bug in bugs
    ]


def granite(bug: str) -> Planted:
    """Granite's residual_multiplier: one number of the configuration, which no depth enters by itself."""

    def factory(depth: int) -> nn.Module:
        value = {"left out": 1.0, "a constant": 0.22, "1/L": 1 / depth, "1/(L + 1)^½": (depth + 1) ** -0.5}[
            bug
        ]
        return FAMILIES["granite"].factory(depth, residual_multiplier=value)

    wrong = tuple(Wrong(f"multiplier of model.layers.*.{name}") for name in ("self_attn", "mlp"))
    return Planted(f"granite, depth-mup: {bug}", factory, FAMILIES["granite"].batch, "depth-mup", wrong)


def completep(depth: int, layer: int, branch: str) -> float:
    return 1 / depth


def depth_mup(depth: int, layer: int, branch: str) -> float:
    return depth**-0.5


def held_to_a_number(fault: Planted) -> Planted:
    """The same fault of the weights in some layers, where only the exponent 1/2 is expected."""
    return replace(fault, name=fault.name.replace(":", " held to 0.5:"), expected=0.5)


FAULTS: list[Planted] = [
    *(fault for base in WEIGHTS for fault in on_weights(base)),
    *on_numbers("depth-mup", 0.5),
    *on_numbers("completep", 1.0),
    *on_numbers("depth-mup", 0.5, learned=True),
    *on_numbers(0.5, 0.5, learned=True),
    *on_numbers(0.5, 0.5),
    *(held_to_a_number(fault) for fault in on_weights(STACK) if fault.name.split(" in ")[-1] in SOME),
    off_by_one("completep", 1.0, 1),
    off_by_one("completep", 1.0, -1),
    off_by_one("depth-mup", 0.5, 1),
    off_by_one("depth-mup", 0.5, -1),
    twice("depth-mup", 0.5),
    twice("completep", 1.0),
    *zeros("rezero"),
    *deepnorm(),
    *gains_of_vit(),
    *(granite(bug) for bug in ("left out", "a constant", "1/L", "1/(L + 1)^½")),
    *(
        Planted(
            f"sandwich: no norm after {name}",
            functools.partial(without_norm, name=name),
            vectors,
            0.5,
            (Wrong(f"blocks.*.{part}"),),
        )
        for name, part in (("attn", "attn.out.weight"), ("mlp", "mlp.fc2.weight"))
    ),
]
