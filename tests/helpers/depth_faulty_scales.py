"""One fault in the weights, multipliers or skips of a transformer that GPT-2's rule, Depth-muP, CompleteP or
DeepNorm scales, and networks held to another rule than theirs.
"""

from __future__ import annotations

from functools import partial

import torch
from depth_block_orders import albert, bert
from depth_case import (
    DEEPEST,
    FC1,
    FC2,
    FIRST,
    HARD_CODED,
    OUT,
    PROJ,
    ROOT_L,
    ROOT_N,
    Fault,
    K,
    Q,
    V,
    faults,
    wrong,
)
from depth_image_models import images, resnet
from depth_models import gpt, nano_gpt, tokens

ALPHA, BETA = (2 * DEEPEST) ** 0.25, (8 * DEEPEST) ** 0.25


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


BIASES = ("blocks.*.attn.proj.bias", "blocks.*.mlp.fc2.bias")
TIMES = ("multiplier of blocks.*.attn", "multiplier of blocks.*.mlp")
NANO = ("transformer.h.*.attn.c_proj.weight", "transformer.h.*.mlp.c_proj.weight")


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
