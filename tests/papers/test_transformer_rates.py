"""Transformers trained by AdamW: the simulation, its closed form, and the fits of fluctuation and bias."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import deeplimit as dl
from deeplimit.papers.figures import trained_transformers as trained, transformer_rates as rates
from deeplimit.papers.figures.over_repeats import Mean
from deeplimit.papers.figures.recipe import LEVEL

CELLS = tuple((depth, heads) for depth in (4, 8, 16, 32) for heads in (1, 4))


class Head(nn.Module):
    """One attention head, written as a module for one network."""

    def __init__(self, query, key, value):
        super().__init__()
        self.query, self.key, self.value = (nn.Parameter(each.clone()) for each in (query, key, value))

    def forward(self, h):
        query, key, value = (h @ each.T for each in (self.query, self.key, self.value))
        return nn.functional.scaled_dot_product_attention(query, key, value)


class Transformer(nn.Module):
    def __init__(self, heads, scale):
        super().__init__()
        depth, count = heads["Q"].shape[:2]
        self.scale = scale
        self.layers = nn.ModuleList(
            nn.ModuleList(Head(*(heads[name][layer, head] for name in "QKV")) for head in range(count))
            for layer in range(depth)
        )

    def forward(self, h):
        for layer in self.layers:
            h = h + self.scale * sum(head(h) for head in layer)
        return h


@pytest.mark.parametrize("setting", [*rates.SETTINGS, *rates.CONTROLS], ids=lambda setting: setting.name)
def test_networks_are_those_of_modules_and_the_optimiser_of_torch(setting):
    depth, count, networks = 3, 2, 2
    stream = torch.Generator().manual_seed(0)
    heads, probes = setting.begin(depth, count, networks, stream), trained.drawn((2,), stream)
    x, targets = trained.tokens_and_targets(5)
    outputs, gradients, _ = setting.train(heads, probes, x, targets)
    share = 1 / (depth**setting.scale * count)
    for network in range(networks):
        model = Transformer({name: each[:, network] for name, each in heads.items()}, share)
        optimiser = torch.optim.AdamW(
            model.parameters(),
            lr=setting.rate * depth ** (setting.scale - 1),
            eps=setting.eps * share,
            weight_decay=trained.DECAY,
            betas=trained.BETAS,
        )
        tokens = x.clone().requires_grad_()
        for step in range(setting.steps + 1):
            optimiser.zero_grad()
            tokens.grad = None
            loss = (model(tokens) - targets).square().sum(dim=(1, 2)).mean() / 2
            loss.backward()
            if step < setting.steps:
                optimiser.step()
        torch.testing.assert_close(outputs[network], model(tokens).detach().flatten(), rtol=0, atol=1e-10)
        torch.testing.assert_close(gradients[network], tokens.grad.flatten(), rtol=0, atol=1e-10)


def test_a_probe_moves_as_the_same_head_would_that_belongs_to_the_network():
    """In a network of very many heads per layer, one head more changes nothing."""
    stream = torch.Generator().manual_seed(1)
    heads = rates.SMOOTH.begin(2, 400, 1, stream)
    probes = trained.drawn((1,), stream)
    joined = {name: each.clone() for name, each in heads.items()}
    for name, each in probes.items():
        joined[name][1, 0, 0] = each[0]
    x, targets = trained.tokens_and_targets(6)
    _, _, alone = rates.SMOOTH.train(heads, probes, x, targets)
    _, _, inside = rates.SMOOTH.train(joined, probes, x, targets)
    assert float(alone.abs().max()) > 0.1
    torch.testing.assert_close(alone, inside, rtol=0, atol=0.01)


@pytest.mark.statistical
@pytest.mark.parametrize("cell", [(2, 1), (8, 3)])
def test_the_spread_before_training_has_its_closed_form(cell):
    measured = trained.Transformers(rates.UNIFORM, (cell,), 4096, 3)
    values = trained.squares(dl.measure(measured)[0].outputs)
    low, high = Mean.of(values).interval(1 - LEVEL)
    known = rates.known_variance(trained.tokens_and_targets(3)[0].numpy(), *cell)
    assert low <= known <= high
    assert not low <= 1.2 * known <= high


def test_the_closed_form_is_that_of_one_layer_and_one_head():
    x = trained.tokens_and_targets(4)[0].numpy()
    assert rates.known_variance(x, 1, 1) == pytest.approx(float((x.mean(axis=1) ** 2).mean()))


def planted(gamma, eta, generator, repeats=64):
    """Squares of a Gaussian fluctuation with five coordinates, as networks of each cell would have them."""
    sizes = np.array([depth**-gamma * heads**-eta for depth, heads in CELLS])
    noise = generator.standard_normal((len(CELLS), repeats, 5))
    return np.array([trained.squares(each) for each in sizes[:, None, None] * noise])


@pytest.mark.statistical
@pytest.mark.parametrize("powers", [(0.5, 0.5), (1 / 3, 0.5)])
def test_intervals_of_the_fluctuation_cover_as_often_as_they_say(powers):
    count, held = 2000, np.zeros(2, dtype=int)
    generator = np.random.default_rng(0)
    for _ in range(count):
        found = rates.Power.of(CELLS, planted(*powers, generator))
        for place, (mean, power) in enumerate(zip((found.depth, found.heads), powers, strict=True)):
            low, high = mean.interval()
            held[place] += low <= power <= high
    for each in held:  # 95 % within the chance that LEVEL allows, and no more than 1 % besides
        assert stats.binomtest(int(each), count, 0.94, alternative="less").pvalue > LEVEL
        assert stats.binomtest(int(each), count, 0.96, alternative="greater").pvalue > LEVEL


def means(order, generator, repeats=128, by_heads=0.2):
    """Samples whose means have a bias of this order and one of 1/(LH), with dependent coordinates."""
    size = 6
    mixing = np.eye(size) + 0.5
    first, second = np.random.default_rng(1).standard_normal((2, size))
    samples = []
    for depth, heads in CELLS:
        noise = generator.standard_normal((repeats, size)) @ mixing / math.sqrt(depth * heads)
        samples.append(2.0 + first / depth**order + by_heads * second / (depth * heads) + 0.2 * noise)
    return samples


@pytest.mark.nightly
@pytest.mark.statistical
@pytest.mark.parametrize("order", [0.5, 1.0])
def test_intervals_of_the_bias_cover_as_often_as_they_say(order):
    count, held = 400, 0
    generator = np.random.default_rng(2)
    for _ in range(count):
        low, high = rates.Bias.of(CELLS, means(order, generator)).interval
        held += low <= order <= high
    assert stats.binomtest(held, count, 0.94, alternative="less").pvalue > LEVEL
    assert stats.binomtest(held, count, 0.96, alternative="greater").pvalue > LEVEL


@pytest.mark.statistical
def test_the_bias_tells_orders_apart_and_sees_the_term_with_the_heads():
    half, one = (rates.Bias.of(CELLS, means(order, np.random.default_rng(3), 2048)) for order in (0.5, 1.0))
    assert half.sure[1] < 1.0
    assert one.sure[0] > 0.5
    assert one.seen < LEVEL
    assert rates.Bias.of(CELLS, means(1.0, np.random.default_rng(3), 2048, by_heads=0.0)).seen > LEVEL
    assert min(half.misfit, one.misfit) > LEVEL


def test_a_spread_as_large_as_the_bound_or_too_large_a_bias_fails():
    generator = np.random.default_rng(4)
    right, large = (rates.Bias.of(CELLS, means(order, generator, 2048)) for order in (1.0, 0.5))
    judged = {}
    for name, gamma, bias in (("half", 0.5, right), ("third", 1 / 3, right), ("large bias", 0.5, large)):
        power = rates.Power.of(CELLS, planted(gamma, 0.5, generator, 512))
        powers = dict.fromkeys(("outputs", "gradients", "weights"), power)
        judged[name] = [check.passed for check in rates._judged(rates.SMOOTH, powers, bias)]
    assert judged == {
        "half": [True] * 5,
        "third": [False, False, False, True, False],
        "large bias": [True] * 3 + [False, True],
    }
