"""Stacks of blocks that are drawn in a batch are those that their factory builds from the same seeds."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import nn

import deeplimit as dl
from deeplimit.driving import FreshBlocks, blocks as own, drawn_blocks
from deeplimit.driving.path import Grid

WIDTH, DEPTHS, PATHS = 4, (2, 3), 9


class Block(nn.Module):
    """h + depth^-1/2 f(h), f made by a function of the width."""

    def __init__(self, make, depth):
        super().__init__()
        self.scale, self.f = depth**-0.5, make(WIDTH)

    def forward(self, h):
        return h + self.scale * self.f(h)


def orthogonal(width):
    made = nn.Linear(width, width)
    nn.init.orthogonal_(made.weight)
    nn.init.zeros_(made.bias)
    return made


def divided(width):
    made = nn.Linear(width, width, bias=False)
    made.weight.data = torch.randn(width, width) / 2 + torch.eye(width)
    return made


def reinitialised(width):
    made = nn.Linear(width, width)
    nn.init.normal_(made.weight, std=0.3)
    with torch.no_grad():
        made.bias.mul_(0.5).clamp_(-0.1, 0.1)
    return made


class Attribute(nn.Linear):
    """Adds numbers that are no parameters."""

    def __init__(self, width):
        super().__init__(width, width)
        self.push = torch.randn(width)

    def forward(self, h):
        return super().forward(h) + self.push


class Chosen(nn.Linear):
    """What it computes depends on what it drew."""

    def __init__(self, width):
        super().__init__(width, width)
        self.bends = bool(self.weight.sum() > 0)

    def forward(self, h):
        return torch.tanh(super().forward(h)) if self.bends else super().forward(h)


class Ends(nn.Linear):
    """Has another branch for some states, which no batch can take."""

    def forward(self, h):
        return super().forward(h) if h.sum() > 0 else h


class Reads(nn.Linear):
    """Has a number that it read from what it drew, and nobody can see how."""

    def __init__(self, width):
        super().__init__(width, width)
        self.size = float(self.weight.detach().numpy().std())

    def forward(self, h):
        return super().forward(h) / self.size


class Counts(nn.Linear):
    """Writes on a buffer that all draws share."""

    def __init__(self, width):
        super().__init__(width, width)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, h):
        self.calls += 1
        return super().forward(h)


def rarely_from_numpy(width):
    return nn.Linear(width, width, bias=np.random.rand() >= 0)


def rarely_other(width):
    made = nn.Linear(width, width)
    return nn.Identity() if made.weight.abs().max() > 2 else made  # never, but who knows


def sparse(width):
    made = nn.Linear(width, width)
    torch.eye(width).to_sparse()
    return made


def from_numpy(width):
    made = nn.Linear(width, width)
    made.weight.data = torch.tensor(np.random.randn(width, width), dtype=torch.float32)
    return made


def from_python(width):
    made = nn.Linear(width, width)
    nn.init.constant_(made.weight, random.random())
    return made


def own_seed(width):
    torch.manual_seed(3)
    return nn.Linear(width, width)


BATCHED = {
    "linear": lambda width: nn.Linear(width, width),
    "pre-norm": lambda width: nn.Sequential(
        nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
    ),
    "in place": lambda width: nn.Sequential(nn.ReLU(inplace=True), nn.Linear(width, width)),
    "batch norm": lambda width: nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width)),
    "dropout": lambda width: nn.Sequential(nn.Linear(width, width), nn.Dropout(0.5)),
    "orthogonal": orthogonal,
    "randn": divided,
    "drawn again": reinitialised,
}
BUILT = {
    "reads": Reads,
    "rarely from numpy": rarely_from_numpy,
    "rarely other": rarely_other,
    "sparse": sparse,
    "attribute": Attribute,
    "chosen": Chosen,
    "ends": lambda width: Ends(width, width),
    "numpy": from_numpy,
    "python": from_python,
    "own seed": own_seed,
}


def factory(make):
    return lambda depth: [Block(make, depth) for _ in range(depth)]


def traced(make):
    law = FreshBlocks(factory(make), False, (WIDTH,))
    return drawn_blocks.traced(law.build(2), (WIDTH,))


def walked(law, monkeypatch, enough):
    """Return the states after every layer, and one path's blocks of the last."""
    monkeypatch.setattr(own, "ENOUGH", enough)
    path = law.path((1,), Grid(DEPTHS), PATHS, torch.Generator().manual_seed(1), torch.float32)
    found = []
    for j, depth in enumerate(DEPTHS):
        h = torch.linspace(-1, 1, PATHS * WIDTH).reshape(PATHS, WIDTH)
        for _ in range(depth):
            layer = path.layer(j)
            h = layer.product(h)
            found.append(h)
    return found, layer.blocks[2:4]


@pytest.mark.parametrize("name", BATCHED)
def test_a_batch_holds_the_numbers_of_stacks_that_are_built(name, monkeypatch):
    law = FreshBlocks(factory(BATCHED[name]), False, (WIDTH,))
    assert drawn_blocks.traced(law.build(2), (WIDTH,)) is not None
    together, blocks = walked(law, monkeypatch, 2)
    alone, others = walked(law, monkeypatch, 100)
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    for one, other in zip(blocks, others, strict=True):
        assert one.state_dict().keys() == other.state_dict().keys()
        assert all(torch.equal(value, other.state_dict()[key]) for key, value in one.state_dict().items())


@pytest.mark.parametrize("name", BUILT)
def test_what_cannot_be_drawn_again_is_built(name, monkeypatch):
    assert traced(BUILT[name]) is None
    law = FreshBlocks(factory(BUILT[name]), False, (WIDTH,))
    for one, other in zip(walked(law, monkeypatch, 2)[0], walked(law, monkeypatch, 100)[0], strict=True):
        assert torch.equal(one, other)


def test_a_factory_that_is_told_something_else_is_followed(monkeypatch):
    told = {"make": BATCHED["linear"]}
    law = FreshBlocks(lambda depth: [Block(told["make"], depth) for _ in range(depth)], False, (WIDTH,))
    before, _ = walked(law, monkeypatch, 2)
    for make in (reinitialised, Attribute, Reads):
        told["make"] = make
        together, alone = walked(law, monkeypatch, 2)[0], walked(law, monkeypatch, 100)[0]
        for one, other in zip(together, alone, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
        assert not torch.allclose(together[-1], before[-1])


def test_what_all_draws_share_is_each_stacks_own():
    law = FreshBlocks(factory(Counts), False, (WIDTH,))
    for _ in range(2):
        drawn = law.draws(2, range(PATHS), torch.device("cpu"), torch.float32)
        assert isinstance(drawn, own.Together)
        drawn.called(0, torch.ones(PATHS, WIDTH))


def test_a_stack_of_another_seed_does_not_hold_the_numbers_of_a_draw():
    law = FreshBlocks(factory(reinitialised), False, (WIDTH,))
    cpu = torch.device("cpu")
    stacks = drawn_blocks.traced(law.build(2), (WIDTH,)).stacks(
        law.stack(2, 0, cpu, torch.float32), (5, 6), cpu, torch.float32
    )
    assert stacks.hold(law.stack(2, 6, cpu, torch.float32), 1)
    assert not stacks.hold(law.stack(2, 7, cpu, torch.float32), 1)


def test_other_numbers_than_those_of_a_built_stack_are_noticed(monkeypatch):
    assert traced(reinitialised) is not None
    monkeypatch.setattr(drawn_blocks.Replay, "_fill", lambda *given: None)  # nothing is drawn
    assert traced(reinitialised) is None


def test_the_gradient_by_the_states_is_that_of_the_built_blocks(monkeypatch):
    found = []
    for enough in (2, 100):
        monkeypatch.setattr(own, "ENOUGH", enough)
        law = FreshBlocks(factory(BATCHED["pre-norm"]), False, (WIDTH,))
        drawn = law.draws(2, range(PATHS), torch.device("cpu"), torch.float64)
        h = torch.ones(PATHS, WIDTH, dtype=torch.float64, requires_grad=True)
        drawn.called(1, drawn.called(0, h)).square().sum().backward()
        found.append(h.grad)
    torch.testing.assert_close(*found)
    assert isinstance(drawn, own.Built)


class PlainAttribute(nn.Module):
    """Holds a tensor that is neither a parameter nor a buffer: `.double()` leaves it as it is."""

    def __init__(self, depth):
        super().__init__()
        self.weight, self.depth = 0.5 * torch.eye(4), depth

    def forward(self, h):
        return h + h @ self.weight / self.depth


def test_a_tensor_that_is_no_buffer_is_explained_where_it_fails():
    x = torch.ones(3, 4)
    with pytest.raises(RuntimeError) as caught:
        dl.compare(lambda depth: [PlainAttribute(depth)] * depth, lambda t, h: 0.5 * h, x, depths=(4, 8))
    assert any("register_buffer" in note for note in caught.value.__notes__)
