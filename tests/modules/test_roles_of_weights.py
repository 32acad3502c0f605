"""Which of a branch's weights projects onto the stream, which gate it, and which scale it."""

import pytest
import torch
from torch import nn

import deeplimit as dl

WIDTH = 16
pytestmark = pytest.mark.usefixtures("one_thread")


class Layer(nn.Module):
    """The projection is registered first, so that no order of parameters gives it away."""

    def __init__(self, update):
        super().__init__()
        self.back, self.into = (nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.two, self.wide = nn.Linear(WIDTH, 2), nn.Linear(WIDTH, WIDTH)
        self.scale = nn.Parameter(torch.full((WIDTH,), 0.25))
        self.update = update

    def forward(self, x, condition):
        return self.update(self, x, torch.tanh(self.into(torch.tanh(x))), condition)


class Stack(nn.Module):
    def __init__(self, update):
        super().__init__()
        self.entry = nn.Linear(WIDTH, WIDTH)
        self.layers = nn.ModuleList(Layer(update) for _ in range(2))

    def forward(self, x, condition):
        x = self.entry(x)
        for layer in self.layers:
            x = layer(x, condition)
        return x


def flattened(layer, x, inner, condition):
    gate = layer.wide(x.mean(1, keepdim=True))
    return x + gate * layer.back(inner.flatten(0, 1)).view_as(x)


BACK = {
    "output": "back.weight",
    "inner": "into.weight",
    "gains": "",
    "biases": "back.bias",
    "gates": "",
}
UPDATES = {
    "plain": (lambda layer, x, inner, c: x + layer.back(inner), {}),
    "bent at the end": (lambda layer, x, inner, c: x + torch.tanh(layer.back(inner)), {}),
    "times a linear gate": (
        lambda layer, x, inner, c: x + layer.two(x).mean(-1, keepdim=True) * layer.back(inner),
        {"inner": "into.weight two.weight"},
    ),
    "flattened, times a gate for all tokens": (flattened, {"inner": "into.weight wide.weight"}),
    "times a gate of a condition": (
        lambda layer, x, inner, c: x + layer.wide(c) * layer.back(inner),
        {"inner": "into.weight", "gates": "wide.weight"},
    ),
    "scaled": (lambda layer, x, inner, c: x + layer.scale * layer.back(inner), {"gains": "scale"}),
    "scaled as it is added": (
        lambda layer, x, inner, c: torch.addcmul(x, layer.scale.expand_as(x), layer.back(inner)),
        {"gains": "scale"},
    ),
}


@pytest.mark.parametrize("name", UPDATES)
def test_the_weights_of_a_branch_have_their_roles(name):
    update, other = UPDATES[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, batch = Stack(update), (torch.randn(4, 6, WIDTH), torch.randn(4, 1, WIDTH))
    found = dl.find_branches(model, batch)
    for index, branch in enumerate(found):
        roles = {role: set(getattr(branch, role)) for role in BACK}
        assert roles == {
            role: {f"layers.{index}.{part}" for part in parts.split()}
            for role, parts in (BACK | other).items()
        }
    (scaling,) = dl.probe(model, batch).branches
    gains = [part.sizes for part in scaling.parts if part.role == "gain"]
    assert gains == ([pytest.approx((0.25,))] if "gains" in other else [])
    assert len(found) == 2
