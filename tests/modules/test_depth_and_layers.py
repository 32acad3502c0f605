"""What the depth is: the number of residual layers, or what the factory was asked for; and layers that are
residual in another way: reversible networks, leapfrog steps."""

import pytest
import torch
from torch import nn

import deeplimit as dl

WIDTH, DEPTHS = 48, [4, 8, 16, 32]
X = torch.randn(24, WIDTH, generator=torch.Generator().manual_seed(3))


class Model(nn.Module):
    def __init__(self, depth, further=0):
        super().__init__()
        self.depth = depth
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(depth + further))
        for layer in self.layers:
            nn.init.normal_(layer.weight, std=WIDTH**-0.5)

    def update(self, number, x, exponent=0.5):
        return self.depth**-exponent * self.layers[number](torch.tanh(x))


class FirstWithoutSkip(Model):
    """Depth L: L - 1 residual layers, all scaled by L**-0.5."""

    def forward(self, x):
        x = self.layers[0](x)
        for number in range(1, len(self.layers)):
            x = x + self.update(number, x)
        return x


class ByLayers(FirstWithoutSkip):
    """Its twin: scaled by the number of residual layers, L + 2, and not by what was asked for."""

    def __init__(self, depth):
        super().__init__(depth, 3)
        self.depth = depth + 2


class Reversible(Model):
    def forward(self, x):
        one = other = x
        for number in range(0, self.depth, 2):
            one = one + self.update(number, other)
            other = other + self.update(number + 1, one)
        return one + other


@pytest.mark.parametrize("kind", [FirstWithoutSkip, ByLayers, Reversible])
def test_an_exponent_is_in_the_number_that_a_power_law_fits(kind):
    report = dl.check_depth(kind, DEPTHS, batch=X)
    for branch in report.branches:
        low, high = branch.exponent_interval
        assert low - 0.01 <= 0.5 <= high + 0.01
        assert high - low < 0.1
        assert branch.power_law


class Leapfrog(Model):
    """x" = f L by 2 x - (the state before) + f/L: every layer's update is added in all later layers."""

    sign = 1.0

    def forward(self, x):
        before, x = x, x + self.update(0, x, 1.0)
        for number in range(1, self.depth):
            x, before = 2 * x - before + self.update(number, x, 1.0), x
        return x


def test_layers_of_a_leapfrog_scheme_are_found():
    report = dl.check_depth(Leapfrog, DEPTHS, batch=X)
    (branch,), (stream,) = report.branches, report.streams
    assert branch.counts == (4, 8, 16, 32)
    assert abs(branch.exponent) < 0.1
    assert stream.growth[-1] > 1.5 * stream.growth[0]  # though its updates alone would vanish


class Difference(Model):
    """Its twin: what a layer adds is (x + f) - x, so that each has one branch and no velocity."""

    def forward(self, x):
        for number in range(self.depth):
            inner = x + self.update(number, x)
            x = x + 0.5 * (inner - x)
        return x


def test_a_difference_of_a_layer_and_its_input_is_a_branch():
    (branch,) = dl.check_depth(Difference, DEPTHS, batch=X).branches
    assert branch.counts == (4, 8, 16, 32)
    assert abs(branch.exponent - 0.5) < 0.05
    assert branch.ratios[-1] == pytest.approx(0.5 * 32**-0.5 * 0.6, rel=0.2)


class Beside(Model):
    """Two residual layers, and a chain without skips that deepens."""

    def forward(self, x):
        for number in range(2):
            x = x + self.update(number, x)
        for layer in self.layers[2:]:
            x = torch.tanh(layer(x))
        return x


@pytest.mark.parametrize(
    ("factory", "names"),
    [(Beside, "layers.4.weight"), (lambda depth: Beside(4), "dl.sweep")],
)
def test_layers_that_are_no_branches_are_named(factory, names):
    with pytest.raises(ValueError, match=names):
        dl.check_depth(factory, DEPTHS, batch=X)


class Profile(Model):
    """Layer l drawn at 1/sqrt(2l): all squared updates together grow like the logarithm of the depth."""

    power = 0.5

    def __init__(self, depth):
        super().__init__(depth)
        for number, layer in enumerate(self.layers, 1):
            nn.init.normal_(layer.weight, std=WIDTH**-0.5 * (2 * number) ** -self.power)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(torch.relu(nn.functional.layer_norm(x, (WIDTH,))))
        return x


class Summable(Profile):
    """Its twin: at 1/(2l) all updates together have a limit."""

    power = 1.0


def test_a_profile_of_weights_is_no_scatter():
    report = dl.check_depth(Profile, DEPTHS, batch=X)
    (branch,), (stream,) = report.branches, report.streams
    low, high = branch.exponent_interval
    assert 0.25 < low < high < 0.45  # it was as long as from 0.01 to 0.68 at width 32
    assert stream.meaning.startswith("logarithmic clock")
    (twin,) = dl.check_depth(Summable, DEPTHS, batch=X).streams
    assert twin.meaning == "finite clock"
