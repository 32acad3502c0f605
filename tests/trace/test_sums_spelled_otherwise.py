"""Sums of skip and branch that are written without + are the same sums; gates on the skip are refused."""

import math

import pytest
import torch
from hooked_updates import assert_as_hooked
from torch import nn

import deeplimit as dl

WIDTH = 16
DEPTHS = [2, 4, 8]
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def own_generator():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


class Layer(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.back, self.scale = nn.Linear(WIDTH, WIDTH, bias=False), scale

    def forward(self, x):
        return self.scale * self.back(torch.tanh(x))


class Stack(nn.Module):
    def __init__(self, depth, add):
        super().__init__()
        self.entry, self.add = nn.Linear(WIDTH, WIDTH), add
        self.layers = nn.ModuleList(Layer(depth**-0.5) for _ in range(depth))

    def forward(self, x):
        x = self.entry(x)
        for layer in self.layers:
            x = self.add(x, layer(x))
        return x


def states():
    return torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(0))


SUMS = {
    "by names": lambda x, y: torch.add(input=x, other=y),
    "of a stack": lambda x, y: torch.stack([x, y]).sum(0),
    "of a stack at its end": lambda x, y: torch.sum(torch.stack((x, y), dim=-1), dim=-1),
    "twice the mean of a stack": lambda x, y: 2 * torch.stack([x, y]).mean(0),
    "of a concatenation": lambda x, y: torch.cat([x[None], y[None]]).sum(dim=0),
    "of both halves": lambda x, y: 2 * torch.lerp(x, y, 0.5),
    "a product added": lambda x, y: torch.addmm(x, y, torch.eye(WIDTH)),
    "subtracted from": lambda x, y: torch.rsub(-x, y),
}


@pytest.mark.parametrize("add", SUMS.values(), ids=SUMS)
def test_a_sum_in_another_spelling_is_a_residual_sum(add):
    here, plain = (
        dl.check_depth(lambda depth: Stack(depth, how), DEPTHS, batch=states(), expected=0.5)  # noqa: B023
        for how in (add, torch.add)
    )
    (kind,), (wanted,) = here.branches, plain.branches
    assert (kind.kind, kind.counts) == ("layers.*.back", (2, 4, 8))
    assert kind.ratios == pytest.approx(wanted.ratios, rel=1e-5)
    assert kind.exponent == pytest.approx(wanted.exponent, abs=1e-4)


def test_the_update_of_a_stacked_sum_is_what_its_layer_returns():
    found = assert_as_hooked(lambda: Stack(4, SUMS["of a stack"]), states(), lambda model: model.layers)
    assert [branch.output for branch in found] == [(f"layers.{index}.back.weight",) for index in range(4)]


class Convolving(nn.Module):
    """Graph convolutions with an initial residual (GCNII): neighbours, 0.1 of the first state, then addmm."""

    def __init__(self, depth):
        super().__init__()
        self.entry = nn.Linear(WIDTH, WIDTH)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(depth))
        draws = torch.randn(8, 8, generator=torch.Generator().manual_seed(1))
        self.register_buffer("neighbours", draws.softmax(-1))

    def forward(self, x):
        x = first = self.entry(x)
        for index, layer in enumerate(self.layers, start=1):
            share = math.log(0.5 / index + 1)
            h = self.neighbours @ x
            h = h.mul_(0.9).add_(0.1 * first)
            x = torch.addmm(h, h, layer.weight, beta=1 - share, alpha=share).relu()
        return x


def test_graph_convolutions_that_add_by_addmm_are_one_stream():
    report = dl.check_depth(Convolving, DEPTHS, batch=states())
    assert [(kind.kind, kind.counts) for kind in report.branches] == [("layers.*", (2, 4, 8))]


def test_a_gate_on_the_branch_is_a_branch():
    report = dl.check_depth(
        lambda depth: Stack(depth, lambda x, y: x + torch.sigmoid(x) * y), DEPTHS, batch=states()
    )
    assert [(kind.kind, kind.counts) for kind in report.branches] == [("layers.*.back", (2, 4, 8))]


@pytest.mark.parametrize(
    "add",
    [
        lambda x, y: (1 - torch.sigmoid(x)) * x + torch.sigmoid(x) * y,
        lambda x, y: torch.lerp(x, y, torch.sigmoid(x)),
    ],
)
def test_a_gate_on_the_skip_is_refused_by_name_with_the_same_sum_as_a_skip(add):
    class Gate(nn.Module):
        def forward(self, x, y):
            return add(x, y)

    with pytest.raises(ValueError, match=r"add: the stream is multiplied by a gate.* x \+ g \* \(f - x\)"):
        dl.probe(Stack(2, Gate()), states())
    assert dl.probe(Stack(2, lambda x, y: x + torch.sigmoid(x) * (y - x)), states()).depths == (2,)
