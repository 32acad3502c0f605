"""Smooth layers have a linear ODE or a neural one: what activations get decides, not the product."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

import deeplimit as dl
from deeplimit.common.global_state import seeded
from deeplimit.trained.diagnosis.measured import MeasuredNetwork
from deeplimit.trained.diagnosis.networks_of_sweep import Network
from deeplimit.trained.diagnosis.stacks import Stack

WIDTH = 6
DEPTHS = (8, 14, 24, 42, 72)


def unchanged(x):
    return x


def unused(width):
    return nn.Identity()


def gated(x):
    """A product of states, which no size makes linear."""
    return x * torch.tanh(x)


def cut(x):
    """A smooth activation, and one with a kink that no size removes."""
    return torch.relu(torch.tanh(x))


class Block(nn.Module):
    """h + factor · outer(φ(inner(h))); one of the two may be missing."""

    def __init__(self, activation, which, norm, factor):
        super().__init__()
        self.activation, self.factor = activation, factor
        self.norm = norm(WIDTH)
        inner, outer = nn.Linear(WIDTH, 9, bias=False), nn.Linear(9, WIDTH, bias=False)
        if which != "both":
            inner = outer = nn.Linear(WIDTH, WIDTH, bias=False)
        self.fc1 = nn.Identity() if which == "outer" else inner
        self.fc2 = nn.Identity() if which == "inner" else outer

    def forward(self, h):
        return h + self.factor * self.fc2(self.activation(self.fc1(self.norm(h))))


def networks(activation, which="both", norm=unused, inner=0.0):
    """Blocks whose weights turn slowly over depth; those that read have size L^-inner, all branches L^-1."""
    made = {}
    for depth in DEPTHS:
        stream = torch.Generator().manual_seed(3)
        with seeded(0):
            blocks = [Block(activation, which, norm, depth ** (inner - 1)) for _ in range(depth)]
        for name, like in blocks[0].named_parameters():
            first, second = (torch.randn(like.shape, generator=stream) for _ in range(2))
            size = depth**-inner if name.startswith("fc1") or which == "outer" else 1.0
            for k, block in enumerate(blocks):
                angle = 1.7 * (k + 0.5) / depth
                if not name.startswith("norm"):
                    turned = math.cos(angle) * first + math.sin(angle) * second
                    block.get_parameter(name).data = size * turned
        made[depth] = nn.Sequential(*blocks)
    return made


@pytest.mark.parametrize(
    ("how", "verdict", "rule"),
    [
        ({"activation": torch.tanh}, "neural-ode", "keeps_what_it_bends"),
        ({"activation": torch.tanh, "inner": 0.5}, "linear-ode", "shrinks_smoothly"),
        ({"activation": torch.relu, "inner": 0.5}, "neural-ode", "keeps_what_it_bends"),
        ({"activation": unchanged}, "linear-ode", "shrinks_smoothly"),
        ({"activation": torch.atan}, "neural-ode", "keeps_what_it_bends"),  # in no list of activations
        ({"activation": torch.atan, "inner": 0.5}, "linear-ode", "shrinks_smoothly"),
        ({"activation": cut, "inner": 0.5}, "neural-ode", "keeps_what_it_bends"),
        (
            {"activation": functional.gelu, "norm": nn.LayerNorm, "inner": 0.5},
            "neural-ode",
            "keeps_what_it_bends",
        ),
        ({"activation": torch.tanh, "norm": nn.BatchNorm1d, "inner": 0.5}, "linear-ode", "shrinks_smoothly"),
        ({"activation": gated, "inner": 0.5}, "neural-ode", "keeps_what_it_bends"),
        ({"activation": torch.tanh, "which": "outer", "inner": 0.5}, "neural-ode", "keeps_what_it_bends"),
        ({"activation": torch.tanh, "which": "inner"}, "neural-ode", "keeps_what_it_bends"),
        ({"activation": torch.tanh, "which": "inner", "inner": 0.5}, "linear-ode", "shrinks_smoothly"),
    ],
)
def test_a_smooth_network_is_linear_in_the_limit_where_its_activations_get_ever_less(how, verdict, rule):
    batch = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(0))
    report = dl.diagnose(networks(**how), batch=batch)
    assert (report.verdict, report.rule) == (verdict, rule)
    assert report.beta == pytest.approx(1.0, abs=0.03)


def test_names_do_not_tell_whether_a_branch_is_linear():
    found = {depth: each.state_dict() for depth, each in networks(torch.tanh, inner=0.5).items()}
    assert dl.diagnose(found).rule == "may_be_linear"


def test_three_depths_tell_that_a_kink_is_linear_at_no_size():
    few = dict([*networks(torch.relu).items()][:3])
    assert dl.diagnose(few, batch=torch.ones(2, WIDTH)).rule == "keeps_what_it_bends"


@pytest.mark.parametrize("bent", [None, torch.tensor([0.5, 0.5, 0.5])])
def test_a_measured_network_is_read_as_it_was_written(bent):
    layers = torch.randn(3, 2, 2, generator=torch.Generator().manual_seed(0))
    network = Network(3, {"A": Stack("A", layers, bent=bent)}, None)
    written = MeasuredNetwork.of(network)
    read = MeasuredNetwork.read(written.write("x"), "x")
    assert read.weights["A"].bent == written.weights["A"].bent == (None if bent is None else 0.5)
