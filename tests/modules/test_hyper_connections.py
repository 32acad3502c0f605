"""Copies of a stream that are mixed between its sums are refused by name, and the advice works."""

from functools import partial

import pytest
import torch
from configurations_text import build as transformer
from families import tokens as words
from residual_stacks import DEPTHS, made, states as drawn
from stand_in_hyper_connections import WIDTH, HyperConnected, Plain, Stacked, Summed
from torch import nn

import deeplimit as dl

pytestmark = pytest.mark.usefixtures("one_thread")
NETWORKS = {
    "static": HyperConnected,
    "dynamic": partial(HyperConnected, kind="dynamic"),
    "doubly stochastic": partial(HyperConnected, kind="stochastic"),
    "a list of sums": Summed,
    "a list that is stacked": Stacked,
}


def states(length=6):
    return drawn(4, length, WIDTH)


@pytest.mark.parametrize("copies", [2, 4])
@pytest.mark.parametrize("name", NETWORKS)
def test_mixed_copies_of_a_stream_are_refused_by_name_with_advice(name, copies):
    owner = "the module itself" if name.startswith("a list") else "layers.0, layers.1"
    message = rf"{owner}: the residual stream is several copies"
    with pytest.raises(ValueError, match=message):
        dl.check_depth(partial(NETWORKS[name], copies=copies), DEPTHS, batch=states())
    for verb in (dl.probe, dl.find_branches, dl.branch_scalars):
        with pytest.raises(ValueError, match=message):
            verb(made(NETWORKS[name], 2, copies), states())


@pytest.mark.nightly
@pytest.mark.thirdparty
def test_the_hyper_connections_of_deepseek_v4_are_refused_by_name():
    def factory(depth):
        return transformer(depth, model="DeepseekV4ForCausalLM", config="DeepseekV4Config", options={})

    with pytest.raises(ValueError, match=r"model\.layers\.0, model\.layers\.1: the residual stream"):
        dl.probe(made(factory, 2), words())


def test_plain_connections_compute_the_same_at_initialisation_as_the_advice_says():
    model = made(HyperConnected, 4)
    plain = made(Plain, 4)
    plain.load_state_dict(model.state_dict())
    torch.testing.assert_close(model(states()), 4 * plain(states()))
    report = dl.check_depth(Plain, [2, 4, 8, 16], batch=states(), expected=0.0)
    assert report.verdict == "as expected", report


@pytest.mark.parametrize("build", [HyperConnected, Summed, Stacked])
def test_one_copy_is_a_residual_stream_like_any_other(build):
    one, plain = made(build, 4, copies=1), made(Plain, 4, copies=1)
    plain.load_state_dict(one.state_dict())
    (found,), (wanted,) = dl.probe(one, states()).branches, dl.probe(plain, states()).branches
    assert found.ratios == pytest.approx(wanted.ratios, rel=1e-5)
    assert found.layers == pytest.approx(wanted.layers, rel=1e-5)
    report = dl.check_depth(partial(build, copies=1), DEPTHS, batch=states(), expected=0.0)
    assert report.verdict == "as expected", report
    wrong = dl.check_depth(
        lambda depth: build(depth, copies=1, scale=1 / depth), DEPTHS, batch=states(), expected=0.0
    )
    assert wrong.verdict == "not as expected", wrong


class Added(nn.Module):
    """Two branches of one state, whose sums with it are added; or one update that two states get."""

    def __init__(self, depth, shared):
        super().__init__()
        self.entry, self.shared = nn.Linear(WIDTH, WIDTH), shared
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2 * depth))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x):
        x = y = self.entry(x)
        for one, other in zip(self.layers[::2], self.layers[1::2], strict=True):
            if self.shared:
                update = one(torch.tanh(x))
                x, y = self.norm(x + update), y + update
            else:
                x = 0.5 * ((x + one(torch.tanh(x))) + (x + other(torch.tanh(x))))
        return x + y if self.shared else x


@pytest.mark.parametrize("shared", [True, False])
def test_a_state_or_an_update_in_two_sums_is_no_mixing_of_copies(shared):
    assert dl.find_branches(made(Added, 3, shared), states())


def test_one_copy_whose_gains_are_of_data_is_measured_but_its_gains_are_not_judged():
    report = dl.check_depth(partial(NETWORKS["dynamic"], copies=1), DEPTHS, batch=states(), expected=0.0)
    assert [branch.counts for branch in report.branches] == [(2, 4, 8)]
    assert report.verdict == "cannot tell"
    assert "layers.*.to_mix.weight" in str(report)


class Around(nn.Module):
    """Something without a skip of its own, then two residual blocks of attention without values."""

    def __init__(self, first, width, tokens):
        super().__init__()
        self.first, self.tokens = first, tokens
        self.layers = nn.ModuleList(
            nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(3)) for _ in range(2)
        )
        self.short, self.one, self.entry = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.matrix = nn.Parameter(torch.randn(tokens, tokens))
        self.relative = nn.Parameter(torch.randn(tokens, width))

    def forward(self, x):
        x = self.first(self, self.entry(x))
        for query, key, back in self.layers:
            q = query(x)
            x = x + (q @ key(x).mT + q @ self.relative.mT).softmax(-1) @ x
            x = x + back(torch.tanh(x))
        return x


ELSE = {
    "a projected shortcut": (lambda model, x: model.short(x) + model.one(torch.tanh(x)), 6, 4),
    "tokens, mixed by a matrix": (lambda model, x: model.matrix @ x + model.one(torch.tanh(x)), 16, 32),
    "tokens, mixed by data": (lambda model, x: (x @ x.mT).softmax(-1) @ x + model.one(torch.tanh(x)), 16, 4),
    "tokens, mixed between sums": (lambda model, x: model.matrix @ x, 16, 4),
    "nothing, few tokens": (lambda model, x: x, 16, 4),
    "nothing, eight tokens": (lambda model, x: x, 16, 8),
}


@pytest.mark.parametrize("name", ELSE)
def test_other_products_with_small_matrices_are_no_mixing_of_copies(name):
    first, width, tokens = ELSE[name]
    model = made(Around, first, width, tokens)
    assert len(dl.find_branches(model, states(tokens)[..., :width])) == 4
