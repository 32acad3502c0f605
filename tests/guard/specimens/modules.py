"""`check_depth`, `probe` and `branch_scalars` on small modules."""

from __future__ import annotations

import functools

import torch
from torch import nn

import deeplimit as dl

from .shared import normal


def built(make, seed=0):
    """Build a module from a seed, leaving the global generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


class Stack(nn.Module):
    """h + scale · V tanh(h), V with entries N(0, 1/d): res-1 as a module."""

    def __init__(self, depth, exponent, gain=None):
        super().__init__()
        self.entry = nn.Linear(6, 16)
        self.layers = nn.ModuleList(nn.Linear(16, 16, bias=False) for _ in range(depth))
        for layer in self.layers:
            nn.init.normal_(layer.weight, std=0.25)
        self.gains = None if gain is None else nn.ParameterList(torch.full((1,), gain) for _ in range(depth))
        self.scale = depth**-exponent

    def forward(self, x):
        h = self.entry(x)
        for k, layer in enumerate(self.layers):
            branch = self.scale * layer(torch.tanh(h))
            h = h + (branch if self.gains is None else self.gains[k] * branch)
        return h


class Block(nn.Module):
    """A pre-norm block of attention and MLP."""

    def __init__(self, scale):
        super().__init__()
        self.before, self.between = nn.LayerNorm(16), nn.LayerNorm(16)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        with torch.no_grad():
            self.attention.out_proj.weight.mul_(scale)
            self.mlp[2].weight.mul_(scale)
            self.mlp[2].bias.zero_()

    def forward(self, x):
        y = self.before(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.between(x))


class Transformer(nn.Module):
    """Tokens to logits; the output projections of N = 2 depth branches are scaled by N^-exponent."""

    def __init__(self, depth, exponent=0.5):
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.blocks = nn.ModuleList(Block((2 * depth) ** -exponent) for _ in range(depth))
        self.head = nn.Linear(16, 20)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Images(nn.Module):
    """A residual stack of convolutions with batch norm, all branches of which stay as large at any depth."""

    def __init__(self, depth):
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(6, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 6, 1)
            )
            for _ in range(depth)
        )

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = torch.relu(x + block(x))
        return x.mean(dim=(2, 3))


def squared(output):
    return output.square().mean()


def tokens():
    return torch.arange(24).reshape(2, 12) * 7 % 20


def checked(factory, batch, **how):
    return dl.check_depth(factory, **{"depths": (2, 4, 8), "batch": batch, **how})


DEPTH = {
    "sde": lambda: checked(
        lambda depth: Stack(depth, 0.5), normal(4, 6), expected=0.5, depths=(4, 8, 16, 32)
    ),
    "ode": lambda: checked(lambda depth: Stack(depth, 1.0), normal(4, 6), loss=squared),
    "forgotten": lambda: checked(lambda depth: Stack(depth, 0.0), normal(4, 6), expected=0.5, seed=4),
    "rezero": lambda: checked(lambda depth: Stack(depth, 0.0, gain=0.0), normal(4, 6), expected="rezero"),
    "transformer-gpt-2": lambda: checked(Transformer, tokens(), expected="gpt-2"),
    "transformer-exponent": lambda: checked(
        functools.partial(Transformer, exponent=1.0), tokens(), expected=0.5, tolerance=0.2, confidence=0.9
    ),
    "transformer-some-blocks": lambda: checked(
        Transformer, tokens(), blocks="blocks.*", expected="completep"
    ),
    "encoder": lambda: checked(
        lambda depth: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), depth),
        normal(2, 5, 16),
        expected=0.5,
    ),
    "images": lambda: checked(Images, normal(2, 3, 8, 8), expected="fixup"),
    "probe": lambda: dl.probe(built(lambda: Transformer(3)), tokens()),
    "probe-gpt-2": lambda: dl.probe(
        built(lambda: Transformer(3, exponent=0.0)), tokens(), expected="gpt-2", seed=2
    ),
}


def branch_scalars():
    return dl.branch_scalars(built(lambda: Transformer(3)), tokens())
