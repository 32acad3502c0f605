"""Rows to which GPT-2's rule is applied: output projections of branches times 1/sqrt(2L), as people do it."""

from __future__ import annotations

import dataclasses
import re

import torch
from configurations import Configuration
from configurations_images import HUGGING, TIMM
from configurations_own import STACKS
from configurations_text import TEXT
from torch import nn

# Weights that project back to the stream, and their biases, by what their names end with.
OUTPUTS = re.compile(
    r"(o_proj|out_proj|down_proj|c_proj|attn\.proj|attn\.dense|mlp\.fc2|fc2|attention\.output\.dense"
    r"|(layers?|layer)\.\d+\.output\.dense|self_attn\.dense|attn\.out|mlp\.fc2|dense_4h_to_h|attention\.dense)"
    r"(\.weight|\.bias)?$|mlp\.down$"
)


def scaled(row: Configuration) -> Configuration:
    """The same network with the rule."""

    def factory(depth: int) -> nn.Module:
        model = row.factory(depth)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if OUTPUTS.search(name):
                    parameter.mul_((2 * depth) ** -0.5)
        return model

    layout = {stem: " ".join(f"{word}^0.5" for word in text.split()) for stem, text in row.layout.items()}
    return dataclasses.replace(
        row, name=f"{row.name}-gpt-2", factory=factory, layout=layout, expected="gpt-2"
    )


CHOSEN = (
    "Arcee Cwm Gemma Glm GptOss GraniteSWA Helium Jais2 Mistral Mixtral Qwen2 Qwen3 Qwen3Moe Phi3 SmolLM3"
    " Starcoder2 Olmoe Ernie4_5 DeepseekV2 Dots1 AriaText Phi Whisper BioGpt Pegasus XGLM"
)
NAMES = {f"{name}ForCausalLM" for name in CHOSEN.split()} | {
    "RobertaModel",
    "ElectraForCausalLM",
    "EsmModel",
    "Dinov2Model",
    "SiglipVisionModel",
    "timm-vit-qk-norm",
    "timm-vit-registers",
    "timm-deit-distilled",
    "timm-vit-parallel",
    *(f"mixer-{name}" for name in ("softmax", "linear", "retention", "alibi", "local", "relu", "talking")),
    *(f"mixer-{name}" for name in ("grouped-query", "multi-query", "state-space", "token-mlp")),
    *(f"feed-{name}" for name in ("relu", "silu", "relu2", "swiglu", "glu", "experts", "soft-experts")),
    "feed-experts-as-many-as-width",
    "post-norm",
    "parallel",
    "rms-norm",
    "subtracted",
    "in-place",
}
SCALED = [scaled(row) for row in (*TEXT, *HUGGING, *TIMM, *STACKS) if row.name in NAMES]
