"""Right networks and networks with one planted fault: under which rule each must pass or be caught, and what
must be named.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from depth_image_models import fixup, images, mixer, resnet, vit
from depth_models import albert, bert, gpt, nano_gpt, parallel, sandwich, tokens, torch_encoder, vectors

DEPTHS = [4, 8, 16, 32]
DEEPEST = DEPTHS[-1]
N = 2 * DEEPEST  # branches of a transformer of the largest depth
ROOT_N, ROOT_L = N**0.5, DEEPEST**0.5
HARD_CODED = (N / 24) ** 0.5
FIRST = ((N * (DEEPEST - 4) + 4) / DEEPEST) ** 0.5  # root mean square over blocks of which four are right
ALPHA, BETA = (2 * DEEPEST) ** 0.25, (8 * DEEPEST) ** 0.25


@dataclass(frozen=True)
class Fault:
    """What a finding must name, and by how much it is too large at the largest depth (None: the rule leaves
    it open).
    """

    parameter: str
    factor: float | None = None


@dataclass(frozen=True)
class Case:
    """A network, the rule it is held to, and what must come out.

    `exponent` is the truth for every kind of branch where all have one (inf: updates of exactly zero).
    `number` is the rule's exponent, as one would pass it instead of the name, and `seen_by_number` what must
    come of that: a factor that does not depend on depth cannot be seen by an exponent. None: no such number,
    or either answer is right.
    """

    name: str
    factory: Callable[[int], torch.nn.Module]
    batch: Callable[[int], torch.Tensor]
    expected: str | float
    faults: tuple[Fault, ...] = ()
    exponent: float | None = None
    number: float | None = None
    seen_by_number: bool | None = None

    @property
    def ok(self) -> bool:
        return not self.faults


def faults(*names, factor=None):
    return tuple(Fault(name, factor) for name in names)


def right(name, factory, batch, expected, exponent, number=None):
    return Case(name, factory, batch, expected, (), exponent, number, None if number is None else False)


def wrong(name, factory, batch, expected, found, *, exponent=None, number=None, seen=None):
    assert found
    return Case(name, factory, batch, expected, tuple(found), exponent, number, seen)


def gpt_2(bug, found, *, seen, exponent=None, law="0.02", **options):
    name = f"gpt {law}: {bug}" + "".join(f", {key} {value}" for key, value in options.items())
    options = {"bug": bug, "law": law} | options
    return wrong(
        name, partial(gpt, **options), tokens, "gpt-2", found, exponent=exponent, number=0.5, seen=seen
    )


def multiplied(rule, bug, found, exponent=None):
    number = {"depth-mup": 0.5, "completep": 1.0}[rule]
    factory = partial(gpt, rule=rule, bug=bug, style="torch.add")
    return wrong(f"{rule}: {bug}", factory, tokens, rule, found, exponent=exponent, number=number, seen=True)


def deepnorm(bug, found, *, seen, exponent=None):
    factory = partial(bert, bug=bug)
    return wrong(
        f"deepnorm: {bug}", factory, tokens, "deepnorm", found, exponent=exponent, number=0.75, seen=seen
    )


PROJ, FC2 = "blocks.*.attn.proj.weight", "blocks.*.mlp.fc2.weight"
OUT = (PROJ, FC2)
Q, K, V, FC1 = (
    "blocks.*.attn.q.weight",
    "blocks.*.attn.k.weight",
    "blocks.*.attn.v.weight",
    "blocks.*.mlp.fc1.weight",
)
BIASES = ("blocks.*.attn.proj.bias", "blocks.*.mlp.fc2.bias")
TIMES = ("multiplier of blocks.*.attn", "multiplier of blocks.*.mlp")
NANO = ("transformer.h.*.attn.c_proj.weight", "transformer.h.*.mlp.c_proj.weight")
MIXER = ("blocks.*.token_mlp.fc2.weight", "blocks.*.channel_mlp.fc2.weight")
TORCH = ("encoder.layers.*.self_attn.out_proj.weight", "encoder.layers.*.linear2.weight")
IN_PROJ = "encoder.layers.*.self_attn.in_proj_weight"
GAINS = ("blocks.*.gain1", "blocks.*.gain2")

RIGHT = [
    right("gpt 0.02", gpt, tokens, "gpt-2", 0.5, 0.5),
    right("gpt fan_in", partial(gpt, law="fan_in"), tokens, "gpt-2", 0.5, 0.5),
    right("gpt xavier", partial(gpt, law="xavier", output="dict"), tokens, "gpt-2", 0.5, 0.5),
    right("gpt default, biases scaled too", partial(gpt, law="default"), tokens, "gpt-2", 0.5, 0.5),
    right("gpt in place", partial(gpt, style="f += x", output="tuple"), tokens, "gpt-2", 0.5, 0.5),
    right("gpt with dropout", partial(gpt, style="f + x", dropout=0.1), tokens, "gpt-2", 0.5, 0.5),
    right("gpt bfloat16", partial(gpt, dtype=torch.bfloat16), tokens, "gpt-2", 0.5, 0.5),
    right("nano", nano_gpt, tokens, "gpt-2", 0.5, 0.5),
    right("nano without dropout", partial(nano_gpt, dropout=0.0), tokens, "gpt-2", 0.5, 0.5),
    right("nano autocast", partial(nano_gpt, autocast=True), tokens, "gpt-2", 0.5, 0.5),
    right("depth-mup", partial(gpt, rule="depth-mup"), tokens, "depth-mup", 0.5, 0.5),
    right(
        "depth-mup by alpha=",
        partial(gpt, rule="depth-mup", style="torch.add"),
        tokens,
        "depth-mup",
        0.5,
        0.5,
    ),
    # The constant of Depth-muP and CompleteP is tuned, so that three times as much is as right.
    right(
        "depth-mup, c = 3",
        partial(gpt, rule="depth-mup", bug="3 times too large"),
        tokens,
        "depth-mup",
        0.5,
        0.5,
    ),
    right("completep", partial(gpt, rule="completep"), tokens, "completep", 1.0, 1.0),
    right(
        "completep, c = 1.5",
        partial(gpt, rule="completep", bug="1.5 times too large"),
        tokens,
        "completep",
        1.0,
        1.0,
    ),
    right(
        "completep fan_in",
        partial(gpt, rule="completep", law="fan_in", style="torch.add"),
        tokens,
        "completep",
        1.0,
        1.0,
    ),
    right("deepnorm", bert, tokens, "deepnorm", 0.75, 0.75),
    right("deepnorm with dropout", partial(bert, dropout=0.1), tokens, "deepnorm", 0.75, 0.75),
    right("bert as it is", partial(bert, rule="none"), tokens, 0.0, 0.0),
    right("layerscale", vit, images, 0.5, 0.5),
    right("rezero", partial(vit, kind="rezero", rule="0"), images, "rezero", math.inf),
    right("resnet, last gains zero", resnet, images, "rezero", math.inf),
    right("resnet, last gains 1/sqrt(L)", partial(resnet, rule="1/sqrt(L)"), images, 0.5, 0.5),
    right("resnet as it is", partial(resnet, rule="none"), images, 0.0, 0.0),
    right("mixer fan_in", mixer, images, "gpt-2", 0.5, 0.5),
    right("mixer 0.02", partial(mixer, law="0.02"), images, "gpt-2", 0.5, 0.5),
    right("gpt-j", parallel, tokens, "gpt-2", 0.5, 0.5),
    right("cohere", partial(parallel, order="cohere"), tokens, "gpt-2", 0.5, 0.5),
    right("sandwich", sandwich, tokens, 0.5, 0.5),
    right("torch 0.02", torch_encoder, vectors, "gpt-2", 0.5, 0.5),
    # Out- and in-projections of torch's attention follow different laws, so that only the exponent can be
    # judged.
    right("torch default", partial(torch_encoder, law="default"), vectors, 0.5, 0.5),
    right(
        "torch default with dropout", partial(torch_encoder, law="default", dropout=0.1), vectors, 0.5, 0.5
    ),
    right("albert", albert, tokens, "completep", 1.0, 1.0),
    right("albert, 1/sqrt(2L)", partial(albert, rule="gpt-2"), tokens, "gpt-2", 0.5, 0.5),
    right("fixup", fixup, images, "fixup", math.inf),
]

GPT_BUGS = [
    gpt_2("not applied", faults(*OUT, factor=ROOT_N), seen=True, exponent=0.0),
    gpt_2("not applied", faults(*OUT, factor=ROOT_N), seen=True, exponent=0.0, law="fan_in", style="f += x"),
    gpt_2("not applied", faults(*OUT, factor=ROOT_N), seen=True, exponent=0.0, dtype=torch.bfloat16),
    gpt_2("not applied", faults(*OUT, factor=ROOT_N), seen=True, exponent=0.0, dropout=0.1, output="dict"),
    gpt_2("only the first layers", faults(*OUT, factor=FIRST), seen=True),
    gpt_2("only the first layers", faults(*OUT, factor=FIRST), seen=True, law="fan_in"),
    gpt_2("one branch forgotten", faults(FC2, factor=ROOT_N), seen=True),
    gpt_2("the other branch forgotten", faults(PROJ, factor=ROOT_N), seen=True),
    gpt_2("hard-coded depth", faults(*OUT, factor=HARD_CODED), seen=True, exponent=0.0),
    gpt_2("hard-coded depth", faults(*OUT, factor=HARD_CODED), seen=True, exponent=0.0, law="xavier"),
    gpt_2("fc1 instead of fc2", (Fault(FC2, ROOT_N), Fault(FC1, 1 / ROOT_N)), seen=False),
    gpt_2(
        "fc1 instead of fc2", faults(FC1, FC2), seen=None, law="fan_in"
    ),  # GELU bends: about 0.53 at these depths
    gpt_2("q and k instead of proj", (*faults(Q, K, factor=1 / ROOT_N), Fault(PROJ, ROOT_N)), seen=True),
    gpt_2("v instead of proj", (Fault(V, 1 / ROOT_N), Fault(PROJ, ROOT_N)), seen=False, exponent=0.5),
    gpt_2("all weights", faults(Q, K, V, FC1), seen=True),
    gpt_2("applied twice", faults(*OUT, factor=1 / ROOT_N), seen=True, exponent=1.0),
    gpt_2("init and multiplier", faults(*TIMES, factor=1 / ROOT_L), seen=True, exponent=1.0),
    gpt_2(
        "init and multiplier", faults(*TIMES, factor=1 / ROOT_L), seen=True, exponent=1.0, style="torch.add"
    ),
    gpt_2("3 times too large", faults(*OUT, factor=3.0), seen=False, exponent=0.5),
    # A second layer three times too large for 1/fan_in is 1.5 times too large for equal deviations: which,
    # nobody can tell.
    gpt_2("3 times too large", (Fault(PROJ, 3.0), Fault(FC2)), seen=False, exponent=0.5, law="fan_in"),
    gpt_2("1.5 times too large", faults(*OUT, factor=1.5), seen=False, exponent=0.5),
    gpt_2(
        "1.5 times too large",
        (Fault(PROJ, 1.5), Fault(FC2)),
        seen=False,
        exponent=0.5,
        law="fan_in",
        dropout=0.1,
    ),
    gpt_2("per block instead of per branch", faults(*OUT, factor=2**0.5), seen=False, exponent=0.5),
    gpt_2(
        "per block instead of per branch", faults(*OUT, factor=2**0.5), seen=False, exponent=0.5, law="xavier"
    ),
    # A last bias that is not zero is part of what a branch adds, so that it must shrink as the last weights
    # do.
    gpt_2("bias not scaled", faults(*BIASES), seen=True, law="default"),
]

OTHER_RULES = [
    wrong(
        "gpt-2, asked for depth-mup",
        gpt,
        tokens,
        "depth-mup",
        faults(*OUT, *TIMES),
        exponent=0.5,
        number=0.5,
        seen=False,
    ),
    wrong(
        "gpt-2, asked for completep",
        gpt,
        tokens,
        "completep",
        faults(*OUT, *TIMES),
        exponent=0.5,
        number=1.0,
        seen=True,
    ),
    wrong(
        "depth-mup, asked for gpt-2",
        partial(gpt, rule="depth-mup"),
        tokens,
        "gpt-2",
        faults(*TIMES, factor=1 / ROOT_L) + faults(*OUT, factor=ROOT_N),
        exponent=0.5,
        number=0.5,
        seen=False,
    ),
    wrong(
        "depth-mup, asked for completep",
        partial(gpt, rule="depth-mup"),
        tokens,
        "completep",
        faults(*TIMES),
        exponent=0.5,
        number=1.0,
        seen=True,
    ),
    wrong(
        "completep, asked for depth-mup",
        partial(gpt, rule="completep"),
        tokens,
        "depth-mup",
        faults(*TIMES),
        exponent=1.0,
        number=0.5,
        seen=True,
    ),
    wrong(
        "bert, asked for 1/2",
        partial(bert, rule="none"),
        tokens,
        0.5,
        faults(""),
        exponent=0.0,
        number=0.5,
        seen=True,
    ),
    wrong(
        "resnet, asked for 1/2",
        partial(resnet, rule="none"),
        images,
        0.5,
        faults(""),
        exponent=0.0,
        number=0.5,
        seen=True,
    ),
]

MULTIPLIER_BUGS = [
    multiplied("depth-mup", "not applied", faults(*TIMES), 0.0),
    multiplied("depth-mup", "one branch forgotten", faults(TIMES[1])),
    multiplied("depth-mup", "the other branch forgotten", faults(TIMES[0])),
    multiplied("depth-mup", "only the first layers", faults(*TIMES)),
    multiplied("depth-mup", "hard-coded depth", faults(*TIMES), 0.0),
    multiplied("depth-mup", "applied twice", faults(*TIMES), 1.0),
    multiplied("depth-mup", "init and multiplier", faults(*OUT), 1.0),
    multiplied("completep", "not applied", faults(*TIMES), 0.0),
    multiplied("completep", "one branch forgotten", faults(TIMES[1])),
    multiplied("completep", "only the first layers", faults(*TIMES)),
    multiplied("completep", "hard-coded depth", faults(*TIMES), 0.0),
    multiplied("completep", "applied twice", faults(*TIMES), 2.0),
    multiplied("completep", "init and multiplier", faults(*OUT), 1.5),
    wrong(
        "albert: not applied",
        partial(albert, bug="not applied"),
        tokens,
        "completep",
        faults("multiplier of block.attn", "multiplier of block.mlp"),
        exponent=0.0,
        number=1.0,
        seen=True,
    ),
    wrong(
        "albert: one branch forgotten",
        partial(albert, bug="one branch forgotten"),
        tokens,
        "completep",
        faults("multiplier of block.mlp"),
        number=1.0,
        seen=True,
    ),
]

NANO_BUGS = [
    wrong(
        f"nano{' autocast' if options else ''}: {bug}",
        partial(nano_gpt, bug=bug, **options),
        tokens,
        "gpt-2",
        found,
        number=0.5,
        seen=seen,
    )
    for bug, found, seen, options in [
        ("not applied", faults(*NANO, factor=ROOT_N), True, {}),
        ("not applied", faults(*NANO, factor=ROOT_N), True, {"autocast": True}),
        ("one branch forgotten", faults(NANO[1], factor=ROOT_N), True, {}),
        ("only the first layers", faults(*NANO, factor=FIRST), True, {}),
        ("hard-coded depth", faults(*NANO, factor=HARD_CODED), True, {}),
        ("per block instead of per branch", faults(*NANO, factor=2**0.5), False, {}),
        ("1.5 times too large", faults(*NANO, factor=1.5), False, {}),
        ("applied twice", faults(*NANO, factor=1 / ROOT_N), True, {}),
    ]
]

ALL_FOUR = (V, PROJ, FC1, FC2)
SKIP = ("skip of blocks.*.attn", "skip of blocks.*.mlp")
DEEPNORM_BUGS = [
    deepnorm(
        "not applied",
        (*faults(*ALL_FOUR, factor=BETA), *faults(*SKIP, factor=1 / ALPHA)),
        seen=True,
        exponent=0.0,
    ),
    deepnorm("alpha forgotten", faults(*SKIP, factor=1 / ALPHA), seen=True, exponent=0.5),
    deepnorm("alpha squared", faults(*SKIP, factor=ALPHA), seen=True, exponent=1.0),
    deepnorm("beta forgotten", faults(*ALL_FOUR, factor=BETA), seen=True, exponent=0.25),
    deepnorm("3 times too large", faults(*ALL_FOUR, factor=3.0), seen=None),
    deepnorm("applied twice", faults(*ALL_FOUR, factor=1 / BETA), seen=True, exponent=1.25),
    deepnorm(
        "hard-coded depth",
        (*faults(*ALL_FOUR, factor=BETA / 96**0.25), *faults(*SKIP, factor=24**0.25 / ALPHA)),
        seen=True,
        exponent=0.0,
    ),
    deepnorm(
        "per block instead of per branch",
        (*faults(*ALL_FOUR, factor=2**0.25), *faults(*SKIP, factor=2**-0.25)),
        seen=False,
        exponent=0.75,
    ),
    deepnorm("only the first layers", faults(*ALL_FOUR), seen=True),
    deepnorm("one branch forgotten", faults(FC1, FC2, factor=BETA), seen=True),
    deepnorm("q and k too", faults(Q, K, factor=1 / BETA), seen=False, exponent=0.75),
    deepnorm("v not scaled", faults(V, factor=BETA), seen=True),
    deepnorm("fc1 not scaled", faults(FC1, factor=BETA), seen=True),
    deepnorm(
        "q and k instead of v and proj",
        (*faults(Q, K, factor=1 / BETA), *faults(V, PROJ, factor=BETA)),
        seen=True,
    ),
]

GAIN_BUGS = [
    # Held to a number: no parameter need be named, only the branch.
    *(
        wrong(
            f"layerscale: {bug}",
            partial(vit, bug=bug),
            images,
            0.5,
            faults(""),
            exponent=exponent,
            number=0.5,
            seen=True,
        )
        for bug, exponent in [
            ("gain reset to one", 0.0),
            ("one branch forgotten", None),
            ("only the first layers", None),
            ("hard-coded depth", 0.0),
            ("applied twice", 1.0),
        ]
    ),
    *(
        wrong(f"rezero: {bug}", partial(vit, kind="rezero", rule=rule, bug=bug), images, "rezero", found)
        for bug, rule, found in [
            ("gain reset to one", "0", faults(*GAINS)),
            ("one branch forgotten", "0", faults(GAINS[1])),
            ("only the first layers", "0", faults(*GAINS)),
            ("a small constant", "0", faults(*GAINS)),
            (None, "1/sqrt(L)", faults(*GAINS)),
        ]
    ),
    *(
        wrong(f"resnet, zero gains: {bug}", partial(resnet, bug=bug), images, "rezero", faults(found))
        for bug, found in [
            ("gain reset to one", "layer*.*.bn2.weight"),
            ("one branch forgotten", "layer2.*.bn2.weight"),
            ("only the first layers", "layer*.*.bn2.weight"),
            ("a small constant", "layer*.*.bn2.weight"),
            ("bias not zero", "layer*.*.bn2.bias"),
        ]
    ),
    *(
        wrong(
            f"resnet, 1/sqrt(L): {bug}",
            partial(resnet, rule="1/sqrt(L)", bug=bug),
            images,
            0.5,
            faults(""),
            number=0.5,
            seen=True,
        )
        for bug in ("gain reset to one", "one branch forgotten", "only the first layers", "hard-coded depth")
    ),
    *(
        wrong(
            f"sandwich: {bug}",
            partial(sandwich, bug=bug),
            tokens,
            0.5,
            faults(""),
            exponent=exponent,
            number=0.5,
            seen=True,
        )
        for bug, exponent in [
            ("gain reset to one", 0.0),
            ("projections instead of gains", 0.0),
            ("one branch forgotten", None),
        ]
    ),
    wrong(
        "sandwich: projections instead of gains, by name",
        partial(sandwich, bug="projections instead of gains"),
        tokens,
        "gpt-2",
        faults(""),
        exponent=0.0,
        number=0.5,
        seen=True,
    ),
]

REST = [
    *(
        wrong(
            f"mixer: {bug}", partial(mixer, bug=bug, law=law), images, "gpt-2", found, number=0.5, seen=seen
        )
        for bug, law, found, seen in [
            ("not applied", "fan_in", faults(*MIXER, factor=ROOT_N), True),
            ("one branch forgotten", "fan_in", faults(MIXER[1], factor=ROOT_N), True),
            ("the other branch forgotten", "fan_in", faults(MIXER[0], factor=ROOT_N), True),
            ("only the first layers", "fan_in", faults(*MIXER, factor=FIRST), True),
            ("hard-coded depth", "fan_in", faults(*MIXER, factor=HARD_CODED), True),
            ("1.5 times too large", "0.02", faults(*MIXER, factor=1.5), False),
            ("per block instead of per branch", "0.02", faults(*MIXER, factor=2**0.5), False),
        ]
    ),
    *(
        wrong(
            f"{order}: {bug}",
            partial(parallel, order=order, bug=bug),
            tokens,
            "gpt-2",
            found,
            number=0.5,
            seen=seen,
        )
        for order in ("gpt-j", "cohere")
        for bug, found, seen in [
            ("not applied", faults(*OUT, factor=ROOT_N), True),
            ("one branch forgotten", faults(FC2, factor=ROOT_N), True),
            ("only the first layers", faults(*OUT, factor=FIRST), True),
            ("1.5 times too large", faults(*OUT, factor=1.5), False),
            ("applied twice", faults(*OUT, factor=1 / ROOT_N), True),
        ]
    ),
    *(
        wrong(
            f"torch: {bug}", partial(torch_encoder, bug=bug), vectors, "gpt-2", found, number=0.5, seen=seen
        )
        for bug, found, seen in [
            ("not applied", faults(*TORCH, factor=ROOT_N), True),
            ("one branch forgotten", faults(TORCH[1], factor=ROOT_N), True),
            (
                "in_proj instead of out_proj",
                (Fault(TORCH[0], ROOT_N), Fault(IN_PROJ, 1 / ROOT_N)),
                False,
            ),  # in_proj holds v: the exponent stays 1/2
            ("bias not scaled", faults("encoder.layers.*.linear2.bias"), True),
            ("hard-coded depth", faults(*TORCH, factor=HARD_CODED), True),
            ("per block instead of per branch", faults(*TORCH, factor=2**0.5), False),
        ]
    ),
    wrong(
        "torch default: not applied",
        partial(torch_encoder, law="default", bug="not applied"),
        vectors,
        0.5,
        faults(""),
        exponent=0.0,
        number=0.5,
        seen=True,
    ),
    *(
        wrong(f"fixup: {bug}", partial(fixup, bug=bug), images, "fixup", (found,))
        # Counted from the shallowest network, since nothing in such a branch says how it would be initialised
        # without the rule.
        for bug, found in [
            ("not applied", Fault("layer*.*.conv1.weight", (DEEPEST / DEPTHS[0]) ** 0.5)),
            ("last layer not zero", Fault("layer*.*.conv2.weight")),
            ("exponent of three layers", Fault("layer*.*.conv1.weight", (DEEPEST / DEPTHS[0]) ** 0.25)),
            ("hard-coded depth", Fault("layer*.*.conv1.weight", (DEEPEST / DEPTHS[0]) ** 0.5)),
            ("only the first layers", Fault("layer*.*.conv1.weight")),
            ("applied twice", Fault("layer*.*.conv1.weight", (DEPTHS[0] / DEEPEST) ** 0.5)),
            ("bias not zero", Fault("layer*.*.bias2b")),
        ]
    ),
]

CASES = [*RIGHT, *GPT_BUGS, *OTHER_RULES, *MULTIPLIER_BUGS, *NANO_BUGS, *DEEPNORM_BUGS, *GAIN_BUGS, *REST]
