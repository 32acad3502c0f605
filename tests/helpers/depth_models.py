"""Small networks of known residual exponent, in the ways people write them, each with one fault on
request.

A factory takes a depth, a `rule` (how its branches are scaled) and a `bug` (one fault in it, or None).
Depth counts blocks: a transformer of depth L has N = 2L residual branches. The weights come from the
global generator, so a test that builds one by itself does so inside `torch.random.fork_rng()`.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, TOKENS, VOCABULARY = 32, 4, 16, 61
FIRST = 4

# What a rule multiplies at depth L: weights (per branch: N = 2L), multipliers (per block) or gains.
LAWS = {
    "none": lambda depth: 1.0,
    "1/sqrt(2L)": lambda depth: (2 * depth) ** -0.5,
    "1/sqrt(L)": lambda depth: depth**-0.5,
    "1/L": lambda depth: 1 / depth,
    "0": lambda depth: 0.0,
}


def scale(law, bug, depth, block=0, branch="attn"):
    """What the rule multiplies by in this block and branch, with the fault in it."""
    if law == "none":
        return 1.0
    forgotten = {
        "not applied": True,
        "gain reset to one": True,
        "only the first layers": block >= FIRST,
        "one branch forgotten": branch == "mlp",
    }
    if forgotten.get(bug, False):
        return 1.0
    if bug == "per block instead of per branch":
        depth /= 2
    value = LAWS[law](depth)
    wrong = {
        "3 times too large": 3 * value,
        "1.5 times too large": 1.5 * value,
        "applied twice": value**2,
    }
    return wrong.get(bug, value)


def initialise(model, law):
    """Linear layers and embeddings: N(0, 0.02²), N(0, 1/fan_in), Xavier, or left as torch makes them."""
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if not isinstance(module, nn.Linear) or law == "default":
            continue
        if law == "0.02":
            nn.init.normal_(module.weight, std=0.02)
        elif law == "fan_in":
            nn.init.normal_(module.weight, std=module.in_features**-0.5)
        else:
            nn.init.xavier_normal_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def rescale(blocks, ends, law, bug):
    """The rule on initial weights: what ends so is multiplied, block by block."""
    with torch.no_grad():
        for index, block in enumerate(blocks):
            for name, parameter in block.named_parameters():
                if name.endswith(ends):
                    parameter.mul_(scale(law, bug, len(blocks), index, name.split(".")[0]))


# Output projections, and what a hurried reader takes for them.
ENDS = {
    "fc1 instead of fc2": ("attn.proj.weight", "mlp.fc1.weight"),
    "q and k instead of proj": ("attn.q.weight", "attn.k.weight", "mlp.fc2.weight"),
    "all weights": ("q.weight", "k.weight", "v.weight", "proj.weight", "fc1.weight", "fc2.weight"),
    "bias not scaled": ("attn.proj.weight", "mlp.fc2.weight"),
}
OUTPUTS = ("attn.proj.weight", "attn.proj.bias", "mlp.fc2.weight", "mlp.fc2.bias")


class Attention(nn.Module):
    """Four projections of their own, causal, the softmax by hand."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.proj = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = (m(x).view(batch, tokens, HEADS, -1).transpose(1, 2) for m in (self.q, self.k, self.v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // HEADS)
        later = torch.ones(tokens, tokens, dtype=torch.bool, device=x.device).triu(1)
        scores = scores.masked_fill(later, -math.inf)
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, tokens, width))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class PreNorm(nn.Module):
    """x + f(norm(x)), twice. The style is how the sum is written; the multipliers are numbers, as in
    Depth-muP and CompleteP.
    """

    def __init__(self, style="x = x + f", multipliers=(1.0, 1.0), dropout=0.0):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn, self.mlp = Attention(), MLP()
        self.dropout = nn.Dropout(dropout)
        self.style, self.multipliers = style, multipliers

    def forward(self, x):
        for norm, branch, multiplier in zip(
            (self.norm1, self.norm2), (self.attn, self.mlp), self.multipliers, strict=True
        ):
            residual, update = x, self.dropout(branch(norm(x)))
            if self.style == "torch.add":
                x = torch.add(residual, update, alpha=multiplier)
            elif multiplier != 1.0:
                x = residual + multiplier * update
            elif self.style == "f += x":
                update += residual
                x = update
            elif self.style == "f + x":
                x = update + residual
            else:
                x = x + update
        return x


class GPT(nn.Module):
    """Embeddings, blocks, a last norm and a head; `output` is what the model returns."""

    def __init__(self, blocks, output="logits"):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.blocks = nn.ModuleList(blocks)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.output = output

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        if self.output == "dict":
            return {"logits": logits, "loss": None, "hidden": (x,)}
        return (logits, (x, None)) if self.output == "tuple" else logits


RULES = {  # the rule on weights, the rule on multipliers
    "none": ("none", "none"),
    "gpt-2": ("1/sqrt(2L)", "none"),
    "depth-mup": ("none", "1/sqrt(L)"),
    "completep": ("none", "1/L"),
}


def gpt(
    depth,
    rule="gpt-2",
    bug=None,
    law="0.02",
    style="x = x + f",
    output="logits",
    dropout=0.0,
    dtype=None,
    autocast=False,
):
    """Pre-norm transformer with its own attention; the rule on its output projections or on its
    multipliers.
    """
    weights, multipliers = RULES[rule]
    if bug == "init and multiplier":
        weights, multipliers = "1/sqrt(2L)", ("1/sqrt(L)" if rule == "gpt-2" else multipliers)
    factors = [
        tuple(scale(multipliers, bug, depth, index, name) for name in ("attn", "mlp"))
        for index in range(depth)
    ]
    model = GPT([PreNorm(style, pair, dropout) for pair in factors], output)
    initialise(model, law)
    rescale(model.blocks, ENDS.get(bug, OUTPUTS), weights, bug)
    if autocast:
        model.forward = torch.autocast("cpu", dtype=torch.bfloat16)(model.forward)
    return model if dtype is None else model.to(dtype)


def tokens(seed=0):
    return torch.randint(0, VOCABULARY, (2, TOKENS), generator=torch.Generator().manual_seed(seed))
