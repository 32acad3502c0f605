"""Forwards that change the module's weights: measured with the weights that are trained, or refused."""

import pytest
import torch
from residual_stacks import DEPTHS, WIDTH, made, states
from torch import nn

import deeplimit as dl

pytestmark = pytest.mark.usefixtures("one_thread")


class Stack(nn.Module):
    """Divides its later layers by two before the first forward in evaluation mode, as RWKV does."""

    divides = True

    def __init__(self, depth):
        super().__init__()
        self.entry = nn.Linear(WIDTH, WIDTH)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(depth))
        self.divided = False

    def forward(self, x):
        if self.divides and self.training == self.divided:
            with torch.no_grad():
                for layer in self.layers[len(self.layers) // 2 :]:
                    layer.weight.mul_(2.0) if self.training else layer.weight.div_(2.0)
            self.divided = not self.training
        x = self.entry(x)
        for index, layer in enumerate(self.layers):
            if self.divided and 2 * index == len(self.layers):
                x = x / 2
            x = x + layer(torch.tanh(x))
        return x


class Plain(Stack):
    divides = False


class Within(nn.Sequential):
    """The same as a part of another module, which has a dropout of its own."""

    def __init__(self, stack):
        super().__init__(nn.Dropout(0.5), stack)


def values(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def assert_unchanged(model, before):
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("around", [lambda stack: stack, Within, lambda s: torch.compile(s, backend="eager")])
@pytest.mark.parametrize("training", [True, False])
def test_weights_divided_for_evaluation_are_measured_as_they_are_trained(around, training):
    model = around(made(Stack, 4)).train(training)
    before = values(model)
    report, wanted = dl.probe(model, states()), dl.probe(around(made(Plain, 4)), states())
    assert report.branches == wanted.branches
    assert report.streams == wanted.streams
    assert [branch.name for branch in dl.find_branches(model, states())] == [
        branch.name for branch in dl.find_branches(around(made(Plain, 4)), states())
    ]
    assert_unchanged(model, before)
    assert all(module.training is training for module in model.modules())
    assert not next(module for module in model.modules() if isinstance(module, Stack)).divided


def test_the_depth_check_sees_weights_undivided_that_evaluation_divides():
    here, wanted = (dl.check_depth(build, DEPTHS, batch=states(), expected=0.0) for build in (Stack, Plain))
    assert here.branches == wanted.branches
    assert (here.verdict, here.streams) == (wanted.verdict, wanted.streams)


def halve(weight):
    weight *= 0.5


def fill(weight):
    weight[0] = 1.0


CHANGES = {
    "a method in place": lambda weight: weight.div_(2),
    "an operator in place": halve,
    "an item": fill,
    "a copy": lambda weight: weight.copy_(torch.ones(WIDTH, WIDTH)),
    "a sum of like tensors": lambda weight: weight.add_(torch.ones(WIDTH, WIDTH)),
}


class Changing(Plain):
    def __init__(self, change):
        super().__init__(2)
        self.change = change

    def forward(self, x):
        with torch.no_grad():
            self.change(self.layers[1].weight)
        return super().forward(x)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_forward_that_changes_its_parameters_in_both_modes_is_refused(change):
    model = made(Changing, change)
    before = values(model)
    with pytest.raises(ValueError, match=r"Changing changed its own parameters .*layers\.1\.weight"):
        dl.probe(model, states())
    assert_unchanged(model, before)


def test_a_change_behind_the_back_of_torch_functions_is_refused_too():
    model = made(Changing, lambda weight: weight.data.mul_(2.0))
    with pytest.raises(ValueError, match=r"Changing changed its own parameters"):
        dl.probe(model, states())


def test_operations_in_place_that_change_no_parameter_are_let_through():
    model = made(Changing, lambda weight: weight.clamp_(-1e4, 1e4))
    assert dl.probe(model, states()).branches == dl.probe(made(Plain, 2), states()).branches
    with torch.no_grad():
        model.layers[1].weight[0, 0] = torch.nan
    with pytest.raises(ValueError, match="not finite"):
        dl.probe(model, states())
