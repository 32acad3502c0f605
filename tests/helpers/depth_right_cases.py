"""Networks that follow their rule, and so must pass."""

from __future__ import annotations

import math
from functools import partial

import torch
from depth_block_orders import albert, bert, parallel, sandwich, torch_encoder
from depth_case import right
from depth_image_models import fixup, images, mixer, resnet, vit
from depth_models import gpt, nano_gpt, tokens, vectors

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
