"""Modules built on the meta device are filled a few weights at a time: values, reports and memory are checked
against the same modules built in memory.
"""

import functools

import numpy as np
import pytest
import torch
from refusals import assert_refused
from stacks import Res1, Transformer, tokens, vectors
from torch import nn

import deeplimit as dl
from deeplimit.common.global_state import seeded
from deeplimit.modules.trace import in_pieces

DEPTHS = [2, 4, 8]
ROOM = 2**15  # bytes: two or three of the weights of these modules


@pytest.fixture
def little_room(monkeypatch):
    """Room for a few weights, and the largest number of bytes that was taken."""
    monkeypatch.setattr(in_pieces, "LARGE", 2**10)
    monkeypatch.setattr(in_pieces, "ROOM", ROOM)
    taken = []
    made = in_pieces.Pieces.have

    def noted(pieces, wanted):
        made(pieces, wanted)
        taken.append(sum(storage.nbytes() for storage in pieces.storages.values()))

    monkeypatch.setattr(in_pieces.Pieces, "have", noted)
    return taken


def on_meta(factory):
    def build(depth):
        with torch.device("meta"):
            return factory(depth)

    return build


def unscaled(depth):
    return Transformer(depth, exponent=0.0)


def cloned(depth):
    layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True, dropout=0.0)
    return nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)


def facts(report):
    found = report.to_dict()
    return {key: value for key, value in found.items() if key not in ("seconds", "call", "versions", "date")}


@pytest.mark.parametrize(
    ("factory", "batch", "verdict"),
    [
        (Res1, vectors(), "not as expected"),
        (Transformer, tokens(), "as expected"),
        (unscaled, tokens(), "not as expected"),
        (cloned, torch.randn(2, 5, 32, generator=torch.Generator().manual_seed(0)), "not as expected"),
    ],
)
def test_a_module_on_meta_has_the_report_of_the_one_in_memory(factory, batch, verdict, little_room):
    here = dl.check_depth(factory, DEPTHS, batch=batch, expected="gpt-2")
    assert not little_room
    there = dl.check_depth(on_meta(factory), DEPTHS, batch=batch, expected="gpt-2")
    assert facts(there) == facts(here)
    assert there.verdict == verdict
    assert max(little_room) <= 2 * ROOM


class Initialised(nn.Module):
    """Weights by initialisers that look at values, that copy, and that draw from generators of their own."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(7)

        def weight(initialise=nn.init.normal_):
            return nn.Parameter(initialise(torch.empty(32, 32)))

        self.truncated = weight(nn.init.trunc_normal_)
        self.orthogonal = weight(nn.init.orthogonal_)
        self.sparse = weight(lambda value: nn.init.sparse_(value, 0.5))
        self.seeded = weight(lambda value: nn.init.normal_(value, generator=generator))
        self.product = nn.Parameter(torch.randn(32, 32) @ torch.randn(32, 32))
        self.copied = weight()
        self.moved = weight()
        self.halved = nn.Parameter(torch.randn(32, 32).half())
        drawn = np.random.default_rng(0).normal(size=(32, 32))
        with torch.no_grad():
            self.copied.copy_(torch.from_numpy(drawn))
            drawn[:] = 0  # what was copied stays
            self.moved.copy_(self.copied).mul_(2)
            self.copied[:16].add_(1)
        self.fused = nn.Parameter(torch.cat([self.copied, self.moved]))
        self.tied = self.moved
        self.register_buffer("mask", torch.tril(torch.ones(40, 40)))


def test_weights_are_made_again_to_the_last_bit(little_room):
    with seeded(1):
        expected = Initialised().state_dict()

    def make():
        with seeded(1), torch.device("meta"):
            return Initialised()

    with in_pieces.built_to_fit(make, torch.device("cpu")) as model:
        assert model.tied is model.moved
        for _ in range(2):
            for name, value in model.state_dict().items():
                assert torch.equal(value, expected[name]), name
    assert max(little_room) <= ROOM + 2 * 32 * 32 * 4
    assert len(little_room) > 2 * len(expected)  # so they were dropped in between


def test_a_weight_that_is_changed_in_use_keeps_its_value(little_room):
    def make():
        with seeded(1), torch.device("meta"):
            return nn.Sequential(*(nn.Linear(32, 32) for _ in range(16)))

    with in_pieces.built_to_fit(make, torch.device("cpu")) as model, torch.no_grad():
        model[3].weight.zero_()
        for layer in model:
            assert torch.isfinite(layer.weight).all()
        assert not model[3].weight.any()
        assert model[4].weight.any()
        assert not model[3].weight.numpy().any()


def test_a_scale_that_is_forgotten_on_meta_is_named_with_its_factor(little_room):
    report = dl.check_depth(on_meta(unscaled), DEPTHS, batch=tokens(), expected="gpt-2", device="cpu")
    named = {finding.parameter: finding for finding in report.findings}
    assert set(named) == {"blocks.*.attention.out_proj.weight", "blocks.*.mlp.3.weight"}
    assert all(finding.fix for finding in named.values())
    assert max(little_room) <= 2 * ROOM


def test_a_module_moved_to_meta_is_judged_as_the_one_in_memory(little_room):
    here = dl.check_depth(Res1, DEPTHS, batch=vectors(), expected=0.5)
    there = dl.check_depth(
        lambda depth: Res1(depth).to("meta"), DEPTHS, batch=vectors(), expected=0.5, device="cpu"
    )
    assert facts(there) == facts(here)
    assert there.ok


def test_a_weight_that_nobody_initialises_is_named(little_room):
    def forgotten(depth):
        with torch.device("meta"):
            model = Transformer(depth)
            model.blocks[0].mlp[0].weight = nn.Parameter(torch.empty(64, 32))
        return model

    pins = ("blocks.0.mlp.0.weight of Transformer", "initialiser")
    assert_refused(lambda: dl.check_depth(forgotten, DEPTHS, batch=tokens()), ValueError, *pins)


def test_one_module_on_meta_is_refused_and_the_way_to_fill_it_named():
    with torch.device("meta"):
        model = Res1(2)
    for function in (dl.find_branches, dl.probe):
        call = functools.partial(function, model, vectors())
        assert_refused(call, ValueError, "meta", "entry.weight", "dl.check_depth")
