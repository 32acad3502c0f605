"""Layers of hidden units: as many as the depth asks for, standard normal, separate at every depth."""

import pytest
import torch
from scipy import stats

import deeplimit as dl
from deeplimit.driving import check_depths, layers_of
from deeplimit.driving.hidden_units import units
from deeplimit.driving.path import Grid


def layers(law, depth, seed=0, inputs=2, paths=3):
    stream = torch.Generator().manual_seed(seed)
    return layers_of(law, depth, (inputs,), paths, stream, torch.float64)


@pytest.mark.parametrize(("ratio", "count"), [(1.0, 8), (0.5, 16), (2.0, 4), (0.1, 80)])
def test_the_number_of_units_grows_with_the_depth(ratio, count):
    law = dl.HiddenUnits(ratio)
    assert (units(8, ratio), units(16, ratio)) == (count, 2 * count)
    assert [layer.values.shape for layer in layers(law, 8)] == [(3, count, 2)] * 8


@pytest.mark.statistical
def test_units_are_independent_standard_normal_numbers():
    """Level 1e-5 for the law, 1e-5 for the correlation of neighbours, of layers and of inputs."""
    drawn = torch.stack([layer.values for layer in layers(dl.HiddenUnits(0.5), 16, paths=20)])
    assert stats.kstest(drawn.flatten().numpy(), "norm").pvalue > 1e-5
    for dimension in range(4):
        count = drawn.shape[dimension] // 2 * 2
        first, second = drawn.narrow(dimension, 0, count).unflatten(dimension, (-1, 2)).unbind(dimension + 1)
        assert stats.pearsonr(first.flatten(), second.flatten()).pvalue > 1e-5, dimension


def test_a_path_that_is_rewound_is_the_same_again():
    stream = torch.Generator().manual_seed(1)
    path = dl.HiddenUnits().path((3,), Grid((4, 8)), 2, stream, torch.float32)
    once = [path.layer(j).values for j in (1, 0, 1)]
    path.rewind()
    again = [path.layer(j).values for j in (1, 0, 1)]
    assert all(torch.equal(one, two) for one, two in zip(once, again, strict=True))
    assert [values.shape for values in once] == [(2, 8, 3), (2, 4, 3), (2, 8, 3)]


def test_depths_that_give_no_whole_number_of_units_are_refused():
    with pytest.raises(ValueError, match=r"multiples of depth_to_width=0\.3; got 8, which has 26\.6667"):
        dl.compare_laws(dl.shaped_mlp(2, depth_to_width=0.3), depths=[8, 16, 32], draws=200)
    with pytest.raises(ValueError, match="has 0\\.5 hidden units"):
        check_depths(dl.HiddenUnits(16.0), (2,), (8,))
