"""Hamiltonian networks: a second stream that starts at zero and so with a layer's update."""

import pytest
import torch
from torch import nn

import deeplimit as dl
from deeplimit.common.global_state import seeded
from deeplimit.common.verdict import first
from deeplimit.modules.depth_check.stream_meaning import Evidence, meanings

WIDTH, DEPTHS = 24, [4, 8, 16, 32]
X = torch.randn(24, WIDTH, generator=torch.Generator().manual_seed(3))


class Hamiltonian(nn.Module):
    """y' = a(x), x' = b(y) from y = 0, each step scaled by L**-power, those of x by `further` as well."""

    def __init__(self, depth, power, further=0.0, bias=True):
        super().__init__()
        self.a = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=bias) for _ in range(depth))
        self.b = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=bias) for _ in range(depth))
        self.step, self.further = depth**-power, depth**-further
        for layer in (*self.a, *self.b):
            nn.init.normal_(layer.weight, std=WIDTH**-0.5)

    def start(self, x):
        return torch.zeros_like(x)

    def forward(self, x):
        y = self.start(x)
        for a, b in zip(self.a, self.b, strict=True):
            y = y + self.step * torch.tanh(a(x))
            x = x + self.further * self.step * torch.tanh(b(y))
        return x


class FromTheInput(Hamiltonian):
    """Its control: both streams begin with the input."""

    def start(self, x):
        return x.flip(-1)


@pytest.mark.parametrize("kind", [Hamiltonian, FromTheInput])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("power", [0.5, 1.0])
def test_what_starts_at_zero_is_measured_at_the_size_of_the_input(kind, bias, power):
    report = dl.check_depth(lambda depth: kind(depth, power, bias=bias), DEPTHS, batch=X, expected=power)
    assert report.verdict == "as expected"
    for branch in report.branches:
        assert abs(branch.exponent - power) < 0.05
    assert {stream.meaning for stream in report.streams} <= {"finite clock", "identity"}


@pytest.mark.parametrize("from_zero", [False, True])
def test_of_a_stream_that_starts_at_zero_nothing_is_taken_away(from_zero):
    """Sizes of a Hamiltonian network at exponent 1, whose updates vanish: .32 to .065 of the input's."""
    sums, growth = (4, 8, 16, 32, 64), (0.32, 0.23, 0.16, 0.12, 0.065)
    found = Evidence(
        sums, (1.0,) * 5, growth, (1.0,) * 5, (0.99,) * 5, -0.55, False, False, from_zero=from_zero
    )
    assert (first(meanings, found).rule == "dies_out") is not from_zero


@pytest.mark.parametrize("further", [0.5, -0.5])
def test_a_wrong_factor_beside_it_is_found(further):
    report = dl.check_depth(lambda depth: Hamiltonian(depth, 0.5, further), DEPTHS, batch=X, expected=0.5)
    assert report.verdict == "not as expected"
    assert "b.*" in report.headline
    assert "a.*" not in report.headline


def test_with_the_streams_in_reach_the_state_moves_the_same_at_any_depth():
    moved = []
    for depth in (4, 64):
        with seeded(0), torch.no_grad():
            moved.append(float((Hamiltonian(depth, 0.5)(X) - X).norm() / X.norm()))
    assert 0.6 < moved[1] / moved[0] < 1.6
