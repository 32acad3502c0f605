"""The verdict on the residual stream: gain of the skip, growth, and what follows, against known answers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import deeplimit as dl
from deeplimit.common.global_state import seeded
from deeplimit.modules.depth_check.stream_meaning import Evidence, runs_away

DEPTHS, WIDTH, ROWS = [4, 8, 16, 32], 64, 64
RULES = ["gpt-2", "depth-mup", "completep", "rezero", "fixup", "deepnorm"]


def batch(rows=ROWS):
    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(0))


class Mlp(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.fc1, self.fc2 = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        for layer, std in ((self.fc1, 1.0), (self.fc2, scale)):
            nn.init.normal_(layer.weight, std=std / math.sqrt(WIDTH))
        self.extra = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


class Stack(nn.Module):
    """h -> step(h, block, depth), `depth` times, on a stream that begins with a linear layer of gain one."""

    def __init__(self, depth, step, exponent=0.5, gain=1.0):
        super().__init__()
        self.entry = nn.Linear(WIDTH, WIDTH, bias=False)
        nn.init.normal_(self.entry.weight, std=1 / math.sqrt(WIDTH))
        self.blocks = nn.ModuleList(Mlp(gain * depth**-exponent) for _ in range(depth))
        self.step = step

    def forward(self, x):
        h = self.entry(x)
        for block in self.blocks:
            h = self.step(h, block, len(self.blocks))
        return h


def check(step, expected=None, depths=DEPTHS, **how):
    return dl.check_depth(lambda depth: Stack(depth, step, **how), depths, batch=batch(), expected=expected)


def plain(h, block, depth):
    return h + block(block.norm(h))


def louder(h, block, depth):
    return 1.2 * h + block(block.norm(h))


def halved(h, block, depth):
    return (h + block(block.norm(h))) / math.sqrt(2)


@pytest.mark.parametrize("expected", [*RULES, 0.0, 0.5, 1.0, dl.Rule("ours", "here", "1/sqrt(L)", 0.5)])
def test_a_skip_of_more_than_one_is_never_as_expected(expected):
    report = check(louder, expected)
    assert report.verdict == "not as expected"
    assert report.stream_statuses == ("not as expected",)
    (finding,) = [item for item in report.findings if item.parameter == "skip of blocks.*"]
    if expected == "deepnorm":
        assert finding.factor == pytest.approx(1.2 / 32**0.25, rel=1e-6)  # one branch per block
    else:
        assert finding.factor == pytest.approx(1.2, rel=1e-6)


@pytest.mark.parametrize("expected", ["gpt-2", "depth-mup", "completep", "rezero", "fixup", 0.5, 1.0])
def test_a_sum_divided_by_the_root_of_two_forgets_and_is_not_as_expected(expected):
    report = check(halved, expected)
    assert report.verdict == "not as expected"
    (finding,) = [item for item in report.findings if item.parameter == "skip of blocks.*"]
    assert finding.factor == pytest.approx(math.sqrt(0.5), rel=1e-6)
    (stream,) = report.streams
    assert stream.meaning == "forgets its input (skip below one)"
    assert stream.skip_over_depth[-1] == pytest.approx(2**-16, rel=1e-5)


def test_a_sum_divided_by_the_root_of_two_is_what_exponent_zero_says():
    """Each layer turns the state as far at any depth: nothing else is promised."""
    report = check(halved, 0.0, exponent=0.0)
    assert report.verdict == "as expected"
    assert report.streams[0].meaning == "forgets its input (skip below one)"


def test_a_running_away_stream_has_no_branches_like_an_sde():
    report = check(louder)
    assert (report.verdict, report.stream_statuses) == ("measured", ("measured",))
    assert report.branches[0].meaning == "explosion (skip above one)"
    assert check(halved).branches[0].meaning == "forgets its input (skip below one)"
    assert check(plain).branches[0].meaning == "neural-SDE-like"


@pytest.mark.parametrize(
    "step",
    [
        lambda h, block, depth: torch.add(block(block.norm(h)), h, alpha=1.05),
        lambda h, block, depth: (h + block(block.norm(h))) * torch.tensor(1.05),
        lambda h, block, depth: torch.mul(h + block(block.norm(h)), 1.05),
        lambda h, block, depth: h.mul(1.05).add_(block(block.norm(h))),
        lambda h, block, depth: (h + block(block.norm(h))).div(1 / 1.05),
    ],
)
def test_the_gain_of_a_skip_is_exact_however_it_is_written(step):
    report = check(step, "gpt-2", depths=[2, 4, 8])
    assert report.streams[0].skip == pytest.approx((1.05,) * 3, rel=1e-6)
    (finding,) = [item for item in report.findings if item.parameter.startswith("skip")]
    assert finding.factor == pytest.approx(1.05, rel=1e-6)


def averaged(divided):
    """(sqrt(l) h + f) / sqrt(l + 1) keeps the size; the first state's share is 1/sqrt(L + 1)."""

    class Mean(Stack):
        def forward(self, x):
            h = self.entry(x)
            for layer, block in enumerate(self.blocks, 1):
                update, root = block(block.norm(h)), math.sqrt(layer + 1)
                if divided:
                    h = (math.sqrt(layer) * h + update) / root
                else:
                    h = math.sqrt(layer / (layer + 1)) * h + update / root
            return h

    return lambda depth: Mean(depth, None, 0.0)


def test_skips_that_multiply_to_a_power_of_depth_do_not_forget_exponentially():
    report = dl.check_depth(averaged(divided=False), DEPTHS, batch=batch(), expected=0.5)
    (stream,) = report.streams
    assert stream.skip_over_depth == pytest.approx([1 / math.sqrt(depth + 1) for depth in DEPTHS], rel=1e-5)
    assert stream.meaning != "forgets its input (skip below one)"
    assert not [finding for finding in report.findings if finding.parameter.startswith("skip")]


@pytest.mark.parametrize("size", [0.1, 0.3, 3.0])
@pytest.mark.parametrize("power", [0.5, 1.0])
def test_updates_have_their_power_before_the_state_has_outgrown_its_input(size, power):
    """Orthogonal to the input, updates of N^p in all make a state of 1 one of (1 + c² N^2p)^½."""
    growth = tuple(math.sqrt(1 + (size * depth**power) ** 2) for depth in DEPTHS)
    usual = {"kept": (1.0,) * 4, "normalised": True, "renormed": False}
    evidence = Evidence(DEPTHS, (1.0,) * 4, growth, (1.0,) * 4, growth_exponent=None, **usual)
    assert evidence.added_exponent == pytest.approx(power)
    flat = Evidence(DEPTHS, (1.0,) * 4, (1.0,) * 4, (1.0,) * 4, growth_exponent=None, **usual)
    assert flat.added_exponent is None


def test_a_sum_that_is_divided_and_multiplied_again_has_a_skip_of_one():
    report = dl.check_depth(averaged(divided=True), DEPTHS, batch=batch(), expected=0.0)
    assert report.streams[0].skip == pytest.approx((1.0,) * 4)
    assert report.verdict == "as expected"


@pytest.mark.parametrize("shrinking", [1.0, 0.5])
def test_a_skip_that_tends_to_one_fast_enough_has_a_limit(shrinking):
    """sqrt(1 - c/N) h + sqrt(1/N) f keeps a state of unit variance: an Ornstein-Uhlenbeck process."""

    def step(h, block, depth):
        return math.sqrt(1 - shrinking / depth) * h + block(block.norm(h))

    report = check(step, 0.5)
    assert report.verdict == "as expected"
    assert report.streams[0].meaning == "finite clock"


@pytest.mark.parametrize("power", [0.5, 0.6])
def test_a_skip_that_tends_to_one_too_slowly_forgets_its_input(power):
    """(1 - N^-1/2)^N is exp(-sqrt(N)), and no factor that all depths share."""

    def step(h, block, depth):
        return (1 - depth**-power) * h + block(block.norm(h))

    report = check(step, 0.5)
    assert report.verdict == "not as expected"
    (stream,) = report.streams
    assert stream.meaning == "forgets its input (skip below one)"
    (finding,) = [item for item in report.findings if item.about == "skip"]
    assert finding.factor == pytest.approx(1 - DEPTHS[-1] ** -power, rel=1e-6)


@pytest.mark.parametrize("gain", [0.5, 1.0, 1.5, 3.0])
def test_a_linear_stack_of_gain_g_grows_like_a_power_of_g(gain):
    class Linear(nn.Module):
        def __init__(self, depth):
            super().__init__()
            self.entry = nn.Linear(WIDTH, WIDTH)
            self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(depth))
            for layer in self.layers:
                nn.init.eye_(layer.weight).data.mul_(gain - 1)

        def forward(self, x):
            h = self.entry(x)
            for layer in self.layers:
                h = h + layer(h)
            return h

    report = dl.check_depth(Linear, DEPTHS, batch=batch(), expected=0.0)
    (stream,) = report.streams
    assert stream.growth == pytest.approx([gain**depth for depth in DEPTHS], rel=1e-4)
    assert stream.gradient_growth == pytest.approx([gain**depth for depth in DEPTHS], rel=1e-4)
    assert stream.growth_per_sum == pytest.approx([gain] * 4, rel=1e-5)
    assert (stream.meaning == "explosion") == (gain > 1)
    assert report.stream_statuses == ("not as expected" if gain > 1 else "as expected",)


@pytest.mark.parametrize("scale", [0.3, 1.0])
def test_unscaled_pre_norm_grows_like_the_root_of_one_plus_depth(scale):
    """State of unit variance plus L independent updates of variance v²: sqrt(1 + v² L), as B3 derives."""
    report = check(plain, 0.0, exponent=0.0, gain=scale)
    (stream,) = report.streams
    (branch,) = report.branches
    start = 1.0  # entries of x and of the first layer are of unit variance
    variances = [size**2 / start for size in branch.sizes]
    known = [math.sqrt(1 + variance * depth) for variance, depth in zip(variances, DEPTHS, strict=True)]
    # relative standard error of a sum of 32 independent updates of 64 coordinates: below 5 %
    assert stream.growth == pytest.approx(known, rel=0.25)
    assert stream.kept == pytest.approx([1 / growth for growth in stream.growth], rel=1e-5)
    assert stream.meaning == "logarithmic clock (pre-norm)"
    assert stream.normalised
    assert not stream.renormed
    assert report.verdict == "as expected"


def test_post_norm_keeps_its_size_and_forgets_its_input():
    def step(h, block, depth):
        return block.norm(h + block(h))

    report = check(step, 0.0, exponent=0.0)
    (stream,) = report.streams
    assert stream.renormed
    assert stream.meaning == "forgets its input (post-norm)"
    assert max(stream.growth) / min(stream.growth) < 1.3
    (branch,) = report.branches
    assert math.log(stream.kept[-1]) == pytest.approx(-16 * math.log(1 + branch.ratios[-1] ** 2), rel=0.1)
    assert report.verdict == "as expected"
    tame = check(step, 0.5)
    assert tame.streams[0].meaning == "finite clock"
    assert tame.streams[0].kept[-1] > 0.3


@pytest.mark.parametrize("expected", [0.0, 0.5, "gpt-2"])
def test_a_stream_that_grows_four_times_per_sum_is_flagged(expected):
    def step(h, block, depth):
        return h + 4.0 * block(h)  # nothing normalises what a branch reads

    report = check(step, expected, depths=[2, 4, 8], exponent=0.0, gain=1.4)
    assert report.streams[0].growth[-1] > 1e4
    assert report.streams[0].meaning == "explosion"
    assert report.stream_statuses == ("not as expected",)
    assert report.verdict == "not as expected"


def test_an_explosion_that_no_branch_shows_is_named_by_its_stream():
    def step(h, block, depth):
        return h + block(block.norm(h)) * h.norm(dim=-1, keepdim=True).div(8.0)

    report = check(step, 0.0, exponent=0.0, gain=3.0)
    (finding,) = report.findings
    assert finding.parameter == "stream 1"
    assert finding.factor == pytest.approx(report.streams[0].growth_per_sum[-1])
    assert report.statuses == ("as expected",)
    assert report.stream_statuses == ("not as expected",)


def test_scaling_an_embedding_is_no_gain_of_the_skip():
    class Scaled(Stack):
        def forward(self, x):
            h = self.entry(x) * math.sqrt(WIDTH)
            for block in self.blocks:
                h = h + block(block.norm(h))
            return h

    report = dl.check_depth(lambda depth: Scaled(depth, None), DEPTHS, batch=batch(), expected="gpt-2")
    assert report.streams[0].skip == (1.0,) * 4
    assert report.verdict == "as expected"


def test_a_number_between_branches_of_one_state_is_read_once():
    def step(h, block, depth):
        y = block.norm(h)
        return (h + block(y)) * 0.5 + block.extra(y)

    report = check(step, depths=[2, 4])
    assert report.streams[0].skip == pytest.approx((math.sqrt(0.5),) * 2)


def test_powers_and_exponentials_are_told_apart():
    counts = [8, 16, 32, 64]
    assert runs_away(counts, [1.1**count for count in counts])
    assert runs_away(counts, [1.0, 2.0, 4.0, math.inf])
    for exponent in (0.5, 1.0, 2.0, 3.0):
        assert not runs_away(counts, [count**exponent for count in counts])
    assert not runs_away(counts, [math.sqrt(1 + 0.01 * count) for count in counts])
    assert not runs_away(counts, [math.exp(math.sqrt(count)) for count in counts])
    assert not runs_away([8], [1e9])
    assert not runs_away([8, 16], [1.0, None])


# Multipliers are numbers in the code: read exactly, and judged so.


def multiplied(count):
    def step(h, block, depth):
        return h + count(depth) * block(block.norm(h))

    return step


@pytest.mark.parametrize(
    ("expected", "count", "fits"),
    [
        ("completep", lambda depth: 1 / (depth - 1), "1/(L-1) fits exactly"),
        ("completep", lambda depth: 1 / (depth + 1), "1/(L+1) fits exactly"),
        ("completep", lambda depth: 3 / (depth + 2), "1/(L+2) fits exactly"),
        ("depth-mup", lambda depth: (depth + 1) ** -0.5, "1/sqrt(L+1) fits exactly"),
        ("completep", lambda depth: depth**-0.97, ""),
    ],
)
def test_a_multiplier_that_counts_wrongly_is_caught_and_its_count_named(expected, count, fits):
    report = check(multiplied(count), expected, exponent=0.0)
    assert report.verdict == "not as expected"
    (finding,) = report.findings
    assert finding.parameter == "multiplier of blocks.*"
    power = 1.0 if expected == "completep" else 0.5
    factor = count(32) * 32**power / (count(4) * 4**power)
    assert finding.factor == pytest.approx(factor, rel=1e-5)
    assert fits in finding.message
    assert fits or "fits" not in finding.message


@pytest.mark.parametrize(
    ("expected", "count"),
    [
        ("completep", lambda depth: 1 / depth),
        ("completep", lambda depth: 1.5 / (2 * depth)),
        ("depth-mup", lambda depth: 1.4 / math.sqrt(depth)),
    ],
)
def test_a_multiplier_may_count_blocks_or_branches(expected, count):
    class Opened(Stack):
        """One branch more than blocks, as behind a convolution that embeds positions."""

        def __init__(self, depth):
            super().__init__(depth, multiplied(count), exponent=0.0)
            self.first = nn.Linear(WIDTH, WIDTH)

        def forward(self, x):
            h = self.entry(x)
            h = h + self.first(h)
            for block in self.blocks:
                h = self.step(h, block, len(self.blocks))
            return h

    assert check(multiplied(count), expected, exponent=0.0).verdict == "as expected"
    report = dl.check_depth(Opened, DEPTHS, batch=batch(), expected=expected)
    assert not report.findings


def test_the_shallowest_network_may_have_one_layer():
    report = check(multiplied(lambda depth: 1 / (depth + 1)), "completep", [1, 2, 4], exponent=0.0)
    assert "1/(L+1) fits exactly" in report.findings[0].message


def test_a_multiplier_near_one_is_not_one():
    (finding,) = check(multiplied(lambda depth: 1.05), "gpt-2").findings
    assert finding.parameter == "multiplier of blocks.*"
    assert finding.factor == pytest.approx(1.05)


class Highway(nn.Module):
    """h + t (f(h) - h) with a gate t that the bias decides: 1 - t of the state is left."""

    def __init__(self, depth, bias, width=12):
        super().__init__()
        self.gates = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.branches = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(depth))
        for gate in self.gates:
            nn.init.constant_(gate.bias, bias - (math.log(depth) if bias > 0 else 0.0))

    def forward(self, h):
        for gate, branch in zip(self.gates, self.branches, strict=True):
            h = h + torch.sigmoid(gate(h)) * (torch.tanh(branch(h)) - h)
        return h


@pytest.mark.parametrize("bias", [-3.0, -1.5, 0.0])
def test_a_state_that_branches_take_away_dies_out_and_no_size_of_theirs_is_blamed(bias):
    with seeded(0):
        batch = torch.randn(8, 12)
    report = dl.check_depth(lambda depth: Highway(depth, bias), (4, 8, 16, 32), batch=batch, expected=0.5)
    (stream,) = report.streams
    assert stream.dies_out
    assert (report.verdict, [finding.about for finding in report.findings]) == ("not as expected", ["growth"])
    assert not report.findings[0].fix
    found = dl.recommend(lambda depth: Highway(depth, bias), 48, batch=batch, depths=(4, 8, 16))
    assert found.verdict == "cannot tell"


def test_a_state_of_which_a_share_is_left_at_any_depth_does_not_die_out():
    """The twin: a gate of 1/depth."""
    with seeded(0):
        batch = torch.randn(8, 12)
    report = dl.check_depth(lambda depth: Highway(depth, 0.5), (4, 8, 16, 32), batch=batch, expected=1.0)
    assert not report.streams[0].dies_out
    assert report.streams[0].growth[-1] < 0.7


@pytest.mark.parametrize(("leak", "dies"), [(0.5, True), (0.0, False)])
def test_a_state_that_branches_take_away_and_make_anew_is_forgotten(leak, dies):
    """The last state is as large as at any depth, and knows nothing of the first."""

    class Leaky(nn.Module):
        def __init__(self, depth, width=12):
            super().__init__()
            self.branches = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

        def forward(self, h):
            for branch in self.branches:
                h = h + (torch.tanh(branch(h)) - leak * h)
            return h

    with seeded(0):
        report = dl.check_depth(Leaky, (4, 8, 16, 32), batch=torch.randn(8, 12), expected=0.5)
    assert report.streams[0].dies_out == dies
    assert report.verdict == "not as expected"
    assert {finding.about for finding in report.findings} == ({"growth"} if dies else {"exponent"})


def test_a_loss_without_gradient_is_named():
    def build(depth):
        return nn.Sequential(*(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True) for _ in range(depth)))

    batch = torch.ones(2, 3, 8)
    reports = [
        dl.check_depth(build, [2, 4], batch=batch, loss=lambda out, f=f: (out * f).sum()) for f in (0, 1)
    ]
    without, with_one = (set(report.reservations) for report in reports)
    assert len(without - with_one) == 1
    assert with_one <= without
