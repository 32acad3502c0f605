"""Processes over depth are told apart by likelihood, and the smoother is the best linear predictor."""

import math

import numpy as np
import pytest
import torch
from scipy import linalg, stats

from deeplimit.driving.fractional import noise_covariance
from deeplimit.trained.diagnosis.layer_gram import LayerGram
from deeplimit.trained.diagnosis.smoother import Model, compare_models, denoised, kernel, trend_matrix
from deeplimit.trained.diagnosis.stacks import Stack


def drawn(covariance: np.ndarray, entries: int, seed: int, groups: tuple[int, ...] = ()) -> LayerGram:
    values, vectors = np.linalg.eigh(covariance)
    normal = np.random.default_rng(seed).standard_normal((len(covariance), entries))
    layers = vectors * np.sqrt(np.maximum(values, 0)) @ normal
    return LayerGram(layers @ layers.T / entries, entries, groups)


def fractional(hurst: float, depth: int) -> np.ndarray:
    return linalg.toeplitz(noise_covariance(hurst, np.arange(depth)))


@pytest.mark.parametrize(
    ("name", "covariance"),
    [
        ("independent", np.eye(24)),
        ("smooth", 0.7 * kernel("smooth", 24, 6.0) + 0.3 * np.eye(24)),
        ("matern", 0.7 * kernel("matern", 24, 8.0) + 0.3 * np.eye(24)),
        ("rough", 0.8 * kernel("rough", 24, 4.0) + 0.2 * np.eye(24)),
        ("fractional", fractional(0.8, 24)),
        ("fractional", fractional(0.2, 24)),
    ],
)
def test_the_process_that_made_the_layers_is_found(name: str, covariance: np.ndarray) -> None:
    found = compare_models(drawn(covariance + 0.5, 4096, 1))  # 0.5: a part that all layers share
    assert found.models[0].name == name
    assert found.excess[0] == 0.0
    assert found.excess == tuple(sorted(found.excess))
    if name in ("smooth", "matern"):
        assert found.smoother_by > 50
    if name in ("rough", "fractional"):
        assert found.smoother_by < -50


def test_parameters_are_those_that_made_the_layers() -> None:
    best = compare_models(drawn(0.7 * kernel("smooth", 24, 6.0) + 0.3 * np.eye(24), 4096, 2)).models[0]
    assert best.noise == pytest.approx(0.3, abs=0.02)
    assert best.length == pytest.approx(6.0, abs=0.3)
    rough = compare_models(drawn(fractional(0.7, 24), 4096, 3)).models[0]
    assert rough.hurst == pytest.approx(0.7, abs=0.01)


def test_deviance_is_that_of_normal_contrasts() -> None:
    """Against scipy's density of differences of neighbours, scale at its maximum."""
    gram = drawn(0.6 * kernel("matern", 9, 3.0) + 0.4 * np.eye(9), 50, 4)
    differences = np.diff(np.eye(9), axis=0)

    def best(covariance: np.ndarray) -> float:
        inner = differences @ covariance @ differences.T
        products = differences @ gram.products @ differences.T
        scale = np.trace(np.linalg.solve(inner, products)) / 8
        law = stats.multivariate_normal(cov=scale * inner)
        # The mean log density over entries, from products: the quadratic form has mean 8.
        return -2 * float(law.logpdf(np.zeros(8))) + 8

    plain = best(np.eye(9))
    for model in compare_models(gram).models:
        assert model.deviance == pytest.approx(best(model.covariance((0,) * 9)) - plain, abs=1e-6)


def test_groups_are_no_process() -> None:
    """Layers of two kinds: alike within a kind, no trend once kinds are known."""
    kinds = np.kron(np.eye(2), np.ones((8, 8))) + np.eye(16)
    gram = drawn(kinds, 2000, 5, (0,) * 8 + (1,) * 8)
    assert compare_models(gram).models[0].name == "independent"
    free = compare_models(LayerGram(gram.products, gram.entries))  # the control
    assert free.models[0].name != "independent"


def test_dependent_entries_are_counted_once() -> None:
    """Every entry four times over: the same processes, with the evidence of a quarter of the entries."""
    gram = drawn(fractional(0.7, 12), 500, 6)
    once, four = compare_models(gram), compare_models(LayerGram(gram.products, 2000))
    assert four.effective_entries == pytest.approx(once.effective_entries, rel=0.35)
    assert four.effective_entries < 800


def test_three_layers_beside_the_means_of_groups_are_enough_and_two_are_not() -> None:
    assert compare_models(drawn(np.eye(4), 400, 8)).models[0].name == "independent"
    with pytest.raises(ValueError, match="3 layers"):
        compare_models(drawn(np.eye(3), 400, 8))


@pytest.mark.parametrize("size", [0.0, 1.0, 1e6])
@pytest.mark.parametrize("depth", [4, 8, 24, 200])
def test_layers_that_are_all_equal_have_no_models(size: float, depth: int) -> None:
    """Sums of equal products leave round-off of either sign, which is no difference."""
    with pytest.raises(ValueError, match="layers"):
        compare_models(LayerGram(np.full((depth, depth), size), 100))


def test_long_stacks_are_read_in_blocks() -> None:
    found = compare_models(drawn(fractional(0.7, 400), 60, 7))
    assert found.models[0].name == "fractional"
    assert found.models[0].hurst == pytest.approx(0.7, abs=0.02)


def test_the_trend_is_the_best_linear_predictor() -> None:
    """Against the conditional mean of trend given layers, with a prior for the mean that is nearly flat."""
    model = Model("smooth", 0.3, 4.0, None, 0.0, 2)
    trend = 0.7 * kernel("smooth", 10, 4.0) + 1e6
    expected = trend @ np.linalg.inv(trend + 0.3 * np.eye(10))
    np.testing.assert_allclose(trend_matrix(model, (), 10), expected, atol=1e-5)


def test_sizes_of_layers_stay_and_their_directions_are_smoothed() -> None:
    """Layers that are one direction in growing sizes are their own trend."""
    direction = torch.randn(6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    layers = Stack("A", torch.linspace(1, 9, 12, dtype=torch.float64)[:, None] * direction)
    found = denoised(layers, Model("smooth", 0.5, 4.0, None, 0.0, 2))
    torch.testing.assert_close(found.values, layers.values)
    layers.values[3] = 0.0
    assert not denoised(layers, Model("smooth", 0.5, 4.0, None, 0.0, 2)).values[3].any()


def test_groups_are_smoothed_apart() -> None:
    model = Model("matern", 0.3, 4.0, None, 0.0, 2)
    matrix = trend_matrix(model, (0, 1) * 5, 10)
    np.testing.assert_allclose(matrix[0::2, 1::2], 0.0, atol=1e-12)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-12)  # means stay


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_denoised_layers_are_closer_to_the_trend_that_made_them(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    times = torch.linspace(0, 3, 24)[:, None, None]
    trend = torch.cos(times) * torch.randn(8, 9, generator=generator)
    layers = Stack("A", (trend + 0.5 * torch.randn(24, 8, 9, generator=generator)).to(dtype))
    model = compare_models(LayerGram.of(layers)).trend
    found = denoised(layers, model)
    assert found.values.dtype == dtype
    assert found.values.shape == (24, 8, 9)
    left = (found.values.float() - trend).square().mean()
    assert left < 0.25 * 0.4  # a quarter is the noise; four numbers of 24 per entry remain of it at most
    rest = layers.values - found.values
    assert rest.float().square().mean() == pytest.approx(0.25, rel=0.35)


def test_kernels_fall_to_known_values() -> None:
    assert kernel("smooth", 3, 1.0)[0, 2] == pytest.approx(math.exp(-2))
    assert kernel("matern", 2, 1.0)[0, 1] == pytest.approx((1 + math.sqrt(3)) * math.exp(-math.sqrt(3)))
