"""Every published rule passes on a network that follows it and on no other; "auto" finds it."""

import copy
import math
from functools import partial

import pytest
import torch
from depth_models import WIDTH, tokens
from test_rule_attribution import Block, Network, check
from torch import nn
from torch.nn import functional as F

import deeplimit as dl
from deeplimit.modules.depth_check.part_rules import (
    FREE,
    ONE,
    AnyOf,
    Place,
    PowerOfLayer,
    PowerOfLayers,
    Steps,
)
from deeplimit.modules.depth_check.rules import RULES, rule_of

DEPTHS = [3, 6, 12]
OUTPUTS = ("attn.o.weight", "fc2.weight")


class Scaled(Block):
    """Inputs times `entry` after the norm; gains after the branches if `gain` is given."""

    def __init__(self, entry=1.0, gain=None, gated=False):
        super().__init__()
        self.entry = entry
        self.gain = None if gain is None else nn.Parameter(torch.full((WIDTH,), gain))
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False) if gated else None

    def forward(self, x):
        gain = 1.0 if self.gain is None else self.gain
        x = x + gain * self.attn(self.norm1(x) * self.entry)
        y = self.norm2(x) * self.entry
        hidden = F.silu(self.fc1(y)) * (1.0 if self.up is None else self.up(y))
        return x + gain * self.fc2(hidden)


STD = {  # of the weights of layer l = 1 .. L: is it an output projection, its fan-in
    "gpt-2": lambda output, fan, layer, depth: 0.02 * ((2 * depth) ** -0.5 if output else 1),
    "mitchell": lambda output, fan, layer, depth: fan**-0.5 * ((2 * layer) ** -0.5 if output else 1),
    "depth-init": lambda output, fan, layer, depth: 0.02 * ((2 * layer) ** -0.5 if output else 1),
    "small-init": lambda output, fan, layer, depth: (2 / depth if output else 0.4**0.5) / math.sqrt(WIDTH),
}


def network(depth, rule, fault=None):
    gain = (0.1 if depth <= 18 else 1e-5) if rule == "layerscale" else None
    blocks = [
        Scaled(
            entry=(layer + 1) ** -0.5 if rule == "norm-depth" and fault is None else 1.0,
            gain=gain if gain is None or fault is None else 0.3,
            gated=rule == "depth-init",
        )
        for layer in range(depth)
    ]
    model = Network(blocks)
    for index, name, weight in model.matrices():
        # One who takes 2l for l, and branches for layers.
        layer = 2 * (index + 1) if fault else index + 1
        scaled = name in OUTPUTS or (rule == "depth-init" and name == "up.weight")
        std = STD.get(rule, lambda *_: 0.02)(scaled, weight.shape[1], layer, depth / 2 if fault else depth)
        nn.init.trunc_normal_(weight, std=std, a=-3 * std, b=3 * std)
    return model


FOLLOWED = ["gpt-2", "mitchell", "depth-init", "norm-depth", "small-init", "layerscale"]


@pytest.mark.parametrize("rule", FOLLOWED)
def test_a_network_that_follows_a_rule_passes(rule):
    report = check(network, rule, rule=rule)
    assert report.verdict == "as expected", report
    assert RULES[rule].source.split(" ")[0].lower() in report.citation().lower()


@pytest.mark.parametrize("rule", FOLLOWED)
def test_a_network_that_misreads_a_rule_is_caught(rule):
    report = check(network, rule, rule=rule, fault="misread")
    assert report.verdict == "not as expected", report
    factors = {
        "gpt-2": math.sqrt(2),
        "mitchell": math.sqrt(1 / 2),
        "depth-init": math.sqrt(1 / 2),
        "small-init": 2.0,
        "layerscale": 3.0,
    }
    named = {"norm-depth": "input multiplier of", "layerscale": "gain"}.get(rule, "weight")
    for finding in report.findings:
        assert named in finding.parameter
        if rule in factors:
            assert finding.factor == pytest.approx(factors[rule], rel=0.06)


def test_the_input_multiplier_of_each_layer_is_read_exactly():
    report = check(network, None, rule="norm-depth")
    for branch in report.branches:
        (entry,) = [part for part in branch.parts if part.role == "entry"]
        assert entry.layers[-1] == pytest.approx([layer**-0.5 for layer in range(1, 13)], rel=1e-6)


def test_a_scale_of_the_norm_that_falls_with_the_layer_is_an_input_multiplier():
    def factory(depth):
        model = network(depth, "norm-depth", fault="no multiplier")
        for layer, block in enumerate(model.blocks, start=1):
            for norm in (block.norm1, block.norm2):
                nn.init.constant_(norm.weight, layer**-0.5)
        return model

    assert check(factory, "norm-depth").ok


@pytest.mark.parametrize("rule", ["gpt-2", "norm-depth", "small-init", "layerscale"])
def test_auto_names_the_rule_that_a_network_follows(rule):
    report = check(network, "auto", rule=rule)
    assert (report.expected, report.verdict) == (rule, "as expected"), report
    assert f"of the published rules {rule} fits best" in report.reservations[0]


def test_auto_says_which_rules_fit_equally_and_what_departs():
    assert "megatron (1/sqrt(2L)) fits equally" in check(network, "auto", rule="gpt-2").reservations[0]

    def half(depth):
        model = network(depth, "gpt-2")
        for block in model.blocks:
            nn.init.normal_(block.fc2.weight, std=0.02)
        return model

    report = check(half, "auto")
    assert (report.expected, report.verdict) == ("gpt-2", "not as expected")
    assert [finding.parameter for finding in report.findings] == ["blocks.*.fc2.weight"]
    assert "1 of 2 kinds of branches depart" in report.reservations[0]


def test_auto_finds_the_rule_of_one_module():
    with torch.random.fork_rng():
        model = network(6, "layerscale")
    assert dl.probe(model, tokens(), expected="auto").expected == "layerscale"


def test_rules_of_layers_are_functions_of_the_place():
    place = Place(layer=8, layers=24, branches=48, weights=3)
    assert PowerOfLayer(3.0, 0.5).size(place) == pytest.approx(3 / math.sqrt(8))
    assert PowerOfLayers(2.0, 1.0).size(place) == pytest.approx(1 / 12)
    assert [RULES["layerscale"].gain.size(Place(1, layers, 0, 0)) for layers in (18, 24, 36)] == [
        0.1,
        1e-5,
        1e-6,
    ]
    assert AnyOf((FREE, ONE)).alternatives == (FREE, ONE)
    assert Steps(((math.inf, 0.5),)).absolute
    assert rule_of("Wang") is RULES["small-init"]


def test_a_users_rule_may_depend_on_the_layer():
    rule = dl.Rule("ours", "this test", "1/l", None, output=PowerOfLayer(1.0, 1.0), inner=FREE)

    def factory(depth):
        model = network(depth, "none")
        for layer, block in enumerate(model.blocks, start=1):
            for weight in (block.attn.o.weight, block.fc2.weight):
                weight.data.div_(layer)
        return model

    assert check(factory, rule).ok
    assert not check(partial(network, rule="gpt-2"), rule).ok


@pytest.mark.parametrize("name", RULES)
def test_a_rule_equals_its_copy(name):
    assert copy.deepcopy(RULES[name]) == RULES[name]
