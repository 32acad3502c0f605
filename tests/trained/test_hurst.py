"""Roughness of layers: known indices, coverage with dependent entries, and a second route."""

import numpy as np
import pytest
import torch
from scipy import linalg, stats

from deeplimit.driving.fractional import noise_covariance
from deeplimit.trained.diagnosis import hurst as module, sweep
from deeplimit.trained.diagnosis.hurst import roughness
from deeplimit.trained.diagnosis.layer_gram import LayerGram
from deeplimit.trained.diagnosis.measured import MeasuredWeight
from deeplimit.trained.diagnosis.slopes import Slope
from deeplimit.trained.diagnosis.stacks import Stack


def covariance(hurst: float, depth: int) -> np.ndarray:
    return linalg.toeplitz(noise_covariance(hurst, np.arange(depth)))


def gram_of(layers: np.ndarray) -> LayerGram:
    return LayerGram(layers @ layers.T / layers.shape[1], layers.shape[1])


def fractional(hurst: float, depth: int, width: int, decay: float, seed: int) -> np.ndarray:
    """Layers (L, d²) of fractional noise whose rows and columns have the variances j^-decay."""
    spectrum = np.arange(1, width + 1) ** (-decay / 2)
    drawn = np.random.default_rng(seed).standard_normal((depth, width, width))
    drawn *= spectrum * spectrum[:, None]
    return np.linalg.cholesky(covariance(hurst, depth)) @ drawn.reshape(depth, -1)


@pytest.mark.parametrize("depth", [4, 12, 300])
@pytest.mark.parametrize("index", [0.1, 0.8])
def test_exact_products_of_fractional_noise_give_its_index(index: float, depth: int) -> None:
    found = roughness(LayerGram(7.0 * covariance(index, depth), 10_000))
    assert found.hurst == pytest.approx(index, abs=1e-4)
    assert found.variogram == pytest.approx(index, abs=1e-9)
    assert found.interval[0] <= index + 1e-4
    assert found.interval[1] >= index - 1e-4


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("repeats", "depth", "width", "decay", "index"),
    [
        (60, 8, 1, 0.0, 0.5),
        (60, 12, 64, 1.5, 0.8),
        pytest.param(150, 12, 32, 1.0, 0.5, marks=pytest.mark.nightly),
        pytest.param(20, 260, 4, 1.5, 0.8, marks=pytest.mark.nightly),
    ],
)
def test_intervals_cover_whatever_the_spectrum_of_entries(
    repeats: int, depth: int, width: int, decay: float, index: float
) -> None:
    covered = naive = 0
    for seed in range(repeats):
        found = roughness(gram_of(fractional(index, depth, width, decay, seed)))
        covered += found.interval[0] <= index <= found.interval[1]
        model = module._model(index, (0,) * min(depth, 128), 1, False)
        # Fisher's information of independent entries, ½ tr M² for each
        error = 1 / np.sqrt(width**2 * depth / len(model.score) * model.square / 2)
        naive += abs(found.hurst - index) < 1.96 * error
    assert covered >= stats.binom.ppf(1e-5, repeats, 0.95)
    if decay >= 1 and depth == 12:
        assert naive / repeats < 0.6  # the control: as if all entries were independent


@pytest.mark.statistical
@pytest.mark.parametrize("how", ["about_mean", "equal_sizes"])
def test_intervals_cover_without_means_or_sizes(how: str) -> None:
    """Whatever all layers share, and however their sizes differ."""
    covered, repeats = 0, 50
    for seed in range(repeats):
        layers = fractional(0.8, 12, 16, 1.0, seed)
        if how == "about_mean":
            layers += 4 * np.random.default_rng(1000 + seed).standard_normal(256)
        else:
            layers *= np.geomspace(1, 3, 12)[:, None]
        interval = roughness(gram_of(layers), **{how: True}).interval
        covered += interval[0] <= 0.8 <= interval[1]
    assert covered >= stats.binom.ppf(1e-5, repeats, 0.95)


def test_error_of_blocks_counts_what_they_share() -> None:
    """Against the variance of the sum of scores from the covariance of all layers."""
    depth, blocks, index = 24, 5, 0.8
    model = module._model(index, (0,) * depth, blocks, False)
    weights = linalg.block_diag(*[model.score] * blocks)
    product = weights @ covariance(index, depth * blocks)
    variance = 2 * np.trace(product @ product)
    alone = 2 * blocks * model.square
    assert model.across == pytest.approx(variance / alone, rel=1e-9)
    assert model.across > 1.1


@pytest.mark.parametrize("about_mean", [False, True])
def test_traces_are_those_of_whitened_layers(about_mean: bool) -> None:
    """Against layers that are whitened by a Cholesky factor."""
    gram = LayerGram(np.cov(fractional(0.7, 9, 4, 0.5, seed=3)), 16)
    blocks, labels = module._Blocks.of(gram, about_mean), (0,) * 9
    basis = module.contrasts(labels) if about_mean else np.eye(9)
    cut = linalg.cholesky(basis.T @ covariance(0.6, 9) @ basis, lower=True)
    slope = basis.T @ (covariance(0.60001, 9) - covariance(0.59999, 9)) @ basis / 2e-5
    products = basis.T @ gram.products @ basis / np.trace(gram.products)
    noise, white = (linalg.solve(cut, linalg.solve(cut, each).T) for each in (slope, products))
    noise -= np.trace(noise) / len(noise) * np.eye(len(noise))
    model = module._model(0.6, labels, 1, about_mean)
    assert model.square == pytest.approx(np.trace(noise @ noise), rel=1e-6)
    assert model.cube == pytest.approx(np.trace(noise @ noise @ noise), rel=1e-6)
    variance, third = module.rotations.moments(noise, white[None])
    deviation = np.trace(noise @ white) / variance**0.5
    expected = module.rotations.normal_score(deviation, third / variance**1.5)
    assert blocks.score(0.6) == pytest.approx(expected, rel=1e-6)


def test_score_is_the_slope_of_the_likelihood() -> None:
    layers = fractional(0.6, 10, 3, 0.0, seed=8)
    products = layers @ layers.T

    def likelihood(index: float) -> float:
        matrix = covariance(index, 10)
        fit = np.trace(np.linalg.solve(matrix, products))
        return -0.5 * (10 * np.log(fit) + np.linalg.slogdet(matrix)[1])

    model = module._model(0.7, (0,) * 10, 1, False)
    slope = 5 * (model.score * products).sum() / (model.inverse * products).sum()
    assert slope == pytest.approx((likelihood(0.7001) - likelihood(0.6999)) / 2e-4, rel=1e-5)


@pytest.mark.parametrize("groups", [(), (0, 1) * 20, (0,) * 13 + (1,) * 27])
def test_about_means_common_parts_and_groups_do_not_read_as_roughness(groups: tuple[int, ...]) -> None:
    generator = np.random.default_rng(7)
    labels = np.asarray(groups or (0,) * 40)
    layers = generator.standard_normal((40, 900)) + 3 * generator.standard_normal((2, 900))[labels]
    products = layers @ layers.T / 900
    assert roughness(LayerGram(products, 900)).interval[0] > 0.55  # the control
    found = roughness(LayerGram(products, 900, groups), about_mean=True)
    assert abs(found.hurst - 0.5) < 4.5 * 0.0045  # level 1e-5
    assert 0.003 < (found.interval[1] - found.interval[0]) / 4 < 0.006
    assert found.variogram is None


def test_kinds_in_turn_are_a_series_each() -> None:
    products = np.zeros((20, 20))
    products[0::2, 0::2] = products[1::2, 1::2] = covariance(0.7, 10)
    found = roughness(LayerGram(products, 500, (4, 2) * 10))
    assert found.hurst == pytest.approx(0.7, abs=1e-4)
    assert roughness(LayerGram(products, 500)).hurst < 0.65  # the control


def test_of_several_zeros_of_the_score_the_likeliest_is_taken() -> None:
    """One entry of four layers, a draw in 150 whose score falls through 0 twice."""
    generator = np.random.default_rng(45)
    layers = generator.standard_normal((4, 1)) * np.exp(generator.standard_normal((4, 1)))
    gram = LayerGram(layers @ layers.T, 1)
    blocks = module._Blocks.of(gram, False)
    grid = np.linspace(0.01, 0.99, 99)
    scores = np.array([blocks.score(hurst) for hurst in grid])
    assert scores[0] < 0 < scores.max()  # so that the likelihood falls from 0.01 on, and rises later
    likelihoods = [blocks.likelihood(hurst) for hurst in grid]
    found = roughness(gram)
    assert found.hurst == pytest.approx(grid[np.argmax(likelihoods)], abs=0.02)
    assert found.interval[0] == 0.0


@pytest.mark.parametrize("about_mean", [False, True])
def test_sizes_of_layers_can_be_taken_away(about_mean: bool) -> None:
    sizes = np.geomspace(1.0, 4.0, 24)
    exact = LayerGram(
        covariance(0.7, 24) * sizes * sizes[:, None], 10**9
    )  # of entries without end: no chance
    found = roughness(exact, about_mean=about_mean, equal_sizes=True)
    assert found.hurst == pytest.approx(0.7, abs=1e-4)
    layers = fractional(0.7, 24, 24, 0.0, seed=3) * sizes[:, None]
    counts = [
        roughness(gram_of(layers), about_mean=about_mean, equal_sizes=equal).effective_entries
        for equal in (True, False)
    ]
    assert 400 < counts[0] <= 576
    assert counts[1] < 100  # the control: sizes that differ pass for few entries


def test_one_long_series_is_no_index_near_one() -> None:
    """There the score of one entry sees the sum of layers only, and rejects nothing."""
    found = roughness(gram_of(fractional(0.2, 120, 1, 0.0, seed=1)))
    assert found.interval[0] < 0.2 < found.interval[1] < 0.5


def test_contrasts_are_orthonormal_and_lose_means_only() -> None:
    basis = module.contrasts((0, 1, 0, 0, 1, 2))
    assert basis.shape == (6, 3)
    np.testing.assert_allclose(basis.T @ basis, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(basis.T @ [5.0, 7.0, 5.0, 5.0, 7.0, 1.0], 0.0, atol=1e-12)


def test_blocks_of_long_stacks_keep_their_groups() -> None:
    """Groups change within the second of three blocks; layers of a block that are alone are left out."""
    groups = (0,) * 150 + (1,) * 150
    layers = np.random.default_rng(2).standard_normal((300, 60))
    layers[150:] += 5 * np.random.default_rng(3).standard_normal(60)
    found = roughness(LayerGram(layers @ layers.T / 60, 60, groups), about_mean=True)
    assert abs(found.hurst - 0.5) < 4.5 * 0.0065


def test_sizes_of_few_entries_do_not_draw_the_index_to_a_half() -> None:
    """Cosines of 100 entries are too small by .5 %, which is .0017 in the index; five standard errors."""
    apart = []
    for seed in range(40):
        layers = fractional(0.25, 64, 10, 0.0, seed=seed)
        gram = LayerGram(layers @ layers.T / 100, 100)
        apart.append(roughness(gram, equal_sizes=True).hurst - roughness(gram).hurst)
    assert abs(np.mean(apart)) < 5 * np.std(apart) / len(apart) ** 0.5
    assert np.std(apart) / len(apart) ** 0.5 < 0.0003


@pytest.mark.parametrize("index", [0.1, 0.25])
def test_layers_of_one_entry_are_not_divided_by_it(index: float) -> None:
    """Signs of fractional noise of index 0.1 read as 0.26. Means of 16 networks have 0.013: level 1e-5."""
    layers = (fractional(index, 250, 1, 0.0, seed)[:, :, None] for seed in range(16))
    weights = [MeasuredWeight.of(Stack("A", torch.from_numpy(each))) for each in layers]
    found = sweep._roughness(weights, Slope.of(lambda level: 0.0, 0.95), 0.95)
    assert found.value == pytest.approx(index, abs=0.06)
