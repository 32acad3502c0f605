"""Networks as users bring them to a sweep: hidden permutations change nothing, and size is no roughness."""

import copy
import math
import re

import numpy as np
import pytest
import torch
from torch import nn

import deeplimit as dl
from deeplimit.common.global_state import seeded
from deeplimit.driving.fractional import noise_covariance

DEPTHS = (8, 13, 21, 34, 55)
UNTOLD = {"no trend", "cannot tell"}


class Block(nn.Module):
    """h + s · outer(φ(inner(h))), both with biases and no norm."""

    def __init__(self, width, hidden, activation=torch.tanh):
        super().__init__()
        self.inner, self.outer = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.activation = activation

    def forward(self, h):
        return h + self.outer(self.activation(self.inner(h)))


def smooth(depth, width=5, hidden=9, beta=0.4, activation=torch.tanh):
    """Blocks whose weights turn slowly over depth, those that write of size L^-β."""
    stream = torch.Generator().manual_seed(3)
    with seeded(0):
        network = nn.Sequential(*(Block(width, hidden, activation) for _ in range(depth)))
    with torch.no_grad():
        for name, like in network[0].named_parameters():
            first, second = (torch.randn(like.shape, generator=stream) for _ in range(2))
            size = depth**-beta if name.startswith("outer") else 1.0
            for k, block in enumerate(network):
                turned = math.cos(1.7 * k / depth) * first + math.sin(1.7 * k / depth) * second
                block.get_parameter(name).copy_(size * turned)
    return network


def scrambled(network, seed, signs=True):
    """Return the same function with hidden units permuted and, for odd activations, their signs flipped."""
    stream, twin = torch.Generator().manual_seed(seed), copy.deepcopy(network)
    with torch.no_grad():
        for block in twin:
            order = torch.randperm(block.inner.out_features, generator=stream)
            flips = torch.randint(0, 2, (len(order),), generator=stream) * 2.0 - 1 if signs else 1.0
            for tensor in (block.inner.weight, block.inner.bias):
                tensor.copy_((tensor.movedim(0, -1) * flips).movedim(-1, 0)[order])
            block.outer.weight.copy_((block.outer.weight * flips)[:, order])
    return twin


def shown(report):
    """Everything that is printed, but for the lines with the seconds and the versions."""
    return [line for line in str(report).splitlines() if not re.search(r"\d s\b|torch \d", line)]


@pytest.mark.parametrize(
    ("width", "hidden", "activation"),
    [
        pytest.param(5, 9, torch.tanh, marks=pytest.mark.nightly),
        pytest.param(9, 5, torch.sin, marks=pytest.mark.nightly),
        (6, 6, torch.tanh),
        (7, 12, torch.relu),
    ],
)
def test_hidden_permutations_change_no_printed_digit_of_a_sweep(width, hidden, activation):
    networks = {L: smooth(L, width, hidden, activation=activation) for L in DEPTHS}
    signs = activation is not torch.relu
    twins = {L: scrambled(network, L, signs) for L, network in networks.items()}
    x = torch.randn(3, width, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(twins[8](x), networks[8](x), rtol=1e-3, atol=1e-3)
    first, second = dl.diagnose(networks), dl.diagnose(twins)
    assert first.verdict == "neural-ode"  # what tanh gets keeps its size, so that no layer is linear
    assert first.beta == pytest.approx(0.4, abs=0.03)
    assert shown(first) == shown(second)


def test_another_function_changes_them():
    """The twin of the twin test: rows of the inner weights alone are permuted, which is another network."""
    networks = {L: smooth(L) for L in (8, 12)}
    others = {L: scrambled(network, L) for L, network in networks.items()}
    for L, network in others.items():
        for mine, other in zip(networks[L], network, strict=True):
            other.outer.load_state_dict(mine.outer.state_dict())
    assert shown(dl.diagnose(networks)) != shown(dl.diagnose(others))


@pytest.mark.parametrize("size", [0.0, 0.5, 1.0])
def test_independent_layers_of_any_size_have_hurst_one_half(size):
    rng = np.random.default_rng(11)
    weights = {L: {"A": rng.normal(size=(L, 7, 7)) * L**-size} for L in (10, 20, 40, 80, 160)}
    report = dl.diagnose(weights)
    assert report.verdict == "no trend"
    low, high = report.hurst_interval
    assert 0.4 < low < 0.5 < high < 0.6
    rms = report.norms["A"]["root mean square"]
    assert rms.interval[0] < -size < rms.interval[1]


@pytest.mark.parametrize("size", [0.0, 0.5])
def test_networks_of_one_seed_share_draws_and_no_trend(size):
    """With this seed the common first layers alone would pass as a trend."""
    weights = {
        L: {"A": np.random.default_rng(3).normal(size=(L, 9, 9)) * L**-size} for L in (8, 16, 32, 64, 128)
    }
    report = dl.diagnose(weights)
    assert report.verdict in ("no trend", "cannot tell")
    assert sum("seed" in text for text in report.reservations) == 1
    rng = np.random.default_rng(3)
    apart = {L: {"A": rng.normal(size=(L, 9, 9)) * L**-size} for L in weights}
    assert not any("seed" in text for text in dl.diagnose(apart).reservations)


def test_fractional_noise_keeps_its_hurst_index_whatever_its_size():
    """The wrong twin: dependent layers of size 1 are not called independent."""
    rng = np.random.default_rng(12)
    weights = {}
    for L in (16, 32, 64, 128):
        lags = np.abs(np.subtract.outer(np.arange(L), np.arange(L)))
        cov = 0.5 * ((lags + 1.0) ** 1.6 + np.abs(lags - 1.0) ** 1.6 - 2 * lags**1.6)
        weights[L] = {"A": (np.linalg.cholesky(cov) @ rng.normal(size=(L, 81))).reshape(L, 9, 9)}
    report = dl.diagnose(weights)
    assert (report.verdict, report.rule) == ("no trend", "is_noise_that_changes")
    assert report.hurst == pytest.approx(0.8, abs=0.03)


def test_untrained_linear_layers_are_independent():
    with seeded(5):
        networks = {L: nn.Sequential(*(nn.Linear(9, 9) for _ in range(L))) for L in DEPTHS}
    report = dl.diagnose(networks)
    assert report.verdict in ("no trend", "cannot tell")
    assert np.isnan(report.hurst) or report.hurst == pytest.approx(0.5, abs=0.1)


def test_the_slope_of_d4_in_the_table_is_the_one_that_the_reason_rests_on():
    random, trend = np.random.default_rng(0), np.linspace(-1, 1, 64).reshape(8, 8)
    weights = {
        depth: [
            dict(
                A=trend * np.linspace(0, 1, depth)[:, None, None] + random.standard_normal((depth, 8, 8)) / 2
            )
            for _ in range(3)
        ]
        for depth in (8, 16, 32)
    }
    report = dl.diagnose(weights, confidence=0.99)
    d4 = report.finding.norms["D4"]
    assert (report.rule, report.verdict) == ("grows_rough", "cannot tell")
    assert [f"{number:.2f}" in report.reason for number in (d4.slope, *d4.interval)] == [True] * 3


def turning(rng, depth, size):
    """Layers of a smooth trend that is this network's own."""
    times = np.arange(depth)[:, None, None] / depth
    waves = rng.normal(size=(3, 10, 10)) / np.sqrt(10)
    return {"A": size * sum(wave * np.cos(np.pi * k * times) for k, wave in enumerate(waves))}


@pytest.mark.parametrize(("beta", "word"), [(0.0, "neural-ode"), (0.3, "linear-ode")])
def test_two_seeds_tell_whether_trends_of_their_own_keep_their_size(beta, word):
    """Sizes scatter by 4 %: the interval of 99 % is within 0.1 in nearly half of all sweeps."""
    said = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        sweep = {L: [turning(rng, L, L**-beta) for _ in range(2)] for L in (16, 32, 64, 128, 256)}
        said.append(dl.diagnose(sweep).verdict)
    assert set(said) <= {word, "cannot tell"}
    assert said.count(word) >= 2


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(("size", "words"), [(1.0, {"linear-ode"}), (0.0, UNTOLD)])
def test_a_trend_outlives_noise_that_vanishes_with_it(size, own, words):
    """Both of size 1/L: neighbours differ by a fixed share of a layer, and no quadratic variation is left."""
    rng = np.random.default_rng(5)
    one = rng.normal(size=(8, 8))
    sweep = {}
    for depth in (16, 32, 64, 128, 256):
        times = np.arange(depth)[:, None, None] / depth
        shapes = [rng.normal(size=(8, 8)) if own else one for _ in range(2)]
        sweep[depth] = [
            {"A": (size * np.cos(3 * times) * each + 0.1 * rng.normal(size=(depth, 8, 8))) / depth}
            for each in shapes
        ]
    assert dl.diagnose(sweep).verdict in words


def fractional_layers(depth, hurst, width, seed):
    """Fractional noise over the layers, of size depth^-1/2 whatever its Hurst index."""
    covariance = noise_covariance(hurst, np.abs(np.subtract.outer(np.arange(depth), np.arange(depth))))
    root = torch.from_numpy(np.linalg.cholesky(covariance))
    stream = torch.Generator().manual_seed(seed)
    drawn = torch.randn(depth, width, width, generator=stream, dtype=torch.float64)
    return depth**-0.5 * torch.einsum("ij,jab->iab", root, drawn)


@pytest.mark.parametrize("seed", [1, 3, 6, 9])
def test_memory_of_noise_is_no_trend_of_each_network_at_whatever_size(seed):
    """Of these seeds each was an SDE with trends of its own."""
    depths = (8, 16, 32, 64, 96)
    weights = {d: {"A": fractional_layers(d, 0.7, 10, 1000 * seed + d)} for d in depths}
    assert dl.diagnose(weights).verdict == "cannot tell"
