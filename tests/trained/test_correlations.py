"""Correlations at all lags: exact tests, and three answers that stay apart."""

import itertools
import math

import numpy as np
import pytest

from deeplimit.trained.diagnosis.correlations import Evidence, LagCorrelations, answer, lag_correlations
from deeplimit.trained.diagnosis.hurst import Roughness, roughness
from deeplimit.trained.diagnosis.layer_gram import LayerGram, cosines
from deeplimit.trained.diagnosis.order_test import OrderTest, order_test


def gram_of(layers: np.ndarray, groups: tuple[int, ...] = ()) -> LayerGram:
    return LayerGram(layers @ layers.T / layers.shape[1], layers.shape[1], groups)


def test_means_are_those_of_all_pairs_at_a_lag_within_groups() -> None:
    groups = (0, 0, 1, 0, 1, 1)
    gram = gram_of(np.random.default_rng(1).standard_normal((6, 9)), groups)
    found, cosine = lag_correlations(gram, 25.0), cosines(gram)
    for lag, mean, error in zip(found.lags, found.means, found.errors, strict=True):
        pairs = [(k, k + lag) for k in range(6 - lag) if groups[k] == groups[k + lag]]
        assert mean == pytest.approx(np.mean([cosine[pair] for pair in pairs]))
        assert error == pytest.approx(1 / math.sqrt(25 * len(pairs)))
    assert found.lags.tolist() == [1, 2, 3]


def test_coherence_is_the_square_of_the_sum_of_equal_layers() -> None:
    layers = np.random.default_rng(2).standard_normal((7, 30))
    layers /= np.linalg.norm(layers, axis=1)[:, None]
    found = lag_correlations(gram_of(layers), 30.0)
    assert found.coherence == pytest.approx(np.square(layers.sum(axis=0)).sum() / 7)


def test_the_p_value_is_that_of_all_signs() -> None:
    layers = np.random.default_rng(3).standard_normal((6, 8)) + 0.4
    gram = gram_of(layers)
    cosine = cosines(gram)
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=6)))
    sums = np.einsum("nk,kl,nl->n", signs, cosine, signs)
    exact = np.mean(sums >= sums[-1] - 1e-12)
    found = lag_correlations(gram, 8.0).p_common
    assert abs(found - exact) < 4.5 * math.sqrt(exact * (1 - exact) / 1999) + 1e-3  # level 1e-5


@pytest.mark.statistical
def test_shared_directions_with_random_signs_are_no_common_part() -> None:
    """Spikes of one direction in all layers, signs random: 38 of 400 at level .05, with probability 1e-4."""
    generator = np.random.default_rng(4)
    rejected = 0
    for _ in range(400):
        layers = 5 * generator.standard_normal((12, 1)) * generator.standard_normal(40)
        layers += generator.standard_normal((12, 40))
        rejected += lag_correlations(gram_of(layers), 10.0).p_common <= 0.05
    assert rejected <= 38


def seen(layers: np.ndarray, groups: tuple[int, ...] = ()) -> Evidence:
    gram = gram_of(layers, groups)
    about_mean = roughness(gram, about_mean=True)
    return Evidence(lag_correlations(gram, about_mean.effective_entries), order_test(gram), about_mean)


def test_three_answers_stay_apart_where_lag_one_is_the_same() -> None:
    """Cosine 0.5 of neighbours by a common part, and by H = 0.79."""
    generator = np.random.default_rng(5)
    noise = generator.standard_normal((16, 2000))
    rough = noise.copy()
    for k in range(1, 16):
        rough[k] = 0.5 * rough[k - 1] + math.sqrt(0.75) * noise[k]
    common = math.sqrt(0.5) * (noise + generator.standard_normal(2000))
    assert answer(seen(noise)).code == "none"
    assert answer(seen(common)).code == "constant"
    assert answer(seen(rough)).code == "decaying"
    for layers in (common, rough):
        assert seen(layers).lags.means[0] == pytest.approx(0.5, abs=0.03)


def test_layers_that_are_merely_of_a_kind_are_no_trend() -> None:
    generator = np.random.default_rng(6)
    kinds = np.repeat(generator.standard_normal((2, 800)), 8, axis=0) + generator.standard_normal((16, 800))
    assert answer(seen(kinds)).code == "decaying"  # the control
    assert answer(seen(kinds, (0,) * 8 + (1,) * 8)).code == "constant"


def evidence(p_value: float, interval: tuple[float, float], p_common: float, coherence: float) -> Evidence:
    lags = LagCorrelations(np.array([1]), np.zeros(1), np.ones(1), 0.01, 0.1, p_common, coherence, 0.3)
    order = OrderTest(0.3, 0.1, p_value / 2, 1 - p_value / 2, 9999)
    return Evidence(lags, order, Roughness(0.5, interval, 0.95, 30.0, None))


def test_what_is_not_seen_is_not_called_absent() -> None:
    assert answer(evidence(0.2, (0.45, 0.63), 0.001, 5.0)).code == "cannot tell"
    assert answer(evidence(0.2, (0.37, 0.55), 0.5, 1.0)).code == "cannot tell"
    assert answer(evidence(0.2, (0.45, 0.55), 0.5, 1.5)).code == "cannot tell"
    assert answer(evidence(0.2, (0.45, 0.55), 0.5, 1.1)).code == "none"
    assert answer(evidence(0.2, (0.45, 0.55), 0.001, 1.1)).code == "constant"
    assert answer(evidence(0.015, (0.45, 0.55), 0.001, 1.1)).code == "cannot tell"
    assert answer(evidence(0.002, (0.45, 0.55), 0.001, 1.1)).code == "decaying"
