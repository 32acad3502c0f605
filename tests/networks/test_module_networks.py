"""A torch module's stack of blocks as a network: measured by `stability` and `compare`, without a theorem."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from refusals import assert_refused
from torch import nn

import deeplimit as dl
from deeplimit.common.global_state import seeded
from deeplimit.driving import FreshBlocks, layers_of

WIDTH = 3
X = torch.randn(6, WIDTH, generator=torch.Generator().manual_seed(0))
TURN = torch.tensor([[0.2, 1.0, 0.0], [-1.0, 0.1, 0.3], [0.0, -0.4, 0.0]], dtype=torch.float64)


class Random(nn.Module):
    """h + depth^-exponent V σ(h), V fresh."""

    def __init__(self, depth, exponent=0.5, width=WIDTH):
        super().__init__()
        self.linear = nn.Linear(width, width, bias=False)
        nn.init.normal_(self.linear.weight, std=width**-0.5)
        self.scale = depth**-exponent

    def forward(self, h):
        return h + self.scale * torch.tanh(self.linear(h))


class Turning(nn.Module):
    """h + tanh(A_t h)/depth, A a given function of time."""

    def __init__(self, k, depth):
        super().__init__()
        self.matrix = nn.Parameter(TURN * (1.0 + k / depth))
        self.depth = depth

    def forward(self, h):
        return h + torch.tanh(h @ self.matrix.T) / self.depth


def random_blocks(depth):
    return nn.Sequential(*(Random(depth) for _ in range(depth)))


def turning_blocks(depth):
    return nn.ModuleList(Turning(k + 1, depth) for k in range(depth))


def equation(t, h):
    return torch.tanh(h @ (TURN * (1.0 + t)).T)


def test_the_errors_are_those_of_the_same_network_written_as_a_recursion():
    """The blocks are Euler steps of `inner` with the same matrices."""
    knobs = {"depths": [4, 8, 16], "paths": 6, "dtype": "float64", "workers": 1}
    ours = dl.compare(turning_blocks, equation, X.double(), **knobs)
    network = dl.inner(WIDTH, "tanh", weights=dl.Trend(lambda t: TURN * (1.0 + t)))
    theirs = dl.compare(network, equation, X.double(), **knobs)
    np.testing.assert_allclose(ours.raw_errors, theirs.raw_errors, rtol=1e-9)


def test_stability_measures_signal_and_gradient_as_torch_has_them():
    report = dl.stability(random_blocks, depths=[3], x=X, draws=4, seed=7, dtype="float64", workers=1)
    network = dl.module_network(random_blocks, WIDTH)
    again = dl.stability(network, depths=[3], x=X, draws=4, seed=7, dtype="float64", workers=1)
    np.testing.assert_array_equal(report.log_gradient_ratio, again.log_gradient_ratio)
    stack = turning_blocks(5).double()
    fixed = dl.stability(turning_blocks, depths=[5], x=X, draws=6, dtype="float64", workers=1)
    h = X.double()
    for block in stack:
        h = block(h)
    np.testing.assert_allclose(fixed.hidden_ratio[0], (h.norm(dim=1) / X.norm(dim=1)).detach(), rtol=1e-6)


def test_random_blocks_at_the_critical_exponent_are_stable_and_below_it_explode():
    knobs = {"depths": [4, 8, 16, 32], "x": X, "draws": 30}
    assert dl.stability(random_blocks, **knobs).verdict in ("stable", "cannot tell")
    report = dl.stability(lambda depth: [Random(depth, 0.1) for _ in range(depth)], **knobs)
    assert report.verdict == "explosion"
    assert report.critical_exponent is None


def test_every_path_has_weights_of_its_own_at_every_depth():
    law = FreshBlocks(random_blocks)
    layers = layers_of(law, 2, (1,), 3, torch.Generator().manual_seed(0), torch.float64)
    same = torch.ones(3, WIDTH, dtype=torch.float64)
    one, two = (layer.product(same) for layer in layers)
    rows = torch.cat([one, two])
    assert len({tuple(row.tolist()) for row in rows}) == 6


def test_the_global_generators_are_as_they_were_and_a_seed_decides_everything():
    knobs = {"depths": [2, 4], "x": X, "draws": 20}
    before = torch.get_rng_state()
    one = dl.stability(random_blocks, **knobs, seed=1, workers=2)
    assert torch.equal(torch.get_rng_state(), before)
    with seeded(11):
        two = dl.stability(random_blocks, **knobs, seed=1, workers=1)
    other = dl.stability(random_blocks, **knobs, seed=2, workers=1)
    np.testing.assert_array_equal(one.log_hidden_ratio, two.log_hidden_ratio)
    assert not np.allclose(one.log_hidden_ratio, other.log_hidden_ratio)


def test_blocks_that_a_factory_keeps_are_left_as_they_are():
    with seeded(0):
        kept = nn.Sequential(*(Random(4) for _ in range(4)))
    before = copy.deepcopy(kept.state_dict())
    report = dl.stability(lambda depth: kept[:depth], depths=[2, 4], x=X, draws=4, dtype="float64")
    assert all(module.training for module in kept.modules())
    assert all(
        parameter.requires_grad and parameter.dtype == torch.float32 for parameter in kept.parameters()
    )
    assert all(torch.equal(before[name], value) for name, value in kept.state_dict().items())
    assert (report.hidden_ratio > 0).all()


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_states_of_every_shape_pass_through_modules(channels, height, width, inplace):
    def blocks(depth):
        return [
            nn.Sequential(nn.ReLU(inplace=inplace), nn.Conv2d(channels, channels, 3, padding=1))
            for _ in range(depth)
        ]

    x = torch.ones(2, channels, height, width)
    report = dl.stability(blocks, depths=[1, 3], x=x, draws=2, workers=1)
    assert report.hidden_ratio.shape == (2, 2)
    assert torch.equal(x, torch.ones_like(x))


def test_no_theorem_is_about_modules():
    network = dl.module_network(random_blocks, WIDTH)
    assert network.regime().name == "no theorem"
    with pytest.raises(dl.NoTheoremError, match="fresh blocks of random_blocks"):
        dl.compare(random_blocks, x=X)
    assert "blocks of a module" in str(dl.stability(network, depths=[2, 4], draws=4))


@pytest.mark.parametrize(("inputs", "paths"), [(2, 64), (80, 80)])
def test_a_factory_that_draws_nothing_has_inputs_alone_as_paths(inputs, paths):
    """Its errors have no Monte-Carlo error, however often an input is taken."""
    x = torch.randn(inputs, WIDTH, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    report = dl.compare(turning_blocks, equation, x, depths=[2, 3, 4])
    assert report.paths == paths
    assert (report.standard_errors == 0).all()
    assert not any("weights" in caveat for caveat in report.reservations)


def test_a_factory_that_draws_nothing_does_not_converge_to_another_equation():
    knobs = {"x": X[:2].double(), "depths": [4, 8, 16, 32, 64], "paths": 16}
    assert dl.compare(turning_blocks, equation, **knobs).verdict == "converges"
    wrong = dl.compare(turning_blocks, lambda t, h: 0.8 * equation(t, h), **knobs)
    assert wrong.verdict == "does not converge"


def test_a_factory_that_draws_is_random_and_one_that_keeps_its_blocks_is_not():
    assert not dl.module_network(turning_blocks, WIDTH).is_random
    assert dl.module_network(random_blocks, WIDTH).is_random
    with seeded(0):
        kept = random_blocks(4)
    assert not dl.module_network(lambda depth: kept[:depth], WIDTH).is_random


def tuples(depth):
    return [nn.LSTM(WIDTH, WIDTH) for _ in range(depth)]


BAD = {
    "a module": (nn.Linear(2, 2), TypeError, ("factory", "Linear")),
    "a whole model": (lambda depth: nn.Linear(2, 2), TypeError, ("factory", "Linear")),
    "functions": (lambda depth: [torch.tanh] * depth, TypeError, ("factory", "tanh")),
    "too few blocks": (lambda depth: [nn.Identity()], ValueError, ("factory", "2", "1")),
    "tuples": (tuples, TypeError, ("factory", "tuple")),
    "another shape": (lambda depth: [nn.Linear(WIDTH, 5) for _ in range(depth)], ValueError, ("5",)),
    "other states": (lambda depth: [nn.Linear(7, 7) for _ in range(depth)], ValueError, ("width", "3")),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_factories_are_refused(name):
    factory, kind, words = BAD[name]
    assert_refused(lambda: dl.module_network(factory, WIDTH), kind, *words)


def test_bad_calls_with_factories_are_refused():
    assert_refused(lambda: dl.stability(random_blocks), TypeError, "resnet", "x=", "stability(factory, x=x)")
    assert_refused(lambda: dl.stability(random_blocks, x=torch.ones(3)), ValueError, "x")
    given = {"limit": lambda t, h: 0 * h, "x": X, "depths": [4, 8, 16]}
    named = "resnet", "torch.manual_seed", "compare"
    assert_refused(lambda: dl.compare_laws(turning_blocks, **given), ValueError, *named)
    assert_refused(lambda: dl.module_network(random_blocks, 0), ValueError, "width", "0")
    assert_refused(lambda: dl.module_network(random_blocks, (3, "4")), TypeError, "width", "'4'")


def tied(depth):
    """One block in all layers; `torch.manual_seed` decides it."""
    block = nn.Linear(WIDTH, WIDTH)
    return [block] * depth


def test_a_factory_without_inputs_is_told_which_functions_take_it_with_them():
    words = ("x=", "identify(factory, x)", "compare(factory, limit, x)")
    assert_refused(lambda: dl.compare(random_blocks), TypeError, "resnet", *words)
    assert_refused(
        lambda: dl.compare(nn.Sequential(nn.Tanh())), TypeError, "resnet", *words[1:], "compare_laws"
    )


def test_a_block_that_runs_in_every_layer_stands_in_the_list_as_often():
    class Loop(nn.Module):
        def __init__(self, depth):
            super().__init__()
            self.block, self.depth = nn.Linear(WIDTH, WIDTH), depth

        def forward(self, h):
            for _ in range(self.depth):
                h = torch.tanh(self.block(h))
            return h

    assert_refused(lambda: dl.identify(Loop, X, depths=(2, 4, 8)), ValueError, "factory", "[block] * depth")
    assert len(dl.module_network(tied, WIDTH).weights) == 1


def test_reports_on_blocks_say_what_an_equation_of_one_draw_needs():
    (said,) = dl.module_network(tied, WIDTH).facts.not_known
    assert "manual_seed" in said
