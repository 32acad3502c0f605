"""Modules that cannot be measured as they are, and modules whose second forward differs from the first."""

import copy
import functools

import pytest
import torch
from refusals import assert_refused
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


@pytest.fixture
def one_process():
    """A process group of this process alone."""
    torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
    yield torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
    torch.distributed.destroy_process_group()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "named"), [("wrapped", "FullyShardedDataParallel"), ("tensors", "DTensor")])
def test_sharded_modules_are_refused_with_what_to_do(kind, named, one_process):
    from torch.distributed import fsdp

    def sharded(depth):
        if kind == "wrapped":
            return fsdp.FullyShardedDataParallel(Stack(depth), device_id=torch.device("cpu"))
        return fsdp.fully_shard(Stack(depth), mesh=one_process)

    for call in (
        lambda: dl.check_depth(sharded, [2, 4], batch=states()),
        lambda: dl.check_depth(sharded, [2, 4], batch=states(), device="cpu"),
        lambda: dl.find_branches(sharded(2), states()),
    ):
        assert_refused(call, ValueError, named, "before that step")


@pytest.mark.filterwarnings("ignore")
def test_modules_for_several_devices_are_judged_as_the_one_they_wrap(one_process):
    plain = dl.check_depth(Stack, [2, 4, 8], batch=states(), expected=0.5)
    for wrap in (nn.DataParallel, nn.parallel.DistributedDataParallel):
        report = dl.check_depth(
            lambda depth, wrap=wrap: wrap(Stack(depth)), [2, 4, 8], batch=states(), expected=0.5
        )
        assert report.verdict == plain.verdict
        assert report.branches[0].ratios == plain.branches[0].ratios


class Halves(nn.Module):
    """A residual stack with two kinds of branches, the second of which may be quantised."""

    def __init__(self, depth):
        super().__init__()
        self.first = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(depth))
        self.second = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, WIDTH)) for _ in range(depth))

    def forward(self, x):
        for first, second in zip(self.first, self.second, strict=True):
            x = x + first(x)
            x = x + second(x)
        return x


def dynamically_quantised(depth):
    kinds = {f"second.{layer}.0" for layer in range(depth)}
    return torch.ao.quantization.quantize_dynamic(Halves(depth), kinds, dtype=torch.qint8)


def of_integers(depth):
    model = Halves(depth)
    for layer in model.second:
        weight = (100 * layer[0].weight.detach()).to(torch.int8)
        layer[0].weight = nn.Parameter(weight, requires_grad=False)
        layer[0].forward = functools.partial(
            lambda weight, x: nn.functional.linear(x, weight.float() / 100), weight
        )
    return model


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("factory", "named"), [(dynamically_quantised, "second.0.0"), (of_integers, "second.0.0.weight")]
)
def test_quantised_weights_are_refused_since_their_branches_would_be_missed(factory, named):
    for call in (
        lambda: dl.check_depth(factory, [2, 4], batch=states()),
        lambda: dl.find_branches(factory(2), states()),
    ):
        assert_refused(call, ValueError, named, "quantised", "before it is quantised")


def test_an_exported_module_is_judged_as_the_one_it_was_made_from():
    def exported(depth):
        return torch.export.export(Stack(depth), (states(),)).module()

    plain, found = (
        dl.check_depth(factory, [2, 4, 8], batch=states(), expected=0.5) for factory in (Stack, exported)
    )
    assert found.verdict == plain.verdict
    assert found.branches[0].ratios == pytest.approx(plain.branches[0].ratios, rel=1e-5)
    assert [branch.name for branch in dl.find_branches(exported(3), states())] == [
        branch.name for branch in dl.find_branches(Stack(3), states())
    ]


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
