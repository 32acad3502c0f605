"""Transformers whose blocks are put together otherwise: post-norm, parallel, sandwich, torch's encoder, tied.

Factories as in `depth_models`: a depth, a rule, and one fault on request.
"""

from __future__ import annotations

import torch
from depth_models import (
    ENDS,
    FIRST,
    GPT,
    HARD_CODED,
    HEADS,
    MLP,
    OUTPUTS,
    RULES,
    VOCABULARY,
    WIDTH,
    Attention,
    PreNorm,
    initialise,
    rescale,
    scale,
)
from torch import nn
from torch.nn import functional as F


class PostNorm(nn.Module):
    """LN(αx + f(x)), as in BERT (α = 1) and DeepNorm."""

    def __init__(self, alpha, dropout=0.0):
        super().__init__()
        self.attn, self.mlp = Attention(causal=False), MLP()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.dropout, self.alpha = nn.Dropout(dropout), alpha

    def forward(self, x):
        x = self.norm1(x * self.alpha + self.dropout(self.attn(x)))
        return self.norm2(x * self.alpha + self.dropout(self.mlp(x)))


def bert(depth, rule="deepnorm", bug=None, law="xavier", dropout=0.0):
    """Post-norm encoder; DeepNorm multiplies the skip by (2L)^¼ and v, proj, fc1 and fc2 by (8L)^-¼."""
    alpha, beta = (2 * depth) ** 0.25, (8 * depth) ** -0.25
    if rule == "none":
        alpha, beta = 1.0, 1.0
    if bug == "hard-coded depth":
        alpha, beta = (2 * HARD_CODED) ** 0.25, (8 * HARD_CODED) ** -0.25
    if bug == "per block instead of per branch":
        alpha, beta = depth**0.25, (4 * depth) ** -0.25
    alpha = {"not applied": 1.0, "alpha forgotten": 1.0, "alpha squared": alpha**2}.get(bug, alpha)
    beta = {
        "not applied": 1.0,
        "beta forgotten": 1.0,
        "3 times too large": 3 * beta,
        "applied twice": beta**2,
    }.get(bug, beta)
    scaled = {
        "q and k too": ("q.weight", "k.weight", "v.weight", "proj.weight", "fc1.weight", "fc2.weight"),
        "v not scaled": ("proj.weight", "fc1.weight", "fc2.weight"),
        "fc1 not scaled": ("v.weight", "proj.weight", "fc2.weight"),
        "q and k instead of v and proj": ("q.weight", "k.weight", "fc1.weight", "fc2.weight"),
        "one branch forgotten": ("v.weight", "proj.weight"),
    }.get(bug, ("v.weight", "proj.weight", "fc1.weight", "fc2.weight"))
    model = GPT([PostNorm(alpha, dropout) for _ in range(depth)], entry=nn.LayerNorm(WIDTH))
    initialise(model, law)
    with torch.no_grad():
        for index, block in enumerate(model.blocks):
            for name, parameter in block.named_parameters():
                if name.endswith(scaled) and not (bug == "only the first layers" and index >= FIRST):
                    parameter.mul_(beta)
    return model


class Parallel(nn.Module):
    """Attention and MLP of the same normalised input: `attn + mlp + x` (GPT-J) or `x + attn + mlp`
    (Cohere).
    """

    def __init__(self, order):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.attn, self.mlp = Attention(), MLP()
        self.order = order

    def forward(self, x):
        h = self.norm(x)
        if self.order == "gpt-j":
            return self.attn(h) + self.mlp(h) + x
        return x + self.attn(h) + self.mlp(h)


def parallel(depth, order="gpt-j", bug=None, law="0.02"):
    """Parallel blocks; the rule counts both branches (N = 2L) however they are added."""
    model = GPT([Parallel(order) for _ in range(depth)], "dict")
    initialise(model, law)
    rescale(model.blocks, ENDS.get(bug, OUTPUTS), "1/sqrt(2L)", bug)
    return model


class Sandwich(nn.Module):
    """x + norm(f(norm(x))): the last norm takes any scale out of the weights before it; only its gain is
    left.
    """

    def __init__(self, gains):
        super().__init__()
        self.pre_attn, self.post_attn, self.pre_mlp, self.post_mlp = (nn.LayerNorm(WIDTH) for _ in range(4))
        self.attn, self.mlp = Attention(), MLP()
        nn.init.constant_(self.post_attn.weight, gains[0])
        nn.init.constant_(self.post_mlp.weight, gains[1])

    def forward(self, x):
        x = x + self.post_attn(self.attn(self.pre_attn(x)))
        return x + self.post_mlp(self.mlp(self.pre_mlp(x)))


def sandwich(depth, bug=None, law="fan_in"):
    """Norms on both sides of a branch; the last one's gain is 1/√(2L). Scaling the projections instead
    does nothing.
    """
    rule = "none" if bug == "projections instead of gains" else "1/sqrt(2L)"
    gains = [[scale(rule, bug, depth, index, name) for name in ("attn", "mlp")] for index in range(depth)]
    model = GPT([Sandwich(pair) for pair in gains])
    initialise(model, law)
    if bug == "projections instead of gains":
        rescale(model.blocks, OUTPUTS, "1/sqrt(2L)", None)
    return model


class Encoder(nn.Module):
    def __init__(self, depth, dropout):
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout, F.gelu, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, depth, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.embedding, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 10)

    def forward(self, vectors):
        return self.head(self.encoder(self.embedding(vectors)).mean(1))


def torch_encoder(depth, bug=None, law="0.02", dropout=0.0):
    """A pre-norm encoder made of torch's layers, which are all copies of one unless each is initialised.

    Weights are N(0, 0.02²), or as torch initialises them.
    """
    model = Encoder(depth, dropout)
    if law == "0.02":
        for parameter in model.encoder.layers.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
    ends = ("self_attn.out_proj.weight", "linear2.weight", "linear2.bias")
    if bug == "in_proj instead of out_proj":
        ends = ("self_attn.in_proj_weight", "linear2.weight", "linear2.bias")
    if bug == "bias not scaled":
        ends = ("self_attn.out_proj.weight", "linear2.weight")
    with torch.no_grad():
        for index, layer in enumerate(model.encoder.layers):
            for name, parameter in layer.named_parameters():
                if name.endswith(ends):
                    branch = "attn" if "attn" in name else "mlp"
                    parameter.mul_(scale("1/sqrt(2L)", bug, depth, index, branch))
    return model


class Albert(nn.Module):
    """One block, applied as often as the depth says."""

    def __init__(self, depth, multipliers):
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, WIDTH)
        self.block = PreNorm(multipliers=multipliers, causal=False)
        self.depth = depth

    def forward(self, tokens):
        x = self.wte(tokens)
        for _ in range(self.depth):
            x = self.block(x)
        return x.mean(1)


def albert(depth, rule="completep", bug=None, law="fan_in"):
    """Tied layers: their updates add up, so that 1/L is what keeps the stream; 1/√L does not."""
    weights, multipliers = RULES[rule]
    pair = tuple(scale(multipliers, bug, depth, 0, name) for name in ("attn", "mlp"))
    model = Albert(depth, pair)
    initialise(model, law)
    with torch.no_grad():
        for end in OUTPUTS:
            model.block.get_parameter(end).mul_(scale(weights, bug, depth))
    return model
