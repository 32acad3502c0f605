"""Printed lines set branches right, also where a factor of a parameter is none of the branch."""

import pytest
import torch
from torch import nn
from torch.nn.functional import linear
from torch.nn.utils.parametrizations import orthogonal, weight_norm

import deeplimit as dl

WIDTH, DEPTHS = 32, (4, 8, 16)
X = torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(0))


class Branch(nn.Module):
    """A residual branch, whose end `finish` is given by what stands after the projection."""

    def __init__(self, wrap=lambda module: module):
        super().__init__()
        self.norm, self.first = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.last = wrap(nn.Linear(WIDTH, WIDTH))

    def branch(self, x):
        return self.last(torch.tanh(self.first(self.norm(x))))

    def forward(self, x):
        return x + self.branch(x)


class Gated(Branch):
    def __init__(self):
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return x + torch.sigmoid(self.gate) * self.branch(x)


class Gained(Branch):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.full((WIDTH,), 0.3))

    def forward(self, x):
        return x + self.gain * self.branch(x)


class Sandwich(Branch):
    """The projection's bias stands before the last norm, and the norm's own bias after its gain."""

    def __init__(self):
        super().__init__()
        self.after = nn.LayerNorm(WIDTH)
        nn.init.normal_(self.after.bias, std=0.1)

    def forward(self, x):
        return x + self.after(self.branch(x))


class GainedSandwich(Sandwich):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.full((WIDTH,), 0.3))

    def forward(self, x):
        return x + self.gain * self.after(self.branch(x))


class OfOneSize(Branch):
    """A weight that the forward divides by its norm."""

    def forward(self, x):
        h, weight = torch.tanh(self.first(self.norm(x))), self.last.weight
        return x + linear(h, weight / weight.norm())


def stack(make):
    return lambda depth: nn.Sequential(*(make() for _ in range(depth)))


def mended(factory, report):
    """Return the factory, with every line of the findings run on its modules."""

    def made(depth):
        model = factory(depth)
        for line in dict.fromkeys(finding.fix for finding in report.findings):
            exec(line, {"model": model, "torch": torch})
        return model

    return made


@pytest.mark.parametrize(
    ("make", "parameters"),
    [
        pytest.param(Branch, {"*.last.weight", "*.last.bias"}, id="plain"),
        pytest.param(lambda: Branch(weight_norm), None, id="weight norm"),
        pytest.param(lambda: Branch(orthogonal), None, id="orthogonal"),
        pytest.param(Gated, None, id="gate"),
        pytest.param(Gained, {"*.gain"}, id="gain"),
        pytest.param(Sandwich, {"*.after.weight", "*.after.bias"}, id="sandwich"),
        pytest.param(GainedSandwich, {"*.gain"}, id="sandwich with a gain"),
    ],
)
def test_all_lines_together_give_branches_their_exponent(make, parameters):
    factory = stack(make)
    report = dl.check_depth(factory, DEPTHS, batch=X, expected=0.5)
    assert report.verdict == "not as expected"
    assert all(finding.fix for finding in report.findings)
    if parameters is not None:
        assert {finding.parameter for finding in report.findings} == parameters
    after = dl.check_depth(mended(factory, report), DEPTHS, batch=X, expected=0.5)
    assert after.verdict == "as expected", str(after)


def test_a_line_that_changes_nothing_is_left_out():
    report = dl.check_depth(stack(OfOneSize), DEPTHS, batch=X, expected=0.5)
    assert report.verdict == "not as expected"
    assert [finding.parameter for finding in report.findings if not finding.fix] == ["*.last.weight"]
    assert any("*.last.weight" in text for text in report.reservations)


def scaled(power):
    """Return a stack of branches times depth^-power."""

    class Scaled(Branch):
        def __init__(self, depth):
            super().__init__()
            self.factor = depth**-power

        def forward(self, x):
            return x + self.factor * self.branch(x)

    return lambda depth: nn.Sequential(*(Scaled(depth) for _ in range(depth)))


@pytest.mark.parametrize(
    ("power", "stream", "branch"),
    [
        (0.35, "logarithmic clock (pre-norm)", "grows with depth"),
        (0.5, "finite clock", "neural-SDE-like"),
        (0.7, "identity", "identity"),
    ],
)
def test_an_exponent_surely_beside_the_critical_one_is_not_taken_for_it(power, stream, branch):
    """Updates together go like depth^0.15 and depth^-0.2, which ten times the depth shows."""
    report = dl.check_depth(scaled(power), (4, 16, 64), batch=X)
    assert (report.streams[0].meaning, report.branches[0].meaning) == (stream, branch)


@pytest.mark.parametrize(("power", "told"), [(0.42, "0.0"), (0.5, None), (0.58, "-0.0")])
def test_what_all_updates_together_do_is_said(power, told):
    stream = dl.check_depth(scaled(power), (4, 16, 64), batch=X).streams[0]
    assert stream.meaning == "finite clock"
    assert ("depth^" in stream.follows) is (told is not None)
    assert told is None or f"depth^{told}" in stream.follows


class TwoKinds(nn.Module):
    """One branch that all layers share, and one of each layer's own."""

    def __init__(self, depth, shared, own):
        super().__init__()
        self.powers = depth**-shared, depth**-own
        self.shared, self.own = Branch(), nn.ModuleList(Branch() for _ in range(depth))

    def forward(self, x):
        for own in self.own:
            x = x + self.powers[0] * self.shared.branch(x)
            x = x + self.powers[1] * own.branch(x)
        return x


@pytest.mark.parametrize(
    ("shared", "own", "scales"),
    [(1.0, 0.5, set()), (0.0, 0.5, {"shared"}), (1.0, 0.0, {"own"}), (0.0, 0.0, {"shared", "own"})],
)
def test_each_kind_of_branch_gets_the_exponent_of_its_own_layers(shared, own, scales):
    found = dl.recommend(lambda depth: TwoKinds(depth, shared, own), 64, batch=X, depths=DEPTHS)
    assert found.verdict == ("change" if scales else "right as it is")
    assert dict(zip(found.kinds, found.needed, strict=True)) == {"shared": 1.0, "own.*": 0.5}
    assert {name for name in ("shared", "own") if name in found.code} == scales


@pytest.mark.parametrize(
    ("power", "verdict"), [(0.0, "change"), (0.5, "right as it is"), (1.0, "right as it is"), (3.0, "change")]
)
def test_branches_that_vanish_are_not_right_as_they_are(power, verdict):
    found = dl.recommend(scaled(power), 64, batch=X, depths=DEPTHS)
    assert found.verdict == verdict
    assert bool(found.code) is (verdict == "change")


class Mixture(Branch):
    """Each row goes through one of two projections, as its first entry says."""

    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))

    def forward(self, x):
        h, chosen = torch.tanh(self.first(self.norm(x))), x[:, 0] > 0
        update = torch.zeros_like(x)
        for expert, rows in zip(self.experts, (chosen, ~chosen), strict=True):
            if rows.any():
                update[rows] = expert(h[rows])
        return x + update


def test_every_expert_of_a_mixture_gets_its_line():
    factory = stack(Mixture)
    report = dl.check_depth(factory, DEPTHS, batch=X, expected=0.5)
    names = {f"*.experts.{k}.{what}" for k in range(2) for what in ("weight", "bias")}
    assert {finding.parameter for finding in report.findings} == names
    (after,) = dl.check_depth(mended(factory, report), DEPTHS, batch=X).branches
    assert after.exponent == pytest.approx(0.5, abs=0.05)
