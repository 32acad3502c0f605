"""Sums around whole groups of layers, and drifts that take a share of the state at any depth."""

import pytest
import torch
from torch import nn

import deeplimit as dl
from deeplimit.common.global_state import seeded
from deeplimit.modules.depth_check.one_depth import measure_module
from deeplimit.modules.trace.batches import Batch

WIDTH = 12
X = torch.randn(6, WIDTH, generator=torch.Generator().manual_seed(3))


class Branch(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.first, self.second, self.scale = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), scale

    def forward(self, x):
        return self.scale * self.second(torch.tanh(self.first(x)))


class Model(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.depth = depth
        self.branches = nn.ModuleList(Branch(depth**-0.5) for _ in range(depth))


class Groups(Model):
    """Residual groups of four residual layers."""

    def forward(self, x):
        for start in range(0, self.depth, 4):
            inside = x
            for branch in self.branches[start : start + 4]:
                inside = inside + branch(inside)
            x = x + inside
        return x


class Drifting(Model):
    """x - c x/L beside branches: e^-c of the state is left at any depth."""

    drift = 1.2

    def forward(self, x):
        for branch in self.branches:
            x = x + branch(x) - self.drift * x / self.depth
        return x


class Decaying(Drifting):
    """Its twin: the share that is left falls with depth."""

    def forward(self, x):
        for branch in self.branches:
            x = x + branch(x) - 0.5 * x / self.depth**0.5
        return x


def true_growth(kind, depth):
    with seeded(0), torch.no_grad():
        return float(kind(depth)(X).norm() / X.norm())


@pytest.mark.parametrize("depth", [4, 8, 16])
def test_the_last_sum_around_a_group_belongs_to_the_stream(depth):
    with seeded(0):
        model = Groups(depth)
    scalars = dl.branch_scalars(model, X)
    (found,) = [value for name, value in scalars.items() if name.endswith("/growth")]
    assert abs(found / true_growth(Groups, depth) - 1) < 1e-5


class Total(Model):
    """Its twin: a running total of the states is no state."""

    def forward(self, x):
        total = x
        for branch in self.branches:
            x = x + branch(x)
            total = total + x
        return total / (self.depth + 1)


def test_a_running_total_is_no_part_of_the_stream():
    with seeded(0):
        model = Total(16)
    scalars = dl.branch_scalars(model, X)
    (found,) = [value for name, value in scalars.items() if name.endswith("/growth")]
    assert 0.8 < found < 2


class Bounded(Model):
    """Exponent 0: tanh bounds what a branch adds, and the state grows like a power of the depth."""

    def forward(self, x):
        for branch in self.branches:
            x = x + self.depth**0.5 * branch(x)
        return x


class Unbounded(Bounded):
    """Its twin: what a branch adds grows with the state."""

    def __init__(self, depth):
        super().__init__(depth)
        for branch in self.branches:
            nn.init.normal_(branch.first.weight, std=(2 / WIDTH) ** 0.5)
            nn.init.normal_(branch.second.weight, std=0.5 * WIDTH**-0.5)
            branch.forward = lambda x, own=branch: own.scale * own.second(torch.relu(own.first(x)))


def test_what_tanh_bounds_grows_with_depth_and_what_nothing_bounds_explodes():
    said = [
        dl.check_depth(kind, batch=X, depths=[8, 16, 32, 64], seed=2).branches[0].meaning
        for kind in (Bounded, Unbounded)
    ]
    assert said == ["grows with depth", "explosion"]


def meaning(kind):
    return dl.check_depth(kind, batch=X, depths=[8, 16, 32, 64], seed=2).streams[0].meaning


def test_a_share_that_is_left_at_any_depth_is_not_forgotten():
    assert "forgets" not in meaning(Drifting)
    assert "forgets" in meaning(Decaying)


class Mean(Model):
    """Its output is the mean of all states, each of which the loss reads."""

    def forward(self, x):
        states = []
        for branch in self.branches:
            x = x + branch(x)
            states.append(x)
        return torch.stack(states).mean(0)


class Last(Model):
    def forward(self, x):
        for branch in self.branches:
            x = x + branch(x)
        return x


def gradient_growth(kind, depth=16):
    with seeded(0):
        model = kind(depth)
    with seeded(0):
        (stream,) = measure_module(model, Batch((X,), {})).streams
    return stream.gradient_start / stream.gradient_end


def carried_back(kind, depth=16):
    """The gradient of a linear functional of the last state, drawn as the check draws it."""
    with seeded(0):
        model = kind(depth)
    x = X.clone().requires_grad_()
    direction = torch.randn(X.shape, generator=torch.Generator().manual_seed(0))
    (gradient,) = torch.autograd.grad((model(x) * direction).sum(), x)
    return float(gradient.norm() / direction.norm())


@pytest.mark.parametrize("kind", [Last, Groups])
def test_a_gradient_is_carried_back_from_the_last_sum(kind):
    assert gradient_growth(kind) == pytest.approx(carried_back(kind), rel=1e-5)


def test_a_loss_that_reads_all_states_grows_no_gradient():
    # Before, what the loss reads of each state was counted as well: 17 times at depth 16.
    assert gradient_growth(Mean) == pytest.approx(carried_back(Last), rel=1e-5)
