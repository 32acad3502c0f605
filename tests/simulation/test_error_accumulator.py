"""What an accumulator keeps of given states, number by number, and moments of nearly equal errors."""

import dataclasses
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from runs import task_of
from scipy import stats

import deeplimit as dl
from deeplimit.simulation import CoupledErrors
from deeplimit.simulation.moments import (
    COMMON,
    GAP_COMMON,
    GAP_LAYERS,
    LAYERS,
    SCHEME_COMMON,
    SCHEME_LAYERS,
    Columns,
    ErrorAccumulator,
    Moments,
)


@dataclass(frozen=True)
class PerLayer(dl.Statistic):
    """The sum of distances, each over the number of its layer."""

    name = "per layer"
    looks_between_layers = True

    def fold(self, kept, distance, count):
        return kept + distance / count


def state(value):
    return torch.full((1, 1), value, dtype=torch.float64)


def accumulator(**facts):
    task = {"measures_reference": False, "splits": False, "keeps_products": False, **facts}
    task = {"keeps_differences": False, **task}
    places = {"device": torch.device("cpu"), "grid": SimpleNamespace(depths=(2,))}
    return ErrorAccumulator(SimpleNamespace(statistic=PerLayer(), **places, **task), state(0.0))


def test_a_distance_between_layers_counts_for_the_layer_that_has_not_ended():
    kept = accumulator()
    kept.at(state(1.0), None, False)
    kept.between(0, state(0.0))  # a quarter of the way: 1, in layer 1
    kept.at(state(2.0), None, True)
    kept.between(0, state(0.0))  # just before layer 1 ends: 2
    kept.layer(0, state(5.0))  # it has ended: 3
    kept.at(state(9.0), None, False)
    kept.between(0, state(5.0))  # in layer 2: 4/2
    kept.at(state(9.0), None, True)
    kept.between(0, state(5.0))  # 4/2
    kept.layer(0, state(8.0))  # 1/2
    assert kept.errors().tolist() == [[1.0 + 2.0 + 3.0 + 2.0 + 2.0 + 0.5, 3.0 + 0.5]]


def test_an_error_is_split_at_the_limits_own_scheme():
    kept = accumulator(splits=True)
    kept.at(state(5.0), None, True)
    kept.layer(0, state(1.0), state(3.5))
    kept.at(state(6.0), None, False)
    kept.layer(0, state(2.0), state(3.0))
    columns = Columns(1, (LAYERS, COMMON, SCHEME_LAYERS, SCHEME_COMMON, GAP_LAYERS, GAP_COMMON))
    errors = kept.errors()[0].numpy()
    blocks = [errors[columns.at(block)].item() for block in columns.blocks]
    assert blocks == [4.0 + 4.0 / 2, 4.0, 1.5 + 3.0 / 2, 1.5, 2.5 + 1.0 / 2, 2.5]


def test_products_of_differences_are_averaged_over_the_common_times():
    kept = accumulator(keeps_products=True)
    for limit, own, is_common in ((1.0, 4.0, True), (2.0, 9.0, False), (3.0, 4.0, True)):
        kept.at(state(limit), None, is_common)
        kept.layer(0, state(own))
    assert kept.products.item() / kept.times == (3.0**2 + 1.0**2) / 2


@dataclass(frozen=True)
class RootMeanSquare(dl.Statistic):
    """The root of the mean squared distance over the times."""

    name = "root mean square"

    def fold(self, kept, distance, count):
        return ((kept**2 * (count - 1) + distance**2) / count).sqrt()


def test_products_are_means_over_times_and_inputs_and_sums_over_all_paths():
    """Those of one depth with itself are mean squared errors; the others are no larger than both."""
    x = torch.randn(2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    network = dl.res1(2, "tanh", weights=dl.SmoothGaussian())
    given = {"depths": (2, 4, 8), "norm": RootMeanSquare(), "paths": 300, "same_network": True}
    task = dataclasses.replace(task_of(network, x=x, **given), block_size=128)
    assert task.blocks > 1
    moments = dl.measure(CoupledErrors(task), workers=1).moments
    squares = np.exp(2 * moments.log_errors()[Columns.of(task).at(COMMON)])
    products = moments.products / moments.count
    np.testing.assert_allclose(np.diag(products), squares)
    assert (products <= np.sqrt(np.outer(squares, squares)) * (1 + 1e-12)).all()
    assert products[0, 1] > products[1, 1] > products[1, 2] > products[2, 2]


def test_two_solutions_are_compared_at_common_times_and_at_all_times():
    kept = accumulator(measures_reference=True)
    for limit, coarse, is_common in ((1.0, 1.5, True), (2.0, 9.0, False), (3.0, 4.0, True)):
        kept.at(state(limit), state(coarse), is_common)
    common, everywhere = kept.errors()[0, -2:].tolist()
    assert common == 0.5 / 1 + 1.0 / 2
    assert everywhere == 7.0


@pytest.mark.parametrize("spread", [1e-1, 1e-3, 1e-5])
def test_nearly_equal_errors_have_the_kurtosis_of_their_differences(spread):
    errors = 1.0 + spread * np.random.default_rng(0).uniform(size=(500, 2))
    errors[:, 1] = 0.7  # one and the same on every path
    varies, constant = Moments.of(errors, 1.0).kurtosis()
    assert varies == pytest.approx(stats.kurtosis(errors[:, 0], fisher=False), rel=1e-5)
    assert constant == 0.0


@pytest.mark.parametrize("second", [[0.0, 0.0], [100.0, 100.0], [3e-160, 1e-160]])
@pytest.mark.parametrize("first", [[1e-160, 2e-160], [1.0, 2.0], [0.0, 0.0]])
def test_merged_moments_are_those_of_all_errors_whatever_the_scales(first, second):
    """Blocks whose errors vanish, are all alike, or are so small that their squares are no numbers."""
    merged = Moments.of(np.array([first]).T, 2.0).merge(Moments.of(np.array([second]).T, 2.0))
    errors = np.array([*first, *second])
    largest = errors.max()
    assert merged.worst() == largest
    with np.errstate(divide="ignore"):
        expected = np.log(largest) + np.log(np.mean((errors / (largest or 1.0)) ** 2)) / 2
    assert merged.log_errors() == pytest.approx(expected, rel=1e-12)
