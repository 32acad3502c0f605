"""`recommend` prints a line that was run at every depth and makes exploding networks train, or none."""

import re

import numpy as np
import pytest
import torch
from torch import nn

import deeplimit as dl
from deeplimit.modules.recommendation import recommend as entered
from deeplimit.modules.recommendation.scaling_line import count_in_code
from deeplimit.testing import check_report

WIDTH, DEEP, DEPTHS = 16, 64, (4, 8, 16)
X = torch.randn(16, 5, generator=torch.Generator().manual_seed(0))
Y = torch.sin(X.sum(dim=1, keepdim=True))


def branch():
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))


class MLP(nn.Module):
    """A residual MLP whose branches are multiplied by gain * depth**-exponent, tied or not.

    `inner` and `last` are exponents of the branches' layers.
    """

    def __init__(self, depth, exponent=0.0, gain=2.0, tied=False, skip=1.0, inner=0.0, last=0.0):
        super().__init__()
        self.first, self.last = nn.Linear(5, WIDTH), nn.Linear(WIDTH, 1)
        self.blocks = nn.ModuleList([branch() for _ in range(1 if tied else depth)])
        self.scale, self.depth, self.skip = gain * depth**-exponent, depth, skip
        with torch.no_grad():
            for block in self.blocks if inner or last else ():
                for layer, power in ((block[0], inner), (block[2], last)):
                    layer.weight.mul_(depth**-power)
                    layer.bias.mul_(depth**-power)

    def forward(self, x):
        h = self.first(x)
        for k in range(self.depth):
            h = self.skip * h + self.scale * self.blocks[k % len(self.blocks)](h)
        return self.last(h)


class Convolutions(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1))
            for _ in range(depth)
        )
        for weight in self.blocks.parameters():
            if weight.dim() > 1:
                nn.init.kaiming_normal_(weight)

    def forward(self, x):
        h = self.first(x)
        for block in self.blocks:
            h = h + block(h)
        return h.mean(dim=(2, 3))


class Transformer(nn.Module):
    """Attention and MLP without norms, two branches per layer."""

    def __init__(self, depth):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.ModuleDict({"attention": nn.MultiheadAttention(WIDTH, 2, batch_first=True), "mlp": branch()})
            for _ in range(depth)
        )

    def forward(self, x):
        for layer in self.layers:
            x = x + layer["attention"](x, x, x, need_weights=False)[0]
            x = x + 3 * layer["mlp"](x)
        return x


def run(report, model, batch=None):
    """The model after the report's code, which is run as it stands."""
    exec(report.code, {"model": model, "depth": report.depth, "batch": batch})
    return model


def losses(model, rate=1e-3, steps=20, x=X, y=Y):
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    found = []
    for _ in range(steps):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def seeded(factory, *given, **how):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return factory(*given, **how)


def test_the_line_makes_an_exploding_mlp_train():
    report = dl.recommend(MLP, DEEP, batch=X, depths=DEPTHS)
    assert (report.verdict, report.exponent) == ("change", 0.5)
    assert report.signal_before[-1] > 100
    assert report.signal_after[-1] < 10
    assert report.gradient_before[-1] > 100
    assert report.gradient_after[-1] < 10
    before = losses(seeded(MLP, DEEP))
    after = losses(run(report, seeded(MLP, DEEP)))
    assert not before[-1] < 1  # far above the variance of y, or nan
    assert after[-1] < min(0.7 * after[0], 0.5)


@pytest.mark.parametrize("model", [Convolutions, Transformer])
def test_the_line_holds_signal_and_gradient_of_other_architectures(model):
    batch = {"Convolutions": (2, 1, 5, 5), "Transformer": (2, 3, WIDTH)}[model.__name__]
    x = torch.randn(batch, generator=torch.Generator().manual_seed(0))
    report = dl.recommend(model, 48, batch=x, depths=DEPTHS)
    assert report.verdict == "change"
    assert report.signal_before[-1] > 100
    assert 0.5 < report.signal_after[-1] < 10
    assert report.gradient_before[-1] > 100
    assert report.gradient_after[-1] < 10


def test_tied_layers_get_the_exponent_of_aligned_ones():
    report = dl.recommend(lambda depth: MLP(depth, tied=True), 48, batch=X, depths=DEPTHS)
    assert (report.verdict, report.exponent) == ("change", 1.0)
    assert report.reservations


def test_a_network_that_is_right_is_left_alone():
    report = dl.recommend(lambda depth: MLP(depth, 0.5), DEEP, batch=X, depths=DEPTHS)
    assert (report.verdict, report.code) == ("right as it is", "")
    np.testing.assert_array_equal(report.signal_before, report.signal_after)


@pytest.mark.parametrize("skip", [0.9, 1.03])
def test_a_skip_that_no_branch_makes_up_for_is_not_right_as_it_is(skip):
    report = dl.recommend(lambda depth: MLP(depth, 0.5, skip=skip), 24, batch=X, depths=DEPTHS)
    assert (report.verdict, report.rule, report.code) == ("cannot tell", "skip_is_wrong", "")


def test_a_stream_that_outgrows_its_branches_is_not_right_as_it_is():
    """A constant of size depth**-1/2 is added in every layer, beside branches that are scaled rightly."""

    class Beside(MLP):
        def forward(self, x):
            h = self.first(x)
            for block in self.blocks:
                h = h + self.scale * block(h) + 2 * self.depth**-0.5
            return self.last(h)

    report = dl.recommend(lambda depth: Beside(depth, 0.5, gain=0.5), 48, batch=X, depths=DEPTHS)
    assert (report.verdict, report.code) == ("cannot tell", "")


def test_the_reason_names_the_exponents_that_were_measured():
    report = dl.recommend(lambda depth: MLP(depth, 1.0), 24, batch=X, depths=DEPTHS)
    assert report.verdict == "right as it is"
    assert f"{report.exponents[0]:.2f}" in report.reason
    assert 0.9 < report.exponents[0] < 1.1


def test_a_line_that_does_not_pass_is_not_printed(monkeypatch):
    """The twin: a line of half the exponent, one that names what is not there, and no other to try."""
    half = "[p.data.mul_(depth ** -0.25) for n, p in model.named_parameters() if n.endswith('2.weight')]"
    for wrong in (half, "model.stem.data.mul_(0)", "re.fullmatch('', '')"):
        monkeypatch.setattr(entered_module(), "by_names", lambda *given, line=wrong: line)
        monkeypatch.setattr(entered_module(), "by_initialiser", lambda wanted: "")
        report = dl.recommend(MLP, 48, batch=X, depths=DEPTHS)
        assert (report.verdict, report.code) == ("cannot tell", "")


def entered_module():
    import sys

    return sys.modules[entered.__module__]


@pytest.mark.parametrize(
    ("totals", "code"),
    [((4, 8, 16), "depth"), ((8, 16, 32), "2 * depth"), ((9, 17, 33), "2 * depth + 1"), ((4, 9, 16), None)],
)
def test_the_number_of_branches_is_written_in_the_depth(totals, code):
    assert count_in_code((4, 8, 16), totals) == code


def changed(factory, report, depth, optimizer, place, power):
    """Return how far a step of the linear loss moves outputs, by weights of one place alone."""
    model = factory(depth)
    exec(report.code, {"model": model, "depth": depth, "batch": X})
    out = model(X)
    (out * Y).mean().backward()
    rate = 0.003 * (depth / DEPTHS[0]) ** power
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if re.fullmatch(PLACES[place], name):
                weight.sub_(rate * (weight.grad if optimizer == "SGD" else weight.grad.sign()))
        return float((model(X) - out).norm() / out.norm())


PLACES = {
    "projection": r"blocks\.\d+\.2\.weight",
    "bias of the projection": r"blocks\.\d+\.2\.bias",
    "other weights of a branch": r"blocks\.\d+\.0\..*",
}


def power_of(told):
    return 0.0 if told == "as it is" else float(told.split("** ")[1])


@pytest.mark.parametrize("optimizer", ["Adam", "SGD"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"exponent": 0.25},
        {"exponent": 0.5},
        {"exponent": 1.0},
        {"tied": True},
        {"tied": True, "exponent": 0.5},
        {"inner": 0.5},
        {"last": 0.5},
        {"inner": 0.25, "last": 0.25},
        {"inner": 0.25, "last": 0.25, "exponent": 0.25},
        {"inner": 0.25},
    ],
)
def test_steps_change_outputs_as_much_at_any_depth(given, optimizer, place):
    def factory(depth):
        return seeded(MLP, depth, gain=0.5, **given)

    report = dl.recommend(factory, 64, batch=X, depths=DEPTHS)
    rates = report.learning_rate
    # A bias has a line of its own where it does not act as the projection's weights do.
    power = power_of(rates.get(f"{optimizer}, {place}", rates[f"{optimizer}, projection"]))
    few, many = (changed(factory, report, depth, optimizer, place, power) for depth in (4, 64))
    assert 0.6 < many / few < 1.6
    many = changed(factory, report, 64, optimizer, place, power + 0.5)  # the twin: half a power off
    assert many / few > 2


def test_kinds_that_need_other_rates_are_told_apart():
    class Two(nn.Module):
        def __init__(self, depth):
            super().__init__()
            self.first = nn.ModuleList(branch() for _ in range(depth))
            self.second = nn.ModuleList(branch() for _ in range(depth))

        def forward(self, h):
            for first, second in zip(self.first, self.second, strict=True):
                h = h + len(self.first) ** -0.5 * first(h)
                h = h + second(h)
            return h

    x = torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(0))
    rates = dl.recommend(Two, 48, batch=x, depths=DEPTHS).learning_rate
    assert power_of(rates["SGD, projection of first.*"]) == 0.0
    assert power_of(rates["SGD, projection of second.*"]) == -1.0


def test_bad_arguments_are_refused_by_their_names():
    for how in ({"depth": 8}, {"exponent": -1.0}, {"depths": (4,)}):
        with pytest.raises(ValueError, match=next(iter(how))):
            dl.recommend(MLP, **{"depth": 48, "batch": X, "depths": DEPTHS, **how})


def test_the_report_is_one_like_the_others():
    report = dl.recommend(MLP, 24, batch=X, depths=DEPTHS)
    check_report(report)
    assert len(report.to_frame()) == 4


INPUTS = {MLP: (16, 5), Convolutions: (8, 1, 5, 5), Transformer: (8, 3, WIDTH)}


def assert_trains_with_the_line_alone(model, depth, depths, steps):
    """Adam fits numbers of variance one with the line, and without it is far away from them, or at nan."""
    x = torch.randn(INPUTS[model], generator=torch.Generator().manual_seed(0))
    y = torch.randn(seeded(model, 1)(x).shape, generator=torch.Generator().manual_seed(1))
    report = dl.recommend(model, depth, batch=x, depths=depths)
    before = losses(seeded(model, depth), steps=steps, x=x, y=y)
    after = losses(run(report, seeded(model, depth)), steps=steps, x=x, y=y)
    assert not before[-1] < 5 * after[-1]  # or nan
    assert after[-1] < 0.7 * after[0]


@pytest.mark.parametrize(
    ("model", "depth", "depths", "steps"),
    [(Convolutions, 16, (2, 4, 8), 20), (Transformer, 10, (2, 3, 4), 12)],
)
def test_the_line_makes_other_exploding_architectures_train(model, depth, depths, steps):
    assert_trains_with_the_line_alone(model, depth, depths, steps)


@pytest.mark.nightly
@pytest.mark.parametrize("model", list(INPUTS))
def test_the_line_makes_two_hundred_layers_train(model):
    """The depth that is the default, through twenty-odd orders of magnitude."""
    assert_trains_with_the_line_alone(model, 200, DEPTHS, steps=60)
