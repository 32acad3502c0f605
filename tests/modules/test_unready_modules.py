"""Modules that cannot be measured as they are, and modules whose second forward differs from the first."""

import copy

import pytest
import torch
from residual_stacks import WIDTH, Stack, made, states
from torch import nn

import deeplimit as dl
from deeplimit.common.global_state import seeded

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def own_generator():
    with seeded(0):
        yield


def test_a_constant_that_the_first_forward_caches_changes_nothing():
    class Caching(Stack):
        cached = None

        def forward(self, x):
            if self.cached is None:
                self.cached = torch.ones(WIDTH, WIDTH) + torch.ones(WIDTH, WIDTH)
            return super().forward(x)

    ratios = [dl.probe(made(build, 3), states()).branches[0].ratios for build in (Caching, Stack)]
    assert ratios[0] == ratios[1]
    model = made(Caching, 3)
    dl.probe(model, states())
    assert model.cached is None


def test_a_forward_that_never_repeats_its_sums_is_still_refused():
    class Counting(Stack):
        calls = 0

        def forward(self, x):
            Counting.calls += 1
            for _ in range(Counting.calls):
                torch.ones(2, 2) + torch.ones(2, 2)
            return super().forward(x)

    with pytest.raises(ValueError, match="path depends on the values"):
        dl.probe(Counting(2), states())


def test_lazily_initialised_parameters_are_refused_by_name():
    def lazy(depth):
        return Stack(depth, make=lambda depth: nn.LazyLinear(WIDTH))

    with pytest.raises(ValueError, match=r"layers\.0\.weight of Stack.*lazily"):
        dl.check_depth(lazy, [2, 4], batch=states())

    def ready(depth):
        model = lazy(depth)
        model(states())
        return model

    assert dl.check_depth(ready, [2, 4], batch=states()).branches[0].counts == (2, 4)


def test_sharded_parameters_are_refused_by_name():
    model = Stack(2)
    model.layers[0].weight.device_mesh = "as a DTensor has"
    with pytest.raises(ValueError, match=r"layers\.0\.weight of Stack is a DTensor"):
        dl.probe(model, states())


def test_sums_under_vmap_and_in_reversible_layers_are_refused_with_the_reason():
    class Mapped(Stack):
        def forward(self, x):
            return torch.func.vmap(super().forward)(x[None].expand(2, -1, -1))

    class Reversible(torch.autograd.Function):
        @staticmethod
        def forward(context, x, layer):
            return x + layer(x)

        @staticmethod
        def backward(context, gradient):
            return gradient, None

    class Reversing(Stack):
        def forward(self, x):
            x = self.entry(x)
            for layer in self.layers:
                x = Reversible.apply(x, layer)
            return x

    for model, words in ((Mapped(2), "torch.func.vmap"), (Reversing(2), "reversible network")):
        with pytest.raises(ValueError, match=words):
            dl.probe(model, states())


def test_layers_under_vmap_inside_a_branch_are_measured():
    class Mapped(nn.Linear):
        def forward(self, x):
            return torch.func.vmap(super().forward)(x)

    ratios = [
        dl.probe(made(Stack, 3, make=lambda depth, one=one: one(WIDTH, WIDTH)), states()).branches[0].ratios
        for one in (Mapped, nn.Linear)
    ]
    assert ratios[0] == pytest.approx(ratios[1], rel=1e-5)


def test_a_cache_that_the_gradient_needs_unchanged_is_refused_with_advice():
    class Overwriting(Stack):
        def forward(self, x):
            state = self.entry(x)
            out = super().forward(x) * state
            state.zero_()
            return out

    with pytest.raises(ValueError, match=r"use_cache=False"):
        dl.probe(Overwriting(2), states())


def test_a_compiled_module_is_initialised_like_the_one_it_was_made_from():
    plain = Stack(3)
    compiled = torch.compile(copy.deepcopy(plain), backend="eager")
    for model in (plain, compiled):
        dl.init.residual_(model, hurst=0.7, batch=states(), seed=1)
    assert dl.init.residual_(compiled, batch=states(), seed=1).model == "Stack"
    dl.init.residual_(plain, batch=states(), seed=1)
    for one, other in zip(plain.parameters(), compiled.parameters(), strict=True):
        assert torch.equal(one, other)
