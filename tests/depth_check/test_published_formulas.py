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
    """One layer of `modeling_llama.py` of LayerNorm-Scaling, NORM_TYPE=LNS; `layer_index` counts from 0."""

    def __init__(self, layer_index, first, second):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mixer = nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2)))
        self.mlp = nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2)))
        self.factors = first(layer_index), second(layer_index)

    def forward(self, x):
        residual = x
        x = self.factors[0] * self.input_layernorm(x)
        x = residual + self.mixer(x)
        residual = x
        x = self.factors[1] * self.post_attention_layernorm(x)
        return residual + self.mlp(x)


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


def of_layer(layer_index):
    return 1 / math.sqrt(layer_index + 1)


def layer_norm_scaled(depth, first=of_layer, second=of_layer):
    model = Opened(LayerNormScaled(layer_index, first, second) for layer_index in range(depth))
    for name, weight in model.named_parameters():
        if "norm" not in name and weight.dim() == 2:
            nn.init.normal_(weight, std=0.02)
    return model


def test_layer_norm_scaling_as_published_passes():
    """h = LayerNorm(h) × 1/√l in layer l = 1 … L, in front of attention and of the MLP alike."""
    report = check(layer_norm_scaled, [3, 6, 12], "norm-depth")
    assert report.verdict == "as expected", report


@pytest.mark.parametrize(
    ("second", "factor"),
    [
        (lambda layer: 1 / math.sqrt(2 * layer + 2), math.sqrt(0.5)),  # sublayers counted, not layers
        (lambda layer: 2 / math.sqrt(layer + 1), 2.0),
        (lambda layer: 1.0, None),
        (lambda layer: 1 / (layer + 1), None),
        (lambda layer: 1 / math.sqrt(layer + 2), None),
        (lambda layer: 1 / math.sqrt(max(layer, 1)), None),
    ],
)
def test_layer_norm_scaling_of_another_count_is_caught_in_its_branch(second, factor):
    report = check(partial(layer_norm_scaled, second=second), [3, 6, 12], "norm-depth")
    (finding,) = report.findings
    assert finding.parameter == "input multiplier of 1.*.mlp"
    if factor is not None:
        assert finding.factor == pytest.approx(factor, rel=1e-5)
    with torch.random.fork_rng():
        model = layer_norm_scaled(6, second=second)
    (alone,) = dl.probe(model, torch.ones(2, WIDTH), expected="norm-depth").findings
    assert alone.parameter == finding.parameter
