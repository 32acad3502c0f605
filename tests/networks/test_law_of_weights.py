"""Weights filled by `dl.init` have the covariance across layers, the size and the independence that they are
said to have.
"""

import math

import numpy as np
import pytest
import torch
from filled import BY_NAME, ENTRIES, FAN_IN, LAWS, LAYERS, covariance, empty, farthest, fourth, stacked
from hypothesis import given, strategies as st
from scipy import stats

import deeplimit as dl
from deeplimit.driving import critical_exponent
from deeplimit.networks.initialise import filling

LEVEL = 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize("law", LAWS, **BY_NAME)
def test_every_pair_of_layers_has_the_covariance_of_the_law(law):
    weights = empty()
    done = dl.init.sample_(weights, law, seed=1)
    scale = LAYERS ** -critical_exponent(law) / math.sqrt(FAN_IN)
    assert done.standard_deviation == pytest.approx(scale, rel=1e-12)
    values = stacked(weights, scale)
    assert farthest(values, covariance(law), fourth(law)) < stats.norm.isf(LEVEL)
    assert np.abs(values.mean(axis=1)).max() < 6 / math.sqrt(ENTRIES)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("law", "assumed", "exponent"),
    [
        (dl.FractionalBrownian(0.7), dl.FractionalBrownian(0.72), 0.7),
        (dl.FractionalBrownian(0.3), dl.FractionalBrownian(0.5), 0.5),
        (dl.SmoothGaussian(0.1), dl.SmoothGaussian(0.103), 1.0),
        (dl.Brownian(), dl.FractionalBrownian(0.53), 0.5),
        (dl.Brownian(), dl.Brownian(), 0.51),
        (dl.SmoothGaussian(0.1), dl.SmoothGaussian(0.1), 0.99),
    ],
)
def test_another_law_or_exponent_would_be_noticed(law, assumed, exponent):
    weights = empty()
    dl.init.sample_(weights, law, seed=1)
    values = stacked(weights, LAYERS**-exponent / math.sqrt(FAN_IN))
    assert farthest(values, covariance(assumed)) > stats.norm.isf(LEVEL)


def linear_map(monkeypatch, law, layers):
    """Return the matrix that takes the sampler's normals to one entry's layers: entry j is drawn from the
    j-th unit vector.

    Every sampler keeps its entries along the second axis of what it draws.
    """
    counted = []

    def normals(tensor, *_, generator=None, **__):
        across = tensor.movedim(1, 0)
        counted.append(across[0].numel())
        return tensor.copy_(
            torch.eye(len(across), counted[-1], dtype=tensor.dtype).reshape(across.shape).movedim(0, 1)
        )

    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "normal_", normals)
        dl.init.sample_(empty(layers, (1, 1), torch.float64), law, seed=0)
        weights = empty(layers, (max(counted), 1), torch.float64)
        done = dl.init.sample_(weights, law, seed=0)
    assert len(weights[0]) == counted[-1]
    return stacked(weights, done.standard_deviation)


@pytest.mark.parametrize("layers", [8, 24, 97])
@pytest.mark.parametrize("law", [law for law in LAWS if not isinstance(law, dl.IID)], **BY_NAME)
def test_the_map_from_normals_to_layers_has_exactly_the_covariance(monkeypatch, law, layers):
    matrix = linear_map(monkeypatch, law, layers)
    np.testing.assert_allclose(matrix @ matrix.T, covariance(law, layers), rtol=0, atol=1e-10)


def correlations(first, second):
    return float(np.abs((first * second).mean() / (first.std() * second.std())) * math.sqrt(first.size))


@pytest.mark.statistical
@pytest.mark.parametrize(
    "law", [dl.Brownian(), dl.IID("rademacher"), dl.SmoothGaussian(), dl.FractionalBrownian(0.8)], **BY_NAME
)
def test_entries_are_independent_of_each_other_within_a_tile_and_from_tile_to_tile(monkeypatch, law):
    size = 5000
    monkeypatch.setattr(filling, "NUMBERS_AT_ONCE", LAYERS * size)
    weights = empty()
    dl.init.sample_(weights, law, seed=3)
    values = stacked(weights)[:, : ENTRIES // size * size]
    # Neighbours in a row, in a column, and the same place of the next tiles.
    for shift in (1, 2, FAN_IN, size, 2 * size):
        moved = np.roll(values, shift, axis=1)
        for i, j in ((0, 0), (3, 3), (0, 1), (0, LAYERS - 1)):
            # Neighbouring products are uncorrelated, as the entries are independent, so the mean has the
            # usual error.
            assert correlations(values[i], moved[j]) < stats.norm.isf(LEVEL), (shift, i, j)


@pytest.mark.statistical
def test_tiles_that_repeat_each_other_would_be_noticed(monkeypatch):
    size = 5000
    monkeypatch.setattr(filling, "NUMBERS_AT_ONCE", LAYERS * size)
    once = filling.generator
    monkeypatch.setattr(filling, "generator", lambda seed, purpose, tile, role: once(seed, purpose, 0, role))
    weights = empty()
    dl.init.iid_(weights)
    values = stacked(weights)[:, : ENTRIES // size * size]
    assert correlations(values[0], np.roll(values, size, axis=1)[0]) > stats.norm.isf(LEVEL)


@pytest.mark.statistical
def test_marginals_are_of_the_named_law():
    values = {}
    for law in ("gaussian", "uniform", "rademacher"):
        weights = empty(dtype=torch.float64)
        done = dl.init.iid_(weights, law=law)
        values[law] = weights[2].reshape(-1).numpy() / done.standard_deviation
    assert stats.kstest(values["gaussian"], "norm").pvalue > LEVEL
    assert stats.kstest(values["uniform"], stats.uniform(-math.sqrt(3), 2 * math.sqrt(3)).cdf).pvalue > LEVEL
    np.testing.assert_allclose(np.abs(values["rademacher"]), 1.0, rtol=1e-12)
    assert stats.kstest(values["uniform"], "norm").pvalue < LEVEL


@given(
    law=st.sampled_from(LAWS),
    layers=st.integers(2, 40),
    shape=st.sampled_from([(3, 5), (1, 1), (4, 2, 3), (2, 3, 2, 2), (7, 1)]),
    tile=st.integers(1, 60),
    seed=st.integers(0, 2**40),
)
def test_a_seed_means_the_same_weights_again(law, layers, shape, tile, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filling, "NUMBERS_AT_ONCE", tile)
        first, second, other = (empty(layers, shape) for _ in range(3))
        dl.init.sample_(first, law, seed=seed)
        dl.init.sample_(second, law, seed=seed)
        dl.init.sample_(other, law, seed=seed + 1)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert all(bool(torch.isfinite(weight).all()) for weight in first)
    if not isinstance(law, dl.IID):
        assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.statistical
@pytest.mark.parametrize("tile", [1, 8, 24 * 8])
def test_whatever_the_size_of_a_tile_the_covariance_is_exact(monkeypatch, tile):
    monkeypatch.setattr(filling, "NUMBERS_AT_ONCE", tile)  # 1: fewer than the layers
    law = dl.FractionalBrownian(0.8)
    weights = empty(8, (60, 50))
    dl.init.sample_(weights, law, seed=5)
    assert farthest(stacked(weights, 8**-0.8 / math.sqrt(50)), covariance(law)) < stats.norm.isf(LEVEL)
