"""Branches that are added in a way nobody sees through: what counts branches is then not judged."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import deeplimit as dl

WIDTH, DEPTHS = 32, [4, 8, 16]


class Joined(torch.autograd.Function):
    """A sum that no record of torch functions shows as one."""

    @staticmethod
    def forward(ctx, x, y):
        return x + y

    @staticmethod
    def backward(ctx, gradient):
        return gradient, gradient


SUMS = {
    "a function of its own": Joined.apply,
    "stacked and summed": lambda x, y: torch.stack([x, y]).sum(0),
    "stacked last": lambda x, y: torch.stack((x, y), dim=-1).sum(-1),
    "stacked, twice the mean": lambda x, y: 2 * torch.stack([x, y]).mean(0),
    "concatenated and summed": lambda x, y: torch.cat([x[None], y[None]]).sum(0),
    "einsum of a stack": lambda x, y: torch.einsum("kbtd,k->btd", torch.stack([x, y]), torch.ones(2)),
    "a method": lambda x, y: x.add(y),
    "the builtin sum": lambda x, y: sum([x, y]),
}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.o = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.o(nn.functional.scaled_dot_product_attention(q, k, v))


class Block(nn.Module):
    def __init__(self, depth, add, factor):
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn, self.add = Attention(), add
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH, bias=False)
        )
        scale = (2 * depth) ** -0.5
        for layer, times in (
            (self.attn.qkv, 1),
            (self.attn.o, factor * scale),
            (self.mlp[0], 1),
            (self.mlp[2], scale),
        ):
            nn.init.normal_(layer.weight, std=0.02 * times)

    def forward(self, x):
        x = x + self.attn(self.before(x))
        return self.add(x, self.mlp(self.between(x)))


class Network(nn.Module):
    def __init__(self, depth, add, factor=1.0):
        super().__init__()
        self.entry = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList(Block(depth, add, factor) for _ in range(depth))

    def forward(self, x):
        h = self.entry(x)
        for block in self.blocks:
            h = block(h)
        return h


def batch():
    return torch.randn(4, 8, WIDTH, generator=torch.Generator().manual_seed(0))


def check(add, factor=1.0):
    return dl.check_depth(lambda depth: Network(depth, add, factor), DEPTHS, batch=batch(), expected="gpt-2")


@pytest.mark.parametrize("name", SUMS)
def test_correct_attention_beside_a_hidden_mlp_is_not_blamed(name):
    report = check(SUMS[name])
    assert not report.findings, report
    if len(report.branches) == 2:
        assert report.verdict == "as expected"
    else:
        assert report.verdict == "cannot tell"
        assert report.statuses == ("cannot tell",)
        assert any("counts the branches" in text for text in report.reservations)
        assert any("blocks.*.mlp.*.weight" in text for text in report.reservations)


def test_a_sum_that_is_seen_has_no_hidden_branches():
    assert len(check(SUMS["a method"]).branches) == 2
    assert len(check(SUMS["a function of its own"]).branches) == 1


@pytest.mark.parametrize("factor", [0.25, 3.0, 6.0])
def test_what_no_number_of_branches_explains_is_found_all_the_same(factor):
    report = check(SUMS["a function of its own"], factor)
    (finding,) = report.findings
    assert finding.parameter == "blocks.*.attn.o.weight"
    # Up to the root of two: the branches that are not seen may count or not.
    assert abs(math.log(finding.factor / factor)) < math.log(1.6)
    assert report.verdict == "not as expected"
