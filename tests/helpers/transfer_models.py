"""Networks and optimizers in every parametrisation of the table of training checks, right ones and wrong."""

import functools
from dataclasses import dataclass

import pytest
import torch
from torch import nn

BASE = 4


class Block(nn.Module):
    """x + multiplier * V tanh(W norm(x)), or x + multiplier * W tanh(norm(x)) with one weight."""

    def __init__(self, width, layers, multiplier):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.multiplier = multiplier
        self.weights = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))

    def forward(self, x):
        y = self.norm(x)
        for place, weight in enumerate(self.weights):
            y = weight(torch.tanh(y) if place or len(self.weights) == 1 else y)
        return x + self.multiplier * y


class Stack(nn.Module):
    """A pre-norm network whose branches are multiplied by (depth / BASE) ** -exponent."""

    def __init__(self, depth, exponent, layers=2, width=48):
        super().__init__()
        self.embed = nn.Linear(width, width, bias=False)
        scale = (depth / BASE) ** -exponent if exponent else 1.0
        self.blocks = nn.ModuleList(Block(width, layers, scale) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, width, bias=False)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=width**-0.5)

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def inputs(width=48, count=16):
    return torch.randn(count, width, generator=torch.Generator().manual_seed(1))


@dataclass(frozen=True)
class Row:
    """One parametrisation: exponents of multiplier, learning rate and epsilon, and what they are called.

    `wrong` says what is not the claimed rule's: "initialisation", "learning rate", or nothing.
    """

    name: str
    exponent: float
    rate: float
    claims: str
    wrong: tuple[str, ...] = ()
    optimizer: type = torch.optim.Adam
    layers: int = 2
    change: float | None = 0.0
    features: float | None = 0.0


ADAM, ADAMW, SGD = torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD
START, RATE = ("initialisation",), ("learning rate",)
ROWS = (
    Row("SP, lr const", 0, 0, "completep", START, change=0.0, features=0.5),
    Row("SP, lr L^-1/2", 0, -0.5, "depth-mup", START, change=-0.5, features=None),
    Row("multiplier only", 0.5, 0, "depth-mup", RATE, change=0.0, features=0.5),
    Row("Depth-muP", 0.5, -0.5, "depth-mup", change=-0.5),
    Row("CompleteP", 1, 0, "completep", change=0.0),
    Row("a = 1, lr L^-1/2", 1, -0.5, "completep", RATE, change=-0.5, features=-0.5),
    Row("Depth-muP, SGD lr const", 0.5, 0, "depth-mup", optimizer=SGD, change=-0.5),
    Row("CompleteP, SGD lr L", 1, 1, "completep", optimizer=SGD, change=0.0),
    Row("a = 1, SGD lr const", 1, 0, "completep", RATE, optimizer=SGD, change=-1.0, features=-1.0),
    Row("SP, SGD lr const", 0, 0, "depth-mup", START, optimizer=SGD, change=None, features=None),
    Row("one layer, Depth-muP", 0.5, -0.5, "depth-mup", layers=1, change=-0.5),
    Row("one layer, CompleteP", 1, 0, "completep", layers=1, change=0.0),
    Row("AdamW, Depth-muP", 0.5, -0.5, "depth-mup", optimizer=ADAMW, change=-0.5),
    Row("AdamW, CompleteP", 1, 0, "completep", optimizer=ADAMW, change=0.0),
)  # fmt: skip
ORDINARY = (
    "multiplier only",
    "CompleteP",
    "CompleteP, SGD lr L",
    "one layer, Depth-muP",
)


def some_of_the_rows():
    """Every row, of which `make test` runs one for each way to be right or wrong."""
    return [
        pytest.param(row, id=row.name, marks=() if row.name in ORDINARY else pytest.mark.nightly)
        for row in ROWS
    ]


def factory(row, **sizes):
    return functools.partial(Stack, exponent=row.exponent, layers=row.layers, **sizes)


def groups(model, depth, row, rate=None):
    """Return the parameter groups of a row: those in blocks, and the others."""
    rate = rate or (0.35 if row.optimizer is SGD else 8e-4)
    scale = depth / BASE
    inside = [each for name, each in model.named_parameters() if name.startswith("blocks")]
    others = [each for name, each in model.named_parameters() if not name.startswith("blocks")]
    made = [{"params": inside, "lr": rate * scale**row.rate}, {"params": others, "lr": rate}]
    if row.optimizer is not SGD:
        right = 0.5 if row.claims == "depth-mup" else 1.0
        for group in made:
            group["eps"] = 1e-10 * scale**-right
    return made


def optimizer(row, rate=None):
    return lambda model, depth: row.optimizer(groups(model, depth, row, rate))
