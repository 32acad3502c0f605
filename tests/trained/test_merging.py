"""Errors of merged and interpolated layers are those of the layers themselves."""

import numpy as np
import pytest
import torch

from deeplimit.trained.diagnosis.layer_gram import LayerGram
from deeplimit.trained.diagnosis.merging import merging
from deeplimit.trained.diagnosis.stacks import Stack


def layers(depth=12, entries=4000, noise=1.0, seed=0):
    """Return a trend that turns slowly, with independent noise."""
    stream = torch.Generator().manual_seed(seed)
    first, second = torch.randn(2, entries, generator=stream, dtype=torch.float64)
    angles = 0.3 * torch.arange(depth, dtype=torch.float64)[:, None]
    rough = torch.randn(depth, entries, generator=stream, dtype=torch.float64)
    return first * angles.cos() + second * angles.sin() + noise * rough


def test_errors_are_those_of_the_layers():
    values = layers()
    found = merging(LayerGram.of(Stack("A", values)))
    for k in range(11):
        mean = (values[k] + values[k + 1]) / 2
        error = (values[k] - mean).square().sum() + (values[k + 1] - mean).square().sum()
        assert found.pairs[k] == pytest.approx(float(error / values[k : k + 2].square().sum()), rel=1e-9)
    for k in range(1, 11):
        error = (values[k] - (values[k - 1] + values[k + 1]) / 2).square().sum()
        assert found.inside[k - 1] == pytest.approx(float(error / values[k].square().sum()), rel=1e-9)


def test_the_cheapest_pairs_are_named_first():
    values = layers(noise=1.0)
    values[5] = values[4] + 0.01 * values[5]
    values[9] = values[8] + 0.1 * values[9]
    assert merging(LayerGram.of(Stack("A", values))).cheapest(2) == (4, 8)


def test_layers_that_add_nothing_have_no_error():
    found = merging(LayerGram(np.zeros((5, 5)), 3))
    assert (found.pairs == 0).all()
    assert (found.inside == 0).all()
