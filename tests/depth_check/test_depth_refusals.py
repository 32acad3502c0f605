"""Depth checks of what cannot be checked: what was passed, what is wrong, what to do; and how factories and
batches are made.
"""

import math

import pytest
import torch
from stacks import BatchNormed, Res1, Transformer, make, tokens, vectors
from torch import nn

import deeplimit as dl
from deeplimit.trace.side_effects import seeded

DEPTHS = [2, 4, 8]


@pytest.mark.parametrize(
    ("factory", "error", "message"),
    [
        (
            lambda depth: "model",
            TypeError,
            r"factory\(2\) must return a torch.nn.Module, got 'model' of type str",
        ),
        (
            lambda depth: Res1(3),
            ValueError,
            r"factory ignores the depth: at depths 2, 4, 8 it built modules with 3 residual branches",
        ),
        (
            lambda depth: nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6)),
            ValueError,
            r"no residual branch was found.*blocks=",
        ),
        (
            lambda depth: Res1(depth).to("meta"),
            ValueError,
            r"on the meta device.*Build the model on a real device",
        ),
        (3, TypeError, r"factory must be a function depth -> nn.Module, got 3"),
        (nn.Linear(2, 2, device="meta"), TypeError, r"got the module Linear itself.*dl.probe"),
    ],
)
def test_factories_that_are_none_are_told_why(factory, error, message):
    with pytest.raises(error, match=message):
        dl.check_depth(factory, DEPTHS, batch=vectors())


def test_a_factory_that_raises_comes_through_with_its_depth():
    def broken(depth):
        raise KeyError("no such size")

    with pytest.raises(KeyError, match="no such size") as caught:
        dl.check_depth(broken, DEPTHS, batch=vectors())
    assert "called the factory with depth 2" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"expected": "gpt-9"}, ValueError, r"expected='gpt-9' .*gpt-2, depth-mup"),
        ({"expected": [0.5]}, TypeError, "expected must be a number, the name of a rule or None"),
        ({"expected": -1}, ValueError, "expected must be at least 0"),
        ({"expected": True}, TypeError, "expected must be a number"),
        ({"tolerance": 0.4}, ValueError, "tolerance must be at most 0.25"),
        ({"confidence": 1.0}, ValueError, "confidence must be below 1"),
        ({"seed": -1}, ValueError, "seed must be at least 0"),
        ({"batch": 3}, TypeError, "batch must be a tensor, a tuple of arguments or a dict"),
        ({"loss": lambda output: 1.0}, TypeError, "loss must return a tensor of one element"),
        ({"depths": [4]}, ValueError, "depths"),
        ({"unknown": 1}, TypeError, "unknown"),
        ({"loss": 3}, TypeError, "loss must be a function of the module's output, got 3"),
        (
            {"loss": lambda output: output},
            TypeError,
            r"one element that requires a gradient, got Tensor of shape \(8, 32\)\.",
        ),
        ({"blocks": 3}, TypeError, "blocks must be a pattern of module names"),
        ({"blocks": [3]}, TypeError, "blocks must be a pattern of module names"),
        ({"progress": 3}, TypeError, "progress must be a function"),
        ({"batch": torch.zeros(0, 6)}, ValueError, r"a residual stream is empty, of shape \(0, 32\)"),
        (
            {"batch": vectors() * math.inf},
            ValueError,
            r"layers.0 of Res1 adds numbers that are not finite .*nan",
        ),
    ],
)
def test_bad_calls_are_refused(how, error, message):
    with pytest.raises(error, match=message):
        dl.check_depth(Res1, **{"depths": DEPTHS, "batch": vectors(), **how})


def test_one_depth_has_no_exponent():
    with pytest.raises(ValueError, match="one depth has no exponent"):
        dl.probe(make(Res1, depth=2), vectors(), expected=0.5)


@pytest.mark.parametrize("rule", ["depth-mup", "completep", dl.Rule("ours", "this test", "1/L", 1.0)])
def test_one_depth_cannot_contradict_a_rule_about_depths(rule):
    with pytest.raises(ValueError, match="so that one depth cannot contradict it"):
        dl.probe(make(Res1, depth=2), vectors(), expected=rule)


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

    with pytest.raises(ValueError, match=r"layers\.1 of Res1 adds numbers that are not finite"):
        dl.check_depth(broken, DEPTHS, batch=vectors(), expected=0.5)


def test_batches_are_made_up_from_first_layers():
    assert dl.probe(make(Transformer, depth=2)).branches
    assert dl.probe(make(Res1, depth=2)).branches
    assert dl.probe(make(BatchNormed)).branches
    with pytest.raises(
        ValueError, match="none can be made up for Sequential, whose first layer is LayerNorm"
    ):
        dl.probe(nn.Sequential(nn.LayerNorm(4)))


def test_what_takes_another_way_each_time_is_refused():
    class Fickle(Res1):
        def forward(self, x):
            h = super().forward(x)
            self.calls = getattr(self, "calls", 0) + 1
            return h + h if self.calls == 1 else h

    with pytest.raises(ValueError, match="its path depends on the values of its states"):
        dl.probe(make(Fickle, depth=2), vectors())


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
    with pytest.raises(ValueError, match="without a field 'layers'"):
        dl.sweep(build, shared, "layers")
    with pytest.raises(ValueError, match="without a field 'layers'"):
        dl.sweep(build, {"depth": 1}, "layers")
    with pytest.raises(TypeError, match="build must be"):
        dl.sweep(3, Config, "depth")
