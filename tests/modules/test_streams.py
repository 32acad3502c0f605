"""One stream stays one stream, whatever stands between its sums; and what is no branch of its own is not
counted as one.
"""

import re

import pytest
import torch
from hooked_updates import assert_as_hooked
from residual_stacks import DEPTHS, WIDTH, Stack as Sums, states
from torch import nn
from torch.nn import functional as F

import deeplimit as dl
from deeplimit.common.global_state import seeded


def words():
    return torch.randint(0, 50, (2, 12), generator=torch.Generator().manual_seed(0))


class Stack(nn.Module):
    """h -> between(h + depth^-1/2 V tanh(h)) `depth` times; `between` also gets a module of its own and
    the first state.
    """

    def __init__(self, depth, between, make=nn.Identity):
        super().__init__()
        self.entry = nn.Linear(WIDTH, WIDTH)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(depth))
        self.others = nn.ModuleList(make() for _ in range(depth))
        self.between = between

    def forward(self, x):
        start = h = self.entry(x)
        for layer, other in zip(self.layers, self.others, strict=True):
            h = self.between(h + len(self.layers) ** -0.5 * layer(torch.tanh(h)), other, start)
        return h


def plain(h, other, start):
    return h


BETWEEN = {
    "masked": lambda h, other, start: h.masked_fill(torch.zeros(len(h), 1, dtype=torch.bool), 0.0),
    "where": lambda h, other, start: torch.where(torch.ones_like(h) > 0, h, 0.0),
    "clamped": lambda h, other, start: h.clamp(-1e4, 1e4),
    "finite": lambda h, other, start: torch.nan_to_num(h),
    "flipped": lambda h, other, start: h.flip(0),
    "permuted": lambda h, other, start: h[torch.arange(len(h)).flip(0)],
    "selected": lambda h, other, start: h.index_select(0, torch.arange(len(h))),
    "gathered": lambda h, other, start: h.gather(0, torch.arange(len(h))[:, None].expand_as(h)),
    "the input once more": lambda h, other, start: h + 0.01 * start,
    "the input once more, first": lambda h, other, start: 0.01 * start + 0.99 * h,
    "a sum without weights": lambda h, other, start: h + 0.01 * torch.fft.fft(h).real,
}


@pytest.mark.parametrize("between", BETWEEN)
def test_sums_follow_each_other_whatever_is_between(between):
    found, wanted = (
        dl.check_depth(lambda depth: Stack(depth, how), DEPTHS, batch=states(), expected=0.5)  # noqa: B023
        for how in (BETWEEN[between], plain)
    )
    (branch,) = found.branches
    assert (branch.kind, branch.counts) == ("layers.*", (2, 4, 8))
    assert branch.exponent == pytest.approx(wanted.branches[0].exponent, abs=0.02)
    assert [stream.branches for stream in found.streams] == [(2, 4, 8)]


def test_branches_are_asked_about_the_stream_without_what_was_added_once_more():
    """As in U-Nets whose skips are added: else later branches would be asked about a multiple of the
    stream.
    """
    sizes = []
    for between in (plain, lambda h, other, start: h + start):
        with seeded(0):
            model = Stack(4, between)
        sizes.append(dl.probe(model, states()).branches[0].sizes)
    assert sizes[0] == pytest.approx(sizes[1], rel=1e-6)


class ByDeviation(nn.LayerNorm):
    def forward(self, x):
        return self.weight * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + self.eps) + self.bias


class ByVariance(nn.LayerNorm):
    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        spread = torch.sqrt(centred.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * (centred / spread) + self.bias


class ByPower(nn.LayerNorm):
    def forward(self, x):
        return self.weight * (x * (x.square().mean(-1, keepdim=True) + self.eps) ** -0.5)


@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.RMSNorm, ByDeviation, ByVariance, ByPower])
def test_norms_written_by_hand_are_norms(norm):
    def after(h, other, start):
        return other(h)

    (branch,) = dl.check_depth(
        lambda depth: Stack(depth, after, lambda: norm(WIDTH)), DEPTHS, batch=states()
    ).branches
    assert branch.counts == (2, 4, 8)
    assert branch.renormed
    with seeded(0):
        layers = [nn.Sequential(norm(WIDTH), nn.Linear(WIDTH, WIDTH)) for _ in range(2)]

    class PreNorm(nn.Sequential):
        def forward(self, x):
            for layer in self:
                x = x + layer(x)
            return x

    assert dl.probe(PreNorm(*layers), states()).branches[0].normalised


def test_streams_that_fall_to_pieces_are_no_verdict():
    def projected(h, other, start):
        return other(h)  # weights between the sums: each begins a stream of its own

    def factory(depth):
        return Stack(depth, projected, lambda: nn.Linear(WIDTH, WIDTH))

    for expected in (0.5, "depth-mup", "gpt-2"):
        report = dl.check_depth(factory, DEPTHS, batch=states(), expected=expected)
        assert report.verdict == "cannot tell"
        assert "interval" not in str(report)


class Block(nn.Module):
    """A pre-norm block with GPT-2's rule on what projects back, perhaps with an adapter."""

    def __init__(self, scale, adapted):
        super().__init__()
        width, self.adapted = 32, adapted
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.back = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.wide, self.narrow = nn.Linear(width, 64, bias=False), nn.Linear(64, width, bias=False)
        self.down, self.up = nn.Linear(width, 4, bias=False), nn.Linear(4, width, bias=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)
        for projection in (self.back, self.narrow):
            nn.init.normal_(projection.weight, std=0.02 * scale)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        y = self.mix(self.before(x))
        x = x + (self.back(y) + self.up(self.down(y)) if self.adapted else self.back(y))
        return x + self.narrow(F.gelu(self.wide(self.between(x))))


class GPT(nn.Module):
    def __init__(self, depth, adapted=False, fixed=0, scale=1.0):
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.stem = nn.Sequential(*(Block(1.0, False) for _ in range(fixed)), nn.Linear(32, 32))
        self.blocks = nn.Sequential(*(Block(scale * (2 * depth) ** -0.5, adapted) for _ in range(depth)))

    def forward(self, tokens):
        return F.linear(self.blocks(self.stem(self.embedding(tokens))), self.embedding.weight)


def test_adapters_that_start_at_zero_are_no_branches():
    report = dl.check_depth(lambda depth: GPT(depth, True), DEPTHS, batch=words(), expected="gpt-2")
    assert report.verdict == "as expected", str(report)
    assert [stream.branches for stream in report.streams] == [(4, 8, 16)]
    assert len(report.branches) == 3
    twice = dl.check_depth(lambda depth: GPT(depth, True, scale=2.0), DEPTHS, batch=words(), expected="gpt-2")
    assert {round(finding.factor, 1) for finding in twice.findings} == {2.0}
    assert len({finding.branch for finding in twice.findings}) == 2


def test_a_scale_for_one_depth_is_told_at_the_deepest_network_if_it_departs_there():
    """Right at 6 layers: 1.15 times too large at 8, and 0.58 of what two layers ask for."""
    report = dl.check_depth(
        lambda depth: GPT(depth, scale=(depth / 6) ** 0.5), [2, 4, 8], batch=words(), expected="gpt-2"
    )
    assert [found.factor for found in report.findings] == pytest.approx([8**0.5 / 6**0.5] * 2, rel=0.05)


class Twofold(nn.Module):
    """Two projections of one state, the second a multiple of the first."""

    def __init__(self, multiple):
        super().__init__()
        self.there, self.back = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.back.weight = nn.Parameter(multiple * self.there.weight.detach())

    def forward(self, x):
        y = torch.tanh(x)
        return self.there(y) + self.back(y)


@pytest.mark.parametrize("multiple", [0.0, -1.0])
def test_square_branches_that_are_zero_or_cancel_are_as_large_as_what_they_return(multiple):
    both = assert_as_hooked(
        lambda: Sums(2, torch.add, lambda depth: Twofold(multiple)),
        states(),
        lambda model: [one for layer in model.layers for one in (layer.there, layer.back)],
    )
    assert [branch.index for branch in both] == [0, 1, 2, 3]


def test_what_is_not_deepened_is_not_judged_by_a_rule_either():
    report = dl.check_depth(lambda depth: GPT(depth, fixed=2), DEPTHS, batch=words(), expected="gpt-2")
    assert report.verdict == "as expected", str(report)
    assert re.search(r"stem\.\*.*: as many at every depth", str(report))


def test_a_gated_stream_that_stays_bounded_is_no_explosion():
    class Highway(nn.Module):
        def __init__(self, depth):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(depth))

        def forward(self, x):
            for layer in self.layers:
                x = x + 0.5 * (torch.tanh(layer(x)) - x)
            return x

    (branch,) = dl.check_depth(Highway, [4, 8, 16], batch=states()).branches
    assert branch.meaning.startswith("no limit")


class PostNorm(nn.Module):
    """LN(c x + f(x)), as DeepNorm is."""

    def __init__(self, factor):
        super().__init__()
        self.factor, self.norm = factor, nn.LayerNorm(16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return self.norm(self.factor * x + self.down(torch.tanh(self.up(x))))


@pytest.mark.parametrize("power", [0.0, 0.25, 0.5])
def test_the_gradient_of_a_post_norm_stream_is_that_of_its_states(power):
    """The last sum lacks the norm that makes up for the factor: depth^0.5 was said of gradients that keep."""
    depth = 32
    report = dl.check_depth(
        lambda layers: nn.Sequential(*(PostNorm(layers**power) for _ in range(layers))),
        [8, depth],
        batch=torch.randn(64, 16, generator=torch.Generator().manual_seed(0)),
    )
    (stream,) = report.streams
    assert stream.gradient_growth[-1] == pytest.approx(1.0, abs=0.25)
