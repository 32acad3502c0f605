"""One stream stays one stream, whatever stands between its sums; and what is no branch of its own is not
counted as one.
"""

import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import deeplimit as dl
from deeplimit.ground.randomness import seeded

WIDTH = 16
DEPTHS = [2, 4, 8]


def states():
    return torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(0))


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
        return (
            self.weight * (centred / torch.sqrt(centred.pow(2).mean(-1, keepdim=True) + self.eps)) + self.bias
        )


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

    for expected in (0.5, "depth-mup", "gpt-2"):
        report = dl.check_depth(
            lambda depth: Stack(depth, projected, lambda: nn.Linear(WIDTH, WIDTH)),
            DEPTHS,
            batch=states(),
            expected=expected,
        )
        assert report.verdict == "cannot tell"
        assert "8 residual streams at the largest depth but 2 at the smallest" in str(report)
        assert "interval" not in str(report)


class Block(nn.Module):
    """A pre-norm block with GPT-2's rule on what projects back; `kind`: "plain", "experts" (a dense
    mixture) or "adapter".
    """

    def __init__(self, scale, kind):
        super().__init__()
        width, self.kind = 32, kind
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.back = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.router = nn.Linear(width, 4, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 64, bias=False), nn.GELU(), nn.Linear(64, width, bias=False))
            for _ in range(4 if kind in ("experts", "routed") else 1)
        )
        self.down, self.up = nn.Linear(width, 4, bias=False), nn.Linear(4, width, bias=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)
        for projection in (self.back, *(expert[2] for expert in self.experts)):
            nn.init.normal_(projection.weight, std=0.02 * scale)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        y = self.mix(self.before(x))
        x = x + (self.back(y) + self.up(self.down(y)) if self.kind == "adapter" else self.back(y))
        y = self.between(x)
        if len(self.experts) == 1:
            return x + self.experts[0](y)
        chances = self.router(y).softmax(-1)
        if self.kind == "experts":
            return x + sum(chances[..., [k]] * expert(y) for k, expert in enumerate(self.experts))
        flat, out = y.flatten(0, 1), torch.zeros_like(x).flatten(0, 1)
        best = chances.flatten(0, 1).argmax(-1)
        for k, expert in enumerate(self.experts):
            own = (best == k).nonzero().flatten()
            if len(own):
                out.index_add_(0, own, chances.flatten(0, 1)[own][:, [k]] * expert(flat[own]))
        return x + out.view_as(x)


class GPT(nn.Module):
    def __init__(self, depth, kind="plain", fixed=0, scale=1.0):
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.stem = nn.Sequential(*(Block(1.0, "plain") for _ in range(fixed)), nn.Linear(32, 32))
        self.blocks = nn.Sequential(*(Block(scale * (2 * depth) ** -0.5, kind) for _ in range(depth)))

    def forward(self, tokens):
        return F.linear(self.blocks(self.stem(self.embedding(tokens))), self.embedding.weight)


@pytest.mark.parametrize("kind", ["experts", "routed", "adapter"])
def test_experts_in_one_sum_are_one_branch_and_adapters_none(kind):
    report = dl.check_depth(lambda depth: GPT(depth, kind), DEPTHS, batch=words(), expected="gpt-2")
    assert report.verdict == "as expected", str(report)
    assert [stream.branches for stream in report.streams] == [(4, 8, 16)]
    assert len(report.branches) == (3 if kind == "adapter" else 2)
    assert ("of low rank and zero beside another branch" in str(report)) == (kind == "adapter")
    twice = dl.check_depth(lambda depth: GPT(depth, kind, scale=2.0), DEPTHS, batch=words(), expected="gpt-2")
    assert {round(finding.factor, 1) for finding in twice.findings} == {2.0}
    assert len({finding.branch for finding in twice.findings}) == 2


def test_what_is_not_deepened_is_not_judged_by_a_rule_either():
    report = dl.check_depth(lambda depth: GPT(depth, fixed=2), DEPTHS, batch=words(), expected="gpt-2")
    assert report.verdict == "as expected", str(report)
    assert re.search(r"stem\.\*.*: as many at every depth, so not judged", str(report))


class Twofold(nn.Module):
    """A branch that is seen, scaled, and beside it one that is not scaled, added in some other way."""

    def __init__(self, depth, add):
        super().__init__()
        self.entry = nn.Linear(WIDTH, WIDTH)
        self.seen, self.other = (
            nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(depth)) for _ in range(2)
        )
        self.add = add

    def forward(self, x):
        h = self.entry(x)
        for seen, other in zip(self.seen, self.other, strict=True):
            h = h + len(self.seen) ** -0.5 * seen(torch.tanh(h))
            h = self.add(h, other(torch.tanh(h)))
        return h


@pytest.mark.parametrize(
    "add",
    [
        lambda h, y: torch.cat([h, y], -1) @ torch.eye(WIDTH).repeat(2, 1),
        lambda h, y: (torch.stack([h, y]) * torch.ones(2, 1, 1)).sum(0),
        lambda h, y: h * (1 + y),
    ],
)
def test_weights_that_deepen_outside_of_branches_are_named(add):
    report = dl.check_depth(lambda depth: Twofold(depth, add), DEPTHS, batch=states(), expected=0.5)
    assert "other.*.weight: these weights multiply with depth but belong to no residual branch" in str(report)
    assert not report.ok
    seen = dl.check_depth(lambda depth: Twofold(depth, torch.add), DEPTHS, batch=states(), expected=0.5)
    assert "belong to no residual branch" not in str(seen)
    assert not seen.ok


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
