"""What a stream keeps from sum to sum, however the forward spells it, and what its layers have in common."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional

import deeplimit as dl
from deeplimit.common.global_state import seeded

WIDTH, DEPTHS = 24, (4, 8, 16)
STATES = torch.randn(32, WIDTH, generator=torch.Generator().manual_seed(1))


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 48, bias=False), nn.Linear(48, WIDTH, bias=False)
        nn.init.normal_(self.up.weight, std=WIDTH**-0.5)
        nn.init.normal_(self.down.weight, std=48**-0.5)

    def forward(self, x):
        return self.down(torch.tanh(self.up(x)))


class Network(nn.Module):
    def __init__(self, depth, forward, make=Branch):
        super().__init__()
        self.blocks = nn.ModuleList(make() for _ in range(depth))
        self.way = forward

    def forward(self, x):
        return self.way(self.blocks, x)


def check(forward, expected, make=Branch, depths=DEPTHS):
    return dl.check_depth(
        lambda depth: Network(depth, forward, make), depths, batch=STATES, expected=expected
    )


def whole(c):
    def forward(blocks, x):
        for block in blocks:
            x = (1 - c / len(blocks)) * x + block(x) / len(blocks)
        return x

    return forward


def taken_away(c):
    def forward(blocks, x):
        for block in blocks:
            x = x - c / len(blocks) * x + block(x) / len(blocks)
        return x

    return forward


@pytest.mark.parametrize("c", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("forward", [whole, taken_away])
def test_a_leak_has_one_skip_and_exponent_one_in_both_spellings(forward, c):
    report = check(forward(c), 1.0)
    assert report.verdict == "as expected"
    assert report.branches[0].exponent == pytest.approx(1.0, abs=0.03)
    assert report.streams[0].skip[-1] == pytest.approx(1 - c / DEPTHS[-1], rel=1e-4)
    assert report.streams[0].meaning == "finite clock"


def mixed_first(blocks, x):
    first = x
    for block in blocks:
        x = 0.6 * x + 0.4 * first
        x = x + len(blocks) ** -0.5 * block(x)
    return x


def mixed_at_once(blocks, x):
    first = x
    for block in blocks:
        x = 0.6 * x + 0.4 * first + len(blocks) ** -0.5 * block(x)
    return x


@pytest.mark.parametrize("forward", [mixed_first, mixed_at_once])
def test_a_first_state_that_is_mixed_in_is_where_the_gradient_ends(forward):
    stream = check(forward, 0.5).streams[0]
    assert stream.skip == pytest.approx([0.6] * len(DEPTHS))
    with seeded(0):
        network, x = Network(DEPTHS[-1], forward), STATES.clone().requires_grad_()
        out = network(x)
        given = torch.randn(out.shape)
    (back,) = torch.autograd.grad((out * given).sum(), x)
    assert stream.gradient_growth[-1] == pytest.approx(float(back.norm() / given.norm()), rel=0.15)


@pytest.mark.parametrize(("share", "verdict"), [(0.0, "not as expected"), (1.0, "as expected")])
def test_a_sum_that_adds_nothing_of_the_first_state_forgets_it(share, verdict):
    """As a network whose weights of the first state begin at zero."""

    def forward(blocks, x):
        first = x
        for block in blocks:
            x = 0.8 * x + share * 0.2 * first
            x = x + len(blocks) ** -0.5 * block(functional.rms_norm(x, (WIDTH,)))
        return x

    assert check(forward, 0.5).verdict == verdict


def scaled(power):
    def forward(blocks, x):
        for block in blocks:
            x = x + len(blocks) ** -power * block(x)
        return x

    return forward


class Rectified(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) * WIDTH**-0.5)

    def forward(self, x):
        return functional.relu(functional.linear(x, self.weight))


def test_a_mean_that_updates_have_in_common_is_not_blamed_on_their_weights():
    (finding,) = check(scaled(0.5), 0.5, Rectified, (4, 8, 16, 32)).findings
    assert finding.about == "copies"
    assert finding.fix == ""
    assert "weight" not in finding.parameter


class Pushed(Branch):
    def __init__(self):
        super().__init__()
        self.push = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return super().forward(x) + self.push


def test_a_bias_that_all_layers_have_in_common_is_named():
    (finding,) = check(scaled(0.5), 0.5, Pushed).findings
    assert finding.parameter.endswith("push")
    assert "zeros_" in finding.fix


def test_half_of_the_layers_may_be_copies():
    def build(depth):
        network = Network(depth, scaled(0.5))
        for number in range(1, depth // 2):
            network.blocks[number] = copy.deepcopy(network.blocks[0])
        return network

    report = dl.check_depth(build, (4, 8, 16, 32), batch=STATES, expected=0.5)
    assert report.verdict == "not as expected"
    assert [finding.about for finding in report.findings] == ["copies"]
    apart = dl.check_depth(
        lambda depth: Network(depth, scaled(0.5)), (4, 8, 16, 32), batch=STATES, expected=0.5
    )
    assert apart.verdict == "as expected"


def velocity(blocks, x):
    v = torch.zeros_like(x)
    for block in blocks:
        v = (1 - 1 / len(blocks)) * v + block(x) / len(blocks)
        x = x + v
    return x


@pytest.mark.parametrize(("forward", "stands"), [(velocity, False), (scaled(1.0), True)])
def test_a_state_that_moves_as_far_at_any_depth_does_not_stand_still(forward, stands):
    assert (check(forward, 1.0).streams[0].meaning == "identity") is stands


def test_a_profile_over_layers_that_run_in_another_order_is_mended_in_the_forward():
    def forward(blocks, x):
        for place, block in enumerate(reversed(blocks)):
            x = x + block(x) / (place + 1)
        return x

    report = check(forward, "completep")
    (finding,) = (finding for finding in report.findings if finding.about == "profile")
    assert finding.fix.startswith("in forward")


def test_one_line_for_two_streams_is_one_findings():
    def forward(blocks, x):
        a, b = x.chunk(2, -1)
        for place, block in enumerate(blocks):
            a, b = (a + block(b), b) if place % 2 else (a, b + block(a))
        return torch.cat([a, b], -1)

    class Half(nn.Sequential):
        def __init__(self):
            half = WIDTH // 2
            super().__init__(nn.LayerNorm(half), nn.Linear(half, 48), nn.Tanh(), nn.Linear(48, half))
            nn.init.zeros_(self[-1].bias)
            nn.init.normal_(self[-1].weight, std=48**-0.5)

    report = check(forward, 0.5, Half)
    assert len(report.findings) == 2
    assert [bool(finding.fix) for finding in report.findings] == [True, False]

    def mended(depth):
        network = Network(depth, forward, Half)
        for finding in report.findings:
            exec(finding.fix, {"model": network, "torch": torch, "math": math})
        return network

    assert dl.check_depth(mended, DEPTHS, batch=STATES, expected=0.5).verdict == "as expected"


def test_two_streams_that_are_added_at_the_end_are_no_branch_of_each_other():
    """A reversible network that returns the mean of its halves."""

    class Half(nn.Sequential):
        def __init__(self):
            half = WIDTH // 2
            super().__init__(nn.LayerNorm(half), nn.Linear(half, 48), nn.Tanh(), nn.Linear(48, half))

    def ending(last):
        def forward(blocks, x):
            a = b = x[..., : WIDTH // 2]
            for place, block in enumerate(blocks):
                update = len(blocks) ** -0.5
                a, b = (a + update * block(b), b) if place % 2 else (a, b + update * block(a))
            return last(a, b)

        return check(forward, None, Half)

    whole, added = ending(lambda a, b: torch.cat([a, b], -1)), ending(lambda a, b: (a + b) / 2)
    assert [branch.counts for branch in added.branches] == [branch.counts for branch in whole.branches]
    assert [stream.growth for stream in added.streams] == [stream.growth for stream in whole.streams]
