"""Sums of skip and branch that are written without + are the same sums; gates on the skip are refused."""

import pytest
import torch
from hooked_updates import assert_as_hooked
from residual_stacks import DEPTHS, WIDTH, Stack as Layers, made, states
from torch import nn

import deeplimit as dl
from deeplimit.common.global_state import seeded
from deeplimit.modules.trace.operations import TorchCalls

pytestmark = pytest.mark.usefixtures("one_thread", "own_generator")


@pytest.fixture
def own_generator():
    with seeded(0):
        yield


class Layer(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.back, self.scale = nn.Linear(WIDTH, WIDTH, bias=False), scale

    def forward(self, x):
        return self.scale * self.back(torch.tanh(x))


class Stack(Layers):
    def __init__(self, depth, add):
        super().__init__(depth, add, lambda depth: Layer(depth**-0.5))


WEIGHTS = torch.tensor([1.0, -0.5])
MANY = torch.ones(2, 8, WIDTH)


def end(x, y):
    return torch.stack([x, y], dim=-1)


SUMS = {
    "by names": lambda x, y: torch.add(input=x, other=y),
    "of a stack": lambda x, y: torch.stack([x, y]).sum(0),
    "of a stack at its end": lambda x, y: torch.sum(torch.stack((x, y), dim=-1), dim=-1),
    "twice the mean of a stack": lambda x, y: 2 * torch.stack([x, y]).mean(0),
    "of a concatenation": lambda x, y: torch.cat([x[None], y[None]]).sum(dim=0),
    "of both halves": lambda x, y: 2 * torch.lerp(x, y, 0.5),
    "of a fifth": lambda x, y: 1.25 * torch.lerp(x, 4 * y, 0.2),
    "by letters": lambda x, y: torch.einsum("kbd->bd", torch.stack([x, y])),
    "weighted by letters": lambda x, y: torch.einsum("k..., k -> ...", torch.stack([x, -2 * y]), WEIGHTS),
    "weighted by letters at the end": lambda x, y: torch.einsum("k,...k->...", WEIGHTS, end(x, -2 * y)),
    "weighted in the middle": lambda x, y: torch.einsum("bkd,k->bd", [torch.stack([x, -2 * y], 1), WEIGHTS]),
    "a tensor product": lambda x, y: torch.tensordot(WEIGHTS, torch.stack([x, -2 * y]), 1),
    "a tensor product at the end": lambda x, y: torch.tensordot(end(x, -2 * y), WEIGHTS, dims=([2], [0])),
    "a tensor product of named axes": lambda x, y: torch.tensordot(
        WEIGHTS, torch.stack([x, -2 * y], 1), dims=([0], [1])
    ),
    "times a vector": lambda x, y: end(x, -2 * y) @ WEIGHTS,
    "a vector times": lambda x, y: torch.matmul(WEIGHTS, torch.stack([x, -2 * y], 1)),
    "a batch of products added": lambda x, y: torch.baddbmm(x[None], y[None], torch.eye(WIDTH)[None])[0],
    "a product added, scaled": lambda x, y: torch.addmm(x / 2, y / 3, torch.eye(WIDTH), beta=2, alpha=3),
    "a product added": lambda x, y: torch.addmm(x, y, torch.eye(WIDTH)),
    "part of the way to a sum": lambda x, y: torch.lerp(x, x + 4 * y, 0.25),
    "a mean of the state and a sum": lambda x, y: 0.75 * x + 0.25 * (x + 4 * y),
    "a sum and the state, weighted": lambda x, y: (4 * y + x) * torch.tensor(0.25) + x * torch.tensor(0.75),
    "a part of the way added": lambda x, y: x + 0.25 * ((x + 4 * y) - x),
    "subtracted from": lambda x, y: torch.rsub(-x, y),
    "subtracted from, scaled": lambda x, y: torch.rsub(-x / 2, y, alpha=2),
}


@pytest.mark.parametrize("add", SUMS.values(), ids=SUMS)
def test_a_sum_in_another_spelling_is_a_residual_sum(add):
    here, plain = (
        dl.check_depth(lambda depth: Stack(depth, how), DEPTHS, batch=states(), expected=0.5)  # noqa: B023
        for how in (add, torch.add)
    )
    (kind,), (wanted,) = here.branches, plain.branches
    assert (kind.kind, kind.counts) == ("layers.*.back", (2, 4, 8))
    assert kind.ratios == pytest.approx(wanted.ratios, rel=1e-5)
    assert kind.exponent == pytest.approx(wanted.exponent, abs=1e-4)


STEPS = {
    "towards the branch": lambda x, y, step: x + (y - x) * step,
    "of a leak": lambda x, y, step: x + step * (-0.5 * x + y),
    "of a leak, taken off": lambda x, y, step: x - step * (0.5 * x - y),
    "of a leak by alpha": lambda x, y, step: x + step * torch.sub(y, x, alpha=0.5),
    "of minus a leak": lambda x, y, step: torch.add(x, torch.neg(x) / 2 + y, alpha=step),
}


@pytest.mark.parametrize("add", STEPS.values(), ids=STEPS)
def test_a_step_that_takes_off_a_share_of_the_state_is_as_long_as_its_factor(add):
    """h + (f(h) - a h)/L goes on from h: what is taken off is no skip."""
    report = dl.check_depth(
        lambda depth: Stack(depth, lambda x, y: add(x, depth**0.5 * y, 1 / depth)),
        DEPTHS,
        batch=states(),
        expected=1.0,
    )
    (kind,) = report.branches
    assert kind.exponent == pytest.approx(1.0, abs=0.1)
    assert report.streams[0].skip == (1.0, 1.0, 1.0)
    assert report.verdict == "as expected"


def test_the_update_of_a_stacked_sum_is_what_its_layer_returns():
    found = assert_as_hooked(lambda: Stack(4, SUMS["of a stack"]), states(), lambda model: model.layers)
    assert [branch.output for branch in found] == [(f"layers.{index}.back.weight",) for index in range(4)]


class Weighted(Stack):
    """Skip and branch weighted by one small vector for each layer, as numbers or as parameters."""

    def __init__(self, depth, learned, add, skip=1.0):
        super().__init__(depth, add)
        vectors = torch.tensor([[skip, 0.5]]).repeat(depth, 1)
        self.vectors = nn.ParameterList(vectors.unbind()) if learned else vectors

    def forward(self, x):
        x = self.entry(x)
        for layer, vector in zip(self.layers, self.vectors, strict=True):
            x = self.add(vector, x, layer(x))
        return x


READ = [
    lambda vector, x, y: torch.einsum("k,kbd->bd", vector, torch.stack([x, y])),
    lambda vector, x, y: torch.tensordot(torch.stack([x, y], 1), vector, dims=([1], [0])),
    lambda vector, x, y: end(x, y) @ vector,
]


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("add", READ)
def test_the_numbers_of_a_weighted_sum_are_the_skip_and_the_multiplier(add, learned):
    for skip in (1.0, 0.5):
        here, plain = (
            dl.probe(made(Weighted, 4, learned, how, skip), states())
            for how in (add, lambda vector, x, y: vector[0] * x + vector[1] * y)
        )
        parts = {part.role: part.sizes for part in here.branches[0].parts}
        assert parts == {part.role: pytest.approx(part.sizes) for part in plain.branches[0].parts}
        assert here.streams[0].skip == pytest.approx((skip,))
        assert parts["gain" if learned else "multiplier"] == pytest.approx((0.5 if learned else 0.25,))
        assert here.branches[0].ratios == pytest.approx(plain.branches[0].ratios, rel=1e-5)


@pytest.mark.parametrize(
    "add",
    [
        lambda vector, past: sum(number * state for number, state in zip(vector, past, strict=True)),
        lambda vector, past: torch.einsum("k,kbd->bd", vector, torch.stack(past)),
    ],
)
def test_a_state_that_is_a_weighted_sum_of_all_earlier_ones_goes_on_with_its_stream(add):
    """As in DenseFormers, whose weights are zero but for the last one at initialisation."""

    class Dense(Stack):
        def __init__(self, depth):
            super().__init__(depth, add)
            self.vectors = nn.ParameterList(torch.eye(layer + 2)[-1] for layer in range(depth))

        def forward(self, x):
            past = [x := self.entry(x)]
            for layer, vector in zip(self.layers, self.vectors, strict=True):
                past.append(x + layer(x))
                x = self.add(vector, past)
            return x

    here, plain = (
        dl.check_depth(build, [2, 4, 6], batch=states(), expected=0.5)
        for build in (Dense, lambda depth: Stack(depth, torch.add))
    )
    assert here.branches[0].ratios == pytest.approx(plain.branches[0].ratios)
    assert (here.verdict, here.streams[0].skip) == (plain.verdict, pytest.approx((1.0, 1.0, 1.0)))


class Twofold(Stack):
    """A branch that is seen and beside it one that is added in some other way."""

    def __init__(self, depth, add):
        super().__init__(depth, add)
        self.others = nn.ModuleList(Layer(depth**-0.5) for _ in range(depth))

    def forward(self, x):
        x = self.entry(x)
        for layer, other in zip(self.layers, self.others, strict=True):
            x = x + layer(x)
            x = self.add(x, other(x))
        return x


UNREAD = {
    "halves times a matrix": lambda x, y: torch.cat([x, y], -1) @ torch.eye(WIDTH).repeat(2, 1),
    "a stack, weighted elementwise": lambda x, y: (torch.stack([x, y]) * WEIGHTS[:, None, None]).sum(0),
    "two axes at once": lambda x, y: torch.einsum(
        "kbd,kbd->bd", end(x, y).movedim(-1, 0), torch.ones(2, 8, 16)
    ),
    "another order": lambda x, y: torch.einsum("kbd->db", torch.stack([x, y])).mT,
    "a product with the skip": lambda x, y: x * (1 + y),
    "data as weights": lambda x, y: torch.einsum("k,kbd->bd", x.mean() + WEIGHTS, torch.stack([x, y])),
}


@pytest.mark.parametrize("name", UNREAD)
def test_of_sums_that_cannot_be_read_nothing_false_is_said(name):
    report = dl.check_depth(lambda depth: Twofold(depth, UNREAD[name]), DEPTHS, batch=states(), expected=0.5)
    assert report.verdict == "cannot tell"
    assert not report.findings
    assert [(kind.kind, kind.counts) for kind in report.branches] == [("layers.*.back", (2, 4, 8))]
    assert "others.*.back.weight" in str(report)


REDUCED = {
    "a diagonal": lambda stack: torch.einsum("kkd->d", torch.stack([*stack[:, :2]])),
    "a number between": lambda stack: torch.einsum("k,,kbd->bd", WEIGHTS, torch.tensor(3.0), stack),
    "without an arrow": lambda stack: torch.einsum("kbd", stack),
    "an outer product": lambda stack: torch.tensordot(stack, WEIGHTS, dims=([], [])),
    "no axis": lambda stack: torch.tensordot(stack, WEIGHTS, dims=0),
    "vectors": lambda stack: torch.einsum("kd,k->d", torch.stack([*stack[:, 0]]), WEIGHTS),
    "two matrices": lambda stack: torch.tensordot(stack, stack, dims=([0, 1], [0, 1])),
    "a product": lambda stack: stack @ stack.mT,
}


@pytest.mark.parametrize("name", REDUCED)
def test_other_reductions_of_a_stack_are_what_torch_makes_of_them(name):
    class Reducing(Stack):
        def forward(self, x):
            stack = torch.stack([x := super().forward(x), 2 * x])
            with torch._C.DisableTorchFunction():
                wanted = REDUCED[name](stack)
            torch.testing.assert_close(REDUCED[name](stack), wanted)
            return x

    assert dl.find_branches(Reducing(2, torch.add), states())


@pytest.mark.parametrize(
    "add",
    [
        lambda x, y: (1 - torch.sigmoid(x)) * x + torch.sigmoid(x) * y,
        lambda x, y: torch.lerp(x, y, torch.sigmoid(x)),
    ],
)
def test_a_gate_on_the_skip_is_refused_by_name_with_the_same_sum_as_a_skip(add):
    class Gate(nn.Module):
        def forward(self, x, y):
            return add(x, y)

    with pytest.raises(ValueError, match=r"add: .*gate"):
        dl.probe(Stack(2, Gate()), states())
    assert dl.probe(Stack(2, lambda x, y: x + torch.sigmoid(x) * (y - x)), states()).depths == (2,)


class Through(TorchCalls):
    """Hands on every call as it is."""

    def call(self, name, func, args, kwargs, operands):
        return func(*args, **kwargs)

    def returned(self, this, result):
        return result


def changed(x, y):
    total = x + y
    kept, moved = 0.75 * x, 0.25 * total
    x.mul_(3.0)
    return kept + moved


@pytest.mark.parametrize(
    "mean",
    [
        lambda x, y: 0.75 * x + 0.25 * (x + y),
        lambda x, y: 0.5 * x + 0.25 * (x + y),  # no mean of the two
        lambda x, y: 0.75 * x + 0.25 * (y + y),
        changed,
    ],
)
def test_a_weighted_sum_keeps_its_value_however_it_is_spelled(mean):
    x, y = (torch.randn(3, 4, generator=torch.Generator().manual_seed(seed)) for seed in range(2))
    wanted = mean(x.clone(), y)
    with Through():
        found = mean(x.clone(), y)
    torch.testing.assert_close(found, wanted)
