"""Torch modules whose normal weights an equation reads as its noise: compared path by path."""

import pytest
import torch
from refusals import assert_refused
from torch import nn

import deeplimit as dl
from deeplimit.driving.normal_blocks import NormalBlocks, normal_stack, shapes_of
from deeplimit.networks.residual_network import module_network, on_shared_noise

WIDTH = 3
X = torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(0))
HOW = {"depths": [8, 16, 32, 64, 128], "paths": 100}


class Written(nn.Module):
    """h + L^-1/2 W tanh(h), its layers written out."""

    def __init__(self, depth):
        super().__init__()
        self.depth = depth
        self.maps = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(depth))
        for each in self.maps:
            nn.init.normal_(each.weight, std=WIDTH**-0.5)

    def forward(self, h):
        for each in self.maps:
            h = h + self.depth**-0.5 * each(torch.tanh(h))
        return h


class Stacked(nn.Module):
    """The same of one parameter with all layers, drawn with the factor of the depth."""

    def __init__(self, depth):
        super().__init__()
        self.weights = nn.Parameter(torch.randn(depth, WIDTH, WIDTH) * (WIDTH * depth) ** -0.5)

    def forward(self, h):
        for weight in self.weights:
            h = torch.addmm(h, torch.tanh(h), weight.T)
        return h


class ScaledFirst(nn.Module):
    """The same of a list of parameters, each times the power of the depth before it meets the state."""

    def __init__(self, depth):
        super().__init__()
        draws = (torch.randn(WIDTH, WIDTH) * WIDTH**-0.5 for _ in range(depth))
        self.weights = nn.ParameterList(nn.Parameter(each) for each in draws)

    def forward(self, h):
        for weight in self.weights:
            h = h + torch.tanh(h) @ (len(self.weights) ** -0.5 * weight).T
        return h


class Block(nn.Module):
    """One layer with a bias of its own law, and a drift."""

    def __init__(self, depth, init=nn.init.normal_):
        super().__init__()
        self.depth, self.map = depth, nn.Linear(WIDTH, WIDTH)
        init(self.map.weight, 0.0, WIDTH**-0.5)
        nn.init.normal_(self.map.bias, std=0.5)

    def forward(self, h):
        return h + self.depth**-0.5 * self.map(torch.tanh(h)) - h / self.depth


def blocks(depth):
    return [Block(depth) for _ in range(depth)]


def sde(scale=1.0, transposed=False):
    def diffusion(t, h, dB):
        dB = dB.mT if transposed else dB
        return scale * WIDTH**-0.5 * (dB @ torch.tanh(h).unsqueeze(2)).squeeze(2)

    return dl.SDE(lambda t, h: 0 * h, diffusion, brownian=(WIDTH, WIDTH))


@pytest.mark.parametrize("factory", [Written, Stacked, ScaledFirst])
@pytest.mark.parametrize("limit", [sde(), dl.res1(WIDTH, "tanh").limit()], ids=["own", "ours"])
def test_a_module_converges_to_the_equation_of_its_weights(factory, limit):
    report = dl.compare(factory, limit, X, **HOW)
    assert report.verdict == "converges"
    assert report.rate_interval[0] < 0.5 < report.rate_interval[1]


@pytest.mark.parametrize("factory", [Written, Stacked, ScaledFirst])
def test_it_does_not_converge_to_another_equation(factory):
    report = dl.compare(factory, sde(1.1), X, **HOW)
    assert report.verdict == "does not converge"
    assert not any("covariance" in each for each in report.reservations)


@pytest.mark.parametrize("network", [Written, dl.res1(WIDTH, "tanh")], ids=["module", "ours"])
def test_an_equation_that_reads_its_motions_transposed_is_told_so(network):
    report = dl.compare(network, sde(transposed=True), X, **HOW)
    assert report.verdict == "does not converge"
    assert sum("covariance" in each for each in report.reservations) == 1


def ornstein_uhlenbeck(factor):
    """Its motions in the order of a block's tensors: the weight's, then the bias's."""

    def diffusion(t, h, dB):
        weight, bias = dB[:, : WIDTH**2].reshape(-1, WIDTH, WIDTH), dB[:, WIDTH**2 :]
        return WIDTH**-0.5 * (weight @ torch.tanh(h).unsqueeze(2)).squeeze(2) + 0.5 * bias

    return dl.SDE(lambda t, h: -factor * h, diffusion, brownian=WIDTH**2 + WIDTH)


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "converges"), (1.3, "does not converge")])
def test_several_tensors_and_a_drift(factor, verdict):
    assert dl.compare(blocks, ornstein_uhlenbeck(factor), X, **HOW).verdict == verdict


def test_each_network_has_the_law_that_its_factory_draws():
    """An independent route: the moments of networks that the factory built."""
    network = on_shared_noise(module_network(blocks, WIDTH))
    assert isinstance(network.weights[0], NormalBlocks)
    ends = dl.simulate(network, X[:1], depths=[8], paths=4000, seed=1).states[8][:, -1]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        built = []
        for _ in range(2000):
            h = X[:1]
            for block in blocks(8):
                h = block(h)
            built.append(h.detach()[0])
    other = torch.stack(built)
    spread = (ends.var(0) / len(ends) + other.var(0) / len(other)).sqrt()
    assert ((ends.mean(0) - other.mean(0)).abs() < 5 * spread).all()
    assert ((ends.var(0) / other.var(0)).log().abs() < 5 * (2 / 4000 + 2 / 2000) ** 0.5).all()


class Bent(Block):
    def forward(self, h):
        return h + self.depth**-0.5 * torch.tanh(self.map(h))


def tied(depth):
    return [Block(depth)] * depth


def of_products(depth):
    def block():
        both = nn.Sequential(nn.Linear(WIDTH, 8, bias=False), nn.Tanh(), nn.Linear(8, WIDTH, bias=False))
        for each in (both[0], both[2]):
            nn.init.normal_(each.weight)
        return Residual(both)

    return [block() for _ in range(depth)]


class Residual(nn.Module):
    def __init__(self, branch):
        super().__init__()
        self.branch = branch

    def forward(self, h):
        return h + self.branch(h)


def uniform(depth):
    return [Block(depth, lambda weight, mean, std: nn.init.uniform_(weight, -std, std)) for _ in range(depth)]


def shifted(depth):
    return [Block(depth, lambda weight, mean, std: nn.init.normal_(weight, 0.1, std)) for _ in range(depth)]


OTHERS = {
    "bent": lambda depth: [Bent(depth) for _ in range(depth)],
    "tied": tied,
    "products": of_products,
    "uniform": uniform,
    "shifted": shifted,
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_blocks_share_no_noise_and_are_refused(name):
    factory = OTHERS[name]
    said = assert_refused(lambda: dl.compare(factory, ornstein_uhlenbeck(1.0), X, **HOW), ValueError, "limit")
    assert "compare_laws(resnet, limit)" in said


def test_the_deviations_are_those_of_the_draws():
    law = module_network(Stacked, WIDTH).weights[0]
    stack = normal_stack(law, 8)
    assert shapes_of(stack) == (("weight_0", (WIDTH, WIDTH)),)
    assert {round(each["weight_0"], 12) for each in stack.deviations} == {round((WIDTH * 8) ** -0.5, 12)}
