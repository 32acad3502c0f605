"""What the autograd graph is read for: skips through sums without weights, scales, streams that merge."""

import copy

import pytest
import torch
from residual_stacks import WIDTH, Stack, made, states
from torch import nn

import deeplimit as dl

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_branch_beside_a_sum_without_weights_is_a_branch():
    """x + fourier(x) + f(x): the second sum begins where the first does."""
    model = made(Stack, 3, lambda x, update: (x + torch.fft.fft(x).real) + update)
    assert [branch.output for branch in dl.find_branches(model, states())] == [
        (f"layers.{index}.weight",) for index in range(3)
    ]


def test_a_scale_of_the_skip_that_takes_several_steps_to_make_is_a_scale():
    scale = nn.Parameter(torch.zeros(()))
    model = made(Stack, 3, lambda x, update: x * (2 * scale.exp() / (1 + (2 * scale).exp())) + update)
    model.scale = scale
    (branch,) = dl.probe(model, states()).branches
    assert (branch.kind, branch.counts) == ("layers.*", (3,))


def test_a_stream_made_of_two_goes_on_with_the_later_one():
    class Merging(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.both = (made(Stack, 2) for _ in range(3))
            self.both.entry = nn.Identity()

        def forward(self, x):
            return self.both(torch.maximum(self.first(x), self.second(x)))

    found = dl.find_branches(made(Merging), states())
    assert [branch.stream for branch in found] == [0, 0, 1, 1, 1, 1]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.back = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, bias):
        q = self.query(x)
        return self.back((q @ q.mT + bias).softmax(-1) @ q)


class Encoder(nn.Module):
    """Attention with a bias that all layers share: of positions, of tokens, or a stream that goes on."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.embedding, self.positions = nn.Embedding(20, WIDTH), nn.Embedding(20, 6)
        parts = {"feed": nn.Linear(WIDTH, WIDTH)} | (
            {"pair": nn.Linear(WIDTH, 6)} if kind == "stream" else {}
        )
        self.layer = nn.ModuleList(
            nn.ModuleDict(
                {"attention": Attention()} | {name: copy.deepcopy(part) for name, part in parts.items()}
            )
            for _ in range(3)
        )

    def forward(self, tokens):
        x = self.embedding(tokens)
        bias = (
            self.positions(torch.arange(6)) + 0 * x.mean()
            if self.kind == "positions"
            else self.positions(tokens)
        )
        for layer in self.layer:
            x = x + layer["attention"](x, bias)
            x = x + layer["feed"](torch.tanh(x))
            if self.kind == "stream":
                bias = bias + layer["pair"](x)
        return x, bias


@pytest.mark.parametrize("kind", ["positions", "tokens", "stream"])
def test_a_bias_that_all_layers_add_to_scores_is_a_stream_only_where_it_goes_on(kind):
    """The biases of MPNet, CPM-Ant and LongT5; an Evoformer's, which every layer changes, is a stream."""
    found = dl.find_branches(made(Encoder, kind), torch.arange(12).view(2, 6))
    parts = ("attention", "feed", "pair") if kind == "stream" else ("attention", "feed")
    assert [branch.name for branch in found] == [
        f"layer.{index}.{part}" for index in range(3) for part in parts
    ]
    assert {branch.kind for branch in found} == {f"layer.*.{part}" for part in parts}
