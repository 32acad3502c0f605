"""Moments under random rotations, against rotations that are drawn."""

import numpy as np
import pytest
from scipy import stats

from deeplimit.trained.diagnosis import rotations


@pytest.mark.statistical
@pytest.mark.parametrize("entries", [1, 3, 40])
def test_moments_are_those_of_drawn_rotations(entries: int) -> None:
    generator = np.random.default_rng(entries)
    layers = generator.standard_normal((6, entries))
    gram = layers @ layers.T / entries
    weights = np.diag(np.arange(6) ** 2.0)
    weights[0, 1] = weights[1, 0] = 4.0
    weights -= np.trace(weights) / 6 * np.eye(6)
    turns = stats.ortho_group.rvs(6, size=20_000, random_state=generator)
    drawn = np.einsum("nij,jk,nlk,il->n", turns, gram, turns, weights, optimize=True)
    variance, third = rotations.moments(weights, gram[None])
    for power, expected in ((1, 0.0), (2, variance), (3, third)):
        values = drawn**power
        error = values.std() / np.sqrt(len(values))
        assert abs(values.mean() - expected) < 4.5 * error  # level 1e-5


def test_moments_of_several_blocks_add_up() -> None:
    generator = np.random.default_rng(2)
    weights = np.diag([2.0, -1.0, -1.0, 0.0])
    grams = np.stack([layers @ layers.T for layers in generator.standard_normal((3, 4, 5))])
    apart = np.array([rotations.moments(weights, gram[None]) for gram in grams])
    np.testing.assert_allclose(rotations.moments(weights, grams), apart.sum(axis=0), rtol=1e-12)


def test_effective_entries_count_a_spectrum() -> None:
    """(tr Ω)²/tr Ω² is 4 for four equal variances among a thousand that are zero."""
    generator = np.random.default_rng(3)
    layers = generator.standard_normal((400, 4)) @ generator.standard_normal((4, 4))
    values = np.linalg.eigvalsh(np.cov(layers.T))
    gram = layers @ layers.T
    exact = values.sum() ** 2 / np.square(values).sum()
    assert rotations.effective_entries(gram[None], 1000) == pytest.approx(exact, rel=0.02)
    assert rotations.effective_entries(np.eye(5)[None], 7) == 7.0  # as many as there are, at most


def test_layers_of_equal_size_show_less_scatter_by_a_known_factor() -> None:
    generator = np.random.default_rng(4)
    layers = generator.standard_normal((400, 8, 60))
    layers /= np.linalg.norm(layers, axis=2)[:, :, None]
    counted = rotations.effective_entries(layers @ layers.transpose(0, 2, 1), 10**6)
    assert counted / rotations.spread_lost(8) == pytest.approx(60, rel=0.04)


def test_normal_scores_are_quantiles_of_the_gamma_law() -> None:
    for skewness in (-1.5, -0.2, 0.4, 2.0):
        for deviation in (-0.9, 0.3, 2.5):
            expected = stats.norm.ppf(stats.pearson3.cdf(deviation, skewness))
            assert rotations.normal_score(deviation, skewness) == pytest.approx(expected, abs=1e-6)
    assert rotations.normal_score(-2.0, 2.0) == -np.inf
    assert rotations.normal_score(2.0, -2.0) == np.inf
