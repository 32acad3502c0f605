"""Findings name the weight that is at fault, its layers and what is wrong; a right one stays silent."""

import math
from functools import partial

import pytest
import torch
from depth_models import VOCABULARY, WIDTH, tokens
from torch import nn
from torch.nn import functional as F

import deeplimit as dl
from deeplimit.modules.depth_check.base_scale import Base
from deeplimit.modules.depth_check.findings import layers_in_words, number, power_of_depth, times

DEPTHS = [3, 6, 12]


class Fused(nn.Module):
    """Attention with one matrix for queries, keys and values, in thirds or in thirds of each head."""

    each_head = False

    def __init__(self):
        super().__init__()
        self.qkv, self.o = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        sizes = (4, 3, -1) if self.each_head else (3, 4, -1)
        parts = self.qkv(x).unflatten(-1, sizes).unbind(-2 if self.each_head else -3)
        split = (part.transpose(1, 2) for part in parts)
        return self.o(F.scaled_dot_product_attention(*split).transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Post-norm with a multiplied skip if `alpha` is given, else pre-norm."""

    def __init__(self, alpha=None, multiplier=1.0):
        super().__init__()
        self.norm1, self.norm2, self.attn = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Fused()
        self.fc1, self.fc2 = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)
        self.alpha, self.multiplier = alpha, multiplier

    def forward(self, x):
        if self.alpha is not None:
            x = self.norm1(self.alpha * x + self.attn(x))
            return self.norm2(self.alpha * x + self.fc2(F.gelu(self.fc1(x))))
        x = x + self.multiplier * self.attn(self.norm1(x))
        return x + self.multiplier * self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Network(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.embedding, self.blocks = nn.Embedding(VOCABULARY, WIDTH), nn.ModuleList(blocks)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, words):
        x = self.embedding(words)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

    def matrices(self):
        """The blocks' weights: number of the layer, name in the block, parameter."""
        return (
            (layer, name, parameter)
            for layer, block in enumerate(self.blocks)
            for name, parameter in block.named_parameters()
            if parameter.dim() > 1
        )


def deepnorm(depth, fused="alone"):
    """DeepNorm scales the values alone; `fused` says how queries, keys and values are initialised."""
    model, beta = Network(Block((2 * depth) ** 0.25) for _ in range(depth)), (8 * depth) ** -0.25
    for layer, name, weight in model.matrices():
        if "qkv" not in name:
            nn.init.xavier_normal_(weight, gain=beta)
        elif fused == "alone":
            for third, gain in zip(weight.data.chunk(3), (1, 1, beta), strict=True):
                nn.init.xavier_normal_(third, gain=gain)
        else:
            nn.init.xavier_normal_(weight)
            model.blocks[layer].attn.each_head = fused == "values of each head"
            scaled = {
                "values": weight.data.chunk(3)[2],
                "values of each head": weight.data.unflatten(0, (4, 3, -1))[:, 2],
                "queries and keys": weight.data[: 2 * WIDTH],
                "nothing": weight.data[:0],
            }[fused]
            scaled.mul_(beta)
    return model


def gpt(depth, std=0.02, fault=None):
    model = Network(Block() for _ in range(depth))
    for layer, name, weight in model.matrices():
        size = std
        if name in ("attn.o.weight", "fc2.weight"):
            size *= {
                "half": 1.0 if layer >= depth // 2 else (2 * depth) ** -0.5,
                "constant depth": (2 * 12) ** -0.5,
                "not applied": 1.0,
            }.get(fault, (2 * depth) ** -0.5)
        size *= 4 if fault == "qkv" and "qkv" in name else 1
        size *= 2 if fault == "twice" and name == "fc2.weight" else 1
        nn.init.normal_(weight, std=size)
    return model


def multiplied(depth, late=1.0, shift=0):
    """Multipliers 1/(L + shift), times `late` in the second half of the layers."""
    model = Network(
        Block(multiplier=(late if layer >= depth // 2 else 1.0) / (depth + shift)) for layer in range(depth)
    )
    for _, _, weight in model.matrices():
        nn.init.normal_(weight, std=0.02)
    return model


def check(factory, expected, depths=DEPTHS, **how):
    return dl.check_depth(partial(factory, **how), depths, batch=tokens(), expected=expected)


@pytest.mark.parametrize("fused", ["alone", "values", "values of each head"])
def test_deepnorm_scales_the_values_alone_where_all_three_are_fused(fused):
    report = check(deepnorm, "deepnorm", fused=fused)
    assert not report.findings, report
    assert report.ok or fused == "values of each head"


@pytest.mark.parametrize(("fused", "what"), [("queries and keys", "queries"), ("nothing", "values")])
def test_the_wrong_third_of_a_fused_weight_is_named(fused, what):
    found = [
        finding
        for finding in check(deepnorm, "deepnorm", fused=fused).findings
        if finding.parameter == "blocks.*.attn.qkv.weight"
    ]
    assert any(f"its {what}:" in finding.message for finding in found)


@pytest.mark.parametrize("std", [WIDTH**-0.5, (3 * WIDTH) ** -0.5, 0.02])
def test_a_constant_std_is_no_fault_whatever_law_it_looks_like(std):
    report = check(gpt, "gpt-2", std=std)
    assert report.verdict == "as expected", report


def test_a_fault_under_every_law_is_reported_with_the_factor_of_each():
    (finding,) = check(gpt, "gpt-2", std=WIDTH**-0.5, fault="twice").findings
    assert finding.parameter == "blocks.*.fc2.weight"
    assert finding.factor == pytest.approx(4.0, rel=0.05)
    assert "2 times too large if that std is a constant" in finding.message


def test_a_weight_at_odds_with_all_others_is_named_rather_than_the_one_beside_it():
    (finding,) = check(gpt, "gpt-2", fault="qkv").findings
    assert finding.parameter == "blocks.*.attn.qkv.weight"
    assert finding.factor == pytest.approx(4.0, rel=0.05)


def test_one_layer_in_twelve_without_the_rule_is_seen():
    def factory(depth):
        model = gpt(depth)
        if depth == 12:
            model.blocks[7].fc2.weight.data.mul_(1.7)
        return model

    (finding,) = check(factory, "gpt-2").findings
    assert (finding.parameter, finding.layers) == ("blocks.*.fc2.weight", (7,))
    assert finding.factor == pytest.approx(1.7, rel=0.05)


def test_another_constant_in_other_layers_is_no_fault():
    assert not check(multiplied, "completep", late=3.0).findings


@pytest.mark.parametrize(
    ("factor", "words"),
    [(1.0001, "1.0001"), (1 / 1.01, "1.01"), (4.9, "4.9"), (1234.0, "1,200"), (2e11, "2e11")],
)
def test_factors_are_never_rounded_to_one(factor, words):
    assert times(factor).startswith(f"{words} times too ")


def test_words_for_powers_infinities_and_layers_have_one_sign_each():
    assert power_of_depth(-0.5) == "grows like depth^0.50"
    assert power_of_depth(0.5) == "falls like depth^-0.50"
    assert number(math.inf) == "infinitely many"
    assert layers_in_words([0, 2, 3, 4, 9]) == "layers 0, 2-4, 9"


def test_a_law_of_the_width_counts_what_lies_on_the_stream():
    report = check(gpt, None)
    parts = {part.name: part for branch in report.branches for part in branch.parts}
    assert Base("width", 2.0).of(parts["blocks.*.fc2.weight"]) == pytest.approx(2 / math.sqrt(WIDTH))
    assert Base("width", 2.0).of(parts["blocks.*.fc1.weight"]) == pytest.approx(2 / math.sqrt(WIDTH))


class Gated(nn.Module):
    """A block of a DiT: shifts, scales and gates of both branches are made of a condition."""

    def __init__(self, zero=True):
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(WIDTH, elementwise_affine=False), nn.Linear(WIDTH, WIDTH)
        self.attn = Fused()
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(WIDTH, 6 * WIDTH))
        if zero:
            nn.init.zeros_(self.ada[1].weight)
            nn.init.zeros_(self.ada[1].bias)

    def forward(self, x, condition):
        gates = self.ada(condition).unsqueeze(1).chunk(6, dim=-1)
        x = x + gates[2] * self.attn(self.norm(x) * (1 + gates[0]) + gates[1])
        return x + gates[5] * self.mlp(torch.relu(self.norm(x) * (1 + gates[3]) + gates[4]))


class Conditioned(nn.Module):
    def __init__(self, depth, zero=True):
        super().__init__()
        self.entry, self.condition = nn.Linear(4, WIDTH), nn.Linear(3, WIDTH)
        self.blocks = nn.ModuleList(Gated(zero) for _ in range(depth))

    def forward(self, x, condition):
        x, condition = self.entry(x), self.condition(condition)
        for block in self.blocks:
            x = block(x, condition)
        return x


def conditions():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, 6, 4, generator=generator), torch.randn(2, 3, generator=generator)


@pytest.mark.parametrize("rule", ["rezero", "adaln-zero"])
def test_a_gate_that_a_linear_layer_of_a_condition_makes_zero_is_a_zero_gain(rule):
    report = dl.check_depth(Conditioned, [2, 4], batch=conditions(), expected=rule)
    assert report.verdict == "as expected", report
    assert [branch.kind for branch in report.branches] == ["blocks.*.attn", "blocks.*.mlp"]
    gates = [part.name for branch in report.branches for part in branch.parts if part.role == "gate"]
    assert gates == ["blocks.*.ada.1.weight"] * 2


@pytest.mark.parametrize("rule", ["rezero", "adaln-zero"])
def test_a_gate_that_is_not_zero_is_named(rule):
    report = dl.check_depth(partial(Conditioned, zero=False), [2, 4], batch=conditions(), expected=rule)
    assert {finding.parameter for finding in report.findings} == {"blocks.*.ada.1.weight"}


def test_a_parameter_that_starts_at_zero_is_no_gate_of_a_condition():
    class Scaled(nn.Module):
        def __init__(self, depth):
            super().__init__()
            self.entry = nn.Linear(4, WIDTH)
            self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(depth))
            self.gains = nn.ParameterList(torch.zeros(WIDTH) for _ in range(depth))

        def forward(self, x):
            x = self.entry(x)
            for layer, gain in zip(self.layers, self.gains, strict=True):
                x = x + gain * layer(torch.relu(x))
            return x

    batch = conditions()[0]
    assert dl.check_depth(Scaled, [2, 4], batch=batch, expected="rezero").ok
    (finding,) = dl.check_depth(Scaled, [2, 4], batch=batch, expected="adaln-zero").findings
    assert finding.parameter == "gate of layers.*"
