"""Layers that lack what the others have are named under a number, too; layers that rightly differ are not."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from planted_faults import Numbered, numbered, plain
from stand_in_mixers import Attention, FeedForward
from stand_in_stacks import Block, Stack, vectors
from torch import nn

import deeplimit as dl
from deeplimit.modules.depth_check.meaning import FEW_LAYERS
from deeplimit.modules.depth_check.scaling import few_layers
from deeplimit.modules.depth_check.uneven_layers import against_layers

DEPTHS = [4, 8, 16]


def check(factory, expected=0.5, depths=DEPTHS, seed=0):
    return dl.check_depth(factory, depths, batch=vectors, expected=expected, seed=seed)


def blamed(report):
    return [finding for finding in report.findings if "other layers follow" in finding.message]


def late(depth, layer):
    """1/sqrt(L), left out in the second half."""
    return 1.0 if 2 * layer >= depth else depth**-0.5


PROFILES = {
    "1/sqrt(l)": lambda depth, layer, branch: (layer + 1) ** -0.5,
    "1/l": lambda depth, layer, branch: 1 / (layer + 1),
    "1/sqrt(L + l)": lambda depth, layer, branch: (depth + layer) ** -0.5,
    "a line over depth": lambda depth, layer, branch: (0.5 + layer / depth) * depth**-0.5,
    "the first layer twice as large": lambda depth, layer, branch: (1 + (layer == 0)) * depth**-0.5,
    "every other layer half as large": lambda depth, layer, branch: (1 - layer % 2 / 2) * depth**-0.5,
    "the branches differ": lambda depth, layer, branch: (3.0 if branch == "mlp" else 1.0) * depth**-0.5,
    "drawn": lambda depth, layer, branch: (1 + 0.2 * float(torch.randn(()))) * depth**-0.5,
}


@pytest.mark.parametrize("depths", [pytest.param(DEPTHS, marks=pytest.mark.nightly), [2, 3]])
@pytest.mark.parametrize("profile", PROFILES)
def test_layers_that_differ_by_a_profile_are_not_blamed(profile, depths):
    for seed in range(3 if profile == "drawn" else 1):
        for learned in (False, True) if profile == "1/sqrt(l)" else (True,):
            factory = partial(numbered, number=PROFILES[profile], learned=learned)
            report = check(factory, depths=depths, seed=seed)
            assert not blamed(report), report


def test_weights_that_make_up_for_a_number_are_no_fault():
    def factory(depth):
        model = numbered(depth, lambda total, layer, branch: late(total, layer))
        for layer, block in enumerate(model.blocks):
            for weight in (block.attn.out.weight, block.mlp.fc2.weight):
                weight.data.mul_(depth**-0.5 if late(depth, layer) == 1.0 else 1.0)
        return model

    report = check(factory)
    assert report.verdict == "as expected", report


def test_a_norm_after_the_projection_undoes_its_size():
    def factory(depth):
        model = plain(
            Stack(depth, lambda: Block({"attn": Attention(), "mlp": FeedForward()}, "sandwich")), None
        )
        for layer, block in enumerate(model.blocks):
            for name, weight in (("attn", block.attn.out.weight), ("mlp", block.mlp.fc2.weight)):
                nn.init.constant_(getattr(block, f"after_{name}").weight, depth**-0.5)
                weight.data.mul_(late(depth, layer))
        return model

    report = check(factory)
    assert report.verdict == "as expected", report


def told(numbers, updates=None):
    """What is said of multipliers at depths, all else in the updates being exact."""
    branch = check(partial(numbered, number=lambda *place: 1.0), depths=[2, 4]).branches[0]
    depths, layers = [len(row) for row in numbers], tuple(map(tuple, numbers))
    parts = [replace(part, layers=layers) for part in branch.parts if part.role == "multiplier"]
    probed = layers if updates is None else tuple(map(tuple, updates))
    scaling = replace(branch, parts=(*parts,), probed=probed, numbers=tuple(range(depths[-1])))
    return list(against_layers(scaling, 0.5, 0.1, 0.99, depths, depths))


def last_layer(power, other):
    return [[depth**-power] * (depth - 1) + [depth**-other] for depth in (16, 32, 64)]


def test_layers_are_blamed_only_where_their_powers_differ_by_more_than_the_tolerance():
    assert [finding.layers for finding in told(last_layer(0.5, 0.3))] == [(63,)]
    assert not told(last_layer(0.41, 0.39))
    assert not told(last_layer(0.5, 0.5))


def test_what_makes_up_for_a_number_in_one_layer_of_many_clears_it():
    assert told(last_layer(0.5, 0.0))
    assert not told(last_layer(0.5, 0.0), updates=last_layer(0.5, 0.5))


def test_two_layers_tell_no_profile_from_a_fault():
    assert not told([[1.0], [1.0, 0.5**0.5]])


def test_parallel_branches_of_which_one_lacks_it_in_some_layers():
    class Parallel(Numbered):
        def forward(self, x):
            y = self.norm_attn(x)
            return x + self.gain_attn(self.attn(y)) + self.gain_mlp(self.mlp(y))

    def factory(depth):
        places = iter(range(depth))
        return plain(
            Stack(depth, lambda: Parallel((late(depth, next(places)), depth**-0.5), learned=True)), None
        )

    (finding,) = check(factory).findings
    assert finding.parameter == "blocks.*.gain_attn.gain"
    assert finding.factor == pytest.approx(4.0, rel=1e-6)
    assert finding.layers == tuple(range(8, 16))


def test_neither_group_of_layers_as_expected_is_not_told_as_the_fault_of_some():
    report = check(partial(numbered, number=lambda depth, layer, branch: late(depth, layer)), expected=1.0)
    assert not blamed(report)
    assert not report.ok


@pytest.mark.parametrize("power", [1.0, 0.25])
def test_layers_may_fall_too_fast_or_too_slowly(power):
    def number(depth, layer, branch):
        return depth**-power if layer == depth - 1 else depth**-0.5

    report = check(partial(numbered, number=number, learned=True))
    assert {finding.parameter for finding in report.findings} == {
        "blocks.*.gain_attn.gain",
        "blocks.*.gain_mlp.gain",
    }
    for finding in report.findings:
        assert finding.factor == pytest.approx(16 ** (0.5 - power), rel=1e-6)
        assert finding.layers == (15,)


def test_a_rule_of_ones_own_that_states_an_exponent_alone_names_layers_too():
    report = check(
        partial(numbered, number=lambda depth, layer, branch: late(depth, layer)),
        expected=dl.Rule("ours", "here", "1/sqrt(L)", 0.5),
    )
    assert {finding.layers for finding in report.findings} == {tuple(range(8, 16))}
    assert report.findings[0].factor == pytest.approx(math.sqrt(16), rel=1e-6)


FEW = {
    "halves": lambda depth, layer, branch: 2.0**-layer,
    "two of size 1": lambda depth, layer, branch: 1.0 if layer < 2 else 1e-3,
}


@pytest.mark.parametrize("name", FEW)
def test_a_few_layers_that_carry_all_updates_are_no_sde(name):
    """Their root mean square falls like 1/sqrt(L), as that of an SDE does."""
    factory = partial(numbered, number=FEW[name], learned=True)
    report = check(factory, depths=[4, 16])
    assert report.verdict == "not as expected"
    assert {finding.about for finding in report.findings} == {"few layers"}
    assert {kind.meaning for kind in report.branches} == {FEW_LAYERS}
    assert dl.recommend(factory, 17, depths=[4, 8, 16], batch=vectors(4)).verdict == "cannot tell"


def test_the_layers_that_carry_the_updates_are_counted():
    halves = [[2.0**-k for k in range(layers)] for layers in (4, 32)]
    roots = [[(k + 1) ** -0.5 for k in range(layers)] for layers in (4, 32)]
    assert few_layers(halves) == (2, 32, pytest.approx(0.9375, abs=1e-3))
    assert few_layers(roots) is None
    growing = [[(k + 1) ** -0.8 for k in range(layers)] for layers in (4, 64)]  # 3 of 4 layers, 13 of 64
    assert few_layers(growing) is None
    assert few_layers([[1.0] * 4, [1.0] * 32]) is None
    assert few_layers([[0.0] * 4, [0.0] * 32]) is None
