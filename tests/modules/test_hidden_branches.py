"""Branches that are added in a way nobody sees through: what counts branches is then not judged."""

from __future__ import annotations

import math

import pytest
import torch
from planted_faults import plain
from stand_in_mixers import WIDTH, Attention, FeedForward
from stand_in_stacks import Stack, vectors
from torch import nn

import deeplimit as dl

DEPTHS = [4, 8, 16]


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


class Block(nn.Module):
    def __init__(self, depth, add, factor):
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn, self.mlp, self.add = Attention(), FeedForward(), add
        plain(self)
        with torch.no_grad():
            self.attn.out.weight.mul_(factor * (2 * depth) ** -0.5)
            self.mlp.fc2.weight.mul_((2 * depth) ** -0.5)

    def forward(self, x):
        x = x + self.attn(self.before(x))
        return self.add(x, self.mlp(self.between(x)))


def check(add, factor=1.0):
    def factory(depth):
        return Stack(depth, lambda: Block(depth, add, factor))

    return dl.check_depth(factory, DEPTHS, batch=vectors(), expected="gpt-2")


@pytest.mark.parametrize("name", SUMS)
def test_correct_attention_beside_a_hidden_mlp_is_not_blamed(name):
    report = check(SUMS[name])
    assert not report.findings, report
    assert len(report.branches) == {"a function of its own": 1, "a method": 2}.get(name, len(report.branches))
    if len(report.branches) == 2:
        assert report.verdict == "as expected"
    else:
        assert report.verdict == "cannot tell"
        assert report.statuses == ("cannot tell",)
        assert any("blocks.*.mlp." in text for text in report.reservations)


@pytest.mark.parametrize("factor", [0.25, 3.0, 6.0])
def test_what_no_number_of_branches_explains_is_found_all_the_same(factor):
    report = check(SUMS["a function of its own"], factor)
    (finding,) = report.findings
    assert finding.parameter == "blocks.*.attn.out.weight"
    # Up to the root of two: the branches that are not seen may count or not.
    assert abs(math.log(finding.factor / factor)) < math.log(1.6)
    assert report.verdict == "not as expected"
