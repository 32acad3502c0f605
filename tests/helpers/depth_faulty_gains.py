"""One fault in the gains, zeros or projections of image networks, parallel blocks and torch's encoder."""

from __future__ import annotations

from functools import partial

from depth_block_orders import parallel, sandwich, torch_encoder
from depth_case import DEEPEST, DEPTHS, FC2, FIRST, HARD_CODED, OUT, ROOT_N, Fault, faults, wrong
from depth_image_models import fixup, images, mixer, resnet, vit
from depth_models import tokens, vectors

MIXER = ("blocks.*.token_mlp.fc2.weight", "blocks.*.channel_mlp.fc2.weight")
TORCH = ("encoder.layers.*.self_attn.out_proj.weight", "encoder.layers.*.linear2.weight")
IN_PROJ = "encoder.layers.*.self_attn.in_proj_weight"
GAINS = ("blocks.*.gain1", "blocks.*.gain2")


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
