"""Right networks and networks with one planted fault: their rule, what must come out and what must be named.

Faults that `planted_faults` has are not repeated: these are in other laws of weights, precisions, biases,
zero gains of a batch norm, torch's fused attention, layers that are shared, and Fixup.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from depth_image_models import fixup, images, resnet
from depth_models import gpt, scale, tokens
from planted_faults import plain
from stand_in_stacks import power, stack, torch_encoder, vectors
from torch import nn

DEPTHS = [4, 8, 16]
DEEPEST = DEPTHS[-1]
ROOT_N, ROOT_L = (2 * DEEPEST) ** 0.5, DEEPEST**0.5  # a transformer of the largest depth has 2L branches
COUNTED = ROOT_L / DEPTHS[0] ** 0.5  # from the shallowest network, where nothing else says what is right


@dataclass(frozen=True)
class Case:
    """A network, the rule it is held to, and what must come out.

    faults: what findings must name, and how many times too large it is at the largest depth (None: the rule
        leaves it open). An exponent that is held to names no parameter: "".
    exponent: the truth for every kind of branch where all have one (inf: updates of exactly zero).
    """

    name: str
    factory: Callable[[int], torch.nn.Module]
    batch: Callable[[int], torch.Tensor]
    expected: str | float
    faults: dict[str, float | None] | None = None
    exponent: float | None = None


def encoder(depth, bug=None, law="0.02"):
    """torch's own encoder, whose layers are all copies of one unless each is initialised."""
    model = torch_encoder(depth)
    for layer in model.layers:  # weights and biases of every layer apart
        for linear in (layer.self_attn.out_proj, layer.linear1, layer.linear2):
            linear.reset_parameters()
        layer.self_attn._reset_parameters()
    if law == "0.02":
        for parameter in model.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
    ends = ["self_attn.out_proj.weight", "linear2.weight", "linear2.bias"]
    if bug == "in_proj instead of out_proj":
        ends[0] = "self_attn.in_proj_weight"
    if bug == "bias not scaled":
        ends.remove("linear2.bias")
    with torch.no_grad():
        for index, layer in enumerate(model.layers):
            for name, parameter in layer.named_parameters():
                if name.endswith(tuple(ends)):
                    branch = "attn" if "attn" in name else "mlp"
                    parameter.mul_(scale("1/sqrt(2L)", bug, depth, index, branch))
    return model


def shared(depth, bug=None):
    """One block, applied as often as the depth says: updates add up, so that 1/L is what keeps the stream."""
    model = plain(stack(depth, scale=power(1.0), shared=True))
    for name in ("attn", "mlp"):
        getattr(model.blocks[0], f"scale_{name}").gain = scale("1/L", bug, depth, 0, name)
    return model


def rows(seed=0):
    return vectors()


def right(name, factory, batch, expected, exponent):
    return Case(name, factory, batch, expected, None, exponent)


def each(*names, factor=None):
    return dict.fromkeys(names, factor)


def gpt_2(bug, found, law="0.02", **options):
    name = f"gpt {law}: {bug}" + "".join(f", {key} {value}" for key, value in options.items())
    return Case(name, partial(gpt, bug=bug, law=law, **options), tokens, "gpt-2", found)


RIGHT = [
    right("gpt xavier", partial(gpt, law="xavier", output="dict"), tokens, "gpt-2", 0.5),
    right("gpt default, biases scaled too", partial(gpt, law="default"), tokens, "gpt-2", 0.5),
    right("gpt in place", partial(gpt, style="f += x", output="tuple"), tokens, "gpt-2", 0.5),
    right("gpt with dropout", partial(gpt, style="f + x", dropout=0.1), tokens, "gpt-2", 0.5),
    right("gpt bfloat16", partial(gpt, dtype=torch.bfloat16), tokens, "gpt-2", 0.5),
    right("gpt autocast", partial(gpt, autocast=True), tokens, "gpt-2", 0.5),
    # The constant of Depth-muP and CompleteP is tuned, so that three times as much is as right.
    right(
        "depth-mup, c = 3", partial(gpt, rule="depth-mup", bug="3 times too large"), tokens, "depth-mup", 0.5
    ),
    right(
        "completep fan_in",
        partial(gpt, rule="completep", law="fan_in", style="torch.add"),
        tokens,
        "completep",
        1.0,
    ),
    right("torch 0.02", encoder, rows, "gpt-2", 0.5),
    # Out- and in-projections of torch's attention follow different laws: only the exponent can be judged.
    right("torch default", partial(encoder, law="default"), rows, 0.5, 0.5),
    right("shared", shared, rows, "completep", 1.0),
    right("resnet, last gains zero", resnet, images, "rezero", math.inf),
    right("resnet, last gains 1/sqrt(L)", partial(resnet, rule="1/sqrt(L)"), images, 0.5, 0.5),
    right("resnet as it is", partial(resnet, rule="none"), images, 0.0, 0.0),
    right("fixup", fixup, images, "fixup", math.inf),
]

PROJ, FC2 = "blocks.*.attn.proj.weight", "blocks.*.mlp.fc2.weight"
Q, K, V, FC1 = (f"blocks.*.{name}.weight" for name in ("attn.q", "attn.k", "attn.v", "mlp.fc1"))
BIASES = ("blocks.*.attn.proj.bias", "blocks.*.mlp.fc2.bias")
TIMES = ("multiplier of blocks.*.attn", "multiplier of blocks.*.mlp")
ATTENTION, MLP = "layers.*.self_attn.out_proj.weight", "layers.*.linear2.weight"

WRONG = [
    gpt_2("not applied", each(PROJ, FC2, factor=ROOT_N), dtype=torch.bfloat16),
    gpt_2("not applied", each(PROJ, FC2, factor=ROOT_N), dropout=0.1, autocast=True),
    gpt_2("only the first layers", each(PROJ, FC2, factor=ROOT_N), law="fan_in"),  # of those that depart
    gpt_2("fc1 instead of fc2", {FC2: ROOT_N, FC1: 1 / ROOT_N}),
    gpt_2("q and k instead of proj", each(Q, K, factor=1 / ROOT_N) | {PROJ: ROOT_N}),
    gpt_2("all weights", each(Q, K, V, FC1)),
    gpt_2("applied twice", each(PROJ, FC2, factor=1 / ROOT_N)),
    gpt_2("init and multiplier", each(*TIMES, factor=1 / ROOT_L), style="torch.add"),
    gpt_2("1.5 times too large", each(PROJ, FC2, factor=1.5)),
    # A second layer 1.5 times too large for 1/fan_in is too small for equal deviations: nobody can tell.
    gpt_2("1.5 times too large", {PROJ: 1.5, FC2: None}, law="fan_in", dropout=0.1),
    gpt_2("per block instead of per branch", each(PROJ, FC2, factor=2**0.5), law="xavier"),
    # A last bias that is not zero is part of what a branch adds, so that it must shrink as the weights do.
    gpt_2("bias not scaled", each(*BIASES), law="default"),
    Case("gpt-2, asked for completep", gpt, tokens, "completep", each(PROJ, FC2, *TIMES)),
    Case(
        "depth-mup, asked for gpt-2",
        partial(gpt, rule="depth-mup"),
        tokens,
        "gpt-2",
        each(*TIMES, factor=1 / ROOT_L) | each(PROJ, FC2, factor=ROOT_N),
    ),
    Case("resnet, asked for 1/2", partial(resnet, rule="none"), images, 0.5, each("")),
    *(
        Case(f"shared: {bug}", partial(shared, bug=bug), rows, "completep", each(*found))
        for bug, found in (
            ("not applied", ("multiplier of blocks.0.attn", "multiplier of blocks.0.mlp")),
            ("one branch forgotten", ("multiplier of blocks.0.mlp",)),
        )
    ),
    *(
        Case(f"torch: {bug}", partial(encoder, bug=bug), rows, "gpt-2", found)
        for bug, found in [
            ("one branch forgotten", {MLP: ROOT_N}),
            # in_proj holds v: the exponent stays 1/2
            (
                "in_proj instead of out_proj",
                {ATTENTION: ROOT_N, "layers.*.self_attn.in_proj_weight": 1 / ROOT_N},
            ),
            ("bias not scaled", each("layers.*.linear2.bias")),
        ]
    ),
    *(
        Case(f"resnet, zero gains: {bug}", partial(resnet, bug=bug), images, "rezero", each(found))
        for bug, found in [
            ("gain reset to one", "layer*.*.bn2.weight"),
            ("one branch forgotten", "layer2.*.bn2.weight"),
            ("only the first layers", "layer*.*.bn2.weight"),
            ("bias not zero", "layer*.*.bn2.bias"),
        ]
    ),
    Case(
        "resnet, 1/sqrt(L): gain reset to one",
        partial(resnet, rule="1/sqrt(L)", bug="gain reset to one"),
        images,
        0.5,
        each(""),
    ),
    *(
        Case(f"fixup: {bug}", partial(fixup, bug=bug), images, "fixup", found)
        for bug, found in [
            ("not applied", {"layer*.*.conv1.weight": COUNTED}),
            ("last layer not zero", each("layer*.*.conv2.weight")),
            ("exponent of three layers", {"layer*.*.conv1.weight": COUNTED**0.5}),
            ("only the first layers", each("layer*.*.conv1.weight")),
            ("applied twice", {"layer*.*.conv1.weight": 1 / COUNTED}),
            ("bias not zero", each("layer*.*.bias2b")),
        ]
    ),
]
