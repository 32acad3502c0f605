"""Residual stacks in plain torch whose scaling is known in closed form, for the depth checks."""

import math

import torch
from torch import nn

from deeplimit.common.global_state import seeded


class Res1(nn.Module):
    """h + depth^-exponent V tanh(h), V with entries N(0, 1/d): the network res-1 of Marion et al. (2025), as
    a module.
    """

    def __init__(self, depth, width=32, exponent=0.5, tied=False, gain=1.0):
        super().__init__()
        self.entry = nn.Linear(6, width)
        count = 1 if tied else depth
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(count))
        for layer in self.layers:
            nn.init.normal_(layer.weight, std=1 / math.sqrt(width))
        self.depth, self.scale = depth, gain * depth**-exponent

    def forward(self, x):
        h = self.entry(x)
        for k in range(self.depth):
            h = h + self.scale * self.layers[k % len(self.layers)](torch.tanh(h))
        return h


class Block(nn.Module):
    """A pre-norm block of two branches, attention and MLP, each with a residual scale of its own."""

    def __init__(self, width, scale, dropout=0.0):
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, dropout=dropout, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(dropout), nn.Linear(2 * width, width)
        )
        with torch.no_grad():
            self.attention.out_proj.weight.mul_(scale)
            self.mlp[3].weight.mul_(scale)
            self.mlp[3].bias.zero_()

    def forward(self, x):
        y = self.before(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.between(x))


class Transformer(nn.Module):
    """Tokens to logits through `depth` blocks, with output projections scaled by N^-exponent, N = 2 depth
    branches.
    """

    def __init__(self, depth, width=32, exponent=0.5, dropout=0.0, gives="logits"):
        super().__init__()
        self.embedding = nn.Embedding(50, width)
        self.blocks = nn.ModuleList(Block(width, (2 * depth) ** -exponent, dropout) for _ in range(depth))
        self.head = nn.Linear(width, 50)
        self.gives = gives

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        logits = self.head(x)
        return {"logits": logits, "dict": {"state": x, "logits": logits}, "tuple": (logits, (x, None))}[
            self.gives
        ]


def tokens(rows=2, length=12, seed=0):
    return torch.randint(0, 50, (rows, length), generator=torch.Generator().manual_seed(seed))


def vectors(rows=8, seed=0):
    return torch.randn(rows, 6, generator=torch.Generator().manual_seed(seed))


def make(kind, **how):
    with seeded(0):
        return kind(**how)


class BatchNormed(nn.Module):
    def __init__(self, depth=3):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(8, 8, 3, padding=1, bias=False),
                nn.BatchNorm2d(8),
                nn.ReLU(),
                nn.Conv2d(8, 8, 3, padding=1),
            )
            for _ in range(depth)
        )

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = torch.relu(x + block(x))
        return x


def images(seed=0):
    return torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(seed))
