"""What the autograd graph is read for: skips through sums without weights, scales, streams that merge."""

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


def test_what_is_computed_in_front_of_all_layers_gives_no_name_to_the_first():
    """As the bias of positions in MPNet, which the first of its users comes after."""

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.back = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

        def forward(self, x, bias):
            q = self.query(x)
            return self.back((q @ q.mT + bias).softmax(-1) @ q)

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.positions = nn.Embedding(20, WIDTH), nn.Embedding(6, 6)
            self.layer = nn.ModuleList(
                nn.ModuleDict({"attention": Attention(), "feed": nn.Linear(WIDTH, WIDTH)}) for _ in range(3)
            )

        def forward(self, tokens):
            x = self.embedding(tokens)
            bias = self.positions(torch.arange(6)) + 0 * x.mean()
            for layer in self.layer:
                x = x + layer["attention"](x, bias)
                x = x + layer["feed"](torch.tanh(x))
            return x

    found = dl.find_branches(made(Encoder), torch.arange(12).view(2, 6))
    assert [branch.name for branch in found] == [
        f"layer.{index}.{name}" for index in range(3) for name in ("attention", "feed")
    ]
    assert {branch.kind for branch in found} == {"layer.*.attention", "layer.*.feed"}
