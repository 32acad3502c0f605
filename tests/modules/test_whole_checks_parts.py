"""What a stream does as a whole is measured, and no sentence about its parts contradicts it."""

import math

import pytest
import torch
from depth_faults import Chain, flat, summed
from torch import nn

import deeplimit as dl
from deeplimit.modules.depth_check.fixes import IN_FORWARD
from deeplimit.modules.depth_check.wording import _share

WIDTH, DEPTHS = 20, (4, 8, 16, 32)
X = torch.randn(12, 6, generator=torch.Generator().manual_seed(0))


class Branch(nn.Module):
    def __init__(self, scale=1.0, norm=False, std=None):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH) if norm else nn.Identity()
        self.inner = nn.Linear(WIDTH, WIDTH, bias=False)
        self.outer = nn.Linear(WIDTH, WIDTH, bias=False)
        nn.init.normal_(self.inner.weight, std=WIDTH**-0.5)
        nn.init.normal_(self.outer.weight, std=std or WIDTH**-0.5)
        self.scale = scale

    def forward(self, x):
        return self.scale * self.outer(torch.tanh(self.inner(self.norm(x))))


class Net(nn.Module):
    """A list of branches, and a function of the first state and the branches that makes the last one."""

    def __init__(self, branches, stream, width=WIDTH):
        super().__init__()
        self.first, self.last = nn.Linear(6, width), nn.Linear(width, 2)
        self.blocks, self.stream = nn.ModuleList(branches), stream

    def forward(self, x):
        return self.last(self.stream(self, self.first(x)))


def plain(net, h):
    for block in net.blocks:
        h = h + block(h)
    return h


def unet(net, h):
    skips, half = [], len(net.blocks) // 2
    for block in net.blocks[:half]:
        h = h + block(h)
        skips.append(h)
    for block in net.blocks[half:]:
        h = h + 0.8 * skips.pop()
        h = h + block(h)
    return h


def mixed(net, h):
    first = h
    for block in net.blocks:
        h = 0.85 * h + 0.15 * first + block(h)
    return h


def averaged(net, h):
    states = [h]
    for block in net.blocks:
        h = h + block(h)
        states.append(h)
        h = 0.7 * h + 0.3 * sum(states[:-1]) / len(states[:-1])
    return h


def momentum(net, h):
    velocity = torch.zeros_like(h)
    for block in net.blocks:
        velocity = 0.8 * velocity + block(h)
        h = h + velocity
    return h


def reversible(net, h):
    a, b = h.chunk(2, dim=-1)
    for k in range(0, len(net.blocks), 2):
        a = a + net.blocks[k](b)
        b = b + net.blocks[k + 1](a)
    return torch.cat([a, b], dim=-1)


def dropped(net, h):
    for block in net.blocks:
        h = nn.functional.dropout(h, 0.06, net.training) + block(h)
    return h


def dropped_branch(net, h):
    for block in net.blocks:
        h = h + nn.functional.dropout(block(h), 0.06, net.training)
    return h


def decaying(net, h):
    for block in net.blocks:
        h = (1 - 1.5 / len(net.blocks)) * h + block(h)
    return h


def forgetting(net, h):
    for block in net.blocks:
        h = 0.85 * h + block(h)
    return h


def built(stream, exponent=0.5, gain=1.0, norm=False, count=lambda depth: depth, width=WIDTH):
    def build(depth):
        branches = [Branch(gain * depth**-exponent, norm) for _ in range(count(depth))]
        return Net(branches, stream, width)

    return build


def alike(build):
    """The same networks with the first layer's weights in all layers."""

    def copied(depth):
        model = build(depth)
        for block in model.blocks[1:]:
            block.load_state_dict(model.blocks[0].state_dict())
        return model

    return copied


def weighted(depth):
    """Pre-norm layers whose projections fall like depth^-1/2, as gpt-2 asks for."""
    branches = [Branch(norm=True, std=0.02 * depth**-0.5) for _ in range(depth)]
    for branch in branches:
        nn.init.normal_(branch.inner.weight, std=0.02)
    return Net(branches, plain)


def tied(depth):
    return Net([Branch(1 / depth)] * depth, plain)


def check(build, expected=0.5, **how):
    return dl.check_depth(build, DEPTHS, batch=X, expected=expected, **how)


def mended(build, report):
    lines = [line for line in dict.fromkeys(finding.fix for finding in report.findings) if line]
    assert lines
    assert not any(line.startswith(IN_FORWARD) for line in lines)

    def build_again(depth):
        model = build(depth)
        for line in lines:
            exec(line, {"model": model, "torch": torch})
        return model

    return build_again


@pytest.mark.parametrize(("build", "expected"), [(built(plain, norm=True), 0.5), (weighted, "gpt-2")])
def test_copies_are_a_finding_where_a_rule_assumes_independent_layers(build, expected):
    assert check(build, expected).ok
    report = check(alike(build), expected)
    assert report.verdict == "not as expected"
    (finding,) = report.findings
    assert finding.parameter == "blocks.*.outer.weight"
    assert math.isclose(finding.factor, 8**0.5, rel_tol=1e-6)
    assert check(mended(alike(build), report), expected).ok


def test_copies_are_named_beside_a_scale_that_is_wrong_too():
    """So that the lines of one report, all together, set the network right."""
    copied = alike(built(plain, exponent=0.0, norm=True))
    report = check(copied)
    assert {finding.about for finding in report.findings} == {"exponent", "copies"}
    assert check(mended(copied, report)).ok


def test_tied_layers_pass_under_their_own_rule_alone():
    assert check(tied, 1.0).ok
    (finding,) = check(tied, 0.5).findings  # and no advice to scale them for another one
    assert (finding.about, finding.fix, finding.factor) == ("copies", "", None)
    assert check(tied, "completep").ok
    assert not check(lambda depth: Net([Branch(depth**-0.5)] * depth, plain)).ok


def in_turn(scale):
    """Return networks whose layers take two branches in turn."""

    def build(depth):
        pair = [Branch(depth**-scale) for _ in range(2)]
        return Net([pair[layer % 2] for layer in range(depth)], plain)

    return build


@pytest.mark.parametrize("expected", [0.5, 1.0])
def test_layers_that_take_two_branches_in_turn_get_a_line_that_counts_layers(expected):
    report = check(in_turn(0.5), expected)
    (finding,) = report.findings
    assert finding.fix.startswith(f"{IN_FORWARD}x = x + depth ** -0.5 * branch(x)")
    assert check(in_turn(1.0), expected=1.0).ok
    (finding,) = check(in_turn(1.0), expected=0.5).findings
    assert (finding.about, finding.fix, finding.factor) == ("copies", "", None)


@pytest.mark.parametrize("seed", range(6))
def test_one_layer_taken_again_is_aligned_beyond_doubt(seed):
    scaling = check(tied, None, seed=seed).branches[0]
    assert scaling.meaning == "neural-ODE-like"
    assert scaling.alignment_interval == pytest.approx((1, 1), abs=0.01)


@pytest.mark.parametrize("std", [0.003, 0.02, 0.2])
def test_pre_norm_has_one_statement_about_its_stream_however_small_its_updates(std):
    report = check(lambda depth: Net([Branch(norm=True, std=std) for _ in range(depth)], plain), None)
    assert report.branches[0].meaning == "grows with depth"
    assert report.streams[0].meaning == "logarithmic clock (pre-norm)"


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_a_multiplier_that_is_a_function_of_the_layer_is_named_as_a_profile(power):
    def build(depth):
        return Net([Branch((i + 1) ** -power, norm=True) for i in range(depth)], plain)

    report = check(build, "completep")
    (finding,) = report.findings
    assert finding.layers == ()
    assert f"(i + 1)^-{power:g}" in finding.message
    assert check(mended(build, report), "completep").ok


@pytest.mark.parametrize(
    ("profile", "right"),
    [
        (lambda i, depth: (1.2 + math.cos(3 * i / depth)) / depth, True),
        (lambda i, depth: (0.3 + (i + 0.5) ** 2 / depth**2) / depth, True),
        (lambda i, depth: 2.0**-i, False),
        (lambda i, depth: (1.2 + math.cos(3 * i / depth)) * depth**-0.5, False),
    ],
)
def test_a_profile_over_layers_is_judged_as_a_whole_under_a_rule(profile, right):
    """No layer of a profile is one that the others follow, so that none is blamed by its number."""

    def build(depth):
        return Net([Branch(profile(i, depth), norm=True) for i in range(depth)], plain)

    report = check(build, "completep")
    assert report.ok is right
    assert all(finding.layers == () and "[0" not in finding.fix for finding in report.findings)


def test_dropout_on_the_skip_is_found_and_on_the_branch_it_is_right():
    (finding,) = check(built(dropped)).findings
    assert finding.parameter.startswith("skip of ")
    assert math.isclose(finding.factor, 0.94**-16, rel_tol=1e-6)
    assert check(built(dropped_branch)).ok


@pytest.mark.parametrize("cut", ["zip", "unbind", "chunk"])
def test_stacked_parameters_that_are_cut_before_the_stream_begins_are_followed(cut):
    class Stacked(nn.Module):
        def __init__(self, depth, power):
            super().__init__()
            self.first = nn.Linear(6, WIDTH)
            self.inner = nn.Parameter(torch.randn(depth, WIDTH, WIDTH) * WIDTH**-0.5)
            self.outer = nn.Parameter(torch.randn(depth, WIDTH, WIDTH) * WIDTH**-0.5 * depth**-power)

        def forward(self, x):
            h = self.first(x)
            layers = {
                "zip": lambda: zip(self.inner, self.outer, strict=True),
                "unbind": lambda: zip(self.inner.unbind(0), torch.unbind(self.outer), strict=True),
                "chunk": lambda: zip(self.inner.split(1), self.outer.chunk(len(self.outer)), strict=True),
            }[cut]()
            for inner, outer in layers:
                h = h + torch.tanh(h @ inner.squeeze(0)) @ outer.squeeze(0)
            return h

    assert check(lambda depth: Stacked(depth, 0.5)).ok
    assert not check(lambda depth: Stacked(depth, 0.0)).ok


def test_an_additive_unet_grows_more_than_its_branches_and_that_is_the_finding():
    report = check(built(unet))
    (stream,) = report.streams
    assert stream.outgrows_its_branches
    assert report.verdict == "not as expected"
    assert stream.growth[-1] > 5
    assert report.branches[0].exponent == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("stream", [mixed, averaged])
def test_a_stream_into_which_earlier_states_are_mixed_forgets_nothing(stream):
    report = check(built(stream))
    assert min(report.streams[0].turned) > 0.8
    assert not report.streams[0].meaning.startswith("forgets")
    assert report.ok
    assert not check(built(stream, exponent=0.0)).ok


def test_a_stream_may_grow_as_its_branches_say_though_earlier_states_are_added():
    """Unscaled updates make a pre-normed stream grow like the root of the depth, whatever else is added."""

    def biased(net, h):
        first = h
        for place, block in enumerate(net.blocks):
            h = h + block(h) + (0.1 * first if place == 1 else 0.0)
        return h

    report = check(built(biased, exponent=0.0, norm=True), 0.0)
    assert max(report.streams[0].mixed) > 0.02
    assert report.streams[0].growth_exponent > 0.35
    assert report.streams[0].growth[-1] > 2.5
    assert report.ok


def test_a_stream_that_forgets_its_input_is_told_so():
    """The twin: the same skip without the first state."""
    report = check(built(forgetting))
    assert report.streams[0].meaning.startswith("forgets its input")
    assert report.streams[0].growth[-1] < 0.1


def test_the_velocity_of_a_momentum_network_is_not_taken_for_its_stream():
    (stream,) = check(built(momentum, gain=0.2), None).streams
    assert stream.growth[-1] < 2
    assert stream.skip[-1] == pytest.approx(1.0)
    assert not stream.explodes


def test_both_streams_of_a_reversible_network_are_followed():
    wide = 2 * WIDTH
    report = check(built(reversible, width=wide, count=lambda depth: 2 * depth))
    assert report.ok
    assert [stream.branches for stream in report.streams] == [DEPTHS, DEPTHS]
    assert not check(built(reversible, 0.0, width=wide, count=lambda depth: 2 * depth)).ok


def test_a_concatenated_unet_is_not_said_to_explode():
    class Concatenated(nn.Module):
        def __init__(self, depth):
            super().__init__()
            half = depth // 2
            self.first = nn.Linear(6, WIDTH)
            self.down = nn.ModuleList(Branch(depth**-0.5) for _ in range(half))
            self.up = nn.ModuleList(Branch(depth**-0.5) for _ in range(half))
            self.merge = nn.ModuleList(nn.Linear(2 * WIDTH, WIDTH, bias=False) for _ in range(half))

        def forward(self, x):
            h, skips = self.first(x), []
            for block in self.down:
                h = h + block(h)
                skips.append(h)
            for block, merge in zip(self.up, self.merge, strict=True):
                h = merge(torch.cat([h, skips.pop()], dim=-1))
                h = h + block(h)
            return h

    report = check(Concatenated)
    assert report.verdict == "cannot tell"
    assert not any(stream.explodes for stream in report.streams)
    assert "nan" not in str(report)


@pytest.mark.parametrize("gain", [0.5, 1.0, 2.0])
def test_skips_of_one_minus_a_number_over_depth_leave_the_exponent_of_the_branch(gain):
    report = check(built(decaying, exponent=1.0, gain=gain), 1.0)
    (branch,) = report.branches
    low, high = branch.exponent_interval
    assert low - 0.01 < 1.0 < high + 0.01
    assert report.streams[0].meaning == "finite clock"


def test_printed_fixes_need_no_name_but_the_model_and_torch():
    class Nested(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList([nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2)])

        def forward(self, x):
            return x + self.parts[1](torch.tanh(self.parts[0](x)))

    def build(depth):
        return nn.Sequential(nn.Linear(6, WIDTH), *(Nested() for _ in range(depth)))

    report = check(build)
    assert check(mended(build, report)).ok


@pytest.mark.parametrize(("power", "expected"), [(1.0, 1.0), (0.5, 0.5)])
def test_a_profile_over_layers_is_no_scatter_of_layers(power, expected):
    """Held to a number, whose interval the scatter of layers makes."""

    def build(depth):
        return Net([Branch((i + 1) ** -power, norm=True) for i in range(depth)], plain)

    report = check(build, expected)
    (finding,) = report.findings
    assert finding.about == "profile"
    assert check(mended(build, report), expected).ok


def test_a_shape_over_layers_beside_the_right_power_is_right():
    def build(depth):
        return Net([Branch((2 - 1.8 * i / depth) * depth**-0.5, norm=True) for i in range(depth)], plain)

    report = check(build)
    low, high = report.branches[0].exponent_interval
    assert report.ok
    assert high - low < 0.25


@pytest.mark.parametrize("seed", range(4))
def test_layers_that_are_one_are_one_draw_at_every_depth(seed):
    """The exponent is that of the numbers: another draw of one layer is as much smaller or larger."""

    def build(depth):
        branches = [Branch(1 / depth) for _ in range(depth)]  # draws that others do not take
        return Net([branches[-1]] * depth, plain)

    report = check(build, 1.0, seed=seed)
    assert report.ok
    assert report.branches[0].exponent == pytest.approx(1.0, abs=0.1)


def test_a_gain_of_one_beside_a_constant_multiplier_is_not_to_blame():
    class Gained(Branch):
        def __init__(self):
            super().__init__(0.2, norm=True)
            self.gain = nn.Parameter(torch.ones(WIDTH))

        def forward(self, x):
            return self.gain * super().forward(x)

    (finding,) = check(lambda depth: Net([Gained() for _ in range(depth)], plain)).findings
    assert finding.parameter.startswith("multiplier of")


def without_skips(which):
    def stream(net, h):
        for place, block in enumerate(net.blocks):
            h = block(h) if which(place, len(net.blocks)) else h + block(h)
        return h

    return stream


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    "which",
    [
        lambda place, depth: place == depth // 2,
        lambda place, depth: place % 2 == 1 and place < depth - 1,  # behind the last no stream begins
    ],
)
def test_a_layer_without_its_skip_is_named(which, exponent):
    report = check(built(without_skips(which), exponent, norm=True), exponent)
    (finding,) = report.findings
    assert finding.parameter == "blocks.*.outer.weight"
    assert finding.about == "skip"
    assert finding.layers == tuple(place for place in range(DEPTHS[-1]) if which(place, DEPTHS[-1]))


def test_a_layer_that_changes_the_shape_of_the_state_may_lack_a_skip():
    """The first layer of a stage, with weights of the same shape: a stride instead of a skip."""

    class Stages(nn.Module):
        def __init__(self, depth):
            super().__init__()
            self.first = nn.Conv1d(1, 4, 1)
            self.stages = nn.ModuleList(
                nn.ModuleList(nn.Conv1d(4, 4, 3, stride=1 + (k == 0), padding=1) for k in range(depth))
                for _ in range(2)
            )
            self.scale = depth**-0.5

        def forward(self, x):
            h = self.first(x)
            for stage in self.stages:
                for layer in stage:
                    h = h + self.scale * layer(torch.relu(h)) if layer.stride == (1,) else layer(h)
            return h

    x = torch.randn(2, 1, 32, generator=torch.Generator().manual_seed(0))
    report = dl.check_depth(Stages, DEPTHS, batch=x, expected=0.5)
    assert len(report.streams) == 2
    assert not any(finding.about == "skip" for finding in report.findings)


def test_growth_beyond_any_power_is_an_explosion_though_it_fluctuates():
    (stream,) = dl.check_depth(
        lambda depth: Chain(depth, 0.0, summed, norm=False), DEPTHS[:3], batch=flat, expected=0.0
    ).streams
    assert stream.explodes
    (held,) = check(built(plain, exponent=0.0, norm=True), 0.0).streams
    assert not held.explodes


@pytest.mark.parametrize("share", [0.047, 0.996, 1.0])
def test_a_share_is_printed_as_a_number(share):
    assert _share(share) == {0.047: "4.7 %", 0.996: "100 %", 1.0: "100 %"}[share]
