"""Noise and trend shares: known shares whatever the kernel, lengths, and intervals that cover."""

import math

import numpy as np
import pytest
import torch

from deeplimit.trained.diagnosis.layer_gram import LayerGram
from deeplimit.trained.diagnosis.nugget import difference_rows, noise_share


def kernel(name: str, depth: int, length: float) -> np.ndarray:
    lag = np.abs(np.subtract.outer(np.arange(depth), np.arange(depth))) / length
    if name == "matern":
        return (1 + math.sqrt(3) * lag) * np.exp(-math.sqrt(3) * lag)
    return np.exp(-(lag**2) / 2) if name == "smooth" else np.ones((depth, depth))


def draw(
    name: str, depth: int, length: float, share: float, decay: float, width: int, seed: int
) -> tuple[LayerGram, float]:
    """Products of layers of trend and noise, and the noise's share of what this network has of both."""
    generator = np.random.default_rng(seed)
    spectrum = np.arange(1, width + 1) ** -decay
    values, vectors = np.linalg.eigh(kernel(name, depth, length))
    sizes = np.sqrt(np.outer(spectrum, spectrum).ravel())
    sizes /= np.sqrt(np.square(sizes).mean())
    root = vectors * np.sqrt(np.maximum(values, 0))
    trend = root @ generator.standard_normal((depth, width**2)) * sizes
    noise = generator.standard_normal((depth, width**2)) * sizes
    layers = math.sqrt(1 - share) * trend + math.sqrt(share) * noise
    true = share / (share + (1 - share) * np.square(trend).mean())
    return LayerGram(layers @ layers.T / width**2, width**2), true


@pytest.mark.parametrize("depth", [12, 48])
@pytest.mark.parametrize("name", ["smooth", "matern", "constant"])
def test_a_fifth_of_noise_reads_as_a_fifth_whatever_the_kernel(name: str, depth: int) -> None:
    """Exact products; a Matérn-3/2 trend leaves 4/9 (√3/ℓ)³ of its share in second differences."""
    products = 0.8 * kernel(name, depth, 8.0) + 0.2 * np.eye(depth)
    found = noise_share(LayerGram(3.0 * products, 1024))
    assert found.noise == pytest.approx(0.2, abs=0.01)
    assert found.noise_interval is not None
    assert found.noise_interval[0] <= 0.2 <= found.noise_interval[1]


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "depth", "width", "decay", "share"),
    [
        ("smooth", 12, 32, 1.0, 0.2),
        ("constant", 24, 16, 1.0, 0.5),
        ("smooth", 12, 1, 0.0, 0.5),
    ],
)
def test_intervals_cover_the_share_of_each_network(
    name: str, depth: int, width: int, decay: float, share: float
) -> None:
    """At least 86 of 100, but with probability 1e-4 where 95 % are covered."""
    covered = 0
    for seed in range(100):
        gram, true = draw(name, depth, depth / 3, share, decay / 2, width, seed)
        interval = noise_share(gram).noise_interval
        assert interval is not None
        covered += interval[0] <= true <= interval[1]
    assert covered >= 86


def test_shares_do_not_depend_on_sizes_where_these_are_taken_away() -> None:
    gram, true = draw("smooth", 24, 8.0, 0.2, 0.0, 32, 3)
    sizes = np.geomspace(1.0, 4.0, 24)
    scaled = LayerGram(gram.products * sizes * sizes[:, None], gram.entries)
    found, same = (noise_share(one, equal_sizes=True) for one in (scaled, gram))
    assert found.noise == pytest.approx(same.noise, rel=1e-9)
    assert found.noise == pytest.approx(true, abs=0.015)
    assert 700 < found.effective_entries <= 1024
    assert noise_share(scaled).effective_entries < 300  # the control


def test_length_is_that_of_a_wave() -> None:
    """sin(2πt/p) and cos change by 2π/p of their size per layer."""
    times = 2 * np.pi * np.arange(60) / 40
    products = np.cos(np.subtract.outer(times, times)) + 0.3 * np.eye(60)
    found = noise_share(LayerGram(products, 10_000))
    assert found.length == pytest.approx(40 / (2 * np.pi), rel=0.01)
    assert found.length_interval is not None
    assert found.length_interval[0] < 40 / (2 * np.pi) < found.length_interval[1]
    assert found.trend == pytest.approx(1 / 1.3, abs=0.001)


def test_independent_layers_have_no_length() -> None:
    layers = np.random.default_rng(3).standard_normal((12, 500))
    found = noise_share(LayerGram(layers @ layers.T / 500, 500))
    assert found.noise_interval is not None
    assert found.noise_interval[1] == 1.0
    assert found.length_interval is None
    assert "no trend" in found.withheld


def test_a_common_part_has_a_length_without_end() -> None:
    found = noise_share(LayerGram(0.5 * np.ones((24, 24)) + 0.5 * np.eye(24), 4096))
    assert found.length_interval is not None
    assert found.length_interval[1] == math.inf
    assert found.length_interval[0] > 3


def test_differences_stay_within_groups() -> None:
    """Groups that alternate and differ by far: without groups all of that reads as noise."""
    level = np.tile([5.0, -5.0], 12)
    products = np.outer(level, level) + np.eye(24)
    assert noise_share(LayerGram(products, 500)).noise > 2
    assert noise_share(LayerGram(products, 500, (0, 1) * 12)).noise == pytest.approx(1 / 26, rel=1e-9)
    rows = difference_rows((0, 1, 0, 1, 0), 5, 2).toarray()
    np.testing.assert_array_equal(rows, [[1, 0, -2, 0, 1]])


def test_short_groups_leave_the_lower_end_open() -> None:
    """Three layers per group have no fourth differences, which would tell a curved trend from noise."""
    layers = torch.randn(12, 400, generator=torch.Generator().manual_seed(1)).double().numpy()
    gram = LayerGram(layers @ layers.T / 400, 400, (0,) * 3 + (1,) * 3 + (2,) * 3 + (3,) * 3)
    found = noise_share(gram)
    assert found.noise_interval is not None
    assert found.noise_interval[0] == 0.0


def test_what_cannot_be_measured_is_withheld() -> None:
    found = noise_share(LayerGram(np.eye(4), 50))
    assert found.noise == pytest.approx(1.0)
    assert found.noise_interval is None
    assert "2 second differences" in found.withheld
