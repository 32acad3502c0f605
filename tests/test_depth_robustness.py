"""Depth checks on what real modules are, and what they leave behind: nothing."""

import inspect
import math
import random
from functools import partial

import numpy as np
import pytest
import torch
from stacks import Res1, Transformer, tokens, vectors
from torch import nn
from torch.utils.checkpoint import checkpoint

import deeplimit as dl
from deeplimit.modules.untouched import seeded

DEPTHS = [2, 4, 8]


def make(kind, **how):
    with seeded(0):
        return kind(**how)


def state(model):
    """Everything about a module that a check might disturb."""
    return {
        "modes": [module.training for module in model.modules()],
        "requires": [parameter.requires_grad for parameter in model.parameters()],
        "grads": [None if parameter.grad is None else parameter.grad.clone() for parameter in model.parameters()],
        "values": [value.clone() for value in model.state_dict().values()],
        "hooks": [
            (dict(module._forward_hooks), dict(module._forward_pre_hooks), dict(module._backward_hooks))
            for module in model.modules()
        ],
    }


def same(before, after):
    assert before.keys() == after.keys()
    for key in ("modes", "requires", "hooks"):
        assert before[key] == after[key], key
    for key in ("grads", "values"):
        for old, new in zip(before[key], after[key], strict=True):
            assert (old is None and new is None) or torch.equal(old, new), key


class BatchNormed(nn.Module):
    def __init__(self, depth=3):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
            for _ in range(depth)
        )

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = torch.relu(x + block(x))
        return x


class Raising(Transformer):
    def forward(self, tokens):
        super().forward(tokens)
        raise RuntimeError("on purpose")


def images(seed=0):
    return torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("action", [dl.probe, dl.branch_scalars, dl.find_branches])
@pytest.mark.parametrize("training", [True, False])
def test_a_module_is_left_as_it_was(action, training):
    for model, batch in ((make(Transformer, depth=3, dropout=0.3), tokens()), (make(BatchNormed), images())):
        model.train(training)
        first = next(model.parameters())
        first.requires_grad_(False)
        last = list(model.parameters())[-1]
        last.grad = torch.ones_like(last)
        before, threads = state(model), torch.get_num_threads()
        numbers, python = np.random.get_state()[1].copy(), random.getstate()
        action(model, batch)
        same(before, state(model))
        assert torch.get_num_threads() == threads
        assert np.array_equal(numbers, np.random.get_state()[1])
        assert python == random.getstate()


@pytest.mark.parametrize("action", [dl.probe, dl.branch_scalars, dl.find_branches])
def test_a_module_that_raises_is_left_as_it_was_too(action):
    model = make(Raising, depth=2)
    before = state(model)
    with pytest.raises(RuntimeError, match="on purpose") as caught:
        action(model, tokens())
    assert "deeplimit called Raising with LongTensor of shape (2, 12)" in caught.value.__notes__[0] or "(2, 12)" in str(
        caught.value.__notes__
    )
    same(before, state(model))


def test_global_generators_are_left_alone_by_factories_that_draw():
    def factory(depth):
        np.random.seed(5)
        random.random()
        return Res1(depth)

    numbers, python = np.random.get_state()[1].copy(), random.getstate()
    dl.check_depth(factory, DEPTHS, batch=vectors())
    assert np.array_equal(numbers, np.random.get_state()[1])
    assert python == random.getstate()


def test_the_batch_is_left_as_it_was():
    class InPlace(Res1):
        def forward(self, x):
            x.mul_(2.0)
            return super().forward(x)

    batch = vectors().requires_grad_()
    before = batch.detach().clone()
    dl.probe(make(InPlace, depth=3), batch)
    assert torch.equal(batch.detach(), before)
    assert batch.grad is None
    assert batch.requires_grad


@pytest.mark.parametrize("gives", ["logits", "dict", "tuple"])
def test_outputs_may_be_tensors_dicts_and_tuples(gives):
    report = dl.probe(make(Transformer, depth=2, gives=gives), tokens())
    assert report.streams[0].gradient_growth[0] > 0


def test_batches_may_be_tensors_tuples_dicts_and_functions():
    model = make(Transformer, depth=2)
    reports = [dl.probe(model, batch) for batch in (tokens(), (tokens(),), {"tokens": tokens()}, lambda: tokens())]
    assert len({report.branches for report in reports}) == 1


def test_dropout_draws_nothing_wherever_it_is():
    class Functional(Res1):
        def forward(self, x):
            h = self.entry(x)
            for layer in self.layers:
                h = h + torch.nn.functional.dropout(self.scale * layer(torch.tanh(h)), 0.5, True)
            return h

    noisy, plain = make(Functional, depth=4), make(Res1, depth=4)
    assert dl.probe(noisy, vectors()).branches == dl.probe(plain, vectors()).branches
    noisy, plain = make(Transformer, depth=2, dropout=0.5), make(Transformer, depth=2)
    assert dl.probe(noisy, tokens()).branches[1].sizes == dl.probe(plain, tokens()).branches[1].sizes


def test_half_precision_gives_the_same_exponents():
    exact = dl.check_depth(Transformer, DEPTHS, batch=tokens())
    half = dl.check_depth(lambda depth: Transformer(depth).bfloat16(), DEPTHS, batch=tokens())
    for one, other in zip(exact.branches, half.branches, strict=True):
        assert other.exponent == pytest.approx(one.exponent, abs=0.02)


def test_compiled_modules_are_seen_through():
    plain = make(Transformer, depth=2)
    compiled = torch.compile(plain, backend="eager")
    one, other = dl.probe(plain, tokens()), dl.probe(compiled, tokens())
    assert one.branches == other.branches
    assert other.model == "Transformer"


def test_frozen_parameters_hide_nothing():
    model = make(Transformer, depth=3)
    before = dl.probe(model, tokens())
    model.requires_grad_(False)
    assert dl.probe(model, tokens()).branches == before.branches


def test_no_grad_around_a_check_changes_nothing():
    model = make(Transformer, depth=3)
    before = dl.probe(model, tokens())
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            assert dl.probe(model, tokens()).branches == before.branches


def test_on_every_device(device):
    model = make(Transformer, depth=3).to(device)
    report = dl.probe(model, tokens())
    assert report.branches[0].sizes[0] == pytest.approx(dl.probe(model.cpu(), tokens()).branches[0].sizes[0], rel=1e-3)


def test_blocks_restrict_what_counts():
    class Two(nn.Module):
        def __init__(self, depth=2):
            super().__init__()
            self.first, self.second = Transformer(depth), Res1(depth)

        def forward(self, ids, x):
            return self.first(ids), self.second(x)

    batch = (tokens(), vectors())
    model = make(Two)
    assert len(dl.find_branches(model, batch)) == 6
    assert [branch.kind for branch in dl.find_branches(model, batch, blocks="first.blocks.*")][:2] == [
        "first.blocks.*.attention",
        "first.blocks.*.mlp",
    ]
    with pytest.raises(ValueError, match=r"blocks='third.*'.*Modules that add two activations of one shape: first.blocks.0"):
        dl.find_branches(model, batch, blocks="third.*")


@pytest.mark.parametrize(
    ("factory", "error", "message"),
    [
        (lambda depth: "model", TypeError, r"factory\(2\) must return a torch.nn.Module, got 'model' of type str"),
        (
            lambda depth: Res1(3),
            ValueError,
            r"factory ignores the depth: at depths 2, 4, 8 it built modules with 3 residual branches",
        ),
        (lambda depth: nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6)), ValueError, r"no residual branch was found.*blocks="),
        (lambda depth: Res1(depth).to("meta"), ValueError, r"on the meta device.*Build the model on a real device"),
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
        ({"expected": "gpt-9"}, ValueError, "is no rule: choose from gpt-2, depth-mup"),
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
        ({"loss": lambda output: output}, TypeError, r"one element that requires a gradient, got Tensor of shape \(8, 32\)\."),
        ({"blocks": 3}, TypeError, "blocks must be a pattern of module names"),
        ({"blocks": [3]}, TypeError, "blocks must be a pattern of module names"),
        ({"progress": 3}, TypeError, "progress must be a function"),
        ({"batch": torch.zeros(0, 6)}, ValueError, r"a residual stream is empty, of shape \(0, 32\)"),
        ({"batch": vectors() * math.inf}, ValueError, r"layers.0 of Res1 adds numbers that are not finite .*nan"),
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
    with pytest.raises(ValueError, match="none can be made up for Sequential, whose first layer is LayerNorm"):
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


class Remembering(Res1):
    """Keeps a running mean, a count and its last state between calls, as modules do."""

    def __init__(self, depth=2):
        super().__init__(depth)
        self.register_buffer("average", torch.zeros(32))
        self.calls, self.last = 0, None

    def forward(self, x):
        h = super().forward(x)
        self.average = 0.9 * self.average + 0.1 * h.mean(0).detach()
        self.calls, self.last = self.calls + 1, h
        if not hasattr(self, "mask"):
            self.register_buffer("mask", torch.ones(32))
        return h * self.mask


@pytest.mark.parametrize("action", [dl.probe, dl.branch_scalars, dl.find_branches])
def test_what_a_forward_binds_anew_is_put_back(action):
    model = make(Remembering)
    average = model.average
    action(model, vectors())
    assert model.average is average
    assert torch.equal(average, torch.zeros(32))
    assert (model.calls, model.last) == (0, None)
    assert not hasattr(model, "mask")
    model(vectors())  # still runs, and from its first state
    assert model.calls == 1


def test_gradients_are_left_alone_by_a_module_that_runs_a_backward():
    class Backward(Res1):
        def forward(self, x):
            self.entry(x).sum().backward(retain_graph=True)
            return super().forward(x)

    model = make(Backward, depth=2)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    dl.find_branches(model, vectors())
    assert all(torch.equal(parameter.grad, torch.ones_like(parameter)) for parameter in model.parameters())


@pytest.mark.parametrize("training", [True, False])
def test_batch_normalisation_uses_the_batch_and_keeps_its_statistics(training):
    class Own(BatchNormed):
        def forward(self, x):
            seen.append([module.training for module in self.modules()])
            return super().forward(x)

    seen = []
    model = make(Own).train(training)
    before = {name: value.clone() for name, value in model.named_buffers()}
    ratios = dl.probe(model, images()).branches[0].ratios
    shifted = make(Own).train(training)
    for name, buffer in shifted.named_buffers():
        if name.endswith("running_var"):
            buffer.fill_(100.0)
    assert dl.probe(shifted, images()).branches[0].ratios == ratios
    assert all(torch.equal(value, dict(model.named_buffers())[name]) for name, value in before.items())
    normalised = [isinstance(module, nn.BatchNorm2d) for module in model.modules()]
    assert all(modes == normalised for modes in seen)


def test_every_generator_is_left_alone_by_a_module_that_draws_from_it():
    class Drawing(Res1):
        def forward(self, x):
            np.random.rand()
            random.random()
            torch.rand(())
            return super().forward(x)

    def factory(depth):
        np.random.rand()
        random.random()
        return Drawing(depth)

    before = np.random.get_state()[2], np.random.get_state()[1].copy(), random.getstate(), torch.get_rng_state()
    dl.check_depth(factory, DEPTHS, batch=vectors())
    dl.branch_scalars(make(Drawing, depth=2), vectors())
    after = np.random.get_state()[2], np.random.get_state()[1], random.getstate(), torch.get_rng_state()
    assert before[0] == after[0]
    assert np.array_equal(before[1], after[1])
    assert before[2] == after[2]
    assert torch.equal(before[3], after[3])


@pytest.mark.skipif(torch.cuda.is_initialized(), reason="the seed no longer waits")
def test_the_seed_that_waits_for_cuda_to_start_is_left_alone():
    def waiting():
        return inspect.getclosurevars(torch.cuda._lazy_seed_tracker.manual_seed_all_cb[0]).nonlocals["seed"]

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(42)
        dl.check_depth(Res1, DEPTHS, batch=vectors())
        assert waiting() == 42


@pytest.mark.parametrize("what", ["block", "branch"])
def test_reentrant_checkpoints_hide_branches_and_others_do_not(what):
    class Checkpointed(Res1):
        reentrant = True

        def forward(self, x):
            h = self.entry(x)
            for layer in self.layers:

                def branch(h, layer=layer):
                    return self.scale * layer(torch.tanh(h))

                def block(h, branch=branch):
                    return h + branch(h)

                call = partial(checkpoint, use_reentrant=self.reentrant)
                h = call(block, h) if what == "block" else h + call(branch, h)
            return h

    model = make(Checkpointed, depth=3)
    for action in (dl.probe, dl.find_branches):
        with pytest.raises(ValueError, match=r"Checkpointed.*use_reentrant=True.*pass use_reentrant=False"):
            action(model, vectors())
    model.reentrant = False
    assert dl.probe(model, vectors()).branches == dl.probe(make(Res1, depth=3), vectors()).branches


class ScriptedBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(32, 32)

    def forward(self, x):
        return x + self.layer(torch.tanh(x))


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_scripted_modules_are_passed_over():
    def mixed(depth=2):
        model = Res1(depth)
        model.entry = nn.Sequential(model.entry, torch.jit.script(ScriptedBlock()))
        return model

    assert len(dl.find_branches(make(mixed), vectors())) == 2
    with pytest.raises(ValueError, match=r"Inside of scripted modules nothing is seen \(0 is one\)"):
        dl.probe(make(lambda: nn.Sequential(torch.jit.script(ScriptedBlock()))), torch.ones(2, 32))


def test_modules_may_differentiate_as_they_run():
    class Force(Res1):
        def forward(self, x):
            x = x.requires_grad_()
            return torch.autograd.grad(super().forward(x).sum(), x, create_graph=True)[0]

    class InPlace(Force):
        def __init__(self, depth):
            super().__init__(depth)
            self.entry = nn.Sequential(self.entry, nn.ReLU(inplace=True))

    for kind in (Force, InPlace):
        plain = dl.probe(make(Res1, depth=3), vectors()) if kind is Force else None
        report = dl.probe(make(kind, depth=3), vectors())
        assert len(report.branches[0].layers) == 3
        assert plain is None or report.branches[0].sizes == plain.branches[0].sizes
