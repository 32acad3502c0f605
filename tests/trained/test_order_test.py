"""The permutation test holds its level where layers are alike, and sees order where there is one."""

import itertools

import numpy as np
import pytest

from deeplimit.trained.diagnosis.layer_gram import LayerGram, cosines
from deeplimit.trained.diagnosis.order_test import order_test


def gram_of(layers: np.ndarray, groups: tuple[int, ...] = ()) -> LayerGram:
    return LayerGram(layers @ layers.T / layers.shape[1], layers.shape[1], groups)


def test_p_values_are_those_of_all_permutations() -> None:
    layers = np.random.default_rng(2).standard_normal((6, 5)) + np.linspace(-1, 1, 6)[:, None]
    gram = gram_of(layers)
    cosine = cosines(gram)
    found = order_test(gram, permutations=40_000)
    orders = np.array(list(itertools.permutations(range(6))))
    chance = cosine[orders[:, :-1], orders[:, 1:]].mean(axis=1)
    exact = np.mean(chance >= found.likeness - 1e-12)
    assert abs(found.p_smooth - exact) < 4.5 * np.sqrt(exact * (1 - exact) / 40_000) + 1e-4  # level 1e-5
    assert found.by_chance == pytest.approx(np.mean(chance), abs=1e-12)


def test_permutations_stay_within_groups() -> None:
    """All orders within groups, enumerated; neighbours are those among layers of one group."""
    groups = (3, 1, 3, 1, 1, 3)
    layers = np.random.default_rng(3).standard_normal((6, 4))
    gram = gram_of(layers, groups)
    cosine = cosines(gram)
    first, second = [0, 2, 5], [1, 3, 4]
    chance = [
        (cosine[a[0], a[1]] + cosine[a[1], a[2]] + cosine[b[0], b[1]] + cosine[b[1], b[2]]) / 4
        for a in itertools.permutations(first)
        for b in itertools.permutations(second)
    ]
    found = order_test(gram, permutations=40_000)
    exact = np.mean(np.array(chance) <= found.likeness + 1e-12)
    assert found.likeness == pytest.approx(chance[0])
    assert abs(found.p_rough - exact) < 4.5 * np.sqrt(exact * (1 - exact) / 40_000) + 1e-4
    assert found.by_chance == pytest.approx(np.mean(chance), abs=1e-12)


def rejections(layers_of: object, groups: tuple[int, ...] = (), repeats: int = 400) -> float:
    generator = np.random.default_rng(11)
    drawn = (layers_of(generator) for _ in range(repeats))  # type: ignore[operator]
    return float(np.mean([order_test(gram_of(x, groups), permutations=199).p_smooth <= 0.05 for x in drawn]))


def spikes(generator: np.random.Generator) -> np.ndarray:
    return generator.standard_normal((12, 64)) + 2.0 * generator.standard_normal(64)


def kinds(generator: np.random.Generator) -> np.ndarray:
    return generator.standard_normal((12, 64)) + np.repeat(generator.standard_normal((2, 64)), 6, axis=0)


@pytest.mark.statistical
def test_the_level_holds_where_layers_share_spikes_or_kinds() -> None:
    """At most 38 of 400 at level .05, but with probability 1e-4; free permutations of kinds reject all."""
    assert rejections(spikes) <= 38 / 400
    assert rejections(kinds, (0,) * 6 + (1,) * 6) <= 38 / 400
    assert rejections(kinds, repeats=50) > 0.9  # the control


def test_scale_of_layers_and_rotations_of_entries_change_nothing() -> None:
    layers = np.random.default_rng(5).standard_normal((9, 30)).cumsum(axis=0)
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((30, 30)))[0]
    scaled = layers @ turn * np.geomspace(1e-3, 1e3, 9)[:, None]
    assert order_test(gram_of(layers)).p_smooth == order_test(gram_of(scaled)).p_smooth


def test_equal_layers_are_not_ordered() -> None:
    found = order_test(LayerGram(np.ones((8, 8)), 5))
    assert found.p_smooth == found.p_rough == found.p_value == 1.0
