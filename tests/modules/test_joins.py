"""Sums written in unusual ways, states scaled or mixed between layers, mixed laws: what a hunt with odd
networks brought up.
"""

import math

import pytest
import torch
from depth_models import GPT, MLP, OUTPUTS, TOKENS, WIDTH, Attention, initialise, rescale, tokens
from torch import nn
from torch.nn import functional as F

import deeplimit as dl

DEPTHS = [2, 4, 8]
pytestmark = pytest.mark.usefixtures("one_thread")


class Block(nn.Module):
    """Two pre-norm branches, joined as the test says."""

    def __init__(self, join):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn, self.mlp, self.join = Attention(), MLP(), join

    def forward(self, x):
        x = self.join(x, self.attn(self.norm1(x)))
        return self.join(x, self.mlp(self.norm2(x)))


class Recalling(GPT):
    """Every block begins with a little of the embedding: 0.9 x + 0.1 x0."""

    def forward(self, batch):
        x = first = self.wte(batch)
        for block in self.blocks:
            x = block(0.9 * x + 0.1 * first)
        return self.head(self.norm(x))


class Arch(GPT):
    """Skips from the first half of the blocks to the second, as in U-shaped transformers."""

    def forward(self, batch):
        x, kept = self.wte(batch), []
        for index, block in enumerate(self.blocks):
            if index < len(self.blocks) // 2:
                kept.append(x)
            else:
                x = x + kept.pop()
            x = block(x)
        return self.head(self.norm(x))


def stack(join, model=GPT):
    def factory(depth, rule="1/sqrt(2L)"):
        made = model([Block(join) for _ in range(depth)])
        initialise(made, "0.02")
        rescale(made.blocks, OUTPUTS, rule, None)
        return made

    return factory


def inplace(x, update):
    update += x
    return update


JOINS = {
    "subtracted": lambda x, update: x - update,
    "in place, into a view": inplace,
    "torch.add(alpha=)": lambda x, update: torch.add(x, update, alpha=2.0),
    "both sides scaled": lambda x, update: 0.5 * (2 * x + 2 * update),
    "shrinking": lambda x, update: (x + update) / math.sqrt(2),
    "lerp of a sum": lambda x, update: torch.lerp(x, x + 2 * update, 0.5),
    "all but the first token": lambda x, update: torch.cat((x[:, :1], x[:, 1:] + update[:, 1:]), 1),
    "masked": lambda x, update: torch.where(torch.ones_like(x, dtype=torch.bool), x + update, x),
    "flattened": lambda x, update: (x.flatten(0, 1) + update.flatten(0, 1)).view_as(x),
    "in another precision": lambda x, update: (x.double() + update.double()).to(x.dtype),
}
STACKS = {name: stack(join) for name, join in JOINS.items()} | {
    "an early state recalled": stack(torch.add, Recalling),
    "skips over the middle": stack(torch.add, Arch),
}


@pytest.mark.parametrize("name", STACKS)
def test_a_sum_is_found_however_it_is_written(name):
    factory = STACKS[name]
    report = dl.check_depth(factory, DEPTHS, batch=tokens(), expected=0.5)
    assert [branch.kind for branch in report.branches] == ["blocks.*.attn", "blocks.*.mlp"]
    assert [branch.counts for branch in report.branches] == [tuple(DEPTHS)] * 2
    assert {finding.parameter.split(" ")[0] for finding in report.findings} <= {"skip", "stream"}, report
    # States that are added once more make a stream grow with depth whatever its branches do.
    departs = name in ("shrinking", "skips over the middle")
    assert report.verdict == ("not as expected" if departs else "as expected"), report
    wrong = dl.check_depth(lambda depth: factory(depth, "none"), DEPTHS, batch=tokens(), expected=0.5)
    assert wrong.verdict == "not as expected", wrong


class Scanning(nn.Module):
    """A gated branch with a depthwise convolution, whose law is torch's own, beside matrices of another."""

    def __init__(self, scale):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.inwards, self.outwards = (
            nn.Linear(WIDTH, 4 * WIDTH, bias=False),
            nn.Linear(2 * WIDTH, WIDTH, bias=False),
        )
        self.conv = nn.Conv1d(2 * WIDTH, 2 * WIDTH, 4, padding=3, groups=2 * WIDTH)
        nn.init.normal_(self.inwards.weight, std=WIDTH**-0.5)
        nn.init.normal_(self.outwards.weight, std=scale * (2 * WIDTH) ** -0.5)

    def forward(self, x):
        inner, gate = self.inwards(self.norm(x)).chunk(2, -1)
        mixed = self.conv(inner.transpose(1, 2))[..., :TOKENS].transpose(1, 2)
        return x + self.outwards(F.silu(mixed) * F.silu(gate))


def test_a_small_weight_does_not_say_how_large_ones_are_initialised():
    def factory(depth):
        return GPT([Scanning(depth**-0.5) for _ in range(depth)])

    report = dl.check_depth(factory, DEPTHS, batch=tokens(), expected="gpt-2")
    assert report.verdict == "as expected", report


@pytest.mark.filterwarnings("ignore")  # torch.jit is deprecated, and warns of what it cannot trace
def test_what_cannot_be_seen_is_refused_with_the_reason():
    factory = STACKS["subtracted"]
    with torch.random.fork_rng():
        traced = torch.jit.trace(Block(torch.add), torch.ones(1, 2, WIDTH), check_trace=False)
    with pytest.raises(TypeError, match="is TorchScript, whose operations cannot be seen"):
        dl.check_depth(lambda depth: traced, DEPTHS, batch=torch.ones(1, 2, WIDTH))

    def hidden(depth):
        model = factory(depth)
        model.forward = torch.no_grad()(model.forward)
        return model

    with pytest.raises(ValueError, match=r"did it run under torch\.no_grad"):
        dl.check_depth(hidden, DEPTHS, batch=tokens())
