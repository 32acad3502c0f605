"""Rules as their papers and published code write them, by hand: nothing here is computed from `rules.py`."""

import math
from functools import partial

import pytest
import torch
from torch import nn

import deeplimit as dl

WIDTH = 32


class Scaled(nn.Module):
    """x = x + diag(λ) f(η(x)) with a linear f, as in Touvron et al. (2021), section 2."""

    def __init__(self, epsilon):
        super().__init__()
        self.norm, self.layer = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.scale = nn.Parameter(torch.full((WIDTH,), epsilon))

    def forward(self, x):
        return x + self.scale * self.layer(self.norm(x))


class LayerNormScaled(nn.Module):
    """One branch of `modeling_llama.py` of LayerNorm-Scaling, NORM_TYPE=LNS."""

    def __init__(self, factor):
        super().__init__()
        self.factor, self.input_layernorm = factor, nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2)))
        for layer in self.mlp:
            nn.init.normal_(layer.weight, std=0.02)

    def forward(self, x):
        return x + self.mlp(self.factor * self.input_layernorm(x))


class Opened(nn.Sequential):
    def __init__(self, blocks):
        super().__init__(nn.Linear(WIDTH, WIDTH), nn.Sequential(*blocks))


def check(factory, depths, expected):
    batch = torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(0))
    return dl.check_depth(factory, depths, batch=batch, expected=expected)


def layer_scaled(depth, epsilon):
    return Opened(Scaled(epsilon[depth]) for _ in range(depth))


@pytest.mark.parametrize(
    "epsilon", [{12: 0.1, 18: 0.1, 24: 1e-5, 36: 1e-6}, {2: 0.1, 18: 0.1}, {24: 1e-5, 25: 1e-6, 48: 1e-6}]
)
def test_layer_scale_is_a_tenth_until_depth_18_then_falls_twice(epsilon):
    """ "We set ε = 0.1 until depth 18, ε = 1e-5 for depth 24 and ε = 1e-6 for deeper networks." """
    report = check(partial(layer_scaled, epsilon=epsilon), [*epsilon], "layerscale")
    assert report.verdict == "as expected", report


@pytest.mark.parametrize(
    ("epsilon", "factor"),
    [
        ({12: 0.1, 18: 1e-5}, 1e-4),
        ({18: 0.1, 24: 0.1}, 1e4),
        ({18: 0.1, 24: 1e-6}, 0.1),
        ({24: 1e-5, 36: 1e-5}, 10.0),  # as the released CaiT-XXS36
    ],
)
def test_a_layer_scale_of_another_depth_is_wrong_by_its_factor(epsilon, factor):
    (finding,) = check(partial(layer_scaled, epsilon=epsilon), [*epsilon], "layerscale").findings
    assert finding.parameter == "1.*.scale"
    assert finding.factor == pytest.approx(factor, rel=1e-4)


@pytest.mark.parametrize(
    ("of_layer", "wrong"),  # h = LayerNorm(h) times 1/sqrt(l) in layer l = 1 ... L; counted from 0 in code
    [
        (lambda layer: 1 / math.sqrt(layer + 1), None),
        (lambda layer: 1 / math.sqrt(2 * layer + 2), math.sqrt(0.5)),  # sublayers counted, not layers
        (lambda layer: 2 / math.sqrt(layer + 1), 2.0),
        (lambda layer: 1.0, math.nan),  # by no one factor
        (lambda layer: 1 / (layer + 1), math.nan),
        (lambda layer: 1 / math.sqrt(layer + 2), math.nan),
        (lambda layer: 1 / math.sqrt(max(layer, 1)), math.nan),
    ],
)
def test_layer_norm_scaling_of_another_count_is_caught(of_layer, wrong):
    def factory(depth):
        return Opened(LayerNormScaled(of_layer(layer)) for layer in range(depth))

    report = check(factory, [3, 6, 12], "norm-depth")
    assert report.verdict == ("as expected" if wrong is None else "not as expected")
    with torch.random.fork_rng():
        alone = dl.probe(factory(6), torch.ones(2, WIDTH), expected="norm-depth")
    named = [] if wrong is None else ["input multiplier of 1.*.mlp"]
    assert [finding.parameter for finding in report.findings] == named
    assert [finding.parameter for finding in alone.findings] == named
    if wrong is not None and not math.isnan(wrong):
        assert report.findings[0].factor == pytest.approx(wrong, rel=1e-5)
