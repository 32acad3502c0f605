"""Diagnoses of small networks of known weights are what they were: numbers, codes, figures and pictures."""

import functools
import math

import kept_numbers
import numpy as np
import pytest
import torch
from gauges import with_biases
from stacks import BatchNormed, Res1, Transformer, images, make, tokens, vectors
from torch import nn

import deeplimit as dl
from calibration import depth_sweeps
from deeplimit.common.global_state import seeded

same = functools.partial(kept_numbers.same_report, "diagnoses", tolerance=1e-4)
DEPTHS = (8, 12, 18, 30)


def trends(seed=0, width=4):
    rng = np.random.default_rng(seed)
    return rng, depth_sweeps.smooth(rng, width), depth_sweeps.rough(rng, width)


def swept(kind, depths=DEPTHS, width=4):
    rng, smooth, rough = trends(width=width)
    of = functools.partial(depth_sweeps.sweep, rng, width=width, depths=depths)
    return {
        "smooth": lambda: of(smooth, 0.3),
        "little noise": lambda: of(smooth, 0.3, 0.3),
        "much noise": lambda: of(smooth, 0.8, 1.0),
        "noise": lambda: of(noise=1.0),
        "rough": lambda: of(rough, 0.3),
        "sparse": lambda: depth_sweeps.sparse(rng, width, depths=depths),
        "fractional": lambda: depth_sweeps.fractional(rng, 0.7, width, depths=depths),
        "rough fractional": lambda: depth_sweeps.fractional(rng, 0.3, width, depths=depths),
    }[kind]()


def several(kind):
    """Stacks with biases and factors, of two seeds."""
    found = {}
    for depth, stacks in swept(kind).items():
        times = np.arange(depth)[:, None] / depth
        more = {"b": np.cos(times * np.arange(4)) * depth**-0.5, "delta": np.full(depth, depth**-0.25)}
        found[depth] = [stacks | more, {name: 1.1 * value for name, value in (stacks | more).items()}]
    return found


def convolutions():
    rng = np.random.default_rng(2)
    first, second = rng.normal(size=(2, 3, 3, 3, 3))
    return {
        depth: {
            "A": depth**-0.5
            * (np.cos(np.arange(depth) / depth)[:, None, None, None, None] * first + 0.2 * second)
        }
        for depth in DEPTHS
    }


SWEEPS = {
    "smooth": lambda: dl.diagnose(swept("smooth")),
    "little noise": lambda: dl.diagnose(swept("little noise"), confidence=0.8),
    "much noise": lambda: dl.diagnose(swept("much noise"), seed=3),
    "noise": lambda: dl.diagnose(swept("noise")),
    "sparse": lambda: dl.diagnose(swept("sparse")),
    "rough fractional": lambda: dl.diagnose(swept("rough fractional")),
    "two depths": lambda: dl.diagnose(swept("smooth", (8, 16))),
    "several": lambda: dl.diagnose(several("little noise")),
    "homogeneous": lambda: dl.diagnose(several("smooth"), homogeneous=True),
    "convolutions": lambda: dl.diagnose(convolutions(), spatial=(5, 4)),
}


@pytest.mark.parametrize("name", SWEEPS)
def test_diagnoses_of_sweeps_stay(name):
    same(name, SWEEPS[name]())


def layers(depth=12, width=5, noise=1.0, turn=0.0, seed=0):
    stream = torch.Generator().manual_seed(seed)
    first, second = torch.randn(2, width, width, generator=stream)
    angles = turn * torch.arange(depth)[:, None, None]
    return {
        "A": torch.cos(angles) * first
        + torch.sin(angles) * second
        + noise * torch.randn(depth, width, width, generator=stream)
    }


def transformer(turn=0.0, depth=8):
    network = with_biases(make(Transformer, depth=depth, width=8, exponent=0.0), scale=0.1)
    if not turn:
        return network
    stream = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, first in list(network.blocks[0].named_parameters()):
            start = first.clone()
            end = torch.randn(first.shape, generator=stream) * first.std().nan_to_num(0.0)
            for k, block in enumerate(network.blocks):
                block.get_parameter(name).copy_(math.cos(turn * k) * start + math.sin(turn * k) * end)
    return network


ONE = {
    "noise": lambda: dl.diagnose(layers()),
    "ordered": lambda: dl.diagnose(layers(noise=0.1, turn=0.2)),
    "half ordered": lambda: dl.diagnose(layers(depth=30, turn=0.1, width=8), seed=2),
    "groups": lambda: dl.diagnose(layers(noise=0.3, turn=0.2), groups=[0, 1] * 6),
    "two of them": lambda: dl.diagnose([layers(turn=0.2, seed=1), layers(turn=0.2, seed=2)]),
    "res-1": lambda: dl.diagnose(make(Res1, depth=7, width=5), batch=vectors()),
    "batch norm": lambda: dl.diagnose(make(BatchNormed, depth=8).eval(), batch=images()),
    "null": lambda: dl.diagnose(one_matrix(7), batch=torch.ones(2, 4), null=lambda: one_matrix(7)),
}


@pytest.mark.parametrize("name", ONE)
def test_diagnoses_of_one_network_stay(name):
    same(f"one: {name}", ONE[name]())


def energy(stacks):
    return float(stacks["A"].square().sum())


def middle(stacks):
    return float(stacks["A"].mean(0).norm())


def last(stacks):
    return float(stacks["A"][-1, 0, 0])


def loss(network):
    with torch.no_grad():
        return float(network(tokens()).square().mean())


CONTROLS = {
    "energy": lambda: dl.depth_controls(layers(), energy, draws=4),
    "middle": lambda: dl.depth_controls(layers(noise=0.3, turn=0.2), middle, draws=3, seed=2),
    "halved": lambda: dl.depth_controls(layers(noise=0.3), last, halve=True, draws=3, tolerance=0.5),
    "module": lambda: dl.depth_controls(transformer(0.25, 6), loss, draws=2),
    "only": lambda: dl.depth_controls(transformer(0.25, 6), loss, draws=2, only="blocks.*.mlp.*"),
}


@pytest.mark.parametrize("name", CONTROLS)
def test_controls_over_depth_stay(name):
    same(f"controls: {name}", CONTROLS[name]())


def one_matrix(depth):
    with seeded(depth):
        return nn.Sequential(*(nn.Linear(4, 4, bias=False) for _ in range(depth)))


def turned(model, depth, seed, checkpoint=None):
    stream = torch.Generator().manual_seed(7)
    first, second = torch.randn(2, 4, 4, generator=stream)
    for step in range(2):
        with torch.no_grad():
            for k, layer in enumerate(model):
                angle = 1.5 * k / depth
                goal = math.cos(angle) * first + math.sin(angle) * second
                layer.weight.copy_(layer.weight + 0.6 * (goal - layer.weight))
        if checkpoint is not None:
            checkpoint(model, step)
    return model


STUDIES = {
    "course": lambda: dl.study(one_matrix, turned, (6,), seeds=1, progress=False),
}


@pytest.mark.parametrize("name", STUDIES)
def test_studies_stay(name):
    same(f"study: {name}", STUDIES[name]())


@pytest.mark.parametrize("how", [{}, {"seeds": 1}, {"seeds": 5, "objects": 4}, {"objects": 2, "steps": 7}])
@pytest.mark.parametrize("depths", [(6, 8), (8, 16, 32), (6, 12, 24, 48, 96)])
def test_what_studies_can_decide_stays(depths, how):
    power = dl.study_power(depths, **how)
    kept_numbers.check("diagnoses", f"power: {depths}, {how}", (power, kept_numbers.said(str(power))), 1e-4)


def fitted(beta, alpha, offset):
    smooth = trends(1)[1]
    found = {}
    for depth in (8, 16, 32, 64):
        times = (np.arange(depth) + offset) / depth
        found[depth] = {
            "A": 0.2 * depth**-beta * smooth(times),
            "b": 0.2 * depth**-beta * np.outer(1 + times, np.ones(4)),
            "delta": depth**-alpha,
        }
    return found


@pytest.mark.parametrize(
    ("activation", "regime", "weights"),
    [
        ("tanh", "linear-ode", (0.5, 0.5, 0.0)),
        ("scaled_silu", "linear-ode", (0.3, 0.7, 0.5)),
        ("tanh", "neural-ode", (0.0, 1.0, 1.0)),
    ],
)
def test_limits_that_networks_suggest_stay(activation, regime, weights):
    found = dl.fitted_limit(fitted(*weights), activation, regime=regime)
    report = found.compare(paths=20)
    numbers = kept_numbers.without(report.to_dict(), {*kept_numbers.LEFT_OUT, "reference_error"})
    name = f"fitted: {activation}, {regime}, {weights}"
    kept_numbers.check("diagnoses", name, numbers, kept_numbers.ADAPTIVE)
    kept_numbers.check("diagnoses", f"{name}: errors", report.errors.tolist(), 1e-4)
    kept_numbers.check(
        "diagnoses",
        f"offset: {activation}, {regime}, {weights}",
        (found.depths, kept_numbers.said(", ".join(map(repr, vars(found).values())))),
    )
