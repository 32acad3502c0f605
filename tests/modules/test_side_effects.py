"""Depth checks on what real modules are, and what they leave behind: nothing."""

import inspect
import random
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
import torch
from stacks import BatchNormed, Res1, Transformer, images, make, tokens, vectors
from torch import nn
from torch.utils.checkpoint import checkpoint

import deeplimit as dl

DEPTHS = [2, 4, 8]


def state(model):
    """Everything about a module that a check might disturb."""
    return {
        "modes": [module.training for module in model.modules()],
        "requires": [parameter.requires_grad for parameter in model.parameters()],
        "grads": [
            None if parameter.grad is None else parameter.grad.clone() for parameter in model.parameters()
        ],
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


@contextmanager
def generators_are_left_alone():
    name, numbers, place, *rest = np.random.get_state()
    before = name, numbers.tolist(), place, *rest, random.getstate(), torch.get_rng_state().tolist()
    yield
    name, numbers, place, *rest = np.random.get_state()
    assert before == (name, numbers.tolist(), place, *rest, random.getstate(), torch.get_rng_state().tolist())


class Raising(Transformer):
    def forward(self, tokens):
        super().forward(tokens)
        raise RuntimeError("on purpose")


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
        with generators_are_left_alone():
            action(model, batch)
        same(before, state(model))
        assert torch.get_num_threads() == threads


@pytest.mark.parametrize("action", [dl.probe, dl.branch_scalars, dl.find_branches])
def test_a_module_that_raises_is_left_as_it_was_too(action):
    model = make(Raising, depth=2)
    before = state(model)
    with pytest.raises(RuntimeError, match="on purpose") as caught:
        action(model, tokens())
    assert "(2, 12)" in str(caught.value.__notes__)
    same(before, state(model))


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
    reports = [
        dl.probe(model, batch) for batch in (tokens(), (tokens(),), {"tokens": tokens()}, lambda: tokens())
    ]
    assert len({report.branches for report in reports}) == 1


def test_dropout_draws_nothing_wherever_it_is():
    class Functional(Res1):
        def forward(self, x):
            h = self.entry(x)
            for layer in self.layers:
                h = h + torch.nn.functional.dropout(self.scale * layer(torch.tanh(h)), 0.5, True)
            return h

    class Attending(Res1):
        chance = 0.5

        def forward(self, x):
            h = self.entry(x)
            for layer in self.layers:
                q = torch.tanh(h)[:, None]
                attend = torch.nn.functional.scaled_dot_product_attention
                h = h + self.scale * layer(attend(q, q, q, dropout_p=self.chance)[:, 0])
            return h

    class Sure(Attending):
        chance = 0.0

    for one, other in ((Functional, Res1), (Attending, Sure)):
        noisy, plain = make(one, depth=4), make(other, depth=4)
        assert dl.probe(noisy, vectors()).branches == dl.probe(plain, vectors()).branches
    noisy, plain = make(Transformer, depth=2, dropout=0.5), make(Transformer, depth=2)
    assert dl.probe(noisy, tokens()).branches[1].sizes == dl.probe(plain, tokens()).branches[1].sizes


def test_half_precision_gives_the_same_exponents():
    exact = dl.check_depth(Transformer, DEPTHS, batch=tokens())
    half = dl.check_depth(lambda depth: Transformer(depth).bfloat16(), DEPTHS, batch=tokens())
    for one, other in zip(exact.branches, half.branches, strict=True):
        assert other.exponent == pytest.approx(one.exponent, abs=0.02)


@contextmanager
def frozen(model):
    model.requires_grad_(False)
    yield


@pytest.mark.parametrize(
    "around",
    [frozen, lambda model: torch.no_grad(), lambda model: torch.inference_mode()],
    ids=["frozen parameters", "no_grad", "inference_mode"],
)
def test_what_switches_gradients_off_hides_nothing(around):
    model = make(Transformer, depth=3)
    before = dl.probe(model, tokens())
    assert dl.probe(torch.compile(model, backend="eager"), tokens()).branches == before.branches
    with around(model):
        assert dl.probe(model, tokens()).branches == before.branches


def test_on_every_device(device):
    model = make(Transformer, depth=3).to(device)
    report = dl.probe(model, tokens())
    assert report.branches[0].sizes[0] == pytest.approx(
        dl.probe(model.cpu(), tokens()).branches[0].sizes[0], rel=1e-3
    )


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
    with pytest.raises(ValueError, match=r"blocks='third.*'.*first.blocks.0"):
        dl.find_branches(model, batch, blocks="third.*")


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

    with generators_are_left_alone():
        dl.check_depth(factory, DEPTHS, batch=vectors())
        dl.branch_scalars(make(Drawing, depth=2), vectors())


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
        with pytest.raises(ValueError, match=r"Checkpointed.*use_reentrant=True"):
            action(model, vectors())
    model.reentrant = False
    assert dl.probe(model, vectors()).branches == dl.probe(make(Res1, depth=3), vectors()).branches


class ScriptedBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(32, 32)

    def forward(self, x):
        return x + self.layer(torch.tanh(x))


@pytest.mark.filterwarnings("ignore:.*torch.jit.*")
def test_scripted_modules_are_passed_over():
    def mixed(depth=2):
        model = Res1(depth)
        model.entry = nn.Sequential(model.entry, torch.jit.script(ScriptedBlock()))
        return model

    assert len(dl.find_branches(make(mixed), vectors())) == 2
    with pytest.raises(ValueError, match=r"scripted .*\(0 is one\)"):
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


def test_a_forward_that_draws_leaves_the_global_generator_where_it_was():
    class Drawing(Res1):
        def forward(self, x):
            return super().forward(x + 0.1 * torch.randn(x.shape))

    before = torch.get_rng_state()
    for ask in (dl.find_branches, lambda model, x: dl.diagnose(model, batch=x)):
        ask(make(Drawing, depth=8), vectors())
        assert torch.equal(torch.get_rng_state(), before)
