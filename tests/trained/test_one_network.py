"""Statistics of one network's layers together: the verdict, and what must not mislead it."""

import numpy as np
import pytest
import torch

import deeplimit as dl
from deeplimit.driving.fractional import noise_covariance
from deeplimit.trained.diagnosis.layer_gram import LayerGram, copied_groups
from deeplimit.trained.diagnosis.one_network import LayerStatistics
from deeplimit.trained.diagnosis.smoother import kernel
from deeplimit.trained.diagnosis.stacks import Stack


def statistics(layers: np.ndarray, groups: tuple[int, ...] = (), seed: int = 0) -> LayerStatistics:
    return LayerStatistics.of(Stack("A", torch.from_numpy(layers), groups), seed)


def drawn(covariance: np.ndarray, entries: int = 2000, seed: int = 3) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariance)
    normal = np.random.default_rng(seed).standard_normal((len(covariance), entries))
    # The symmetric root: eigenvectors by themselves differ in sign and order from machine to machine.
    layers: np.ndarray = (vectors * np.sqrt(np.maximum(values, 0))) @ (vectors.T @ normal)
    return layers


def fractional(hurst: float, depth: int) -> np.ndarray:
    lags = np.abs(np.subtract.outer(np.arange(depth), np.arange(depth)))
    return noise_covariance(hurst, lags)


@pytest.mark.parametrize(
    ("word", "covariance"),
    [
        ("independent", np.eye(24)),
        ("common trend", np.eye(24) + 0.5),
        ("smooth trend", 0.7 * kernel("smooth", 24, 6.0) + 0.3 * np.eye(24)),
        ("smooth trend", 0.5 + 0.7 * kernel("smooth", 24, 6.0) + 0.3 * np.eye(24)),
        ("rough", fractional(0.8, 24)),
        ("rough", fractional(0.2, 24)),
    ],
)
def test_the_verdict_is_what_made_the_layers(word: str, covariance: np.ndarray) -> None:
    found = statistics(drawn(covariance))
    assert found.verdict.code == word
    assert (found.name, found.depth, found.entries) == ("A", 24, 2000)


def test_few_entries_with_a_steep_spectrum_cannot_tell() -> None:
    spectrum = np.arange(1, 65) ** -2.0
    found = statistics(drawn(kernel("smooth", 12, 8.0) * 0.15 + 0.85 * np.eye(12), 64) * spectrum)
    assert found.verdict.code == "cannot tell"
    assert found.about_mean.effective_entries < 5


def test_a_scrambled_basis_of_the_stream_changes_nothing() -> None:
    """One rotation of the entries for all layers is the same network."""
    layers = drawn(fractional(0.7, 16), 100)
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((100, 100)))[0]
    first, second = statistics(layers), statistics(layers @ turn)
    assert second.verdict == first.verdict
    assert second.order == first.order or second.order.p_value == pytest.approx(first.order.p_value)
    assert second.roughness.hurst == pytest.approx(first.roughness.hurst, abs=1e-5)
    assert second.noise.noise == pytest.approx(first.noise.noise, rel=1e-9)


@pytest.mark.parametrize("index", [0.2, 0.8])
def test_sizes_of_layers_change_nothing_but_themselves(index: float) -> None:
    layers = drawn(fractional(index, 24))
    sizes = np.geomspace(1.0, 5.0, 24)
    first, second = statistics(layers), statistics(layers * sizes[:, None])
    assert second.equal_sizes
    assert second.verdict.code == first.verdict.code == "rough"
    assert second.roughness.interval == pytest.approx(first.roughness.interval, abs=1e-4)
    np.testing.assert_allclose(second.sizes, first.sizes * sizes, rtol=1e-6)


def test_confidence_widens_intervals_and_leaves_the_verdict() -> None:
    stack = Stack("A", torch.randn(16, 300, generator=torch.Generator().manual_seed(2)))
    first, second = LayerStatistics.of(stack), LayerStatistics.of(stack, confidence=0.999)
    assert second.verdict == first.verdict
    for name in ("roughness", "about_mean"):
        inner, outer = getattr(first, name).interval, getattr(second, name).interval
        assert outer[0] < inner[0]
        assert inner[1] < outer[1]
    assert first.noise.noise_interval is not None
    assert second.noise.noise_interval is not None
    assert second.noise.noise_interval[0] < first.noise.noise_interval[0]


def test_one_entry_keeps_its_sizes() -> None:
    """Cosines of numbers are signs."""
    found = statistics(drawn(np.eye(16), 1))
    assert not found.equal_sizes
    assert found.verdict.code == "cannot tell"


def test_nearly_equal_layers_of_a_stage_are_copies_and_not_smooth() -> None:
    """What reads as H = 0.96 and a trend share of 1: gradients that come through the skip connection."""
    generator = np.random.default_rng(4)
    stages = np.repeat(generator.standard_normal((2, 256)), 8, axis=0)
    drift = 0.02 * np.cumsum(generator.standard_normal((16, 256)), axis=0)
    found = statistics(stages + drift, (0,) * 8 + (1,) * 8)
    assert found.roughness.hurst > 0.9
    assert found.noise.trend > 0.99
    assert found.verdict.code == "copies"


@pytest.mark.parametrize("order", ["alternating", "stages"])
def test_layers_that_come_in_kinds_are_no_trend(order: str) -> None:
    kinds = np.arange(24) % 2 if order == "alternating" else np.arange(24) // 12
    layers = np.random.default_rng(5).standard_normal((2, 900))[kinds] + drawn(np.eye(24), 900)
    assert statistics(layers, tuple(kinds.tolist())).verdict.code == "common trend"
    control = statistics(layers)
    assert control.order.p_value < 0.001  # without groups their order is real
    if order == "alternating":
        assert control.verdict.code == "cannot tell"


@pytest.mark.parametrize(("period", "depth"), [(2, 21), (2, 24), (3, 24), (4, 24)])
def test_layers_of_several_kinds_in_turn_are_not_rough(period: int, depth: int) -> None:
    kinds = np.arange(depth) % period
    made = np.random.default_rng(5).standard_normal((period, 900))
    # Without a mean that is common to all kinds neighbours are less alike than others.
    layers = (made - made.mean(0))[kinds] + 0.5 * drawn(np.eye(depth), 900)
    found = statistics(layers)
    assert (found.verdict.code, found.verdict.rule) == ("cannot tell", "layers_alternate")
    assert statistics(layers, tuple(kinds.tolist())).verdict.code == "common trend"
    rough = statistics(drawn(fractional(0.2, 24), 900))
    assert (rough.verdict.code, rough.verdict.rule) == ("rough", "neighbours_differ")


def test_where_kernels_fit_equally_nothing_is_said() -> None:
    """Twelve layers of 60 entries: real order, but smooth and rough fit alike."""
    found = statistics(drawn(fractional(0.8, 12), 60))
    assert found.correlation.code == "decaying"
    assert found.verdict.code == "cannot tell"
    assert abs(found.models.smoother_by) < 10


@pytest.mark.parametrize("again", [lambda a: a.repeat(2, 1, 1), lambda a: a.repeat_interleave(2, 0)])
@pytest.mark.parametrize("noise", [0.01, 0.2])
def test_layers_that_come_in_copies_are_neither_independent_nor_smooth(again, noise):
    """A stack that was deepened by its own layers, as a whole or one by one."""
    stream = torch.Generator().manual_seed(5)
    made = again(torch.randn(12, 6, 6, generator=stream))
    report = dl.diagnose({"A": made + noise * torch.randn(made.shape, generator=stream)})
    (found,) = report.objects
    assert found.verdict == "cannot tell"
    assert "0 and 1" in found.reason  # 0 and 12, or 0 and 1
    assert "independent" not in report.headline


def test_independent_layers_of_two_entries_are_no_twins_though_some_meet():
    """Of 300 stacks of 8 layers about 9 fall into groups by chance."""
    random, met = np.random.default_rng(0), 0
    for _ in range(300):
        stack = Stack("A", torch.from_numpy(random.standard_normal((8, 2))))
        if copied_groups(LayerGram.of(stack)):
            met += 1
            assert LayerStatistics.of(stack).verdict.rule != "layers_have_twins"
    assert met > 2


@pytest.mark.parametrize("length", [8, 12, 40])
def test_neighbours_of_a_smooth_trend_are_no_twins(length):
    times = torch.linspace(0, 1, length, dtype=torch.float64)[:, None, None]
    stream = torch.Generator().manual_seed(6)
    start, end = torch.randn(2, 6, 6, generator=stream, dtype=torch.float64)
    smooth = torch.cos(1.5 * times) * start + torch.sin(1.5 * times) * end
    assert copied_groups(LayerGram.of(Stack("A", smooth))) == []


def moving_average(weights, depth, seed):
    """Layers that are means of the independent ones around them."""
    drawn = torch.randn(depth + len(weights) - 1, 8, 8, generator=torch.Generator().manual_seed(seed))
    return sum(weight * drawn[place : place + depth] for place, weight in enumerate(weights))


@pytest.mark.parametrize("weights", [(1, 1), (1, 1, 1), (1, 0.6, 0.3)])
@pytest.mark.parametrize("depth", [12, 24, 48])
def test_layers_that_remember_few_others_are_no_smooth_trend(weights, depth):
    """Each was "a smooth trend" in 50 of 50 networks; correlations are exactly 0 beyond two layers."""
    for seed in range(3):
        found = LayerStatistics.of(Stack("A", moving_average(weights, depth, seed)))
        assert found.verdict.code in ("rough", "cannot tell")
    if weights == (1, 1):
        assert found.verdict.code == "rough"


@pytest.mark.parametrize("seed", range(3))
def test_their_twin_is_a_smooth_trend_beside_noise_of_its_size(seed):
    generator = torch.Generator().manual_seed(seed)
    times = (torch.arange(24.0)[:, None, None] + 0.5) / 24
    trend = sum(torch.randn(8, 8, generator=generator) * torch.cos(k * torch.pi * times) for k in range(3))
    noise = torch.randn(24, 8, 8, generator=generator)
    assert LayerStatistics.of(Stack("A", trend + 0.5 * noise)).verdict.code == "smooth trend"


def test_a_null_of_another_depth_and_one_that_is_no_function_are_refused() -> None:
    with torch.random.fork_rng():
        trained, other = (
            torch.nn.Sequential(*(torch.nn.Linear(5, 5) for _ in range(depth))) for depth in (16, 12)
        )
    with pytest.raises(ValueError, match="null must make the network"):
        dl.diagnose(trained, null=lambda: other)
    with pytest.raises(TypeError, match="null must be a function"):
        dl.diagnose(trained, null=other)  # type: ignore[arg-type]
