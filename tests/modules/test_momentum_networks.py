"""Networks whose updates go through a velocity are judged by what each layer adds to it."""

import pytest
import torch
from torch import nn

import deeplimit as dl
from deeplimit.common.global_state import seeded

DEPTHS = [4, 8, 16, 32]
BATCH = torch.randn(16, 48, generator=torch.Generator().manual_seed(0))


class Force(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.out = nn.Linear(48, 48), nn.Linear(48, 48)

    def forward(self, x):
        return self.out(torch.tanh(self.into(x)))


class Momentum(nn.Module):
    """x = x + scale * v in every layer, where `step` says how the velocity v goes on."""

    def __init__(self, depth, step, scale, keeps=0.9):
        super().__init__()
        self.forces = nn.ModuleList(Force() for _ in range(depth))
        self.step, self.scale, self.keeps = step, scale, keeps

    def forward(self, x):
        velocity = torch.zeros_like(x)
        for force in self.forces:
            velocity = self.step(velocity, force(x), self.keeps)
            x = x + self.scale * velocity
        return x


def averaged(velocity, force, keeps):
    return keeps * velocity + (1 - keeps) * force


def heavy_ball(velocity, force, keeps):
    return keeps * velocity - force


def into_itself(velocity, force, keeps):
    return (velocity * keeps).add_(force, alpha=1 - keeps)


def check(step, expected, keeps=0.9, exponent=0.5):
    """Check networks of this velocity; `keeps` may be a function of the depth."""

    def build(depth):
        kept = keeps(depth) if callable(keeps) else keeps
        return Momentum(depth, step, depth**-exponent, kept)

    return dl.check_depth(build, DEPTHS, batch=BATCH, expected=expected)


@pytest.mark.parametrize("step", [averaged, heavy_ball, into_itself])
@pytest.mark.parametrize("keeps", [0.9, 0.75, 0.99])
def test_a_velocity_does_not_hide_the_exponent_of_its_forces(step, keeps):
    report = check(step, 0.5, keeps)
    (branch,) = report.branches
    # Until networks are deeper than the memory of a heavy ball, their state grows by more than one update.
    assert report.verdict == ("cannot tell" if step is heavy_ball and keeps > 0.8 else "as expected"), report
    assert not report.findings
    assert branch.exponent == pytest.approx(0.5, abs=0.03)
    assert branch.alignment < 0.65
    assert branch.kept == pytest.approx([keeps] * len(DEPTHS))
    assert any(f"{keeps:g}" in told for told in report.reservations)


def test_a_wrong_exponent_is_found_behind_a_velocity():
    report = check(averaged, 0.5, exponent=0.0)
    assert report.verdict == "not as expected"
    assert {finding.about for finding in report.findings} == {"exponent"}
    assert check(averaged, 1.0, exponent=1.0).ok


@pytest.mark.parametrize("expected", [0.5, "depth-mup"])
def test_a_velocity_whose_memory_grows_with_depth_is_not_judged(expected):
    report = check(averaged, expected, keeps=lambda depth: 1 - 2 / depth)
    assert report.verdict == "cannot tell"
    assert not report.findings
    (told,) = report.reservations
    assert "velocity" in told


def test_networks_without_a_velocity_keep_nothing():
    report = check(lambda velocity, force, keeps: force, 0.5)
    assert report.ok
    assert report.branches[0].kept == (0.0,) * len(DEPTHS)


class Inside(Momentum):
    """The same function, with the factor inside the velocity."""

    def forward(self, x):
        velocity = torch.zeros_like(x)
        for force in self.forces:
            velocity = self.keeps * velocity + self.scale * (1 - self.keeps) * force(x)
            x = x + velocity
        return x


def test_in_training_a_factor_may_stand_before_the_velocity_or_after_it():
    found = []
    for kind in (Momentum, Inside):
        with seeded(0):
            report = dl.check_training(
                lambda depth, kind=kind: kind(depth, averaged, depth**-0.5, 0.5),
                [4, 8, 16],
                optimizer=lambda model, depth: torch.optim.SGD(model.parameters(), lr=0.1),
                batch=BATCH,
                steps=(1,),
                seeds=2,
            )
        (branch,), (stream,) = report.branches, report.streams
        assert abs(branch.size.exponent + 0.5) < 0.1
        found.append((branch.size.exponent, branch.change[0].exponent, stream.sum[0].exponent))
    assert found[0] == pytest.approx(found[1], abs=1e-4)


@pytest.mark.parametrize(("power", "verdict"), [(0.0, "cannot tell"), (1.0, "not as expected")])
def test_features_that_velocities_fill_are_not_judged(power, verdict):
    """Velocities of ten layers, in networks of 4 to 16: the changes of layers arrive ever more completely."""
    with seeded(0):
        report = dl.check_training(
            lambda depth: Momentum(depth, averaged, depth**-1.0),
            [4, 8, 16],
            optimizer=lambda model, depth: torch.optim.Adam(
                model.parameters(), lr=1e-3 * (depth / 4) ** power, eps=1e-8 * depth**-1.0
            ),
            batch=BATCH,
            expected="completep",
            steps=(1,),
            seeds=2,
        )
    found = [each for each in report.findings if each.about == "feature change"]
    assert report.streams[0].change[0].exponent > 0.4
    assert bool(found) is (verdict == "not as expected")


class Leapfrog(nn.Module):
    """p <- p + depth**-exponent f(q) and q <- q - p / depth: the state is momenta and places."""

    def __init__(self, depth, exponent, force_first):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16, bias=False) for _ in range(depth))
        for layer in self.layers:
            nn.init.normal_(layer.weight, std=0.25)
        self.scale, self.force_first = depth**-exponent, force_first

    def forward(self, x):
        p, q = x.chunk(2, -1)
        for layer in self.layers:
            p = p + self.scale * layer(torch.tanh(q)) if self.force_first else p
            q = q - p / len(self.layers)
            p = p if self.force_first else p + self.scale * layer(torch.tanh(q))
        return torch.cat([p, q], -1)


@pytest.mark.parametrize("force_first", [True, False])
@pytest.mark.parametrize("exponent", [0.5, 1.0])
def test_a_momentum_that_forgets_nothing_adds_each_force_in_all_later_layers(force_first, exponent):
    """One addition to q falls like depth**-(exponent + 1), and there are as many as layers that follow."""
    report = dl.check_depth(
        lambda depth: Leapfrog(depth, exponent, force_first),
        (4, 8, 16, 32),
        batch=torch.randn(8, 32, generator=torch.Generator().manual_seed(1)),
        expected=0.5,
        seed=1,
    )
    assert report.verdict == ("as expected" if exponent == 0.5 else "not as expected")
    assert report.branches[0].exponent == pytest.approx(exponent, abs=0.12)
    assert report.branches[0].few is None


WRITTEN = {
    "2x - y + f": lambda x, y, f, kept: 2 * x - y + f,
    "f + (2x - y)": lambda x, y, f, kept: f + (2.0 * x - y),
    "x + (x - y) + f": lambda x, y, f, kept: x + (x - y) + f,
    "2x - y - (-f)": lambda x, y, f, kept: 2 * x - y - (-f),
    "x + c (x - y) + f": lambda x, y, f, kept: x + kept * (x - y) + f,
    "c (x - y) + x + f": lambda x, y, f, kept: torch.add((x - y) * kept, x) + f,
}


class SecondOrder(nn.Module):
    """The state moves on by a share of its last change, and a force, written out in one of several ways."""

    def __init__(self, depth, exponent, written, kept=1.0):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16, bias=False) for _ in range(depth))
        self.scale, self.written, self.kept = depth**-exponent, written, kept

    def forward(self, x):
        before, velocity = x, torch.zeros_like(x)
        for layer in self.layers:
            force = self.scale * torch.tanh(layer(x))
            if self.written == "velocity":
                velocity = self.kept * velocity + force
                x = x + velocity
            else:
                x, before = WRITTEN[self.written](x, before, force, self.kept), x
        return x


def second_order(written, exponent, kept=1.0):
    with seeded(3):
        return dl.check_depth(
            lambda depth: SecondOrder(depth, exponent, written, kept),
            (4, 8, 16),
            batch=torch.randn(8, 16, generator=torch.Generator().manual_seed(1)),
            expected=0.5,
            seed=1,
        )


@pytest.mark.parametrize("written", [*WRITTEN])
def test_a_second_difference_is_a_velocity_in_whatever_way_it_is_written(written):
    """Its sums, the share that is kept and what is found are those of the velocity written out."""
    kept = 0.9 if "c" in written else 1.0
    plain, found = (second_order(each, 1.5, kept) for each in ("velocity", written))
    (one,), (other,) = plain.branches, found.branches
    assert other.exponent == pytest.approx(one.exponent, abs=1e-3)
    (stream,), (written_out,) = found.streams, plain.streams
    assert stream.growth == pytest.approx(written_out.growth, rel=1e-3)
    assert found.verdict == plain.verdict
    with seeded(0):
        parts = dl.find_branches(SecondOrder(6, 1.0, written, kept), torch.randn(4, 16))
    assert [each.name for each in parts] == [f"layers.{k}" for k in range(6)]
    assert [each.kind for each in parts] == ["layers.*"] * 6


@pytest.mark.parametrize(("exponent", "verdict"), [(1.5, "as expected"), (1.0, "not as expected")])
def test_second_order_networks_need_one_power_more_than_first_order_ones(exponent, verdict):
    assert second_order("2x - y + f", exponent).verdict == verdict


def test_twice_a_state_less_another_one_is_no_velocity():
    """2 x - g(x) is a sum of its own: nothing says that g(x) was the state before."""

    class Other(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))

        def forward(self, x):
            for layer in self.layers:
                x = 2 * x - torch.tanh(layer(x))
            return x

    with seeded(0):
        assert len(dl.find_branches(Other(), torch.randn(4, 16))) == 4
