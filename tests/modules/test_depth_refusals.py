"""Depth checks of what cannot be checked: what was passed, what is wrong, what to do; and how factories and
batches are made.
"""

import functools
import math

import pytest
import torch
from refusals import assert_refused
from stacks import BatchNormed, Res1, Transformer, make, tokens, vectors
from torch import nn

import deeplimit as dl
from deeplimit.common.global_state import seeded

DEPTHS = [2, 4, 8]


@pytest.mark.parametrize(
    ("factory", "error", "pins"),
    [
        (factory, error, pins)
        for factory, error, *pins in (
            (lambda depth: "model", TypeError, "factory(2)", "torch.nn.Module", "'model'"),
            (lambda depth: Res1(3), ValueError, "factory", "2, 4, 8", "3"),
            (
                lambda depth: nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6)),
                ValueError,
                "no residual branch",
                "blocks=",
            ),
            (3, TypeError, "factory", "3"),
            (nn.Linear(2, 2, device="meta"), TypeError, "factory", "module Linear", "dl.probe"),
        )
    ],
)
def test_a_bad_factory_is_refused_and_named(factory, error, pins):
    assert_refused(lambda: dl.check_depth(factory, DEPTHS, batch=vectors()), error, *pins)


def test_a_factory_that_raises_comes_through_with_its_depth():
    def broken(depth):
        raise KeyError("no such size")

    with pytest.raises(KeyError, match="no such size") as caught:
        dl.check_depth(broken, DEPTHS, batch=vectors())
    assert "called the factory with depth 2" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("how", "error", "pins"),
    [
        (how, error, pins)
        for how, error, *pins in (
            ({"expected": "gpt-9"}, ValueError, "expected='gpt-9'", "gpt-2, depth-mup"),
            ({"expected": [0.5]}, TypeError, "expected", "[0.5]"),
            ({"expected": -1}, ValueError, "expected", "0", "-1"),
            ({"expected": True}, TypeError, "expected", "True"),
            ({"tolerance": 0.4}, ValueError, "tolerance", "0.25", "0.4"),
            ({"confidence": 1.0}, ValueError, "confidence", "1", "1"),
            ({"seed": -1}, ValueError, "seed", "0", "-1"),
            ({"batch": 3}, TypeError, "batch", "3"),
            ({"depths": torch.ones(2, 4)}, TypeError, "depths", "Tensor of shape (2, 4)", "batch="),
            ({"loss": lambda output: 1.0}, TypeError, "loss", "1.0"),
            ({"depths": [4]}, ValueError, "depths", "[4]"),
            ({"unknown": 1}, TypeError, "check_depth()", "'unknown'"),
            ({"loss": 3}, TypeError, "loss", "3"),
            ({"loss": lambda output: output}, TypeError, "loss", "gradient", "Tensor of shape (8, 32)"),
            ({"blocks": 3}, TypeError, "blocks", "3"),
            ({"blocks": [3]}, TypeError, "blocks", "[3]"),
            ({"progress": 3}, TypeError, "progress", "function", "3"),
            ({"batch": torch.zeros(0, 6)}, ValueError, "residual stream", "(0, 32)", "batch"),
            ({"batch": vectors() * math.inf}, ValueError, "layers.0 of Res1", "not finite", "nan"),
        )
    ],
)
def test_a_bad_call_is_refused_and_its_argument_named(how, error, pins):
    knobs = {"depths": DEPTHS, "batch": vectors(), **how}
    assert_refused(lambda: dl.check_depth(Res1, **knobs), error, *pins)


def test_one_depth_has_no_exponent():
    call = functools.partial(dl.probe, make(Res1, depth=2), vectors(), expected=0.5)
    assert_refused(call, ValueError, "one depth", "expected=0.5", "check_depth")


def test_a_factory_is_not_a_model_to_probe():
    call = functools.partial(dl.probe, Res1, vectors())
    assert_refused(call, TypeError, "model", "torch.nn.Module", "class Res1", "check_depth")


@pytest.mark.parametrize("rule", ["depth-mup", "completep", dl.Rule("ours", "this test", "1/L", 1.0)])
def test_one_depth_cannot_contradict_a_rule_about_depths(rule):
    call = functools.partial(dl.probe, make(Res1, depth=2), vectors(), expected=rule)
    assert_refused(call, ValueError, getattr(rule, "name", rule), "one depth", "check_depth")


@pytest.mark.parametrize("rule", ["gpt-2", "rezero", "fixup", "deepnorm"])
def test_one_depth_can_contradict_a_rule_about_sizes(rule):
    assert not dl.probe(make(Transformer, depth=2, exponent=0.0), tokens(), expected=rule).ok


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e38])
def test_weights_that_are_no_numbers_are_refused_by_name(value):
    def broken(depth):
        model = Res1(depth)
        with torch.no_grad():
            model.layers[1].weight.fill_(value)
        return model

    call = functools.partial(dl.check_depth, broken, DEPTHS, batch=vectors(), expected=0.5)
    assert_refused(call, ValueError, "layers.1 of Res1", "not finite")


def test_batches_are_made_up_from_first_layers():
    assert dl.probe(make(Transformer, depth=2)).branches
    assert dl.probe(make(Res1, depth=2)).branches
    assert dl.probe(make(BatchNormed)).branches
    call = functools.partial(dl.probe, nn.Sequential(nn.LayerNorm(4)))
    assert_refused(call, ValueError, "batch", "Sequential", "LayerNorm")


def test_what_takes_another_way_each_time_is_refused():
    class Fickle(Res1):
        def forward(self, x):
            h = super().forward(x)
            self.calls = getattr(self, "calls", 0) + 1
            return h + h if self.calls % 2 else h

    call = functools.partial(dl.probe, make(Fickle, depth=2), vectors())
    assert_refused(call, ValueError, "path", "values")


def test_sweep_takes_classes_objects_dataclasses_and_dicts():
    import dataclasses
    import types

    @dataclasses.dataclass(frozen=True)
    class Config:
        depth: int = 1
        width: int = 8

    def build(config):
        get = config.get if isinstance(config, dict) else lambda name: getattr(config, name)
        return Res1(get("depth"), get("width"))

    shared = types.SimpleNamespace(depth=1, width=8)
    for config in (Config, Config(), {"depth": 1, "width": 8}, shared):
        with seeded(0):
            model = dl.sweep(build, config, "depth", width=4)(3)
        assert (len(model.layers), model.layers[0].in_features) == (3, 4)
    assert shared.depth == 1
    for config in (shared, {"depth": 1}):
        assert_refused(functools.partial(dl.sweep, build, config, "layers"), ValueError, "config", "'layers'")
    assert_refused(lambda: dl.sweep(3, Config, "depth"), TypeError, "build", "3")
